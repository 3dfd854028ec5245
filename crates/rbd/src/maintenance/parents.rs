//! The link between a clone and its parent snapshot: kept in the clone's header, and either in the header of
//! the parent (format 2) or in the object `rbd_children` of the clone's pool (format 1).

use crate::header::Header;
use crate::names::ImageSpec;
use crate::snapshot::{Protection, Snapshot};
use crate::steps::NamedSteps;
use crate::{Error, calls, watchers};
use bytes::Bytes;
use rados::{Place, Steps};
use types::{ChildSpec, ParentSpec, SnapId};

/// Where clones are registered with their parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CloneFormat {
    /// In an object of the clone's pool; the snapshot must be protected. All clients can read it.
    One,
    /// In the parent's header. Clients before Mimic cannot use it.
    #[default]
    Two,
}

pub(super) fn child_spec(child: &ImageSpec, id: &str) -> ChildSpec {
    ChildSpec {
        pool: child.pool.id.0,
        namespace: Bytes::copy_from_slice(child.pool.namespace.as_bytes()),
        image: Bytes::copy_from_slice(id.as_bytes()),
    }
}

/// The format in which a clone is linked, by its header.
pub(crate) async fn clone_format(steps: &Steps, header: &Header) -> Result<CloneFormat, Error> {
    let ops = vec![calls::get_operation_features()];
    let reply = steps.read_step("reading the format of the clone", &header.place(), ops).await?;
    let features: u64 = calls::output(&reply, 0, "the operation features")?;
    Ok(match features & calls::CLONE_CHILD {
        0 => CloneFormat::One,
        _ => CloneFormat::Two,
    })
}

/// Sets the parent in a header that no client knows yet.
pub(crate) async fn link(
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
    steps.write_step("recording the parent in the header", child, ops).await?;
    match format {
        CloneFormat::One => Ok(()),
        CloneFormat::Two => {
            let ops = vec![calls::set_operation_features(calls::CLONE_CHILD)];
            steps.write_step("marking the header as that of a clone", child, ops).await
        }
    }
}

/// Registers the clone with its parent. The clone has a name by then, so that after an interruption the clone
/// can be removed, and the parent's snapshot with it.
pub(crate) async fn attach(
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
                .write_step("registering the clone in the parent's header", &parent.place(), ops)
                .await?;
            watchers::notify(steps, &parent.place()).await
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
    steps.write_step("registering the clone", &child.pool.children(), ops).await?;
    let (step, ops) = ("reading the protection again", vec![calls::get_protection(snap)]);
    let reply = steps.read_step(step, &parent.place(), ops).await?;
    let protection: u8 = calls::output(&reply, 0, "the protection")?;
    match protection == Protection::PROTECTED.0 {
        true => Ok(()),
        false => {
            let text = format!("the snapshot of {} is no longer protected", parent.spec);
            Err(Error::refused(text))
        }
    }
}
