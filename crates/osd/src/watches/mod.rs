//! Watches and notifications: their state in memory.
//!
//! The watchers of an object are stored with it. Kept here is the session over which a watch is
//! connected, and when it times out without one. A notification goes to all watchers, collects
//! their acknowledgements, and is complete when all are there or its time is up.

mod notify;
mod timeouts;

use self::notify::Notification;
use crate::execute::{Effect, Execution};
use crate::operations::keys::ObjectKey;
use crate::operations::request::Origin;
use crate::work::Work;
use crate::{Osd, limits};
use engine::{ConnId, Duration, Time};
use pg::{WatcherInfo, WatcherKey};
use std::collections::{BTreeMap, BTreeSet};
use types::features::SUPPORTED;
use types::{EntityAddr, Epoch, HObject, PgId};
use wire::MessageBody;
use wire::op::{OpCode, watch_op};
use wire::osd_op::WatchArguments;
use wire::watch::{WatchEvent, WatchNotify};

/// One watch of an object.
#[derive(Debug)]
pub(crate) struct Watch {
    conn: Option<ConnId>,
    /// The address of its client, which may be blocklisted.
    addr: EntityAddr,
    timeout: Duration,
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
    by_object: BTreeMap<HObject, BTreeMap<WatcherKey, Watch>>,
}

impl Watch {
    /// The session over which it is connected.
    pub fn conn(&self) -> Option<ConnId> {
        self.conn
    }

    pub fn is_connected(&self) -> bool {
        self.conn.is_some()
    }

    /// How long its client may be silent.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }
}

impl GroupWatches {
    /// The watches of one object.
    pub fn of(&self, object: &HObject) -> Option<&BTreeMap<WatcherKey, Watch>> {
        self.by_object.get(object)
    }

    /// Whether an object has a watch.
    pub fn contains(&self, object: &HObject) -> bool {
        self.by_object.contains_key(object)
    }

    /// All watches, by object and watcher.
    pub fn iter(&self) -> impl Iterator<Item = (&HObject, &WatcherKey, &Watch)> {
        let watches = self.by_object.iter();
        watches.flat_map(|(object, watches)| {
            watches.iter().map(move |(key, watch)| (object, key, watch))
        })
    }
}

/// The notifications in progress, and the number of watches.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    last_notification: u64,
    active: BTreeMap<u64, Notification>,
    count: usize,
    next_tick: Time,
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
    fn is_ticking(&self) -> bool {
        self.count > 0 || !self.active.is_empty()
    }

    /// When to look for what has timed out.
    pub fn due(&self) -> Option<Time> {
        self.is_ticking().then_some(self.next_tick)
    }

    /// Forgets the notifications of a session that has ended.
    pub fn forget_notifier(&mut self, conn: ConnId) {
        self.active.retain(|_, notification| notification.notifier != conn);
    }
}

impl Osd {
    /// Performs the effects of an execution on watches and notifications, once it is durable.
    pub(crate) fn perform_effects(&mut self, now: Time, key: u64, execution: &Execution) {
        if execution.effects.is_empty() {
            return;
        }
        let request = self.operations.get(key).expect("the caller has it");
        let (origin, client) = (request.origin, request.caller.request.name);
        let (pg, object) = (request.pg, &HObject::head_of(request.object()));
        for effect in &execution.effects {
            match effect.clone() {
                Effect::Connect { key, info, will_ping } => {
                    if let Origin::Client { conn } = origin {
                        self.connect_watch(now, pg, object, key, info, conn, will_ping);
                        // Its client may have been blocklisted while the write was in flight.
                        if self.maps.map().is_blocklisted(&info.addr) {
                            let watch = Box::new((pg, object.clone(), key));
                            self.work.push(Work::Unwatch(watch));
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
    pub(crate) fn adopt_watchers(&mut self, now: Time, key: ObjectKey) {
        let Some(context) = self.operations.context(key) else { return };
        let pg = context.pg;
        let Some(group) = self.groups.by_id.get(&pg).filter(|group| group.pg.is_primary()) else {
            return;
        };
        let watchers =
            context.state.as_ref().map(|state| state.info.watchers.clone()).unwrap_or_default();
        // Watches kept over a change of the members may have ended meanwhile.
        let kept = group.watches.of(&context.name);
        if watchers.is_empty() && kept.is_none() {
            return;
        }
        let kept = kept.into_iter().flat_map(|watches| watches.keys());
        let ended: Vec<WatcherKey> =
            kept.filter(|key| !watchers.contains_key(key)).copied().collect();
        let object = &context.name.clone();
        for key in ended {
            self.end_watch(pg, object, key, true);
        }
        for (key, info) in watchers {
            self.add_watch(now, pg, object, key, info);
        }
        self.end_blocklisted_watches_first(key);
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
            let context = group.and_then(|group| group.queues.find(&object));
            let context = context.and_then(|context| self.operations.context(context));
            let Some(state) = context.and_then(|context| context.state.as_ref()) else { return };
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
}
