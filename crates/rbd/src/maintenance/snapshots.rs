//! Taking and removing of a snapshot as owner of the exclusive lock.

use super::detach::remove_without_clones;
use super::snapshot_ids;
use crate::header::Header;
use crate::snapshot::Snapshot;
use crate::{Error, calls, object_map, snapshot_list, watchers};
use rados::Steps;
use types::Errno;

/// Attempts to allocate a snapshot id when other clients are faster.
const IDS_MAX: usize = 16;

pub(crate) async fn take_as_owner(steps: &Steps, header: &Header, name: &str) -> Result<(), Error> {
    check_name(name)?;
    take(steps, header, name).await?;
    watchers::notify(steps, &header.place()).await
}

/// Refuses names that a path of an image could not hold.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    match name.is_empty() || name.contains(['/', '@']) {
        true => Err(Error::refused(format!("{name:?} is not a name for a snapshot"))),
        false => Ok(()),
    }
}

async fn take(steps: &Steps, header: &Header, name: &str) -> Result<(), Error> {
    let what = format!("taking the snapshot {}@{name}", header.spec);
    for _ in 0..IDS_MAX {
        let id = snapshot_ids::allocate(steps, header.data_pool()).await?;
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
        let _ = snapshot_ids::delete(steps, header.data_pool(), id).await;
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

pub(crate) async fn remove_as_owner(
    steps: &Steps,
    header: &Header,
    name: &str,
) -> Result<(), Error> {
    let snapshot = find_removable(steps, header, name).await?;
    remove_one(steps, header, &snapshot).await
}

/// The snapshot of that name, or what an interrupted removal has left of it.
async fn find_removable(steps: &Steps, header: &Header, name: &str) -> Result<Snapshot, Error> {
    let error = match snapshot_list::find(steps, header, name).await {
        Err(error) if error.errno() == Errno::NOENT => error,
        outcome => return outcome,
    };
    let mut all = snapshot_list::read_all(steps, header).await?.into_iter();
    let left = all.find(|snapshot| snapshot.is_left_over() && snapshot.user_name() == name);
    left.ok_or(error)
}

/// Removes a snapshot; one with clones of format 2 moves to the trash.
pub(crate) async fn remove_one(
    steps: &Steps,
    header: &Header,
    snapshot: &Snapshot,
) -> Result<(), Error> {
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
    match snapshot_list::read_one(steps, header, snapshot.id).await? {
        Some(now) if now.children == 0 => remove_without_clones(steps, header, &now).await?,
        _ => {}
    }
    watchers::notify(steps, &header.place()).await
}
