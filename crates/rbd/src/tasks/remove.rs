//! Removal of an image with its data.

use super::{parents, watchers};
use crate::calls::{TrashEntry, TrashState};
use crate::header::{self, Header};
use crate::lock::{identify, with_lock};
use crate::snapshot::{self, Purpose, Snapshot};
use crate::task::Task;
use crate::workflow::{Stop, Workflow, write_operation};
use crate::{Error, ImageSpec, Pool, calls, object_map};
use rados::Place;
use types::{EntityType, Errno, UTime};
use wire::OsdOp;
use wire::watch::Watcher;

/// Removes an image. Parts that an earlier, interrupted removal has removed are skipped; the name goes last,
/// so that the removal can be repeated.
pub fn remove(spec: ImageSpec) -> Task<()> {
    Task::new(move |workflow| {
        let id = header::find_id(workflow, &spec)?;
        let header = removable_header(workflow, &spec, &id)?;
        remove_content(workflow, &spec, &id, header)?;
        let directory = || vec![calls::directory_remove(&spec.name, &id)];
        tolerate(workflow.try_write(&spec.pool.directory(), directory)?, "the directory")?;
        remove_object(workflow, &spec.pool.id_object(&spec.name))
    })
}

/// Removes an image from the trash, if its deferment has ended.
pub fn remove_from_trash(pool: Pool, id: String, now: UTime) -> Task<()> {
    Task::new(move |workflow| {
        let trash = pool.trash();
        let entry: TrashEntry = match workflow.try_read(&trash, || vec![calls::trash_get(&id)])? {
            Ok(reply) => calls::output(&reply, 0, "the entry in the trash")?,
            Err(Errno::NOENT) => {
                let text = format!("there is no image with id {id} in the trash of {pool}");
                return Err(Error::missing(text).into());
            }
            Err(errno) => return Err(Error::cluster("reading the trash", errno).into()),
        };
        if entry.deferred_until > now {
            let (name, until) = (entry.name, entry.deferred_until.to_iso());
            let text = format!("{name} is to stay in the trash until {until}");
            return Err(Error::refused(text).into());
        }
        let spec = ImageSpec { pool: pool.clone(), name: entry.name.clone() };
        let header = removable_header(workflow, &spec, &id)?;
        begin_removal(workflow, &pool, &id, &entry)?;
        remove_content(workflow, &spec, &id, header)?;
        tolerate(workflow.try_write(&trash, || vec![calls::trash_remove(&id)])?, "the trash")
    })
}

/// Marks the entry, so that the image cannot be restored. An interrupted removal continues.
fn begin_removal(
    workflow: &mut Workflow,
    pool: &Pool,
    id: &str,
    entry: &TrashEntry,
) -> Result<(), Stop> {
    let ops = || vec![calls::trash_set_state(id, TrashState::REMOVING, TrashState::NORMAL)];
    let errno = match entry.state {
        TrashState::NORMAL => workflow.try_write(&pool.trash(), ops)?.err(),
        TrashState::REMOVING => None,
        _ => Some(Errno::STALE),
    };
    match errno {
        None => Ok(()),
        Some(Errno::STALE) => {
            let text = format!(
                "{} is being moved into the trash or restored; repeat the command that was doing \
                 that if it was interrupted",
                entry.name
            );
            Err(Error::cluster(text, Errno::BUSY).into())
        }
        Some(errno) => Err(Error::cluster(format!("removing {}", entry.name), errno).into()),
    }
}

/// Removes everything but the directory or trash entry.
fn remove_content(
    workflow: &mut Workflow,
    spec: &ImageSpec,
    id: &str,
    header: Option<Header>,
) -> Result<(), Stop> {
    let Some(header) = header else { return Ok(()) };
    let header = with_lock(workflow, header, |workflow, header| {
        // Clients may have opened the image while the lock was waited for.
        check(workflow, header)?;
        remove_data(workflow, header).map(|()| header.clone())
    })?;
    leave_parent(workflow, &header)?;
    remove_object(workflow, &spec.pool.object_map(id))?;
    remove_object(workflow, &spec.pool.header(id))
}

