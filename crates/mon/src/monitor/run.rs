//! Execution of operations: they are decided on the committed state, committed to the control store, and then
//! answered and published.

use super::pipeline::{Rejection, Settled};
use super::{Input, Monitor, Phase, subscriptions};
use crate::change::Change;
use crate::command::{Answer, Context, Refusal};
use crate::commands::admission::{self, Admitted};
use crate::health::{View, health};
use crate::job::{Channel, CommandJob, Effects, Job, OsdJob};
use crate::service::{Role, TICK};
use crate::services::{CHECKS, Core, log_notes, pool_ops, start_run};
use crate::{cluster_version, keys};
use control::{CommitError, Entry, Event, Request, Revision, Transaction};
use engine::{ConnId, Output, Time};
use types::{Epoch, Errno, OsdId};
use wire::MessageBody;

/// The parts of a monitor, besides its services, that commands and health checks read.
macro_rules! core {
    ($monitor:expr) => {
        Core {
            identity: &$monitor.identity,
            running: &$monitor.overrides,
            peers: $monitor.sessions.peers(),
            store: $monitor.pipeline.troubles(),
            operations: $monitor.pipeline.operations(),
        }
    };
}

impl Monitor {
    pub(super) fn ask(&mut self, request: Request) {
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
        self.services.follow(&self.state);
        let again = self.pipeline.check_load(token, revision, &self.state);
        again.into_iter().for_each(|request| self.ask(request));
        if let Some((job, effects)) = self.pipeline.settle_doubt(entries) {
            self.finish(now, job, effects);
        }
        self.state_changed(now);
        waiting.into_iter().for_each(|input: Input| self.input(now, input));
    }

