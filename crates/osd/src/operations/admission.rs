//! Admission of requests: from a message to a request in the queue of its object. All checks that
//! do not depend on the object's state.

use crate::cx::cx;
use crate::execute::{copy_source, repeated_extent};
use crate::operations::listing::ALL_NAMESPACES;
use crate::operations::request::{Call, Class, Nature, Origin, Request, is_member};
use crate::sessions::clients::Session;
use crate::{Osd, limits};
use auth::{ClassCall, OsdAccess};
use classes::Caller;
use engine::{ConnId, Message, Time};
use maps::{OsdMapFlags, PoolFlags};
use types::{Errno, HObject, PgId};
use wire::op::OpCode;
use wire::op::request_flags::{FULL_FORCE, FULL_TRY, PARALLELEXEC};
use wire::{MessageBody, OsdRequest};

/// `EMSGSIZE`: more data than one request may carry.
const TOO_BIG: Errno = Errno(90);

impl Osd {
    /// Handles a client's request. Fails if it does not decode, which ends the session.
    pub(crate) fn take_request(
        &mut self,
        now: Time,
        conn: ConnId,
        message: &Message,
    ) -> codec::Result<()> {
        let request = OsdRequest::decode(message)?;
        let Some(session) = self.clients.get(conn) else { return Ok(()) };
        let (bytes, is_from_osd) = (message.len(), session.osd.is_some());
        let id = request.id(session.peer.participant, message.tid);
        let (addr, features) = (session.addr(), session.peer.features);
        let caller = Caller { request: id, addr, features };
        let map_epoch = request.map_epoch;
        self.peers.note_offered(&mut self.clients, conn, Some(map_epoch));
        let origin = Origin::Client { conn };
        let mut request = Request::new(origin, request, message.tid, caller);
        (request.bytes, request.arrived) = (bytes, now);
        request.class = Class::of(&request, is_from_osd);
        let key = self.operations.requests.insert(request);
        cx!(self).charge(conn, bytes);
        self.share_map(conn, map_epoch);
        self.admit(now, key);
        Ok(())
    }

    /// Checks a request and passes it to its group.
    pub(crate) fn admit(&mut self, now: Time, key: u64) {
        let Some(request) = self.operations.requests.get(key) else { return };
        let epoch = request.message.map_epoch;
        if !self.may_anything(request) {
            return self.reply_error(key, Errno::PERM);
        }
        if self.await_map(epoch, key) {
            return;
        }
        match self.route(key) {
            Some(pg) => self.enter_group(now, pg, key),
            // The client learns from a newer map where to send it, or that there is no such pool.
            None => self.forget_request(key),
        }
    }

    /// The group of this OSD that should serve the request; `None` if its client has to resend it.
    fn route(&mut self, key: u64) -> Option<PgId> {
        let request = self.operations.requests.get(key)?;
        let pool = self.maps.map().pool(request.message.pg.pg.pool)?;
        // Requests sent before groups were merged are resent by their clients, and in order.
        let is_client = matches!(request.origin, Origin::Client { .. });
        if is_client && request.message.map_epoch < pool.last_force_op_resend {
            return None;
        }
        let pg = pool.raw_pg_to_pg(request.message.pg.pg);
        self.operations.requests.assign(key, pg);
        let request = self.operations.requests.get_mut(key).expect("it was just there");
        request.message.object.pool = pg.pool;
        let is_listing = request.message.ops.iter().any(|op| op.code.is_pg());
        if !is_listing && pool.pg_of_hash(pg.pool, request.message.object.hash) != pg {
            return None;
        }
        let group = self.groups.by_id.get(&pg)?;
        let since = group.primary_since.unwrap_or_default();
        let members = group.pg.members();
        if group.pg.is_primary() {
            // Requests sent to an earlier primary are resent to this one.
            return (request.message.map_epoch >= since).then_some(pg);
        }
        is_member(self.env.config.id, &members.acting).then_some(pg)
    }

    /// Refuses an invalid or forbidden request, drops one that the map tells clients to hold, and
    /// starts others.
    fn enter_group(&mut self, now: Time, pg: PgId, key: u64) {
        let request = self.operations.requests.get(key).expect("it was just routed");
        let (nature, calls) = match Nature::of(&request.message) {
            Ok(known) => known,
            Err(errno) => return self.reply_error(key, errno),
        };
        let request = self.operations.requests.get_mut(key).expect("it was just there");
        request.nature = nature;
        let group = &self.groups.by_id[&pg];
        if !group.pg.is_primary() && !request.allows_replica() {
            return self.forget_request(key);
        }
        if let Err(errno) = self.check(key, &calls) {
            return self.reply_error(key, errno);
        }
        if self.is_held_back(key) {
            return self.hold_back(key);
        }
        self.start(now, pg, key);
    }

