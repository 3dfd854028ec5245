//! One request in progress, and the flags that follow from its operations.

use crate::Budgets;
use crate::execute::{Execution, Loaded};
use auth::ClassCall;
use classes::Caller;
use engine::{ConnId, Time};
use pg::snaps::At;
use std::collections::BTreeSet;
use store::StoreError;
use types::{EVersion, Errno, HObject, OsdId, PgShard, RequestId, SnapId};
use wire::op::op_flags::EXCL;
use wire::op::{OpCode, request_flags, watch_op};
use wire::{OsdOp, OsdRequest};

/// The origin of a request, which decides where its outcome goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Client {
        conn: ConnId,
    },
    /// Our own read of a local source object, for the copy with this number.
    Copy {
        copy: u64,
    },
    /// Our own removal of a watch that has timed out.
    WatchTimeout,
    /// Our own removal of a snapshot from a clone of the request's object.
    SnapTrim {
        snap: SnapId,
        clone: SnapId,
    },
    /// Our own removal of the request's object, or of a clone of it, that was declared lost.
    Lost {
        clone: SnapId,
        command: u64,
    },
}

impl Origin {
    /// Whether it is no work that clients cause: snapshots are trimmed, or lost objects given up.
    pub fn is_maintenance(self) -> bool {
        matches!(self, Origin::SnapTrim { .. } | Origin::Lost { .. })
    }

    /// Whether the origin asks again if the request is dropped.
    pub fn is_repeated(self) -> bool {
        matches!(self, Origin::Client { .. } | Origin::Copy { .. })
    }
}

/// Flags of a request, from the codes of its operations and the methods they call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct OpFlags {
    /// Ordinary operations read or write.
    pub may_read: bool,
    pub may_write: bool,
    /// Class methods read or write.
    pub class_reads: bool,
    pub class_writes: bool,
    /// It addresses the group instead of an object.
    pub is_pg_op: bool,
    /// It concerns an object's watchers, which only the primary knows.
    pub is_to_watchers: bool,
    /// It rolls back to a snapshot.
    pub rolls_back: bool,
}

/// A class call, kept for the check of capabilities.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    class: &'static str,
    method: &'static str,
    flags: classes::Flags,
    allowed_by_default: bool,
}

impl Call {
    pub fn as_access(&self) -> ClassCall<'_> {
        ClassCall {
            class: self.class,
            method: self.method,
            reads: self.flags.read,
            writes: self.flags.write,
            allowed_by_default: self.allowed_by_default,
        }
    }
}

/// When a request reached each of the points that `dump_historic_ops` shows.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Times {
    pub arrived: Time,
    pub queued: Option<Time>,
    pub started: Option<Time>,
    pub submitted: Option<Time>,
    pub committed: Option<Time>,
}

/// The account from which a request reserves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Request,
    /// A copy from another object: it waits for other OSDs.
    Copy,
    /// A read of a piece, for which copies wait.
    Piece,
}

impl Class {
    /// The class of a request, from its operations and its sender.
    pub fn of(request: &Request, is_from_osd: bool) -> Class {
        let is_any =
            |wanted: fn(OpCode) -> bool| request.message.ops.iter().any(|op| wanted(op.code));
        if is_any(|code| matches!(code, OpCode::COPY_FROM | OpCode::COPY_FROM2)) {
            Class::Copy
        } else if is_from_osd {
            Class::Piece
        } else {
            Class::Request
        }
    }

    /// Bytes that its account may hold.
    pub fn limit(self, budgets: &Budgets) -> u64 {
        match self {
            Class::Request => budgets.expansion,
            Class::Copy => budgets.copies,
            Class::Piece => budgets.pieces,
        }
    }

    /// In the order in which they are granted memory.
    pub const ALL: [Class; 3] = [Class::Piece, Class::Copy, Class::Request];
}

/// Memory that a request holds, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reservation {
    /// The account from which it is taken.
    pub class: Class,
    pub reserved: u64,
    /// Bytes that an earlier attempt turned out to need.
    pub expected: u64,
}

