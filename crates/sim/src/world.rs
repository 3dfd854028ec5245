//! Virtual world: processes, the network between them, and time.
//!
//! Events run one at a time: an arrival, a timer, a client's request, a fault. After each, the processes
//! involved are drained and their invariants checked.

mod ballast;
mod disks;
mod fault_injection;
mod groups;
mod image;
mod issued;
mod omission;
mod quota;
mod removal;
mod resending;
mod snapshots;
mod watching;

pub use ballast::draw as draw_ballast;
pub use disks::{Misread, Replacement};
pub use removal::{out_command, purge_command};

use crate::agenda::Agenda;
use crate::check::issued::Issued;
use crate::faults::{Cast, Fault, Kind};
use crate::history::{Entry, History};
use crate::model::Observation;
use crate::network::{
    Arrival, Context, Delivery, Direct, Network, NetworkEvent, NetworkFaults, NodeId, Presence,
    Wired,
};
use crate::process::{
    ClientEvent, ClientProcess, ImageUser, MonitorProcess, OsdProcess, Process, Shared, StoreDisk,
};
use crate::scaling::Steady;
use crate::scenario::Scenario;
use crate::snapshots::Snapshots;
use crate::trace::{Brief, Trace};
use crate::watching::Watching;
use crate::workload::Workload;
use engine::{ConnId, ConnectingStep, Duration, Message, NodeOutput, Time};
use maps::OsdMap;
use rados::OperationReply;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::Hasher;
use stdx::{FastHasher, Prng};
use types::{Epoch, Errno, OsdId, PoolId};

const SNAPSHOTS_SALT: u64 = 0x5eaf_00d5;
/// Start of virtual time.
pub const START: Time = Time(1_750_000_000_000_000_000);
/// Nonce stride between incarnations, so that a blocklist entry matches exactly one.
const NONCES: u32 = 1 << 16;
/// Bound for events within one instant; more are a live-lock.
const EVENTS_PER_INSTANT_MAX: u64 = 200_000;
/// Interval at which a client without a request to make looks again.
const IDLE: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Network(NetworkEvent),
    /// A timer or the disk of a process is due.
    Wake(NodeId),
    /// A client makes its next request; `start` is compared with the process's, which may have restarted.
    Think {
        node: NodeId,
        start: u32,
    },
    Fault(Fault),
    /// Draws the next fault.
    InjectFault,
}

pub enum Body {
    Monitor(Box<MonitorProcess>),
    Osd(Box<OsdProcess>),
    Client(Box<ClientProcess>),
}

impl Body {
    pub fn is_client(&self) -> bool {
        matches!(self, Body::Client(_))
    }

    pub fn image_user(&self) -> Option<&dyn ImageUser> {
        match self {
            Body::Client(client) => client.image_user.as_deref(),
            _ => None,
        }
    }
}

pub struct Node {
    pub body: Body,
    /// The scheduled time of the next wake-up.
    wake: Option<Time>,
    starts: u32,
}

impl Node {
    pub fn new(body: Body) -> Self {
        Node { body, wake: None, starts: 0 }
    }

    pub fn process(&mut self) -> &mut dyn Process {
        match &mut self.body {
            Body::Monitor(process) => &mut **process,
            Body::Osd(process) => &mut **process,
            Body::Client(process) => &mut **process,
        }
    }
}

