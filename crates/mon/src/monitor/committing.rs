//! Commits operations to the control store, and applies committed transactions to the state.

use super::pipeline::{Leaving, Rejection, Settled};
use super::{Input, Monitor, Phase, TICK};
use crate::control::{CommitError, Entry, Event, Request, Revision, Transaction};
use crate::job::{Effects, Job};
use crate::keys;
use engine::{ConnId, Output, Time};
use types::{Epoch, OsdId};

impl Monitor {
    fn ask(&mut self, request: Request) {
        self.outputs.push_back(Output::Storage(request));
    }

    /// Requests the whole content of the store.
    pub(super) fn load(&mut self) {
        let request = self.pipeline.load(&self.state);
        self.ask(request);
    }

    /// Replaces the state by the loaded one, and continues. The first load starts the service.
    pub(super) fn loaded(&mut self, now: Time, token: u64, entries: &[Entry], revision: Revision) {
        let Some(state) = self.pipeline.loaded(now, token, entries, revision) else { return };
        self.state = state;
        let waiting = match std::mem::replace(&mut self.phase, Phase::Serving) {
            Phase::Starting { waiting } => {
                self.begin(now);
                waiting
            }
            Phase::Serving => Default::default(),
        };
        self.stats.retain(&self.state.osdmap);
        let again = self.pipeline.judge_load(token, revision, &self.state);
        again.into_iter().for_each(|request| self.ask(request));
        if let Some((job, effects)) = self.pipeline.settle_doubt(entries) {
            self.finish(now, job, effects);
        }
        self.state_changed(now);
        waiting.into_iter().for_each(|input: Input| self.input(now, input));
    }

    fn begin(&mut self, now: Time) {
        self.overview.identity.started = now;
        self.next_tick = Some(now + TICK);
        self.pipeline.push_first(Job::Start);
        self.tend_candidacy(now);
    }

    /// Applies the commits of others, and possibly this monitor's own. The first load will contain them.
    pub(super) fn changed(&mut self, now: Time, events: &[Event]) {
        if matches!(self.phase, Phase::Serving) && self.pipeline.takes_changes() {
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
        if self.pipeline.due().is_some_and(|due| due <= now) {
            self.load();
        }
    }

    /// Runs operations until one waits for its transaction.
    pub(super) fn pump(&mut self, now: Time) {
        self.release_boots(now);
        while let Some(job) = self.pipeline.next() {
            if let Some(conn) = job.client() {
                self.throttle(conn);
            }
            let (change, effects) = self.run(now, &job);
            if change.touches_osdmap() && self.pipeline.went_back() {
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
        let known = self.state.newest();
        let request = self.pipeline.submit(transaction, known, job, effects);
        self.ask(request);
    }

    /// Handles the outcome of the transaction in flight.
    pub(super) fn committed(
        &mut self,
        now: Time,
        token: u64,
        outcome: Result<Revision, CommitError>,
    ) {
        let is_deposed = self.may_be_deposed(now);
        match self.pipeline.settle(now, token, outcome, &self.state, is_deposed) {
            Settled::Done { transaction, revision, job, effects } => {
                self.apply_own(now, transaction, revision);
                self.finish(now, job, effects);
                self.state_changed(now);
            }
            Settled::Rejected(job, reason) => {
                self.reject(job, reason);
                self.pump(now);
            }
            Settled::Continues(request) => {
                request.into_iter().for_each(|request| self.ask(request));
                self.pump(now);
            }
            Settled::Unknown | Settled::Doubtful => {}
        }
    }

    /// Rejects operations of clients that have waited for too long.
    pub(super) fn give_up_waiting(&mut self, now: Time) {
        for (job, reason) in self.pipeline.take_overdue(now) {
            let client = job.client();
            self.reject(job, reason);
            if let Some(conn) = client {
                self.throttle(conn);
            }
        }
    }

    /// Applies a committed transaction of this monitor to the state.
    pub(super) fn apply_own(&mut self, now: Time, transaction: Transaction, revision: Revision) {
        let event = |(key, value)| Event { key, value, revision };
        let events: Vec<Event> = transaction.writes.into_iter().map(event).collect();
        self.pipeline.note_own(&events);
        self.apply(now, &events);
    }

    fn apply(&mut self, now: Time, events: &[Event]) {
        let unreadable = self.state.follow(events);
        self.stats.retain(&self.state.osdmap);
        if !unreadable.is_empty() {
            self.pipeline.pause_unreadable(now, &unreadable);
        }
    }

    /// Performs the effects of an operation whose change is durable.
    fn finish(&mut self, now: Time, job: Job, mut effects: Effects) {
        if let Some(global_ids) = effects.global_ids.take() {
            self.take_global_ids(global_ids);
            self.serve_waiting_handshakes(now);
        }
        self.pipeline.note_done(now, &job);
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

    /// Handles an OSD's newest epoch, which the store may have lost.
    pub(super) fn note_epoch_of_osd(&mut self, now: Time, osd: OsdId, epoch: Epoch) {
        if self.leads()
            && let Some(request) = self.pipeline.note_claimed_map(now, osd, epoch, &self.state)
        {
            self.ask(request);
        }
    }

    /// Watches for failed reads. Called in every tick, before the lease is renewed.
    pub(super) fn watch_reading(&mut self, now: Time) {
        if !matches!(self.phase, Phase::Serving) {
            return;
        }
        let mut present = self.state.members.present.keys();
        let is_alone = present.all(|name| *name == self.settings.mon_name);
        let yielded = self.pipeline.yields();
        let leaving = self.pipeline.watch_reading(now, self.holds_lease(now), is_alone);
        let Some(leaving) = leaving else { return };
        if !yielded {
            self.give_up_lease();
        }
        let accepted = self.sessions.iter().filter(|(conn, session)| {
            let is_daemon = session.osd().is_some() || session.is_monitor();
            conn.is_accepted() && (leaving == Leaving::All || is_daemon)
        });
        let accepted: Vec<ConnId> = accepted.map(|(conn, _)| conn).collect();
        accepted.into_iter().for_each(|conn| self.close(now, conn));
    }
}
