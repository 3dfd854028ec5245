//! The way of an operation into the control store, and of what is committed into the state.
//!
//! ```text
//!            conflict            told of it
//! Current --------------> Behind -----------> Current
//!    |                       | not told in time
//!    |  failure              v          Loaded
//!    +---------> Paused ---> Loading ----------> Current
//! ```
//!
//! Operations are decided while the state is current. An operation whose transaction failed was
//! perhaps done: that is found out by loading.
//!
//! An answer that nothing need be changed is given only if the store agrees that the state is the newest:
//! the leader before this one may just have made a change of which this one was not told yet.

use super::job::{Effects, Job};
use super::{Input, Monitor, Phase, TICK};
use crate::control::{CommitError, Entry, Event, Request, Revision, Transaction};
use crate::keys::Service;
use crate::state::State;
use engine::{Output, Time};
use std::time::Duration;

/// Pause before the store is read again after it failed.
const RELOAD_PAUSE: Duration = Duration::from_millis(500);
/// How long the change that a transaction lost against may take to be told.
const BEHIND_MAX: Duration = Duration::from_secs(1);

/// How the state stands to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sync {
    Current,
    /// Another monitor was faster; its change is about to be told.
    Behind {
        until: Time,
    },
    /// The store failed.
    Paused {
        until: Time,
    },
    Loading,
}

impl Sync {
    pub fn due(self) -> Option<Time> {
        match self {
            Sync::Behind { until } | Sync::Paused { until } => Some(until),
            Sync::Current | Sync::Loading => None,
        }
    }
}

/// A transaction under way.
pub(super) struct InFlight {
    pub token: u64,
    pub transaction: Transaction,
    pub job: Job,
    pub effects: Effects,
}

impl Monitor {
    pub(super) fn load(&mut self) {
        self.sync = Sync::Loading;
        let token = self.token();
        self.outputs.push_back(Output::Storage(Request::Range { token, prefix: String::new() }));
    }

    pub(super) fn loaded(&mut self, now: Time, entries: &[Entry], revision: Revision) {
        match State::load(entries, revision) {
            Ok(state) => self.state = state,
            Err(error) => {
                tracing::error!(%error, key = error.key, "the control store is unreadable");
                self.sync = Sync::Paused { until: now + RELOAD_PAUSE };
                return;
            }
        }
        self.sync = Sync::Current;
        let waiting = match std::mem::replace(&mut self.phase, Phase::Serving) {
            Phase::Starting { waiting } => {
                self.begin(now);
                waiting
            }
            Phase::Serving => Default::default(),
        };
        self.stats.retain(&self.state.osdmap);
        self.state_changed(now);
        waiting.into_iter().for_each(|input: Input| self.input(now, input));
    }

    fn begin(&mut self, now: Time) {
        self.overview.started = now;
        self.next_tick = Some(now + TICK);
        self.jobs.push_front(Job::Start);
        self.tend_candidacy(now);
    }

    /// What others committed, and maybe what we did.
    pub(super) fn changed(&mut self, now: Time, events: &[Event]) {
        // Before the first load, that will show them; during another one, it is newer.
        if matches!(self.phase, Phase::Serving) && self.sync != Sync::Loading {
            self.apply(events);
            if let Sync::Behind { .. } = self.sync {
                self.sync = Sync::Current;
            }
            self.state_changed(now);
        }
    }

    /// The state has become another one: everybody is told, and operations go on.
    fn state_changed(&mut self, now: Time) {
        self.follow_leader(now);
        self.publish(now);
        self.release_routed(now);
        self.release_forwarded(now);
        self.pump(now);
    }

    /// What follows from time alone.
    pub(super) fn synchronise(&mut self, now: Time) {
        if self.sync.due().is_some_and(|due| due <= now) {
            self.load();
        }
    }

    /// Runs operations until one has to wait for its transaction.
    pub(super) fn pump(&mut self, now: Time) {
        while self.in_flight.is_none() && self.sync == Sync::Current {
            if !matches!(self.phase, Phase::Serving) {
                return;
            }
            let Some(job) = self.jobs.pop_front() else { return };
            let (change, effects) = self.run(now, &job);
            if change.is_empty() {
                match job.is_answered() {
                    true => self.commit(self.state.unchanged(), job, effects),
                    false => self.finish(now, job, effects),
                }
                continue;
            }
            match change.finish(&self.state) {
                Ok(transaction) => self.commit(transaction, job, effects),
                Err(error) => {
                    tracing::error!(%error, "an operation makes no valid map");
                    self.reject(job, &error.to_string());
                }
            }
        }
    }

    fn commit(&mut self, transaction: Transaction, job: Job, effects: Effects) {
        let token = self.token();
        let request = Request::Commit { token, transaction: transaction.clone() };
        self.outputs.push_back(Output::Storage(request));
        self.in_flight = Some(InFlight { token, transaction, job, effects });
    }

    pub(super) fn committed(
        &mut self,
        now: Time,
        token: u64,
        outcome: Result<Revision, CommitError>,
    ) {
        let Some(in_flight) = self.in_flight.take_if(|in_flight| in_flight.token == token) else {
            return;
        };
        let InFlight { transaction, job, effects, .. } = in_flight;
        match outcome {
            Ok(revision) => {
                self.apply_own(transaction, revision);
                self.finish(now, job, effects);
                self.state_changed(now);
            }
            Err(CommitError::Conflict) => {
                self.jobs.push_front(job);
                if self.sync == Sync::Current && !self.is_overtaken(&transaction) {
                    self.sync = Sync::Behind { until: now + BEHIND_MAX };
                }
                self.pump(now);
            }
            Err(CommitError::Failed { reason }) => {
                tracing::error!(reason, "the control store failed");
                match job {
                    // Nobody asks for it again, and without it this monitor is of no use.
                    Job::Start => self.jobs.push_front(job),
                    job => self.reject(job, &format!("the control store failed: {reason}")),
                }
                self.sync = Sync::Paused { until: now + RELOAD_PAUSE };
            }
        }
    }

    /// Whether the change that a transaction lost against is known by now.
    fn is_overtaken(&self, transaction: &Transaction) -> bool {
        transaction.compare.iter().any(|(key, compared)| {
            let service = Service::from_version_key(key);
            service.is_some_and(|service| self.state.version(service).1 != *compared)
        })
    }

    pub(super) fn apply_own(&mut self, transaction: Transaction, revision: Revision) {
        let event = |(key, value)| Event { key, value, revision };
        let events: Vec<Event> = transaction.writes.into_iter().map(event).collect();
        self.apply(&events);
    }

    fn apply(&mut self, events: &[Event]) {
        for error in self.state.follow(events) {
            tracing::error!(%error, "a key of the control store is unreadable");
        }
        self.stats.retain(&self.state.osdmap);
    }

    /// Does what was to be done once the change is durable.
    fn finish(&mut self, now: Time, job: Job, effects: Effects) {
        if let Some(global_ids) = effects.global_ids {
            self.global_ids = global_ids;
            self.serve_waiting_handshakes(now);
        }
        for (conn, message) in effects.messages {
            self.send(conn, message);
        }
        if effects.again {
            self.jobs.push_front(job);
        }
    }
}
