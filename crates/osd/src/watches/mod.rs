//! Watches and notifications: their state in memory.
//!
//! The watchers of an object are stored with it. Kept here is the session over which a watch is
//! connected, and when it times out without one. A notification goes to all watchers, collects
//! their acknowledgements, and is complete when all are there or its time is up.

use crate::execute::{Effect, Execution};
use crate::operations::request::{Origin, Request};
use crate::{Osd, limits};
use bytes::Bytes;
use classes::Caller;
use engine::{ConnId, Duration, Time};
use maps::stable_mod;
use pg::{WatcherInfo, WatcherKey};
use std::collections::{BTreeMap, BTreeSet};
use types::features::SUPPORTED;
use types::{EntityAddr, Epoch, Errno, HObject, PgId, RequestId};
use wire::op::{OpCode, watch_op};
use wire::osd_op::WatchArguments;
use wire::watch::{NotifyResult, WatchEvent, WatchNotify};
use wire::{MessageBody, OsdOp, OsdRequest, ShardPgId};

/// One watch of an object.
#[derive(Debug)]
pub(crate) struct Watch {
    pub conn: Option<ConnId>,
    /// The address of its client, which may be blocklisted.
    pub addr: EntityAddr,
    pub timeout: Duration,
    /// The client pings; otherwise only its session shows that it is alive.
    will_ping: bool,
    last_ping: Time,
    /// When it times out, unless the client pings or reconnects.
    deadline: Option<Time>,
    /// Ids of notifications that it has not acknowledged.
    notifications: BTreeSet<u64>,
}

/// The watches of one group, by object.
#[derive(Debug, Default)]
pub(crate) struct GroupWatches {
    pub by_object: BTreeMap<HObject, BTreeMap<WatcherKey, Watch>>,
}

#[derive(Debug)]
struct Notification {
    pg: PgId,
    object: HObject,
    notifier: ConnId,
    notifier_id: u64,
    cookie: u64,
    version: u64,
    payload: Bytes,
    deadline: Time,
    waiting: BTreeSet<WatcherKey>,
    replies: BTreeMap<(u64, u64), Bytes>,
}

/// The notifications in progress, and the number of watches.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    last_notification: u64,
    active: BTreeMap<u64, Notification>,
    count: usize,
    pub next_tick: Time,
}

impl Watches {
    /// The id of the next notification.
    pub fn next_id(&self, epoch: Epoch) -> u64 {
        u64::from(epoch.0) << 32 | (self.last_notification + 1) & u64::from(u32::MAX)
    }

    /// Uses up the ids of the notifications among these effects.
    pub fn reserve(&mut self, effects: &[Effect]) {
        let sent = effects.iter().filter(|effect| matches!(effect, Effect::Notify { .. }));
        self.last_notification += sent.count() as u64;
    }

    /// Whether there is anything that can time out.
    pub fn is_ticking(&self) -> bool {
        self.count > 0 || !self.active.is_empty()
    }

    /// Forgets the notifications of a session that has ended.
    pub fn forget_notifier(&mut self, conn: ConnId) {
        self.active.retain(|_, notification| notification.notifier != conn);
    }
}

/// A watcher in replies: global id and cookie.
fn reply_key(key: &WatcherKey) -> (u64, u64) {
    (key.name.number as u64, key.cookie)
}