pub struct World {
    pub scenario: Scenario,
    pub agenda: Agenda<Event>,
    /// Total of all clock jumps.
    jumped: Duration,
    /// By how much the clock of each process is ahead of the agenda.
    skews: Vec<Duration>,
    network: Network,
    pub network_faults: NetworkFaults,
    presences: Vec<Presence>,
    deliveries: VecDeque<Delivery>,
    pub nodes: Vec<Node>,
    pub cast: Cast,
    network_prng: Prng,
    pub fault_prng: Prng,
    seeds: Prng,
    pub trace: Trace,
    pub history: History,
    pub watching: Watching,
    pub issued: Issued,
    /// The control store was restored: state that it lacks cannot be changed any more.
    pub has_restored_control: bool,
    pub workload: Workload,
    pub snapshots: Snapshots,
    /// True while clients make requests and faults happen.
    pub is_busy: bool,
    /// The OSD whose disk is being replaced.
    pub replacement: Option<Replacement>,
    /// The OSD that is being removed.
    removal: Option<removal::Removal>,
    /// Number of faults by kind.
    pub tally: BTreeMap<Kind, u64>,
    /// OSDs whose disks fail now.
    pub bad_disks: BTreeSet<NodeId>,
    /// OSDs whose disks other data fills.
    filled: BTreeSet<NodeId>,
    /// Nodes whose ballast was removed; a crash may undo that.
    emptied: BTreeSet<NodeId>,
    /// OSDs whose disks fail one read.
    pub failing_reads: BTreeSet<NodeId>,
    /// Requests in flight of clients that may resend them, by client and tid.
    sent: BTreeMap<(NodeId, u64), (ConnId, Message)>,
    /// The pool that exceeds its quota, with the epoch of the map that says so.
    pub over_quota: Option<(PoolId, Epoch)>,
    /// The pool with a constant number of groups, once it exists.
    pub steady: Option<Steady>,
    /// Times in which disks failed to read data of which they may have the only copy.
    pub misreads: Vec<Misread>,
    /// A store has lost data that it was told to keep.
    has_omitted: bool,
    /// Weights or states of OSDs were changed.
    pub has_churned: bool,
    pub commands_done: Vec<(String, Result<i32, Errno>)>,
    /// The output of the last command.
    pub output: bytes::Bytes,
    pools_made: u32,
    actors_made: u32,
    instant: (Time, u64),
    pub events: u64,
}

impl World {
    pub fn new(
        scenario: Scenario,
        nodes: Vec<(Body, Presence)>,
        workload: Workload,
        seeds: &mut Prng,
        printed: bool,
    ) -> Self {
        let (nodes, presences): (Vec<Node>, Vec<Presence>) =
            nodes.into_iter().map(|(body, presence)| (Node::new(body), presence)).unzip();
        let network = match scenario.is_wired {
            true => Network::Wired(Wired::default()),
            false => Network::Direct(Direct::default()),
        };
        let of_kind = |wanted: fn(&Body) -> bool| {
            let nodes = nodes.iter().enumerate();
            nodes.filter(|(_, node)| wanted(&node.body)).map(|(index, _)| index).collect::<Vec<_>>()
        };
        let osds = of_kind(|body| matches!(body, Body::Osd(_)));
        let node_of = |osd: Option<OsdId>| osd.map(|osd| osds[osd.0 as usize]);
        let cast = Cast {
            monitors: of_kind(|body| matches!(body, Body::Monitor(_))),
            hosts: hosts(&scenario, &osds),
            spares: osds[scenario.osds..].to_vec(),
            troubled: node_of(scenario.misreader()),
            removed: node_of(scenario.removed),
            rotting: node_of(scenario.rotting),
            clients: of_kind(|body| body.image_user().is_none() && body.is_client()),
            image_users: of_kind(|body| body.image_user().is_some()),
            sharers: match scenario.image_sharers {
                0 => Vec::new(),
                _ => of_kind(|body| body.image_user().is_some()),
            },
            osds,
        };
        let (delay_min_us, delay_max_us) = scenario.delay_us;
        // A generator of its own: other draws are not affected.
        let prng = Prng::new(scenario.seed ^ SNAPSHOTS_SALT);
        let snapshots = Snapshots::new(prng, scenario.has_snapshots);
        World {
            scenario,
            agenda: Agenda::new(START),
            jumped: Duration::ZERO,
            skews: vec![Duration::ZERO; nodes.len()],
            network,
            network_faults: NetworkFaults::none(delay_min_us, delay_max_us),
            presences,
            deliveries: VecDeque::new(),
            nodes,
            cast,
            network_prng: seeds.fork(),
            fault_prng: seeds.fork(),
            seeds: seeds.fork(),
            trace: Trace::new(START, printed),
            history: History::default(),
            watching: Watching::default(),
            issued: Issued::default(),
            has_restored_control: false,
            workload,
            snapshots,
            is_busy: false,
            replacement: None,
            removal: None,
            tally: BTreeMap::new(),
            bad_disks: BTreeSet::new(),
            filled: BTreeSet::new(),
            emptied: BTreeSet::new(),
            failing_reads: BTreeSet::new(),
            sent: BTreeMap::new(),
            over_quota: None,
            steady: None,
            misreads: Vec::new(),
            has_omitted: false,
            has_churned: false,
            commands_done: Vec::new(),
            output: bytes::Bytes::new(),
            pools_made: 0,
            actors_made: 0,
            instant: (START, 0),
            events: 0,
        }
    }

