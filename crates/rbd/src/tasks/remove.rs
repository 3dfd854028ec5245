//! Removing an image with its data.

use super::{parents, watchers};
use crate::calls::{TrashEntry, TrashState};
use crate::header::{self, Header};
use crate::lock::{identify, with_lock};
use crate::snapshot::{self, Purpose, Snapshot};
use crate::steps::{Steps, Stop, Task, change};
use crate::{Error, ImageSpec, Pool, calls, object_map};
use rados::Place;
use types::{EntityType, Errno, UTime};
use wire::OsdOp;
use wire::watch::Watcher;

/// What has gone missing halfway through an earlier removal is no reason to stop. The name goes
/// last, so that a removal that was interrupted can be done again.
pub fn remove(spec: ImageSpec) -> Task<()> {
    Task::new(move |steps| {
        let id = header::find_id(steps, &spec)?;
        let header = removable_header(steps, &spec, &id)?;
        remove_content(steps, &spec, &id, header)?;
        let directory = || vec![calls::directory_remove(&spec.name, &id)];
        tolerate(steps.try_change(&spec.pool.directory(), directory)?, "the directory")?;
        remove_object(steps, &spec.pool.id_object(&spec.name))
    })
}

/// Removes an image that lies in the trash, if it may go yet.
pub fn remove_from_trash(pool: Pool, id: String, now: UTime) -> Task<()> {
    Task::new(move |steps| {
        let trash = pool.trash();
        let entry: TrashEntry = match steps.try_look(&trash, || vec![calls::trash_get(&id)])? {
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
        let header = removable_header(steps, &spec, &id)?;
        begin_removal(steps, &pool, &id, &entry)?;
        remove_content(steps, &spec, &id, header)?;
        tolerate(steps.try_change(&trash, || vec![calls::trash_remove(&id)])?, "the trash")
    })
}

/// From then on nobody restores it. A removal that was begun is gone on with.
fn begin_removal(steps: &mut Steps, pool: &Pool, id: &str, entry: &TrashEntry) -> Result<(), Stop> {
    let ops = || vec![calls::trash_set_state(id, TrashState::REMOVING, TrashState::NORMAL)];
    let errno = match entry.state {
        TrashState::NORMAL => steps.try_change(&pool.trash(), ops)?.err(),
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

/// All but the entry under which people find it.
fn remove_content(
    steps: &mut Steps,
    spec: &ImageSpec,
    id: &str,
    header: Option<Header>,
) -> Result<(), Stop> {
    let Some(header) = header else { return Ok(()) };
    let header = with_lock(steps, header, |steps, header| {
        // Others may have come while the lock was waited for.
        check(steps, header)?;
        remove_data(steps, header).map(|()| header.clone())
    })?;
    leave_parent(steps, &header)?;
    remove_object(steps, &spec.pool.object_map(id))?;
    remove_object(steps, &spec.pool.header(id))
}

/// With the lock, if there is one: what a crashed user has on its way must not come later.
fn remove_data(steps: &mut Steps, header: &Header) -> Result<(), Stop> {
    let map = object_map::open(steps, header)?;
    steps.sweep("removing data", 0..header.objects(), |object| {
        let may_exist = map.as_ref().is_none_or(|map| map.may_exist(object));
        may_exist.then(|| change(header.data_place(object), vec![OsdOp::remove()]))
    })
}

fn leave_parent(steps: &mut Steps, header: &Header) -> Result<(), Stop> {
    let Some(parent) = &header.parent else { return Ok(()) };
    let format = parents::clone_format(steps, header)?;
    parents::leave(steps, &header.spec, &header.id, parent, format)
}

/// None if an earlier removal came that far.
fn removable_header(steps: &mut Steps, spec: &ImageSpec, id: &str) -> Result<Option<Header>, Stop> {
    if let Err(Errno::NOENT) = steps.try_look(&spec.pool.header(id), || vec![OsdOp::stat()])? {
        return Ok(None);
    }
    let header = header::read_with_id(steps, spec, id.to_owned())?;
    check(steps, &header)?;
    Ok(Some(header))
}

fn check(steps: &mut Steps, header: &Header) -> Result<(), Stop> {
    let image = &header.spec;
    header.features.check_writable(&image.to_string())?;
    if !header.snap_context.snaps.is_empty() {
        return Err(has_snapshots(steps, header)?.into());
    }
    match other_watcher(steps, header)? {
        None => Ok(()),
        Some(watcher) => Err(Error::refused(format!(
            "{image} is in use by a client at {}; close or unmap it there first, or wait until its \
             watch has timed out, 30 s after a crash",
            watcher.addr
        ))
        .into()),
    }
}

fn other_watcher(steps: &mut Steps, header: &Header) -> Result<Option<Watcher>, Stop> {
    let all = watchers(steps, &header.place())?;
    if all.is_empty() {
        return Ok(None);
    }
    let me = identify(steps)?;
    let is_own = |watcher: &Watcher| {
        let is_me = watcher.name.kind == EntityType::CLIENT && watcher.name.number == me as i64;
        is_me && steps.has_watch(watcher.cookie)
    };
    Ok(all.into_iter().find(|watcher| !is_own(watcher)))
}

fn has_snapshots(steps: &mut Steps, header: &Header) -> Result<Error, Stop> {
    let image = &header.spec;
    let all = snapshot::read_all(steps, header)?;
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

/// All of an image that nobody uses, and that has no snapshots, but its name.
pub(super) fn remove_unused(steps: &mut Steps, header: &Header) -> Result<(), Stop> {
    steps.sweep("removing data", 0..header.objects(), |object| {
        Some(change(header.data_place(object), vec![OsdOp::remove()]))
    })?;
    leave_parent(steps, header)?;
    remove_object(steps, &header.spec.pool.object_map(&header.id))?;
    remove_object(steps, &header.place())
}

pub(super) fn remove_object(steps: &mut Steps, place: &Place) -> Result<(), Stop> {
    let name = String::from_utf8_lossy(&place.object).into_owned();
    tolerate(steps.try_change(place, || vec![OsdOp::remove()])?, &name)
}

pub(super) fn tolerate<T>(outcome: Result<T, Errno>, what: &str) -> Result<(), Stop> {
    match outcome {
        Ok(_) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(Error::cluster(format!("removing from {what}"), errno).into()),
    }
}