impl Osd {
    /// Performs the effects of an execution on watches and notifications, once it is durable.
    pub(crate) fn perform_effects(
        &mut self,
        now: Time,
        pg: PgId,
        object: &HObject,
        key: u64,
        execution: &Execution,
    ) {
        if execution.effects.is_empty() {
            return;
        }
        let request = self.operations.get(key).expect("the caller has it");
        let (origin, client) = (request.origin, request.caller.request.name);
        for effect in &execution.effects {
            match effect.clone() {
                Effect::Connect { key, info, will_ping } => {
                    if let Origin::Client { conn } = origin {
                        self.connect_watch(now, pg, object, key, info, conn, will_ping);
                        // Its client may have been blocklisted while the write was in flight.
                        if self.maps.map().is_blocklisted(&info.addr) {
                            self.remove_watcher(now, pg, object.clone(), key);
                        }
                    }
                }
                Effect::Disconnect { key, tell_client } => {
                    let tell_client = tell_client || origin == Origin::WatchTimeout;
                    self.end_watch(pg, object, key, tell_client);
                }
                Effect::Ping { key } => {
                    if let Some(watch) = self.watch_mut(pg, object, &key) {
                        watch.last_ping = now;
                        watch.deadline = Some(now + watch.timeout);
                    }
                }
                Effect::Notify { notify_id, cookie, timeout_seconds, payload } => {
                    let Origin::Client { conn } = origin else { continue };
                    let notification = Notification {
                        pg,
                        object: object.clone(),
                        notifier: conn,
                        notifier_id: client.number as u64,
                        cookie,
                        version: execution.info.user_version,
                        payload,
                        deadline: now + Duration::from_secs(timeout_seconds.into()),
                        waiting: BTreeSet::new(),
                        replies: BTreeMap::new(),
                    };
                    self.notify(now, notify_id, notification);
                }
                Effect::Acknowledge { notify_id, cookie, reply } => {
                    self.acknowledge(pg, object, client, notify_id, cookie, &reply);
                }
            }
        }
    }

    fn watch_mut(&mut self, pg: PgId, object: &HObject, key: &WatcherKey) -> Option<&mut Watch> {
        self.groups.by_id.get_mut(&pg)?.watches.by_object.get_mut(object)?.get_mut(key)
    }

    fn add_watch(
        &mut self,
        now: Time,
        pg: PgId,
        object: &HObject,
        key: WatcherKey,
        info: WatcherInfo,
    ) {
        let Some(group) = self.groups.by_id.get_mut(&pg) else { return };
        let timeout = Duration::from_secs(info.timeout_seconds.into());
        let watches = group.watches.by_object.entry(object.clone()).or_default();
        watches.entry(key).or_insert_with(|| {
            self.watches.count += 1;
            Watch {
                conn: None,
                addr: info.addr,
                timeout,
                will_ping: true,
                last_ping: now,
                deadline: Some(now + timeout),
                notifications: BTreeSet::new(),
            }
        });
        self.start_ticking(now);
    }

    fn start_ticking(&mut self, now: Time) {
        if self.watches.next_tick <= now {
            self.watches.next_tick = now + limits::TICK;
        }
    }

    /// Registers the stored watches of an object that was just loaded: they wait for their clients
    /// to reconnect.
    pub(crate) fn adopt_watchers(&mut self, now: Time, pg: PgId, object: &HObject) {
        let Some(group) = self.groups.by_id.get(&pg).filter(|group| group.pg.is_primary()) else {
            return;
        };
        let state = group.queues.objects.get(object).and_then(|context| context.state.as_ref());
        let watchers = state.map(|state| state.info.watchers.clone()).unwrap_or_default();
        // Watches kept over a change of the members may have ended meanwhile.
        let kept =
            group.watches.by_object.get(object).into_iter().flat_map(|watches| watches.keys());
        let ended: Vec<WatcherKey> =
            kept.filter(|key| !watchers.contains_key(key)).copied().collect();
        for key in ended {
            self.end_watch(pg, object, key, true);
        }
        for (key, info) in watchers {
            self.add_watch(now, pg, object, key, info);
        }
        self.end_blocklisted_watches_first(pg, object);
    }

    fn connect_watch(
        &mut self,
        now: Time,
        pg: PgId,
        object: &HObject,
        key: WatcherKey,
        info: WatcherInfo,
        conn: ConnId,
        will_ping: bool,
    ) {
        self.add_watch(now, pg, object, key, info);
        let Some(session) = self.clients.get_mut(conn) else { return };
        session.connect(pg, object.clone(), key);
        let watch = self.watch_mut(pg, object, &key).expect("it was just added");
        if watch.conn == Some(conn) {
            return;
        }
        let old = watch.conn.replace(conn);
        watch.will_ping = will_ping;
        watch.last_ping = now;
        watch.deadline = will_ping.then(|| now + watch.timeout);
        let missed: Vec<u64> = watch.notifications.iter().copied().collect();
        if let Some(session) = old.and_then(|old| self.clients.get_mut(old)) {
            session.disconnect(pg, object.clone(), key);
        }
        missed.into_iter().for_each(|notify_id| self.tell_watcher(notify_id, key.cookie, conn));
    }

