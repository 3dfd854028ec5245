//! Notifications: from the request of a client to the acknowledgements of all watchers.

use crate::Osd;
use bytes::Bytes;
use engine::{ConnId, Time};
use maps::stable_mod;
use pg::WatcherKey;
use std::collections::{BTreeMap, BTreeSet};
use types::features::SUPPORTED;
use types::{HObject, PgId};
use wire::MessageBody;
use wire::watch::{NotifyResult, WatchEvent, WatchNotify};

/// One notification in progress.
#[derive(Debug)]
pub(super) struct Notification {
    pub(super) pg: PgId,
    pub(super) object: HObject,
    pub(super) notifier: ConnId,
    pub(super) notifier_id: u64,
    pub(super) cookie: u64,
    pub(super) version: u64,
    pub(super) payload: Bytes,
    pub(super) deadline: Time,
    pub(super) waiting: BTreeSet<WatcherKey>,
    pub(super) replies: BTreeMap<(u64, u64), Bytes>,
}

/// A watcher in replies: global id and cookie.
fn reply_key(key: &WatcherKey) -> (u64, u64) {
    (key.name.number as u64, key.cookie)
}

impl Osd {
    pub(super) fn notify(&mut self, now: Time, notify_id: u64, mut notification: Notification) {
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

    pub(super) fn tell_watcher(&mut self, notify_id: u64, cookie: u64, conn: ConnId) {
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

    pub(super) fn acknowledge(
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

    pub(super) fn complete_if_done(&mut self, notify_id: u64) {
        let active = self.watches.active.get(&notify_id);
        if active.is_some_and(|notification| notification.waiting.is_empty()) {
            self.complete_notification(notify_id, 0);
        }
    }

    pub(super) fn complete_notification(&mut self, notify_id: u64, result: i32) {
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
}
