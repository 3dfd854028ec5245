//! The pipeline of operations: they wait in queues, and each becomes a transaction of the control store.
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
//! unreachable, unless that lasts longer than `queue::PATIENCE`. (If its writes were overwritten meanwhile,
//! the operation is applied twice.)
//!
//! An answer that nothing need be changed is sent only if the store confirms that the state is the newest: a
//! former leader may just have committed a change that this monitor has not received yet.
//!
//! [`Pipeline`] decides nothing and sends nothing: it keeps operations, transactions, tokens, and the
//! failures of the store. Tokens grow, so that a completion tells whether its request is older than another
//! one.

mod failures;
mod queue;
mod reading;
mod rejection;
mod reports;
mod sync;
mod went_back;

pub(super) use queue::{Load, PATIENCE};
pub(super) use reading::Leaving;
pub(super) use rejection::Rejection;

use crate::cluster_version::check_served;
use crate::high_water::HighWater;
use crate::job::{Effects, Job, OsdJob};
use crate::keys::{self, VersionGroup};
use crate::live::{Operations, StoreTrouble, StoreTroubles};
use crate::state::{CorruptKey, State};
use control::{CommitError, Entry, Event, Request, Revision, Transaction};
use engine::{ConnId, Time};
use failures::Failures;
use queue::{Jobs, is_overdue};
use reading::Reading;
use std::time::Duration;
use sync::{InFlight, Reload, Sync};
use types::{Epoch, OsdId, ServedVersions};
use went_back::{ClaimedMaps, LoadVerdict, is_older};

/// Pause before the store is read again after a failure; doubles with each failure in a row.
const RELOAD_PAUSE: Duration = Duration::from_millis(500);
const RELOAD_PAUSE_MAX: Duration = Duration::from_secs(5);
/// Time for the change that caused a conflict to be reported; after that the state is loaded.
const BEHIND_MAX: Duration = Duration::from_secs(1);

/// The waiting operations, their transactions, and what is known of the store.
#[derive(Debug)]
pub(super) struct Pipeline {
    jobs: Jobs,
    newest_token: u64,
    sync: Sync,
    /// Consecutive failures of the store.
    failures_in_row: u32,
    in_flight: Option<InFlight>,
    /// A transaction with unknown outcome, kept until the store's content is loaded again.
    doubtful: Option<InFlight>,
    reload: Reload,
    reading: Reading,
    claimed_maps: ClaimedMaps,
    /// The newest state of the store that earlier runs have seen.
    high_water: HighWater,
    served: ServedVersions,
    failures: Failures,
    operations: Operations,
}

/// The outcome of a transaction.
#[derive(Debug)]
pub(super) enum Settled {
    /// No transaction in flight has this token.
    Unknown,
    /// It is durable: to be applied to the state, and its operation to be finished.
    Done { transaction: Transaction, revision: Revision, job: Job, effects: Effects },
    /// The operation is to be rejected.
    Rejected(Job, Rejection),
    /// The operation runs again, or was dropped; the store is to be loaded first if there is a request.
    Continues(Option<Request>),
    /// The outcome is unknown until the store has been loaded.
    Doubtful,
}

impl Pipeline {
    /// Panics if a transaction is in flight or in doubt in a state that does not allow it.
    pub fn check_invariants(&self) {
        self.jobs.check_invariants();
        assert!(
            self.doubtful.is_none() || self.in_flight.is_none() && self.sync != Sync::Current,
            "nothing is decided while a change is in doubt"
        );
        for submitted in self.in_flight.iter().chain(&self.doubtful) {
            assert!(submitted.token <= self.newest_token, "tokens are given out in order");
        }
    }

    /// The newest token that was given out.
    pub fn newest_token(&self) -> u64 {
        self.newest_token
    }

    /// A pipeline that has not read the store yet.
    pub fn new(served: ServedVersions) -> Self {
        Pipeline {
            jobs: Jobs::default(),
            newest_token: 0,
            sync: Sync::Loading,
            failures_in_row: 0,
            in_flight: None,
            doubtful: None,
            reload: Reload::default(),
            reading: Reading::default(),
            claimed_maps: ClaimedMaps::default(),
            high_water: HighWater::default(),
            served,
            failures: Failures::default(),
            operations: Operations::default(),
        }
    }