    /// The session of these watches has ended: they time out unless their client reconnects.
    pub(crate) fn disconnect_watches(
        &mut self,
        now: Time,
        conn: ConnId,
        watches: BTreeSet<(PgId, HObject, WatcherKey)>,
    ) {
        for (pg, object, key) in watches {
            let Some(watch) = self.watch_mut(pg, &object, &key) else { continue };
            if watch.conn == Some(conn) {
                watch.conn = None;
                watch.deadline.get_or_insert(now + watch.timeout);
            }
        }
    }

    fn end_watch(&mut self, pg: PgId, object: &HObject, key: WatcherKey, tell_client: bool) {
        let Some(group) = self.groups.by_id.get_mut(&pg) else { return };
        let Some(watches) = group.watches.by_object.get_mut(object) else { return };
        let Some(watch) = watches.remove(&key) else { return };
        if watches.is_empty() {
            group.watches.by_object.remove(object);
        }
        self.watches.count -= 1;
        if let Some(conn) = watch.conn {
            if let Some(session) = self.clients.get_mut(conn) {
                session.disconnect(pg, object.clone(), key);
            }
            if tell_client {
                let event = WatchEvent::Disconnect;
                let end = WatchNotify { event, cookie: key.cookie, ..WatchNotify::default() };
                self.send(conn, end.encode(SUPPORTED));
            }
        }
        for notify_id in watch.notifications {
            if let Some(notification) = self.watches.active.get_mut(&notify_id) {
                notification.waiting.remove(&key);
            }
            self.complete_if_done(notify_id);
        }
    }

    fn notify(&mut self, now: Time, notify_id: u64, mut notification: Notification) {
        let Some(group) = self.groups.by_id.get_mut(&notification.pg) else { return };
        let mut told = Vec::new();
        for (key, watch) in
            group.watches.by_object.get_mut(&notification.object).into_iter().flatten()
        {
            if watch.will_ping && watch.last_ping + watch.timeout < now {
                // Presumably dead: it stays among the watchers until it times out or its client reconnects.
                watch.conn = None;
            }
            watch.notifications.insert(notify_id);
            notification.waiting.insert(*key);
            told.extend(watch.conn.map(|conn| (key.cookie, conn)));
        }
        self.watches.active.insert(notify_id, notification);
        for (cookie, conn) in told {
            self.tell_watcher(notify_id, cookie, conn);
        }
        self.start_ticking(now);
        self.complete_if_done(notify_id);
    }

    fn tell_watcher(&mut self, notify_id: u64, cookie: u64, conn: ConnId) {
        let Some(notification) = self.watches.active.get(&notify_id) else { return };
        let event = WatchNotify {
            event: WatchEvent::Notify,
            cookie,
            version: notification.version,
            notify_id,
            payload: notification.payload.clone(),
            result: 0,
            notifier: notification.notifier_id,
            outcome: Bytes::new(),
        };
        self.send(conn, event.encode(SUPPORTED));
    }

    fn acknowledge(
        &mut self,
        pg: PgId,
        object: &HObject,
        client: types::ParticipantName,
        notify_id: u64,
        cookie: Option<u64>,
        reply: &Bytes,
    ) {
        let Some(group) = self.groups.by_id.get_mut(&pg) else { return };
        for (key, watch) in group.watches.by_object.get_mut(object).into_iter().flatten() {
            let meant = key.name == client && cookie.is_none_or(|cookie| cookie == key.cookie);
            if !meant || !watch.notifications.remove(&notify_id) {
                continue;
            }
            if let Some(notification) = self.watches.active.get_mut(&notify_id) {
                notification.waiting.remove(key);
                notification.replies.insert(reply_key(key), reply.clone());
            }
        }
        self.complete_if_done(notify_id);
    }

    fn complete_if_done(&mut self, notify_id: u64) {
        let active = self.watches.active.get(&notify_id);
        if active.is_some_and(|notification| notification.waiting.is_empty()) {
            self.complete_notification(notify_id, 0);
        }
    }

