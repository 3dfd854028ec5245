//! Accesses: the share of a request that concerns one object.

use super::Image;
use super::assemble::AccessResult;
use super::parent::ObjectRange;
use crate::part;
use crate::{Error, Header};
use bytes::Bytes;
use rados::{ClusterRequest, ClusterResponse, Operation, OperationReply, Reply};
use std::collections::BTreeMap;
use std::sync::Arc;
use types::Errno;
use wire::OsdOp;
use wire::op::{OpCode, request_flags};
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

    pub fn writes(&self) -> bool {
        !matches!(self, Action::Read { .. } | Action::Map { .. })
    }

    /// True if ENOENT means a range of zeros. A write creates its object, so ENOENT then means that the pool
    /// does not exist.
    fn may_miss(&self) -> bool {
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
    pub fn is_request(self) -> bool {
        matches!(self, Waiter::Request { .. })
    }
}

#[derive(Debug)]
pub(super) struct Access {
    pub waiter: Waiter,
    /// 0: the image, 1: its parent, and so on.
    pub generation: usize,
    pub object: u64,
    pub action: Action,
    /// Ancestors as they were when the access began.
    pub ancestors: Arc<[Header]>,
    pub stage: Stage,
    /// Operations that are sent once the object map has been updated.
    pub prepared: Option<Vec<OsdOp>>,
    /// Updates of snapshots' object maps that must complete first.
    pub map_changes: usize,
    pub map_failure: Option<Errno>,
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

impl Image {
    /// Begins an access to an object of the image.
    pub(super) fn access(&mut self, waiter: Waiter, object: u64, action: Action) {
        let ancestors = self.header.ancestors.clone();
        self.begin(Access::new(waiter, 0, object, action, ancestors));
    }

    /// Begins a read of an object of the image or of an ancestor.
    pub(super) fn begin_read(
        &mut self,
        waiter: Waiter,
        ancestors: Arc<[Header]>,
        range: ObjectRange,
    ) {
        let ObjectRange { generation, object, .. } = range;
        self.begin(Access::new(waiter, generation, object, range.action(), ancestors));
    }

    fn begin(&mut self, access: Access) {
        let is_own = access.generation == 0;
        let object = access.object;
        let key = self.accesses.insert(access);
        if !is_own || !self.existence.hold(object, key) {
            self.send_access(key);
        }
    }

    /// Sends an access once no earlier access to the same object is held.
    pub(super) fn send_access(&mut self, key: u64) {
        let Some(access) = self.accesses.get_mut(key) else { return };
        let (generation, object) = (access.generation, access.object);
        if generation == 0 && self.map.hold(object, key) {
            return;
        }
        if access.action.writes() {
            return self.send_write(key);
        }
        access.stage = Stage::Sent;
        if generation == 0 && self.map.is_absent(object) {
            return self.sent_answered(key, Err(Errno::NOENT));
        }
        let header = match generation {
            0 => &self.header,
            number => &access.ancestors[number - 1],
        };
        let mut operation = Operation::new(header.data_place(object), vec![access.action.op()]);
        operation.snap = header.snap;
        self.request(part::ACCESS, key, ClusterRequest::Operate(operation));
    }

    /// Sends a change of an object, after the object map has been updated if it must be.
    pub(super) fn operate(&mut self, key: u64, stage: Stage, ops: Vec<OsdOp>) {
        let obstacle = self.write_obstacle();
        let Some(access) = self.accesses.get_mut(key) else { return };
        access.stage = stage;
        let object = access.object;
        if let Some(error) = obstacle {
            return self.access_refused(key, error);
        }
        if self.map.hold(object, key) {
            access.prepared = Some(ops);
            return;
        }
        match self.map.need(object, &ops) {
            Some(state) => {
                access.prepared = Some(ops);
                self.change_state(object, state, None, [key].into());
            }
            None => self.perform(key, ops),
        }
    }

    /// Resumes an access after an update of the object map.
    pub(super) fn resume_access(&mut self, key: u64) {
        let Some(access) = self.accesses.get_mut(key) else { return };
        let stage = access.stage;
        match access.prepared.take() {
            Some(ops) => self.operate(key, stage, ops),
            None => self.send_access(key),
        }
    }

