//! Snapshots of an image: creation, rollback, removal, protection.

use super::clone::copy_up_before_shrinking;
use super::resize::resize_to;
use super::{parents, tell_watchers};
use crate::header::{self, Header};
use crate::lock::with_lock;
use crate::snapshot::{self, Protection, Purpose, Snapshot};
use crate::steps::NamedSteps;
use crate::task::Task;
use crate::{Error, Features, ImageSpec, Pool, calls, object_map};
use engine::Duration;
use rados::{Operation, PoolRequest, Steps};
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
    Task::new(async move |steps| {
        let header = header::read(&steps, &image).await?;
        snapshot::read_all(&steps, &header).await
    })
}

/// Takes a snapshot. Writes in flight may be part of it or not.
pub fn take_snapshot(image: ImageSpec, name: String) -> Task<()> {
    Task::new(async move |steps| {
        check_name(&name)?;
        change_image(&steps, &image, async |steps, header| {
            take_as_owner(steps, header, &name).await
        })
        .await
    })
}

pub(super) async fn take_as_owner(steps: &Steps, header: &Header, name: &str) -> Result<(), Error> {
    check_name(name)?;
    take(steps, header, name).await?;
    tell_watchers(steps, &header.place()).await
}

fn check_name(name: &str) -> Result<(), Error> {
    match name.is_empty() || name.contains(['/', '@']) {
        true => Err(Error::refused(format!("{name:?} is not a name for a snapshot"))),
        false => Ok(()),
    }
}

/// Runs a change with the lock held, so that writes that completed before are part of the snapshot.
async fn change_image<T>(
    steps: &Steps,
    image: &ImageSpec,
    change: impl AsyncFnOnce(&Steps, &Header) -> Result<T, Error>,
) -> Result<T, Error> {
    let header = header::read(steps, image).await?;
    header.features.check_writable(&image.to_string())?;
    with_lock(steps, header, change).await
}

