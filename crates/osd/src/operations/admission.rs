//! Admission of requests: from a message to a request in the queue of its object.

use crate::Osd;
use crate::cx::cx;
use crate::operations::checks::Checks;
use crate::operations::request::{Class, Nature, Origin, Request, is_member};
use classes::Caller;
use engine::{ConnId, Message, Time};
use types::{Errno, PgId};
use wire::{MessageBody, OsdRequest};

impl Osd {
    pub(super) fn checks(&self) -> Checks<'_> {
        Checks { map: self.maps.map(), clients: &self.clients }
    }

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
        if !self.checks().may_anything(request) {
            return self.operations.reply_error(cx!(self), key, Errno::PERM);
        }
        if self.await_map(epoch, key) {
            return;
        }
        match self.route(key) {
            Some(pg) => self.enter_group(now, pg, key),
            // The client learns from a newer map where to send it, or that there is no such pool.
            None => self.operations.forget(cx!(self), key),
        }
    }

    /// The group of this OSD that should serve the request; `None` if its client has to resend it.
    fn route(&mut self, key: u64) -> Option<PgId> {
        let request = self.operations.requests.get(key)?;
        let pool = self.maps.map().pool(request.message.pg.pg.pool)?;
        // Requests sent before groups were merged are resent by their clients, and in order.
        if request.is_of_client() && request.message.map_epoch < pool.last_force_op_resend {
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
            Err(errno) => return self.operations.reply_error(cx!(self), key, errno),
        };
        self.operations.requests.get_mut(key).expect("it was just there").nature = nature;
        let request = self.operations.requests.get(key).expect("it was just there");
        let group = &self.groups.by_id[&pg];
        if !group.pg.is_primary() && !request.allows_replica() {
            return self.operations.forget(cx!(self), key);
        }
        if let Err(errno) = self.checks().check(request, &calls) {
            return self.operations.reply_error(cx!(self), key, errno);
        }
        if self.checks().must_hold(request, &group.queues.held_back) {
            return self.hold_back(key);
        }
        self.start(now, pg, key);
    }

    /// Drops a request that its client should have held. The client resends it, together with all
    /// writes that it sent before it saw this map.
    pub(crate) fn hold_back(&mut self, key: u64) {
        let request = self.operations.requests.get(key).expect("the caller has it");
        if let Some(group) = self.groups.by_id.get_mut(&request.pg) {
            group.queues.held_back.note(self.maps.map(), request);
        }
        self.operations.forget(cx!(self), key);
    }
}
