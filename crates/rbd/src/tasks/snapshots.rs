//! Snapshots of an image: creation, rollback, removal, protection.

use super::clone::copy_up_before_shrinking;
use super::resize::resize_to;
use super::{parents, tell_watchers, tell_watchers_async};
use crate::header::{self, Header};
use crate::lock::{with_lock, with_lock_async};
use crate::snapshot::{self, Protection, Purpose, Snapshot};
use crate::steps::NamedSteps;
use crate::task::Task;
use crate::workflow::{Stop, Workflow, write_operation};
use crate::{Error, Features, ImageSpec, Pool, calls, object_map};
use engine::Duration;
use rados::{ClusterRequest, ClusterResponse, PoolRequest, Reply, Steps};
use types::{Errno, PoolId, SnapId};
use wire::OsdOp;

/// Attempts to allocate a snapshot id when other clients are faster.
const NUMBERS_MAX: usize = 16;
/// Attempts while the monitor's control store fails, with a delay between them.
const ATTEMPTS_MAX: usize = 30;
const PAUSE: Duration = Duration::from_secs(1);
/// Attempts after timeouts; fewer, since each may have taken minutes.
const TIMEOUTS_MAX: usize = 2;

/// All snapshots, the oldest first, with those in the trash.
pub fn snapshots(image: ImageSpec) -> Task<Vec<Snapshot>> {
    Task::perform(async move |steps| {
        let header = header::read_async(&steps, &image).await?;
        snapshot::read_all_async(&steps, &header).await
    })
}

/// Takes a snapshot. Writes in flight may be part of it or not.
pub fn take_snapshot(image: ImageSpec, name: String) -> Task<()> {
    Task::new(move |workflow| {
        check_name(&name)?;
        change_image(workflow, &image, |workflow, header| take_as_owner(workflow, header, &name))
    })
}

pub(super) fn take_as_owner(
    workflow: &mut Workflow,
    header: &Header,
    name: &str,
) -> Result<(), Stop> {
    check_name(name)?;
    take(workflow, header, name)?;
    tell_watchers(workflow, &header.place())
}

fn check_name(name: &str) -> Result<(), Error> {
    match name.is_empty() || name.contains(['/', '@']) {
        true => Err(Error::refused(format!("{name:?} is not a name for a snapshot"))),
        false => Ok(()),
    }
}

/// Runs a change with the lock held, so that writes that completed before are part of the snapshot.
fn change_image<T>(
    workflow: &mut Workflow,
    image: &ImageSpec,
    change: impl FnOnce(&mut Workflow, &Header) -> Result<T, Stop>,
) -> Result<T, Stop> {
    let header = header::read(workflow, image)?;
    header.features.check_writable(&image.to_string())?;
    with_lock(workflow, header, change)
}

/// Runs a change with the lock held, so that writes that completed before are part of the snapshot.
async fn change_image_async<T>(
    steps: &Steps,
    image: &ImageSpec,
    change: impl AsyncFnOnce(&Steps, &Header) -> Result<T, Error>,
) -> Result<T, Error> {
    let header = header::read_async(steps, image).await?;
    header.features.check_writable(&image.to_string())?;
    with_lock_async(steps, header, change).await
}

fn take(workflow: &mut Workflow, header: &Header, name: &str) -> Result<(), Stop> {
    let what = format!("taking the snapshot {}@{name}", header.spec);
    for _ in 0..NUMBERS_MAX {
        let id = new_number(workflow, header.data_pool())?;
        let added = workflow.try_write(&header.place(), || vec![calls::add_snapshot(name, id)])?;
        let Err(errno) = added else { return object_map::snapshot_taken(workflow, header, id) };
        if !is_refusal(errno) {
            // The id is not given up: trimming a snapshot that the header may still list would destroy it,
            // and an unused id does no harm.
            let text = format!("{what} (it may still be taken: `image snap ls` shows it then)");
            return Err(Error::cluster(text, errno).into());
        }
        let _ = give_up_number(workflow, header.data_pool(), id)?;
        match errno {
            Errno::STALE => {}
            Errno::EXIST => {
                let text = format!("there is already a snapshot {}@{name}", header.spec);
                return Err(Error::cluster(text, errno).into());
            }
            errno => return Err(Error::cluster(what, errno).into()),
        }
    }
    Err(Error::cluster(what, Errno::STALE).into())
}

