//! The link between a clone and its parent snapshot: kept in the clone's header, and either in the header of
//! the parent (format 2) or in the object `rbd_children` of the clone's pool (format 1).

use super::snapshots::discard;
use super::tell_watchers;
use crate::Error;
use crate::calls;
use crate::header::{self, Header, Parent, ParentInfo};
use crate::lock::with_lock;
use crate::names::ImageSpec;
use crate::snapshot::{self, Snapshot};
use crate::steps::NamedSteps;
use bytes::Bytes;
use rados::{Place, Steps};
use types::{ChildSpec, Errno, ParentSpec, SnapId};

/// Where clones are registered with their parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CloneFormat {
    /// In an object of the clone's pool; the snapshot must be protected. All clients can read it.
    One,
    /// In the parent's header. Clients before Mimic cannot use it.
    #[default]
    Two,
}

fn child_spec(child: &ImageSpec, id: &str) -> ChildSpec {
    ChildSpec {
        pool: child.pool.id.0,
        namespace: Bytes::copy_from_slice(child.pool.namespace.as_bytes()),
        image: Bytes::copy_from_slice(id.as_bytes()),
    }
}

/// The format in which a clone is linked, by its header.
pub(super) async fn clone_format(steps: &Steps, header: &Header) -> Result<CloneFormat, Error> {
    let ops = vec![calls::get_operation_features()];
    let reply = steps.read_step("reading the format of the clone", &header.place(), ops).await?;
    let features: u64 = calls::output(&reply, 0, "the operation features")?;
    Ok(match features & calls::CLONE_CHILD {
        0 => CloneFormat::One,
        _ => CloneFormat::Two,
    })
}

/// Names of the parent.
pub(super) async fn names(steps: &Steps, parent: &Parent) -> Result<ParentInfo, Error> {
    let pool = parent.pool();
    let image = super::children::name_of(steps, &pool, &parent.image).await?;
    let ops = vec![calls::get_snapshot(parent.snapshot)];
    let snapshot = match steps.read(&pool.header(&parent.image), ops).await {
        Ok(reply) => Some(snapshot::name(&reply)?),
        Err(_) => None,
    };
    Ok(ParentInfo { image, snapshot })
}

/// Sets the parent in a header that no client knows yet.
pub(super) async fn link(
    steps: &Steps,
    parent: &Header,
    snapshot: &Snapshot,
    child: &Place,
    format: CloneFormat,
) -> Result<(), Error> {
    let spec = ParentSpec {
        pool: parent.spec.pool.id.0,
        namespace: Bytes::copy_from_slice(parent.spec.pool.namespace.as_bytes()),
        image: Bytes::copy_from_slice(parent.id.as_bytes()),
        snapshot: snapshot.id,
    };
    let ops = vec![calls::attach_parent(&spec, snapshot.size)];
    steps.write_step("naming the parent in the header", child, ops).await?;
    match format {
        CloneFormat::One => Ok(()),
        CloneFormat::Two => {
            let ops = vec![calls::set_operation_features(calls::CLONE_CHILD)];
            steps.write_step("marking the header as a clone's", child, ops).await
        }
    }
}

/// Registers the clone with its parent. The clone has a name by then, so that after an interruption the clone
/// can be removed, and the parent's snapshot with it.
pub(super) async fn attach(
    steps: &Steps,
    parent: &Header,
    snap: SnapId,
    child: &ImageSpec,
    id: &str,
    format: CloneFormat,
) -> Result<(), Error> {
    match format {
        CloneFormat::One => attach_old(steps, parent, snap, child, id).await,
        CloneFormat::Two => {
            let ops = vec![calls::attach_child(snap, &child_spec(child, id))];
            steps
                .write_step("naming the clone in the parent's header", &parent.place(), ops)
                .await?;
            tell_watchers(steps, &parent.place()).await
        }
    }
}

/// Unprotecting looks for clones first, and cloning checks the protection last: one of the two sees the
/// other.
async fn attach_old(
    steps: &Steps,
    parent: &Header,
    snap: SnapId,
    child: &ImageSpec,
    id: &str,
) -> Result<(), Error> {
    let of = (parent.spec.pool.id.0, parent.id.as_str(), snap);
    let ops = vec![calls::add_old_child(of, id)];
    steps.write_step("noting the clone", &child.pool.children(), ops).await?;
    let (step, ops) = ("looking at the protection again", vec![calls::get_protection(snap)]);
    let reply = steps.read_step(step, &parent.place(), ops).await?;
    let protection: u8 = calls::output(&reply, 0, "the protection")?;
    match protection == snapshot::Protection::PROTECTED.0 {
        true => Ok(()),
        false => {
            let text = format!("the snapshot of {} is no longer protected", parent.spec);
            Err(Error::refused(text))
        }
    }
}

/// Removes the registration of a clone; a missing one is no error. A snapshot in the trash is removed with
/// its last clone.
pub(super) async fn leave(
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
        (Ok(_), CloneFormat::Two) => tidy_up(steps, parent).await,
        (Ok(_) | Err(Errno::NOENT), _) => Ok(()),
        (Err(errno), _) => Err(Error::cluster(format!("telling the parent of {child}"), errno)),
    }
}

async fn tidy_up(steps: &Steps, parent: &Parent) -> Result<(), Error> {
    let pool = parent.pool();
    let spec = ImageSpec { pool, name: format!("(id {})", parent.image) };
    let header = match header::read_with_id(steps, &spec, parent.image.clone()).await {
        Err(error) if error.errno() == Errno::NOENT => return Ok(()),
        outcome => outcome?,
    };
    if find_unused(steps, &header, parent).await?.is_none() {
        return tell_watchers(steps, &header.place()).await;
    }
    let outcome = async {
        header.features.check_writable(&spec.to_string())?;
        let remove =
            async |steps: &Steps, header: &Header| remove_unused(steps, header, parent).await;
        with_lock(steps, header, remove).await
    };
    if let Err(error) = outcome.await {
        // The registration is removed, which is what the caller wants.
        tracing::warn!(%error, "a snapshot without a name or clones stays");
    }
    Ok(())
}

/// The parent's snapshot, if it is in the trash and has no clones any more.
async fn find_unused(
    steps: &Steps,
    header: &Header,
    parent: &Parent,
) -> Result<Option<Snapshot>, Error> {
    let found = snapshot::read_one(steps, header, parent.snapshot).await?;
    Ok(found.filter(Snapshot::is_left_over))
}

async fn remove_unused(steps: &Steps, header: &Header, parent: &Parent) -> Result<(), Error> {
    if let Some(snapshot) = find_unused(steps, header, parent).await? {
        discard(steps, header, &snapshot).await?;
    }
    tell_watchers(steps, &header.place()).await
}

/// Detaches the image from its parent; with deep-flatten its snapshots as well.
pub(super) async fn become_independent(steps: &Steps, header: &Header) -> Result<(), Error> {
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
    let all = snapshot::read_all(steps, header).await?;
    if all.iter().all(|snapshot| snapshot.parent_overlap.is_none()) {
        leave(steps, &header.spec, &header.id, parent, format).await?;
    }
    tell_watchers(steps, &header.place()).await
}

/// The parent that the image leaves if it loses a snapshot, when nothing else shows the parent.
pub(super) async fn left_with(
    steps: &Steps,
    header: &Header,
    snapshot: &Snapshot,
) -> Result<Option<(Parent, CloneFormat)>, Error> {
    let Some(overlap) = snapshot.parent_overlap.filter(|_| header.parent.is_none()) else {
        return Ok(None);
    };
    let all = snapshot::read_all(steps, header).await?;
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
