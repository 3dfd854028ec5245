//! The state of the daemon, and the dispatch of its inputs.

mod daemon;
mod dispatch;
mod routing;

use crate::commands::bench::Bench;
use crate::config::Config;
use crate::cx::cx;
use crate::env::{Options, Stage};
use crate::faults::Handled;
use crate::heartbeats::Heartbeats;
use crate::hosted::{HostedGroups, inputs, scrubbing, sessions, timers};
use crate::inbox::{Inbox, Input};
use crate::leases;
use crate::limits;
use crate::sessions::authentication::Authentication;
use crate::sessions::clients::Session;
use crate::shared::Shared;
use crate::tokens::Token;
use engine::{ConnId, Message, Output, Peer};
use maps::OsdMap;
use pg::scrub::Stamps;
use std::collections::BTreeMap;
use store::{Completion, RequestKind};
use types::{OsdId, PgId};
use wire::forward::ReportRequest;
use wire::internal::{Heartbeat, RotatingSecrets as RotatingSecretsMessage, ScrubOrder, StatsAck};
use wire::{
    AuthReply, Command, MessageBody, OsdMapMessage, OsdReply, OsdRequest, PeerFault, Ping,
    decode_from_peer,
};

/// The OSD daemon. Its host drives it through [`Daemon`](engine::Daemon); inputs are handled one at a time,
/// and outputs polled until there are none.
#[derive(Debug)]
pub struct Osd {
    shared: Shared,
    /// The groups, and all that serves their requests.
    hosted: HostedGroups,
    inbox: Inbox,
    authentication: Authentication,
    heartbeats: Heartbeats,
    bench: Bench,
}

impl Osd {
    /// Sets the facts that `ceph osd metadata` shows of this OSD's machine.
    pub fn describe_host(&mut self, facts: BTreeMap<String, String>) {
        self.shared.env.host_facts = facts;
    }

    /// An OSD that has asked its store for its collections. `seed` must come from the system's
    /// random source, except in simulations and tests.
    pub fn new(config: Config, seed: [u8; 32]) -> Self {
        let mut osd = Osd {
            hosted: HostedGroups::default(),
            inbox: Inbox::default(),
            authentication: Authentication::new(&config, seed),
            heartbeats: Heartbeats::default(),
            bench: Bench::default(),
            shared: Shared::new(config),
        };
        osd.shared.outbox.ask(Token::Collections, RequestKind::Collections);
        osd
    }

    pub fn id(&self) -> OsdId {
        self.shared.env.config.id
    }

    /// The newest map that the OSD has applied.
    pub fn map(&self) -> &OsdMap {
        self.shared.maps.map()
    }

    /// Whether the OSD serves requests: a map that it has applied says that it is up.
    pub fn is_up(&self) -> bool {
        self.shared.is_up()
    }

    /// Whether the OSD is out of service until it is restarted.
    pub fn has_failed(&self) -> bool {
        self.shared.env.stage == Stage::Failed
    }

    /// The options in effect.
    pub fn options(&self) -> &Options {
        &self.shared.env.options
    }

    /// The copies of groups on this OSD, ascending by id.
    pub fn groups(&self) -> impl Iterator<Item = &pg::Pg> {
        self.hosted.groups().iter().map(|(_, group)| &group.pg)
    }

