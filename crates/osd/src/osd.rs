//! The state of the daemon, and the dispatch of its inputs.

use crate::authentication::Handshake;
use crate::bench::Bench;
use crate::budget::Budget;
use crate::candidates::Candidates;
use crate::config::Config;
use crate::connecting::Proof;
use crate::copying::Copies;
use crate::early;
use crate::env::{Env, Options, Stage};
use crate::group_states::StateTimes;
use crate::groups::Group;
use crate::heartbeat::Heartbeats;
use crate::images::ImageCounts;
use crate::inflight::Inflight;
use crate::leases::{self, Leases};
use crate::lost::LostCommands;
use crate::maps_history::MapsHistory;
use crate::monitor::MonitorLink;
use crate::operations::Operations;
use crate::outbox::Outbox;
use crate::peers::Peers;
use crate::placement::Placed;
use crate::placing::Placing;
use crate::recovery::Scheduler;
use crate::report::Reporting;
use crate::report::repairs::Repairs;
use crate::requests::Requests;
use crate::reservations::Reservations;
use crate::reshaping::Reshaping;
use crate::scrub::Scrubs;
use crate::session::Session;
use crate::snaptrim::Trims;
use crate::stored_maps::StoredMaps;
use crate::tokens::Token;
use crate::watches::Notifications;
use auth::{Entropy, RotatingSecrets};
use engine::{
    AuthRequest, ConnId, ConnectingAnswer, ConnectingStep, Daemon, Message, Output, Peer, Time,
};
use maps::{OsdMap, SnapIntervals};
use std::collections::{BTreeMap, BTreeSet};
use store::{Completion, RequestKind};
use types::{Epoch, OsdId, PgId, PoolId};
use wire::forward::ReportAgain;
use wire::internal::{Heartbeat, RotatingSecrets as RotatingSecretsMessage, ScrubOrder, StatsAck};
use wire::{AuthReply, Command, MessageBody, OsdMapMessage, OsdReply, OsdRequest, Ping};

