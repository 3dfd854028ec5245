//! What is done with images as wholes, each as a [`Task`].

mod children;
mod clone;
#[cfg(test)]
mod clone_tests;
mod create;
mod features;
mod migrate;
#[cfg(test)]
mod migrate_tests;
mod object_map;
mod parents;
mod remove;
mod resize;
mod snapshots;
#[cfg(test)]
mod tests;
mod trash;
mod usage;

pub use children::{Child, children};
pub use clone::{CloneSpec, clone_image, flatten};
pub use create::{CreateSpec, create};
pub use features::change_features;
pub use migrate::{Migration, migrate};
pub use object_map::{check_object_map, rebuild_object_map};
pub use parents::CloneFormat;
pub use remove::{remove, remove_from_trash};
pub use resize::resize;
pub use snapshots::{
    Purged, protect_snapshot, purge_snapshots, remove_snapshot, rename_snapshot, roll_back,
    snapshots, take_snapshot, unprotect_snapshot,
};
pub use trash::{expired, namespaces};
pub use usage::{Usage, usage};

use crate::calls;
use crate::header::{self, Header, Info};
use crate::names::{ImageSpec, Pool};
use crate::notify::Maintenance;
use crate::snapshot::{self, Snapshot};
use crate::steps::{Ask, Steps, Stop, Task};
use crate::{Error, ObjectMap, notify};
use bytes::Bytes;
use rados::Place;
use std::collections::BTreeMap;
use types::Errno;
use wire::OsdOp;
use wire::op::OpCode;
use wire::watch::{Watcher, WatcherListing};

/// Names that are asked for at once.
const LIST_PAGE: u64 = 1024;

/// What is needed to read and write an image.
pub fn open(spec: ImageSpec) -> Task<Header> {
    Task::new(move |steps| {
        let header = header::with_ancestors(steps, |steps| header::read(steps, &spec))?;
        header.features.check_readable(&spec.to_string())?;
        Ok(header)
    })
}

/// The same for what the image was at a snapshot.
pub fn open_snapshot(spec: ImageSpec, name: String) -> Task<Header> {
    Task::new(move |steps| {
        let header = header::with_ancestors(steps, |steps| {
            at_snapshot(steps, &spec, &name).map(|(header, _)| header)
        })?;
        header.features.check_readable(&spec.to_string())?;
        Ok(header)
    })
}

fn at_snapshot(
    steps: &mut Steps,
    spec: &ImageSpec,
    name: &str,
) -> Result<(Header, Snapshot), Stop> {
    let head = header::read(steps, spec)?;
    let snapshot = snapshot::find(steps, &head, name)?;
    Ok((header::read_at(steps, spec, head.id, snapshot.id)?, snapshot))
}

/// Reads the header of an open image again, whatever its name is by now.
pub(crate) fn reopen(spec: ImageSpec, id: &str) -> Task<Header> {
    let id = id.to_owned();
    Task::new(move |steps| {
        header::with_ancestors(steps, |steps| header::read_with_id(steps, &spec, id.clone()))
    })
}

/// The map of the objects of an image or of a snapshot, to read by ([`crate::Image::use_map`]); `None` if there is
/// none that says the truth. What was written before it is asked for is in it. There is none for what shows a
/// parent: when that is flattened objects come to be, and the parent may go.
pub fn object_map(header: Header) -> Task<Option<ObjectMap>> {
    let shows_parent = header.parent.as_ref().is_some_and(|parent| parent.overlap > 0);
    Task::new(move |steps| match header.has_map() && !shows_parent {
        true => Ok(crate::object_map::load(steps, &header)?.ok()),
        false => Ok(None),
    })
}