/// True if the header certainly did not change. An operation that timed out may still be executed.
fn is_refusal(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::STALE
            | Errno::EXIST
            | Errno::INVAL
            | Errno::NOENT
            | Errno::PERM
            | Errno::ACCES
            | Errno::NOSPC
            | Errno::DQUOT
            | Errno::ROFS
    )
}

/// Allocates a snapshot id in the pool that holds the data.
fn new_number(workflow: &mut Workflow, pool: PoolId) -> Result<SnapId, Stop> {
    let answer = ask_monitor(workflow, || PoolRequest::take_snapshot(pool))?;
    let what = "getting a number for a snapshot";
    match answer {
        Ok(Reply::Pool { snap: Some(snap), .. }) => Ok(snap),
        Ok(_) => Err(Error::cluster(what, Errno::IO).into()),
        Err(Errno::INVAL) => Err(Error::refused(
            "the pool with the data has snapshots of its own (`ceph osd pool mksnap`), and so can \
             have none of images",
        )
        .into()),
        Err(errno) => Err(Error::cluster(what, errno).into()),
    }
}

/// Deletes a snapshot id, so that OSDs trim its clones.
fn give_up_number(
    workflow: &mut Workflow,
    pool: PoolId,
    id: SnapId,
) -> Result<ClusterResponse, Stop> {
    ask_monitor(workflow, || PoolRequest::remove_snapshot(pool, id))
}

/// Sends a request to the monitor, again while its store fails. It may then be executed twice, which is
/// harmless for allocating and deleting ids.
fn ask_monitor(
    workflow: &mut Workflow,
    request: impl Fn() -> PoolRequest,
) -> Result<ClusterResponse, Stop> {
    let (mut answer, mut timeouts) = (Err(Errno::IO), 0);
    for _ in 0..ATTEMPTS_MAX {
        answer = workflow.request(|| ClusterRequest::Pool(request()))?;
        match answer {
            Err(Errno::IO | Errno::AGAIN) => {}
            Err(Errno::TIMEDOUT) if timeouts < TIMEOUTS_MAX => timeouts += 1,
            _ => break,
        }
        workflow.delay(PAUSE)?;
    }
    Ok(answer)
}

/// Removes a snapshot. One with clones of format 2 moves to the trash and goes with its last clone.
pub fn remove_snapshot(image: ImageSpec, name: String) -> Task<()> {
    Task::new(move |workflow| {
        change_image(workflow, &image, |workflow, header| remove_as_owner(workflow, header, &name))
    })
}

pub(super) fn remove_as_owner(
    workflow: &mut Workflow,
    header: &Header,
    name: &str,
) -> Result<(), Stop> {
    let snapshot = find_removable(workflow, header, name)?;
    remove_one(workflow, header, &snapshot)
}

/// The snapshot of that name, or what an interrupted removal has left of it.
fn find_removable(workflow: &mut Workflow, header: &Header, name: &str) -> Result<Snapshot, Stop> {
    let error = match snapshot::find(workflow, header, name) {
        Err(Stop::Failed(error)) if error.errno() == Errno::NOENT => error,
        outcome => return outcome,
    };
    let mut all = snapshot::read_all(workflow, header)?.into_iter();
    let left = all.find(|snapshot| snapshot.is_left_over() && snapshot.user_name() == name);
    left.ok_or_else(|| error.into())
}

