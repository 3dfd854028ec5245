//! The state of the daemon, and the dispatch of its inputs.

mod dispatch;
mod routing;

use crate::commands::Commands;
use crate::config::Config;
use crate::cx::cx;
use crate::env::{Env, Options, Stage};
use crate::groups::Groups;
use crate::heartbeats::Heartbeats;
use crate::inbox::waiting_for_map::Early;
use crate::inbox::{Inbox, Input};
use crate::leases::{self, Leases};
use crate::limits;
use crate::maps::Maps;
use crate::operations::Operations;
use crate::operations::request::Origin;
use crate::outbox::Outbox;
use crate::recovery::Recovery;
use crate::report::Report;
use crate::report::usage::DiskUsage;
use crate::scrub::Scrubs;
use crate::sessions::authentication::Authentication;
use crate::sessions::clients::{Clients, Session};
use crate::sessions::monitor::MonitorLink;
use crate::sessions::peers::Peers;
use crate::tokens::Token;
use crate::trim::Trims;
use crate::watches::Watches;
use crate::work::{Work, WorkQueue};
use engine::{
    AuthRequest, ConnId, ConnectingAnswer, ConnectingStep, Daemon, Message, Output, Peer, Time,
};
use maps::OsdMap;
use std::collections::BTreeMap;
use store::{Completion, RequestKind};
use types::{Epoch, OsdId, PgId};
use wire::forward::ReportAgain;
use wire::internal::{Heartbeat, RotatingSecrets as RotatingSecretsMessage, ScrubOrder, StatsAck};
use wire::{AuthReply, Command, MessageBody, OsdMapMessage, OsdReply, OsdRequest, Ping};

/// The OSD daemon. Its host drives it through [`Daemon`]; inputs are handled one at a time, and
/// outputs polled until there are none.
#[derive(Debug)]
pub struct Osd {
    pub(crate) env: Env,
    pub(crate) outbox: Outbox,
    pub(crate) work: WorkQueue,
    pub(crate) maps: Maps,
    pub(crate) inbox: Inbox,
    pub(crate) clients: Clients,
    pub(crate) peers: Peers,
    pub(crate) monitor: MonitorLink,
    pub(crate) authentication: Authentication,
    pub(crate) heartbeats: Heartbeats,
    pub(crate) groups: Groups,
    pub(crate) operations: Operations,
    pub(crate) watches: Watches,
    pub(crate) leases: Leases,
    pub(crate) recovery: Recovery,
    pub(crate) scrub: Scrubs,
    pub(crate) trim: Trims,
    pub(crate) usage: DiskUsage,
    pub(crate) report: Report,
    pub(crate) commands: Commands,
}

impl Osd {
    /// Sets the facts that `ceph osd metadata` shows of this OSD's machine.
    pub fn describe_host(&mut self, facts: BTreeMap<String, String>) {
        self.env.host_facts = facts;
    }

    /// An OSD that has asked its store for its collections. `seed` must come from the system's
    /// random source, except in simulations and tests.
    pub fn new(config: Config, seed: [u8; 32]) -> Self {
        let mut osd = Osd {
            outbox: Outbox::default(),
            work: WorkQueue::default(),
            maps: Maps::new(config.fsid),
            inbox: Inbox::default(),
            clients: Clients::default(),
            peers: Peers::default(),
            monitor: MonitorLink::default(),
            authentication: Authentication::new(&config, seed),
            heartbeats: Heartbeats::default(),
            groups: Groups::default(),
            operations: Operations::default(),
            watches: Watches::default(),
            leases: Leases::default(),
            recovery: Recovery::default(),
            scrub: Scrubs::default(),
            trim: Trims::default(),
            usage: DiskUsage::default(),
            report: Report::default(),
            commands: Commands::default(),
            env: Env::new(config),
        };
        osd.outbox.ask(Token::Collections, RequestKind::Collections);
        osd
    }

    pub fn id(&self) -> OsdId {
        self.env.config.id
    }

    /// The newest map that the OSD has applied.
    pub fn map(&self) -> &OsdMap {
        self.maps.map()
    }

    /// Whether the OSD serves requests: a map that it has applied says that it is up.
    pub fn is_up(&self) -> bool {
        self.env.stage == Stage::Up
    }

    /// The options in effect.
    pub fn options(&self) -> &Options {
        &self.env.options
    }

    /// The copies of groups on this OSD, ascending by id.
    pub fn groups(&self) -> impl Iterator<Item = &pg::Pg> {
        self.groups.by_id.values().map(|group| &group.pg)
    }