/// Of an image, or of one of its snapshots.
pub fn info(spec: ImageSpec, snapshot: Option<String>) -> Task<Info> {
    Task::new(move |steps| {
        let (header, snapshot) = match &snapshot {
            None => (header::read(steps, &spec)?, None),
            Some(name) => {
                at_snapshot(steps, &spec, name).map(|(header, found)| (header, Some(found)))?
            }
        };
        let ops = || vec![calls::get_created()];
        let reply = steps.look("reading when the image was made", &header.place(), ops)?;
        let created = calls::output(&reply, 0, "the time of creation")?;
        let parent = header.parent.as_ref().map(|parent| parents::names(steps, parent));
        Ok(Info { created, snapshot, parent: parent.transpose()?, header })
    })
}

/// The names of all images, in order.
pub fn list(pool: Pool) -> Task<Vec<String>> {
    Task::new(move |steps| {
        let mut names: Vec<String> = Vec::new();
        loop {
            let after = names.last().cloned().unwrap_or_default();
            let ops = || vec![calls::directory_list(&after, LIST_PAGE)];
            let page: BTreeMap<String, Bytes> = match steps.try_look(&pool.directory(), ops)? {
                Ok(reply) => calls::output(&reply, 0, "the directory")?,
                Err(Errno::NOENT) => BTreeMap::new(),
                Err(errno) => {
                    return Err(Error::cluster(format!("listing images of {pool}"), errno).into());
                }
            };
            let is_last = (page.len() as u64) < LIST_PAGE;
            names.extend(page.into_keys());
            if is_last {
                return Ok(names);
            }
        }
    })
}

/// What images with these ids are called; nothing, if there is no such image.
pub fn names_of(pool: Pool, ids: Vec<String>) -> Task<BTreeMap<String, Option<String>>> {
    Task::new(move |steps| {
        let mut names = BTreeMap::new();
        for id in &ids {
            let ops = || vec![calls::directory_name(id)];
            let name = match steps.try_look(&pool.directory(), ops)? {
                Ok(reply) => Some(calls::output(&reply, 0, "the name of an image")?),
                Err(Errno::NOENT) => None,
                Err(errno) => {
                    return Err(Error::cluster(format!("naming images of {pool}"), errno).into());
                }
            };
            names.insert(id.clone(), name);
        }
        Ok(names)
    })
}

pub fn rename(old: ImageSpec, new: String) -> Task<()> {
    Task::new(move |steps| {
        let id = header::find_id(steps, &old)?;
        let target = ImageSpec { pool: old.pool.clone(), name: new.clone() };
        create::claim_name(steps, &target, &id)?;
        let ops = || vec![calls::directory_rename(&old.name, &new, &id)];
        steps.change("renaming in the directory", &old.pool.directory(), ops)?;
        let ops = || vec![OsdOp::remove()];
        steps.change("removing the old name", &old.pool.id_object(&old.name), ops)?;
        tell_watchers(steps, &old.pool.header(&id))
    })
}

/// What the owner of the lock does for others. The header may be as it was before they changed it.
pub(crate) fn maintain(steps: &mut Steps, header: &Header, what: &Maintenance) -> Result<(), Stop> {
    let header = header::read_with_id(steps, &header.spec, header.id.clone())?;
    match what {
        Maintenance::Resize { size, may_shrink } => {
            resize::resize_as_owner(steps, &header, *size, *may_shrink)
        }
        Maintenance::TakeSnapshot(name) => snapshots::take_as_owner(steps, &header, name),
        Maintenance::RemoveSnapshot(name) => snapshots::remove_as_owner(steps, &header, name),
    }
}

/// Those who have the image open read its header again. Who does not answer in time is no reason to
/// fail: what was changed is changed.
fn tell_watchers(steps: &mut Steps, header: &Place) -> Result<(), Stop> {
    let ask = || Ask::Notify { place: header.clone(), payload: notify::header_update() };
    steps.ask(ask).map(|_| ())
}

/// Who has the image open.
pub(crate) fn watchers(steps: &mut Steps, header: &Place) -> Result<Vec<Watcher>, Stop> {
    let ops = || vec![OsdOp::new(OpCode::LIST_WATCHERS)];
    let reply = steps.look("asking who has the image open", header, ops)?;
    let listing: WatcherListing = calls::output(&reply, 0, "the list of watchers")?;
    Ok(listing.entries)
}
