//! Operations in flight: their targets, resends and replies.

mod commands;
mod replies;
mod watches;

use crate::effects::Effects;
use crate::listing::ListRequest;
use crate::locate::{Located, Locator, Target};
use crate::session::Sessions;
use crate::watch::Watch;
use crate::{OpId, Operation, WatchId};
use commands::OsdCommand;
use engine::{ConnId, Duration, Time};
use maps::{Incremental, OsdMap};
use std::collections::{BTreeMap, VecDeque};
use types::{Epoch, Errno, HObject, OsdId, PgShard, RequestId, ShardId, UTime, features};
use wire::op::request_flags;
use wire::{MessageBody, OsdMapMessage, OsdRequest};

/// Requests are encoded as every OSD since Luminous reads them; newer fields are only empty traces.
const REQUEST_FEATURES: u64 = features::SUPPORTED & !features::SERVER_SQUID;

/// Any member of the acting set may answer such a request, or redirect it to the primary.
const REPLICA_READS: u32 = request_flags::BALANCE_READS | request_flags::LOCALIZE_READS;

/// Consumer of the reply to an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Purpose {
    Submitted,
    Listing(ListRequest),
    /// First registration of a watch; the user waits for [`first_operation`].
    Watch(WatchId),
    Rewatch(WatchId),
    Ping(WatchId),
    /// Completes with the notification's outcome, not with its reply.
    Notify,
    /// The reply is dropped.
    Acknowledgement,
}

#[derive(Debug)]
struct Pending {
    operation: Operation,
    purpose: Purpose,
    flags: u32,
    mtime: UTime,
    target: Option<(OsdId, Target)>,
    sent_on: Option<ConnId>,
    attempts: i32,
    /// The newest epoch at the monitor: if the pool is missing in that map, it does not exist.
    newest_epoch: Option<Epoch>,
    has_asked: bool,
}

impl Purpose {
    fn watch(&self) -> Option<WatchId> {
        match self {
            Purpose::Watch(watch) | Purpose::Rewatch(watch) | Purpose::Ping(watch) => Some(*watch),
            _ => None,
        }
    }
}

/// Id of the operation that a user who watches waits for, whatever requests it takes.
fn first_operation(watch: WatchId) -> OpId {
    OpId(watch.0)
}

impl Pending {
    /// Listings are placed by their starting position.
    fn hash(&self) -> Option<u32> {
        match &self.purpose {
            Purpose::Listing(request) => Some(request.start().hash),
            _ => None,
        }
    }

    /// The replica that serves a balanced read; spread by operation id.
    fn replica(&self, id: OpId, target: &Target) -> Option<OsdId> {
        let may = self.flags & REPLICA_READS != 0 && self.flags & request_flags::WRITE == 0;
        let acting = &target.mapping.acting;
        let index = id.0.checked_rem(acting.len() as u64)? as usize;
        acting.get(index).copied().filter(|_| may)
    }

    fn object(&self, hash: u32) -> HObject {
        let place = &self.operation.place;
        let (namespace, key) = (place.namespace.clone(), place.key.clone());
        let head = HObject::head(place.pool, namespace, key, place.object.clone(), hash);
        HObject { snap: self.operation.snap, ..head }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Objecter {
    map: Option<OsdMap>,
    locator: Locator,
    sessions: Sessions,
    ops: BTreeMap<OpId, Pending>,
    /// In order of time, as all operations have the same timeout; may name completed ones.
    deadlines: VecDeque<(Time, OpId)>,
    commands: BTreeMap<OpId, OsdCommand>,
    watches: BTreeMap<WatchId, Watch>,
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
    pub fn new(timeout: Option<Duration>) -> Self {
        Objecter { timeout, ..Objecter::default() }
    }

    pub fn map(&self) -> Option<&OsdMap> {
        self.map.as_ref()
    }

    pub fn epoch(&self) -> Epoch {
        self.map.as_ref().map_or(Epoch(0), |map| map.epoch)
    }

    pub fn osd_of(&self, conn: ConnId) -> Option<OsdId> {
        self.sessions.osd_of(conn)
    }

    pub fn in_flight(&self) -> usize {
        self.ops.len()
    }

    pub fn submit(&mut self, now: Time, operation: Operation, fx: &mut Effects) -> OpId {
        self.add(now, operation, Purpose::Submitted, fx)
    }

    pub fn list(&mut self, now: Time, request: ListRequest, fx: &mut Effects) -> OpId {
        let place = crate::Place {
            pool: request.pool,
            namespace: request.wire_namespace(),
            ..Default::default()
        };
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
        let pending = Pending {
            flags: operation.request_flags(),
            operation,
            purpose,
            mtime: now.wall(),
            target: None,
            sent_on: None,
            attempts: 0,
            newest_epoch: None,
            has_asked: false,
        };
        self.ops.insert(id, pending);
        if let Some(timeout) = self.timeout {
            self.deadlines.push_back((now + timeout, id));
        }
        self.pump(id, fx);
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
                let osd = pending.replica(id, &target).unwrap_or(primary);
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
        let retry = if pending.attempts > 0 { request_flags::RETRY } else { 0 };
        let request = OsdRequest {
            pg,
            map_epoch: map.epoch,
            flags: pending.flags | retry,
            request_id: RequestId::default(),
            client_incarnation: 0,
            mtime: pending.mtime,
            object,
            ops: pending.operation.ops.clone(),
            snap_context: pending.operation.snap_context.clone(),
            retry_attempt: pending.attempts,
            features: features::SUPPORTED,
        };
        pending.attempts += 1;
        pending.sent_on = Some(conn);
        fx.send(conn, request.encode(REQUEST_FEATURES).with_tid(id.0));
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
        self.pump_commands(fx);
    }

    pub fn handle_opened(&mut self, conn: ConnId, fx: &mut Effects) {
        if self.sessions.handle_opened(conn).is_some() {
            self.pump_all(fx);
        }
    }

    /// Operations sent on the session are resent on the next one.
    pub fn handle_closed(&mut self, now: Time, conn: ConnId) {
        self.sessions.handle_closed(now, conn);
        let lost = |sent_on: &mut Option<ConnId>| {
            if *sent_on == Some(conn) {
                *sent_on = None;
            }
        };
        self.ops.values_mut().for_each(|pending| lost(&mut pending.sent_on));
        self.commands.values_mut().for_each(|command| lost(&mut command.sent_on));
    }

    pub fn handle_timeout(&mut self, now: Time, fx: &mut Effects) {
        while let Some((deadline, id)) = self.deadlines.front().copied() {
            if deadline > now {
                break;
            }
            self.deadlines.pop_front();
            self.fail(id, Errno::TIMEDOUT, fx);
            self.fail_command(id, Errno::TIMEDOUT, fx);
        }
        self.sessions.handle_timeout(now, fx);
        self.tend_watches(now, fx);
    }

    pub fn poll_timeout(&self) -> Option<Time> {
        let deadline = self.deadlines.front().map(|(deadline, _)| *deadline);
        // A watch with an operation in flight is examined when that is answered.
        let resting = self.watches.values().filter(|watch| watch.operation.is_none());
        let pings = resting.map(|watch| watch.next_ping);
        deadline.into_iter().chain(self.sessions.poll_timeout()).chain(pings).min()
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
