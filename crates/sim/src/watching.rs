//! What watchers and notifiers went through.

use crate::history::ObjectId;
use crate::model::ActorId;
use engine::{Duration, Time};
use rados::WatchId;
use std::collections::BTreeSet;

/// A watch, from when its client was told that it is there.
#[derive(Debug, Clone)]
pub struct Span {
    pub actor: ActorId,
    pub object: ObjectId,
    pub watch: WatchId,
    pub begun: Time,
    /// When it was there for certain: its client asked no earlier, and was told so.
    pub confirmed: Time,
    /// When its client was told that it is no more, ended it, or died.
    pub end: Option<Time>,
    /// The notifications that it heard of.
    pub heard: BTreeSet<usize>,
}

/// A notification; its number is its place in [`Watching::notifications`].
#[derive(Debug, Clone)]
pub struct Notification {
    pub object: ObjectId,
    pub invoked: Time,
    pub completed: Option<Completed>,
}

#[derive(Debug, Clone)]
pub struct Completed {
    pub at: Time,
    /// Who answered, as they called themselves.
    pub answers: BTreeSet<(ActorId, WatchId)>,
    /// The numbers of watches that did not answer in time.
    pub missed: BTreeSet<WatchId>,
}

#[derive(Debug, Default)]
pub struct Watching {
    pub spans: Vec<Span>,
    pub notifications: Vec<Notification>,
    /// Heard by watches of which nobody knew: a client is told of its watch after the watch is there.
    pub early: Vec<(ActorId, WatchId, usize)>,
}

impl Watching {
    pub fn begin(&mut self, now: Time, actor: ActorId, object: ObjectId, watch: WatchId) {
        let of_watch = |(by, at, _): &&(ActorId, WatchId, usize)| *by == actor && *at == watch;
        let heard = self.early.iter().filter(of_watch).map(|(_, _, number)| *number).collect();
        let (begun, confirmed) = (now, now);
        self.spans.push(Span { actor, object, watch, begun, confirmed, end: None, heard });
    }

    /// `age` is how long ago a client asked for the newest thing that the OSD of its watch has confirmed.
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

    pub fn heard(&mut self, actor: ActorId, watch: WatchId, number: usize) {
        let known = self.open(actor).find(|span| span.watch == watch);
        let is_known = known.map(|span| span.heard.insert(number)).is_some();
        if !is_known {
            self.early.push((actor, watch, number));
        }
    }

    pub fn ended(&mut self, now: Time, actor: ActorId, watch: WatchId) {
        let spans = self.open(actor).filter(|span| span.watch == watch);
        spans.for_each(|span| span.end = Some(now));
    }

    /// The client died.
    pub fn died(&mut self, now: Time, actor: ActorId) {
        self.open(actor).for_each(|span| span.end = Some(now));
    }

    /// A watch that a client has on an object.
    pub fn of(&self, actor: ActorId, object: ObjectId) -> Option<WatchId> {
        let mut open = self.spans.iter().filter(|span| span.end.is_none());
        open.find(|span| span.actor == actor && span.object == object).map(|span| span.watch)
    }

    fn open(&mut self, actor: ActorId) -> impl Iterator<Item = &mut Span> {
        self.spans.iter_mut().filter(move |span| span.actor == actor && span.end.is_none())
    }

    pub fn notify(&mut self, now: Time, object: ObjectId) -> usize {
        self.notifications.push(Notification { object, invoked: now, completed: None });
        self.notifications.len() - 1
    }
}
