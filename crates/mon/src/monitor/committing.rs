//! Commits operations to the control store, and applies committed transactions to the state.
//!
//! ```text
//!            conflict            reported
//! Current --------------> Behind -----------> Current
//!    |                       | not reported in time
//!    |  failure              v          Loaded
//!    +---------> Paused ---> Loading ----------> Current
//! ```
//!
//! Operations are decided while the state is current. If the commit of an operation failed, it may have been
//! applied: loading the state decides that. If all its writes are there, it was applied, and its answer is
//! sent; else the operation is run again on the loaded state. So a client does not notice that the store was
//! unreachable, unless that lasts longer than `pipeline::PATIENCE`. (If its writes were overwritten
//! meanwhile, the operation is applied twice.)
//!
//! An answer that nothing need be changed is sent only if the store confirms that the state is the newest: a
//! former leader may just have committed a change that this monitor has not received yet.

use super::pipeline::{Rejection, is_overdue};
use super::{Input, Monitor, Phase, TICK};
use crate::control::{CommitError, Entry, Event, Request, Revision, Transaction};
use crate::job::{Effects, Job};
use crate::keys::{self, Group};
use crate::live::{RefusedChange, StoreTrouble};
use crate::state::{CorruptKey, State};
use engine::{Output, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Pause before the store is read again after a failure; doubles with each failure in a row.
const RELOAD_PAUSE: Duration = Duration::from_millis(500);
const RELOAD_PAUSE_MAX: Duration = Duration::from_secs(5);
/// Time for the change that caused a conflict to be reported; after that the state is loaded.
const BEHIND_MAX: Duration = Duration::from_secs(1);

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
pub(super) struct InFlight {
    pub token: u64,
    /// The newest known revision when it was decided.
    pub known: Revision,
    pub transaction: Transaction,
    pub job: Job,
    pub effects: Effects,
}

impl Monitor {
    /// Requests the whole content of the store.
    pub(super) fn load(&mut self) {
        self.sync = Sync::Loading;
        self.known_before_load = self.state.newest();
        self.committed_during_load.clear();
        let token = self.pipeline.token();
        self.newest_load = token;
        self.outputs.push_back(Output::Storage(Request::Range { token, prefix: String::new() }));
    }

    /// Replaces the state by the loaded one, and continues. The first load starts the service. The answer to
    /// an older request is ignored: the store may have read before what made the newer one necessary.
    pub(super) fn loaded(&mut self, now: Time, token: u64, entries: &[Entry], revision: Revision) {
        if token != self.newest_load {
            return;
        }
        match State::load(entries, revision) {
            Ok(mut state) => {
                // A monitor can read its own writes.
                state.follow(&std::mem::take(&mut self.committed_during_load));
                self.state = state;
            }
            Err(error) => return self.pause_unreadable(now, &[error]),
        }
        self.overview.store.undecodable = None;
        self.complaints.is_over("unreadable");
        self.note_read();
        self.sync = Sync::Current;
        let waiting = match std::mem::replace(&mut self.phase, Phase::Serving) {
            Phase::Starting { waiting } => {
                self.begin(now);
                waiting
            }
            Phase::Serving => Default::default(),
        };
        self.stats.retain(&self.state.osdmap);
        self.judge_load(token, revision);
        self.settle_doubt(now, entries);
        self.state_changed(now);
        waiting.into_iter().for_each(|input: Input| self.input(now, input));
    }

    /// Decides the fate of an operation whose commit was not answered, from the loaded entries.
    fn settle_doubt(&mut self, now: Time, entries: &[Entry]) {
        let Some(InFlight { transaction, known, job, effects, .. }) = self.doubtful.take() else {
            return;
        };
        // Another monitor that reserved ids in the same second wrote the same value, and owns the ids.
        let is_done = effects.global_ids.is_none() && is_written(&transaction, known, entries);
        match is_done {
            true => self.finish(now, job, effects),
            false => self.pipeline.push_first(job),
        }
    }

    fn begin(&mut self, now: Time) {
        self.overview.identity.started = now;
        self.next_tick = Some(now + TICK);
        self.pipeline.push_first(Job::Start);
        self.tend_candidacy(now);
    }

    /// Applies the commits of others, and possibly this monitor's own.
    pub(super) fn changed(&mut self, now: Time, events: &[Event]) {
        // The first load will contain them; during a later one, the loaded state is newer.
        if matches!(self.phase, Phase::Serving) && self.sync != Sync::Loading {
            if let Sync::Behind { .. } = self.sync {
                self.sync = Sync::Current;
            }
            self.apply(now, events);
            self.state_changed(now);
        }
    }

    /// Handles a new state: subscribers are updated, and waiting operations continue.
    fn state_changed(&mut self, now: Time) {
        self.follow_leader(now);
        self.publish(now);
        self.release_routed(now);
        self.release_forwarded(now);
        self.pump(now);
    }

    /// Loads the state again when a pause or wait is over.
    pub(super) fn synchronise(&mut self, now: Time) {
        if self.sync.due().is_some_and(|due| due <= now) {
            self.load();
        }
    }

    /// Runs operations until one waits for its transaction.
    pub(super) fn pump(&mut self, now: Time) {
        self.release_boots(now);
        while self.in_flight.is_none() && self.sync == Sync::Current {
            if !matches!(self.phase, Phase::Serving) {
                return;
            }
            let Some(job) = self.pipeline.pop() else { return };
            if let Some(conn) = job.client() {
                self.throttle(conn);
            }
            let (change, effects) = self.run(now, &job);
            if change.touches_osdmap() && self.overview.store.went_back.is_some() {
                self.reject(job, Rejection::WentBack);
                continue;
            }
            if change.is_empty() {
                match job.is_answered() {
                    true => self.commit(self.state.unchanged(), job, effects),
                    false => self.finish(now, job, effects),
                }
                continue;
            }
            match change.finish(&self.state) {
                Ok(transaction) if transaction.is_too_large() => {
                    self.reject(job, Rejection::TooLarge);
                }
                Ok(transaction) => self.commit(transaction, job, effects),
                Err(error) => {
                    tracing::error!(%error, "an operation makes no valid map");
                    self.reject(job, Rejection::Invalid(error.to_string()));
                }
            }
        }
    }

    /// Sends a transaction to the store. A leader's decisions follow from reports and timers that only the
    /// leader has, so they are void once another monitor leads. Versions do not show that, as the next leader
    /// may not have written anything yet: the transaction compares the leader, too.
    fn commit(&mut self, mut transaction: Transaction, job: Job, effects: Effects) {
        if self.leads() {
            transaction.compare.push((keys::LEADER.to_owned(), self.state.leader_revision()));
        }
        let (token, known) = (self.pipeline.token(), self.state.newest());
        let request = Request::Commit { token, transaction: transaction.clone() };
        self.outputs.push_back(Output::Storage(request));
        self.in_flight = Some(InFlight { token, known, transaction, job, effects });
    }

    /// Handles the outcome of the transaction in flight.
    pub(super) fn committed(
        &mut self,
        now: Time,
        token: u64,
        outcome: Result<Revision, CommitError>,
    ) {
        let Some(in_flight) = self.in_flight.take_if(|in_flight| in_flight.token == token) else {
            return;
        };
        match outcome {
            Ok(revision) => {
                let InFlight { transaction, job, effects, .. } = in_flight;
                self.note_written(&transaction);
                self.apply_own(now, transaction, revision);
                self.finish(now, job, effects);
                self.state_changed(now);
            }
            Err(CommitError::Conflict) => {
                let InFlight { transaction, job, .. } = in_flight;
                self.pipeline.push_first(job);
                if self.sync == Sync::Current && !self.is_overtaken(&transaction) {
                    match self.may_be_deposed(now) {
                        // The store was unreachable for longer than a lease lasts: much may have changed.
                        true => self.load(),
                        false => self.sync = Sync::Behind { until: now + BEHIND_MAX },
                    }
                }
                self.pump(now);
            }
            Err(CommitError::Refused { reason }) => {
                self.refused(now, in_flight.job, reason);
                self.pump(now);
            }
            Err(CommitError::Failed { reason }) => {
                if self.complaints.is_due(now, "commit", &reason) {
                    tracing::error!(reason, "the control store failed");
                }
                self.note_refused(now, &reason);
                self.doubtful = Some(in_flight);
                self.pause(now);
            }
        }
    }

    /// Pauses reads and writes, so that a store that is full, or has changed its password, is not loaded
    /// twice a second.
    fn pause(&mut self, now: Time) {
        let pause = RELOAD_PAUSE * (1 << self.failures_in_row.min(4));
        self.sync = Sync::Paused { until: now + pause.min(RELOAD_PAUSE_MAX) };
        self.failures_in_row += 1;
    }

    /// Drops a change that the store will never take, so that the operations behind it continue.
    fn refused(&mut self, now: Time, job: Job, reason: String) {
        if job.is_answered() {
            return self.reject(job, Rejection::Refused(reason));
        }
        if self.complaints.is_due(now, "change", &reason) {
            tracing::error!(
                reason,
                ?job,
                "the control store does not take a change; it is dropped"
            );
        }
        self.overview.store.refused_change = Some(RefusedChange { when: now, reason });
    }

    /// Handles a successful write.
    pub(super) fn note_written(&mut self, transaction: &Transaction) {
        self.failures_in_row = 0;
        if !transaction.is_empty() {
            self.overview.store.unwritable = None;
            if self.complaints.is_over("commit") {
                tracing::warn!("the control store takes changes again");
            }
        }
    }

    /// Notes a failed write, for health.
    pub(super) fn note_refused(&mut self, now: Time, reason: &str) {
        let reason = reason.to_owned();
        match &mut self.overview.store.unwritable {
            Some(known) => known.reason = reason,
            none => *none = Some(StoreTrouble { since: now, reason }),
        }
    }

    /// Whether the state is the newest one, as far as reported.
    pub(super) fn is_current(&self) -> bool {
        self.sync == Sync::Current
    }

    /// Rejects operations of clients that have waited for too long.
    pub(super) fn give_up_waiting(&mut self, now: Time) {
        if let Some(doubtful) = self.doubtful.take_if(|doubtful| is_overdue(now, &doubtful.job)) {
            self.reject(doubtful.job, Rejection::Doubtful);
        }
        for job in self.pipeline.take_overdue(now) {
            let client = job.client();
            self.reject(job, Rejection::NotDone);
            if let Some(conn) = client {
                self.throttle(conn);
            }
        }
    }

    /// Whether the change that caused a conflict has been applied already.
    fn is_overtaken(&self, transaction: &Transaction) -> bool {
        transaction.compare.iter().any(|(key, compared)| match Group::from_version_key(key) {
            Some(group) => self.state.version(group).1 != *compared,
            None => key == keys::LEADER && self.state.leader_revision() != *compared,
        })
    }

    /// Applies a committed transaction of this monitor to the state.
    pub(super) fn apply_own(&mut self, now: Time, transaction: Transaction, revision: Revision) {
        let event = |(key, value)| Event { key, value, revision };
        let events: Vec<Event> = transaction.writes.into_iter().map(event).collect();
        if self.sync == Sync::Loading {
            self.committed_during_load.extend_from_slice(&events);
        }
        self.apply(now, &events);
    }

    fn apply(&mut self, now: Time, events: &[Event]) {
        let unreadable = self.state.follow(events);
        self.stats.retain(&self.state.osdmap);
        if !unreadable.is_empty() {
            self.pause_unreadable(now, &unreadable);
        }
    }

    /// Pauses because of an entry that cannot be decoded, perhaps written by a monitor of a newer release.
    /// Its version counts as known, so a decision made without it would be committed, and would overwrite it.
    fn pause_unreadable(&mut self, now: Time, errors: &[CorruptKey]) {
        self.pause(now);
        let reason = errors.iter().map(CorruptKey::to_string).collect::<Vec<_>>().join("; ");
        if self.complaints.is_due(now, "unreadable", &reason) {
            tracing::error!(reason, "the control store is unreadable");
        }
        let since = self.overview.store.undecodable.as_ref().map_or(now, |known| known.since);
        self.overview.store.undecodable = Some(StoreTrouble { since, reason });
    }

    /// Performs the effects of an operation whose change is durable.
    fn finish(&mut self, now: Time, job: Job, mut effects: Effects) {
        if let Some(global_ids) = effects.global_ids.take() {
            self.take_global_ids(global_ids);
            self.serve_waiting_handshakes(now);
        }
        if let Some(done) = job.summary() {
            self.overview.operations.note_done(now, done);
        }
        let again = effects.again;
        self.perform(now, effects);
        if again {
            self.pipeline.push_first(job);
        }
    }

    /// Sends messages, and updates the image traffic.
    pub(super) fn perform(&mut self, now: Time, effects: Effects) {
        for note in effects.image_notes {
            self.stats.images.take_note(now, note);
        }
        for (conn, message) in effects.messages {
            self.send(conn, message);
        }
    }
}

/// Whether all writes of a transaction are among the loaded entries, with a revision after `known`.
fn is_written(transaction: &Transaction, known: Revision, entries: &[Entry]) -> bool {
    let entries: BTreeMap<&str, &Entry> =
        entries.iter().map(|entry| (entry.key.as_str(), entry)).collect();
    transaction.writes.iter().all(|(key, value)| {
        let entry = entries.get(key.as_str());
        entry.is_some_and(|entry| entry.revision > known) == value.is_some()
            && entry.map(|entry| &entry.value) == value.as_ref()
    }) && !transaction.is_empty()
}
