//! Migration of an image, recorded in the headers of source and destination. A source of format 1 is marked
//! by the text at its beginning, others by a feature.

use super::{features, keys};
use crate::method::{Method, methods};
use crate::object::{ObjectContext, Result};
use crate::omap;
use bytes::Bytes;
use types::{Errno, MigrationSpec};

pub(super) const METHODS: &[Method] = methods! {
    "migration_set": READ_WRITE => set,
    "migration_set_state": READ_WRITE => set_state,
    "migration_get": READ => get,
    "migration_remove": READ_WRITE => remove,
};

const OLD_TEXT: &[u8; 34] = b"<<< Rados Block Device Image >>>\n\0";
const OLD_TEXT_MIGRATING: &[u8; 34] = b"<<< Migrating RBD Image      >>>\n\0";

/// Format of the header.
enum Header {
    Old { migrating: bool },
    New { features: u64 },
}

/// ENXIO if it is none.
fn header(object: &mut dyn ObjectContext) -> Result<Header> {
    if let Some(features) = omap::get(object, keys::FEATURES)? {
        return Ok(Header::New { features });
    }
    let text = object.read(0, OLD_TEXT.len() as u64)?;
    match &text[..] {
        text if text == OLD_TEXT => Ok(Header::Old { migrating: false }),
        text if text == OLD_TEXT_MIGRATING => Ok(Header::Old { migrating: true }),
        _ => Err(Errno::NXIO.into()),
    }
}

/// Without the terminating zero, as the header's text is written.
fn write_text(object: &mut dyn ObjectContext, text: &'static [u8]) -> Result<()> {
    object.write(0, Bytes::from_static(&text[..text.len() - 1]))
}

fn set(object: &mut dyn ObjectContext, migration: MigrationSpec) -> Result<()> {
    if omap::contains(object, keys::MIGRATION)? {
        return Err(Errno::EXIST.into());
    }
    match header(object)? {
        Header::Old { migrating: true } => return Err(Errno::EXIST.into()),
        Header::Old { migrating: false } if migration.header_type != MigrationSpec::SOURCE => {
            return Err(Errno::INVAL.into());
        }
        Header::Old { migrating: false } => write_text(object, OLD_TEXT_MIGRATING)?,
        Header::New { features } if features & features::MIGRATING == 0 => {
            omap::set(object, keys::FEATURES, &(features | features::MIGRATING))?;
        }
        // A destination is created with the feature.
        Header::New { .. } if !migration.is_destination() => {
            return Err(Errno::EXIST.into());
        }
        Header::New { .. } => {}
    }
    omap::set(object, keys::MIGRATION, &migration)
}

/// EINVAL if the image is not being migrated.
fn get(object: &mut dyn ObjectContext, (): ()) -> Result<MigrationSpec> {
    let migrating = match header(object)? {
        Header::Old { migrating } => migrating,
        Header::New { features } => features & features::MIGRATING != 0,
    };
    if !migrating {
        return Err(Errno::INVAL.into());
    }
    omap::require(object, keys::MIGRATION)
}

fn set_state(object: &mut dyn ObjectContext, (state, description): (u8, Bytes)) -> Result<()> {
    let migration = get(object, ())?;
    let changed = MigrationSpec { state, state_description: description, ..migration };
    omap::set(object, keys::MIGRATION, &changed)
}

fn remove(object: &mut dyn ObjectContext, (): ()) -> Result<()> {
    let header = header(object)?;
    omap::discard(object, keys::MIGRATION)?;
    match header {
        Header::Old { migrating: false } => Err(Errno::INVAL.into()),
        Header::Old { migrating: true } => write_text(object, OLD_TEXT),
        Header::New { features } if features & features::MIGRATING != 0 => {
            omap::set(object, keys::FEATURES, &(features & !features::MIGRATING))
        }
        Header::New { .. } => Ok(()),
    }
}
