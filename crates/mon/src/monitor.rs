//! The monitor engine: its inputs, the queue of operations, and the transaction in flight.
//!
//! Operations that may change the state (`job::Job`) wait in the [`pipeline`] and run one after the other.
//! Each runs on the committed state and returns a change and the messages to send once that is durable; it
//! runs again if another monitor committed first. While a transaction is in flight, requests that only read
//! are served from the state before it.
//!
//! Until the state has been loaded for the first time, inputs wait in the order of their arrival. After that
//! they are served from the known state, even while the store cannot be reached; only operations wait.
//!
//! One of the monitors is the leader ([`election`]). It alone runs timers and receives the reports of OSDs;
//! the other monitors forward to it the requests that they cannot answer themselves ([`relay`], [`proxies`]).

mod asking;
mod balance;
mod boots;
mod clocks;
mod committing;
mod complaints;
mod connecting;
mod election;
mod fullness;
mod handshake;
mod health_log;
mod history;
mod housekeeping;
mod liveness;
mod messages;
mod osds;
mod pipeline;
mod pool_ops;
mod proxies;
mod publish;
mod purge;
mod registration;
mod relay;
mod run;
mod services;
mod verdicts;
mod waiting;

use crate::control::{Completion, Request};
use crate::failures::Failures;
use crate::flapping::Flapping;
use crate::high_water::HighWater;
use crate::live::Identity;
use crate::overview::Overview;
use crate::sessions::{Session, Sessions};
use crate::state::State;
use crate::statistics::Statistics;
use asking::Registries;
use auth::{CephxPolicy, ClientAuthorizer, Entropy};
use boots::Boots;
use clocks::ClockChecks;
use election::Candidacy;
use engine::{
    AuthRequest, AuthVerdict, ConnId, ConnectingAnswer, ConnectingStep, Daemon, Message, Output,
    Peer, Time,
};
use handshake::Handshake;
use health_log::HealthSeen;
use liveness::Liveness;
use maps::RawTable;
use pipeline::Pipeline;
use proxies::Proxies;
use publish::MapMessages;
use relay::Relay;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;
use types::{EntityAddrVec, Uuid};
use wire::options::Running;

/// Inputs that wait while the state is loaded; a message beyond closes its session.
const WAITING_MAX: usize = 16_384;
/// Interval of periodic work.
const TICK: Duration = Duration::from_secs(1);

/// How clients authenticate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthMode {
    Cephx,
    /// Names are trusted without proof. Only if configured explicitly.
    None,
}

/// The configuration that a monitor needs before it reads its store.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `a` of mon.a
    pub mon_name: String,
    /// Addresses at which the monitor listens.
    pub mon_addrs: EntityAddrVec,
    /// Name of the manager that this monitor stands in for when it leads.
    pub mgr_name: String,
    pub mgr_addrs: EntityAddrVec,
    pub auth: AuthMode,
    /// Connection modes of msgr2 that are accepted (1 crc, 2 secure).
    pub connection_modes: Vec<u32>,
    /// Lifetimes of tickets, and accepted key types.
    pub cephx: CephxPolicy,
    /// Shown by `node ls` and in the daemon's metadata.
    pub hostname: String,
}

/// The monitor engine.
pub struct Monitor {
    settings: Settings,
    registries: Registries,
    /// Options set on this monitor only.
    running: Running,
    entropy: Entropy,
    phase: Phase,
    state: State,
    stats: Statistics,
    overview: Overview,
    /// CRUSH results as of the map of the last balancer step.
    placement: RawTable,
    liveness: Liveness,
    boots: Boots,
    failures: Failures,
    flapping: Flapping,
    health_seen: HealthSeen,
    sessions: Sessions,
    map_messages: MapMessages,
    handshakes: BTreeMap<ConnId, Handshake>,
    /// Global ids that are reserved durably and not yet assigned.
    global_ids: Range<u64>,
    candidacy: Candidacy,
    relay: Relay,
    /// Authorizer of a session that is being opened with the leader.
    proof: Option<(ConnId, ClientAuthorizer)>,
    proxies: Proxies,
    pipeline: Pipeline,
    clock_checks: ClockChecks,
    outputs: VecDeque<Output<Request>>,
    next_tick: Option<Time>,
    /// The key rotation that was last sent to the services.
    secrets_pushed: u64,
}

