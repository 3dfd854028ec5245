//! Operations on whole images, each as a [`Task`].

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
use crate::task::Task;
use crate::workflow::{Stop, Workflow};
use crate::{Error, ObjectMap, notify};
use bytes::Bytes;
use rados::ClusterRequest;
use rados::Place;
use std::collections::BTreeMap;
use types::Errno;
use wire::OsdOp;
use wire::op::OpCode;
use wire::watch::{Watcher, WatcherListing};

/// Names that are read with one operation.
const LIST_PAGE: u64 = 1024;

/// Reads the header for reading and writing an image.
pub fn open(spec: ImageSpec) -> Task<Header> {
    Task::new(move |workflow| {
        let header = header::with_ancestors(workflow, |workflow| header::read(workflow, &spec))?;
        header.features.check_readable(&spec.to_string())?;
        Ok(header)
    })
}

/// Reads the header for reading a snapshot of an image.
pub fn open_snapshot(spec: ImageSpec, name: String) -> Task<Header> {
    Task::new(move |workflow| {
        let header = header::with_ancestors(workflow, |workflow| {
            at_snapshot(workflow, &spec, &name).map(|(header, _)| header)
        })?;
        header.features.check_readable(&spec.to_string())?;
        Ok(header)
    })
}

fn at_snapshot(
    workflow: &mut Workflow,
    spec: &ImageSpec,
    name: &str,
) -> Result<(Header, Snapshot), Stop> {
    let head = header::read(workflow, spec)?;
    let snapshot = snapshot::find(workflow, &head, name)?;
    Ok((header::read_at(workflow, spec, head.id, snapshot.id)?, snapshot))
}

/// Reads the header of an open image again by its id, since it may have been renamed.
pub(crate) fn reopen(spec: ImageSpec, id: &str) -> Task<Header> {
    let id = id.to_owned();
    Task::new(move |workflow| {
        header::with_ancestors(workflow, |workflow| {
            header::read_with_id(workflow, &spec, id.clone())
        })
    })
}

/// Reads the object map of an image or of a snapshot, for [`crate::Image::use_map`]; `None` if there is no
/// valid one. It contains all writes that completed before the task began. Images with a parent get none: a
/// flatten creates objects and may remove the parent.
pub fn object_map(header: Header) -> Task<Option<ObjectMap>> {
    let shows_parent = header.parent.as_ref().is_some_and(|parent| parent.overlap > 0);
    Task::new(move |workflow| match header.has_map() && !shows_parent {
        true => Ok(crate::object_map::load(workflow, &header)?.ok()),
        false => Ok(None),
    })
}

/// Reads the header of an image, or of one of its snapshots, with details for display.
pub fn info(spec: ImageSpec, snapshot: Option<String>) -> Task<Info> {
    Task::new(move |workflow| {
        let (header, snapshot) = match &snapshot {
            None => (header::read(workflow, &spec)?, None),
            Some(name) => {
                at_snapshot(workflow, &spec, name).map(|(header, found)| (header, Some(found)))?
            }
        };
        let ops = || vec![calls::get_created()];
        let reply = workflow.read("reading when the image was made", &header.place(), ops)?;
        let created = calls::output(&reply, 0, "the time of creation")?;
        let parent = header.parent.as_ref().map(|parent| parents::names(workflow, parent));
        Ok(Info { created, snapshot, parent: parent.transpose()?, header })
    })
}

/// Names of all images of a pool or namespace, in order.
pub fn list(pool: Pool) -> Task<Vec<String>> {
    Task::perform(async move |steps| {
        let mut names: Vec<String> = Vec::new();
        loop {
            let after = names.last().cloned().unwrap_or_default();
            let ops = vec![calls::directory_list(&after, LIST_PAGE)];
            let page: BTreeMap<String, Bytes> = match steps.read(&pool.directory(), ops).await {
                Ok(reply) => calls::output(&reply, 0, "the directory")?,
                Err(Errno::NOENT) => BTreeMap::new(),
                Err(errno) => {
                    return Err(Error::cluster(format!("listing images of {pool}"), errno));
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

/// Names of images by id; `None` for an id without image.
pub fn names_of(pool: Pool, ids: Vec<String>) -> Task<BTreeMap<String, Option<String>>> {
    Task::perform(async move |steps| {
        let mut names = BTreeMap::new();
        for id in &ids {
            let ops = vec![calls::directory_name(id)];
            let name = match steps.read(&pool.directory(), ops).await {
                Ok(reply) => Some(calls::output(&reply, 0, "the name of an image")?),
                Err(Errno::NOENT) => None,
                Err(errno) => {
                    return Err(Error::cluster(format!("naming images of {pool}"), errno));
                }
            };
            names.insert(id.clone(), name);
        }
        Ok(names)
    })
}

pub fn rename(old: ImageSpec, new: String) -> Task<()> {
    Task::new(move |workflow| {
        let id = header::find_id(workflow, &old)?;
        let target = ImageSpec { pool: old.pool.clone(), name: new.clone() };
        create::claim_name(workflow, &target, &id)?;
        let ops = || vec![calls::directory_rename(&old.name, &new, &id)];
        workflow.write("renaming in the directory", &old.pool.directory(), ops)?;
        let ops = || vec![OsdOp::remove()];
        workflow.write("removing the old name", &old.pool.id_object(&old.name), ops)?;
        tell_watchers(workflow, &old.pool.header(&id))
    })
}

/// Maintenance by the owner of the lock for another client. The header may predate that client's changes.
pub(crate) fn maintain(
    workflow: &mut Workflow,
    header: &Header,
    what: &Maintenance,
) -> Result<(), Stop> {
    let header = header::read_with_id(workflow, &header.spec, header.id.clone())?;
    match what {
        Maintenance::Resize { size, may_shrink } => {
            resize::resize_as_owner(workflow, &header, *size, *may_shrink)
        }
        Maintenance::TakeSnapshot(name) => snapshots::take_as_owner(workflow, &header, name),
        Maintenance::RemoveSnapshot(name) => snapshots::remove_as_owner(workflow, &header, name),
    }
}

/// Makes the clients that have the image open read its header again. A timeout is no error: the change is
/// done.
fn tell_watchers(workflow: &mut Workflow, header: &Place) -> Result<(), Stop> {
    let ask = || ClusterRequest::Notify { place: header.clone(), payload: notify::header_update() };
    workflow.request(ask).map(|_| ())
}

/// Clients that have the image open.
pub(crate) fn watchers(workflow: &mut Workflow, header: &Place) -> Result<Vec<Watcher>, Stop> {
    let ops = || vec![OsdOp::new(OpCode::LIST_WATCHERS)];
    let reply = workflow.read("asking who has the image open", header, ops)?;
    let listing: WatcherListing = calls::output(&reply, 0, "the list of watchers")?;
    Ok(listing.entries)
}
