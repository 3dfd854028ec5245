//! One object's share of a request.

use super::Image;
use super::request::Found;
use crate::Error;
use crate::steps::{Answer, Ask, Part, operation_reply};
use bytes::Bytes;
use rados::{Operation, OperationReply};
use std::collections::BTreeMap;
use types::Errno;
use wire::OsdOp;
use wire::op::{OpCode, request_flags};
use wire::osd_op::Extent as OpExtent;

#[derive(Debug, Clone)]
pub(super) enum Action {
    Read { offset: u64, length: u64 },
    Map { offset: u64, length: u64 },
    Write { offset: u64, data: Bytes },
    Zero { offset: u64, length: u64 },
    Truncate { size: u64 },
    Remove,
}

impl Action {
    fn op(&self) -> OsdOp {
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
        }
    }

    fn writes(&self) -> bool {
        !matches!(self, Action::Read { .. } | Action::Map { .. })
    }
}

#[derive(Debug)]
pub(super) struct Access {
    request: u64,
    /// Which of the request's extents.
    index: usize,
    kind: Kind,
    object: u64,
}

/// What is left of an action once it is under way: the data belongs to the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Map,
    Write,
    /// Zeros, or less of it.
    Clear,
    Remove,
}

impl Image {
    pub(super) fn access(&mut self, request: u64, index: usize, object: u64, action: Action) {
        let kind = match action {
            Action::Read { .. } => Kind::Read,
            Action::Map { .. } => Kind::Map,
            Action::Write { .. } => Kind::Write,
            Action::Zero { .. } | Action::Truncate { .. } => Kind::Clear,
            Action::Remove => Kind::Remove,
        };
        let key = self.accesses.insert(Access { request, index, kind, object });
        self.send_access(key, object, action);
    }

    pub(super) fn perform_access(&mut self, key: u64, object: u64, action: Action) {
        let mut operation = Operation::new(self.header.data_place(object), vec![action.op()]);
        operation.snap = self.header.snap;
        if action.writes() {
            operation.snap_context = self.header.snap_context.clone();
            // Whoever writes is to be told of a full pool, not to wait for room.
            operation.flags |= request_flags::FULL_TRY;
        }
        self.ask(Part::Access, key, Ask::Operate(operation));
    }

    pub(super) fn access_answered(&mut self, key: u64, answer: Answer) {
        let Some(access) = self.accesses.remove(key) else { return };
        let found = match answer.and_then(operation_reply) {
            Ok(reply) => found(access.kind, reply),
            // An object that was never written is as good as one full of zeros. But a write makes the
            // object: what is not there is its pool.
            Err(Errno::NOENT) if access.kind != Kind::Write => Ok(Found::Nothing),
            Err(Errno::BLOCKLISTED) => {
                self.blocklisted();
                Err(crate::lock::blocklisted(&self.header))
            }
            Err(errno) => {
                let what = match access.kind {
                    Kind::Read | Kind::Map => "reading",
                    Kind::Write | Kind::Clear | Kind::Remove => "writing",
                };
                Err(Error::cluster(format!("{what} {}", self.header.spec), errno))
            }
        };
        if access.kind == Kind::Remove {
            self.removal_over(access.object, found.is_ok());
        }
        self.found(access.request, access.index, found);
    }

    /// One that is not made.
    pub(super) fn access_refused(&mut self, key: u64, error: Error) {
        let Some(access) = self.accesses.remove(key) else { return };
        self.found(access.request, access.index, Err(error));
    }
}

fn found(kind: Kind, mut reply: OperationReply) -> Result<Found, Error> {
    let output = match reply.ops.first_mut() {
        Some(op) => std::mem::take(&mut op.output),
        None => Bytes::new(),
    };
    match kind {
        Kind::Read => Ok(Found::Data(output)),
        Kind::Write | Kind::Clear | Kind::Remove => Ok(Found::Nothing),
        Kind::Map => {
            let extents: BTreeMap<u64, u64> = codec::decode_all("extents", &output)
                .map_err(|error| Error::Damaged { what: "a map", error })?;
            Ok(Found::Extents(extents.into_iter().collect()))
        }
    }
}
