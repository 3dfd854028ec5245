//! Snapshots of an image: creation, rollback, removal, protection.

use super::clone::copy_up_before_shrinking;
use crate::header::{self, Header};
use crate::lock::with_lock;
use crate::maintenance::resize::resize_to;
use crate::maintenance::snapshots::{check_name, remove_as_owner, remove_one, take_as_owner};
use crate::snapshot::{Protection, Purpose, Snapshot};
use crate::steps::NamedSteps;
use crate::task::Task;
use crate::{Error, Features, ImageSpec, Pool, calls, object_map, snapshot_list, watchers};
use rados::{Operation, Steps};
use types::{Errno, SnapId};
use wire::OsdOp;

/// All snapshots, the oldest first, with those in the trash.
pub fn snapshots(image: ImageSpec) -> Task<Vec<Snapshot>> {
    Task::new(async move |steps| {
        let header = header::read(&steps, &image).await?;
        snapshot_list::read_all(&steps, &header).await
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

/// Removes a snapshot. One with clones of format 2 moves to the trash and goes with its last clone.
pub fn remove_snapshot(image: ImageSpec, name: String) -> Task<()> {
    Task::new(async move |steps| {
        change_image(&steps, &image, async |steps, header| {
            remove_as_owner(steps, header, &name).await
        })
        .await
    })
}

/// Result of a purge of snapshots.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Purged {
    /// Names of the snapshots that were removed.
    pub removed: Vec<String>,
    /// Protected snapshots, which stay.
    pub protected: Vec<String>,
}

/// Removes all unprotected snapshots of users, and the remains of interrupted removals.
pub fn purge_snapshots(image: ImageSpec) -> Task<Purged> {
    Task::new(async move |steps| change_image(&steps, &image, purge).await)
}

async fn purge(steps: &Steps, header: &Header) -> Result<Purged, Error> {
    let mut all = snapshot_list::read_all(steps, header).await?;
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

/// Renames a snapshot; EEXIST if the new name is taken.
pub fn rename_snapshot(image: ImageSpec, old: String, new: String) -> Task<()> {
    Task::new(async move |steps| {
        check_name(&new)?;
        change_image(&steps, &image, async |steps, header| {
            let snapshot = snapshot_list::find(steps, header, &old).await?;
            let ops = vec![calls::rename_snapshot(snapshot.id, &new)];
            match steps.write(&header.place(), ops).await {
                Ok(_) => watchers::notify(steps, &header.place()).await,
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
            let snapshot = snapshot_list::find(steps, header, &name).await?;
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
    watchers::notify(steps, &header.place()).await
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
    let snapshot = snapshot_list::find(steps, header, name).await?;
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
        let snapshot = snapshot_list::find(&steps, &header, &name).await?;
        copy_up_before_shrinking(&steps, &image, &header, snapshot.size).await?;
        change_image(&steps, &image, async |steps, header| {
            let snapshot = snapshot_list::find(steps, header, &name).await?;
            resize_to(steps, header, snapshot.size).await?;
            let header = Header { size: snapshot.size, ..header.clone() };
            object_map::rolling_back(steps, &header).await?;
            steps
                .for_each_step("rolling back to the snapshot", 0..header.objects(), |object| {
                    let ops = vec![OsdOp::roll_back(snapshot.id)];
                    let mut operation = Operation::write(header.data_place(object), ops);
                    operation.snap_context = header.snap_context.clone();
                    Some(operation)
                })
                .await?;
            object_map::rolled_back(steps, &header, snapshot.id).await?;
            watchers::notify(steps, &header.place()).await
        })
        .await
    })
}