    /// Sets the high-water mark of earlier runs. Must be called before the first load is answered.
    pub fn set_high_water(&mut self, mark: HighWater) {
        assert!(self.sync == Sync::Loading, "nothing was decided without the mark");
        self.high_water = mark;
    }

    pub fn high_water(&self) -> &HighWater {
        &self.high_water
    }

    /// The failures of the store.
    pub fn troubles(&self) -> &StoreTroubles {
        self.failures.present()
    }

    /// Notes whether the store answers requests for the lease.
    pub fn set_unreachable(&mut self, trouble: Option<StoreTrouble>) {
        self.failures.set_unreachable(trouble);
    }

    /// Whether the store is older than the cluster.
    pub fn went_back(&self) -> bool {
        self.failures.went_back()
    }

    /// The requests of clients; the waiting ones as of [`Pipeline::list_waiting`].
    pub fn operations(&self) -> &Operations {
        &self.operations
    }

    /// Brings the list of waiting requests up to date.
    pub fn list_waiting(&mut self) {
        self.operations.set_waiting(self.jobs.iter().filter_map(Job::summary));
    }

    /// The token of a new request to the store.
    pub fn token(&mut self) -> u64 {
        self.newest_token += 1;
        self.newest_token
    }

    // ---- The queue.

    /// Queues an operation; returns it if there is no room.
    pub fn push(&mut self, job: Job) -> Result<(), Job> {
        self.jobs.push(job)
    }

    /// Merges an operation of OSDs into a waiting one if possible, else queues it; returns it if there is no
    /// room.
    pub fn push_osd(&mut self, job: OsdJob) -> Result<(), Job> {
        self.jobs.push_osd(job)
    }

    /// Queues an operation before all others: it must run again, or first.
    pub fn push_first(&mut self, job: Job) {
        self.jobs.push_first(job);
    }

    /// Takes out the next operation that may run: none while the state is not current, or while another one
    /// waits for its transaction.
    pub fn next(&mut self) -> Option<Job> {
        if self.may_run() { self.jobs.pop() } else { None }
    }

    /// Takes the operations of clients out that have waited for [`PATIENCE`].
    pub fn take_overdue(&mut self, now: Time) -> Vec<(Job, Rejection)> {
        let doubtful = self.doubtful.take_if(|doubtful| is_overdue(now, &doubtful.job));
        let doubtful = doubtful.map(|doubtful| (doubtful.job, Rejection::Doubtful));
        let waiting = self.jobs.take(|job| is_overdue(now, job)).into_iter();
        doubtful.into_iter().chain(waiting.map(|job| (job, Rejection::NotDone))).collect()
    }

    /// Whether an operation that does the same waits, is in flight, or has an unknown outcome.
    pub fn covers(&self, job: &Job) -> bool {
        let mut submitted = self.in_flight.iter().chain(&self.doubtful);
        self.jobs.iter().any(|waiting| waiting.covers(job))
            || submitted.any(|in_flight| in_flight.job.covers(job))
    }

    /// A session's waiting operations.
    pub fn load_of(&self, conn: ConnId) -> Load {
        self.jobs.load(conn)
    }

    /// Notes that an operation is done, for `dump_historic_ops`.
    pub fn note_done(&mut self, now: Time, job: &Job) {
        if let Some(done) = job.summary() {
            self.operations.note_done(now, done);
        }
    }

    // ---- Transactions.

    /// The request that commits an operation's transaction. The operation is in flight from now on.
    pub fn submit(
        &mut self,
        transaction: Transaction,
        known: Revision,
        job: Job,
        effects: Effects,
    ) -> Request {
        assert!(self.in_flight.is_none(), "one transaction is in flight at a time");
        assert!(self.sync == Sync::Current, "operations are decided on the newest state");
        let token = self.token();
        let request = Request::Commit { token, transaction: transaction.clone() };
        self.in_flight = Some(InFlight { token, known, transaction, job, effects });
        request
    }

