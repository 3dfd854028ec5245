//! The state of the daemon, and the dispatch of its inputs.

mod daemon;
mod dispatch;
mod faults;
mod routing;

use crate::commands::Commands;
use crate::config::Config;
use crate::cx::{Cx, cx};
use crate::env::{Env, Options, Stage};
use crate::groups::{Groups, Polled, split_merge};
use crate::heartbeats::Heartbeats;
use crate::inbox::waiting_for_map::WaitingInput;
use crate::inbox::{Inbox, Input};
use crate::leases::{self, Leases};
use crate::limits;
use crate::maps::Maps;
use crate::operations::keys::ObjectKey;
use crate::operations::request::Origin;
use crate::operations::service::Service;
use crate::operations::{
    Operations, copying, healing, interruption, listing, outcomes, own, queue, resume,
};
use crate::outbox::Outbox;
use crate::recovery::Recovery;
use crate::report::Report;
use crate::report::repairs::FoundBy;
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
use engine::{ConnId, Message, Output, Peer, Time};
use faults::Handled;
use maps::OsdMap;
use std::collections::BTreeMap;
use store::{Completion, RequestKind};
use types::{Epoch, OsdId, PgId};
use wire::forward::ReportRequest;
use wire::internal::{Heartbeat, RotatingSecrets as RotatingSecretsMessage, ScrubOrder, StatsAck};
use wire::{
    AuthReply, Command, MessageBody, OsdMapMessage, OsdReply, OsdRequest, PeerFault, Ping,
    decode_from_peer,
};

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
    peers: Peers,
    monitor: MonitorLink,
    authentication: Authentication,
    pub(crate) heartbeats: Heartbeats,
    pub(crate) groups: Groups,
    pub(crate) operations: Operations,
    pub(crate) watches: Watches,
    pub(crate) leases: Leases,
    recovery: Recovery,
    pub(crate) scrub: Scrubs,
    pub(crate) trim: Trims,
    usage: DiskUsage,
    pub(crate) report: Report,
    commands: Commands,
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
        self.groups.iter().map(|(_, group)| &group.pg)
    }

    /// Panics if the state contradicts itself. Call it between inputs.
    pub fn check_invariants(&self) {
        assert!(self.work.is_empty(), "an input ends when no work is left");
        self.groups.check_invariants();
        let groups = || self.groups.iter().map(|(_, group)| group);
        self.operations.check_invariants(groups().map(|group| &group.queues));
        self.operations.check_memory(&self.env.config.sizes.budgets);
        let is_due = groups().any(|group| group.pg.is_store_due());
        assert!(self.maps.is_telling() || !is_due, "intervals are stored");
        let waiting =
            self.groups.iter().filter(|(_, group)| !group.queues.waiting_for_readable.is_empty());
        self.leases.check_invariants(waiting.map(|(pg, _)| pg));
        if self.env.stage != Stage::Failed {
            let watches = self.groups.iter().map(|(pg, group)| (pg, &group.watches));
            self.watches.check_invariants(watches, |conn, watch| {
                self.clients.get(conn).is_some_and(|session| session.has_watch(watch))
            });
        }
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
            match self.operations.get(key).is_some_and(|request| request.op_flags.is_pg_op) {
                true => {
                    if let Some(mut service) = self.service_of(key) {
                        listing::list(&mut service, key);
                    }
                }
                false => self.work.push(Work::Continue(key)),
            }
            self.settle();
        }
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.maps.map().epoch
    }

    /// The parts that serve the requests of a group.
    fn service(&mut self, pg: PgId) -> Option<Service<'_>> {
        let objects_share = limits::objects_cached_max(self.groups.len());
        let group = self.groups.get_mut(pg)?.served();
        Some(Service {
            cx: Cx {
                env: &self.env,
                map: self.maps.map(),
                clients: &mut self.clients,
                out: &mut self.outbox,
                work: &mut self.work,
            },
            ops: &mut self.operations,
            group,
            maps: &self.maps,
            peers: &mut self.peers,
            watches: &mut self.watches,
            leases: &mut self.leases,
            usage: &self.usage,
            objects_share,
        })
    }

    /// Those for the group that a request is in.
    fn service_of(&mut self, key: u64) -> Option<Service<'_>> {
        let pg = self.operations.get(key)?.pg;
        self.service(pg)
    }

    /// Those for the group of an object in memory.
    fn service_at(&mut self, object: ObjectKey) -> Option<Service<'_>> {
        let pg = self.operations.context(object)?.pg;
        self.service(pg)
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
        if self.groups.are_asking() {
            self.ask_monitor(now);
        }
    }

    /// Ends a session because of a fault of its peer. If that is an OSD, messages may be lost: as when a
    /// session breaks, the members begin a new interval.
    pub(crate) fn end_session(&mut self, now: Time, conn: ConnId, fault: &PeerFault) {
        let osd = self.peers.of(conn);
        tracing::warn!(?conn, ?osd, kind = %fault.kind(), %fault, "a session ends: its peer is at fault");
        self.outbox.push(Output::Close { conn });
        if self.monitor.is(conn) {
            return self.monitor.closed(&self.env);
        }
        self.forget_session(now, conn);
        self.peer_closed(conn);
    }

    fn dispatch(&mut self, now: Time, conn: ConnId, message: Message) -> Handled {
        if self.env.stage == Stage::Failed {
            return self.dispatch_failed(conn, &message);
        }
        match message.kind {
            OsdRequest::KIND => self.handle_request(conn, &message)?,
            OsdReply::KIND => self.handle_reply(conn, &message)?,
            leases::REQUEST | leases::GRANT => {
                if let Some(from) = self.peers.at(&self.clients, conn) {
                    self.handle_lease_message(from, &message)?;
                }
            }
            kind if pg::message::is_pg_message(kind) => {
                self.handle_group_message(now, conn, message)?
            }
            kind if pg::scrub::message::is_scrub_message(kind) => {
                if let Some(from) = self.peers.at(&self.clients, conn) {
                    self.handle_scrub_message(from, &message);
                }
            }
            ScrubOrder::KIND if self.monitor.is(conn) => {
                self.handle_scrub_order(now, &decode_from_peer::<ScrubOrder>(&message)?);
            }
            Command::KIND => {
                let tid = message.tid;
                self.handle_command(conn, tid, &decode_from_peer::<Command>(&message)?);
            }
            OsdMapMessage::KIND if self.monitor.is(conn) => {
                self.handle_maps(now, decode_from_peer::<OsdMapMessage>(&message)?);
            }
            RotatingSecretsMessage::KIND if self.monitor.is(conn) => {
                self.handle_secrets(&decode_from_peer::<RotatingSecretsMessage>(&message)?);
            }
            wire::Config::KIND if self.monitor.is(conn) => {
                self.env.handle_config(&decode_from_peer::<wire::Config>(&message)?);
            }
            Heartbeat::KIND => {
                let heartbeat: Heartbeat = decode_from_peer(&message)?;
                self.heartbeats.handle(cx!(self), &self.monitor, conn, &heartbeat);
            }
            AuthReply::KIND if self.monitor.is(conn) => {
                self.handle_sealed_secrets(&decode_from_peer::<AuthReply>(&message)?.payload);
            }
            ReportRequest::KIND if self.monitor.is(conn) => self.report_again(now),
            StatsAck::KIND if self.monitor.is(conn) => {
                self.report.handle_ack(now, &decode_from_peer::<StatsAck>(&message)?);
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
        if let Err(fault) = outcome {
            self.end_session(now, conn, &fault);
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
            Work::Object(object) => self.serve_at(object, |s| queue::advance(s, object)),
            Work::Continue(key) => self.serve_of(key, |s| resume::resume(s, key)),
            Work::Readers(object, origin) => {
                self.serve_at(object, |s| resume::resume_readers(s, object, origin));
            }
            Work::Admit(key) => self.admit(key),
            Work::Piece(copy, reply) => {
                copying::replied(&mut self.operations, cx!(self), &mut self.peers, copy, &reply);
            }
            Work::Trimmed(pg, succeeded) => self.trim_ended(pg, succeeded),
            Work::GivenUp(command, result) => self.lost_ended(command, result),
            Work::Unwatch(watch) => {
                let (pg, object, key) = *watch;
                let removal = own::unwatching(pg, object, key, self.epoch());
                let key = self.operations.insert(removal);
                self.admit(key);
            }
            Work::Wake(pg, left) => self.serve(pg, |s| interruption::wake(s, left)),
            Work::Repaired(pg) => self.note_repair(pg),
            Work::AskForLeases => self.ask_for_leases(),
            Work::GrantBackfill => self.grant_reservation(),
            Work::StoreMap => self.store_map_after_split(),
        }
    }

    fn serve(&mut self, pg: PgId, call: impl FnOnce(&mut Service<'_>)) {
        if let Some(mut service) = self.service(pg) {
            call(&mut service);
        }
    }

    fn serve_of(&mut self, key: u64, call: impl FnOnce(&mut Service<'_>)) {
        if let Some(mut service) = self.service_of(key) {
            call(&mut service);
        }
    }

    fn serve_at(&mut self, object: ObjectKey, call: impl FnOnce(&mut Service<'_>)) {
        if let Some(mut service) = self.service_at(object) {
            call(&mut service);
        }
    }
}

/// Groups: their outputs, and what follows from them for their requests.
impl Osd {
    /// Performs the outputs of a group until it has none, or until one of them makes other work possible:
    /// that precedes the rest.
    fn drain_group(&mut self, now: Time, pg: PgId) {
        loop {
            match self.groups.poll(now, pg) {
                Polled::Gone => return,
                Polled::Drained(group) => {
                    return self.recovery.scheduler.update(&group.pg, &mut group.recovery);
                }
                Polled::Output(serial, output) => self.perform_output(now, pg, serial, output),
            }
            if self.work.has_children() {
                return self.work.push(Work::Group(pg));
            }
        }
    }

    fn perform_output(&mut self, now: Time, pg: PgId, serial: u64, output: pg::Output) {
        match output {
            pg::Output::Send { to, message } => self.peers.send(cx!(self), to, message),
            pg::Output::Storage { tag, kind } => {
                let bytes = match &kind {
                    RequestKind::Commit(transaction) | RequestKind::Append(transaction) => {
                        transaction.bytes_added()
                    }
                    _ => 0,
                };
                self.usage.begin_commit(bytes);
                self.outbox.ask(Token::Group { pg, serial, tag, bytes }, kind);
            }
            pg::Output::Committed { ticket } => self.committed(now, pg, ticket),
            pg::Output::Refused { ticket, error } => {
                if let Some(request) = self.operations.get_mut(ticket) {
                    request.note_refusal(&error);
                }
            }
            pg::Output::Interrupted { tickets, members_stay } => {
                self.interrupted(now, pg, &tickets, members_stay);
            }
            pg::Output::Activated => self.activated(now, pg),
            pg::Output::Clean => self.report.schedule.request_soon(now),
            pg::Output::Recovered { object } => {
                self.serve(pg, |s| healing::recovered(s, &object));
            }
            pg::Output::WantsMap => self.groups.note_asking(pg),
            pg::Output::WaitUntil(until) => self.groups.wait_until(until, pg),
            pg::Output::WantsInterval => self.groups.retry_later(now),
            pg::Output::Reserve(primary) => self.reserve(pg, primary),
            pg::Output::Release => self.release(pg),
            pg::Output::Removed => self.forget_group(now, pg),
            pg::Output::Quiesced => {
                if let Some(id) = split_merge::note_quiet(&mut self.groups, pg) {
                    self.work.push(Work::Group(id));
                }
            }
            pg::Output::SplitMerged => self.split_merge_ended(now, pg, true),
            pg::Output::SplitMergeFailed => self.split_merge_ended(now, pg, false),
        }
    }

    /// A write is durable on all members.
    fn committed(&mut self, now: Time, pg: PgId, ticket: u64) {
        if self.operations.get(ticket).is_none() {
            return;
        }
        let mut service = self.service(pg).expect("it has just committed");
        outcomes::committed(&mut service, ticket);
        if service.group.premerge.is_premerge() {
            self.report.schedule.request(now);
        }
    }

    /// The group has become active: starts the requests that waited.
    fn activated(&mut self, now: Time, pg: PgId) {
        self.report.schedule.request(now);
        self.scrub.hurry(now);
        self.keep_order(pg);
        self.note_trim(now, pg);
        self.end_blocklisted_watches_of(pg);
        let Some(group) = self.groups.get(pg) else { return };
        self.work.push(Work::Wake(pg, group.queues.waiting.len()));
    }

    /// An interval has ended or was aborted. `tickets` are the writes in flight.
    fn interrupted(&mut self, now: Time, pg: PgId, tickets: &[u64], members_stay: bool) {
        self.report.schedule.request(now);
        let Some(group) = self.groups.get_mut(pg) else { return };
        group.trim.begin_anew();
        let stays = group.pg.is_primary();
        match members_stay {
            true => {}
            false if stays => self.watches.discard_notifications(cx!(self), &mut group.watched()),
            false => self.watches.discard(cx!(self), &mut group.watched()),
        }
        self.serve(pg, |s| interruption::interrupted(s, tickets));
    }

    /// Drops all requests of a group whose pool is gone.
    fn drop_requests(&mut self, now: Time, pg: PgId) {
        self.interrupted(now, pg, &[], false);
        let Some(group) = self.groups.get_mut(pg) else { return };
        self.watches.discard(cx!(self), &mut group.watched());
        self.serve(pg, interruption::drop_waiting);
    }

    /// Forgets a group whose collection is removed.
    fn forget_group(&mut self, now: Time, pg: PgId) {
        self.drop_requests(now, pg);
        self.release(pg);
        if let Some(group) = self.groups.remove(pg) {
            self.recovery.scheduler.forget(pg, &group.recovery);
        }
    }

    /// A group's own copy of an object was found damaged, and is replaced.
    fn note_repair(&mut self, pg: PgId) {
        let Some(group) = self.groups.get_mut(pg) else { return };
        group.scrub.count_repair();
        let own = [self.env.whoami()];
        self.report.note_repair(self.maps.map(), pg, FoundBy::Read, &own);
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
        match decode_from_peer::<OsdMapMessage>(message) {
            Ok(maps) => self.maps.distribution.push_maps(maps, message.len()),
            Err(fault) => self.end_session(now, conn, &fault),
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
                self.inbox.waiting_for_map.uncharge(conn, message.len());
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
            self.inbox.waiting_for_map.push_request(awaited, key);
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
        self.inbox.waiting_for_map.push_message(awaited, conn, from, message);
        None
    }

    /// Handles the inputs that waited for the present map.
    pub(crate) fn deliver_waiting(&mut self, now: Time) {
        self.inbox.waiting_for_map.make_ready(self.maps.map().epoch);
        self.take_ready(now);
    }

    /// Handles a bounded number of them. Inputs that arrive meanwhile wait behind them.
    pub(crate) fn take_ready(&mut self, now: Time) {
        for _ in 0..limits::HELD_INPUTS_PER_TURN {
            match self.inbox.waiting_for_map.pop_ready() {
                None => return,
                Some(WaitingInput::Request(key)) => {
                    self.admit(key);
                    self.settle();
                }
                Some(WaitingInput::Group { conn, from, message }) => {
                    self.inbox.waiting_for_map.uncharge(conn, message.len());
                    self.resume_member(conn);
                    if let Err(fault) = self.deliver_group_message(now, conn, from, message) {
                        // Its other messages are forgotten with it.
                        self.end_session(now, conn, &fault);
                    }
                }
            }
        }
    }

    /// Counts a held group message of a session, and pauses the session at its bound.
    fn charge_group_message(&mut self, conn: ConnId, bytes: usize) {
        let budgets = &self.env.config.sizes.budgets;
        self.inbox.waiting_for_map.charge(conn, bytes, budgets, &mut self.outbox);
    }

    /// Resumes a session with group messages that is below its bound.
    fn resume_member(&mut self, conn: ConnId) {
        let budgets = &self.env.config.sizes.budgets;
        self.inbox.waiting_for_map.resume(conn, budgets, &mut self.outbox);
    }

    /// Forgets the waiting inputs of a session that has ended.
    pub(crate) fn forget_waiting(&mut self, conn: ConnId) {
        let requests = &self.operations;
        let is_of =
            |key| requests.get(key).map(|request| request.origin) == Some(Origin::Client { conn });
        let gone = self.inbox.waiting_for_map.forget(conn, is_of);
        gone.into_iter().for_each(|key| self.operations.forget(cx!(self), key));
    }
}
