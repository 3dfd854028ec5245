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
use crate::steps::NamedSteps;
use crate::task::Task;
use crate::{Error, ObjectMap, notify};
use bytes::Bytes;
use rados::Place;
use rados::Steps;
use std::collections::BTreeMap;
use types::Errno;
use wire::OsdOp;
use wire::op::OpCode;
use wire::watch::{Watcher, WatcherListing};

/// Names that are read with one operation.
const LIST_PAGE: u64 = 1024;

/// Reads the header for reading and writing an image.
pub fn open(spec: ImageSpec) -> Task<Header> {
    Task::new(async move |steps| {
        let header =
            header::with_ancestors(&steps, async || header::read(&steps, &spec).await).await?;
        header.features.check_readable(&spec.to_string())?;
        Ok(header)
    })
}

/// Reads the header for reading a snapshot of an image.
pub fn open_snapshot(spec: ImageSpec, name: String) -> Task<Header> {
    Task::new(async move |steps| {
        let header = header::with_ancestors(&steps, async || {
            at_snapshot(&steps, &spec, &name).await.map(|(header, _)| header)
        })
        .await?;
        header.features.check_readable(&spec.to_string())?;
        Ok(header)
    })
}

async fn at_snapshot(
    steps: &Steps,
    spec: &ImageSpec,
    name: &str,
) -> Result<(Header, Snapshot), Error> {
    let head = header::read(steps, spec).await?;
    let snapshot = snapshot::find(steps, &head, name).await?;
    Ok((header::read_at(steps, spec, head.id, snapshot.id).await?, snapshot))
}

/// Reads the header of an open image again by its id, since it may have been renamed.
pub(crate) fn reopen(spec: ImageSpec, id: &str) -> Task<Header> {
    let id = id.to_owned();
    Task::new(async move |steps| {
        header::with_ancestors(&steps, async || {
            header::read_with_id(&steps, &spec, id.clone()).await
        })
        .await
    })
}

/// Reads the object map of an image or of a snapshot, for [`crate::Image::use_map`]; `None` if there is no
/// valid one. It contains all writes that completed before the task began. Images with a parent get none: a
/// flatten creates objects and may remove the parent.
pub fn object_map(header: Header) -> Task<Option<ObjectMap>> {
    let shows_parent = header.parent.as_ref().is_some_and(|parent| parent.overlap > 0);
    Task::new(async move |steps| match header.has_map() && !shows_parent {
        true => Ok(crate::object_map::load(&steps, &header).await.ok()),
        false => Ok(None),
    })
}

/// Reads the header of an image, or of one of its snapshots, with details for display.
pub fn info(spec: ImageSpec, snapshot: Option<String>) -> Task<Info> {
    Task::new(async move |steps| {
        let (header, snapshot) = match &snapshot {
            None => (header::read(&steps, &spec).await?, None),
            Some(name) => at_snapshot(&steps, &spec, name)
                .await
                .map(|(header, found)| (header, Some(found)))?,
        };
        let ops = vec![calls::get_created()];
        let reply =
            steps.read_step("reading when the image was made", &header.place(), ops).await?;
        let created = calls::output(&reply, 0, "the time of creation")?;
        let parent = match &header.parent {
            Some(parent) => Some(parents::names(&steps, parent).await?),
            None => None,
        };
        Ok(Info { created, snapshot, parent, header })
    })
}

/// Names of all images of a pool or namespace, in order.
pub fn list(pool: Pool) -> Task<Vec<String>> {
    Task::new(async move |steps| {
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
    Task::new(async move |steps| {
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
    Task::new(async move |steps| {
        let id = header::find_id(&steps, &old).await?;
        let target = ImageSpec { pool: old.pool.clone(), name: new.clone() };
        create::claim_name(&steps, &target, &id).await?;
        let ops = vec![calls::directory_rename(&old.name, &new, &id)];
        steps.write_step("renaming in the directory", &old.pool.directory(), ops).await?;
        let ops = vec![OsdOp::remove()];
        steps.write_step("removing the old name", &old.pool.id_object(&old.name), ops).await?;
        tell_watchers(&steps, &old.pool.header(&id)).await
    })
}

/// Maintenance by the owner of the lock for another client. The header may predate that client's changes.
pub(crate) async fn maintain(
    steps: &Steps,
    header: &Header,
    what: &Maintenance,
) -> Result<(), Error> {
    let header = header::read_with_id(steps, &header.spec, header.id.clone()).await?;
    match what {
        Maintenance::Resize { size, may_shrink } => {
            resize::resize_as_owner(steps, &header, *size, *may_shrink).await
        }
        Maintenance::TakeSnapshot(name) => snapshots::take_as_owner(steps, &header, name).await,
        Maintenance::RemoveSnapshot(name) => snapshots::remove_as_owner(steps, &header, name).await,
    }
}

async fn tell_watchers(steps: &Steps, header: &Place) -> Result<(), Error> {
    let _ = steps.notify(header.clone(), notify::header_update()).await;
    Ok(())
}

/// Clients that have the image open.
pub(crate) async fn watchers(steps: &Steps, header: &Place) -> Result<Vec<Watcher>, Error> {
    let ops = vec![OsdOp::new(OpCode::LIST_WATCHERS)];
    let reply = steps.read_step("asking who has the image open", header, ops).await?;
    let listing: WatcherListing = calls::output(&reply, 0, "the list of watchers")?;
    Ok(listing.entries)
}
