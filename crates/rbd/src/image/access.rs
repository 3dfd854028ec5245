//! One object's share of a request.

use super::Image;
use super::assemble::Found;
use super::parent::ObjectRange;
use crate::steps::{Answer, Ask, Part, operation_reply};
use crate::{Error, Header};
use bytes::Bytes;
use rados::{Operation, OperationReply};
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
    /// The object is made of what the parent shows, if it is not there.
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

    /// Whether an object that is not there is as good as one full of zeros. A write makes the object:
    /// what is not there is its pool.
    fn may_miss(&self) -> bool {
        !matches!(self, Action::Write { .. })
    }
}

/// Who waits for an access or for what the parent has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiter {
    /// And which of its extents.
    Request { key: u64, index: usize },
    /// The same of a read of an ancestor.
    Fetch { key: u64, index: usize },
    /// An access that writes what the parent has into the object first.
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
    /// As they were when it began.
    pub ancestors: Arc<[Header]>,
    pub stage: Stage,
    /// What goes on its way as soon as the object map allows it.
    pub prepared: Option<Vec<OsdOp>>,
    /// Changes of snapshots' object maps that it waits for.
    pub map_changes: usize,
    pub map_failure: Option<Errno>,
}

/// How far an access is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Waits until it is known whether the object is there.
    Held,
    /// With its answer it is over.
    Sent,
    /// Sent on condition that the object is there.
    Guarded,
    /// Reads what the parent has, or writes it together with its own.
    CopyingUp,
    /// Writes what the parent has below all snapshots.
    CopyingUpFirst,
}

impl Image {
    /// Accesses an object of the image.
    pub(super) fn access(&mut self, waiter: Waiter, object: u64, action: Action) {
        let ancestors = self.header.ancestors.clone();
        self.begin(Access::new(waiter, 0, object, action, ancestors));
    }

    /// Reads an object of the image or of an ancestor.
    pub(super) fn look_at(&mut self, waiter: Waiter, ancestors: Arc<[Header]>, range: ObjectRange) {
        let ObjectRange { generation, object, .. } = range;
        self.begin(Access::new(waiter, generation, object, range.action(), ancestors));
    }

    fn begin(&mut self, access: Access) {
        let is_own = access.generation == 0;
        let object = access.object;
        let key = self.accesses.insert(access);
        if !is_own || !self.guards.hold(object, key) {
            self.send_access(key);
        }
    }

    /// Nothing of the same object that came earlier is still held.
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
        self.ask(Part::Access, key, Ask::Operate(operation));
    }

    /// Changes an object of the image, once its map allows that.
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

    /// The map of the object has changed.
    pub(super) fn go_on_with_access(&mut self, key: u64) {
        let Some(access) = self.accesses.get_mut(key) else { return };
        let stage = access.stage;
        match access.prepared.take() {
            Some(ops) => self.operate(key, stage, ops),
            None => self.send_access(key),
        }
    }

    /// With the image's snapshots as they are now.
    fn perform(&mut self, key: u64, ops: Vec<OsdOp>) {
        let Some(access) = self.accesses.get(key) else { return };
        if ops.iter().any(|op| op.code == OpCode::DELETE) {
            self.map.removal_begins(access.object);
        }
        let mut operation = Operation::new(self.header.data_place(access.object), ops);
        // What the parent has was there before any snapshot was taken.
        if access.stage != Stage::CopyingUpFirst {
            operation.snap_context = self.header.snap_context.clone();
        }
        // Whoever writes is to be told of a full pool, not to wait for room.
        operation.flags |= request_flags::FULL_TRY;
        if operation.ops.iter().any(|op| op.code == OpCode::CALL) {
            operation.flags |= request_flags::WRITE;
        }
        self.ask(Part::Access, key, Ask::Operate(operation));
    }

    pub(super) fn access_answered(&mut self, key: u64, answer: Answer) {
        let Some(access) = self.accesses.get(key) else { return };
        let answer = answer.and_then(operation_reply);
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
            Ok(reply) => self.deliver(access.waiter, found(&access.action, reply)),
            Err(Errno::NOENT) if access.action.may_miss() => match access.range() {
                Some(range) => self.fall_through(access.waiter, access.ancestors, range),
                None => self.deliver(access.waiter, Ok(Found::Nothing)),
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

    /// Ends an access.
    pub(super) fn finish(&mut self, key: u64, outcome: Result<(), Error>) {
        let Some(access) = self.accesses.remove(key) else { return };
        self.deliver(access.waiter, outcome.map(|()| Found::Nothing));
    }

    /// Ends an access that is not made.
    pub(super) fn access_refused(&mut self, key: u64, error: Error) {
        let Some(access) = self.accesses.get(key) else { return };
        match access.stage {
            Stage::Held | Stage::Sent => self.finish(key, Err(error)),
            _ => self.fail_write(key, error),
        }
    }

    pub(super) fn deliver(&mut self, waiter: Waiter, found: Result<Found, Error>) {
        match waiter {
            Waiter::Request { key, index } => self.found(key, index, found),
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

    /// What it reads.
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

fn found(action: &Action, mut reply: OperationReply) -> Result<Found, Error> {
    let output = match reply.ops.first_mut() {
        Some(op) => std::mem::take(&mut op.output),
        None => Bytes::new(),
    };
    match action {
        Action::Read { .. } => Ok(Found::Data(output)),
        Action::Map { .. } => {
            let extents: BTreeMap<u64, u64> = codec::decode_all("extents", &output)
                .map_err(|error| Error::Damaged { what: "a map", error })?;
            Ok(Found::Extents(extents.into_iter().collect()))
        }
        _ => Ok(Found::Nothing),
    }
}