    fn complete_notification(&mut self, notify_id: u64, result: i32) {
        let Some(notification) = self.watches.active.remove(&notify_id) else { return };
        let missed = notification.waiting.iter().map(reply_key).collect();
        for key in &notification.waiting {
            if let Some(watch) = self.watch_mut(notification.pg, &notification.object, key) {
                watch.notifications.remove(&notify_id);
            }
        }
        let outcome = NotifyResult { replies: notification.replies, missed };
        let event = WatchNotify {
            event: WatchEvent::NotifyComplete,
            cookie: notification.cookie,
            version: notification.version,
            notify_id,
            payload: Bytes::new(),
            result,
            notifier: notification.notifier_id,
            outcome: codec::encode_to_bytes(&outcome),
        };
        self.send(notification.notifier, event.encode(SUPPORTED));
    }

    /// The members of a group change, and this OSD stays its primary: clients resend notifications
    /// and reconnect watches, but may ping before.
    pub(crate) fn discard_notifications(&mut self, pg: PgId) {
        // Before watches end, or a notification that was sent to no watcher would count as complete.
        self.watches.active.retain(|_, notification| notification.pg != pg);
        let pg_num = self.maps.map().pool(pg.pool).map_or(0, |pool| pool.pg_num);
        let Some(group) = self.groups.by_id.get(&pg) else { return };
        // After a split, the object may belong to another group.
        let is_here = |object: &HObject| pg_num > 0 && stable_mod(object.hash, pg_num) == pg.seed;
        let elsewhere = group.watches.by_object.iter().filter(|(object, _)| !is_here(object));
        let elsewhere = elsewhere
            .flat_map(|(object, watches)| watches.keys().map(move |key| (object.clone(), *key)));
        for (object, key) in elsewhere.collect::<Vec<_>>() {
            self.end_watch(pg, &object, key, false);
        }
        let Some(group) = self.groups.by_id.get_mut(&pg) else { return };
        let watches = group.watches.by_object.values_mut().flat_map(|watches| watches.values_mut());
        watches.for_each(|watch| watch.notifications.clear());
    }

    /// Repeats the effects on watches of a request that was executed before: that primary may have
    /// been interrupted before the watches were connected, or the client has a new session.
    pub(crate) fn repeat_watches(&mut self, now: Time, key: u64) {
        let Some(request) = self.operations.get(key) else { return };
        let Origin::Client { conn } = request.origin else { return };
        let (pg, object) = (request.pg, HObject::head_of(request.object()));
        let name = request.caller.request.name;
        let watches = request.message.ops.iter().filter(|op| op.code == OpCode::WATCH);
        let watches: Vec<WatchArguments> = watches.map(|op| op.watch_arguments()).collect();
        for WatchArguments { cookie, op, .. } in watches {
            let key = WatcherKey { cookie, name };
            let group = self.groups.by_id.get(&pg);
            let state = group.and_then(|group| group.queues.objects.get(&object)?.state.as_ref());
            let Some(state) = state else { return };
            let info = state.info.watchers.get(&key).copied();
            match (op, info) {
                (watch_op::UNWATCH, None) => self.end_watch(pg, &object, key, false),
                (watch_op::WATCH | watch_op::RECONNECT, Some(info)) => {
                    self.connect_watch(now, pg, &object, key, info, conn, true);
                }
                (watch_op::LEGACY_WATCH, Some(info)) => {
                    self.connect_watch(now, pg, &object, key, info, conn, false);
                }
                _ => {}
            }
        }
    }

    /// This OSD is no longer the primary of a group: clients watch and notify again at another.
    pub(crate) fn discard_watches(&mut self, pg: PgId) {
        let Some(group) = self.groups.by_id.get_mut(&pg) else { return };
        for (object, watches) in std::mem::take(&mut group.watches.by_object) {
            for (key, watch) in watches {
                self.watches.count -= 1;
                if let Some(session) = watch.conn.and_then(|conn| self.clients.get_mut(conn)) {
                    session.disconnect(pg, object.clone(), key);
                }
            }
        }
        self.watches.active.retain(|_, notification| notification.pg != pg);
    }

