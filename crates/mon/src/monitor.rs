//! The engine: inputs, the queue of operations, and the transaction in flight.
//!
//! Operations that may change the state ([`job::Job`]) are done one after the other. Each is run on
//! the committed state, gives a change and the messages to send once that is durable, and is run
//! again if another monitor was faster. While a transaction is in flight, everything that only
//! reads goes on, on the state before it.
//!
//! ```text
//! Loading -- Loaded --> Serving -- conflict, failure --> Loading
//! ```
//!
//! While loading, inputs wait in the order of their arrival.

pub mod balance;
mod fullness;
mod handshake;
mod health_log;
mod history;
mod housekeeping;
mod job;
mod messages;
pub mod numbers;
mod osds;
mod overview;
mod pool_ops;
mod publish;
mod session;
mod verdicts;

pub(crate) use osds::OSD_ID_MAX;
pub use overview::{Overview, PeerSummary};
pub(crate) use pool_ops::{remove_pool_snapshot, take_pool_snapshot};
pub(crate) use verdicts::mark_down;

use crate::command::Registry;
use crate::control::{CommitError, Completion, Entry, Event, Request, Revision, Transaction};
use crate::failures::Failures;
use crate::flapping::Flapping;
use crate::state::State;
use crate::statistics::Statistics;
use auth::{CephxPolicy, Entropy};
use engine::{AuthRequest, AuthVerdict, ConnId, Daemon, Message, Output, Peer, Time};
use handshake::Handshake;
use health_log::HealthSeen;
use job::{Effects, Job};
use osds::Liveness;
use publish::MapMessages;
use session::Session;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;
use types::{EntityAddrVec, Uuid};

/// Operations that wait; what comes beyond is refused.
pub const JOBS_MAX: usize = 4096;
/// Inputs that wait while the state is loaded; further messages close their session.
const WAITING_MAX: usize = 16_384;
/// How often housekeeping looks around.
const TICK: Duration = Duration::from_secs(1);
/// Pause before the store is read again after it failed.
const RELOAD_PAUSE: Duration = Duration::from_millis(500);

/// How clients prove who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthMode {
    Cephx,
    /// Names are believed. By explicit choice only.
    None,
}

/// What a monitor is told when it starts.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `a` of mon.a
    pub mon_name: String,
    pub mon_addrs: EntityAddrVec,
    pub mgr_name: String,
    pub mgr_addrs: EntityAddrVec,
    pub auth: AuthMode,
    /// Connection modes that are accepted (1 crc, 2 secure).
    pub connection_modes: Vec<u32>,
    pub cephx: CephxPolicy,
    /// Shown by `node ls` and in metadata.
    pub hostname: String,
    /// Whether the cluster's OSDs keep what a snapshot must preserve. If not, none can be taken: a
    /// pool with one would refuse writes.
    pub serves_snapshots: bool,
}

/// The monitor engine.
pub struct Monitor {
    settings: Settings,
    registry: Registry,
    entropy: Entropy,
    phase: Phase,
    state: State,
    stats: Statistics,
    overview: Overview,
    liveness: Liveness,
    failures: Failures,
    flapping: Flapping,
    health_seen: HealthSeen,
    sessions: BTreeMap<ConnId, Session>,
    map_messages: MapMessages,
    handshakes: BTreeMap<ConnId, Handshake>,
    /// Global ids that are reserved durably and not yet given out.
    global_ids: Range<u64>,
    jobs: VecDeque<Job>,
    in_flight: Option<InFlight>,
    next_token: u64,
    outputs: VecDeque<Output<Request>>,
    next_tick: Option<Time>,
    /// The rotation that the services were last told of.
    secrets_pushed: u64,
}

#[derive(Debug)]
enum Phase {
    Loading {
        waiting: VecDeque<Input>,
    },
    /// The store failed and is read again at the given time.
    Paused {
        until: Time,
        waiting: VecDeque<Input>,
    },
    Serving,
}

/// An input that waits for the state.
#[derive(Debug)]
enum Input {
    Auth(ConnId, AuthRequest),
    Opened(ConnId, Box<Peer>),
    Message(ConnId, Message),
    Closed(ConnId),
}

struct InFlight {
    token: u64,
    transaction: Transaction,
    job: Job,
    effects: Effects,
}

impl Monitor {
    /// A monitor on a control store that was filled by [`crate::bootstrap()`] once. `seed` must
    /// come from the system's random source, except in simulations.
    pub fn new(settings: Settings, seed: [u8; 32]) -> Self {
        let overview = Overview::new(&settings);
        let mut monitor = Monitor {
            settings,
            registry: crate::commands::registry(),
            entropy: Entropy::from_seed(seed),
            phase: Phase::Serving,
            state: State::default(),
            stats: Statistics::default(),
            overview,
            liveness: Liveness::default(),
            failures: Failures::default(),
            flapping: Flapping::default(),
            health_seen: HealthSeen::default(),
            sessions: BTreeMap::new(),
            map_messages: MapMessages::default(),
            handshakes: BTreeMap::new(),
            global_ids: 0..0,
            jobs: VecDeque::new(),
            in_flight: None,
            next_token: 0,
            outputs: VecDeque::new(),
            next_tick: None,
            secrets_pushed: 0,
        };
        monitor.load(VecDeque::new());
        monitor
    }

    pub fn fsid(&self) -> Uuid {
        self.state.monmap.fsid
    }

    /// The committed state.
    pub fn state(&self) -> &State {
        &self.state
    }

