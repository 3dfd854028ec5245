//! The link between a clone and the snapshot that it was made of: kept in the clone's header, and either
//! in the header of the parent (format 2) or in the object `rbd_children` of the clone's pool (format 1).

use super::snapshots::discard;
use super::tell_watchers;
use crate::Error;
use crate::calls;
use crate::header::{self, Header, Parent, ParentInfo};
use crate::lock::with_lock;
use crate::names::ImageSpec;
use crate::snapshot::{self, Snapshot};
use crate::steps::{Steps, Stop};
use bytes::Bytes;
use rados::Place;
use types::{ChildSpec, Errno, ParentSpec, SnapId};

/// Where the parent is told of a clone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CloneFormat {
    /// In an object of the clone's pool; the snapshot must be protected. Readable by all clients.
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

/// How the header of a clone says that it is linked.
pub(super) fn clone_format(steps: &mut Steps, header: &Header) -> Result<CloneFormat, Stop> {
    let ops = || vec![calls::get_operation_features()];
    let reply = steps.look("reading the format of the clone", &header.place(), ops)?;
    let features: u64 = calls::output(&reply, 0, "the operation features")?;
    Ok(match features & calls::CLONE_CHILD {
        0 => CloneFormat::One,
        _ => CloneFormat::Two,
    })
}

/// What a parent is called.
pub(super) fn names(steps: &mut Steps, parent: &Parent) -> Result<ParentInfo, Stop> {
    let pool = parent.pool();
    let image = super::children::name_of(steps, &pool, &parent.image)?;
    let ops = || vec![calls::get_snapshot(parent.snapshot)];
    let snapshot = match steps.try_look(&pool.header(&parent.image), ops)? {
        Ok(reply) => Some(snapshot::name(&reply)?),
        Err(_) => None,
    };
    Ok(ParentInfo { image, snapshot })
}

/// Makes a header that nobody knows yet a clone's.
pub(super) fn link(
    steps: &mut Steps,
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
    steps.change("naming the parent in the header", child, ops)?;
    match format {
        CloneFormat::One => Ok(()),
        CloneFormat::Two => {
            let ops = || vec![calls::set_operation_features(calls::CLONE_CHILD)];
            steps.change("marking the header as a clone's", child, ops)
        }
    }
}

/// Tells the parent of a clone. Not before the clone has a name: if that is as far as it comes, the clone can
/// be removed, and the parent's snapshot with it.
pub(super) fn attach(
    steps: &mut Steps,
    parent: &Header,
    snap: SnapId,
    child: &ImageSpec,
    id: &str,
    format: CloneFormat,
) -> Result<(), Stop> {
    match format {
        CloneFormat::One => attach_old(steps, parent, snap, child, id),
        CloneFormat::Two => {
            let ops = || vec![calls::attach_child(snap, &child_spec(child, id))];
            steps.change("naming the clone in the parent's header", &parent.place(), ops)?;
            tell_watchers(steps, &parent.place())
        }
    }
}