fn remove_one(workflow: &mut Workflow, header: &Header, snapshot: &Snapshot) -> Result<(), Stop> {
    let full_name = format!("{}@{}", header.spec, snapshot.user_name());
    if snapshot.is_protected() {
        return Err(Error::refused(format!(
            "{full_name} is protected; `snap unprotect` ends that"
        ))
        .into());
    }
    // The trash entry keeps new clones from being made, so that the count read next stays true.
    match workflow.try_write(&header.place(), || vec![calls::trash_snapshot(snapshot.id)])? {
        Ok(_) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(Error::cluster(format!("removing {full_name}"), errno).into()),
    }
    match snapshot::read_one(workflow, header, snapshot.id)? {
        Some(now) if now.children == 0 => discard(workflow, header, &now)?,
        _ => {}
    }
    tell_watchers(workflow, &header.place())
}

/// Removes a snapshot without clones. Its data goes first: while the header lists the snapshot, the removal
/// can be repeated.
pub(super) fn discard(
    workflow: &mut Workflow,
    header: &Header,
    snapshot: &Snapshot,
) -> Result<(), Stop> {
    let left = parents::left_with(workflow, header, snapshot)?;
    object_map::snapshot_removed(workflow, header, snapshot.id)?;
    let what = format!("removing the snapshot {}@{}", header.spec, snapshot.user_name());
    match give_up_number(workflow, header.data_pool(), snapshot.id)? {
        Ok(_) | Err(Errno::NOENT) => {}
        // The header is the only record of the id that holds the space.
        Err(errno) => return Err(Error::cluster(what, errno).into()),
    }
    workflow.write(&what, &header.place(), || vec![calls::remove_snapshot(snapshot.id)])?;
    match left {
        Some((parent, format)) => {
            parents::leave(workflow, &header.spec, &header.id, &parent, format)
        }
        None => Ok(()),
    }
}

/// Result of a purge of snapshots.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Purged {
    pub removed: Vec<String>,
    /// Protected snapshots, which stay.
    pub protected: Vec<String>,
}

/// Removes all unprotected snapshots of users, and the remains of interrupted removals.
pub fn purge_snapshots(image: ImageSpec) -> Task<Purged> {
    Task::new(move |workflow| change_image(workflow, &image, purge))
}

fn purge(workflow: &mut Workflow, header: &Header) -> Result<Purged, Stop> {
    let mut all = snapshot::read_all(workflow, header)?;
    all.retain(|snapshot| snapshot.purpose == Purpose::User || snapshot.is_left_over());
    let mut purged = Purged::default();
    for snapshot in all {
        if snapshot.is_protected() {
            purged.protected.push(snapshot.name);
            continue;
        }
        remove_one(workflow, header, &snapshot)?;
        purged.removed.push(snapshot.user_name().to_owned());
    }
    Ok(purged)
}

pub fn rename_snapshot(image: ImageSpec, old: String, new: String) -> Task<()> {
    Task::perform(async move |steps| {
        check_name(&new)?;
        change_image_async(&steps, &image, async |steps, header| {
            let snapshot = snapshot::find_async(steps, header, &old).await?;
            let ops = vec![calls::rename_snapshot(snapshot.id, &new)];
            match steps.write(&header.place(), ops).await {
                Ok(_) => tell_watchers_async(steps, &header.place()).await,
                Err(Errno::EXIST) => {
                    let text = format!("there is already a snapshot {image}@{new}");
                    Err(Error::cluster(text, Errno::EXIST))
                }
                Err(errno) => Err(Error::cluster(format!("renaming {image}@{old}"), errno)),
            }
        })
        .await
    })
}

/// Protects a snapshot from removal; clones of format 1 need that.
pub fn protect_snapshot(image: ImageSpec, name: String) -> Task<()> {
    Task::perform(async move |steps| {
        change_image_async(&steps, &image, async |steps, header| {
            if !header.features.contains(Features::LAYERING) {
                return Err(Error::refused(format!("{image} lacks the feature layering")));
            }
            let snapshot = snapshot::find_async(steps, header, &name).await?;
            if snapshot.is_protected() {
                return Err(Error::refused(format!("{image}@{name} is protected already")));
            }
            set_protection_async(steps, header, &snapshot, Protection::PROTECTED).await
        })
        .await
    })
}

