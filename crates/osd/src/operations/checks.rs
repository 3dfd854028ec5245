//! Checks of requests that depend on the map and the client, not on the state of an object.

use crate::execute::{copy_source, repeated_extent};
use crate::limits;
use crate::operations::queues::HeldBack;
use crate::operations::request::{Call, Origin, Request};
use crate::sessions::clients::{Clients, Session};
use auth::{ClassCall, OsdAccess};
use maps::{OsdMap, OsdMapFlags, PoolFlags};
use types::{Errno, HObject};
use wire::op::OpCode;
use wire::op::request_flags::{FULL_FORCE, FULL_TRY, PARALLELEXEC};

/// `EMSGSIZE`: more data than one request may carry.
const TOO_BIG: Errno = Errno(90);

/// The namespace by which a client requests all namespaces (`LIBRADOS_ALL_NSPACES`).
pub(super) const ALL_NAMESPACES: &[u8] = b"\x01";

/// The facts on which checks depend.
pub(super) struct Checks<'a> {
    pub map: &'a OsdMap,
    pub clients: &'a Clients,
}

impl Checks<'_> {
    /// Refuses a request that is invalid, too large, or forbidden to its client.
    pub fn check(&self, request: &Request, calls: &[Call]) -> Result<(), Errno> {
        let message = &request.message;
        if message.has_flag(PARALLELEXEC) || message.ops.is_empty() {
            return Err(Errno::INVAL);
        }
        if message.ops.len() > limits::REQUEST_OPS_MAX {
            return Err(Errno::TOOBIG);
        }
        self.check_caps(request, calls)?;
        if request.op_flags.is_pg_op {
            return Ok(());
        }
        let object = &message.object;
        if object.name.len() > limits::OBJECT_NAME_LEN_MAX
            || object.key.len() > limits::OBJECT_NAME_LEN_MAX
            || object.namespace.len() > limits::NAMESPACE_LEN_MAX
        {
            return Err(Errno::NAMETOOLONG);
        }
        if object.name.is_empty() {
            return Err(Errno::INVAL);
        }
        let data: usize = message.ops.iter().map(|op| op.input.len()).sum();
        if request.may_write() && data > limits::REQUEST_DATA_MAX {
            return Err(TOO_BIG);
        }
        // Repetitions are written, and sent to replicas, at full length. Invalid ones fail when
        // they are executed.
        let repeated = message.ops.iter().filter(|op| op.code == OpCode::WRITESAME);
        let lengths = repeated.filter_map(|op| repeated_extent(op).ok());
        let repeated = lengths.fold(0u64, |sum, (_, length)| sum.saturating_add(length));
        if repeated.saturating_add(data as u64) > limits::WRITTEN_BYTES_MAX {
            return Err(TOO_BIG);
        }
        Ok(())
    }

    /// Whether a client has any capability here. The capabilities that a request needs may depend
    /// on a map that has not come yet; a request of a client without any is not kept until then.
    pub fn may_anything(&self, request: &Request) -> bool {
        let Origin::Client { conn } = request.origin else { return true };
        self.clients.get(conn).is_none_or(|session| !session.caps.is_empty())
    }

    fn check_caps(&self, request: &Request, calls: &[Call]) -> Result<(), Errno> {
        let Origin::Client { conn } = request.origin else { return Ok(()) };
        let session = self.clients.get(conn).ok_or(Errno::PERM)?;
        if session.caps.allows_all() {
            return Ok(());
        }
        let calls: Vec<_> = calls.iter().map(Call::as_access).collect();
        let op_flags = request.op_flags;
        let target = HObject { pool: request.pg.pg.pool, ..request.object().clone() };
        // It lists objects in all namespaces, whatever namespace it names.
        let is_of_pool = request.message.ops.iter().any(|op| op.code == OpCode::SCRUBLS);
        let target = match is_of_pool {
            true => HObject {
                pool: target.pool,
                namespace: ALL_NAMESPACES.into(),
                ..HObject::default()
            },
            false => target,
        };
        self.check_access(session, &target, (op_flags.may_read, op_flags.may_write), &calls)?;
        // Other OSDs let this one read everything, so the source must be readable by the client.
        for op in &request.message.ops {
            if matches!(op.code, OpCode::COPY_FROM | OpCode::COPY_FROM2) {
                let source = copy_source(op).map_err(|_| Errno::INVAL)?;
                self.check_access(session, &source, (true, false), &[])?;
            }
        }
        Ok(())
    }

    fn check_access(
        &self,
        session: &Session,
        object: &HObject,
        (may_read, may_write): (bool, bool),
        classes: &[ClassCall<'_>],
    ) -> Result<(), Errno> {
        let nothing = Default::default();
        let pool = self.map.pool(object.pool);
        let name = if object.key.is_empty() { &object.name } else { &object.key };
        let access = OsdAccess {
            pool_name: self.map.pool_name(object.pool).unwrap_or_default(),
            applications: pool.map_or(&nothing, |pool| &pool.application_metadata),
            namespace: &String::from_utf8_lossy(&object.namespace),
            object: &String::from_utf8_lossy(name),
            may_read,
            may_write,
            classes,
            peer: session.peer.seen_addr.socket.map(|socket| socket.ip()),
        };
        if session.caps.allows(&access) { Ok(()) } else { Err(Errno::PERM) }
    }

    /// Refuses a blocklisted client. Checked when the request runs, as it may have been blocklisted
    /// while the request waited.
    pub fn check_blocklist(&self, request: &Request) -> Result<(), Errno> {
        let Origin::Client { conn } = request.origin else { return Ok(()) };
        let Some(session) = self.clients.get(conn) else { return Ok(()) };
        match self.map.is_any_blocklisted(&session.peer.addrs) {
            true => Err(Errno::BLOCKLISTED),
            false => Ok(()),
        }
    }

    /// Whether a write may add to its pool. An error if the pool is full and the client asked to
    /// hear of it; `Ok(false)` if the request is dropped, since its client should have held it.
    pub fn may_grow(&self, request: &Request) -> Result<bool, Errno> {
        let Some(pool) = self.map.pool(request.pg.pg.pool) else { return Ok(false) };
        let full = pool.flags.contains(PoolFlags::FULL);
        match request.message.flags {
            _ if !full => Ok(true),
            flags if flags & FULL_FORCE != 0 => Ok(true),
            flags if flags & FULL_TRY != 0 => {
                let by_quota = pool.flags.contains(PoolFlags::FULL_QUOTA);
                Err(if by_quota { Errno::DQUOT } else { Errno::NOSPC })
            }
            _ => Ok(false),
        }
    }

    /// Whether the map tells clients to hold the request, or a write before it was dropped: they resend it
    /// when the map no longer does.
    pub fn must_hold(&self, request: &Request, held: &HeldBack) -> bool {
        if request.origin == Origin::WatchTimeout {
            return false;
        }
        let flags = self.map.flags;
        let forced = request.message.flags & (FULL_TRY | FULL_FORCE) != 0;
        let writes = request.may_write();
        let full = writes && !forced && flags.contains(OsdMapFlags::FULL);
        full || held.covers(request)
            || writes && flags.contains(OsdMapFlags::PAUSEWR)
            || !writes && flags.contains(OsdMapFlags::PAUSERD)
    }
}

/// Refuses a request with `ENOSPC` while a member's disk is nearly full, unless it only frees space or has
/// `FULL_FORCE`. `adds` says that it makes a clone, so that even a deletion does not free space.
pub(super) fn check_space(request: &Request, adds: bool, has_space: bool) -> Result<(), Errno> {
    if has_space {
        return Ok(());
    }
    let frees = |code: OpCode| {
        matches!(
            code,
            OpCode::DELETE
                | OpCode::TRUNCATE
                | OpCode::TRIMTRUNC
                | OpCode::OMAPCLEAR
                | OpCode::WATCH
        ) || !code.writes()
    };
    let only_frees = !adds && request.message.ops.iter().all(|op| frees(op.code));
    let may = only_frees || request.message.has_flag(FULL_FORCE);
    if may { Ok(()) } else { Err(Errno::NOSPC) }
}
