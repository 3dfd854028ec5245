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
//! One of the monitors is the leader ([`candidacy`]). It alone runs timers and receives the reports of OSDs;
//! the other monitors forward to it the requests that they cannot answer themselves ([`relay`], [`proxies`]).

mod candidacy;
mod complaints;
mod lead;
mod pipeline;
mod proxies;
mod relay;
mod run;
mod subscriptions;

use crate::commands::admission::{Registries, decode_job};
use crate::commands::report::ping;
use crate::high_water::HighWater;
use crate::job::{Job, ServiceJob};
use crate::links::Links;
use crate::live::{DiskSpace, Identity};
use crate::service::{Act, Cx, DecideCx, TICK, Via};
use crate::services::{Services, daemon_registry, registry, service_of, topic_of, via_of};
use crate::sessions::{Session, Sessions};
use crate::settings::{AuthMode, Settings};
use crate::state::{Overrides, State};
use crate::statistics::Statistics;
use auth::{Connector, Entropy, MODE_CRC, MODE_SECURE};
use candidacy::Candidacy;
use codec::Writer;
use control::{Completion, Request};
use engine::{
    AuthRequest, ConnId, ConnectingAnswer, ConnectingStep, Daemon, Message, Output, Peer, Time,
};
use maps::RawTable;
use pipeline::Pipeline;
use proxies::Proxies;
use relay::Relay;
use std::collections::{BTreeMap, VecDeque};
use types::{EntityName, EntityType, Uuid};
use wire::options::Running;
use wire::{
    MessageBody, MonGetVersion, MonGetVersionReply, MonSubscribe, MonSubscribeAck, PeerFault, Ping,
    decode_from_peer,
};

/// Inputs that wait while the state is loaded; a message beyond closes its session.
const WAITING_MAX: usize = 16_384;
/// Renewal interval announced to peers without stateful subscriptions.
const RENEW_INTERVAL_SECONDS: u32 = 300;

/// The monitor engine.
pub struct Monitor {
    settings: Settings,
    identity: Identity,
    registries: Registries,
    /// Options set on this monitor only.
    running: Running,
    /// Their values, as commands and health checks read them.
    overrides: Overrides,
    entropy: Entropy,
    links: Links,
    phase: Phase,
    state: State,
    services: Services,
    /// CRUSH results as of the map of the last balancer step.
    placement: RawTable,
    sessions: Sessions,
    candidacy: Candidacy,
    relay: Relay,
    /// Authentication of this monitor to the one that leads.
    connector: Connector,
    proxies: Proxies,
    pipeline: Pipeline,
    /// Effects of services that are to be performed; empty between calls of services.
    acts: VecDeque<Act>,
    outputs: VecDeque<Output<Request>>,
    next_tick: Option<Time>,
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
        let identity = Identity {
            mon_name: settings.mon_name.clone(),
            mgr_name: settings.mgr_name.clone(),
            hostname: settings.hostname.clone(),
            ..Identity::default()
        };
        let mut entropy = Entropy::from_seed(seed);
        let candidacy = Candidacy::new(&settings.mon_name, entropy.u64());
        let mut monitor = Monitor {
            connector: connector(&settings),
            services: Services::new(&settings),
            identity,
            registries: Registries::new(registry(), daemon_registry()),
            running: Running::default(),
            overrides: Overrides::default(),
            entropy,
            links: Links::default(),
            phase: Phase::Starting { waiting: VecDeque::new() },
            state: State::default(),
            placement: RawTable::default(),
            sessions: Sessions::default(),
            candidacy,
            relay: Relay::default(),
            proxies: Proxies::default(),
            pipeline: Pipeline::new(settings.served),
            settings,
            acts: VecDeque::new(),
            outputs: VecDeque::new(),
            next_tick: None,
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
        self.identity.host_facts = facts;
    }

    /// Sets the space of the file system with this monitor's directory.
    pub fn note_disk_space(&mut self, space: DiskSpace) {
        self.identity.disk = Some(space);
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
        self.services.osd.statistics()
    }