async fn take(steps: &Steps, header: &Header, name: &str) -> Result<(), Error> {
    let what = format!("taking the snapshot {}@{name}", header.spec);
    for _ in 0..NUMBERS_MAX {
        let id = new_number(steps, header.data_pool()).await?;
        let added = steps.write(&header.place(), vec![calls::add_snapshot(name, id)]).await;
        let Err(errno) = added else {
            return object_map::snapshot_taken(steps, header, id).await;
        };
        if !is_refusal(errno) {
            // The id is not given up: trimming a snapshot that the header may still list would destroy it,
            // and an unused id does no harm.
            let text = format!("{what} (it may still be taken: `image snap ls` shows it then)");
            return Err(Error::cluster(text, errno));
        }
        let _ = give_up_number(steps, header.data_pool(), id).await;
        match errno {
            Errno::STALE => {}
            Errno::EXIST => {
                let text = format!("there is already a snapshot {}@{name}", header.spec);
                return Err(Error::cluster(text, errno));
            }
            errno => return Err(Error::cluster(what, errno)),
        }
    }
    Err(Error::cluster(what, Errno::STALE))
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
async fn new_number(steps: &Steps, pool: PoolId) -> Result<SnapId, Error> {
    let answer = ask_monitor(steps, || PoolRequest::take_snapshot(pool)).await;
    let what = "getting a number for a snapshot";
    match answer {
        Ok(Some(snap)) => Ok(snap),
        Ok(_) => Err(Error::cluster(what, Errno::IO)),
        Err(Errno::INVAL) => Err(Error::refused(
            "the pool with the data has snapshots of its own (`ceph osd pool mksnap`), and so can \
             have none of images",
        )),
        Err(errno) => Err(Error::cluster(what, errno)),
    }
}

/// Deletes a snapshot id, so that OSDs trim its clones.
async fn give_up_number(steps: &Steps, pool: PoolId, id: SnapId) -> Result<Option<SnapId>, Errno> {
    ask_monitor(steps, || PoolRequest::remove_snapshot(pool, id)).await
}

/// Sends a request to the monitor, again while its store fails. It may then be executed twice, which is
/// harmless for allocating and deleting ids. Returns the new snapshot id, if one was asked for.
async fn ask_monitor(
    steps: &Steps,
    request: impl Fn() -> PoolRequest,
) -> Result<Option<SnapId>, Errno> {
    let (mut answer, mut timeouts) = (Err(Errno::IO), 0);
    for _ in 0..ATTEMPTS_MAX {
        answer = steps.pool(request()).await.map(|(_, snap)| snap);
        match answer {
            Err(Errno::IO | Errno::AGAIN) => {}
            Err(Errno::TIMEDOUT) if timeouts < TIMEOUTS_MAX => timeouts += 1,
            _ => break,
        }
        steps.wait(PAUSE).await;
    }
    answer
}

/// Removes a snapshot. One with clones of format 2 moves to the trash and goes with its last clone.
pub fn remove_snapshot(image: ImageSpec, name: String) -> Task<()> {
    Task::new(async move |steps| {
        change_image(&steps, &image, async |steps, header| {
            remove_as_owner(steps, header, &name).await
        })
        .await
    })
}

pub(super) async fn remove_as_owner(
    steps: &Steps,
    header: &Header,
    name: &str,
) -> Result<(), Error> {
    let snapshot = find_removable(steps, header, name).await?;
    remove_one(steps, header, &snapshot).await
}

/// The snapshot of that name, or what an interrupted removal has left of it.
async fn find_removable(steps: &Steps, header: &Header, name: &str) -> Result<Snapshot, Error> {
    let error = match snapshot::find(steps, header, name).await {
        Err(error) if error.errno() == Errno::NOENT => error,
        outcome => return outcome,
    };
    let mut all = snapshot::read_all(steps, header).await?.into_iter();
    let left = all.find(|snapshot| snapshot.is_left_over() && snapshot.user_name() == name);
    left.ok_or(error)
}

async fn remove_one(steps: &Steps, header: &Header, snapshot: &Snapshot) -> Result<(), Error> {
    let full_name = format!("{}@{}", header.spec, snapshot.user_name());
    if snapshot.is_protected() {
        return Err(Error::refused(format!(
            "{full_name} is protected; `snap unprotect` ends that"
        )));
    }
    // The trash entry keeps new clones from being made, so that the count read next stays true.
    match steps.write(&header.place(), vec![calls::trash_snapshot(snapshot.id)]).await {
        Ok(_) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(Error::cluster(format!("removing {full_name}"), errno)),
    }
    match snapshot::read_one(steps, header, snapshot.id).await? {
        Some(now) if now.children == 0 => discard(steps, header, &now).await?,
        _ => {}
    }
    tell_watchers(steps, &header.place()).await
}

/// Removes a snapshot without clones. Its data goes first: while the header lists the snapshot, the removal
/// can be repeated.
pub(super) async fn discard(
    steps: &Steps,
    header: &Header,
    snapshot: &Snapshot,
) -> Result<(), Error> {
    let left = parents::left_with(steps, header, snapshot).await?;
    object_map::snapshot_removed(steps, header, snapshot.id).await?;
    let what = format!("removing the snapshot {}@{}", header.spec, snapshot.user_name());
    match give_up_number(steps, header.data_pool(), snapshot.id).await {
        Ok(_) | Err(Errno::NOENT) => {}
        // The header is the only record of the id that holds the space.
        Err(errno) => return Err(Error::cluster(what, errno)),
    }
    steps.write_step(&what, &header.place(), vec![calls::remove_snapshot(snapshot.id)]).await?;
    match left {
        Some((parent, format)) => {
            // The parent may lose a snapshot by this, and leave a parent of its own.
            let left = parents::leave(steps, &header.spec, &header.id, &parent, format);
            Box::pin(left).await
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
    Task::new(async move |steps| change_image(&steps, &image, purge).await)
}

async fn purge(steps: &Steps, header: &Header) -> Result<Purged, Error> {
    let mut all = snapshot::read_all(steps, header).await?;
    all.retain(|snapshot| snapshot.purpose == Purpose::User || snapshot.is_left_over());
    let mut purged = Purged::default();
    for snapshot in all {
        if snapshot.is_protected() {
            purged.protected.push(snapshot.name);
            continue;
        }
        remove_one(steps, header, &snapshot).await?;
        purged.removed.push(snapshot.user_name().to_owned());
    }
    Ok(purged)
}

pub fn rename_snapshot(image: ImageSpec, old: String, new: String) -> Task<()> {
    Task::new(async move |steps| {
        check_name(&new)?;
        change_image(&steps, &image, async |steps, header| {
            let snapshot = snapshot::find(steps, header, &old).await?;
            let ops = vec![calls::rename_snapshot(snapshot.id, &new)];
            match steps.write(&header.place(), ops).await {
                Ok(_) => tell_watchers(steps, &header.place()).await,
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
    Task::new(async move |steps| {
        change_image(&steps, &image, async |steps, header| {
            if !header.features.contains(Features::LAYERING) {
                return Err(Error::refused(format!("{image} lacks the feature layering")));
            }
            let snapshot = snapshot::find(steps, header, &name).await?;
            if snapshot.is_protected() {
                return Err(Error::refused(format!("{image}@{name} is protected already")));
            }
            set_protection(steps, header, &snapshot, Protection::PROTECTED).await
        })
        .await
    })
}

async fn set_protection(
    steps: &Steps,
    header: &Header,
    snapshot: &Snapshot,
    protection: Protection,
) -> Result<(), Error> {
    let what = format!("changing the protection of {}@{}", header.spec, snapshot.name);
    let ops = vec![calls::set_protection(snapshot.id, protection)];
    steps.write_step(&what, &header.place(), ops).await?;
    tell_watchers(steps, &header.place()).await
}

/// `pools` lists all pools: clones of format 1 are registered in their own pools only.
pub fn unprotect_snapshot(image: ImageSpec, name: String, pools: Vec<Pool>) -> Task<()> {
    Task::new(async move |steps| {
        change_image(&steps, &image, async |steps, header| {
            unprotect(steps, header, &name, &pools).await
        })
        .await
    })
}

async fn unprotect(
    steps: &Steps,
    header: &Header,
    name: &str,
    pools: &[Pool],
) -> Result<(), Error> {
    let full_name = format!("{}@{name}", header.spec);
    let snapshot = snapshot::find(steps, header, name).await?;
    if !snapshot.is_protected() {
        return Err(Error::refused(format!("{full_name} is not protected")));
    }
    // A client that makes a clone sees the state and gives up.
    set_protection(steps, header, &snapshot, Protection::UNPROTECTING).await?;
    let Some(pool) = pool_with_clones(steps, header, snapshot.id, pools).await? else {
        return set_protection(steps, header, &snapshot, Protection::UNPROTECTED).await;
    };
    set_protection(steps, header, &snapshot, Protection::PROTECTED).await?;
    Err(Error::refused(format!(
        "{full_name} has clones in the pool {pool}; `image children` names them, `image flatten` makes \
         them images of their own"
    )))
}

async fn pool_with_clones(
    steps: &Steps,
    header: &Header,
    snap: SnapId,
    pools: &[Pool],
) -> Result<Option<Pool>, Error> {
    for pool in pools {
        if !super::children::old_children(steps, header, snap, pool).await?.is_empty() {
            return Ok(Some(pool.clone()));
        }
    }
    Ok(None)
}

/// Rolls the image back to a snapshot. Clients that have it open see objects change one by one.
pub fn roll_back(image: ImageSpec, name: String) -> Task<()> {
    Task::new(async move |steps| {
        let header = header::read(&steps, &image).await?;
        let snapshot = snapshot::find(&steps, &header, &name).await?;
        copy_up_before_shrinking(&steps, &image, &header, snapshot.size).await?;
        change_image(&steps, &image, async |steps, header| {
            let snapshot = snapshot::find(steps, header, &name).await?;
            resize_to(steps, header, snapshot.size).await?;
            let header = Header { size: snapshot.size, ..header.clone() };
            object_map::rolling_back(steps, &header).await?;
            steps
                .for_each_step("going back to the snapshot", 0..header.objects(), |object| {
                    let ops = vec![OsdOp::roll_back(snapshot.id)];
                    let mut operation = Operation::write(header.data_place(object), ops);
                    operation.snap_context = header.snap_context.clone();
                    Some(operation)
                })
                .await?;
            object_map::rolled_back(steps, &header, snapshot.id).await?;
            tell_watchers(steps, &header.place()).await
        })
        .await
    })
}
