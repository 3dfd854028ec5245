//! Clients that watch objects and notify each other.

use super::{Body, World};
use crate::network::NodeId;
use crate::process::Told;
use crate::watching::Completed;
use crate::workload::WatchAction;
use engine::Time;
use rados::WatchEvent;
use wire::watch::NotifyResult;

impl World {
    /// A client watches an object, stops doing so, or notifies whoever watches it.
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

    pub(super) fn told_of_watch(&mut self, node: NodeId, told: Told) {
        let now = self.agenda.now();
        let Body::Client(client) = &self.nodes[node].body else { return };
        let actor = client.actor;
        self.trace.line(now, format_args!("client {node}: {told:?}"));
        match told {
            Told::Watching(object, Ok(watch)) => self.watching.begin(now, actor, object, watch),
            Told::Notified(number, Ok(result)) => self.notified(now, number, &result),
            Told::Event(WatchEvent::Lost { watch, .. }) => self.watching.ended(now, actor, watch),
            Told::Event(WatchEvent::Notified { watch, notify_id, payload, .. }) => {
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

    /// Clocks jump forward only, so that what a client asked for was asked for no earlier than it seems.
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