    /// Panics if the state contradicts itself. Call it between inputs.
    pub fn check_invariants(&self) {
        assert!(self.work.is_empty(), "an input ends when no work is left");
        self.groups.by_id.values().for_each(|group| group.pg.check_invariants());
        self.operations.check_invariants(self.groups.by_id.values().map(|group| &group.queues));
        let is_due = self.groups.by_id.values().any(|group| group.pg.is_store_due());
        assert!(self.maps.is_telling() || !is_due, "intervals are stored");
        self.operations.check_memory(&self.env.config.sizes.budgets);
        self.check_throttle();
    }

    /// Panics unless sessions are charged for the requests in progress, and for those that are held.
    fn check_throttle(&self) {
        let requests = self.operations.checked().map(|(_, request)| request);
        let of_clients = requests.filter(|request| request.is_of_client());
        let in_work = of_clients.map(|request| request.bytes).chain(self.inbox.charged());
        let charged = in_work.fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes));
        assert_eq!(charged, self.clients.in_flight());
    }

    /// Continues the requests for which there is memory now.
    fn grant_memory(&mut self) {
        while let Some(key) = self.operations.grant_memory(&self.env.config.sizes.budgets) {
            match self.operations.get(key).is_some_and(|request| request.nature.is_pg_op) {
                true => self.list(key),
                false => self.work.push(Work::Continue(key)),
            }
            self.settle();
        }
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.maps.map().epoch
    }

    /// Queues a message for a session.
    pub(crate) fn send(&mut self, conn: ConnId, message: Message) {
        self.outbox.send(conn, message);
    }

    /// Work that inputs only note, done once at the end of each input.
    pub(crate) fn finish_input(&mut self, now: Time) {
        if self.env.stage == Stage::Failed || self.maps.is_telling() {
            return;
        }
        self.grant_memory();
        if !self.recovery.scheduler.is_idle() {
            self.schedule_recovery(now);
        }
        if !self.groups.asking.is_empty() {
            self.ask_monitor(now);
        }
    }

    /// Ends a session on which a message could not be decoded. If the peer is an OSD, messages may
    /// be lost: as when a session breaks, the members begin a new interval.
    pub(crate) fn end_session(&mut self, now: Time, conn: ConnId, error: &codec::DecodeError) {
        tracing::warn!(?conn, %error, "a message does not decode; its session ends");
        self.outbox.push(Output::Close { conn });
        if self.monitor.is(conn) {
            return self.monitor.closed(&self.env);
        }
        self.forget_session(now, conn);
        self.peer_closed(conn);
    }

    fn dispatch(&mut self, now: Time, conn: ConnId, message: Message) -> codec::Result<()> {
        if self.env.stage == Stage::Failed {
            return self.dispatch_failed(conn, &message);
        }
        match message.kind {
            OsdRequest::KIND => self.take_request(now, conn, &message)?,
            OsdReply::KIND => self.take_reply(conn, &message)?,
            leases::ASK | leases::PROMISE => {
                if let Some(from) = self.peers.at(&self.clients, conn) {
                    self.take_lease_message(now, from, &message)?;
                }
            }
            kind if pg::message::is_pg_message(kind) => {
                self.take_group_message(now, conn, message)?
            }
            kind if pg::scrub::message::is_scrub_message(kind) => {
                if let Some(from) = self.peers.at(&self.clients, conn) {
                    self.take_scrub_message(from, &message);
                }
            }
            ScrubOrder::KIND if self.monitor.is(conn) => {
                self.take_scrub_order(now, &ScrubOrder::decode(&message)?);
            }
            Command::KIND => {
                let tid = message.tid;
                self.take_command(conn, tid, &Command::decode(&message)?);
            }
            OsdMapMessage::KIND if self.monitor.is(conn) => {
                self.take_maps(now, OsdMapMessage::decode(&message)?);
            }
            RotatingSecretsMessage::KIND if self.monitor.is(conn) => {
                self.take_secrets(&RotatingSecretsMessage::decode(&message)?);
            }
            wire::Config::KIND if self.monitor.is(conn) => {
                self.env.handle_config(&wire::Config::decode(&message)?);
            }
            Heartbeat::KIND => {
                let heartbeat = Heartbeat::decode(&message)?;
                self.heartbeats.handle(cx!(self), &self.monitor, conn, &heartbeat);
            }
            AuthReply::KIND if self.monitor.is(conn) => {
                self.take_sealed_secrets(&AuthReply::decode(&message)?.payload);
            }
            ReportAgain::KIND if self.monitor.is(conn) => self.report_again(now),
            StatsAck::KIND if self.monitor.is(conn) => {
                self.report.handle_ack(now, &StatsAck::decode(&message)?);
            }
            StatsAck::KIND | Ping::KIND | wire::LogAck::KIND => {}
            kind => tracing::debug!(kind, "a message of this kind is not for an OSD"),
        }
        Ok(())
    }
}

