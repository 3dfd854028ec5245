//! Migration of an image.

use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use std::collections::BTreeMap;

/// `MigrationSpec`: the state of a migration in the header of either end, with the name of the other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationSpec {
    /// The end in whose header this stands: [`MigrationSpec::SOURCE`] or [`MigrationSpec::DESTINATION`].
    pub header_type: u8,
    /// The pool of the other end.
    pub pool: i64,
    /// The RADOS namespace of the other end; empty for the default one.
    pub namespace: Bytes,
    /// The image name of the other end, under which a source of format 1 is found.
    pub image_name: Bytes,
    /// Image id; empty for a source of format 1.
    pub image: Bytes,
    /// Snapshots of the source and their ids in the target.
    pub sequences: BTreeMap<u64, u64>,
    /// Bytes of the target, from its beginning, for which the source has data.
    pub overlap: u64,
    /// Whether the target has to be flattened: it shall not stay a clone of the source's parent.
    pub flatten: bool,
    /// Whether mirroring was enabled and has to be enabled again at the end.
    pub mirroring: bool,
    /// State of the migration (`MIGRATION_STATE_*`).
    pub state: u8,
    /// Text for users that goes with the state.
    pub state_description: Bytes,
    /// Mode of mirroring to restore (`MirrorImageMode`).
    pub mirror_mode: u8,
    /// Specification of a source outside of this cluster.
    pub source: Bytes,
}

impl MigrationSpec {
    /// `MIGRATION_HEADER_TYPE_SRC`: in the header of the source.
    pub const SOURCE: u8 = 1;
    /// `MIGRATION_HEADER_TYPE_DST`
    pub const DESTINATION: u8 = 2;

    /// True in the header of the image that data is copied to.
    pub fn is_destination(&self) -> bool {
        self.header_type == Self::DESTINATION
    }
}

impl Encode for MigrationSpec {
    fn encode(&self, w: &mut Writer) {
        let compat = if self.source.is_empty() { 1 } else { 3 };
        w.versioned(3, compat, |w| {
            w.u8(self.header_type);
            w.i64(self.pool);
            w.value(&self.namespace);
            w.value(&self.image_name);
            w.value(&self.image);
            w.value(&self.sequences);
            w.u64(self.overlap);
            w.bool(self.flatten);
            w.bool(self.mirroring);
            w.u8(self.state);
            w.value(&self.state_description);
            w.u8(self.mirror_mode);
            w.value(&self.source);
        });
    }
}

impl Decode for MigrationSpec {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("migration", 3, |r, version| {
            Ok(MigrationSpec {
                header_type: r.u8("header type")?,
                pool: r.i64("pool")?,
                namespace: r.value()?,
                image_name: r.value()?,
                image: r.value()?,
                sequences: r.value()?,
                overlap: r.u64("overlap")?,
                flatten: r.bool("flatten")?,
                mirroring: r.bool("mirroring")?,
                state: r.u8("state")?,
                state_description: r.value()?,
                mirror_mode: if version >= 2 { r.u8("mirror mode")? } else { 0 },
                source: if version >= 3 { r.value()? } else { Bytes::new() },
            })
        })
    }
}