    pub fn statistics(&self) -> &Statistics {
        &self.stats
    }

    /// Whether the state is loaded and the first transaction of this run is durable.
    pub fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Serving) && !self.global_ids.is_empty()
    }

    fn load(&mut self, waiting: VecDeque<Input>) {
        self.phase = Phase::Loading { waiting };
        let token = self.token();
        self.outputs.push_back(Output::Storage(Request::Range { token, prefix: String::new() }));
    }

    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    fn input(&mut self, now: Time, input: Input) {
        match &mut self.phase {
            Phase::Serving => self.serve(now, input),
            Phase::Loading { waiting } | Phase::Paused { waiting, .. } => {
                if waiting.len() < WAITING_MAX {
                    waiting.push_back(input);
                } else if let Input::Message(conn, _) | Input::Auth(conn, _) = input {
                    self.outputs.push_back(Output::Close { conn });
                }
            }
        }
    }

    fn serve(&mut self, now: Time, input: Input) {
        match input {
            Input::Auth(conn, request) => self.authenticate(now, conn, request),
            Input::Opened(conn, peer) => self.open_session(now, conn, *peer),
            Input::Message(conn, message) => self.handle(now, conn, message),
            Input::Closed(conn) => self.close_session(now, conn),
        }
        self.pump(now);
    }

    fn loaded(&mut self, now: Time, entries: &[Entry]) {
        let Phase::Loading { waiting } = &mut self.phase else { return };
        let waiting = std::mem::take(waiting);
        match State::load(entries) {
            Ok(state) => self.state = state,
            Err(error) => {
                tracing::error!(%error, key = error.key, "the control store is unreadable");
                self.phase = Phase::Paused { until: now + RELOAD_PAUSE, waiting };
                return;
            }
        }
        self.phase = Phase::Serving;
        if self.next_tick.is_none() {
            self.overview.started = now;
            self.next_tick = Some(now + TICK);
            self.jobs.push_front(Job::Start);
            // Whoever does not come back after a restart of everything counts as gone.
            for (osd, _) in self.state.osdmap.existing_osds().filter(|(_, osd)| osd.is_up()) {
                self.liveness.lost(osd, now);
            }
        }
        self.publish(now);
        self.pump(now);
        for input in waiting {
            self.input(now, input);
        }
    }

    /// Appends an operation, or answers at once that there are too many.
    fn enqueue(&mut self, job: Job) {
        if self.jobs.len() < JOBS_MAX {
            self.jobs.push_back(job);
        } else {
            self.reject(job, "the monitor has too much to do; try again later");
        }
    }

    /// Runs operations until one has to wait for its transaction.
    fn pump(&mut self, now: Time) {
        while self.in_flight.is_none() && matches!(self.phase, Phase::Serving) {
            let Some(job) = self.jobs.pop_front() else { return };
            let (change, effects) = self.run(now, &job);
            if change.is_empty() {
                self.finish(now, job, effects);
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

    fn committed(&mut self, now: Time, token: u64, outcome: Result<Revision, CommitError>) {
        let Some(in_flight) = self.in_flight.take_if(|in_flight| in_flight.token == token) else {
            return;
        };
        let InFlight { transaction, job, effects, .. } = in_flight;
        match outcome {
            Ok(revision) => {
                self.apply(transaction.writes.into_iter().map(|(key, value)| Event {
                    key,
                    value,
                    revision,
                }));
                self.finish(now, job, effects);
                self.publish(now);
                self.pump(now);
            }
            Err(CommitError::Conflict) => {
                self.jobs.push_front(job);
                self.load(VecDeque::new());
            }
            Err(CommitError::Failed { reason }) => {
                tracing::error!(reason, "the control store failed");
                self.reject(job, &format!("the control store failed: {reason}"));
                let until = now + RELOAD_PAUSE;
                self.phase = Phase::Paused { until, waiting: VecDeque::new() };
            }
        }
    }

    fn apply(&mut self, events: impl IntoIterator<Item = Event>) {
        for Event { key, value, revision } in events {
            if let Err(error) = self.state.apply(&key, value.as_ref(), revision) {
                tracing::error!(%error, "a key of the control store is unreadable");
            }
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

    fn send(&mut self, conn: ConnId, message: Message) {
        self.outputs.push_back(Output::Send { conn, message });
    }

    /// Ends a session for what its peer did.
    fn close(&mut self, now: Time, conn: ConnId) {
        self.outputs.push_back(Output::Close { conn });
        self.close_session(now, conn);
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
            Completion::Loaded { entries, .. } => self.loaded(now, &entries),
            Completion::Committed { token, outcome } => self.committed(now, token, outcome),
            Completion::Changed { events } => {
                // While loading, what is loaded may already hold these; afterwards newer ones win.
                if matches!(self.phase, Phase::Serving) {
                    self.apply(events);
                    self.publish(now);
                    self.pump(now);
                }
            }
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if let Phase::Paused { until, waiting } = &mut self.phase
            && *until <= now
        {
            let waiting = std::mem::take(waiting);
            self.load(waiting);
        }
        if self.next_tick.is_some_and(|tick| tick <= now) {
            self.next_tick = Some(now + TICK);
            self.keep_house(now);
            self.pump(now);
        }
    }

    fn poll_output(&mut self) -> Option<Output<Request>> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let pause = match self.phase {
            Phase::Paused { until, .. } => Some(until),
            _ => None,
        };
        [pause, self.next_tick].into_iter().flatten().min()
    }
}
