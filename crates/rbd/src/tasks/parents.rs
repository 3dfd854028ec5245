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
use crate::workflow::{Stop, Workflow};
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
pub(super) fn clone_format(workflow: &mut Workflow, header: &Header) -> Result<CloneFormat, Stop> {
    let ops = || vec![calls::get_operation_features()];
    let reply = workflow.read("reading the format of the clone", &header.place(), ops)?;
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
pub(super) fn link(
    workflow: &mut Workflow,
    parent: &Header,
    snapshot: &Snapshot,
    child: &Place,
    format: CloneFormat,
) -> Result<(), Stop> {
    let spec = ParentSpec {
        pool: parent.spec.pool.id.0,
        namespace: Bytes::copy_from_slice(parent.spec.pool.namespace.as_bytes()),
        image: Bytes::copy_from_slice(parent.id.as_bytes()),
        snapshot: snapshot.id,
    };
    let ops = || vec![calls::attach_parent(&spec, snapshot.size)];
    workflow.write("naming the parent in the header", child, ops)?;
    match format {
        CloneFormat::One => Ok(()),
        CloneFormat::Two => {
            let ops = || vec![calls::set_operation_features(calls::CLONE_CHILD)];
            workflow.write("marking the header as a clone's", child, ops)
        }
    }
}

/// Registers the clone with its parent. The clone has a name by then, so that after an interruption the clone
/// can be removed, and the parent's snapshot with it.
pub(super) fn attach(
    workflow: &mut Workflow,
    parent: &Header,
    snap: SnapId,
    child: &ImageSpec,
    id: &str,
    format: CloneFormat,
) -> Result<(), Stop> {
    match format {
        CloneFormat::One => attach_old(workflow, parent, snap, child, id),
        CloneFormat::Two => {
            let ops = || vec![calls::attach_child(snap, &child_spec(child, id))];
            workflow.write("naming the clone in the parent's header", &parent.place(), ops)?;
            tell_watchers(workflow, &parent.place())
        }
    }
}

/// Unprotecting looks for clones first, and cloning checks the protection last: one of the two sees the
/// other.
fn attach_old(
    workflow: &mut Workflow,
    parent: &Header,
    snap: SnapId,
    child: &ImageSpec,
    id: &str,
) -> Result<(), Stop> {
    let of = (parent.spec.pool.id.0, parent.id.as_str(), snap);
    let ops = || vec![calls::add_old_child(of, id)];
    workflow.write("noting the clone", &child.pool.children(), ops)?;
    let reply = workflow.read("looking at the protection again", &parent.place(), || {
        vec![calls::get_protection(snap)]
    })?;
    let protection: u8 = calls::output(&reply, 0, "the protection")?;
    match protection == snapshot::Protection::PROTECTED.0 {
        true => Ok(()),
        false => {
            let text = format!("the snapshot of {} is no longer protected", parent.spec);
            Err(Error::refused(text).into())
        }
    }
}

/// Removes the registration of a clone; a missing one is no error. A snapshot in the trash is removed with
/// its last clone.
pub(super) fn leave(
    workflow: &mut Workflow,
    child: &ImageSpec,
    id: &str,
    parent: &Parent,
    format: CloneFormat,
) -> Result<(), Stop> {
    let outcome = match format {
        CloneFormat::One => {
            let of = (parent.pool.0, parent.image.as_str(), parent.snapshot);
            let ops = || vec![calls::remove_old_child(of, id)];
            workflow.try_write(&child.pool.children(), ops)?
        }
        CloneFormat::Two => {
            let ops = || vec![calls::detach_child(parent.snapshot, &child_spec(child, id))];
            workflow.try_write(&parent.pool().header(&parent.image), ops)?
        }
    };
    match (outcome, format) {
        (Ok(_), CloneFormat::Two) => tidy_up(workflow, parent),
        (Ok(_) | Err(Errno::NOENT), _) => Ok(()),
        (Err(errno), _) => {
            Err(Error::cluster(format!("telling the parent of {child}"), errno).into())
        }
    }
}

fn tidy_up(workflow: &mut Workflow, parent: &Parent) -> Result<(), Stop> {
    let pool = parent.pool();
    let spec = ImageSpec { pool, name: format!("(id {})", parent.image) };
    let header = match header::read_with_id(workflow, &spec, parent.image.clone()) {
        Err(Stop::Failed(error)) if error.errno() == Errno::NOENT => return Ok(()),
        outcome => outcome?,
    };
    if find_unused(workflow, &header, parent)?.is_none() {
        return tell_watchers(workflow, &header.place());
    }
    let outcome = match header.features.check_writable(&spec.to_string()) {
        Ok(()) => {
            with_lock(workflow, header, |workflow, header| remove_unused(workflow, header, parent))
        }
        Err(error) => Err(error.into()),
    };
    match outcome {
        // The registration is removed, which is what the caller wants.
        Err(Stop::Failed(error)) => {
            tracing::warn!(%error, "a snapshot without a name or clones stays");
            Ok(())
        }
        outcome => outcome,
    }
}

/// The parent's snapshot, if it is in the trash and has no clones any more.
fn find_unused(
    workflow: &mut Workflow,
    header: &Header,
    parent: &Parent,
) -> Result<Option<Snapshot>, Stop> {
    let found = snapshot::read_one(workflow, header, parent.snapshot)?;
    Ok(found.filter(Snapshot::is_left_over))
}

fn remove_unused(workflow: &mut Workflow, header: &Header, parent: &Parent) -> Result<(), Stop> {
    if let Some(snapshot) = find_unused(workflow, header, parent)? {
        discard(workflow, header, &snapshot)?;
    }
    tell_watchers(workflow, &header.place())
}

/// Detaches the image from its parent; with deep-flatten its snapshots as well.
pub(super) fn become_independent(workflow: &mut Workflow, header: &Header) -> Result<(), Stop> {
    let Some(parent) = &header.parent else { return Ok(()) };
    let format = clone_format(workflow, header)?;
    // The clone's side comes first, so that an interruption leaves no link to a removed parent.
    match workflow.try_write(&header.place(), || vec![calls::detach_parent()])? {
        Ok(_) | Err(Errno::NOENT) => {}
        Err(errno) => {
            let text = format!("removing the parent from the header of {}", header.spec);
            return Err(Error::cluster(text, errno).into());
        }
    }
    let all = snapshot::read_all(workflow, header)?;
    if all.iter().all(|snapshot| snapshot.parent_overlap.is_none()) {
        leave(workflow, &header.spec, &header.id, parent, format)?;
    }
    tell_watchers(workflow, &header.place())
}

/// The parent that the image leaves if it loses a snapshot, when nothing else shows the parent.
pub(super) fn left_with(
    workflow: &mut Workflow,
    header: &Header,
    snapshot: &Snapshot,
) -> Result<Option<(Parent, CloneFormat)>, Stop> {
    let Some(overlap) = snapshot.parent_overlap.filter(|_| header.parent.is_none()) else {
        return Ok(None);
    };
    let all = snapshot::read_all(workflow, header)?;
    let mut others = all.iter().filter(|other| other.id != snapshot.id);
    if others.any(|other| other.parent_overlap.is_some()) {
        return Ok(None);
    }
    let reply =
        workflow.read("reading the parent", &header.place(), || vec![calls::get_parent()])?;
    let spec: ParentSpec = calls::output(&reply, 0, "the parent")?;
    match header::parent_of(spec, overlap)? {
        Some(parent) => Ok(Some((parent, clone_format(workflow, header)?))),
        None => Ok(None),
    }
}