    fn check(&self, key: u64, calls: &[Call]) -> Result<(), Errno> {
        let request = self.operations.requests.get(key).expect("the caller has it");
        let message = &request.message;
        if message.has_flag(PARALLELEXEC) || message.ops.is_empty() {
            return Err(Errno::INVAL);
        }
        if message.ops.len() > limits::REQUEST_OPS_MAX {
            return Err(Errno::TOOBIG);
        }
        self.check_caps(request, calls)?;
        if request.nature.is_pg_op {
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
    fn may_anything(&self, request: &Request) -> bool {
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
        let nature = request.nature;
        let target = HObject { pool: request.pg.pool, ..request.object().clone() };
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
        self.check_access(session, &target, (nature.may_read, nature.may_write), &calls)?;
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
        let pool = self.maps.map().pool(object.pool);
        let name = if object.key.is_empty() { &object.name } else { &object.key };
        let access = OsdAccess {
            pool_name: self.maps.map().pool_name(object.pool).unwrap_or_default(),
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
    pub(crate) fn check_blocklist(&self, request: &Request) -> Result<(), Errno> {
        let Origin::Client { conn } = request.origin else { return Ok(()) };
        let Some(session) = self.clients.get(conn) else { return Ok(()) };
        match self.maps.map().is_any_blocklisted(&session.peer.addrs) {
            true => Err(Errno::BLOCKLISTED),
            false => Ok(()),
        }
    }

    /// Refuses a request with `ENOSPC` while a member's disk is nearly full, unless it only frees
    /// space or has `FULL_FORCE`. `adds` says that it makes a clone, so that even a deletion does not
    /// free space.
    pub(crate) fn check_space(&self, request: &Request, adds: bool) -> Result<(), Errno> {
        let has_room = self.groups.by_id.get(&request.pg).is_some_and(|group| group.pg.has_room());
        if has_room && !self.usage.is_disk_full() {
            return Ok(());
        }
        let frees = |code: OpCode| {
            matches!(code, OpCode::DELETE | OpCode::TRUNCATE | OpCode::OMAPCLEAR | OpCode::WATCH)
                || !code.writes()
        };
        let only_frees = !adds && request.message.ops.iter().all(|op| frees(op.code));
        let may = only_frees || request.message.has_flag(FULL_FORCE);
        if may { Ok(()) } else { Err(Errno::NOSPC) }
    }

    /// Drops a request that its client should have held. The client resends it, together with all
    /// writes that it sent before it saw this map.
    pub(crate) fn hold_back(&mut self, key: u64) {
        let (epoch, is_paused) =
            (self.epoch(), self.maps.map().flags.contains(OsdMapFlags::PAUSEWR));
        let request = self.operations.requests.get(key).expect("the caller has it");
        let writes = request.may_write() && !self.was_held_back(request);
        if let Some(group) = self.groups.by_id.get_mut(&request.pg).filter(|_| writes) {
            let held = &mut group.queues.held_back;
            *(if is_paused { &mut held.by_pause } else { &mut held.by_fullness }) = epoch;
        }
        self.forget_request(key);
    }

    /// Whether a write may have been dropped before this one by a map that its client has not seen.
    /// The client resends both, so this one must not overtake.
    pub(crate) fn was_held_back(&self, request: &Request) -> bool {
        let is_client = matches!(request.origin, Origin::Client { .. });
        let forced = request.message.flags & (FULL_TRY | FULL_FORCE) != 0;
        let held = self
            .groups
            .by_id
            .get(&request.pg)
            .map(|group| group.queues.held_back)
            .unwrap_or_default();
        let epoch = request.message.map_epoch;
        let is_behind = epoch < held.by_pause || !forced && epoch < held.by_fullness;
        is_client && request.may_write() && is_behind
    }

    /// Whether the map tells clients to hold the request: they resend it when it no longer does.
    fn is_held_back(&self, key: u64) -> bool {
        let request = self.operations.requests.get(key).expect("the caller has it");
        if request.origin == Origin::WatchTimeout {
            return false;
        }
        let flags = self.maps.map().flags;
        let forced = request.message.flags & (FULL_TRY | FULL_FORCE) != 0;
        let writes = request.may_write();
        let full = writes && !forced && flags.contains(OsdMapFlags::FULL);
        full || self.was_held_back(request)
            || writes && flags.contains(OsdMapFlags::PAUSEWR)
            || !writes && flags.contains(OsdMapFlags::PAUSERD)
    }

    /// Whether a write may add to its pool. An error if the pool is full and the client asked to
    /// hear of it; `Ok(false)` if the request is dropped, since its client should have held it.
    pub(crate) fn may_grow(&self, request: &Request) -> Result<bool, Errno> {
        let Some(pool) = self.maps.map().pool(request.pg.pool) else { return Ok(false) };
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
}
