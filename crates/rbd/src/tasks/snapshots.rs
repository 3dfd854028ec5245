//! Taking snapshots of an image, going back to them, and removing them.

use super::clone::copy_up_before_shrinking;
use super::resize::resize_to;
use super::{parents, tell_watchers};
use crate::header::{self, Header};
use crate::lock::with_lock;
use crate::snapshot::{self, Protection, Purpose, Snapshot};
use crate::steps::{Answer, Ask, Steps, Stop, Task, change};
use crate::{Error, Features, ImageSpec, Pool, calls, object_map};
use engine::Duration;
use rados::{PoolRequest, Reply};
use types::{Errno, PoolId, SnapId};
use wire::OsdOp;

/// How often a number is asked for because others were quicker.
const NUMBERS_MAX: usize = 16;
/// How often a monitor is asked whose store fails, and with which pauses.
const ATTEMPTS_MAX: usize = 30;
const PAUSE: Duration = Duration::from_secs(1);
/// How often again after a timeout: each may have taken minutes.
const TIMEOUTS_MAX: usize = 2;

/// All snapshots, the oldest first, also those that are kept for clones only.
pub fn snapshots(image: ImageSpec) -> Task<Vec<Snapshot>> {
    Task::new(move |steps| {
        let header = header::read(steps, &image)?;
        snapshot::read_all(steps, &header)
    })
}

/// The image as it is now gets a name. Writes that have not completed may be in it or not.
pub fn take_snapshot(image: ImageSpec, name: String) -> Task<()> {
    Task::new(move |steps| {
        check_name(&name)?;
        change_image(steps, &image, |steps, header| take_as_owner(steps, header, &name))
    })
}

pub(super) fn take_as_owner(steps: &mut Steps, header: &Header, name: &str) -> Result<(), Stop> {
    check_name(name)?;
    take(steps, header, name)?;
    tell_watchers(steps, &header.place())
}

fn check_name(name: &str) -> Result<(), Error> {
    match name.is_empty() || name.contains(['/', '@']) {
        true => Err(Error::refused(format!("{name:?} is not a name for a snapshot"))),
        false => Ok(()),
    }
}

/// With the lock, so that what others have written is in a snapshot whose taking they agreed to.
fn change_image<T>(
    steps: &mut Steps,
    image: &ImageSpec,
    change: impl FnOnce(&mut Steps, &Header) -> Result<T, Stop>,
) -> Result<T, Stop> {
    let header = header::read(steps, image)?;
    header.features.check_writable(&image.to_string())?;
    with_lock(steps, header, change)
}