/// Handlers of inputs, called when no input is held before them (`Osd::hold`).
impl Osd {
    pub(crate) fn take_opened(&mut self, now: Time, conn: ConnId, peer: Peer) {
        if self.monitor.is(conn) {
            self.monitor.opened(cx!(self));
            self.report_again(now);
        } else if conn.is_accepted() {
            self.clients.insert(conn, Session::new(peer));
            cx!(self).throttle(conn);
        } else if let Some(osd) = self.peers.of(conn) {
            self.clients.insert(conn, Session::to_osd(peer, osd));
        }
    }

    pub(crate) fn take_message(&mut self, now: Time, conn: ConnId, message: Message) {
        let outcome = self.dispatch(now, conn, message);
        self.settle();
        if let Err(error) = outcome {
            self.end_session(now, conn, &error);
        }
    }

    pub(crate) fn take_closed(&mut self, now: Time, conn: ConnId) {
        self.authentication.closed(conn);
        if self.monitor.is(conn) {
            self.monitor.closed(&self.env);
        } else if conn.is_accepted() || !self.heartbeats.closed(cx!(self), conn) {
            self.forget_session(now, conn);
            self.peer_closed(conn);
        }
    }

    pub(crate) fn take_completion(&mut self, now: Time, completion: Completion) {
        self.complete(now, completion);
        self.settle();
    }
}

/// Performance of the work that inputs and timers make possible.
impl Osd {
    /// Performs work until none is left. Inputs and timers call it between their parts; work never does.
    pub(crate) fn settle(&mut self) {
        self.work.begin();
        while let Some(work) = self.work.pop() {
            self.perform(work);
        }
        self.work.end();
        for answered in self.operations.take_answered() {
            self.report.note_answered(self.env.now, answered, &self.env.options);
        }
    }

    /// Performs the outputs of a group, and all that they make possible.
    pub(crate) fn settle_group(&mut self, pg: PgId) {
        self.work.push(Work::Group(pg));
        self.settle();
    }

    fn perform(&mut self, work: Work) {
        let now = self.env.now;
        match work {
            Work::Group(pg) => self.drain_group(now, pg),
            Work::Object(object) => self.advance(now, object),
            Work::Continue(key) => self.resume(now, key),
            Work::Readers(object, origin) => self.resume_readers(now, object, origin),
            Work::Admit(key) => self.admit(now, key),
            Work::Piece(copy, reply) => self.copy_replied(copy, *reply),
            Work::Trimmed(pg, succeeded) => self.trim_ended(pg, succeeded),
            Work::GivenUp(command, result) => self.lost_ended(command, result),
            Work::Unwatch(watch) => {
                let (pg, object, key) = *watch;
                self.remove_watcher(now, pg, object, key);
            }
            Work::Wake(pg, left) => self.wake(now, pg, left),
            Work::GrantBackfill => self.grant_reservation(),
            Work::StoreMap => self.store_reshaped_map(),
        }
    }
}

/// Inputs that are held while groups handle a map, or until their map has come.
impl Osd {
    /// Whether work is left for the next turn that must precede further inputs; the host should
    /// call at once.
    pub(crate) fn is_behind(&self) -> bool {
        let is_empty = !self.maps.distribution.has_waiting() && !self.inbox.holds_any();
        self.maps.is_telling() || self.inbox.has_ready() || !is_empty
    }

    /// Registers an accepted session immediately: if groups of this OSD send to that peer
    /// meanwhile, they must use it, because a session of ours beside it would end it.
    pub(crate) fn hold_opened(&mut self, now: Time, conn: ConnId, peer: Peer) {
        match conn.is_accepted() {
            true => self.take_opened(now, conn, peer),
            false => self.hold(now, Input::Opened(conn, peer)),
        }
    }