#[derive(Debug)]
enum Phase {
    /// The state has not been loaded yet.
    Starting {
        waiting: VecDeque<Input>,
    },
    Serving,
}

/// An input that waits until the state is loaded.
#[derive(Debug)]
enum Input {
    Auth(ConnId, AuthRequest),
    Opened(ConnId, Box<Peer>),
    Message(ConnId, Message),
    Closed(ConnId),
}

impl Monitor {
    /// A monitor on a control store that was filled by [`crate::bootstrap()`] once. `seed` must come from the
    /// system's random source, except in simulations.
    pub fn new(settings: Settings, seed: [u8; 32]) -> Self {
        let overview = Overview::new(Identity {
            mon_name: settings.mon_name.clone(),
            mgr_name: settings.mgr_name.clone(),
            hostname: settings.hostname.clone(),
            ..Identity::default()
        });
        let mut entropy = Entropy::from_seed(seed);
        let candidacy = Candidacy::new(&settings.mon_name, entropy.u64());
        let mut monitor = Monitor {
            settings,
            registries: Registries::default(),
            running: Running::default(),
            entropy,
            phase: Phase::Starting { waiting: VecDeque::new() },
            state: State::default(),
            stats: Statistics::default(),
            overview,
            placement: RawTable::default(),
            liveness: Liveness::default(),
            boots: Boots::default(),
            failures: Failures::default(),
            flapping: Flapping::default(),
            health_seen: HealthSeen::default(),
            sessions: Sessions::default(),
            map_messages: MapMessages::default(),
            handshakes: BTreeMap::new(),
            global_ids: 0..0,
            candidacy,
            relay: Relay::default(),
            proof: None,
            proxies: Proxies::default(),
            pipeline: Pipeline::new(),
            clock_checks: ClockChecks::default(),
            outputs: VecDeque::new(),
            next_tick: None,
            secrets_pushed: 0,
        };
        monitor.load();
        monitor
    }

    /// Sets the high-water mark of earlier runs of this monitor. Must be called before the first input.
    pub fn with_high_water(mut self, mark: HighWater) -> Self {
        self.pipeline.set_high_water(mark);
        self
    }

    /// Sets the host's facts (kernel, CPU, memory, …) for this monitor's metadata.
    pub fn describe_host(&mut self, facts: BTreeMap<String, String>) {
        self.overview.identity.host_facts = facts;
    }

    /// The cluster's id; zero until the state is loaded.
    pub fn fsid(&self) -> Uuid {
        self.state.monmap.fsid
    }

    /// The committed state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The reports of OSDs; only the leader's are complete.
    pub fn statistics(&self) -> &Statistics {
        &self.stats
    }