/// The OSD daemon. Its host drives it through [`Daemon`]; inputs are handled one at a time, and
/// outputs polled until there are none.
#[derive(Debug)]
pub struct Osd {
    pub(crate) env: Env,
    pub(crate) entropy: Entropy,
    pub(crate) map: OsdMap,
    pub(crate) candidates: Candidates,
    pub(crate) placed: Placed,
    pub(crate) placing: Placing,
    pub(crate) stored_maps: StoredMaps,
    pub(crate) history: MapsHistory,
    pub(crate) secrets: RotatingSecrets,
    pub(crate) handshakes: BTreeMap<ConnId, Handshake>,
    /// Authorizers of sessions that this OSD is opening.
    pub(crate) proofs: BTreeMap<ConnId, Proof>,
    pub(crate) sessions: BTreeMap<ConnId, Session>,
    pub(crate) monitor: MonitorLink,
    pub(crate) peers: Peers,
    pub(crate) heartbeats: Heartbeats,
    /// Boxed: a node of the tree has room for eleven, and a group takes 3 kB.
    pub(crate) groups: BTreeMap<PgId, Box<Group>>,
    /// Requests in progress; the key of one is the ticket of its write.
    pub(crate) requests: Requests,
    /// All groups below this one have been read from the store.
    pub(crate) loaded_below: PgId,
    /// Inputs that wait for a newer map.
    pub(crate) early: early::Waiting,
    /// Memory that requests have reserved.
    pub(crate) budget: Budget,
    /// Number and message bytes of clients' requests in progress.
    pub(crate) inflight: Inflight,
    pub(crate) copies: Copies,
    pub(crate) notifications: Notifications,
    pub(crate) reporting: Reporting,
    pub(crate) images: ImageCounts,
    pub(crate) operations: Operations,
    pub(crate) state_times: StateTimes,
    pub(crate) bench: Option<Box<Bench>>,
    pub(crate) leases: Leases,
    /// When to check again whether read leases of prior intervals have expired, by group.
    pub(crate) waits: BTreeSet<(Time, PgId)>,
    pub(crate) scheduler: Scheduler,
    pub(crate) reservations: Reservations,
    pub(crate) reshaping: Reshaping,
    /// Groups that need something of the monitor (`up_thru`, `pg_temp`), noted during the present
    /// input.
    pub(crate) asking: BTreeSet<PgId>,
    /// When to retry work that waits for space or for a map that the monitor has not made yet.
    pub(crate) retry_due: Option<Time>,
    pub(crate) scrubs: Scrubs,
    pub(crate) repairs: Repairs,
    pub(crate) trims: Trims,
    pub(crate) lost: LostCommands,
    /// Removed snapshots of each pool, according to the maps so far.
    pub(crate) removed_snaps: BTreeMap<PoolId, SnapIntervals>,
    pub(crate) next_tick: Time,
    pub(crate) next_conn: u64,
    /// Serial number of the latest group, so that completions for a removed one are recognised.
    pub(crate) group_serial: u64,
    pub(crate) outbox: Outbox,
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
            map: OsdMap::new(config.fsid),
            env: Env::new(config),
            candidates: Candidates::default(),
            placed: Placed::default(),
            placing: Placing::default(),
            stored_maps: StoredMaps::default(),
            entropy: Entropy::from_seed(seed),
            history: MapsHistory::default(),
            secrets: RotatingSecrets::default(),
            handshakes: BTreeMap::new(),
            proofs: BTreeMap::new(),
            sessions: BTreeMap::new(),
            monitor: MonitorLink::default(),
            peers: Peers::default(),
            heartbeats: Heartbeats::default(),
            groups: BTreeMap::new(),
            requests: Requests::default(),
            loaded_below: PgId::default(),
            early: early::Waiting::default(),
            budget: Budget::default(),
            inflight: Inflight::default(),
            copies: Copies::default(),
            notifications: Notifications::default(),
            reporting: Reporting::default(),
            images: ImageCounts::default(),
            operations: Operations::default(),
            state_times: StateTimes::default(),
            bench: None,
            leases: Leases::default(),
            waits: BTreeSet::new(),
            scheduler: Scheduler::default(),
            reservations: Reservations::default(),
            reshaping: Reshaping::default(),
            asking: BTreeSet::new(),
            retry_due: None,
            scrubs: Scrubs::default(),
            repairs: Repairs::default(),
            trims: Trims::default(),
            lost: LostCommands::default(),
            removed_snaps: BTreeMap::new(),
            next_tick: Time::ZERO,
            next_conn: 1,
            group_serial: 0,
            outbox: Outbox::default(),
        };
        osd.outbox.ask(Token::Collections, RequestKind::Collections);
        osd
    }

    pub fn id(&self) -> OsdId {
        self.env.config.id
    }

    /// The newest map that the OSD has applied.
    pub fn map(&self) -> &OsdMap {
        &self.map
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
        self.groups.values().map(|group| &group.pg)
    }

    /// Panics if the state contradicts itself. Call it between inputs.
    pub fn check_invariants(&self) {
        self.groups.values().for_each(|group| group.check_invariants());
        self.requests.check_invariants();
        let is_due = self.groups.values().any(|group| group.pg.is_store_due());
        assert!(self.placing.is_on() || !is_due, "intervals are stored");
        self.check_budgets();
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.map.epoch
    }

    /// Queues a message for a session.
    pub(crate) fn send(&mut self, conn: ConnId, message: Message) {
        self.outbox.send(conn, message);
    }

    /// An id for a session that this OSD opens.
    pub(crate) fn new_conn(&mut self) -> ConnId {
        self.next_conn += 1;
        ConnId(self.next_conn - 1)
    }

    /// Work that inputs only note, done once at the end of each input.
    pub(crate) fn finish_input(&mut self, now: Time) {
        if self.env.stage == Stage::Failed || self.placing.is_on() {
            return;
        }
        self.grant_memory(now);
        if !self.scheduler.is_idle() {
            self.schedule_recovery(now);
        }
        if !self.asking.is_empty() {
            self.ask_monitor(now);
        }
    }

    /// Ends a session on which a message could not be decoded. If the peer is an OSD, messages may
    /// be lost: as when a session breaks, the members begin a new interval.
    pub(crate) fn end_session(&mut self, now: Time, conn: ConnId, error: &codec::DecodeError) {
        tracing::warn!(?conn, %error, "a message does not decode; its session ends");
        self.outbox.push(Output::Close { conn });
        if self.monitor.is(conn) {
            return self.monitor_closed(now);
        }
        self.forget_session(now, conn);
        self.peer_closed(now, conn);
    }

    fn dispatch(&mut self, now: Time, conn: ConnId, message: Message) -> codec::Result<()> {
        if self.env.stage == Stage::Failed {
            return self.dispatch_failed(conn, &message);
        }
        match message.kind {
            OsdRequest::KIND => self.take_request(now, conn, &message)?,
            OsdReply::KIND => self.take_reply(now, conn, &message)?,
            leases::ASK | leases::PROMISE => {
                if let Some(from) = self.osd_of(conn) {
                    self.take_lease_message(now, from, &message)?;
                }
            }
            kind if pg::message::is_pg_message(kind) => {
                self.take_group_message(now, conn, message)?
            }
            kind if pg::scrub::message::is_scrub_message(kind) => {
                if let Some(from) = self.osd_of(conn) {
                    self.take_scrub_message(now, from, &message);
                }
            }
            ScrubOrder::KIND if self.monitor.is(conn) => {
                self.take_scrub_order(now, &ScrubOrder::decode(&message)?);
            }
            Command::KIND => {
                let tid = message.tid;
                self.take_command(conn, tid, Command::decode(&message)?);
            }
            OsdMapMessage::KIND if self.monitor.is(conn) => {
                self.take_maps(now, OsdMapMessage::decode(&message)?);
            }
            RotatingSecretsMessage::KIND if self.monitor.is(conn) => {
                self.take_secrets(now, &RotatingSecretsMessage::decode(&message)?);
            }
            wire::Config::KIND if self.monitor.is(conn) => {
                self.env.handle_config(&wire::Config::decode(&message)?);
            }
            Heartbeat::KIND => self.take_heartbeat(now, conn, &Heartbeat::decode(&message)?),
            AuthReply::KIND if self.monitor.is(conn) => {
                self.take_sealed_secrets(now, &AuthReply::decode(&message)?.payload);
            }
            ReportAgain::KIND if self.monitor.is(conn) => self.report_again(now),
            StatsAck::KIND if self.monitor.is(conn) => {
                self.take_stats_ack(now, &StatsAck::decode(&message)?);
            }
            StatsAck::KIND | Ping::KIND | wire::LogAck::KIND => {}
            kind => tracing::debug!(kind, "a message of this kind is not for an OSD"),
        }
        Ok(())
    }
}