    /// Ends notifications and watches whose time is up.
    pub(crate) fn tick(&mut self, now: Time) {
        if !self.watches.is_ticking() || now < self.watches.next_tick {
            return;
        }
        self.watches.next_tick = now + limits::TICK;
        let active = &self.watches.active;
        let late = active.iter().filter(|(_, notification)| notification.deadline <= now);
        let late: Vec<u64> = late.map(|(notify_id, _)| *notify_id).collect();
        for notify_id in late {
            self.complete_notification(notify_id, Errno::TIMEDOUT.negative());
        }
        let mut ended = Vec::new();
        for (pg, group) in &mut self.groups.by_id {
            let active = group.pg.is_active();
            let watches = group.watches.by_object.iter_mut().filter(|_| active);
            for (object, watches) in watches {
                for (key, watch) in watches {
                    if watch.deadline.is_some_and(|deadline| deadline <= now) {
                        // Should the removal be lost, it is tried again.
                        watch.deadline = Some(now + watch.timeout);
                        ended.push((*pg, object.clone(), *key));
                    }
                }
            }
        }
        for (pg, object, key) in ended {
            self.remove_watcher(now, pg, object, key);
        }
    }

    /// Ends watches of blocklisted clients immediately: the client that fenced them takes over what
    /// they held.
    pub(crate) fn end_blocklisted_watches(&mut self, now: Time) {
        if self.maps.map().blocklist.is_empty() && self.maps.map().range_blocklist.is_empty() {
            return;
        }
        let pgs: Vec<PgId> = self.groups.by_id.keys().copied().collect();
        pgs.into_iter().for_each(|pg| self.end_blocklisted_watches_of(now, pg));
    }

    /// Likewise for the watches of one group, if it is active.
    pub(crate) fn end_blocklisted_watches_of(&mut self, now: Time, pg: PgId) {
        let Some(group) = self.groups.by_id.get(&pg).filter(|group| group.pg.is_active()) else {
            return;
        };
        let watches = group.watches.by_object.iter().flat_map(|(object, watches)| {
            watches.iter().map(move |(key, watch)| (object.clone(), *key, watch.addr))
        });
        let ended = watches.filter(|(.., addr)| self.maps.map().is_blocklisted(addr));
        let ended: Vec<_> = ended.collect();
        for (object, key, _) in ended {
            self.remove_watcher(now, pg, object, key);
        }
    }

    /// Likewise for an object that was just loaded, before its waiting requests run.
    fn end_blocklisted_watches_first(&mut self, pg: PgId, object: &HObject) {
        let Some(watches) =
            self.groups.by_id.get(&pg).and_then(|group| group.watches.by_object.get(object))
        else {
            return;
        };
        let ended = watches.iter().filter(|(_, watch)| self.maps.map().is_blocklisted(&watch.addr));
        let ended: Vec<WatcherKey> = ended.map(|(key, _)| *key).collect();
        for key in ended {
            let removal = self.removal(pg, object.clone(), key);
            self.operations.assign(removal, pg);
            let request = self.operations.get_mut(removal).expect("it was just made");
            request.nature.may_write = true;
            let group = self.groups.by_id.get_mut(&pg).expect("it was just there");
            if let Some(context) = group.queues.objects.get_mut(object) {
                context.queue.push_front(removal);
            }
        }
    }

    /// Removes a watcher from its object, by a request of our own.
    fn remove_watcher(&mut self, now: Time, pg: PgId, object: HObject, key: WatcherKey) {
        let request = self.removal(pg, object, key);
        self.admit(now, request);
    }

    /// A request that removes a watcher; not admitted yet.
    fn removal(&mut self, pg: PgId, object: HObject, key: WatcherKey) -> u64 {
        let op = WatchArguments {
            cookie: key.cookie,
            op: watch_op::UNWATCH,
            ..WatchArguments::default()
        };
        let request = RequestId { name: key.name, ..RequestId::default() };
        let caller = Caller { request, ..Caller::default() };
        let message = OsdRequest {
            pg: ShardPgId::replicated(PgId { pool: pg.pool, seed: object.hash }),
            map_epoch: self.epoch(),
            flags: 0,
            request_id: request,
            client_incarnation: 0,
            mtime: types::UTime::ZERO,
            object,
            ops: vec![OsdOp::watch(op)],
            snap_context: Default::default(),
            retry_attempt: 0,
            features: 0,
        };
        self.operations.insert(Request::new(Origin::WatchTimeout, message, 0, caller))
    }
}
