//! Watches and their sessions: how they begin, connect, ping and end.

use super::state::{GroupWatches, Notification, Watch, Watched, Watches};
use crate::cx::Cx;
use crate::execute::{Effect, Execution};
use crate::work::Work;
use engine::{ConnId, Duration, Time};
use maps::stable_mod;
use pg::{WatcherInfo, WatcherKey};
use std::collections::{BTreeMap, BTreeSet};
use types::features::SUPPORTED;
use types::{HObject, ParticipantName};
use wire::MessageBody;
use wire::op::watch_op;
use wire::osd_op::WatchArguments;
use wire::watch::{WatchEvent, WatchNotify};

/// The sender of a request that has effects on watches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sender {
    /// The session of its client; `None` for a request of our own.
    pub conn: Option<ConnId>,
    pub client: ParticipantName,
    /// It removes a watch that has timed out.
    pub ends_watch: bool,
}

impl GroupWatches {
    /// The session of a watch has ended: it times out unless its client reconnects.
    pub fn disconnect(&mut self, now: Time, conn: ConnId, object: &HObject, key: &WatcherKey) {
        let Some(watch) = self.get_mut(object, key) else { return };
        if watch.conn == Some(conn) {
            watch.conn = None;
            watch.deadline.get_or_insert(now + watch.timeout);
        }
    }
}

impl Watches {
    /// Performs the effects of an execution on watches and notifications, once it is durable.
    pub fn perform(
        &mut self,
        cx: &mut Cx<'_>,
        group: &mut Watched<'_>,
        object: &HObject,
        by: Sender,
        execution: &Execution,
    ) {
        let now = cx.env.now;
        for effect in &execution.effects {
            match effect.clone() {
                Effect::Connect { key, info, will_ping } => {
                    let Some(conn) = by.conn else { continue };
                    self.connect(cx, group, object, (key, info), conn, will_ping);
                    // Its client may have been blocklisted while the write was in flight.
                    if cx.map.is_blocklisted(&info.addr) {
                        let watch = Box::new((group.pg, object.clone(), key));
                        cx.work.push(Work::Unwatch(watch));
                    }
                }
                Effect::Disconnect { key, tell_client } => {
                    self.end(cx, group, object, key, tell_client || by.ends_watch);
                }
                Effect::Ping { key } => {
                    if let Some(watch) = group.watches.get_mut(object, &key) {
                        watch.last_ping = now;
                        watch.deadline = Some(now + watch.timeout);
                    }
                }
                Effect::Notify { notify_id, cookie, timeout_seconds, payload } => {
                    let Some(notifier) = by.conn else { continue };
                    let notification = Notification {
                        pg: group.pg,
                        object: object.clone(),
                        notifier,
                        notifier_id: by.client.number as u64,
                        cookie,
                        version: execution.info.user_version,
                        payload,
                        deadline: now + Duration::from_secs(timeout_seconds.into()),
                        waiting: BTreeSet::new(),
                        replies: BTreeMap::new(),
                    };
                    self.notify(cx, group, notify_id, notification);
                }
                Effect::Acknowledge { notify_id, cookie, reply } => {
                    let by = (object, by.client);
                    self.acknowledge(cx, group, by, (notify_id, cookie), &reply);
                }
            }
        }
    }

    fn add(
        &mut self,
        now: Time,
        group: &mut Watched<'_>,
        object: &HObject,
        key: WatcherKey,
        info: WatcherInfo,
    ) {
        let watches = group.watches.by_object.entry(object.clone()).or_default();
        watches.entry(key).or_insert_with(|| {
            self.count += 1;
            Watch::new(now, info)
        });
        self.start_ticking(now);
    }

    /// Registers the stored watches of an object that was just loaded: they wait for their clients to
    /// reconnect. Watches kept over a change of the members may have ended meanwhile.
    pub fn adopt(
        &mut self,
        cx: &mut Cx<'_>,
        group: &mut Watched<'_>,
        object: &HObject,
        stored: &BTreeMap<WatcherKey, WatcherInfo>,
    ) {
        let kept = group.watches.of(object).into_iter().flat_map(|watches| watches.keys());
        let ended = kept.filter(|key| !stored.contains_key(key)).copied();
        for key in ended.collect::<Vec<_>>() {
            self.end(cx, group, object, key, true);
        }
        for (key, info) in stored {
            self.add(cx.env.now, group, object, *key, *info);
        }
    }

