//! Requests to a client, and replies.

use crate::listing::ListPage;
use crate::names::{OpId, Place, WatchId};
use bytes::Bytes;
use types::{EVersion, Epoch, Errno, OsdId, PoolId, SnapId, Uuid};
use wire::op::{OpCode, request_flags};
use wire::watch::NotifyResult;
use wire::{OpResult, OsdOp, PoolOp, PoolOpKind, SnapContext};

/// Operations on one object, executed atomically.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The object.
    pub place: Place,
    /// Executed in order; if one fails, none has an effect.
    pub ops: Vec<OsdOp>,
    /// The snapshot that is read.
    pub snap: SnapId,
    /// The snapshots that a write must preserve.
    pub snap_context: SnapContext,
    /// In addition to the flags that follow from the operations, see [`wire::op::request_flags`]. Class
    /// method calls that write need [`request_flags::WRITE`].
    pub flags: u32,
}

impl Operation {
    /// Operations on the head of an object that preserve no snapshot.
    pub fn new(place: Place, ops: Vec<OsdOp>) -> Self {
        let snap_context = SnapContext::default();
        Operation { place, ops, snap: SnapId::HEAD, snap_context, flags: 0 }
    }

    /// Operations of which some write, or call class methods that write. They return no outputs, and fail on
    /// a full pool instead of waiting for space.
    pub fn write(place: Place, ops: Vec<OsdOp>) -> Self {
        let flags = request_flags::WRITE | request_flags::FULL_TRY;
        Operation { flags, ..Operation::new(place, ops) }
    }

    /// All flags of the request.
    pub(crate) fn request_flags(&self) -> u32 {
        let of_op = |op: &OsdOp| match op.code {
            code if code.is_pg() => request_flags::READ | request_flags::PGOP,
            OpCode::CALL => request_flags::READ | request_flags::EXEC,
            // Both kinds of notify and of watch count as reads or writes by their code.
            code => {
                let read = if code.reads() { request_flags::READ } else { 0 };
                let write = if code.writes() { request_flags::WRITE } else { 0 };
                read | write
            }
        };
        let common =
            request_flags::ONDISK | request_flags::KNOWN_REDIR | request_flags::SUPPORTSPOOLEIO;
        self.ops.iter().map(of_op).fold(self.flags | common, |flags, more| flags | more)
    }
}

/// A change of a pool's snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolRequest {
    /// The pool whose snapshots change.
    pub pool: PoolId,
    /// The change.
    pub kind: PoolOpKind,
    /// The snapshot id to remove, if clients manage the snapshots (self-managed).
    pub snap: SnapId,
    /// Name of a pool snapshot.
    pub name: String,
}

impl PoolRequest {
    /// Allocates a self-managed snapshot id.
    pub fn take_snapshot(pool: PoolId) -> Self {
        let kind = PoolOpKind::CreateUnmanagedSnap;
        PoolRequest { pool, kind, snap: SnapId(0), name: String::new() }
    }

    /// Gives a self-managed snapshot id back; OSDs remove its clones in the background.
    pub fn remove_snapshot(pool: PoolId, snap: SnapId) -> Self {
        let kind = PoolOpKind::DeleteUnmanagedSnap;
        PoolRequest { pool, kind, snap, name: String::new() }
    }

    pub(crate) fn message(&self, fsid: Uuid) -> PoolOp {
        PoolOp {
            version: 0,
            fsid,
            pool: self.pool.0 as u32,
            op: self.kind,
            snap: self.snap,
            name: self.name.clone(),
            crush_rule: 0,
        }
    }
}

/// Executor of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommandTarget {
    /// Any monitor; it is passed on to the leader.
    Monitor,
    /// One OSD (`ceph tell osd.N`).
    Osd(OsdId),
}

/// Result of a request. A failure of the request as a whole is an [`Errno`] instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Result of [`crate::Client::submit`].
    Operation(OperationReply),
    /// Result of [`crate::Client::command`]; the command itself may have failed.
    Command(CommandOutput),
    /// Result of [`crate::Client::pool_op`]: the first epoch that shows the change, and the new snapshot, if
    /// any.
    Pool {
        /// The first epoch that shows the change.
        epoch: Epoch,
        /// The new snapshot, if any.
        snap: Option<SnapId>,
    },
    /// Result of [`crate::Client::list`].
    Page(ListPage),
    /// Result of [`crate::Client::fetch_map`]: the client's map is at least this new.
    Map(Epoch),
    /// Result of [`crate::Client::identify`]: other clients see this one as `client.GLOBAL_ID`.
    Identity {
        /// Zero before a monitor has assigned it.
        global_id: u64,
    },
    /// Result of [`crate::Client::watch`].
    Watching(WatchId),
    /// Result of [`crate::Client::notify`]; names the watchers that did not answer in time.
    Notified(NotifyResult),
}

impl Reply {
    /// The reply to operations on an object; [`Errno::IO`] if this is another kind of reply.
    pub fn into_operation(self) -> Result<OperationReply, Errno> {
        match self {
            Reply::Operation(reply) => Ok(reply),
            _ => Err(Errno::IO),
        }
    }
}

/// Result of operations on an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OperationReply {
    /// 0 or more.
    pub result: i32,
    /// Position of the write in the placement group's log.
    pub version: EVersion,
    /// The object's version.
    pub user_version: u64,
    /// One per operation.
    pub ops: Vec<OpResult>,
}

/// Result of a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandOutput {
    /// 0 or more, or a negative errno.
    pub result: i32,
    /// Text for the user.
    pub text: String,
    /// Data for programs, mostly JSON.
    pub output: Bytes,
}

/// A completed request. The error is that of the request as a whole.
pub type Completion = (OpId, Result<Reply, Errno>);

/// The errno of a negative result.
pub(crate) fn check(result: i32) -> Result<i32, Errno> {
    if result < 0 { Err(Errno(result.saturating_neg())) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_follow_from_the_operations() {
        let flags = |ops| Operation::new(Place::default(), ops).request_flags();
        let has = |flags: u32, wanted: u32| flags & wanted == wanted;
        let write = flags(vec![OsdOp::stat(), OsdOp::remove()]);
        assert!(has(write, request_flags::READ | request_flags::WRITE | request_flags::ONDISK));
        assert!(!has(flags(vec![OsdOp::read(0, 1)]), request_flags::WRITE));
        let list = flags(vec![OsdOp::list(1, 0, &types::HObject::default())]);
        assert!(has(list, request_flags::PGOP | request_flags::READ));
    }
}
