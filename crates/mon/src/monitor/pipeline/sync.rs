//! The relation of the known state to the store, and the transactions that are under way.

use crate::job::{Effects, Job};
use control::{Entry, Event, Revision, Transaction};
use engine::Time;
use std::collections::BTreeMap;

/// The relation of the state to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sync {
    Current,
    /// Another monitor committed first; its change is about to be reported.
    Behind {
        until: Time,
    },
    /// The store failed; the state is loaded after the pause.
    Paused {
        until: Time,
    },
    Loading,
}

impl Sync {
    /// The time at which to load the state.
    pub fn due(self) -> Option<Time> {
        match self {
            Sync::Behind { until } | Sync::Paused { until } => Some(until),
            Sync::Current | Sync::Loading => None,
        }
    }
}

/// A transaction in flight, or one with unknown outcome.
#[derive(Debug)]
pub(super) struct InFlight {
    pub token: u64,
    /// The newest known revision when it was decided.
    pub known: Revision,
    pub transaction: Transaction,
    pub job: Job,
    pub effects: Effects,
}

impl InFlight {
    /// Whether all writes are among the loaded entries, with a revision after the one that was known.
    pub fn is_written(&self, entries: &[Entry]) -> bool {
        let entries: BTreeMap<&str, &Entry> =
            entries.iter().map(|entry| (entry.key.as_str(), entry)).collect();
        self.transaction.writes.iter().all(|(key, value)| {
            let entry = entries.get(key.as_str());
            entry.is_some_and(|entry| entry.revision > self.known) == value.is_some()
                && entry.map(|entry| &entry.value) == value.as_ref()
        }) && !self.transaction.is_empty()
    }
}

/// The newest request for the whole content of the store.
#[derive(Debug, Default)]
pub(super) struct Reload {
    pub token: u64,
    /// The newest revision known when it was sent.
    pub known: Revision,
    /// Own transactions that were committed since; the read may have been executed before them.
    pub committed: Vec<Event>,
}