    /// Whether the state is loaded and the first transaction of this run is durable.
    pub fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Serving) && self.services.auth.has_global_ids()
    }

    /// Panics if the state of the monitor contradicts itself.
    pub fn check_invariants(&self) {
        assert!(self.acts.is_empty(), "acts are performed before the next call");
        self.sessions.check_invariants();
        self.pipeline.check_invariants();
        self.relay.check_invariants(&self.sessions, self.leads());
        if matches!(self.phase, Phase::Serving) {
            let leader = self.state.members.leader.as_ref();
            self.candidacy.check_invariants(self.pipeline.newest_token(), leader);
        }
        if self.pipeline.troubles().undecodable.is_none() {
            self.state.check_invariants();
        }
        self.proxies.check_invariants(&self.sessions);
        self.services.check_invariants(&self.state, &self.sessions);
        // A store that went back may have forgotten reservations.
        if !self.pipeline.went_back() {
            self.services.auth.check_reserved(self.state.global_id_next);
        }
    }

    fn input(&mut self, now: Time, input: Input) {
        match &mut self.phase {
            Phase::Serving => self.serve(now, input),
            Phase::Starting { waiting } => {
                // New connections must not displace authenticated peers, such as the daemons of this
                // process.
                let most = match input {
                    Input::Auth(..) => WAITING_MAX / 2,
                    _ => WAITING_MAX,
                };
                if waiting.len() < most {
                    waiting.push_back(input);
                } else if let Input::Message(conn, message) = input {
                    let error = PeerFault::TooMuch { kind: message.kind, limit: most as u64 };
                    tracing::warn!(?conn, fault = %error.kind(), %error, "a session ends while the state is loaded");
                    self.outputs.push_back(Output::Close { conn });
                } else if let Input::Auth(conn, _) = input {
                    self.outputs.push_back(Output::Close { conn });
                }
            }
        }
    }

    fn serve(&mut self, now: Time, input: Input) {
        assert!(matches!(self.phase, Phase::Serving), "inputs wait for the first load");
        match input {
            Input::Opened(conn, _) if !conn.is_accepted() => self.relay_opened(conn),
            Input::Closed(conn) if !conn.is_accepted() => self.relay.closed(now, conn),
            Input::Auth(conn, request) => self.on_services(now, |services, cx| {
                services.auth.authenticate(cx, conn, request);
            }),
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

    /// Closes a session.
    fn close(&mut self, now: Time, conn: ConnId) {
        match self.proxies.closed(conn) {
            Some((conn, message)) => self.outputs.push_back(Output::Send { conn, message }),
            None => self.outputs.push_back(Output::Close { conn }),
        }
        self.close_session(now, conn);
    }

    /// Adds an authenticated session.
    fn open_session(&mut self, now: Time, conn: ConnId, peer: Peer) {
        self.sessions.open(conn, Session::new(peer));
        self.on_services(now, |services, cx| services.session_opened(cx, conn));
        if !self.proxies.is_proxy(conn) {
            self.relay_session_opened(conn);
        }
    }

    /// Removes a session and everything that depends on it.
    fn close_session(&mut self, now: Time, conn: ConnId) {
        self.services.auth.connection_closed(conn);
        self.relay_session_closed(conn);
        let Some(session) = self.sessions.close(conn) else { return };
        // If it was another monitor's, its proxies end too.
        let ended = self.proxies.end_via(conn);
        ended.into_iter().for_each(|conn| self.close_session(now, conn));
        self.on_services(now, |services, cx| services.session_closed(cx, conn, &session));
    }

    /// Handles a message of a session, or forwards it to the leader. A malformed one closes the session.
    pub(super) fn handle(&mut self, now: Time, conn: ConnId, message: Message) {
        let taken = match self.relay.is_link(conn) {
            true => self.handle_leader_message(now, conn, &message),
            false if !self.sessions.contains(conn) => return,
            false if !self.leads() && via_of(message.kind).is_some_and(|via| via != Via::Here) => {
                self.forward(now, conn, &message)
            }
            false => self.dispatch(now, conn, &message),
        };
        if let Err(fault) = taken {
            self.end_session(now, conn, &fault);
        }
    }

    /// Ends a session because of a fault of its peer.
    fn end_session(&mut self, now: Time, conn: ConnId, error: &PeerFault) {
        let peer = self.sessions.get(conn).map(|session| &session.peer().name);
        tracing::warn!(?conn, ?peer, fault = %error.kind(), %error, "a fault of the peer ends its session");
        self.close(now, conn);
    }

    /// Handles a message locally, also if another monitor leads.
    pub(super) fn dispatch(
        &mut self,
        now: Time,
        conn: ConnId,
        message: &Message,
    ) -> Result<(), PeerFault> {
        if self.handle_forwarded(now, conn, message)? {
            return Ok(());
        }
        if let Some(job) = decode_job(now, conn, message)? {
            self.handle_job(now, job);
            return Ok(());
        }
        match message.kind {
            MonSubscribe::KIND => {
                self.subscribe(now, conn, &decode_from_peer::<MonSubscribe>(message)?)
            }
            MonGetVersion::KIND => {
                self.tell_version(conn, message.tid, &decode_from_peer::<MonGetVersion>(message)?);
            }
            Ping::KIND => {
                let mut w = Writer::new();
                w.string(&ping(&self.view(now)));
                self.send(conn, Message::new(Ping::KIND, 1, 1, w.into_bytes()));
            }
            kind => match service_of(kind) {
                Some(id) => self.on_services(now, |services, cx| {
                    services.at(id).handle_message(cx, conn, message)
                })?,
                None => log_unexpected(conn, kind),
            },
        }
        Ok(())
    }

    /// Adds or replaces subscriptions, and serves them at once.
    fn subscribe(&mut self, now: Time, conn: ConnId, message: &MonSubscribe) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        subscriptions::add(&self.state, session, message);
        let features = session.peer().features;
        if !types::features::has(features, types::features::MON_STATEFUL_SUB) {
            let fsid = self.state.monmap.fsid;
            let ack = MonSubscribeAck { interval_seconds: RENEW_INTERVAL_SECONDS, fsid };
            self.send(conn, ack.encode(features));
        }
        self.serve_subscriptions(now, conn);
    }

    fn tell_version(&mut self, conn: ConnId, tid: u64, asked: &MonGetVersion) {
        let version = topic_of(&asked.what).and_then(|(_, topic)| topic.version);
        let (version, oldest_version) = version.map_or((0, 0), |version| version(&self.state));
        let reply = MonGetVersionReply { handle: asked.handle, version, oldest_version };
        let features = self.sessions.features(conn);
        self.send(conn, reply.encode(features).with_tid(tid));
    }

    /// Calls services, and performs their acts.
    fn on_services<R>(
        &mut self,
        now: Time,
        call: impl FnOnce(&mut Services, &mut Cx<'_>) -> R,
    ) -> R {
        assert!(self.acts.is_empty(), "acts are performed before the next call");
        let leads = self.leads();
        let mut acts = std::mem::take(&mut self.acts);
        let mut cx = Cx {
            now,
            state: &self.state,
            sessions: &self.sessions,
            settings: &self.settings,
            running: &self.overrides,
            entropy: &mut self.entropy,
            leads,
            out: &mut acts,
        };
        let result = call(&mut self.services, &mut cx);
        acts.drain(..).for_each(|act| self.perform_act(now, act));
        self.acts = acts;
        result
    }

    fn perform_act(&mut self, now: Time, act: Act) {
        match act {
            Act::Send(conn, message) => self.send(conn, message),
            Act::Close(conn) => self.close(now, conn),
            Act::Enqueue(Job::Of(ServiceJob::Osd(job))) => self.enqueue_osd_job(job),
            Act::Auth(conn, verdict) => self.outputs.push_back(Output::Auth { conn, verdict }),
            Act::Enqueue(job) => drop(self.enqueue(job)),
            Act::EnqueueOnce(job) => self.enqueue_once(job),
            Act::Inform(conn, from) => self.keep_informed(now, conn, from),
            Act::Claimed(osd, epoch) => self.note_epoch_of_osd(now, osd, epoch),
        }
    }

    /// The services, and the inputs of a decision.
    fn deciding(&mut self, now: Time) -> (&mut Services, DecideCx<'_>) {
        let cx = DecideCx {
            now,
            state: &self.state,
            sessions: &self.sessions,
            settings: &self.settings,
            running: &self.overrides,
            entropy: &mut self.entropy,
            high_water: self.pipeline.high_water(),
            placement: &mut self.placement,
        };
        (&mut self.services, cx)
    }
}

/// Logs a message that no monitor handles, or none of this role.
fn log_unexpected(conn: ConnId, kind: u16) {
    let error = PeerFault::NotExpected { kind };
    tracing::debug!(?conn, fault = %error.kind(), %error, "a message is dropped");
}

/// The side that authenticates to the leader.
fn connector(settings: &Settings) -> Connector {
    let name = EntityName::new(EntityType::MON, &settings.mon_name);
    match settings.auth {
        // Secure mode first: the keys of clients pass through the session with the leader.
        AuthMode::Cephx => {
            Connector::new(auth::Identity::Peer { name }, vec![MODE_SECURE, MODE_CRC])
        }
        AuthMode::None => Connector::new(
            auth::Identity::Asserted { name, keeps_global_id: false },
            vec![MODE_CRC],
        ),
    }
}

impl Daemon for Monitor {
    type Request = Request;
    type Completion = Completion;

    fn handle_auth(&mut self, now: Time, conn: ConnId, request: AuthRequest) {
        self.input(now, Input::Auth(conn, request));
    }

    fn authenticate(&mut self, now: Time, conn: ConnId, step: ConnectingStep) -> ConnectingAnswer {
        self.prove_to_leader(now, conn, step)
    }

    fn handle_opened(&mut self, now: Time, conn: ConnId, peer: Peer) {
        self.input(now, Input::Opened(conn, Box::new(peer)));
    }

    fn handle_message(&mut self, now: Time, conn: ConnId, message: Message) {
        self.input(now, Input::Message(conn, message));
    }

    fn handle_closed(&mut self, now: Time, conn: ConnId) {
        self.connector.forget(conn);
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
            self.renew_candidacy(now);
            self.tick(now);
            self.pump(now);
        } else if self.services.osd.boots_due().is_some_and(|due| due <= now) {
            self.pump(now);
        }
    }

    fn poll_output(&mut self) -> Option<Output<Request>> {
        let output = self.outputs.pop_front();
        if let Some(Output::Close { conn }) = &output {
            self.connector.forget(*conn);
        }
        output
    }

    fn poll_timeout(&self) -> Option<Time> {
        let due =
            [self.pipeline.due(), self.relay.due(), self.services.osd.boots_due(), self.next_tick];
        due.into_iter().flatten().min()
    }
}
