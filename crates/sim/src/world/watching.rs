//! Clients that watch objects and notify each other.

use super::{Body, World};
use crate::network::NodeId;
use crate::process::ClientEvent;
use crate::watching::Completed;
use crate::workload::WatchAction;
use engine::Time;
use rados::WatchEvent;
use wire::watch::NotifyResult;

impl World {
    /// A client watches an object, ends its watch, or notifies its watchers.
    pub(super) fn watch(&mut self, node: NodeId, action: WatchAction) {
        let (at, clock) = (self.agenda.now(), self.clock(node));
        let (WatchAction::Toggle(object) | WatchAction::Notify(object)) = action;
        let target = self.workload.targets[object].clone();
        let Body::Client(client) = &mut self.nodes[node].body else { return };
        if !client.knows_pool(&target.pool) {
            return;
        }
        match (action, self.watching.of(client.actor, object)) {
            (WatchAction::Notify(_), _) => {
                let number = self.watching.notify(at, object);
                client.notify(clock, number, &target.pool, &target.name);
            }
            (WatchAction::Toggle(_), Some(watch)) => {
                self.watching.ended(at, client.actor, watch);
                client.unwatch(clock, watch);
            }
            (WatchAction::Toggle(_), None) => {
                client.watch(clock, object, &target.pool, &target.name);
            }
        }
        self.line(format_args!("client {node} {action:?}"));
        self.touch(node);
    }

    pub(super) fn handle_watch_event(&mut self, node: NodeId, event: ClientEvent) {
        let now = self.agenda.now();
        let Body::Client(client) = &self.nodes[node].body else { return };
        let actor = client.actor;
        self.trace.line(now, format_args!("client {node}: {event:?}"));
        match event {
            ClientEvent::Watching(object, Ok(watch)) => {
                self.watching.begin(now, actor, object, watch)
            }
            ClientEvent::Notified(number, Ok(result)) => self.notified(now, number, &result),
            ClientEvent::Event(WatchEvent::Lost { watch, .. }) => {
                self.watching.ended(now, actor, watch)
            }
            ClientEvent::Event(WatchEvent::Notified { watch, notify_id, payload, .. }) => {
                let number = std::str::from_utf8(&payload).ok().and_then(|text| text.parse().ok());
                self.watching.heard(actor, watch, number.expect("only we notify"));
                let clock = self.clock(node);
                if let Body::Client(client) = &mut self.nodes[node].body {
                    client.acknowledge(clock, watch, notify_id);
                }
            }
            _ => {}
        }
    }

    /// Clocks jump forward only, so a request was made no earlier than its age says.
    pub(super) fn note_confirmed_watches(&mut self, node: NodeId) {
        let (at, clock) = (self.agenda.now(), self.clock(node));
        if let Body::Client(client) = &self.nodes[node].body {
            self.watching.confirm(at, client.actor, |watch| client.watch_age(clock, watch));
        }
    }

    fn notified(&mut self, at: Time, number: usize, result: &NotifyResult) {
        let answer = |reply: &bytes::Bytes| {
            let text = std::str::from_utf8(reply).ok()?;
            let (actor, watch) = text.split_once('.')?;
            Some((actor.parse().ok()?, rados::WatchId(watch.parse().ok()?)))
        };
        let answers = result.replies.values();
        let answers = answers.map(|reply| answer(reply).expect("only we answer")).collect();
        let missed = result.missed.iter().map(|key| rados::WatchId(key.1)).collect();
        self.watching.notifications[number].completed = Some(Completed { at, answers, missed });
    }
}
