//! Removal of an image with its data.

use crate::calls::{TrashEntry, TrashState};
use crate::header::{self, Header};
use crate::lock::{identify, with_lock};
use crate::maintenance::{detach, parents};
use crate::snapshot::{Purpose, Snapshot};
use crate::snapshot_list;
use crate::steps::NamedSteps;
use crate::task::Task;
use crate::watchers;
use crate::{Error, ImageSpec, Pool, calls, object_map};
use rados::{Operation, Place, Steps, WatchId};
use types::{EntityType, Errno, UTime};
use wire::OsdOp;
use wire::watch::Watcher;

/// Removes an image. Parts that an earlier, interrupted removal has removed are skipped; the name goes last,
/// so that the removal can be repeated.
pub fn remove(spec: ImageSpec) -> Task<()> {
    Task::new(async move |steps| {
        let id = header::find_id(&steps, &spec).await?;
        let header = removable_header(&steps, &spec, &id).await?;
        remove_content(&steps, &spec, &id, header).await?;
        let directory = vec![calls::directory_remove(&spec.name, &id)];
        tolerate(steps.write(&spec.pool.directory(), directory).await, "the directory")?;
        remove_object(&steps, &spec.pool.id_object(&spec.name)).await
    })
}

/// Removes an image from the trash, if its deferment has ended.
pub fn remove_from_trash(pool: Pool, id: String, now: UTime) -> Task<()> {
    Task::new(async move |steps| {
        let trash = pool.trash();
        let entry: TrashEntry = match steps.read(&trash, vec![calls::trash_get(&id)]).await {
            Ok(reply) => calls::output(&reply, 0, "the entry in the trash")?,
            Err(Errno::NOENT) => {
                let text = format!("there is no image with id {id} in the trash of {pool}");
                return Err(Error::missing(text));
            }
            Err(errno) => return Err(Error::cluster("reading the trash", errno)),
        };
        if entry.deferred_until > now {
            let (name, until) = (entry.name, entry.deferred_until.to_iso());
            let text = format!("{name} is to stay in the trash until {until}");
            return Err(Error::refused(text));
        }
        let spec = ImageSpec { pool: pool.clone(), name: entry.name.clone() };
        let header = removable_header(&steps, &spec, &id).await?;
        begin_removal(&steps, &pool, &id, &entry).await?;
        remove_content(&steps, &spec, &id, header).await?;
        tolerate(steps.write(&trash, vec![calls::trash_remove(&id)]).await, "the trash")
    })
}

/// Marks the entry, so that the image cannot be restored. An interrupted removal continues.
async fn begin_removal(
    steps: &Steps,
    pool: &Pool,
    id: &str,
    entry: &TrashEntry,
) -> Result<(), Error> {
    let ops = vec![calls::trash_set_state(id, TrashState::REMOVING, TrashState::NORMAL)];
    let errno = match entry.state {
        TrashState::NORMAL => steps.write(&pool.trash(), ops).await.err(),
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
            Err(Error::cluster(text, Errno::BUSY))
        }
        Some(errno) => Err(Error::cluster(format!("removing {}", entry.name), errno)),
    }
}

/// Removes everything but the directory or trash entry.
async fn remove_content(
    steps: &Steps,
    spec: &ImageSpec,
    id: &str,
    header: Option<Header>,
) -> Result<(), Error> {
    let Some(header) = header else { return Ok(()) };
    let header = with_lock(steps, header, async |steps, header| {
        // Clients may have opened the image while the lock was waited for.
        check(steps, header).await?;
        remove_data(steps, header).await.map(|()| header.clone())
    })
    .await?;
    leave_parent(steps, &header).await?;
    remove_object(steps, &spec.pool.object_map(id)).await?;
    remove_object(steps, &spec.pool.header(id)).await
}

/// Removes the data with the lock held, so that no late write of a crashed client follows.
async fn remove_data(steps: &Steps, header: &Header) -> Result<(), Error> {
    let map = object_map::open(steps, header).await?;
    steps
        .for_each_step("removing data", 0..header.objects(), |object| {
            let may_exist = map.as_ref().is_none_or(|map| map.may_exist(object));
            may_exist.then(|| Operation::write(header.data_place(object), vec![OsdOp::remove()]))
        })
        .await
}

async fn leave_parent(steps: &Steps, header: &Header) -> Result<(), Error> {
    let Some(parent) = &header.parent else { return Ok(()) };
    let format = parents::clone_format(steps, header).await?;
    detach::unregister_clone(steps, &header.spec, &header.id, parent, format).await
}

/// `None` if an earlier removal has removed the header.
async fn removable_header(
    steps: &Steps,
    spec: &ImageSpec,
    id: &str,
) -> Result<Option<Header>, Error> {
    if let Err(Errno::NOENT) = steps.read(&spec.pool.header(id), vec![OsdOp::stat()]).await {
        return Ok(None);
    }
    let header = header::read_with_id(steps, spec, id.to_owned()).await?;
    check(steps, &header).await?;
    Ok(Some(header))
}

async fn check(steps: &Steps, header: &Header) -> Result<(), Error> {
    let image = &header.spec;
    header.features.check_writable(&image.to_string())?;
    if !header.snap_context.snaps.is_empty() {
        return Err(has_snapshots(steps, header).await?);
    }
    match other_watcher(steps, header).await? {
        None => Ok(()),
        Some(watcher) => Err(Error::refused(format!(
            "{image} is in use by a client at {}; close or unmap it there first, or wait until its \
             watch has timed out, 30 s after a crash",
            watcher.addr
        ))),
    }
}

async fn other_watcher(steps: &Steps, header: &Header) -> Result<Option<Watcher>, Error> {
    let all = watchers::list(steps, &header.place()).await?;
    if all.is_empty() {
        return Ok(None);
    }
    let me = identify(steps).await?;
    let is_own = |watcher: &Watcher| {
        let is_me = watcher.name.kind == EntityType::CLIENT && watcher.name.number == me as i64;
        is_me && steps.has_watch(WatchId(watcher.cookie))
    };
    Ok(all.into_iter().find(|watcher| !is_own(watcher)))
}

async fn has_snapshots(steps: &Steps, header: &Header) -> Result<Error, Error> {
    let image = &header.spec;
    let all = snapshot_list::read_all(steps, header).await?;
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
pub(super) async fn remove_unused(steps: &Steps, header: &Header) -> Result<(), Error> {
    steps
        .for_each_step("removing data", 0..header.objects(), |object| {
            Some(Operation::write(header.data_place(object), vec![OsdOp::remove()]))
        })
        .await?;
    leave_parent(steps, header).await?;
    remove_object(steps, &header.spec.pool.object_map(&header.id)).await?;
    remove_object(steps, &header.place()).await
}

pub(super) async fn remove_object(steps: &Steps, place: &Place) -> Result<(), Error> {
    let name = String::from_utf8_lossy(&place.object).into_owned();
    tolerate(steps.write(place, vec![OsdOp::remove()]).await, &name)
}

pub(super) fn tolerate<T>(outcome: Result<T, Errno>, what: &str) -> Result<(), Error> {
    match outcome {
        Ok(_) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(Error::cluster(format!("removing from {what}"), errno)),
    }
}