    /// Submits operations with the image's current snapshot context.
    fn perform(&mut self, key: u64, ops: Vec<OsdOp>) {
        let Some(access) = self.accesses.get(key) else { return };
        if ops.iter().any(|op| op.code == OpCode::DELETE) {
            self.map.removal_begins(access.object);
        }
        let mut operation = Operation::new(self.header.data_place(access.object), ops);
        // The parent's data predates all snapshots, so it is written with an empty snapshot context.
        if access.stage != Stage::CopyingUpFirst {
            operation.snap_context = self.header.snap_context.clone();
        }
        // A write to a full pool must fail instead of waiting for space.
        operation.flags |= request_flags::FULL_TRY;
        if operation.ops.iter().any(|op| op.code == OpCode::CALL) {
            operation.flags |= request_flags::WRITE;
        }
        self.request(part::ACCESS, key, ClusterRequest::Operate(operation));
    }

    pub(super) fn access_answered(&mut self, key: u64, answer: ClusterResponse) {
        let Some(access) = self.accesses.get(key) else { return };
        let answer = answer.and_then(Reply::into_operation);
        match access.stage {
            Stage::Guarded | Stage::CopyingUp | Stage::CopyingUpFirst => {
                self.write_answered(key, answer);
            }
            Stage::Held | Stage::Sent => self.sent_answered(key, answer),
        }
    }

    fn sent_answered(&mut self, key: u64, answer: Result<OperationReply, Errno>) {
        let Some(access) = self.accesses.remove(key) else { return };
        if matches!(access.action, Action::Remove) {
            self.removal_over(access.object, matches!(answer, Ok(_) | Err(Errno::NOENT)));
        }
        match answer {
            Ok(reply) => self.deliver(access.waiter, access_result(&access.action, reply)),
            Err(Errno::NOENT) if access.action.may_miss() => match access.range() {
                Some(range) => self.read_from_parent(access.waiter, access.ancestors, range),
                None => self.deliver(access.waiter, Ok(AccessResult::Nothing)),
            },
            Err(errno) => {
                let error = self.access_error(&access.action, errno);
                self.deliver(access.waiter, Err(error));
            }
        }
    }

    pub(super) fn access_error(&mut self, action: &Action, errno: Errno) -> Error {
        if errno == Errno::BLOCKLISTED {
            self.blocklisted();
            return crate::lock::blocklisted(&self.header);
        }
        let what = if action.writes() { "writing" } else { "reading" };
        Error::cluster(format!("{what} {}", self.header.spec), errno)
    }

    /// Completes an access.
    pub(super) fn finish(&mut self, key: u64, outcome: Result<(), Error>) {
        let Some(access) = self.accesses.remove(key) else { return };
        self.deliver(access.waiter, outcome.map(|()| AccessResult::Nothing));
    }

    /// Completes an access that was not sent.
    pub(super) fn access_refused(&mut self, key: u64, error: Error) {
        let Some(access) = self.accesses.get(key) else { return };
        match access.stage {
            Stage::Held | Stage::Sent => self.finish(key, Err(error)),
            _ => self.fail_write(key, error),
        }
    }

    pub(super) fn deliver(&mut self, waiter: Waiter, found: Result<AccessResult, Error>) {
        match waiter {
            Waiter::Request { key, index } => self.access_completed(key, index, found),
            Waiter::Fetch { key, index } => self.fetched(key, index, found),
            Waiter::CopyUp(key) => self.copy_read(key, found),
        }
    }
}

impl Access {
    fn new(
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
    fn range(&self) -> Option<ObjectRange> {
        let (offset, length, is_map) = match self.action {
            Action::Read { offset, length } => (offset, length, false),
            Action::Map { offset, length } => (offset, length, true),
            _ => return None,
        };
        let Access { generation, object, .. } = *self;
        Some(ObjectRange { generation, object, offset, length, is_map })
    }
}

fn access_result(action: &Action, mut reply: OperationReply) -> Result<AccessResult, Error> {
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