    /// Groups whose primary this OSD is, each with its scrub stamps, if they are known, and whether
    /// a scrub, a repair or a check of repaired objects is pending.
    pub fn scrubs(&self) -> impl Iterator<Item = (PgId, Option<Stamps>, bool)> + '_ {
        let primaries = self.hosted.groups().scrubs().filter(|(pg, _)| pg.is_primary());
        primaries
            .map(|(pg, scrub)| (pg.id(), scrub.stamps(), scrub.is_busy() || scrub.is_ordered(pg)))
    }

    /// Number of inconsistent objects that scrubs of this OSD as primary found since it started.
    pub fn scrub_findings(&self) -> u64 {
        self.hosted.scrub().findings()
    }

    /// Describes a bound that is exceeded by more than the one message that reached it. Only for
    /// hosts that read nothing from a paused session.
    pub fn excess(&self) -> Option<String> {
        let budgets = &self.shared.env.config.sizes.budgets;
        let sizes = self.hosted.operations().sizes_of_bounded();
        let sizes: Vec<usize> = sizes.chain(self.inbox.charged()).collect();
        let ahead = || self.hosted.excess(&self.shared, self.inbox.largest_of_group());
        self.shared.clients.excess(&sizes, budgets).or_else(ahead)
    }

    /// Panics if the state contradicts itself. Call it between inputs.
    pub fn check_invariants(&self) {
        assert!(self.shared.work.is_empty(), "an input ends when no work is left");
        self.hosted.check_invariants(&self.shared, self.inbox.of_groups());
        self.inbox.check_invariants();
        self.shared.check_invariants();
        self.check_throttle();
    }

    /// Panics unless sessions are charged for the requests in progress, and for those that are held.
    fn check_throttle(&self) {
        let requests = self.hosted.operations().checked().map(|(_, request)| request);
        let of_clients = requests.filter(|request| request.is_of_client());
        let in_work = of_clients.map(|request| request.bytes).chain(self.inbox.charged());
        let charged = in_work.fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes));
        assert_eq!(charged, self.shared.clients.in_flight());
    }

    /// Performs work until none is left.
    fn settle(&mut self) {
        self.hosted.settle(&mut self.shared);
    }

    /// Work that inputs only note, done once at the end of each input.
    fn finish_input(&mut self) {
        if self.shared.env.stage != Stage::Failed && !self.shared.maps.is_telling() {
            timers::finish_input(&mut self.hosted, &mut self.shared);
            while self.shared.outbox.has_local() {
                inputs::deliver_local(&mut self.hosted, &mut self.shared);
                timers::finish_input(&mut self.hosted, &mut self.shared);
            }
        }
    }

    /// Ends a session because of a fault of its peer. If that is an OSD, messages may be lost: as when a
    /// session breaks, the members begin a new interval.
    fn end_session(&mut self, conn: ConnId, fault: &PeerFault) {
        let osd = self.shared.peers.of(conn);
        tracing::warn!(?conn, ?osd, kind = %fault.kind(), %fault, "a session ends: its peer is at fault");
        self.shared.outbox.push(Output::Close { conn });
        match self.shared.monitor.is(conn) {
            true => self.shared.monitor.closed(&self.shared.env),
            false => self.forget_session(conn),
        }
    }

    fn forget_session(&mut self, conn: ConnId) {
        sessions::forget_session(&mut self.hosted, &mut self.shared, conn);
        sessions::peer_closed(&mut self.hosted, &mut self.shared, conn);
    }

    fn dispatch(&mut self, conn: ConnId, message: Message) -> Handled {
        if self.has_failed() {
            return self.dispatch_failed(conn, &message);
        }
        let (hosted, shared) = (&mut self.hosted, &mut self.shared);
        match message.kind {
            OsdRequest::KIND => inputs::handle_request(hosted, shared, conn, &message)?,
            OsdReply::KIND => inputs::handle_reply(hosted, shared, conn, &message)?,
            leases::REQUEST | leases::GRANT => {
                if let Some(from) = shared.peers.at(&shared.clients, conn) {
                    self.handle_lease_message(from, &message)?;
                }
            }
            kind if pg::message::is_pg_message(kind) => {
                inputs::handle_group_message(hosted, shared, conn, message)?;
            }
            kind if pg::scrub::message::is_scrub_message(kind) => {
                if let Some(from) = shared.peers.at(&shared.clients, conn) {
                    inputs::deliver(hosted, shared, conn, from, message)?;
                }
            }
            Command::KIND => {
                let tid = message.tid;
                self.handle_command(conn, tid, &decode_from_peer::<Command>(&message)?);
            }
            Heartbeat::KIND => {
                let heartbeat: Heartbeat = decode_from_peer(&message)?;
                self.heartbeats.handle(cx!(shared), &shared.monitor, conn, &heartbeat);
            }
            _ if shared.monitor.is(conn) => self.dispatch_of_monitor(&message)?,
            kind => not_for_an_osd(kind),
        }
        Ok(())
    }

    /// Handles a message that only monitors send.
    fn dispatch_of_monitor(&mut self, message: &Message) -> Handled {
        match message.kind {
            ScrubOrder::KIND => {
                let order = decode_from_peer::<ScrubOrder>(message)?;
                scrubbing::handle_order(&mut self.hosted, &mut self.shared, &order);
            }
            OsdMapMessage::KIND => self.handle_maps(decode_from_peer::<OsdMapMessage>(message)?),
            RotatingSecretsMessage::KIND => {
                self.handle_secrets(&decode_from_peer::<RotatingSecretsMessage>(message)?);
            }
            wire::Config::KIND => {
                self.shared.env.handle_config(&decode_from_peer::<wire::Config>(message)?);
            }
            AuthReply::KIND => {
                self.handle_sealed_secrets(&decode_from_peer::<AuthReply>(message)?.payload);
            }
            ReportRequest::KIND => self.report_again(),
            StatsAck::KIND => {
                let ack = decode_from_peer::<StatsAck>(message)?;
                self.shared.report.handle_ack(self.shared.env.now, &ack);
            }
            kind => not_for_an_osd(kind),
        }
        Ok(())
    }

    /// Handles a request for a lease, or a grant. Fails if it does not decode.
    fn handle_lease_message(&mut self, from: OsdId, message: &Message) -> Handled {
        let from = (from, self.heartbeats.silence(self.shared.env.now, from));
        inputs::handle_lease_message(&mut self.hosted, &mut self.shared, from, message)
    }
}