/// Removes the data with the lock held, so that no late write of a crashed client follows.
fn remove_data(workflow: &mut Workflow, header: &Header) -> Result<(), Stop> {
    let map = object_map::open(workflow, header)?;
    workflow.sweep("removing data", 0..header.objects(), |object| {
        let may_exist = map.as_ref().is_none_or(|map| map.may_exist(object));
        may_exist.then(|| write_operation(header.data_place(object), vec![OsdOp::remove()]))
    })
}

fn leave_parent(workflow: &mut Workflow, header: &Header) -> Result<(), Stop> {
    let Some(parent) = &header.parent else { return Ok(()) };
    let format = parents::clone_format(workflow, header)?;
    parents::leave(workflow, &header.spec, &header.id, parent, format)
}

/// `None` if an earlier removal has removed the header.
fn removable_header(
    workflow: &mut Workflow,
    spec: &ImageSpec,
    id: &str,
) -> Result<Option<Header>, Stop> {
    if let Err(Errno::NOENT) = workflow.try_read(&spec.pool.header(id), || vec![OsdOp::stat()])? {
        return Ok(None);
    }
    let header = header::read_with_id(workflow, spec, id.to_owned())?;
    check(workflow, &header)?;
    Ok(Some(header))
}

fn check(workflow: &mut Workflow, header: &Header) -> Result<(), Stop> {
    let image = &header.spec;
    header.features.check_writable(&image.to_string())?;
    if !header.snap_context.snaps.is_empty() {
        return Err(has_snapshots(workflow, header)?.into());
    }
    match other_watcher(workflow, header)? {
        None => Ok(()),
        Some(watcher) => Err(Error::refused(format!(
            "{image} is in use by a client at {}; close or unmap it there first, or wait until its \
             watch has timed out, 30 s after a crash",
            watcher.addr
        ))
        .into()),
    }
}

fn other_watcher(workflow: &mut Workflow, header: &Header) -> Result<Option<Watcher>, Stop> {
    let all = watchers(workflow, &header.place())?;
    if all.is_empty() {
        return Ok(None);
    }
    let me = identify(workflow)?;
    let is_own = |watcher: &Watcher| {
        let is_me = watcher.name.kind == EntityType::CLIENT && watcher.name.number == me as i64;
        is_me && workflow.has_watch(watcher.cookie)
    };
    Ok(all.into_iter().find(|watcher| !is_own(watcher)))
}

fn has_snapshots(workflow: &mut Workflow, header: &Header) -> Result<Error, Stop> {
    let image = &header.spec;
    let all = snapshot::read_all(workflow, header)?;
    let is_kept = |snapshot: &Snapshot| {
        matches!(snapshot.purpose, Purpose::Trash(_)) && !snapshot.is_left_over()
    };
    Ok(Error::refused(match all.iter().all(is_kept) {
        false => format!("{image} has snapshots; `image snap purge {image}` removes them"),
        true => format!(
            "{image} has snapshots that were removed but have clones; `image children {image}` names \
             those, `image flatten` makes them images of their own"
        ),
    }))
}

/// Removes everything but the name of an image without users and snapshots.
pub(super) fn remove_unused(workflow: &mut Workflow, header: &Header) -> Result<(), Stop> {
    workflow.sweep("removing data", 0..header.objects(), |object| {
        Some(write_operation(header.data_place(object), vec![OsdOp::remove()]))
    })?;
    leave_parent(workflow, header)?;
    remove_object(workflow, &header.spec.pool.object_map(&header.id))?;
    remove_object(workflow, &header.place())
}

pub(super) fn remove_object(workflow: &mut Workflow, place: &Place) -> Result<(), Stop> {
    let name = String::from_utf8_lossy(&place.object).into_owned();
    tolerate(workflow.try_write(place, || vec![OsdOp::remove()])?, &name)
}

pub(super) fn tolerate<T>(outcome: Result<T, Errno>, what: &str) -> Result<(), Stop> {
    match outcome {
        Ok(_) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(Error::cluster(format!("removing from {what}"), errno).into()),
    }
}