    /// The clock of that process.
    pub fn clock(&self, node: NodeId) -> Time {
        self.agenda.now() + self.skews[node]
    }

    /// Runs the next event, unless it is later than `limit`.
    pub fn step(&mut self, limit: Time) -> bool {
        let Some(event) = self.agenda.next(limit) else { return false };
        self.events += 1;
        let now = self.agenda.now();
        let count = if self.instant.0 == now { self.instant.1 + 1 } else { 0 };
        assert!(count < EVENTS_PER_INSTANT_MAX, "the cluster spins without time passing");
        self.instant = (now, count);
        self.control().borrow_mut().tell_time(now);
        match event {
            Event::Network(event) => self.network(|network, cx| network.handle(cx, event)),
            Event::Wake(node) => self.wake(node),
            Event::Think { node, start } => self.think(node, start),
            // Faults scheduled before healing are dropped.
            Event::Fault(_) if !self.is_busy => {}
            Event::Fault(fault) => self.fault(fault),
            Event::InjectFault => self.inject_fault(),
        }
        self.settle();
        true
    }

    /// Runs until `done`, or until `limit`; returns true if `done` was reached.
    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&mut World) -> bool) -> bool {
        let limit = self.agenda.now() + limit;
        loop {
            if done(self) {
                return true;
            }
            if !self.step(limit) {
                self.agenda.skip_to(limit);
                return done(self);
            }
        }
    }

    fn network(&mut self, act: impl FnOnce(&mut Network, &mut Context<'_>)) {
        let mut context = Context {
            skews: &self.skews,
            agenda: &mut self.agenda,
            prng: &mut self.network_prng,
            presences: &self.presences,
            network_faults: &self.network_faults,
            deliveries: &mut self.deliveries,
        };
        act(&mut self.network, &mut context);
    }

    fn settle(&mut self) {
        while let Some(delivery) = self.deliveries.pop_front() {
            self.deliver(delivery);
        }
        // All monitors learn of changes that one commits.
        for index in 0..self.cast.monitors.len() {
            let monitor = self.cast.monitors[index];
            if !self.network_faults.is_paused(monitor) {
                self.plan_wake(monitor);
            }
        }
    }

    fn deliver(&mut self, Delivery { node, conn, arrival }: Delivery) {
        let now = self.clock(node);
        let name = self.presences[node].participant();
        if !self.nodes[node].process().is_up() {
            return;
        }
        match arrival {
            Arrival::Message(message) => {
                let (kind, tid, length) = (message.kind, message.tid, message.len());
                self.note_reply(node, &message);
                self.line(format_args!("{name} {} < {kind:#x} tid {tid} {length} bytes", conn.0));
                self.nodes[node].process().handle_message(now, conn, message);
            }
            Arrival::Opened(peer) => {
                self.line(format_args!("{name} {} opened with {}", conn.0, peer.participant));
                self.nodes[node].process().handle_opened(now, conn, peer);
            }
            Arrival::Refused => {
                self.line(format_args!("{name} {} finds nobody", conn.0));
                self.nodes[node].process().handle_refused(now, conn);
            }
            Arrival::Closed => {
                self.line(format_args!("{name} {} closed", conn.0));
                self.forget_sent(node, conn);
                self.nodes[node].process().handle_closed(now, conn);
            }
            Arrival::Auth(request) => {
                self.line(format_args!("{name} {} is authenticated to", conn.0));
                self.nodes[node].process().handle_auth(now, conn, request);
            }
            Arrival::Connecting(step) => {
                self.line(format_args!("{name} {} authenticates: {}", conn.0, step_name(&step)));
                let answer = self.nodes[node].process().authenticate(now, conn, step);
                self.network(|network, cx| network.answer(cx, node, conn, answer));
            }
        }
        self.touch(node);
    }

    fn line(&mut self, what: std::fmt::Arguments<'_>) {
        self.trace.line(self.agenda.now(), what);
    }

    fn wake(&mut self, node: NodeId) {
        if self.nodes[node].wake != Some(self.agenda.now()) {
            return; // it was woken earlier, and planned anew
        }
        self.nodes[node].wake = None;
        if self.network_faults.is_paused(node) {
            return;
        }
        let now = self.clock(node);
        if self.nodes[node].process().poll_timeout().is_some_and(|due| due <= now) {
            self.nodes[node].process().handle_timeout(now);
        }
        self.touch(node);
    }

    /// Drains the outputs of a process, and schedules its next wake-up.
    pub fn touch(&mut self, node: NodeId) {
        if self.network_faults.is_paused(node) {
            return;
        }
        let now = self.clock(node);
        if let Body::Monitor(monitor) = &mut self.nodes[node].body {
            monitor.note_leadership();
        }
        loop {
            while let Some(output) = self.nodes[node].process().poll_output(now) {
                self.perform(node, output);
            }
            while let Body::Client(client) = &mut self.nodes[node].body {
                let Some(event) = client.poll_event() else { break };
                self.handle_client_event(node, event);
            }
            let Body::Client(client) = &mut self.nodes[node].body else { break };
            if !client.send_for_image(now) {
                break;
            }
        }
        self.note_confirmed_watches(node);
        self.nodes[node].process().check_invariants();
        self.check_findings(node);
        self.check_quota(node);
        self.check_issued(node);
        self.check_memory(node);
        self.check_steady(node);
        self.plan_wake(node);
    }

    fn plan_wake(&mut self, node: NodeId) {
        let skew = self.skews[node];
        let Some(due) = self.nodes[node].process().poll_timeout() else { return };
        let due = (due - skew).max(self.agenda.now());
        if self.nodes[node].wake.is_none_or(|wake| due < wake) {
            self.nodes[node].wake = Some(due);
            self.agenda.at(due, Event::Wake(node));
        }
    }

    /// Digest of the outputs of all nodes.
    pub fn digest(&mut self) -> u64 {
        let mut hasher = FastHasher::default();
        for node in &mut self.nodes {
            hasher.write_u64(node.process().digest());
        }
        hasher.finish()
    }

    fn perform(&mut self, node: NodeId, output: NodeOutput) {
        if let NodeOutput::Connect { conn, target } = &output {
            let (name, to) = (self.presences[node].participant(), target.participant);
            self.line(format_args!("{name} {} connects to {to} at {}", conn.0, target.addrs));
        }
        self.note_sent(node, &output);
        self.network(|network, cx| match output {
            NodeOutput::Send { conn, message } => network.send(cx, node, conn, message),
            NodeOutput::Connect { conn, target } => network.connect(cx, node, conn, &target),
            NodeOutput::Close { conn } => network.close(cx, node, conn),
            NodeOutput::Auth { conn, verdict } => network.verdict(cx, node, conn, verdict),
            NodeOutput::Pause { conn, paused } => network.pause(cx, node, conn, paused),
        });
    }

    fn handle_client_event(&mut self, node: NodeId, event: ClientEvent) {
        match event {
            ClientEvent::Map | ClientEvent::Unwatched => {}
            ClientEvent::Command(command, outcome) => {
                self.line(format_args!("client {node} command {command}: {outcome:?}"));
                let outcome = outcome.map(|output| {
                    self.output = output.output;
                    output.result
                });
                assert!(
                    outcome != Ok(-Errno::IO.0) || self.has_restored_control,
                    "{command}: monitors wait for the control store"
                );
                self.commands_done.push((command, outcome));
            }
            ClientEvent::Request(request, outcome) => self.answered(request, outcome),
            ClientEvent::Snapshot(action, outcome) => self.handle_snapshot_event(action, outcome),
            about => self.handle_watch_event(node, about),
        }
    }

    fn answered(&mut self, request: usize, reply: Result<OperationReply, Errno>) {
        let now = self.agenda.now();
        let version = reply.as_ref().map_or(types::EVersion::ZERO, |reply| reply.version);
        let entry = self.history.entry(request);
        let outcome =
            reply.map(|reply| entry.action.observe(&reply.ops).expect("replies to reads decode"));
        let object = entry.object;
        match &outcome {
            Ok(Observation { data: Some(data), .. }) => {
                let length = data.len();
                self.line(format_args!("request {request} saw {length} bytes"));
            }
            Ok(_) => self.line(format_args!("request {request} done at {version}")),
            Err(errno) => self.line(format_args!("request {request} failed: {errno:?}")),
        }
        if let Ok(observation) = &outcome
            && let Some(guard) = &observation.guard
        {
            self.workload.saw_guard(object, guard);
        }
        self.history.complete(request, now, outcome, version);
    }

    /// A client makes a request, if it may; schedules the next one.
    fn think(&mut self, node: NodeId, start: u32) {
        if self.nodes[node].starts != start || !self.is_busy {
            return;
        }
        let (in_flight_max, average) = (self.scenario.in_flight_max, self.scenario.think_us);
        let wait = Duration::from_micros(self.workload.think_us(average));
        if self.restart_if_shut_out(node) {
            return;
        }
        let Body::Client(client) = &mut self.nodes[node].body else { return };
        let is_awake = client.hosted.daemon.is_some() && !self.network_faults.is_paused(node);
        let ready = is_awake && client.in_flight() < in_flight_max;
        if ready && client.image_user.is_some() {
            self.think_of_image(node);
        } else if ready {
            let actor = client.actor;
            let change = self.snapshots.next_change();
            match (change, self.workload.next_watch()) {
                (Some(change), _) => self.change_snapshots(node, change),
                (None, Some(action)) => self.watch(node, action),
                (None, None) => {
                    let (object, action) = self.workload.next(actor);
                    let is_journal = self.workload.targets[object].is_journal;
                    let action = self.snapshots.instead(object, action, is_journal);
                    self.request(node, object, action);
                }
            }
        }
        self.agenda.after(wait, Event::Think { node, start });
    }

    /// A client makes a request; returns false if it does not know the pool yet, and requests a map.
    pub fn request(
        &mut self,
        node: NodeId,
        object: crate::history::ObjectId,
        action: crate::model::Action,
    ) -> bool {
        let (at, clock) = (self.agenda.now(), self.clock(node));
        let target = self.workload.targets[object].clone();
        let Body::Client(client) = &mut self.nodes[node].body else { return false };
        if !client.knows_pool(&target.pool) {
            if client.in_flight() == 0 {
                client.fetch_map();
            }
            self.touch(node);
            return false;
        }
        let context = match action.is_write() {
            true => self.snapshots.context(),
            false => Default::default(),
        };
        let actor = client.actor;
        let request = self.history.invoke(at, actor, object, action.clone(), context.clone());
        client.submit(clock, request, &target.pool, &target.name, &action, context);
        let brief = Brief(&action);
        self.line(format_args!("request {request} of actor {actor}: {} {brief}", target.name));
        self.touch(node);
        true
    }

    pub fn command(&mut self, node: NodeId, command: &str) {
        let now = self.clock(node);
        if let Body::Client(client) = &mut self.nodes[node].body {
            client.command(now, command);
        }
        self.touch(node);
        self.settle();
    }

    pub fn start(&mut self, node: NodeId) {
        let is_absent = self.is_being_replaced(node) || self.is_removed(node);
        if self.nodes[node].process().is_up() || is_absent {
            return;
        }
        let ahead = self.fault_prng.below(self.scenario.skew_ms_max + 1);
        self.skews[node] = self.jumped + Duration::from_millis(ahead);
        let now = self.clock(node);
        let seed = self.seed();
        self.nodes[node].starts += 1;
        let start = self.nodes[node].starts;
        self.presences[node].is_up = true;
        let name = self.presences[node].participant();
        self.line(format_args!("{name} (node {node}) starts"));
        match &mut self.nodes[node].body {
            Body::Monitor(process) => process.start(seed),
            Body::Osd(process) => {
                let addrs = crate::cluster::osd_addrs(process.config.id, start);
                self.presences[node].addrs = addrs.clone();
                process.start(addrs, seed);
            }
            Body::Client(process) => {
                self.actors_made += 1;
                let addrs = &mut self.presences[node].addrs;
                addrs.0.iter_mut().for_each(|addr| addr.nonce += NONCES * (start - 1).min(1));
                process.start(now, self.actors_made, seed);
                self.agenda.after(IDLE, Event::Think { node, start });
            }
        }
        self.touch(node);
    }

    fn seed(&mut self) -> [u8; 32] {
        let mut seed = [0; 32];
        self.seeds.fill(&mut seed);
        seed
    }

    fn with_store(&mut self, node: NodeId, act: impl FnOnce(&mut StoreDisk, Time)) {
        let now = self.clock(node);
        if let Body::Osd(osd) = &mut self.nodes[node].body {
            act(&mut osd.hosted.disk, now);
        }
    }

    /// True if the device of that OSD may have lost data.
    pub fn is_rotten(&self, osd: OsdId) -> bool {
        [self.scenario.rotten, self.scenario.rotting].contains(&Some(osd))
    }

    /// True if a client knows the pool; one that does not requests a map.
    pub fn knows_pool(&mut self, node: NodeId) -> bool {
        let Body::Client(client) = &mut self.nodes[node].body else { return false };
        let knows = client.knows_pool(crate::cluster::POOL);
        if !knows && client.in_flight() == 0 {
            client.fetch_map();
            self.touch(node);
        }
        knows
    }

    /// Number of requests in flight.
    pub fn in_flight(&self) -> usize {
        let of = |node: &Node| match &node.body {
            Body::Client(client) => client.in_flight(),
            _ => 0,
        };
        self.nodes.iter().map(of).sum()
    }

    /// Requests of running clients without a response.
    pub fn unanswered(&self) -> impl Iterator<Item = &Entry> {
        let entries = self.history.entries().iter();
        let open = entries.filter(|entry| entry.completed.is_none());
        open.filter(|entry| self.clients().any(|client| client.actor == entry.actor))
    }

    /// Requests of clients that are not in the history and have no response.
    pub fn waiting_for(&self) -> Vec<String> {
        self.clients().flat_map(ClientProcess::waits_for).collect()
    }

    /// True while a command has no response, so that it may be executed at any time.
    pub fn has_commands(&self) -> bool {
        self.clients().any(ClientProcess::has_commands)
    }

    fn clients(&self) -> impl Iterator<Item = &ClientProcess> {
        self.nodes.iter().filter_map(|node| match &node.body {
            Body::Client(client) => Some(&**client),
            _ => None,
        })
    }

    pub fn osds(&self) -> impl Iterator<Item = &OsdProcess> {
        self.nodes.iter().filter_map(|node| match &node.body {
            Body::Osd(osd) => Some(&**osd),
            _ => None,
        })
    }

    pub fn osds_mut(&mut self) -> impl Iterator<Item = &mut OsdProcess> {
        self.nodes.iter_mut().filter_map(|node| match &mut node.body {
            Body::Osd(osd) => Some(&mut **osd),
            _ => None,
        })
    }

    pub fn monitor(&self) -> &MonitorProcess {
        match &self.nodes[self.cast.monitors[0]].body {
            Body::Monitor(monitor) => monitor,
            _ => unreachable!("the cast knows the monitors"),
        }
    }

    /// The newest map of a running monitor: one may answer before another learns of it. A monitor that has
    /// not loaded the control store yet has none.
    pub fn newest_map(&self) -> Option<&OsdMap> {
        let monitors = self.cast.monitors.iter().filter_map(|node| match &self.nodes[*node].body {
            Body::Monitor(monitor) => monitor.hosted.daemon.as_ref(),
            _ => None,
        });
        let maps = monitors.map(|monitor| &monitor.state().osdmap);
        maps.filter(|map| map.epoch > Epoch(0)).max_by_key(|map| map.epoch)
    }

    /// The control store shared by all monitors.
    pub fn control(&self) -> Shared {
        self.monitor().hosted.disk.shared()
    }
}