/// Notes a message that is ignored.
fn not_for_an_osd(kind: u16) {
    if ![StatsAck::KIND, Ping::KIND, wire::LogAck::KIND].contains(&kind) {
        tracing::debug!(kind, "a message of this kind is not for an OSD");
    }
}

/// Handlers of inputs, called when no input is held before them (`Osd::hold`).
impl Osd {
    fn take_opened(&mut self, conn: ConnId, peer: Peer) {
        let shared = &mut self.shared;
        if shared.monitor.is(conn) {
            shared.monitor.opened(cx!(shared));
            self.report_again();
        } else if conn.is_accepted() {
            shared.clients.insert(conn, Session::new(peer));
            cx!(shared).throttle(conn);
        } else if let Some(osd) = shared.peers.of(conn) {
            shared.clients.insert(conn, Session::to_osd(peer, osd));
        }
    }

    fn take_message(&mut self, conn: ConnId, message: Message) {
        let outcome = self.dispatch(conn, message);
        self.settle();
        if let Err(fault) = outcome {
            self.end_session(conn, &fault);
        }
    }

    fn take_closed(&mut self, conn: ConnId) {
        self.authentication.closed(conn);
        if self.shared.monitor.is(conn) {
            self.shared.monitor.closed(&self.shared.env);
        } else if conn.is_accepted() || !self.heartbeats.closed(cx!(self.shared), conn) {
            self.forget_session(conn);
        }
    }

    fn take_completion(&mut self, completion: Completion) {
        self.complete(completion);
        self.settle();
    }
}

/// Inputs that are held while groups handle a map, or behind inputs that waited for their map.
impl Osd {
    /// Whether work is left for the next turn that must precede further inputs; the host should
    /// call at once.
    pub(crate) fn is_behind(&self) -> bool {
        let is_empty = !self.shared.maps.distribution.has_waiting() && !self.inbox.holds_any();
        self.shared.maps.is_telling() || self.hosted.has_ready() || !is_empty
    }

    /// Registers an accepted session immediately: if groups of this OSD send to that peer
    /// meanwhile, they must use it, because a session of ours beside it would end it.
    fn hold_opened(&mut self, conn: ConnId, peer: Peer) {
        match conn.is_accepted() {
            true => self.take_opened(conn, peer),
            false => self.hold(Input::Opened(conn, peer)),
        }
    }

    /// Handles a message, or holds it while work remains for the groups.
    fn hold_message_input(&mut self, conn: ConnId, message: Message) {
        if !self.is_behind() || self.is_urgent(conn, message.kind) {
            self.take_message(conn, message);
            return self.finish_input();
        }
        let shared = &mut self.shared;
        if message.kind == OsdMapMessage::KIND && shared.monitor.is(conn) {
            return self.hold_maps(conn, &message);
        }
        // Held messages, too, count for the throttle of their session.
        if pg::message::is_pg_message(message.kind) {
            if shared.peers.of(conn).is_none() {
                let epoch = pg::message::sender_epoch(&message).ok();
                shared.peers.note_offered(&mut shared.clients, conn, epoch);
            }
            // Messages of a session that has ended are dropped later, and are not counted.
            if shared.clients.contains(conn) {
                inputs::charge(&mut self.hosted, shared, conn, message.len());
                return self.hold(Input::Group(conn, message));
            }
        }
        if message.kind == OsdRequest::KIND && shared.clients.contains(conn) {
            cx!(shared).charge(conn, message.len());
            return self.hold(Input::Request(conn, message));
        }
        self.hold(Input::Message(conn, message));
    }

