//! Accesses: the share of a request that concerns one object.

use super::assemble::AccessResult;
use crate::{Error, Header};
use bytes::Bytes;
use rados::OperationReply;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::Errno;
use wire::OsdOp;
use wire::op::OpCode;
use wire::osd_op::Extent as OpExtent;

#[derive(Debug, Clone)]
pub(super) enum Action {
    Read {
        offset: u64,
        length: u64,
    },
    Map {
        offset: u64,
        length: u64,
    },
    Write {
        offset: u64,
        data: Bytes,
    },
    Zero {
        offset: u64,
        length: u64,
    },
    Truncate {
        size: u64,
    },
    Remove,
    /// Copies the parent's data into the object, if the object does not exist.
    CopyUp,
}

impl Action {
    /// The operation on the object that performs the action, for an image without parent.
    pub fn op(&self) -> OsdOp {
        match self {
            Action::Read { offset, length } => OsdOp::read(*offset, *length),
            Action::Map { offset, length } => {
                let extent = OpExtent { offset: *offset, length: *length, ..OpExtent::default() };
                OsdOp::with_extent(OpCode::MAPEXT, extent)
            }
            Action::Write { offset, data } => OsdOp::write(*offset, data.clone()),
            Action::Zero { offset, length } => OsdOp::zero(*offset, *length),
            Action::Truncate { size } => OsdOp::truncate(*size),
            Action::Remove => OsdOp::remove(),
            Action::CopyUp => OsdOp::stat(),
        }
    }

    /// True if the action changes the object.
    pub fn writes(&self) -> bool {
        !matches!(self, Action::Read { .. } | Action::Map { .. })
    }

    /// True if ENOENT means a range of zeros. A write creates its object, so ENOENT then means that the pool
    /// does not exist.
    pub fn may_miss(&self) -> bool {
        !matches!(self, Action::Write { .. })
    }
}

/// Consumer of the result of an access or of a parent read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiter {
    /// `index` is the extent of the request.
    Request { key: u64, index: usize },
    /// `index` is the part of a parent read.
    Fetch { key: u64, index: usize },
    /// An access that copies the parent's data into the object before its own write.
    CopyUp(u64),
}

impl Waiter {
    /// True if a request of the user waits, and not a parent read or copy-up.
    pub fn is_request(self) -> bool {
        matches!(self, Waiter::Request { .. })
    }
}

#[derive(Debug)]
pub(super) struct Access {
    /// Consumer of the result.
    pub waiter: Waiter,
    /// 0: the image, 1: its parent, and so on.
    pub generation: usize,
    /// Number of the data object within the image of that generation.
    pub object: u64,
    /// Operation that the access performs.
    pub action: Action,
    /// Ancestors as they were when the access began.
    pub ancestors: Arc<[Header]>,
    /// Progress of the access.
    pub stage: Stage,
    /// Operations that are sent once the object map has been updated.
    pub prepared: Option<Vec<OsdOp>>,
    /// Updates of snapshots' object maps that must complete first.
    pub map_changes: usize,
    /// First error of those updates; the access then fails.
    pub map_failure: Option<Errno>,
}

/// A range of an object of the image or of one of its ancestors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ObjectRange {
    /// 0: the image, 1: its parent, and so on.
    pub generation: usize,
    /// Number of the data object.
    pub object: u64,
    /// First byte within the object.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// True if the allocated extents are read instead of the data.
    pub is_map: bool,
}

impl ObjectRange {
    /// The access that reads this range.
    pub fn action(&self) -> Action {
        let ObjectRange { offset, length, .. } = *self;
        match self.is_map {
            true => Action::Map { offset, length },
            false => Action::Read { offset, length },
        }
    }
}

/// Stage of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Waits until the existence of the object or its state in the object map is known.
    Held,
    /// Sent; the response completes the access.
    Sent,
    /// Sent with an assertion that the object exists.
    Guarded,
    /// Reads the parent's data, or writes it together with the access's own.
    CopyingUp,
    /// Writes the parent's data with an empty snapshot context, below all snapshots.
    CopyingUpFirst,
}

impl Access {
    /// An access that has not been sent.
    pub fn new(
        waiter: Waiter,
        generation: usize,
        object: u64,
        action: Action,
        ancestors: Arc<[Header]>,
    ) -> Self {
        Access {
            waiter,
            generation,
            object,
            action,
            ancestors,
            stage: Stage::Held,
            prepared: None,
            map_changes: 0,
            map_failure: None,
        }
    }

    /// The range that the access reads.
    pub fn range(&self) -> Option<ObjectRange> {
        let (offset, length, is_map) = match self.action {
            Action::Read { offset, length } => (offset, length, false),
            Action::Map { offset, length } => (offset, length, true),
            _ => return None,
        };
        let Access { generation, object, .. } = *self;
        Some(ObjectRange { generation, object, offset, length, is_map })
    }
}

pub(super) fn access_result(
    action: &Action,
    mut reply: OperationReply,
) -> Result<AccessResult, Error> {
    let output = match reply.ops.first_mut() {
        Some(op) => std::mem::take(&mut op.output),
        None => Bytes::new(),
    };
    match action {
        Action::Read { .. } => Ok(AccessResult::Data(output)),
        Action::Map { .. } => {
            let extents: BTreeMap<u64, u64> = codec::decode_all("extents", &output)
                .map_err(|error| Error::Damaged { what: "a map", error })?;
            Ok(AccessResult::Extents(extents.into_iter().collect()))
        }
        _ => Ok(AccessResult::Nothing),
    }
}
