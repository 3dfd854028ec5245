//! Operations in flight: their targets, and how they are sent, again after changes of maps and sessions.
//!
//! Above it, `replies` takes the OSDs' messages and `watching` keeps watches registered.

mod commands;
mod pending;
mod replies;
#[cfg(test)]
mod tests;
mod watches;
mod watching;

use crate::effects::Effects;
use crate::listing::ListRequest;
use crate::locate::{Located, Locator, Target};
use crate::names::{OpId, Place};
use crate::operation::Operation;
use crate::session::Sessions;
use bytes::Bytes;
use commands::Commands;
use engine::{ConnId, Duration, Time};
use maps::{Incremental, OsdMap, Pool};
use pending::{Pending, Purpose, first_operation};
use std::collections::{BTreeMap, VecDeque};
use types::{Epoch, Errno, OsdId, PgShard, ShardId, features};
use watches::Watches;
use wire::{MessageBody, OsdMapMessage};

/// Requests are encoded as every OSD since Luminous reads them; newer fields are only empty traces.
const REQUEST_FEATURES: u64 = features::SUPPORTED & !features::SERVER_SQUID;

#[derive(Debug, Default)]
pub(crate) struct Objecter {
    map: Option<OsdMap>,
    locator: Locator,
    sessions: Sessions,
    ops: BTreeMap<OpId, Pending>,
    /// In order of time, as all operations have the same timeout; may name completed ones.
    deadlines: VecDeque<(Time, OpId)>,
    commands: Commands,
    watches: Watches,
    /// Operations whose pool is not in the map, which may be too old.
    unknown_pools: Vec<OpId>,
    timeout: Option<Duration>,
}

/// Result of a message with maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MapProgress {
    Nothing,
    Newer,
    /// Maps between ours and the message are missing, or the message is malformed.
    Gap,
}

impl Objecter {
    /// An engine without a map: operations wait for one.
    pub fn new(timeout: Option<Duration>) -> Self {
        Objecter { timeout, ..Objecter::default() }
    }

    /// The newest map received; `None` at first.
    pub fn map(&self) -> Option<&OsdMap> {
        self.map.as_ref()
    }

    /// Epoch of the newest map; 0 at first.
    pub fn epoch(&self) -> Epoch {
        self.map.as_ref().map_or(Epoch(0), |map| map.epoch)
    }

    /// The OSD of a session; `None` if the session is not this engine's.
    pub fn osd_of(&self, conn: ConnId) -> Option<OsdId> {
        self.sessions.osd_of(conn)
    }

    /// Number of operations that have not completed, without commands.
    pub fn in_flight(&self) -> usize {
        self.ops.len()
    }

    /// Submits operations on one object.
    pub fn submit(&mut self, now: Time, operation: Operation, fx: &mut Effects) -> OpId {
        self.add(now, operation, Purpose::Submitted, fx)
    }

    /// Submits a request for one page of a listing.
    pub fn list(&mut self, now: Time, request: ListRequest, fx: &mut Effects) -> OpId {
        let place =
            Place { pool: request.pool, namespace: request.wire_namespace(), ..Default::default() };
        let operation = Operation::new(place, vec![request.op()]);
        self.add(now, operation, Purpose::Listing(request), fx)
    }

    fn add(&mut self, now: Time, operation: Operation, purpose: Purpose, fx: &mut Effects) -> OpId {
        let id = fx.next_id();
        self.insert(now, id, operation, purpose, fx);
        id
    }

    fn insert(
        &mut self,
        now: Time,
        id: OpId,
        operation: Operation,
        purpose: Purpose,
        fx: &mut Effects,
    ) {
        let former = self.ops.insert(id, Pending::new(operation, purpose, now.wall()));
        assert!(former.is_none(), "{id:?} was used before");
        self.add_deadline(now, id);
        self.pump(id, fx);
    }

    fn add_deadline(&mut self, now: Time, id: OpId) {
        if let Some(timeout) = self.timeout {
            self.deadlines.push_back((now + timeout, id));
        }
    }

    /// Submits a command to one OSD.
    pub fn command(
        &mut self,
        now: Time,
        osd: OsdId,
        command: String,
        input: Bytes,
        fx: &mut Effects,
    ) -> OpId {
        let id = fx.next_id();
        self.commands.insert(id, osd, command, input);
        self.add_deadline(now, id);
        if let Some(map) = &self.map {
            self.commands.pump(id, map, &mut self.sessions, fx);
        }
        id
    }