/// OSDs of each host, without those that join later.
fn hosts(scenario: &Scenario, osds: &[NodeId]) -> Vec<Vec<NodeId>> {
    let mut hosts = vec![Vec::new(); scenario.hosts];
    for (number, osd) in osds[..scenario.osds].iter().enumerate() {
        hosts[number % scenario.hosts].push(*osd);
    }
    hosts
}

pub fn create_pool_command(name: &str, pg_num: u32, size: u8) -> String {
    format!(
        r#"{{"prefix":"osd pool create","pool":"{name}","pg_num":{pg_num},"pgp_num":{pg_num},"size":{size},"pg_autoscale_mode":"off"}}"#
    )
}

pub fn set_pool_command(pool: &str, variable: &str, value: &str) -> String {
    format!(r#"{{"prefix":"osd pool set","pool":"{pool}","var":"{variable}","val":"{value}"}}"#)
}

fn step_name(step: &ConnectingStep) -> &'static str {
    match step {
        ConnectingStep::Begin => "begins",
        ConnectingStep::More { .. } => "goes on",
        ConnectingStep::Done { .. } => "is done",
        ConnectingStep::BadMethod { .. } => "is refused",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_monitor_that_has_read_nothing_has_no_map() {
        let mut world = crate::cluster::build(Scenario::draw(1), false);
        world.start(world.cast.monitors[0]);
        assert!(world.newest_map().is_none());
        assert!(world.run_until(Duration::from_secs(60), |world| world.newest_map().is_some()));
    }
}