/// A listed page, while it is checked for whiteouts, which clients do not see.
#[derive(Debug)]
pub(crate) struct Page {
    pub objects: Vec<HObject>,
    pub next: Option<HObject>,
    pub whiteouts: BTreeSet<HObject>,
}

/// Refusals of a write by our store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refusal {
    /// The first error.
    pub errno: Errno,
    /// It was damage of our copy of the head.
    pub is_damage: bool,
    pub times: u32,
    /// Our copy of the object was replaced after the first one.
    pub is_healed: bool,
}

impl Refusal {
    /// Whether the client is told: the write is not tried again.
    pub fn is_final(&self) -> bool {
        self.times > 1 || !self.is_healed
    }
}

/// One request in progress.
#[derive(Debug)]
pub(crate) struct Request {
    pub origin: Origin,
    pub message: OsdRequest,
    pub tid: u64,
    pub id: RequestId,
    /// Length of its message in bytes, as charged to its session.
    pub bytes: usize,
    pub memory: Reservation,
    pub times: Times,
    /// The group that serves it, once it is admitted; before, as its client names it.
    pub pg: PgShard,
    pub op_flags: OpFlags,
    pub caller: Caller,
    /// Increases with each attempt, so that completions of loads of an earlier one are recognised.
    pub attempt: u32,
    pub loaded: Loaded,
    /// The place of the state that it reads, if that is one at a snapshot.
    pub at: Option<At>,
    /// Loads in flight.
    pub outstanding: usize,
    /// A load failed and was retried.
    pub is_reread: bool,
    /// The listed page, while its heads are checked for whiteouts.
    pub page: Option<Box<Page>>,
    /// Counted in its object context: among `readers`, or as `has_writer`.
    pub is_marked: bool,
    /// It could be answered, but waits for the reply to an earlier read of its client on the
    /// object.
    pub is_ready: bool,
    /// The outcome of a write in flight, and its version.
    pub outcome: Option<(Box<Execution>, EVersion)>,
    /// Our store refused it at earlier attempts.
    pub refused: Option<Refusal>,
}

impl Request {
    /// Whether its message is charged to a client's session.
    pub fn is_of_client(&self) -> bool {
        matches!(self.origin, Origin::Client { .. })
    }

    /// A request that has just arrived, without flags, reservation or group.
    pub fn new(origin: Origin, message: OsdRequest, tid: u64, caller: Caller) -> Self {
        let is_piece = matches!(origin, Origin::Copy { .. });
        let class = if is_piece { Class::Piece } else { Class::Request };
        Request {
            origin,
            pg: message.pg,
            message,
            tid,
            id: caller.request,
            bytes: 0,
            memory: Reservation { class, reserved: 0, expected: 0 },
            times: Times::default(),
            op_flags: OpFlags::default(),
            caller,
            attempt: 0,
            loaded: Loaded::default(),
            at: None,
            outstanding: 0,
            is_reread: false,
            page: None,
            is_marked: false,
            is_ready: false,
            outcome: None,
            refused: None,
        }
    }

    /// The object that it addresses, maybe a clone.
    pub fn object(&self) -> &HObject {
        &self.message.object
    }

    /// Whether operations or class methods may write.
    pub fn may_write(&self) -> bool {
        self.op_flags.may_write || self.op_flags.class_writes
    }

    /// Whether all its operations are deletions, so that the object does not exist afterwards.
    pub fn only_deletes(&self) -> bool {
        let ops = &self.message.ops;
        !ops.is_empty() && ops.iter().all(|op| op.code == OpCode::DELETE)
    }

    /// Whether it removes the object before it writes to it.
    pub fn removes_first(&self) -> bool {
        let mut ops = self.message.ops.iter();
        let prepares = |op: &&OsdOp| matches!(op.code, OpCode::CREATE | OpCode::SETALLOCHINT);
        matches!(self.origin, Origin::Lost { .. })
            || ops.find(|op| !prepares(op)).is_some_and(|op| op.code == OpCode::DELETE)
    }

