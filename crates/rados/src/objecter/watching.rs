//! Registration of watches, again after every change of target or session; notifications.

use super::Objecter;
use super::pending::{Purpose, first_operation};
use crate::effects::Effects;
use crate::names::{OpId, Place, WatchId};
use crate::operation::Operation;
use crate::watch::WatchEvent;
use bytes::Bytes;
use engine::{Duration, Time};
use types::Errno;
use wire::op::watch_op;
use wire::watch::{NotifyAck, NotifyRequest, WatchEvent as WireEvent};
use wire::{OsdOp, WatchNotify};

impl Objecter {
    /// Returns the operation that completes once the watch is registered.
    pub fn watch(&mut self, now: Time, place: Place, timeout: Duration, fx: &mut Effects) -> OpId {
        let id = WatchId(fx.next_id().0);
        self.watches.insert(id, place, timeout);
        self.register(now, id, Purpose::Watch(id), fx);
        first_operation(id)
    }

    fn register(&mut self, now: Time, id: WatchId, purpose: Purpose, fx: &mut Effects) {
        assert_eq!(purpose.watch(), Some(id), "{purpose:?} is of another watch");
        let Some(watch) = self.watches.get(id) else { return };
        assert!(watch.operation.is_none(), "{id:?} waits for a reply");
        let op = match purpose {
            Purpose::Ping(_) => watch_op::PING,
            _ => watch.registration(),
        };
        let operation = Operation::new(watch.place.clone(), vec![watch.op(id, op)]);
        let operation = self.add(now, operation, purpose, fx);
        self.watches.asked(id, operation, now);
    }

    /// Latest time at which the watch existed for certain.
    pub fn watch_confirmed(&self, id: WatchId) -> Option<Time> {
        self.watches.get(id)?.confirmed
    }

    /// Ends a watch; a registration or ping in flight is dropped.
    pub fn unwatch(&mut self, now: Time, id: WatchId, fx: &mut Effects) -> OpId {
        let Some(watch) = self.watches.remove(id) else {
            let unknown = fx.next_id();
            fx.complete(unknown, Err(Errno::NOENT));
            return unknown;
        };
        if let Some(operation) = watch.operation {
            self.ops.remove(&operation);
        }
        let op = watch.op(id, watch_op::UNWATCH);
        self.add(now, Operation::new(watch.place, vec![op]), Purpose::Submitted, fx)
    }

    /// Sends a notification, whose cookie is the operation's id.
    pub fn notify(
        &mut self,
        now: Time,
        place: Place,
        request: &NotifyRequest,
        fx: &mut Effects,
    ) -> OpId {
        let id = fx.next_id();
        let operation = Operation::new(place, vec![OsdOp::notify(id.0, request)]);
        self.insert(now, id, operation, Purpose::Notify, fx);
        id
    }

    /// Answers a notification; ignored if the watch has ended.
    pub fn acknowledge(
        &mut self,
        now: Time,
        id: WatchId,
        notify_id: u64,
        reply: Bytes,
        fx: &mut Effects,
    ) {
        let Some(watch) = self.watches.get(id) else { return };
        let ack = NotifyAck { notify_id, cookie: id.0, reply };
        let operation = Operation::new(watch.place.clone(), vec![OsdOp::notify_ack(&ack)]);
        self.add(now, operation, Purpose::Acknowledgement, fx);
    }

    /// Handles a message about a watch, or about a notification of this client.
    pub fn handle_watch_notify(&mut self, message: WatchNotify, fx: &mut Effects) {
        let watch = WatchId(message.cookie);
        match message.event {
            WireEvent::Notify if self.watches.contains(watch) => {
                let WatchNotify { notify_id, notifier, payload, .. } = message;
                let event = WatchEvent::Notified { watch, notify_id, notifier, payload };
                fx.watch_events.push_back(event);
            }
            WireEvent::Notify => {}
            WireEvent::NotifyComplete => {
                let id = OpId(message.cookie);
                self.handle_notified(id, message.result, &message.outcome, fx);
            }
            WireEvent::Disconnect => self.disconnected(watch, fx),
        }
    }

    /// A watch may end before its client knows that it has begun: then the registration fails.
    fn disconnected(&mut self, id: WatchId, fx: &mut Effects) {
        let watch = self.watches.get(id);
        match watch.filter(|watch| watch.generation == 0).and_then(|watch| watch.operation) {
            Some(first) => self.fail(first, Errno::NOTCONN, fx),
            None => self.watches.lose(id, Errno::NOTCONN, fx),
        }
    }

    /// Registers watches whose target or session has changed, and pings the others in time.
    pub fn tend_watches(&mut self, now: Time, fx: &mut Effects) {
        for id in self.watches.ids() {
            let Some(watch) = self.watches.get(id) else { continue };
            let (is_resting, is_due) = (watch.operation.is_none(), watch.next_ping <= now);
            if !is_resting {
                continue;
            }
            if self.is_misplaced(id) {
                self.register(now, id, Purpose::Rewatch(id), fx);
            } else if is_due {
                self.register(now, id, Purpose::Ping(id), fx);
            }
        }
    }

    fn is_misplaced(&mut self, id: WatchId) -> bool {
        let Some(map) = &self.map else { return false };
        self.watches.is_misplaced(id, map, &mut self.locator, &self.sessions)
    }
}
