//! Removing an image with its data.

use super::{parents, watchers};
use crate::calls::TrashEntry;
use crate::header::{self, Header};
use crate::lock::with_lock;
use crate::snapshot::{self, Purpose, Snapshot};
use crate::steps::{Steps, Stop, Task, change};
use crate::{Error, ImageSpec, Pool, calls, object_map};
use rados::Place;
use types::{Errno, UTime};
use wire::OsdOp;

/// What has gone missing halfway through an earlier removal is no reason to stop. The name goes
/// last, so that a removal that was interrupted can be done again.
pub fn remove(spec: ImageSpec) -> Task<()> {
    Task::new(move |steps| {
        let id = header::find_id(steps, &spec)?;
        remove_content(steps, &spec, &id)?;
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
                return Err(Error::cluster(text, Errno::NOENT).into());
            }
            Err(errno) => return Err(Error::cluster("reading the trash", errno).into()),
        };
        if entry.deferred_until > now {
            let (name, until) = (entry.name, entry.deferred_until.to_iso());
            let text = format!("{name} is to stay in the trash until {until}");
            return Err(Error::refused(text).into());
        }
        remove_content(steps, &ImageSpec { pool: pool.clone(), name: entry.name }, &id)?;
        tolerate(steps.try_change(&trash, || vec![calls::trash_remove(&id)])?, "the trash")
    })
}

/// All but the entry under which people find it.
fn remove_content(steps: &mut Steps, spec: &ImageSpec, id: &str) -> Result<(), Stop> {
    if let Some(header) = existing_header(steps, spec, id)? {
        check(steps, &header)?;
        with_lock(steps, header.clone(), remove_data)?;
        leave_parent(steps, &header)?;
        remove_object(steps, &spec.pool.object_map(id))?;
        remove_object(steps, &spec.pool.header(id))?;
    }
    Ok(())
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

fn existing_header(steps: &mut Steps, spec: &ImageSpec, id: &str) -> Result<Option<Header>, Stop> {
    match steps.try_look(&spec.pool.header(id), || vec![OsdOp::stat()])? {
        Err(Errno::NOENT) => Ok(None),
        _ => header::read_with_id(steps, spec, id.to_owned()).map(Some),
    }
}

fn check(steps: &mut Steps, header: &Header) -> Result<(), Stop> {
    let image = &header.spec;
    header.features.check_writable(&image.to_string())?;
    if !header.snap_context.snaps.is_empty() {
        return Err(has_snapshots(steps, header)?.into());
    }
    match watchers(steps, &header.place())?.first() {
        None => Ok(()),
        Some(watcher) => Err(Error::refused(format!(
            "{image} is in use by a client at {}; close or unmap it there first, or wait until its \
             watch has timed out, 30 s after a crash",
            watcher.addr
        ))
        .into()),
    }
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

fn remove_object(steps: &mut Steps, place: &Place) -> Result<(), Stop> {
    let name = String::from_utf8_lossy(&place.object).into_owned();
    tolerate(steps.try_change(place, || vec![OsdOp::remove()])?, &name)
}

fn tolerate<T>(outcome: Result<T, Errno>, what: &str) -> Result<(), Stop> {
    match outcome {
        Ok(_) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(Error::cluster(format!("removing from {what}"), errno).into()),
    }
}