    /// Whether it defines all data of the object and depends on no earlier state of it.
    pub fn replaces_object(&self) -> bool {
        if matches!(self.origin, Origin::Lost { .. }) {
            return true;
        }
        let is_new = |op: &OsdOp| matches!(op.code, OpCode::WRITEFULL | OpCode::DELETE);
        let is_exclusive = |op: &OsdOp| op.code == OpCode::CREATE && op.flags & EXCL != 0;
        let depends_not = |op: &OsdOp| match op.code {
            OpCode::CREATE => !is_exclusive(op),
            OpCode::SETALLOCHINT => true,
            _ => is_new(op),
        };
        let adds = |op: &OsdOp| match op.code {
            OpCode::WRITE | OpCode::SETXATTR => true,
            OpCode::OMAPSETVALS | OpCode::OMAPSETHEADER | OpCode::OMAPCLEAR => true,
            _ => depends_not(op),
        };
        let ops = &self.message.ops;
        let Some(first) = ops.iter().position(is_new) else { return false };
        ops[..first].iter().all(depends_not) && ops[first..].iter().all(adds)
    }

    /// Its operations with the old object removed first; true if that removal was added in front.
    pub fn as_replacement(&self) -> (Vec<OsdOp>, bool) {
        let ops = &self.message.ops;
        if ops.first().is_some_and(|op| op.code == OpCode::DELETE) {
            return (ops.clone(), false);
        }
        (std::iter::once(OsdOp::remove()).chain(ops.iter().cloned()).collect(), true)
    }

    /// Whether it reads an object's state at a snapshot.
    pub fn asks_of_clones(&self) -> bool {
        self.object().snap < SnapId::DIR && !self.may_write()
    }

    /// Whether its client wants results and outputs of a write (`RETURNVEC`).
    pub fn wants_returns(&self) -> bool {
        self.message.has_flag(request_flags::RETURNVEC)
    }

    /// Whether a replica may answer.
    pub fn allows_replica(&self) -> bool {
        let flags = request_flags::BALANCE_READS | request_flags::LOCALIZE_READS;
        self.message.flags & flags != 0 && !self.may_write()
    }

    /// Whether it has begun and waits for memory or a lease, not for the store or its turn.
    pub fn waits_outside(&self) -> bool {
        self.is_marked && self.outstanding == 0 && !self.is_ready
    }

    /// Notes why our store refused this write: its client gets the error if no member turns out to have
    /// stored it.
    pub fn note_refusal(&mut self, error: &StoreError) {
        let errno = match error {
            StoreError::NoSpace { .. } => Errno::NOSPC,
            StoreError::TooLarge { .. } => Errno::FBIG,
            StoreError::Behind(_) => return,
            _ => Errno::IO,
        };
        // A rollback also depends on a clone, and shares its blocks.
        let is_damage = matches!(error, StoreError::Corrupt { .. }) && !self.op_flags.rolls_back;
        let first = Refusal { errno, is_damage, times: 0, is_healed: false };
        self.refused.get_or_insert(first).times += 1;
    }

    /// Whether it is in no queue: it loads, or waits for memory or for a copy.
    pub fn has_begun(&self) -> bool {
        self.is_marked || self.op_flags.is_pg_op || self.outstanding > 0
    }

    /// Restarts the request, as if it had just arrived.
    pub fn reset(&mut self) {
        self.unload();
        self.is_marked = false;
    }

    /// Restarts the request, but keeps its place in the order of its object.
    pub fn unload(&mut self) {
        self.attempt += 1;
        self.loaded.clear();
        self.at = None;
        self.outstanding = 0;
        self.page = None;
        self.is_ready = false;
        self.outcome = None;
    }

    /// The id for its log entry: our own requests are never resent, so they have none.
    pub fn logged_id(&self) -> RequestId {
        match self.origin {
            Origin::Client { .. } => self.id,
            _ => RequestId::default(),
        }
    }
}