fn take(steps: &mut Steps, header: &Header, name: &str) -> Result<(), Stop> {
    let what = format!("taking the snapshot {}@{name}", header.spec);
    for _ in 0..NUMBERS_MAX {
        let id = new_number(steps, header.data_pool())?;
        let added = steps.try_change(&header.place(), || vec![calls::add_snapshot(name, id)])?;
        let Err(errno) = added else { return object_map::snapshot_taken(steps, header, id) };
        if !is_refusal(errno) {
            // Trimming what the header may come to list would break it; a number too many harms nobody.
            let text = format!("{what} (it may still be taken: `image snap ls` shows it then)");
            return Err(Error::cluster(text, errno).into());
        }
        let _ = give_up_number(steps, header.data_pool(), id)?;
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

/// Whether the header is certain to stay as it was. An operation that timed out may still be executed.
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

/// Numbers are the pool's in which the data is.
fn new_number(steps: &mut Steps, pool: PoolId) -> Result<SnapId, Stop> {
    let answer = ask_monitor(steps, || PoolRequest::take_snapshot(pool))?;
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

/// What was preserved for it goes.
fn give_up_number(steps: &mut Steps, pool: PoolId, id: SnapId) -> Result<Answer, Stop> {
    ask_monitor(steps, || PoolRequest::remove_snapshot(pool, id))
}

/// Whether it was done is not known while the monitor's store fails; a number that is given, or given up,
/// twice harms nobody.
fn ask_monitor(steps: &mut Steps, request: impl Fn() -> PoolRequest) -> Result<Answer, Stop> {
    let (mut answer, mut timeouts) = (Err(Errno::IO), 0);
    for _ in 0..ATTEMPTS_MAX {
        answer = steps.ask(|| Ask::Pool(request()))?;
        match answer {
            Err(Errno::IO | Errno::AGAIN) => {}
            Err(Errno::TIMEDOUT) if timeouts < TIMEOUTS_MAX => timeouts += 1,
            _ => break,
        }
        steps.rest(PAUSE)?;
    }
    Ok(answer)
}

/// A snapshot with clones that its header knows of gives up its name, and goes with its last clone.
pub fn remove_snapshot(image: ImageSpec, name: String) -> Task<()> {
    Task::new(move |steps| {
        change_image(steps, &image, |steps, header| remove_as_owner(steps, header, &name))
    })
}

pub(super) fn remove_as_owner(steps: &mut Steps, header: &Header, name: &str) -> Result<(), Stop> {
    let snapshot = find_removable(steps, header, name)?;
    remove_one(steps, header, &snapshot)
}

/// One of that name, or what an interrupted removal has left of one.
fn find_removable(steps: &mut Steps, header: &Header, name: &str) -> Result<Snapshot, Stop> {
    let error = match snapshot::find(steps, header, name) {
        Err(Stop::Failed(error)) if error.errno() == Errno::NOENT => error,
        outcome => return outcome,
    };
    let mut all = snapshot::read_all(steps, header)?.into_iter();
    let left = all.find(|snapshot| snapshot.is_left_over() && snapshot.user_name() == name);
    left.ok_or_else(|| error.into())
}

fn remove_one(steps: &mut Steps, header: &Header, snapshot: &Snapshot) -> Result<(), Stop> {
    let full_name = format!("{}@{}", header.spec, snapshot.user_name());
    if snapshot.is_protected() {
        return Err(Error::refused(format!(
            "{full_name} is protected; `snap unprotect` ends that"
        ))
        .into());
    }
    // From then on nobody makes clones of it, so that what is read next stays true.
    match steps.try_change(&header.place(), || vec![calls::trash_snapshot(snapshot.id)])? {
        Ok(_) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(Error::cluster(format!("removing {full_name}"), errno).into()),
    }
    match snapshot::read_one(steps, header, snapshot.id)? {
        Some(now) if now.children == 0 => discard(steps, header, &now)?,
        _ => {}
    }
    tell_watchers(steps, &header.place())
}

/// Removes a snapshot that has no clones. The data goes first: as long as the header lists the
/// snapshot, this can be done again.
pub(super) fn discard(steps: &mut Steps, header: &Header, snapshot: &Snapshot) -> Result<(), Stop> {
    let left = parents::left_with(steps, header, snapshot)?;
    object_map::snapshot_removed(steps, header, snapshot.id)?;
    let what = format!("removing the snapshot {}@{}", header.spec, snapshot.user_name());
    match give_up_number(steps, header.data_pool(), snapshot.id)? {
        Ok(_) | Err(Errno::NOENT) => {}
        // Nobody but the header knows which number it is that holds the space.
        Err(errno) => return Err(Error::cluster(what, errno).into()),
    }
    steps.change(&what, &header.place(), || vec![calls::remove_snapshot(snapshot.id)])?;
    match left {
        Some((parent, format)) => parents::leave(steps, &header.spec, &header.id, &parent, format),
        None => Ok(()),
    }
}

/// What became of the snapshots of an image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Purged {
    pub removed: Vec<String>,
    /// Protected ones stay.
    pub protected: Vec<String>,
}

/// Removes all snapshots that users took, but for protected ones, and what is left of removed ones.
pub fn purge_snapshots(image: ImageSpec) -> Task<Purged> {
    Task::new(move |steps| change_image(steps, &image, purge))
}

fn purge(steps: &mut Steps, header: &Header) -> Result<Purged, Stop> {
    let mut all = snapshot::read_all(steps, header)?;
    all.retain(|snapshot| snapshot.purpose == Purpose::User || snapshot.is_left_over());
    let mut purged = Purged::default();
    for snapshot in all {
        if snapshot.is_protected() {
            purged.protected.push(snapshot.name);
            continue;
        }
        remove_one(steps, header, &snapshot)?;
        purged.removed.push(snapshot.user_name().to_owned());
    }
    Ok(purged)
}

pub fn rename_snapshot(image: ImageSpec, old: String, new: String) -> Task<()> {
    Task::new(move |steps| {
        check_name(&new)?;
        change_image(steps, &image, |steps, header| {
            let snapshot = snapshot::find(steps, header, &old)?;
            let ops = || vec![calls::rename_snapshot(snapshot.id, &new)];
            match steps.try_change(&header.place(), ops)? {
                Ok(_) => tell_watchers(steps, &header.place()),
                Err(Errno::EXIST) => {
                    let text = format!("there is already a snapshot {image}@{new}");
                    Err(Error::cluster(text, Errno::EXIST).into())
                }
                Err(errno) => Err(Error::cluster(format!("renaming {image}@{old}"), errno).into()),
            }
        })
    })
}

/// A protected snapshot is not removed; clones of the first format need that.
pub fn protect_snapshot(image: ImageSpec, name: String) -> Task<()> {
    Task::new(move |steps| {
        change_image(steps, &image, |steps, header| {
            if !header.features.contains(Features::LAYERING) {
                return Err(Error::refused(format!("{image} lacks the feature layering")).into());
            }
            let snapshot = snapshot::find(steps, header, &name)?;
            if snapshot.is_protected() {
                return Err(Error::refused(format!("{image}@{name} is protected already")).into());
            }
            set_protection(steps, header, &snapshot, Protection::PROTECTED)
        })
    })
}

fn set_protection(
    steps: &mut Steps,
    header: &Header,
    snapshot: &Snapshot,
    protection: Protection,
) -> Result<(), Stop> {
    let what = format!("changing the protection of {}@{}", header.spec, snapshot.name);
    let ops = || vec![calls::set_protection(snapshot.id, protection)];
    steps.change(&what, &header.place(), ops)?;
    tell_watchers(steps, &header.place())
}

/// `pools` are all that there are: clones of the first format are noted in their own pools only.
pub fn unprotect_snapshot(image: ImageSpec, name: String, pools: Vec<Pool>) -> Task<()> {
    Task::new(move |steps| {
        change_image(steps, &image, |steps, header| unprotect(steps, header, &name, &pools))
    })
}

fn unprotect(steps: &mut Steps, header: &Header, name: &str, pools: &[Pool]) -> Result<(), Stop> {
    let full_name = format!("{}@{name}", header.spec);
    let snapshot = snapshot::find(steps, header, name)?;
    if !snapshot.is_protected() {
        return Err(Error::refused(format!("{full_name} is not protected")).into());
    }
    // Whoever makes a clone sees it, and gives up.
    set_protection(steps, header, &snapshot, Protection::UNPROTECTING)?;
    let Some(pool) = pool_with_clones(steps, header, snapshot.id, pools)? else {
        return set_protection(steps, header, &snapshot, Protection::UNPROTECTED);
    };
    set_protection(steps, header, &snapshot, Protection::PROTECTED)?;
    Err(Error::refused(format!(
        "{full_name} has clones in the pool {pool}; `image children` names them, `image flatten` makes \
         them images of their own"
    ))
    .into())
}

fn pool_with_clones(
    steps: &mut Steps,
    header: &Header,
    snap: SnapId,
    pools: &[Pool],
) -> Result<Option<Pool>, Stop> {
    for pool in pools {
        if !super::children::old_children(steps, header, snap, pool)?.is_empty() {
            return Ok(Some(pool.clone()));
        }
    }
    Ok(None)
}

/// The image becomes what it was then. Who has it open sees that happen object by object.
pub fn roll_back(image: ImageSpec, name: String) -> Task<()> {
    Task::new(move |steps| {
        let header = header::read(steps, &image)?;
        let snapshot = snapshot::find(steps, &header, &name)?;
        copy_up_before_shrinking(steps, &image, &header, snapshot.size)?;
        change_image(steps, &image, |steps, header| {
            let snapshot = snapshot::find(steps, header, &name)?;
            resize_to(steps, header, snapshot.size)?;
            let header = Header { size: snapshot.size, ..header.clone() };
            object_map::rolling_back(steps, &header)?;
            steps.sweep("going back to the snapshot", 0..header.objects(), |object| {
                let ops = vec![OsdOp::roll_back(snapshot.id)];
                let mut operation = change(header.data_place(object), ops);
                operation.snap_context = header.snap_context.clone();
                Some(operation)
            })?;
            object_map::rolled_back(steps, &header, snapshot.id)?;
            tell_watchers(steps, &header.place())
        })
    })
}
