//! What clients asked, when, and what they were told.

use crate::model::{Action, ActorId, Outcome};
use engine::Time;
use types::EVersion;

/// The index of an object that clients work on.
pub type ObjectId = usize;

#[derive(Debug, Clone)]
pub struct Entry {
    pub actor: ActorId,
    pub object: ObjectId,
    pub action: Action,
    pub invoked: Time,
    /// `None`: the client died before it was told, or never was.
    pub completed: Option<Completed>,
}

#[derive(Debug, Clone)]
pub struct Completed {
    pub at: Time,
    pub outcome: Outcome,
    /// Where the write stands in its placement group's log.
    pub version: EVersion,
}

impl Entry {
    pub fn succeeded(&self) -> bool {
        self.completed.as_ref().is_some_and(|completed| completed.outcome.is_ok())
    }
}

/// In the order of invocation.
#[derive(Debug, Default)]
pub struct History {
    entries: Vec<Entry>,
}

impl History {
    pub fn invoke(&mut self, at: Time, actor: ActorId, object: ObjectId, action: Action) -> usize {
        self.entries.push(Entry { actor, object, action, invoked: at, completed: None });
        self.entries.len() - 1
    }

    pub fn complete(&mut self, index: usize, at: Time, outcome: Outcome, version: EVersion) {
        let entry = &mut self.entries[index];
        assert!(entry.completed.is_none(), "a request is answered once");
        entry.completed = Some(Completed { at, outcome, version });
    }

    pub fn entry(&self, index: usize) -> &Entry {
        &self.entries[index]
    }

    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub fn of_object(&self, object: ObjectId) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.object == object)
    }
}