/// Handlers of inputs, called when no input is held before them (`placing.rs`).
impl Osd {
    pub(crate) fn take_opened(&mut self, now: Time, conn: ConnId, peer: Peer) {
        self.handshakes.remove(&conn);
        if self.monitor.is(conn) {
            self.monitor_opened(now);
        } else if conn.is_accepted() {
            self.sessions.insert(conn, Session::new(peer));
            self.throttle(conn);
        } else if let Some(osd) = self.peers.of(conn) {
            self.sessions.insert(conn, Session::to_osd(peer, osd));
        }
    }

    pub(crate) fn take_message(&mut self, now: Time, conn: ConnId, message: Message) {
        if let Err(error) = self.dispatch(now, conn, message) {
            self.end_session(now, conn, &error);
        }
    }

    pub(crate) fn take_closed(&mut self, now: Time, conn: ConnId) {
        self.handshakes.remove(&conn);
        self.proofs.remove(&conn);
        if self.monitor.is(conn) {
            self.monitor_closed(now);
        } else if conn.is_accepted() || !self.heartbeat_closed(now, conn) {
            self.forget_session(now, conn);
            self.peer_closed(now, conn);
        }
    }

    pub(crate) fn take_completion(&mut self, now: Time, completion: Completion) {
        self.complete(now, completion);
    }
}

impl Daemon for Osd {
    type Request = store::Request;
    type Completion = Completion;

    fn handle_auth(&mut self, now: Time, conn: ConnId, request: AuthRequest) {
        self.env.now = now;
        self.judge(now, conn, request);
    }

    fn authenticate(&mut self, now: Time, conn: ConnId, step: ConnectingStep) -> ConnectingAnswer {
        self.env.now = now;
        self.prove(now, conn, step)
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
        self.hold_closed(now, conn);
    }

    fn handle_completion(&mut self, now: Time, completion: Completion) {
        self.env.now = now;
        self.hold_completion(now, completion);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.env.now = now;
        if self.placing.is_on() {
            self.heartbeat_if_due(now);
        }
        if self.place_turn(now) {
            return;
        }
        self.monitor_timeout(now);
        if self.env.stage == Stage::Failed {
            return self.report_if_due(now);
        }
        self.retry_if_due(now);
        self.tick(now);
        self.heartbeat_if_due(now);
        self.renew_leases_if_due(now);
        self.end_waits(now);
        self.retry_copies_if_due(now);
        self.report_if_due(now);
        self.scrub_if_due(now);
        self.trim_if_due(now);
        self.finish_input(now);
    }

    fn poll_output(&mut self) -> Option<Output<store::Request>> {
        self.outbox.poll()
    }

    fn poll_timeout(&self) -> Option<Time> {
        if self.is_behind() {
            return Some(self.env.now);
        }
        if self.env.stage == Stage::Failed {
            let due = [self.monitor.next_attempt(), self.reporting.due()];
            return due.into_iter().flatten().min();
        }
        let tick = self.notifications.is_ticking().then_some(self.next_tick);
        let due = [self.monitor.next_attempt(), self.reporting.due(), self.retry_due, tick];
        let waits = self.waits.first().map(|(until, _)| *until);
        let due = due.into_iter().chain([
            self.scheduler.due(),
            self.leases.due(),
            self.scrubs.due,
            self.trims.due,
            self.heartbeats.due(),
            self.copies.due(),
            waits,
        ]);
        due.flatten().min()
    }
}
