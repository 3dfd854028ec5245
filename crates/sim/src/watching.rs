//! History of watches and notifications.

use crate::history::ObjectId;
use crate::model::ActorId;
use engine::{Duration, Time};
use rados::WatchId;
use std::collections::BTreeSet;

/// A watch, from the confirmation to its client on.
#[derive(Debug, Clone)]
pub struct Span {
    /// The client.
    pub actor: ActorId,
    /// The object.
    pub object: ObjectId,
    /// Id of the watch.
    pub watch: WatchId,
    /// Time at which the client learned that the watch exists.
    pub begun: Time,
    /// Latest time at which the watch certainly existed: the time of the newest request that was confirmed.
    pub confirmed: Time,
    /// Time at which its client learned of its end, ended it, or died.
    pub end: Option<Time>,
    /// Notifications that it received.
    pub heard: BTreeSet<usize>,
}

/// A notification; its number is its index in [`Watching::notifications`].
#[derive(Debug, Clone)]
pub struct Notification {
    /// The object.
    pub object: ObjectId,
    /// Time at which the notifier sent it.
    pub invoked: Time,
    /// The response to the notifier.
    pub completed: Option<Completed>,
}

/// Result of a notification.
#[derive(Debug, Clone)]
pub struct Completed {
    /// Time at which the notifier learned of it.
    pub at: Time,
    /// Acknowledgements, by the identity that each watcher gave.
    pub answers: BTreeSet<(ActorId, WatchId)>,
    /// Ids of watches that did not acknowledge in time.
    pub missed: BTreeSet<WatchId>,
}

/// All watches and notifications so far.
#[derive(Debug, Default)]
pub struct Watching {
    /// All watches, in the order of confirmation.
    pub spans: Vec<Span>,
    /// All notifications, by number.
    pub notifications: Vec<Notification>,
    /// Notifications received before the watch was confirmed to its client.
    pub early: Vec<(ActorId, WatchId, usize)>,
}

impl Watching {
    /// A watch is confirmed to its client.
    pub fn begin(&mut self, now: Time, actor: ActorId, object: ObjectId, watch: WatchId) {
        let of_watch = |(by, at, _): &&(ActorId, WatchId, usize)| *by == actor && *at == watch;
        let heard = self.early.iter().filter(of_watch).map(|(_, _, number)| *number).collect();
        let (begun, confirmed) = (now, now);
        self.spans.push(Span { actor, object, watch, begun, confirmed, end: None, heard });
    }

    /// `age` is the time since the newest request about the watch that its OSD has confirmed.
    pub fn confirm(
        &mut self,
        now: Time,
        actor: ActorId,
        age: impl Fn(WatchId) -> Option<Duration>,
    ) {
        for span in self.open(actor) {
            if let Some(age) = age(span.watch) {
                span.confirmed = span.confirmed.max(now - age);
            }
        }
    }

    /// A watcher receives a notification.
    pub fn heard(&mut self, actor: ActorId, watch: WatchId, number: usize) {
        let known = self.open(actor).find(|span| span.watch == watch);
        let is_known = known.map(|span| span.heard.insert(number)).is_some();
        if !is_known {
            self.early.push((actor, watch, number));
        }
    }

    /// A watch ends, and its client knows.
    pub fn ended(&mut self, now: Time, actor: ActorId, watch: WatchId) {
        let spans = self.open(actor).filter(|span| span.watch == watch);
        spans.for_each(|span| span.end = Some(now));
    }

    /// The client died.
    pub fn died(&mut self, now: Time, actor: ActorId) {
        self.open(actor).for_each(|span| span.end = Some(now));
    }

    /// The watch of a client on an object.
    pub fn of(&self, actor: ActorId, object: ObjectId) -> Option<WatchId> {
        let mut open = self.spans.iter().filter(|span| span.end.is_none());
        open.find(|span| span.actor == actor && span.object == object).map(|span| span.watch)
    }

    fn open(&mut self, actor: ActorId) -> impl Iterator<Item = &mut Span> {
        self.spans.iter_mut().filter(move |span| span.actor == actor && span.end.is_none())
    }

    /// All watchers of a notification have acknowledged, or were given up.
    pub fn complete(&mut self, number: usize, completed: Completed) {
        self.notifications[number].completed = Some(completed);
    }

    /// A client notifies the watchers of an object; returns the number of the notification.
    pub fn notify(&mut self, now: Time, object: ObjectId) -> usize {
        self.notifications.push(Notification { object, invoked: now, completed: None });
        self.notifications.len() - 1
    }
}