    /// Handles a message, or holds it while work remains for the groups.
    pub(crate) fn hold_message_input(&mut self, now: Time, conn: ConnId, message: Message) {
        if !self.is_behind() || self.is_urgent(conn, message.kind) {
            self.take_message(now, conn, message);
            return self.finish_input(now);
        }
        if message.kind == OsdMapMessage::KIND && self.monitor.is(conn) {
            return self.hold_maps(now, conn, &message);
        }
        // Held messages, too, count for the throttle of their session.
        if pg::message::is_pg_message(message.kind) {
            if self.peers.of(conn).is_none() {
                let epoch = pg::message::sender_epoch(&message).ok();
                self.peers.note_offered(&mut self.clients, conn, epoch);
            }
            // Messages of a session that has ended are dropped later, and are not counted.
            if self.clients.contains(conn) {
                self.charge_group_message(conn, message.len());
                return self.hold(now, Input::Group(conn, message));
            }
        }
        if message.kind == OsdRequest::KIND && self.clients.contains(conn) {
            cx!(self).charge(conn, message.len());
            return self.hold(now, Input::Request(conn, message));
        }
        self.hold(now, Input::Message(conn, message));
    }

    /// Maps precede all other held inputs, as these seldom depend on an older map.
    fn hold_maps(&mut self, now: Time, conn: ConnId, message: &Message) {
        match OsdMapMessage::decode(message) {
            Ok(maps) => self.maps.distribution.push_maps(maps, message.len()),
            Err(error) => self.end_session(now, conn, &error),
        }
        while self.holds_too_much() {
            self.place_turn(now);
        }
    }

    /// Whether a message must not be held, as it changes no state of groups and others depend on it:
    /// a heartbeat, or the secrets without which this OSD refuses sessions.
    fn is_urgent(&self, conn: ConnId, kind: u16) -> bool {
        let has_secrets = [RotatingSecretsMessage::KIND, AuthReply::KIND].contains(&kind);
        kind == Heartbeat::KIND || has_secrets && self.monitor.is(conn)
    }

    fn holds_too_much(&self) -> bool {
        let (maps, map_bytes) = self.maps.distribution.waiting();
        let (inputs, bytes) = self.inbox.held();
        bytes + map_bytes > limits::HELD_BYTES_MAX || inputs + maps > limits::HELD_INPUTS_MAX
    }

    fn hold(&mut self, now: Time, input: Input) {
        if !self.is_behind() {
            self.take_input(now, input);
            return self.finish_input(now);
        }
        self.inbox.push(input);
        while self.holds_too_much() {
            self.place_turn(now);
        }
    }

    /// Handles a bounded number of held inputs.
    pub(crate) fn take_held(&mut self, now: Time) {
        for _ in 0..limits::HELD_INPUTS_PER_TURN {
            if self.maps.is_telling()
                || self.inbox.has_ready()
                || self.maps.distribution.has_waiting()
            {
                return;
            }
            let Some(input) = self.inbox.pop() else { return };
            self.take_input(now, input);
        }
    }

    fn take_input(&mut self, now: Time, input: Input) {
        match input {
            Input::Opened(conn, peer) => self.take_opened(now, conn, peer),
            Input::Message(conn, message) => self.take_message(now, conn, message),
            Input::Request(conn, message) => {
                self.clients.uncharge(conn, message.len());
                self.take_message(now, conn, message);
                cx!(self).throttle(conn);
            }
            Input::Group(conn, message) => {
                self.inbox.early.uncharge(conn, message.len());
                self.take_message(now, conn, message);
                self.resume_member(conn);
            }
            Input::Closed(conn) => self.take_closed(now, conn),
            Input::Completion(completion) => self.take_completion(now, completion),
        }
    }

    /// The epoch to wait for, if an input of this epoch cannot be handled yet.
    fn awaited(&self, epoch: Epoch) -> Option<Epoch> {
        let is_early = epoch > self.epoch() || !self.is_up();
        is_early.then(|| epoch.max(self.epoch().next()))
    }

    /// Makes a request wait if its epoch is not known yet; true if it waits.
    pub(crate) fn await_map(&mut self, epoch: Epoch, key: u64) -> bool {
        let awaited = self.awaited(epoch);
        if let Some(awaited) = awaited {
            self.inbox.early.push_request(awaited, key);
        }
        awaited.is_some()
    }

    /// Likewise for a group message; returns one that need not wait.
    pub(crate) fn hold_message(
        &mut self,
        conn: ConnId,
        from: OsdId,
        epoch: Epoch,
        message: Message,
    ) -> Option<Message> {
        let Some(awaited) = self.awaited(epoch) else { return Some(message) };
        self.charge_group_message(conn, message.len());
        self.inbox.early.push_message(awaited, conn, from, message);
        None
    }

    /// Handles the inputs that waited for the present map.
    pub(crate) fn take_early(&mut self, now: Time) {
        self.inbox.early.make_ready(self.maps.map().epoch);
        self.take_ready(now);
    }