    /// Handles the outcome of the transaction in flight. `is_deposed`: another monitor may lead.
    pub fn settle(
        &mut self,
        now: Time,
        token: u64,
        outcome: Result<Revision, CommitError>,
        state: &State,
        is_deposed: bool,
    ) -> Settled {
        let Some(in_flight) = self.in_flight.take_if(|in_flight| in_flight.token == token) else {
            return Settled::Unknown;
        };
        match outcome {
            Ok(revision) => {
                let InFlight { transaction, job, effects, .. } = in_flight;
                self.note_written(&transaction);
                Settled::Done { transaction, revision, job, effects }
            }
            Err(CommitError::Conflict) => {
                let InFlight { transaction, job, .. } = in_flight;
                self.push_first(job);
                Settled::Continues(self.conflicted(now, &transaction, state, is_deposed))
            }
            Err(CommitError::Refused { reason }) if in_flight.job.is_answered() => {
                Settled::Rejected(in_flight.job, Rejection::Refused(reason))
            }
            Err(CommitError::Refused { reason }) => {
                // The operations behind it continue.
                self.failures.note_refused_change(now, &in_flight.job, reason);
                Settled::Continues(None)
            }
            Err(CommitError::Failed { reason }) => {
                self.failures.note_commit_failed(now, &reason);
                self.doubtful = Some(in_flight);
                // A load in progress may have been executed before the transaction.
                self.reload = Reload::default();
                self.pause(now);
                Settled::Doubtful
            }
        }
    }

    /// Another monitor committed first: its change is waited for, unless it has been applied already.
    fn conflicted(
        &mut self,
        now: Time,
        transaction: &Transaction,
        state: &State,
        is_deposed: bool,
    ) -> Option<Request> {
        assert!(self.in_flight.is_none(), "a conflict ends the transaction");
        if self.sync != Sync::Current || is_overtaken(transaction, state) {
            return None;
        }
        if is_deposed {
            // The store was unreachable for longer than a lease lasts: much may have changed.
            return Some(self.load(state));
        }
        self.sync = Sync::Behind { until: now + BEHIND_MAX };
        None
    }

    /// Handles a successful write.
    pub fn note_written(&mut self, transaction: &Transaction) {
        self.failures_in_row = 0;
        if !transaction.is_empty() {
            self.failures.note_written();
        }
    }

    /// Notes a failed write, for health.
    pub fn note_refused(&mut self, now: Time, reason: &str) {
        self.failures.note_refused(now, reason);
    }

    /// Whether a small write is to find out if the store takes writes again.
    pub fn needs_probe(&self) -> bool {
        self.failures.is_unwritable() && self.jobs.is_empty() && self.in_flight.is_none()
    }

    // ---- Reading the store.

    /// The request for the whole content of the store.
    pub fn load(&mut self, state: &State) -> Request {
        self.sync = Sync::Loading;
        let token = self.token();
        self.reload = Reload { token, known: state.newest(), committed: Vec::new() };
        Request::Range { token, prefix: String::new() }
    }

    /// The time at which to load the state, if there is one.
    pub fn due(&self) -> Option<Time> {
        self.sync.due()
    }

    /// Decodes the content of the store. `None` for the answer to an older request (the store may have read
    /// before what made the newer one necessary), and if an entry cannot be decoded.
    pub fn loaded(
        &mut self,
        now: Time,
        token: u64,
        entries: &[Entry],
        revision: Revision,
    ) -> Option<State> {
        if token != self.reload.token {
            return None;
        }
        let mut state = match State::load(entries, revision) {
            Ok(state) => state,
            Err(error) => {
                self.pause_unreadable(now, &[error]);
                return None;
            }
        };
        // A monitor can read its own writes.
        state.follow(&std::mem::take(&mut self.reload.committed));
        if let Err(error) = check_served(self.served, &state) {
            self.pause_unreadable(now, &[error]);
            return None;
        }
        self.failures.note_decoded();
        self.note_read();
        self.sync = Sync::Current;
        Some(state)
    }

    /// Compares a loaded state with what was known before, and with the epochs of OSDs; returns a request if
    /// the store is to be read again.
    pub fn check_load(&mut self, token: u64, found: Revision, state: &State) -> Option<Request> {
        assert!(self.sync == Sync::Current, "a load that was decoded is judged");
        // A commit during the read may be missing in its result.
        let (known, seen) = (self.reload.known, self.high_water.epoch(state.monmap.fsid));
        let verdict = match is_older(known, found, seen, &state.osdmap) {
            Some(how) => LoadVerdict::WentBack(how),
            None => self.claimed_maps.check(token, &state.osdmap),
        };
        match verdict {
            LoadVerdict::Fine => None,
            LoadVerdict::WentBack(how) => {
                self.failures.note_went_back(how);
                None
            }
            LoadVerdict::ReadAgain => Some(self.load_for_claim(state)),
        }
    }

