//! History of requests: invocations and responses with their times.

use crate::model::{Action, ActorId, Outcome};
use engine::Time;
use types::EVersion;
use wire::SnapContext;

/// Index of an object that clients use.
pub type ObjectId = usize;

/// A request of a client.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The client.
    pub actor: ActorId,
    /// The object.
    pub object: ObjectId,
    /// The request itself, with its data.
    pub action: Action,
    /// The snapshot context of a write.
    pub context: SnapContext,
    /// Time at which the client made the request.
    pub invoked: Time,
    /// The request reads a snapshot that was removed meanwhile, so that its response is not checked.
    pub is_blurred: bool,
    /// `None`: the client died before the response, or there never was one.
    pub completed: Option<Completed>,
}

/// The response to a request.
#[derive(Debug, Clone)]
pub struct Completed {
    /// Time at which the client received the response.
    pub at: Time,
    /// Result, and what a read observed.
    pub outcome: Outcome,
    /// The version of the write in its placement group's log.
    pub version: EVersion,
}

impl Entry {
    /// True if the request was answered without an error.
    pub fn succeeded(&self) -> bool {
        self.completed.as_ref().is_some_and(|completed| completed.outcome.is_ok())
    }
}

/// Bytes of data read by clients; more takes long to check, and much memory.
const SEEN_BYTES_MAX: usize = 512 << 20;

/// In the order of invocation.
#[derive(Debug, Default)]
pub struct History {
    entries: Vec<Entry>,
    /// Bytes of data that clients have read.
    seen_bytes: usize,
}

impl History {
    /// Notes a request; returns its index.
    pub fn invoke(
        &mut self,
        at: Time,
        actor: ActorId,
        object: ObjectId,
        action: Action,
        context: SnapContext,
    ) -> usize {
        let (invoked, is_blurred, completed) = (at, false, None);
        let entry = Entry { actor, object, action, context, invoked, is_blurred, completed };
        self.entries.push(entry);
        self.entries.len() - 1
    }

    /// Notes the response to a request.
    pub fn complete(&mut self, index: usize, at: Time, outcome: Outcome, version: EVersion) {
        let entry = &mut self.entries[index];
        assert!(entry.completed.is_none(), "a request is answered once");
        let seen = outcome.as_ref().ok().and_then(|seen| seen.data.as_ref());
        self.seen_bytes += seen.map_or(0, |data| data.len());
        entry.completed = Some(Completed { at, outcome, version });
    }

    /// True once the history is large enough for the checkers.
    pub fn is_full(&self) -> bool {
        self.seen_bytes >= SEEN_BYTES_MAX
    }

    /// Requests without a response.
    pub fn waiting_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.iter_mut().filter(|entry| entry.completed.is_none())
    }

    /// One request.
    pub fn entry(&self, index: usize) -> &Entry {
        &self.entries[index]
    }

    /// All requests.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// All requests to an object.
    pub fn of_object(&self, object: ObjectId) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.object == object)
    }
}