    /// Maps precede all other held inputs, as these seldom depend on an older map.
    fn hold_maps(&mut self, conn: ConnId, message: &Message) {
        match decode_from_peer::<OsdMapMessage>(message) {
            Ok(maps) => self.shared.maps.distribution.push_maps(maps, message.len()),
            Err(fault) => self.end_session(conn, &fault),
        }
        while self.holds_too_much() {
            self.place_turn();
        }
    }

    /// Whether a message must not be held, as it changes no state of groups and others depend on it:
    /// a heartbeat, or the secrets without which this OSD refuses sessions.
    fn is_urgent(&self, conn: ConnId, kind: u16) -> bool {
        let has_secrets = [RotatingSecretsMessage::KIND, AuthReply::KIND].contains(&kind);
        kind == Heartbeat::KIND || has_secrets && self.shared.monitor.is(conn)
    }

    fn holds_too_much(&self) -> bool {
        let (maps, map_bytes) = self.shared.maps.distribution.waiting();
        let (inputs, bytes) = self.inbox.held();
        bytes + map_bytes > limits::HELD_BYTES_MAX || inputs + maps > limits::HELD_INPUTS_MAX
    }

    fn hold(&mut self, input: Input) {
        if !self.is_behind() {
            self.take_input(input);
            return self.finish_input();
        }
        self.inbox.push(input);
        while self.holds_too_much() {
            self.place_turn();
        }
    }

    /// Handles a bounded number of held inputs.
    fn take_held(&mut self) {
        for _ in 0..limits::HELD_INPUTS_PER_TURN {
            let maps = &self.shared.maps;
            if maps.is_telling() || self.hosted.has_ready() || maps.distribution.has_waiting() {
                return;
            }
            let Some(input) = self.inbox.pop() else { return };
            self.take_input(input);
        }
    }

    fn take_input(&mut self, input: Input) {
        match input {
            Input::Opened(conn, peer) => self.take_opened(conn, peer),
            Input::Message(conn, message) => self.take_message(conn, message),
            Input::Request(conn, message) => {
                self.shared.clients.uncharge(conn, message.len());
                self.take_message(conn, message);
                cx!(self.shared).throttle(conn);
            }
            Input::Group(conn, message) => {
                inputs::uncharge(&mut self.hosted, conn, message.len());
                self.take_message(conn, message);
                inputs::resume_member(&mut self.hosted, &mut self.shared, conn);
            }
            Input::Closed(conn) => self.take_closed(conn),
            Input::Completion(completion) => self.take_completion(completion),
        }
    }

    /// Handles a bounded number of the inputs whose map has come. Inputs that arrive meanwhile wait
    /// behind them.
    fn take_ready(&mut self) {
        for _ in 0..limits::HELD_INPUTS_PER_TURN {
            match inputs::handle_waiting(&mut self.hosted, &mut self.shared) {
                None => return,
                Some(Ok(())) => {}
                // The other messages of that session are forgotten with it.
                Some(Err((conn, fault))) => self.end_session(conn, &fault),
            }
        }
    }
}

#[cfg(test)]
impl Osd {
    /// Leases as if a message had come from another OSD.
    pub(crate) fn handle_lease(&mut self, now: engine::Time, from: OsdId, message: &Message) {
        self.shared.env.now = now;
        self.handle_lease_message(from, message).expect("it decodes");
    }

    /// Facts, the map, sessions, and the ways out.
    pub(crate) fn shared(&mut self) -> &mut Shared {
        &mut self.shared
    }

    /// The groups, and all that serves their requests.
    pub(crate) fn hosted(&self) -> &HostedGroups {
        &self.hosted
    }

    /// The groups, and the components that they are lent.
    pub(crate) fn parts(&mut self) -> (&mut HostedGroups, &mut Shared) {
        (&mut self.hosted, &mut self.shared)
    }

    /// Failure detection, to read it.
    pub(crate) fn heartbeats(&self) -> &Heartbeats {
        &self.heartbeats
    }

    /// Failure detection, to disturb it.
    pub(crate) fn heartbeats_mut(&mut self) -> &mut Heartbeats {
        &mut self.heartbeats
    }
}