    /// Decides the fate of an operation whose commit was not answered, from the loaded entries. Returns it if
    /// it was committed; else it runs again.
    pub fn settle_doubt(&mut self, entries: &[Entry]) -> Option<(Job, Effects)> {
        let doubtful = self.doubtful.take()?;
        assert!(self.in_flight.is_none(), "nothing was decided while a change was in doubt");
        // Another monitor that reserved ids in the same second wrote the same value, and owns the ids.
        let is_done = doubtful.effects.global_ids.is_none() && doubtful.is_written(entries);
        let InFlight { job, effects, .. } = doubtful;
        if is_done {
            return Some((job, effects));
        }
        self.push_first(job);
        None
    }

    /// Whether changes of other monitors are applied: not during a load, which will contain them.
    pub fn takes_changes(&mut self) -> bool {
        if let Sync::Behind { .. } = self.sync {
            self.sync = Sync::Current;
        }
        self.sync != Sync::Loading
    }

    /// Notes the changes of a transaction of this monitor, which is durable.
    pub fn note_own(&mut self, events: &[Event]) {
        if self.sync == Sync::Loading {
            self.reload.committed.extend_from_slice(events);
        }
    }

    /// Pauses reads and writes, so that a store that is full, or has changed its password, is not loaded
    /// twice a second.
    fn pause(&mut self, now: Time) {
        let pause = RELOAD_PAUSE * (1 << self.failures_in_row.min(4));
        self.sync = Sync::Paused { until: now + pause.min(RELOAD_PAUSE_MAX) };
        self.failures_in_row += 1;
    }

    /// Pauses because of an entry that cannot be decoded, perhaps written by a monitor of a newer release.
    /// Its version counts as known, so a decision made without it would be committed, and would overwrite it.
    pub fn pause_unreadable(&mut self, now: Time, errors: &[CorruptKey]) {
        self.pause(now);
        self.failures.note_undecodable(now, errors);
    }

    /// Handles a load that was refused or not answered, or the store's inability to report changes, in which
    /// case the state is loaded at intervals. Either is logged.
    pub fn unread(&mut self, now: Time, reason: String) {
        let subject = if self.sync == Sync::Loading { "load" } else { "watch" };
        self.failures.log_unread(now, subject, &reason);
        self.reading.failed(reason);
    }

    fn note_read(&mut self) {
        if self.reading.yields() {
            tracing::warn!("this monitor asks for a lease again");
        }
        self.reading = Reading::default();
        self.failures.note_read();
    }

    /// Whether the monitor has given up its lease because it cannot read the store.
    pub fn yields(&self) -> bool {
        self.reading.yields()
    }

    /// Watches for failed reads; returns which sessions to close because of them. Called in every tick,
    /// before the lease is renewed. `is_alone`: no other monitor is alive.
    pub fn watch_reading(
        &mut self,
        now: Time,
        holds_lease: bool,
        is_alone: bool,
    ) -> Option<Leaving> {
        match self.sync {
            Sync::Current | Sync::Behind { .. } => self.note_read(),
            Sync::Paused { .. } | Sync::Loading => self.reading.fails(now, holds_lease),
        }
        self.failures.set_unread(self.reading.trouble(now));
        self.reading.leaves(now, is_alone)
    }

    // ---- A store that went back in time.

    /// Handles an OSD's newest epoch at the leader. Returns a request if the store is to be read because of
    /// it.
    pub fn note_claimed_map(
        &mut self,
        now: Time,
        osd: OsdId,
        epoch: Epoch,
        state: &State,
    ) -> Option<Request> {
        if epoch <= state.osdmap.epoch || self.went_back() {
            return None;
        }
        let asks = self.claimed_maps.note(now, &state.osdmap, osd, epoch);
        (asks && self.sync == Sync::Current).then(|| self.load_for_claim(state))
    }

    fn load_for_claim(&mut self, state: &State) -> Request {
        let request = self.load(state);
        self.claimed_maps.asked(self.reload.token);
        request
    }
}

/// Whether the change that caused a conflict has been applied already.
fn is_overtaken(transaction: &Transaction, state: &State) -> bool {
    transaction.compare.iter().any(|(key, compared)| match VersionGroup::from_version_key(key) {
        Some(group) => state.version(group).1 != *compared,
        None => key == keys::LEADER && state.leader_revision() != *compared,
    })
}