    fn begin(&mut self, now: Time) {
        assert!(self.next_tick.is_none(), "a run begins once");
        self.identity.started = now;
        self.next_tick = Some(now + TICK);
        self.pipeline.push_first(Job::Start);
        self.renew_candidacy(now);
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
        if self.pipeline.drop_reports(now, self.leads()) {
            self.ask_for_reports(self.sessions.of_osds());
        }
        for job in self.services.osd.release_boots(now, &self.state, &self.sessions) {
            self.enqueue_osd_job(job);
        }
        while let Some(job) = self.pipeline.next() {
            if let Some(conn) = job.client() {
                self.throttle(conn);
            }
            let (change, mut effects) = self.run(now, &job);
            for (conn, from) in std::mem::take(&mut effects.informs) {
                self.keep_informed(now, conn, from);
            }
            if change.touches_maps() && self.pipeline.went_back() {
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
        let is_deposed = self.candidacy.may_be_deposed(now);
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
        let mut unreadable = self.state.follow(events);
        unreadable.extend(cluster_version::check_served(self.settings.served, &self.state).err());
        self.services.follow(&self.state);
        if !unreadable.is_empty() {
            self.pipeline.pause_unreadable(now, &unreadable);
        }
    }

    /// Performs the effects of an operation whose change is durable.
    fn finish(&mut self, now: Time, job: Job, mut effects: Effects) {
        if let Some(global_ids) = effects.global_ids.take() {
            self.on_services(now, |services, cx| services.auth.take_global_ids(cx, global_ids));
        }
        self.pipeline.note_done(now, &job);
        let again = effects.again;
        self.perform(now, effects);
        if again {
            self.pipeline.push_first(job);
        }
    }

    /// Sends messages, and updates the image traffic and the orders to workers.
    pub(super) fn perform(&mut self, now: Time, effects: Effects) {
        self.services.osd.note_images(now, effects.image_notes);
        for (conn, message) in effects.messages {
            self.send(conn, message);
        }
        if let Some(note) = effects.order_note {
            let (job, leads) = (effects.deferred.map(|job| *job), self.leads());
            self.on_services(now, |services, cx| services.volumes.note(cx, note, job, leads));
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

    /// Runs an operation on the current state: returns its change, and what follows once that is durable.
    pub(super) fn run(&mut self, now: Time, job: &Job) -> (Change, Effects) {
        let mut change = Change::new(now.wall());
        let effects = match job {
            Job::Start => {
                let (_, mut cx) = self.deciding(now);
                start_run(&mut cx, &mut change)
            }
            Job::Probe => {
                change.put(keys::GLOBAL_ID, self.state.global_id_next.to_string());
                Effects::default()
            }
            Job::Command(command) => return self.run_command(now, command),
            Job::PoolOp { conn, tid, op, .. } => {
                let (_, cx) = self.deciding(now);
                let reply = pool_ops::run(&cx, *conn, op, &mut change);
                Effects::message(*conn, reply.with_tid(*tid))
            }
            Job::Of(job) => {
                let (services, mut cx) = self.deciding(now);
                services.run(&mut cx, job, &mut change)
            }
            // This monitor may have lost the leadership since it queued the operation.
            Job::Plan if !self.owns_timers(now) => Effects::default(),
            Job::Plan => {
                self.plan(now, &mut change);
                Effects::default()
            }
            Job::Notes(notes) => {
                for (severity, text) in notes {
                    change.note(*severity, text.clone());
                }
                Effects::default()
            }
        };
        log_notes(&self.settings, &self.state, &mut change);
        (change, effects)
    }

    fn plan(&mut self, now: Time, change: &mut Change) {
        let (services, cx) = self.deciding(now);
        services.plan(&cx, change);
    }

    /// Answers an operation that is not executed.
    pub(super) fn reject(&mut self, job: Job, reason: Rejection) {
        match job {
            Job::Command(command) => {
                let answer = Answer::from(Refusal::new(reason.errno(), reason.to_string()));
                let message = admission::reply(&command, &self.state, answer);
                self.send(command.conn, message);
            }
            Job::PoolOp { conn, tid, .. } => {
                let message = pool_ops::refusal(&self.state, tid, reason.errno());
                self.send(conn, message);
            }
            job => tracing::warn!(?job, %reason, "an operation was dropped"),
        }
    }

    /// Runs a command: returns its change, and its answer as an effect.
    pub(super) fn run_command(&mut self, now: Time, job: &CommandJob) -> (Change, Effects) {
        let (answer, mut change) = match self.execute(now, job) {
            Ok(done) => done,
            Err(refusal) => (Answer::from(refusal), Change::new(now.wall())),
        };
        let reply = || admission::reply(job, &self.state, answer);
        let mut effects = Effects::of_command(job, change.take_order_note(), reply);
        effects.image_notes = change.take_image_notes();
        for (osd, order) in change.take_orders() {
            // All sessions: a dead one that has not been noticed yet may be the newer one.
            let sessions = self.sessions.of_osd(osd);
            let messages = sessions.map(|(conn, it)| (conn, order.encode(it.peer().features)));
            effects.messages.extend(messages);
        }
        (change, effects)
    }

    fn execute(&mut self, now: Time, job: &CommandJob) -> Result<(Answer, Change), Refusal> {
        let session = self.sessions.get(job.conn);
        let Admitted { command, prefix, arguments, format } =
            admission::admit(session, &self.registries, job)?;
        let caller = admission::caller(session);
        let mut context = Context {
            state: &self.state,
            live: self.services.live(core!(self)),
            commands: self.registries.of(job.channel).descriptions(),
            checks: CHECKS,
            now,
            caller: &caller,
            prefix,
            arguments,
            input: job.input.clone(),
            format,
            entropy: &mut self.entropy,
            placement: &mut self.placement,
            running: &mut self.running,
            links: &mut self.links,
            change: Change::new(now.wall()),
        };
        let answer = (command.handler)(&mut context)?;
        Ok((answer, context.change))
    }

    /// Handles a request: refuses it, answers it at once if it only reads, or queues it.
    pub(super) fn handle_job(&mut self, now: Time, job: Job) {
        match job {
            Job::Command(command) if command.channel == Channel::Tell => {
                self.answer_told(now, &command);
            }
            Job::Command(command) => match self.admit(&command) {
                Err(refusal) => self.refuse(&command, refusal),
                Ok(admitted) if admitted.only_reads() => {
                    let (_, effects) = self.run_command(now, &command);
                    self.perform(now, effects);
                }
                Ok(_) => drop(self.enqueue(Job::Command(command))),
            },
            Job::PoolOp { conn, tid, ref op, .. }
                if !pool_ops::is_allowed(&self.sessions, &self.state, conn, op) =>
            {
                let reply = pool_ops::refusal(&self.state, tid, Errno::PERM);
                self.send(conn, reply);
            }
            job => drop(self.enqueue(job)),
        }
    }

    /// Checks a command against the capabilities of its session.
    pub(super) fn admit(&self, job: &CommandJob) -> Result<Admitted, Refusal> {
        admission::admit(self.sessions.get(job.conn), &self.registries, job)
    }

    /// Runs a command to this monitor alone. It writes nothing, so it waits for no transaction.
    fn answer_told(&mut self, now: Time, command: &CommandJob) {
        assert_eq!(command.channel, Channel::Tell, "others may write");
        self.pipeline.list_waiting();
        let (_, effects) = self.run_command(now, command);
        self.overrides = self.running.overrides().clone();
        self.perform(now, effects);
    }

    pub(super) fn refuse(&mut self, command: &CommandJob, refusal: Refusal) {
        let message = admission::reply(command, &self.state, Answer::from(refusal));
        self.send(command.conn, message);
    }

    /// Appends an operation to its queue, or answers at once that the queue is full. Returns whether it was
    /// queued.
    pub(super) fn enqueue(&mut self, job: Job) -> bool {
        let client = job.client();
        let refused = self.pipeline.push(job).err();
        let is_queued = refused.is_none();
        if let Some(job) = refused {
            self.reject(job, Rejection::Busy);
        }
        if let Some(conn) = client {
            self.throttle(conn);
        }
        is_queued
    }

    /// Queues an operation unless one that does the same waits already.
    pub(super) fn enqueue_once(&mut self, job: Job) {
        if !self.pipeline.covers(&job) {
            self.enqueue(job);
        }
    }

    /// Queues or merges an operation of OSDs.
    pub(super) fn enqueue_osd_job(&mut self, job: OsdJob) {
        if let Err(job) = self.pipeline.push_osd(job) {
            self.reject(job, Rejection::Busy);
        }
    }

    /// Pauses a session with many waiting operations, and resumes it when there are fewer.
    pub(super) fn throttle(&mut self, conn: ConnId) {
        let load = self.pipeline.load_of(conn);
        let forwarded = self.relay.load(conn);
        if self.proxies.is_proxy(conn) {
            // The monitor that owns the session throttles it.
            return;
        }
        let Some(session) = self.sessions.get_mut(conn) else { return };
        // Reports of OSDs must not wait behind requests of their own.
        let is_client = session.osd().is_none() && !session.is_monitor();
        let paused = is_client && (load.pauses(session.paused) || forwarded.pauses(session.paused));
        if paused != session.paused {
            session.paused = paused;
            self.outputs.push_back(Output::Pause { conn, paused });
        }
    }

    /// Sends updates to all subscribers. Services get new secrets before any peer gets a map that shows them
    /// up: clients may connect at once.
    fn publish(&mut self, now: Time) {
        self.on_services(now, |services, cx| services.state_changed(cx));
        let conns: Vec<ConnId> = self.sessions.iter().map(|(conn, _)| conn).collect();
        conns.into_iter().for_each(|conn| self.serve_subscriptions(now, conn));
    }

    /// Sends a session what its subscriptions have not been sent yet.
    pub(super) fn serve_subscriptions(&mut self, now: Time, conn: ConnId) {
        let (services, sessions) = (&mut self.services, &mut self.sessions);
        let messages = subscriptions::due(now, &self.state, services, sessions, conn);
        messages.into_iter().for_each(|message| self.send(conn, message));
    }

    /// Subscribes an OSD to the maps from `from` on, unless it is subscribed already.
    pub(super) fn keep_informed(&mut self, now: Time, conn: ConnId, from: Epoch) {
        // The monitor that owns the session does that itself.
        if self.proxies.is_proxy(conn) {
            return;
        }
        let Some(session) = self.sessions.get_mut(conn) else { return };
        subscriptions::add_osdmap(session, from);
        self.serve_subscriptions(now, conn);
    }

    /// Runs the periodic work of a tick, and queues the operations that are due.
    pub(super) fn tick(&mut self, now: Time) {
        assert!(matches!(self.phase, Phase::Serving), "ticks begin with the first load");
        self.serve_leaderless(now);
        self.give_up_waiting(now);
        self.on_services(now, |services, cx| services.tick(cx, Role::Any));
        if self.pipeline.needs_probe() {
            self.enqueue(Job::Probe);
        }
        if !self.owns_timers(now) {
            return;
        }
        self.on_services(now, |services, cx| services.tick(cx, Role::Owner));
        // A map of a store that went back cannot be changed any more.
        let may_change = !self.pipeline.went_back();
        if may_change {
            self.on_services(now, |services, cx| services.osd.balance_if_due(cx));
        }
        self.watch_health(now);
        if may_change {
            let mut draft = Change::new(now.wall());
            self.plan(now, &mut draft);
            if !draft.is_empty() {
                self.enqueue_once(Job::Plan);
            }
        }
    }

    /// The inputs of health checks.
    pub(super) fn view(&self, now: Time) -> View<'_> {
        View { state: &self.state, live: self.services.live(core!(self)), checks: CHECKS, now }
    }

    fn watch_health(&mut self, now: Time) {
        if !self.services.health.is_due(now) {
            return;
        }
        let health = health(&self.view(now));
        let notes = self.services.health.note(now, &self.state.mutes, &health);
        if !notes.is_empty() {
            self.enqueue(Job::Notes(notes));
        }
    }
}