fn set_protection(
    workflow: &mut Workflow,
    header: &Header,
    snapshot: &Snapshot,
    protection: Protection,
) -> Result<(), Stop> {
    let what = format!("changing the protection of {}@{}", header.spec, snapshot.name);
    let ops = || vec![calls::set_protection(snapshot.id, protection)];
    workflow.write(&what, &header.place(), ops)?;
    tell_watchers(workflow, &header.place())
}

async fn set_protection_async(
    steps: &Steps,
    header: &Header,
    snapshot: &Snapshot,
    protection: Protection,
) -> Result<(), Error> {
    let what = format!("changing the protection of {}@{}", header.spec, snapshot.name);
    let ops = vec![calls::set_protection(snapshot.id, protection)];
    steps.write_step(&what, &header.place(), ops).await?;
    tell_watchers_async(steps, &header.place()).await
}

/// `pools` lists all pools: clones of format 1 are registered in their own pools only.
pub fn unprotect_snapshot(image: ImageSpec, name: String, pools: Vec<Pool>) -> Task<()> {
    Task::new(move |workflow| {
        change_image(workflow, &image, |workflow, header| {
            unprotect(workflow, header, &name, &pools)
        })
    })
}

fn unprotect(
    workflow: &mut Workflow,
    header: &Header,
    name: &str,
    pools: &[Pool],
) -> Result<(), Stop> {
    let full_name = format!("{}@{name}", header.spec);
    let snapshot = snapshot::find(workflow, header, name)?;
    if !snapshot.is_protected() {
        return Err(Error::refused(format!("{full_name} is not protected")).into());
    }
    // A client that makes a clone sees the state and gives up.
    set_protection(workflow, header, &snapshot, Protection::UNPROTECTING)?;
    let Some(pool) = pool_with_clones(workflow, header, snapshot.id, pools)? else {
        return set_protection(workflow, header, &snapshot, Protection::UNPROTECTED);
    };
    set_protection(workflow, header, &snapshot, Protection::PROTECTED)?;
    Err(Error::refused(format!(
        "{full_name} has clones in the pool {pool}; `image children` names them, `image flatten` makes \
         them images of their own"
    ))
    .into())
}

fn pool_with_clones(
    workflow: &mut Workflow,
    header: &Header,
    snap: SnapId,
    pools: &[Pool],
) -> Result<Option<Pool>, Stop> {
    for pool in pools {
        if !super::children::old_children(workflow, header, snap, pool)?.is_empty() {
            return Ok(Some(pool.clone()));
        }
    }
    Ok(None)
}

/// Rolls the image back to a snapshot. Clients that have it open see objects change one by one.
pub fn roll_back(image: ImageSpec, name: String) -> Task<()> {
    Task::new(move |workflow| {
        let header = header::read(workflow, &image)?;
        let snapshot = snapshot::find(workflow, &header, &name)?;
        copy_up_before_shrinking(workflow, &image, &header, snapshot.size)?;
        change_image(workflow, &image, |workflow, header| {
            let snapshot = snapshot::find(workflow, header, &name)?;
            resize_to(workflow, header, snapshot.size)?;
            let header = Header { size: snapshot.size, ..header.clone() };
            object_map::rolling_back(workflow, &header)?;
            workflow.sweep("going back to the snapshot", 0..header.objects(), |object| {
                let ops = vec![OsdOp::roll_back(snapshot.id)];
                let mut operation = write_operation(header.data_place(object), ops);
                operation.snap_context = header.snap_context.clone();
                Some(operation)
            })?;
            object_map::rolled_back(workflow, &header, snapshot.id)?;
            tell_watchers(workflow, &header.place())
        })
    })
}