    /// Sends an operation unless it was sent to its current target.
    fn pump(&mut self, id: OpId, fx: &mut Effects) {
        let (Some(map), Some(pending)) = (&self.map, self.ops.get_mut(&id)) else { return };
        let place = &pending.operation.place;
        match self.locator.locate(map, place, pending.hash(), pending.flags) {
            Located::NoPool => self.pump_without_pool(id, fx),
            Located::PoolError => self.fail(id, Errno::IO, fx),
            Located::Waits => {
                pending.target = None;
                pending.sent_on = None;
            }
            Located::At(primary, target) => {
                let replica = match map.pool(target.pg.pool).is_some_and(Pool::is_replicated) {
                    true => pending.replica(id, &target),
                    // Other members have shards only.
                    false => None,
                };
                let osd = replica.unwrap_or(primary);
                let addrs = map.client_addrs(osd).cloned().unwrap_or_default();
                let conn = self.sessions.open(osd, &addrs, fx);
                let target = Some((osd, target));
                if conn.is_some() && conn == pending.sent_on && target == pending.target {
                    return;
                }
                pending.target = target;
                pending.sent_on = None;
                if let Some(conn) = conn {
                    let id = self.renewed(id, fx);
                    self.send(id, conn, fx);
                }
            }
        }
    }

    fn pump_without_pool(&mut self, id: OpId, fx: &mut Effects) {
        let epoch = self.epoch();
        let Some(pending) = self.ops.get_mut(&id) else { return };
        match pending.newest_epoch {
            Some(newest) if newest <= epoch => self.fail(id, Errno::NOENT, fx),
            Some(_) => {}
            None if pending.has_asked => {}
            None => {
                pending.has_asked = true;
                self.unknown_pools.push(id);
            }
        }
    }

    /// Operations that need the newest epoch to be requested.
    pub fn take_unknown_pools(&mut self) -> Vec<OpId> {
        std::mem::take(&mut self.unknown_pools)
    }

    /// The newest epoch, as requested for an operation.
    pub fn handle_newest(&mut self, id: OpId, newest: Epoch, fx: &mut Effects) {
        if let Some(pending) = self.ops.get_mut(&id) {
            pending.newest_epoch = Some(newest);
            self.pump(id, fx);
        }
    }

    fn send(&mut self, id: OpId, conn: ConnId, fx: &mut Effects) {
        let (Some(map), Some(pending)) = (&self.map, self.ops.get_mut(&id)) else { return };
        let Some((osd, target)) = &pending.target else { return };
        let object = pending.object(target.hash);
        let pg = shard_pg(map, target);
        if self.sessions.is_blocked(*osd, pg, &object) {
            return;
        }
        let request = pending.request(map, pg, object);
        pending.sent(conn);
        fx.send(conn, request.encode(REQUEST_FEATURES).with_tid(id.0));
    }

    /// On another session, a registration or ping is sent as a new registration with a new request id. A
    /// resend would be answered from the placement group's log as a duplicate without connecting the watch to
    /// that session, and a ping would fail.
    fn renewed(&mut self, id: OpId, fx: &mut Effects) -> OpId {
        let watch = self.ops.get(&id).filter(|pending| pending.attempts > 0);
        let Some(of) = watch.and_then(|pending| pending.purpose.watch()) else { return id };
        let Some(watch) = self.watches.get(of) else { return id };
        let mut pending = self.ops.remove(&id).expect("it was just there");
        pending.operation.ops = vec![watch.op(of, watch.registration())];
        pending.attempts = 0;
        if pending.purpose == Purpose::Ping(of) {
            pending.purpose = Purpose::Rewatch(of);
        }
        let renewed = fx.next_id();
        self.watches.renamed(of, renewed);
        self.ops.insert(renewed, pending);
        let deadline = self.deadlines.iter_mut().find(|(_, at)| *at == id);
        deadline.into_iter().for_each(|(_, at)| *at = renewed);
        renewed
    }

    /// Completes an operation with an error; does nothing if it has completed.
    fn fail(&mut self, id: OpId, error: Errno, fx: &mut Effects) {
        let Some(pending) = self.ops.remove(&id) else { return };
        match pending.purpose {
            Purpose::Rewatch(watch) | Purpose::Ping(watch) => self.watches.lose(watch, error, fx),
            Purpose::Watch(watch) => {
                self.watches.remove(watch);
                fx.complete(first_operation(watch), Err(error));
            }
            Purpose::Acknowledgement => {}
            Purpose::Submitted | Purpose::Listing(_) | Purpose::Notify => {
                fx.complete(id, Err(error));
            }
        }
    }

    /// Applies maps that follow the current one, then resends operations whose target changed.
    pub fn handle_maps(&mut self, maps: &OsdMapMessage, fx: &mut Effects) -> MapProgress {
        let before = self.epoch();
        let outcome = self.apply_maps(maps, fx);
        let epoch = self.epoch();
        if epoch > before {
            self.pump_all(fx);
        }
        let has_newer = maps.range().is_some_and(|(_, last)| last > epoch);
        match outcome {
            Err(error) => {
                tracing::warn!(%error, "an OSD map does not decode");
                MapProgress::Gap
            }
            Ok(()) if has_newer => MapProgress::Gap,
            Ok(()) if epoch > before => MapProgress::Newer,
            Ok(()) => MapProgress::Nothing,
        }
    }

