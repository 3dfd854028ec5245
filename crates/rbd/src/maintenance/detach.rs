//! Removal of a snapshot's data, and of the link from a clone to its parent.
//!
//! Either may follow from the other: a snapshot in the trash goes with its last clone, and the last snapshot
//! that shows a parent ends the link to it.

use super::parents::{CloneFormat, child_spec, clone_format};
use super::snapshot_ids;
use crate::header::{self, Header, Parent};
use crate::lock::with_lock;
use crate::names::ImageSpec;
use crate::snapshot::Snapshot;
use crate::steps::NamedSteps;
use crate::{Error, calls, object_map, snapshot_list, watchers};
use rados::Steps;
use types::{Errno, ParentSpec};

/// Removes a snapshot without clones. Its data goes first: while the header lists the snapshot, the removal
/// can be repeated.
pub(crate) async fn remove_without_clones(
    steps: &Steps,
    header: &Header,
    snapshot: &Snapshot,
) -> Result<(), Error> {
    let left = parent_left_with(steps, header, snapshot).await?;
    object_map::snapshot_removed(steps, header, snapshot.id).await?;
    let what = format!("removing the snapshot {}@{}", header.spec, snapshot.user_name());
    match snapshot_ids::delete(steps, header.data_pool(), snapshot.id).await {
        Ok(_) | Err(Errno::NOENT) => {}
        // The header is the only record of the id that holds the space.
        Err(errno) => return Err(Error::cluster(what, errno)),
    }
    steps.write_step(&what, &header.place(), vec![calls::remove_snapshot(snapshot.id)]).await?;
    match left {
        Some((parent, format)) => {
            // The parent may lose a snapshot by this, and with it the need for a parent of its own.
            let left = unregister_clone(steps, &header.spec, &header.id, &parent, format);
            Box::pin(left).await
        }
        None => Ok(()),
    }
}

/// Removes the registration of a clone; a missing one is no error. A snapshot in the trash is removed with
/// its last clone.
pub(crate) async fn unregister_clone(
    steps: &Steps,
    child: &ImageSpec,
    id: &str,
    parent: &Parent,
    format: CloneFormat,
) -> Result<(), Error> {
    let outcome = match format {
        CloneFormat::One => {
            let of = (parent.pool.0, parent.image.as_str(), parent.snapshot);
            let ops = vec![calls::remove_old_child(of, id)];
            steps.write(&child.pool.children(), ops).await
        }
        CloneFormat::Two => {
            let ops = vec![calls::detach_child(parent.snapshot, &child_spec(child, id))];
            steps.write(&parent.pool().header(&parent.image), ops).await
        }
    };
    match (outcome, format) {
        (Ok(_), CloneFormat::Two) => remove_unused_snapshot_of(steps, parent).await,
        (Ok(_) | Err(Errno::NOENT), _) => Ok(()),
        (Err(errno), _) => {
            Err(Error::cluster(format!("unregistering {child} from its parent"), errno))
        }
    }
}

/// Removes the parent's snapshot if it is in the trash and has lost its last clone.
async fn remove_unused_snapshot_of(steps: &Steps, parent: &Parent) -> Result<(), Error> {
    let pool = parent.pool();
    let spec = ImageSpec { pool, name: format!("(id {})", parent.image) };
    let header = match header::read_with_id(steps, &spec, parent.image.clone()).await {
        Err(error) if error.errno() == Errno::NOENT => return Ok(()),
        outcome => outcome?,
    };
    if find_unused(steps, &header, parent).await?.is_none() {
        return watchers::notify(steps, &header.place()).await;
    }
    let outcome = async {
        header.features.check_writable(&spec.to_string())?;
        let remove =
            async |steps: &Steps, header: &Header| remove_unused(steps, header, parent).await;
        with_lock(steps, header, remove).await
    };
    if let Err(error) = outcome.await {
        // The registration is removed, which is what the caller wants.
        tracing::warn!(%error, "a snapshot in the trash has no clones any more and could not be removed");
    }
    Ok(())
}

/// The parent's snapshot, if it is in the trash and has no clones any more.
async fn find_unused(
    steps: &Steps,
    header: &Header,
    parent: &Parent,
) -> Result<Option<Snapshot>, Error> {
    let found = snapshot_list::read_one(steps, header, parent.snapshot).await?;
    Ok(found.filter(Snapshot::is_left_over))
}

async fn remove_unused(steps: &Steps, header: &Header, parent: &Parent) -> Result<(), Error> {
    if let Some(snapshot) = find_unused(steps, header, parent).await? {
        remove_without_clones(steps, header, &snapshot).await?;
    }
    watchers::notify(steps, &header.place()).await
}

/// Detaches the image from its parent; with deep-flatten its snapshots as well.
pub(crate) async fn detach_from_parent(steps: &Steps, header: &Header) -> Result<(), Error> {
    let Some(parent) = &header.parent else { return Ok(()) };
    let format = clone_format(steps, header).await?;
    // The clone's side comes first, so that an interruption leaves no link to a removed parent.
    match steps.write(&header.place(), vec![calls::detach_parent()]).await {
        Ok(_) | Err(Errno::NOENT) => {}
        Err(errno) => {
            let text = format!("removing the parent from the header of {}", header.spec);
            return Err(Error::cluster(text, errno));
        }
    }
    let all = snapshot_list::read_all(steps, header).await?;
    if all.iter().all(|snapshot| snapshot.parent_overlap.is_none()) {
        unregister_clone(steps, &header.spec, &header.id, parent, format).await?;
    }
    watchers::notify(steps, &header.place()).await
}

/// The parent to which only this snapshot links the image: its removal unregisters the clone.
async fn parent_left_with(
    steps: &Steps,
    header: &Header,
    snapshot: &Snapshot,
) -> Result<Option<(Parent, CloneFormat)>, Error> {
    let Some(overlap) = snapshot.parent_overlap.filter(|_| header.parent.is_none()) else {
        return Ok(None);
    };
    let all = snapshot_list::read_all(steps, header).await?;
    let mut others = all.iter().filter(|other| other.id != snapshot.id);
    if others.any(|other| other.parent_overlap.is_some()) {
        return Ok(None);
    }
    let reply =
        steps.read_step("reading the parent", &header.place(), vec![calls::get_parent()]).await?;
    let spec: ParentSpec = calls::output(&reply, 0, "the parent")?;
    match header::parent_of(spec, overlap)? {
        Some(parent) => Ok(Some((parent, clone_format(steps, header).await?))),
        None => Ok(None),
    }
}
