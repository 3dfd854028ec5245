//! Registration of watches, again after every change of target or session; notifications.

use super::{Objecter, Purpose, first_operation};
use crate::effects::Effects;
use crate::locate::{Located, Target};
use crate::watch::Watch;
use crate::{OpId, Operation, Place, WatchEvent, WatchId};
use bytes::Bytes;
use engine::{ConnId, Duration, Time};
use types::Errno;
use wire::op::{request_flags, watch_op};
use wire::watch::{NotifyAck, NotifyRequest, WatchEvent as WireEvent};
use wire::{OsdOp, WatchNotify};

impl Objecter {
    pub fn watch(&mut self, now: Time, place: Place, timeout: Duration, fx: &mut Effects) -> OpId {
        let id = WatchId(fx.next_id().0);
        self.watches.insert(id, Watch::new(place, timeout));
        self.register(now, id, Purpose::Watch(id), fx);
        first_operation(id)
    }

    fn register(&mut self, now: Time, id: WatchId, purpose: Purpose, fx: &mut Effects) {
        let Some(watch) = self.watches.get(&id) else { return };
        let op = match purpose {
            Purpose::Ping(_) => watch_op::PING,
            _ => watch.registration(),
        };
        let operation = Operation::new(watch.place.clone(), vec![watch.op(id, op)]);
        let operation = self.add(now, operation, purpose, fx);
        if let Some(watch) = self.watches.get_mut(&id) {
            watch.operation = Some(operation);
            watch.asked = now;
        }
    }

    /// On another session, a registration or ping is sent as a new registration with a new request id. A
    /// resend would be answered from the placement group's log as a duplicate without connecting the watch to
    /// that session, and a ping would fail.
    pub(super) fn renewed(&mut self, id: OpId, fx: &mut Effects) -> OpId {
        let watch = self.ops.get(&id).filter(|pending| pending.attempts > 0);
        let Some(of) = watch.and_then(|pending| pending.purpose.watch()) else { return id };
        let Some(watch) = self.watches.get_mut(&of) else { return id };
        let mut pending = self.ops.remove(&id).expect("it was just there");
        pending.operation.ops = vec![watch.op(of, watch.registration())];
        pending.attempts = 0;
        if pending.purpose == Purpose::Ping(of) {
            pending.purpose = Purpose::Rewatch(of);
        }
        let renewed = fx.next_id();
        watch.operation = Some(renewed);
        self.ops.insert(renewed, pending);
        let deadline = self.deadlines.iter_mut().find(|(_, at)| *at == id);
        deadline.into_iter().for_each(|(_, at)| *at = renewed);
        renewed
    }

    pub fn watch_confirmed(&self, id: WatchId) -> Option<Time> {
        self.watches.get(&id)?.confirmed
    }

    pub fn unwatch(&mut self, now: Time, id: WatchId, fx: &mut Effects) -> OpId {
        let Some(watch) = self.watches.remove(&id) else {
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

    pub fn acknowledge(
        &mut self,
        now: Time,
        id: WatchId,
        notify_id: u64,
        reply: Bytes,
        fx: &mut Effects,
    ) {
        let Some(watch) = self.watches.get(&id) else { return };
        let ack = NotifyAck { notify_id, cookie: id.0, reply };
        let operation = Operation::new(watch.place.clone(), vec![OsdOp::notify_ack(&ack)]);
        self.add(now, operation, Purpose::Acknowledgement, fx);
    }

    pub fn handle_watch_notify(&mut self, message: WatchNotify, fx: &mut Effects) {
        let watch = WatchId(message.cookie);
        match message.event {
            WireEvent::Notify if self.watches.contains_key(&watch) => {
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
        let watch = self.watches.get(&id);
        match watch.filter(|watch| watch.generation == 0).and_then(|watch| watch.operation) {
            Some(first) => self.fail(first, Errno::NOTCONN, fx),
            None => self.lose_watch(id, Errno::NOTCONN, fx),
        }
    }

    pub(super) fn lose_watch(&mut self, watch: WatchId, error: Errno, fx: &mut Effects) {
        if self.watches.remove(&watch).is_some() {
            fx.watch_events.push_back(WatchEvent::Lost { watch, error });
        }
    }

    pub(super) fn watch_registered(
        &mut self,
        now: Time,
        id: WatchId,
        registered: Option<(Target, ConnId)>,
        result: Result<i32, Errno>,
        fx: &mut Effects,
    ) {
        let Some(watch) = self.watches.get_mut(&id) else { return };
        let was_registered = watch.generation > 0;
        match result {
            Ok(_) => {
                watch.registered = registered;
                watch.generation += 1;
                watch.confirm(now);
            }
            // The error of the first registration is reported by its completion.
            Err(error) if was_registered => self.lose_watch(id, error, fx),
            Err(_) => {
                self.watches.remove(&id);
            }
        }
    }

    pub(super) fn watch_pinged(
        &mut self,
        now: Time,
        id: WatchId,
        result: Result<i32, Errno>,
        fx: &mut Effects,
    ) {
        match (result, self.watches.get_mut(&id)) {
            (Ok(_), Some(watch)) => watch.confirm(now),
            (Err(error), _) => self.lose_watch(id, error, fx),
            (Ok(_), None) => {}
        }
    }

    /// Registers watches whose target or session has changed, and pings the others in time.
    pub fn tend_watches(&mut self, now: Time, fx: &mut Effects) {
        let ids: Vec<WatchId> = self.watches.keys().copied().collect();
        for id in ids {
            if self.watches[&id].operation.is_some() {
                continue;
            }
            if self.is_misplaced(id) {
                self.register(now, id, Purpose::Rewatch(id), fx);
            } else if self.watches[&id].next_ping <= now {
                self.register(now, id, Purpose::Ping(id), fx);
            }
        }
    }

    fn is_misplaced(&mut self, id: WatchId) -> bool {
        let (Some(map), Some(watch)) = (&self.map, self.watches.get(&id)) else { return false };
        let flags = request_flags::WRITE;
        let Located::At(_, target) = self.locator.locate(map, &watch.place, None, flags) else {
            return false;
        };
        let registered = watch.registered.as_ref();
        !registered.is_some_and(|(at, conn)| *at == target && self.sessions.is_open(*conn))
    }
}