    fn apply_maps(&mut self, maps: &OsdMapMessage, fx: &mut Effects) -> Result<(), MapError> {
        if self.map.is_none() {
            let Some(full) = maps.full.values().next() else { return Ok(()) };
            self.map = Some(codec::decode_all("osdmap", full)?);
            self.map_stepped(false, fx);
        }
        while let Some(map) = &mut self.map {
            let next = map.epoch.next();
            if let Some(incremental) = maps.incrementals.get(&next) {
                map.apply(&codec::decode_all::<Incremental>("osdmap increment", incremental)?)?;
                self.map_stepped(false, fx);
            } else if let Some((epoch, full)) = maps.full.range(next..).next() {
                *map = codec::decode_all("osdmap", full)?;
                self.map_stepped(*epoch > next, fx);
            } else {
                break;
            }
        }
        Ok(())
    }

    /// Compares targets map by map: a target may have been down in one of them, and lost its state although
    /// the next map shows it again. Skipped maps count as changes.
    fn map_stepped(&mut self, skipped: bool, fx: &mut Effects) {
        self.locator.forget();
        let Some(map) = &self.map else { return };
        self.sessions.retain(|osd, addrs| map.client_addrs(osd) == Some(addrs), fx);
        for (pool, removed) in &map.removed_snaps_queue {
            // Later writes need not preserve removed snapshots.
            let of_pool = |pending: &&mut Pending| pending.operation.place.pool == *pool;
            for pending in self.ops.values_mut().filter(of_pool) {
                pending.operation.snap_context.snaps.retain(|snap| !removed.contains(*snap));
            }
        }
        for pending in self.ops.values_mut().filter(|pending| pending.sent_on.is_some()) {
            let place = &pending.operation.place;
            let located = self.locator.locate(map, place, pending.hash(), pending.flags);
            let stays = match (located, &pending.target) {
                (Located::At(osd, target), Some((sent_to, sent_as))) => {
                    osd == *sent_to && target == *sent_as
                }
                _ => false,
            };
            if skipped || !stays {
                pending.sent_on = None;
            }
        }
    }

    fn pump_all(&mut self, fx: &mut Effects) {
        let ids: Vec<OpId> = self.ops.keys().copied().collect();
        ids.into_iter().for_each(|id| self.pump(id, fx));
        if let Some(map) = &self.map {
            self.commands.pump_all(map, &mut self.sessions, fx);
        }
    }

    /// Sends everything that waits for the session.
    pub fn handle_opened(&mut self, conn: ConnId, fx: &mut Effects) {
        if self.sessions.handle_opened(conn).is_some() {
            self.pump_all(fx);
        }
    }

    /// Operations sent on the session are resent on the next one.
    pub fn handle_closed(&mut self, now: Time, conn: ConnId) {
        self.sessions.handle_closed(now, conn);
        let sent = self.ops.values_mut().filter(|pending| pending.sent_on == Some(conn));
        sent.for_each(|pending| pending.sent_on = None);
        self.commands.handle_closed(conn);
    }

    /// The caller tends watches afterwards.
    pub fn handle_timeout(&mut self, now: Time, fx: &mut Effects) {
        while let Some((deadline, id)) = self.deadlines.front().copied() {
            if deadline > now {
                break;
            }
            self.deadlines.pop_front();
            self.fail(id, Errno::TIMEDOUT, fx);
            self.commands.fail(id, Errno::TIMEDOUT, fx);
        }
        self.sessions.handle_timeout(now, fx);
    }

    /// Time of the next call of `handle_timeout`.
    pub fn poll_timeout(&self) -> Option<Time> {
        let deadline = self.deadlines.front().map(|(deadline, _)| *deadline);
        let parts = [deadline, self.sessions.poll_timeout(), self.watches.next_ping()];
        parts.into_iter().flatten().min()
    }

    /// # Panics
    /// If operations, sessions, deadlines and watches contradict each other.
    pub fn check_invariants(&self) {
        self.sessions.check_invariants();
        let is_of = |operation, watch| {
            let pending: Option<&Pending> = self.ops.get(&operation);
            pending.is_some_and(|pending| pending.purpose.watch() == Some(watch))
        };
        self.watches.check_invariants(is_of);
        assert!(self.deadlines.iter().is_sorted_by_key(|(at, _)| *at), "deadlines without order");
        for (id, pending) in &self.ops {
            let Some(conn) = pending.sent_on else { continue };
            assert!(self.sessions.is_open(conn), "{id:?} was sent on {conn:?}, which is closed");
            let target = pending.target.as_ref().map(|(osd, _)| *osd);
            assert_eq!(target, self.sessions.osd_of(conn), "{id:?} was sent to another OSD");
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum MapError {
    #[error(transparent)]
    Decode(#[from] codec::DecodeError),
    #[error(transparent)]
    Apply(#[from] maps::ApplyError),
}

/// In erasure-coded pools the request names the primary's shard.
fn shard_pg(map: &OsdMap, target: &Target) -> PgShard {
    let replicated = PgShard::replicated(target.pg);
    let is_erasure = map.pool(target.pg.pool).is_some_and(|pool| pool.is_erasure());
    let place = target.mapping.acting.iter().position(|osd| Some(*osd) == target.primary());
    match place.and_then(ShardId::at).filter(|_| is_erasure) {
        Some(shard) => PgShard { shard, ..replicated },
        None => replicated,
    }
}