/// Whoever ends the protection looks for clones first, and whoever makes a clone looks at the protection
/// last: one of both sees the other.
fn attach_old(
    steps: &mut Steps,
    parent: &Header,
    snap: SnapId,
    child: &ImageSpec,
    id: &str,
) -> Result<(), Stop> {
    let of = (parent.spec.pool.id.0, parent.id.as_str(), snap);
    let ops = || vec![calls::add_old_child(of, id)];
    steps.change("noting the clone", &child.pool.children(), ops)?;
    let reply = steps.look("looking at the protection again", &parent.place(), || {
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

/// The parent forgets a clone. What it does not know of is as good as forgotten. A snapshot that was
/// kept for its clones goes with the last one.
pub(super) fn leave(
    steps: &mut Steps,
    child: &ImageSpec,
    id: &str,
    parent: &Parent,
    format: CloneFormat,
) -> Result<(), Stop> {
    let outcome = match format {
        CloneFormat::One => {
            let of = (parent.pool.0, parent.image.as_str(), parent.snapshot);
            let ops = || vec![calls::remove_old_child(of, id)];
            steps.try_change(&child.pool.children(), ops)?
        }
        CloneFormat::Two => {
            let ops = || vec![calls::detach_child(parent.snapshot, &child_spec(child, id))];
            steps.try_change(&parent.pool().header(&parent.image), ops)?
        }
    };
    match (outcome, format) {
        (Ok(_), CloneFormat::Two) => tidy_up(steps, parent),
        (Ok(_) | Err(Errno::NOENT), _) => Ok(()),
        (Err(errno), _) => {
            Err(Error::cluster(format!("telling the parent of {child}"), errno).into())
        }
    }
}

fn tidy_up(steps: &mut Steps, parent: &Parent) -> Result<(), Stop> {
    let pool = parent.pool();
    let spec = ImageSpec { pool, name: format!("(id {})", parent.image) };
    let header = match header::read_with_id(steps, &spec, parent.image.clone()) {
        Err(Stop::Failed(error)) if error.errno() == Errno::NOENT => return Ok(()),
        outcome => outcome?,
    };
    if find_unused(steps, &header, parent)?.is_none() {
        return tell_watchers(steps, &header.place());
    }
    let outcome = match header.features.check_writable(&spec.to_string()) {
        Ok(()) => with_lock(steps, header, |steps, header| remove_unused(steps, header, parent)),
        Err(error) => Err(error.into()),
    };
    match outcome {
        // The clone has left, which is what was asked for.
        Err(Stop::Failed(error)) => {
            tracing::warn!(%error, "a snapshot without a name or clones stays");
            Ok(())
        }
        outcome => outcome,
    }
}

/// The parent's snapshot, if it was removed and has no clones any more.
fn find_unused(
    steps: &mut Steps,
    header: &Header,
    parent: &Parent,
) -> Result<Option<Snapshot>, Stop> {
    let found = snapshot::read_one(steps, header, parent.snapshot)?;
    Ok(found.filter(Snapshot::is_left_over))
}

fn remove_unused(steps: &mut Steps, header: &Header, parent: &Parent) -> Result<(), Stop> {
    if let Some(snapshot) = find_unused(steps, header, parent)? {
        discard(steps, header, &snapshot)?;
    }
    tell_watchers(steps, &header.place())
}

/// The image needs its parent no longer, nor do its snapshots, if it has deep-flatten.
pub(super) fn become_independent(steps: &mut Steps, header: &Header) -> Result<(), Stop> {
    let Some(parent) = &header.parent else { return Ok(()) };
    let format = clone_format(steps, header)?;
    // The clone's side first: whatever happens then, it does not look for what is gone.
    match steps.try_change(&header.place(), || vec![calls::detach_parent()])? {
        Ok(_) | Err(Errno::NOENT) => {}
        Err(errno) => {
            let text = format!("removing the parent from the header of {}", header.spec);
            return Err(Error::cluster(text, errno).into());
        }
    }
    let all = snapshot::read_all(steps, header)?;
    if all.iter().all(|snapshot| snapshot.parent_overlap.is_none()) {
        leave(steps, &header.spec, &header.id, parent, format)?;
    }
    tell_watchers(steps, &header.place())
}

/// Whom the image leaves if it loses a snapshot: the parent, if nothing else shows it any more.
pub(super) fn left_with(
    steps: &mut Steps,
    header: &Header,
    snapshot: &Snapshot,
) -> Result<Option<(Parent, CloneFormat)>, Stop> {
    let Some(overlap) = snapshot.parent_overlap.filter(|_| header.parent.is_none()) else {
        return Ok(None);
    };
    let all = snapshot::read_all(steps, header)?;
    let mut others = all.iter().filter(|other| other.id != snapshot.id);
    if others.any(|other| other.parent_overlap.is_some()) {
        return Ok(None);
    }
    let reply = steps.look("reading the parent", &header.place(), || vec![calls::get_parent()])?;
    let spec: ParentSpec = calls::output(&reply, 0, "the parent")?;
    match header::parent_of(spec, overlap)? {
        Some(parent) => Ok(Some((parent, clone_format(steps, header)?))),
        None => Ok(None),
    }
}