    fn connect(
        &mut self,
        cx: &mut Cx<'_>,
        group: &mut Watched<'_>,
        object: &HObject,
        (key, info): (WatcherKey, WatcherInfo),
        conn: ConnId,
        will_ping: bool,
    ) {
        let now = cx.env.now;
        self.add(now, group, object, key, info);
        let Some(session) = cx.clients.get_mut(conn) else { return };
        session.connect(group.pg, object.clone(), key);
        let watch = group.watches.get_mut(object, &key).expect("it was just added");
        if watch.conn == Some(conn) {
            return;
        }
        let old = watch.conn.replace(conn);
        watch.will_ping = will_ping;
        watch.last_ping = now;
        watch.deadline = will_ping.then(|| now + watch.timeout);
        let missed: Vec<u64> = watch.notifications.iter().copied().collect();
        if let Some(session) = old.and_then(|old| cx.clients.get_mut(old)) {
            session.disconnect(group.pg, object.clone(), key);
        }
        missed.into_iter().for_each(|notify_id| self.tell_watcher(cx, notify_id, key.cookie, conn));
    }

    fn end(
        &mut self,
        cx: &mut Cx<'_>,
        group: &mut Watched<'_>,
        object: &HObject,
        key: WatcherKey,
        tell_client: bool,
    ) {
        let Some(watches) = group.watches.by_object.get_mut(object) else { return };
        let Some(watch) = watches.remove(&key) else { return };
        if watches.is_empty() {
            group.watches.by_object.remove(object);
        }
        self.count -= 1;
        if let Some(conn) = watch.conn {
            if let Some(session) = cx.clients.get_mut(conn) {
                session.disconnect(group.pg, object.clone(), key);
            }
            if tell_client {
                let event = WatchEvent::Disconnect;
                let end = WatchNotify { event, cookie: key.cookie, ..WatchNotify::default() };
                cx.out.send(conn, end.encode(SUPPORTED));
            }
        }
        for notify_id in watch.notifications {
            self.complete_without(cx, group, notify_id, &key);
        }
    }

    /// Repeats the effect on a watch of an operation that was executed before: that primary may have been
    /// interrupted before the watch was connected, or the client has a new session. `stored` is the
    /// watch as its object has it now.
    pub fn repeat(
        &mut self,
        cx: &mut Cx<'_>,
        group: &mut Watched<'_>,
        object: &HObject,
        (key, stored): (WatcherKey, Option<WatcherInfo>),
        conn: ConnId,
        asked: &WatchArguments,
    ) {
        match (asked.op, stored) {
            (watch_op::UNWATCH, None) => self.end(cx, group, object, key, false),
            (watch_op::WATCH | watch_op::RECONNECT, Some(info)) => {
                self.connect(cx, group, object, (key, info), conn, true);
            }
            (watch_op::LEGACY_WATCH, Some(info)) => {
                self.connect(cx, group, object, (key, info), conn, false);
            }
            _ => {}
        }
    }

    /// This OSD is no longer the primary of a group: clients watch and notify again at another.
    pub fn discard(&mut self, cx: &mut Cx<'_>, group: &mut Watched<'_>) {
        for (object, watches) in std::mem::take(&mut group.watches.by_object) {
            for (key, watch) in watches {
                self.count -= 1;
                if let Some(session) = watch.conn.and_then(|conn| cx.clients.get_mut(conn)) {
                    session.disconnect(group.pg, object.clone(), key);
                }
            }
        }
        self.active.retain(|_, notification| notification.pg != group.pg);
    }

    /// The members of a group change, and this OSD stays its primary: clients resend notifications
    /// and reconnect watches, but may ping before.
    pub fn discard_notifications(&mut self, cx: &mut Cx<'_>, group: &mut Watched<'_>) {
        let pg = group.pg;
        // Before watches end, or a notification that was sent to no watcher would count as complete.
        self.active.retain(|_, notification| notification.pg != pg);
        let pg_num = cx.map.pool(pg.pg.pool).map_or(0, |pool| pool.pg_num);
        // After a split, the object may belong to another group.
        let is_here =
            |object: &HObject| pg_num > 0 && stable_mod(object.hash, pg_num) == pg.pg.seed;
        let elsewhere = group.watches.iter().filter(|(object, ..)| !is_here(object));
        let elsewhere = elsewhere.map(|(object, key, _)| (object.clone(), *key));
        for (object, key) in elsewhere.collect::<Vec<_>>() {
            self.end(cx, group, &object, key, false);
        }
        let watches = group.watches.by_object.values_mut().flat_map(|watches| watches.values_mut());
        watches.for_each(|watch| watch.notifications.clear());
    }
}