    /// Whether the state is loaded and the first transaction of this run is durable.
    pub fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Serving) && !self.global_ids.is_empty()
    }

    fn input(&mut self, now: Time, input: Input) {
        match &mut self.phase {
            Phase::Serving => self.serve(now, input),
            Phase::Starting { waiting } => {
                // New connections must not crowd out authenticated peers, such as the daemons of this
                // process.
                let most = match input {
                    Input::Auth(..) => WAITING_MAX / 2,
                    _ => WAITING_MAX,
                };
                if waiting.len() < most {
                    waiting.push_back(input);
                } else if let Input::Message(conn, _) | Input::Auth(conn, _) = input {
                    self.outputs.push_back(Output::Close { conn });
                }
            }
        }
    }

    fn serve(&mut self, now: Time, input: Input) {
        match input {
            Input::Opened(conn, _) if !conn.is_accepted() => self.relay_opened(now, conn),
            Input::Closed(conn) if !conn.is_accepted() => self.relay_closed(now, conn),
            Input::Auth(conn, request) => self.authenticate(now, conn, request),
            Input::Opened(conn, peer) => self.open_session(now, conn, *peer),
            Input::Message(conn, message) => self.handle(now, conn, message),
            Input::Closed(conn) => self.close_session(now, conn),
        }
        self.pump(now);
    }

    fn send(&mut self, conn: ConnId, message: Message) {
        let (conn, message) = self.proxies.route(conn, message, self.state.newest());
        self.outputs.push_back(Output::Send { conn, message });
    }

    /// Closes a session because its peer misbehaved.
    fn close(&mut self, now: Time, conn: ConnId) {
        match self.proxies.closed(conn) {
            Some((conn, message)) => self.outputs.push_back(Output::Send { conn, message }),
            None => self.outputs.push_back(Output::Close { conn }),
        }
        self.close_session(now, conn);
    }

    /// Adds an authenticated session.
    fn open_session(&mut self, now: Time, conn: ConnId, peer: Peer) {
        let cephx = self.handshakes.remove(&conn).and_then(|handshake| handshake.into_cephx());
        self.sessions.open(conn, Session::new(peer, cephx));
        if let Some(osd) = self.sessions.osd(conn) {
            self.liveness.heard(osd, now);
            self.osd_arrived(conn, osd);
        }
        if !self.proxies.is_proxy(conn) {
            self.relay_session_opened(conn);
        }
    }

    /// Removes a session and everything that depends on it. The last session of an OSD starts its grace.
    fn close_session(&mut self, now: Time, conn: ConnId) {
        self.handshakes.remove(&conn);
        self.relay_session_closed(conn);
        self.overview.daemons.end_session(conn);
        let Some(session) = self.sessions.close(conn) else { return };
        self.end_proxies_via(now, conn);
        if let Some(osd) = session.osd()
            && !self.sessions.has_osd(osd)
        {
            self.liveness.lost(osd, now);
        }
    }

    fn verdict(&mut self, conn: ConnId, verdict: AuthVerdict) {
        self.outputs.push_back(Output::Auth { conn, verdict });
    }
}

impl Daemon for Monitor {
    type Request = Request;
    type Completion = Completion;

    fn handle_auth(&mut self, now: Time, conn: ConnId, request: AuthRequest) {
        self.input(now, Input::Auth(conn, request));
    }

    fn authenticate(&mut self, now: Time, conn: ConnId, step: ConnectingStep) -> ConnectingAnswer {
        self.prove_to_monitor(now, conn, step)
    }

    fn handle_opened(&mut self, now: Time, conn: ConnId, peer: Peer) {
        self.input(now, Input::Opened(conn, Box::new(peer)));
    }

    fn handle_message(&mut self, now: Time, conn: ConnId, message: Message) {
        self.input(now, Input::Message(conn, message));
    }

    fn handle_closed(&mut self, now: Time, conn: ConnId) {
        self.input(now, Input::Closed(conn));
    }

    fn handle_completion(&mut self, now: Time, completion: Completion) {
        match completion {
            Completion::Loaded { token, entries, revision } => {
                self.loaded(now, token, &entries, revision);
            }
            Completion::Committed { token, outcome } if self.candidacy.is_claim(token) => {
                self.claimed(now, outcome);
            }
            Completion::Committed { token, outcome } => self.committed(now, token, outcome),
            Completion::Unread { reason, .. } => self.pipeline.unread(now, reason),
            Completion::Leased { token, outcome } => self.leased(now, token, outcome),
            Completion::Changed { events } => self.changed(now, &events),
            Completion::Missed => self.load(),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.synchronise(now);
        self.relay_timeout(now);
        if self.next_tick.is_some_and(|tick| tick <= now) {
            self.next_tick = Some(now + TICK);
            self.watch_reading(now);
            self.tend_candidacy(now);
            self.keep_house(now);
            self.pump(now);
        } else if self.boots.due().is_some_and(|due| due <= now) {
            self.pump(now);
        }
    }

    fn poll_output(&mut self) -> Option<Output<Request>> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let due = [self.pipeline.due(), self.relay.due(), self.boots.due(), self.next_tick];
        due.into_iter().flatten().min()
    }
}
