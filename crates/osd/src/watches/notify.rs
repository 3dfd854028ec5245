//! Notifications: from the request of a client to the acknowledgements of all watchers.

use super::state::{Notification, Watched, Watches};
use crate::cx::Cx;
use bytes::Bytes;
use engine::ConnId;
use pg::WatcherKey;
use types::features::SUPPORTED;
use types::{HObject, ParticipantName};
use wire::MessageBody;
use wire::watch::{NotifyResult, WatchEvent, WatchNotify};

/// A watcher in replies: global id and cookie.
fn reply_key(key: &WatcherKey) -> (u64, u64) {
    (key.name.number as u64, key.cookie)
}

impl Watches {
    /// Sends a notification to all watchers of its object.
    pub(super) fn notify(
        &mut self,
        cx: &mut Cx<'_>,
        group: &mut Watched<'_>,
        notify_id: u64,
        mut notification: Notification,
    ) {
        assert_eq!(notification.pg, group.pg, "a notification is of the group of its object");
        let now = cx.env.now;
        let mut told = Vec::new();
        let watches = group.watches.by_object.get_mut(&notification.object);
        for (key, watch) in watches.into_iter().flatten() {
            if watch.will_ping && watch.last_ping + watch.timeout < now {
                // Presumably dead: it stays among the watchers until it times out or its client reconnects.
                watch.conn = None;
            }
            watch.notifications.insert(notify_id);
            notification.waiting.insert(*key);
            told.extend(watch.conn.map(|conn| (key.cookie, conn)));
        }
        self.active.insert(notify_id, notification);
        for (cookie, conn) in told {
            self.tell_watcher(cx, notify_id, cookie, conn);
        }
        self.start_ticking(now);
        self.complete_if_done(cx, group, notify_id);
    }

    pub(super) fn tell_watcher(&self, cx: &mut Cx<'_>, notify_id: u64, cookie: u64, conn: ConnId) {
        let Some(notification) = self.active.get(&notify_id) else { return };
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
        cx.out.send(conn, event.encode(SUPPORTED));
    }

    /// Notes the acknowledgement of a client: for all its watches of the object, or for that with this
    /// cookie.
    pub(super) fn acknowledge(
        &mut self,
        cx: &mut Cx<'_>,
        group: &mut Watched<'_>,
        (object, client): (&HObject, ParticipantName),
        (notify_id, cookie): (u64, Option<u64>),
        reply: &Bytes,
    ) {
        for (key, watch) in group.watches.by_object.get_mut(object).into_iter().flatten() {
            let meant = key.name == client && cookie.is_none_or(|cookie| cookie == key.cookie);
            if !meant || !watch.notifications.remove(&notify_id) {
                continue;
            }
            if let Some(notification) = self.active.get_mut(&notify_id) {
                notification.waiting.remove(key);
                notification.replies.insert(reply_key(key), reply.clone());
            }
        }
        self.complete_if_done(cx, group, notify_id);
    }

    /// A watch has ended: its notifications wait for it no more.
    pub(super) fn complete_without(
        &mut self,
        cx: &mut Cx<'_>,
        group: &mut Watched<'_>,
        notify_id: u64,
        key: &WatcherKey,
    ) {
        if let Some(notification) = self.active.get_mut(&notify_id) {
            notification.waiting.remove(key);
        }
        self.complete_if_done(cx, group, notify_id);
    }

    fn complete_if_done(&mut self, cx: &mut Cx<'_>, group: &mut Watched<'_>, notify_id: u64) {
        let active = self.active.get(&notify_id);
        if active.is_some_and(|notification| notification.waiting.is_empty()) {
            self.complete(cx, group, notify_id, 0);
        }
    }

    /// Ends a notification: its client gets the acknowledgements, and the watchers that gave none.
    pub fn complete(
        &mut self,
        cx: &mut Cx<'_>,
        group: &mut Watched<'_>,
        notify_id: u64,
        result: i32,
    ) {
        let Some(notification) = self.active.remove(&notify_id) else { return };
        assert_eq!(notification.pg, group.pg, "a notification is of the group of its object");
        let missed = notification.waiting.iter().map(reply_key).collect();
        for key in &notification.waiting {
            if let Some(watch) = group.watches.get_mut(&notification.object, key) {
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
        cx.out.send(notification.notifier, event.encode(SUPPORTED));
    }
}