impl OpFlags {
    /// The flags of a request, and its class calls. Fails if a class or method does not exist
    /// (`ENOTSUPP`), if an input is too short, or if the snapshots of a write's context are not in
    /// order (`EINVAL`).
    pub fn of(message: &OsdRequest) -> Result<(OpFlags, Vec<Call>), Errno> {
        // Reads wait for the writes before them, and writes for the reads before them, so RWORDERED
        // adds nothing.
        let mut op_flags = OpFlags::default();
        let mut calls = Vec::new();
        for op in &message.ops {
            let is_ping = op.code == OpCode::WATCH && op.watch_arguments().op == watch_op::PING;
            op_flags.may_write |= op.code.writes() && !is_ping;
            // A watch depends on the object's present watches.
            op_flags.may_read |= op.code.reads() || op.code.is_cache() || op.code == OpCode::WATCH;
            op_flags.is_pg_op |= op.code.is_pg();
            op_flags.is_to_watchers |=
                matches!(op.code, OpCode::WATCH | OpCode::NOTIFY | OpCode::NOTIFY_ACK);
            op_flags.rolls_back |= op.code == OpCode::ROLLBACK;
            if op.code.is_call() {
                let (class, method, _) = op.call_input().map_err(|_| Errno::INVAL)?;
                let known = classes::class(&class);
                let found = known.and_then(|class| Some((class, class.method(&method)?)));
                let (class, method) = found.ok_or(Errno::NOTSUPP)?;
                op_flags.class_reads |= method.flags.read;
                op_flags.class_writes |= method.flags.write;
                calls.push(Call {
                    class: class.name,
                    method: method.name,
                    flags: method.flags,
                    allowed_by_default: class.default_allowed,
                });
            }
        }
        let writes = op_flags.may_write || op_flags.class_writes;
        if writes && !message.snap_context.is_valid() {
            return Err(Errno::INVAL);
        }
        Ok((op_flags, calls))
    }
}

/// Whether an OSD belongs to an acting set, and so may serve the group's requests.
pub(crate) fn is_member(osd: OsdId, acting: &[OsdId]) -> bool {
    acting.contains(&osd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use store::Collection;
    use types::{PgId, PoolId};
    use wire::{OsdOp, SnapContext};

    fn request(op: OsdOp, snaps: &[u64]) -> OsdRequest {
        let snaps: Vec<SnapId> = snaps.iter().copied().map(SnapId).collect();
        OsdRequest {
            pg: PgShard::replicated(PgId { pool: PoolId(1), seed: 0 }),
            map_epoch: Default::default(),
            flags: 0,
            request_id: Default::default(),
            client_incarnation: 0,
            mtime: Default::default(),
            object: HObject::default(),
            ops: vec![op],
            snap_context: SnapContext { seq: SnapId(9), snaps },
            retry_attempt: 0,
            features: 0,
        }
    }

    fn op_flags(op: OsdOp, snaps: &[u64]) -> Result<OpFlags, Errno> {
        OpFlags::of(&request(op, snaps)).map(|(op_flags, _)| op_flags)
    }

    #[test]
    fn only_a_checksum_mismatch_is_damage() {
        let is_damage = |error: StoreError| {
            let (message, caller) = (request(OsdOp::remove(), &[]), Caller::default());
            let mut request = Request::new(Origin::WatchTimeout, message, 0, caller);
            request.note_refusal(&error);
            request.refused.is_some_and(|refusal| refusal.is_damage)
        };
        assert!(is_damage(StoreError::Corrupt {
            object: HObject::default(),
            offset: 0,
            length: 1
        }));
        assert!(!is_damage(StoreError::NoCollection(Collection(PgShard::default()))));
        assert!(!is_damage(StoreError::NoSpace { needed: 1, available: 0 }));
    }

    #[test]
    fn writes_whose_snapshots_are_not_in_order_are_refused() {
        let write = || OsdOp::write_full(Bytes::new());
        assert_eq!(op_flags(write(), &[3, 7]), Err(Errno::INVAL));
        assert_eq!(op_flags(write(), &[10]), Err(Errno::INVAL), "newer than the newest");
        assert!(op_flags(write(), &[7, 3]).is_ok_and(|op_flags| op_flags.may_write));
        assert!(op_flags(OsdOp::read(0, 1), &[3, 7]).is_ok_and(|op_flags| op_flags.may_read));
    }
}