    /// Handles a bounded number of them. Inputs that arrive meanwhile wait behind them.
    pub(crate) fn take_ready(&mut self, now: Time) {
        for _ in 0..limits::HELD_INPUTS_PER_TURN {
            match self.inbox.early.pop_ready() {
                None => return,
                Some(Early::Request(key)) => {
                    self.admit(now, key);
                    self.settle();
                }
                Some(Early::Group { conn, from, message }) => {
                    self.inbox.early.uncharge(conn, message.len());
                    self.resume_member(conn);
                    if let Err(error) = self.deliver_group_message(now, conn, from, message) {
                        // Its other messages are forgotten with it.
                        self.end_session(now, conn, &error);
                    }
                }
            }
        }
    }

    /// Counts a held group message of a session, and pauses the session at its bound.
    fn charge_group_message(&mut self, conn: ConnId, bytes: usize) {
        let budgets = &self.env.config.sizes.budgets;
        self.inbox.early.charge(conn, bytes, budgets, &mut self.outbox);
    }

    /// Resumes a session with group messages that is below its bound.
    fn resume_member(&mut self, conn: ConnId) {
        let budgets = &self.env.config.sizes.budgets;
        self.inbox.early.resume(conn, budgets, &mut self.outbox);
    }

    /// Forgets the waiting inputs of a session that has ended.
    pub(crate) fn forget_early(&mut self, conn: ConnId) {
        let requests = &self.operations;
        let is_of =
            |key| requests.get(key).map(|request| request.origin) == Some(Origin::Client { conn });
        let gone = self.inbox.early.forget(conn, is_of);
        gone.into_iter().for_each(|key| self.operations.forget(cx!(self), key));
    }
}

impl Daemon for Osd {
    type Request = store::Request;
    type Completion = Completion;

    fn handle_auth(&mut self, now: Time, conn: ConnId, request: AuthRequest) {
        self.env.now = now;
        let verdict = self.authentication.judge(now, conn, request);
        self.outbox.push(Output::Auth { conn, verdict });
    }

    fn authenticate(&mut self, now: Time, conn: ConnId, step: ConnectingStep) -> ConnectingAnswer {
        self.env.now = now;
        self.authentication.prove(now, conn, self.monitor.is(conn), step)
    }

    fn handle_refused(&mut self, now: Time, conn: ConnId) {
        self.env.now = now;
        self.refused(conn);
    }

    fn handle_opened(&mut self, now: Time, conn: ConnId, peer: Peer) {
        self.env.now = now;
        self.hold_opened(now, conn, peer);
    }

    fn handle_message(&mut self, now: Time, conn: ConnId, message: Message) {
        self.env.now = now;
        self.hold_message_input(now, conn, message);
    }

    fn handle_closed(&mut self, now: Time, conn: ConnId) {
        self.env.now = now;
        self.hold(now, Input::Closed(conn));
    }

    fn handle_completion(&mut self, now: Time, completion: Completion) {
        self.env.now = now;
        self.hold(now, Input::Completion(completion));
    }

    fn handle_timeout(&mut self, now: Time) {
        self.env.now = now;
        if self.maps.is_telling() {
            self.heartbeat_if_due();
        }
        if self.place_turn(now) {
            return;
        }
        self.monitor.handle_timeout(cx!(self), &self.authentication);
        if self.env.stage == Stage::Failed {
            return self.report_if_due();
        }
        self.retry_if_due(now);
        self.tick(now);
        self.settle();
        self.heartbeat_if_due();
        self.renew_leases_if_due(now);
        self.end_waits(now);
        self.retry_copies_if_due(now);
        self.settle();
        self.report_if_due();
        self.scrub_if_due(now);
        self.trim_if_due(now);
        self.finish_input(now);
    }

    fn poll_output(&mut self) -> Option<Output<store::Request>> {
        let output = self.outbox.poll();
        if let Some(Output::Close { conn }) = &output {
            self.authentication.closed(*conn);
        }
        output
    }

    fn poll_timeout(&self) -> Option<Time> {
        if self.is_behind() {
            return Some(self.env.now);
        }
        if self.env.stage == Stage::Failed {
            let due = [self.monitor.next_attempt(), self.report.schedule.due()];
            return due.into_iter().flatten().min();
        }
        let due = [
            self.monitor.next_attempt(),
            self.report.schedule.due(),
            self.groups.retry_due,
            self.watches.due(),
        ];
        let waits = self.groups.waits.first().map(|(until, _)| *until);
        let due = due.into_iter().chain([
            self.recovery.scheduler.due(),
            self.leases.due(),
            self.scrub.due(),
            self.trim.due(),
            self.heartbeats.due(),
            self.operations.copies_due(),
            waits,
        ]);
        due.flatten().min()
    }
}
