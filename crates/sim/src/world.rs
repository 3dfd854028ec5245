//! Virtual world: processes, the network between them, clocks, and what their users know.
//!
//! The world hands inputs to processes, takes their outputs, and checks their invariants. It makes nothing
//! happen by itself: [`crate::events`] takes events from the agenda, [`crate::load`] makes the requests of
//! clients, and [`crate::inject`] applies faults. Each part of the world owns its state.

mod checks;
mod clocks;
mod commands;
mod disk_faults;
mod injection;
mod nodes;
mod queries;
mod records;
mod resending;
mod transport;

pub use checks::Steady;
pub use disk_faults::{DiskFaults, Misread, Replacement};
pub use injection::Removal;

use crate::agenda::Agenda;
use crate::cast::Cast;
use crate::check::coexistence;
use crate::event::Event;
use crate::network::{Arrival, Context, Delivery, Network, Presence};
use crate::node::NodeId;
use crate::process::{ClientProcess, MdsProcess, OsdProcess, Process, Shared, StoreDisk};
use crate::scenario::Scenario;
use crate::snapshots::Snapshots;
use crate::trace::{Brief, Trace};
use crate::workload::Workload;
use checks::Checks;
use clocks::Clocks;
use engine::{ConnectingStep, Duration, NodeOutput, Time};
use injection::Injection;
use maps::OsdMap;
use nodes::Nodes;
use records::{Moment, Records};
use resending::Resending;
use std::fmt::Arguments;
use stdx::Prng;
use transport::Transport;
use types::{Epoch, OsdId};

const SNAPSHOTS_SALT: u64 = 0x5eaf_00d5;
/// Start of virtual time.
pub const START: Time = Time(1_750_000_000_000_000_000);
/// Interval at which a client without a request to make looks again.
const IDLE: Duration = Duration::from_millis(200);

/// Time in which a metadata server starts again whose run was over.
const RESTART: Duration = Duration::from_millis(500);

/// A cluster with its clients, and everything around it.
pub struct World {
    pub(crate) scenario: Scenario,
    pub(crate) cast: Cast,
    pub(crate) agenda: Agenda<Event>,
    pub(crate) clocks: Clocks,
    pub(crate) nodes: Nodes,
    pub(crate) transport: Transport,
    pub(crate) trace: Trace,
    pub(crate) records: Records,
    pub(crate) resending: Resending,
    pub(crate) checks: Checks,
    pub(crate) disks: DiskFaults,
    pub(crate) injection: Injection,
    /// Seeds of daemons.
    seeds: Prng,
    /// Names given to lives of clients.
    actors_made: u32,
}

impl World {
    /// A world in which no process runs yet.
    pub fn new(
        scenario: Scenario,
        nodes: Vec<(Box<dyn Process>, Presence)>,
        workload: Workload,
        seeds: &mut Prng,
        printed: bool,
    ) -> Self {
        let nodes = Nodes::new(nodes);
        // A generator of its own: other draws are not affected.
        let prng = Prng::new(scenario.seed ^ SNAPSHOTS_SALT);
        let snapshots = Snapshots::new(prng, scenario.load.has_snapshots);
        World {
            cast: cast(&scenario, &nodes),
            agenda: Agenda::new(START),
            clocks: Clocks::new(nodes.count()),
            nodes,
            transport: Transport::new(&scenario.network, seeds.fork()),
            injection: Injection::new(seeds.fork()),
            seeds: seeds.fork(),
            trace: Trace::new(START, printed),
            records: Records::new(workload, snapshots, &scenario),
            resending: Resending::new(scenario.trials.resends),
            checks: Checks::default(),
            disks: DiskFaults::default(),
            actors_made: 0,
            scenario,
        }
    }

    /// True time.
    pub fn now(&self) -> Time {
        self.agenda.now()
    }

    /// The clock of that process.
    pub fn clock(&self, node: NodeId) -> Time {
        self.agenda.now() + self.clocks.skew(node)
    }

    /// Adds a line to the trace.
    pub fn line(&mut self, what: Arguments<'_>) {
        self.trace.line(self.agenda.now(), what);
    }

    /// Lets the network act.
    pub fn network(&mut self, act: impl FnOnce(&mut Network, &mut Context<'_>)) {
        let presences = self.nodes.presences();
        self.transport.act(&self.clocks, &mut self.agenda, presences, act);
    }

    /// Hands all arrivals to their processes.
    pub fn settle(&mut self) {
        while let Some(delivery) = self.transport.poll_delivery() {
            self.deliver(delivery);
        }
        // All monitors learn of changes that one commits.
        for index in 0..self.cast.monitors.len() {
            let monitor = self.cast.monitors[index];
            if !self.transport.is_paused(monitor) {
                self.plan_wake(monitor);
            }
        }
    }

    fn deliver(&mut self, Delivery { node, conn, arrival }: Delivery) {
        let now = self.clock(node);
        let name = self.nodes.name(node);
        if !self.nodes.is_up(node) {
            return;
        }
        match arrival {
            Arrival::Message(message) => {
                let (kind, tid, length) = (message.kind, message.tid, message.len());
                self.resending.note_reply(node, &message);
                self.line(format_args!("{name} {} < {kind:#x} tid {tid} {length} bytes", conn.0));
                self.nodes.process_mut(node).handle_message(now, conn, message);
            }
            Arrival::Opened(peer) => {
                self.line(format_args!("{name} {} opened with {}", conn.0, peer.participant));
                self.nodes.process_mut(node).handle_opened(now, conn, peer);
            }
            Arrival::Refused => {
                self.line(format_args!("{name} {} finds nobody", conn.0));
                self.nodes.process_mut(node).handle_refused(now, conn);
            }
            Arrival::Closed => {
                self.line(format_args!("{name} {} closed", conn.0));
                self.resending.forget_session(node, conn);
                self.nodes.process_mut(node).handle_closed(now, conn);
            }
            Arrival::Auth(request) => {
                self.line(format_args!("{name} {} is authenticated to", conn.0));
                self.nodes.process_mut(node).handle_auth(now, conn, request);
            }
            Arrival::Connecting(step) => {
                self.line(format_args!("{name} {} authenticates: {}", conn.0, step_name(&step)));
                let answer = self.nodes.process_mut(node).authenticate(now, conn, step);
                self.network(|network, cx| network.answer(cx, node, conn, answer));
            }
        }
        self.touch(node);
    }

    /// A wake-up of a process is due, unless it was planned anew.
    pub fn wake(&mut self, node: NodeId) {
        if !self.nodes.take_wake(node, self.agenda.now()) || self.transport.is_paused(node) {
            return;
        }
        let now = self.clock(node);
        let process = self.nodes.process_mut(node);
        if process.poll_timeout().is_some_and(|due| due <= now) {
            process.handle_timeout(now);
        }
        self.touch(node);
    }

    /// Drains the outputs of a process, checks its state, and schedules its next wake-up.
    pub fn touch(&mut self, node: NodeId) {
        if self.transport.is_paused(node) {
            return;
        }
        let now = self.clock(node);
        self.nodes.process_mut(node).begin_turn();
        loop {
            while let Some(output) = self.nodes.process_mut(node).poll_output(now) {
                self.perform(node, output);
            }
            let Some(client) = self.nodes.client_mut(node) else { break };
            while let Some(event) = client.poll_event() {
                let at = Moment { now: self.agenda.now(), clock: now, trace: &mut self.trace };
                self.records.handle_client_event(at, node, client, event);
            }
            if !client.send_for_image(now) {
                break;
            }
        }
        self.note_calls(node);
        self.check(node);
        self.restart_if_over(node);
        self.plan_wake(node);
    }

    /// Answers to calls of a client of the file system enter the history.
    fn note_calls(&mut self, node: NodeId) {
        let now = self.agenda.now();
        let Some(client) = self.nodes.process_mut(node).as_file_client_mut() else { return };
        // A loss comes first: calls that fail with it are of the session that was lost.
        if client.take_loss() {
            self.records.files.lost(now, client.actor());
            self.trace.line(now, format_args!("actor {} loses its session", client.actor()));
        }
        let mut answered = Vec::new();
        while let Some((index, outcome)) = client.poll_ended() {
            self.trace.line(now, format_args!("call {index} ends: {}", Brief(&outcome)));
            answered.extend(outcome.is_ok().then_some((index, false)));
            self.records.files.complete(index, now, outcome);
        }
        while let Some(index) = client.poll_durable() {
            self.trace.line(now, format_args!("call {index} is durable"));
            answered.push((index, true));
            self.records.files.note_durable(index, now);
        }
        for (index, is_durable) in answered {
            let call = &self.records.files.entries()[index].call;
            if let Some(strike) = self.records.strikes.draw(now, call, is_durable) {
                self.agenda.after(Duration::ZERO, Event::Strike(node, strike));
            }
        }
    }

    /// A metadata server that is replaced is started again.
    fn restart_if_over(&mut self, node: NodeId) {
        let Some(end) = self.nodes.process(node).as_mds().and_then(MdsProcess::end) else { return };
        let name = self.nodes.name(node);
        self.line(format_args!("{name} is over: {end}"));
        self.crash(node, false);
        self.agenda.after(RESTART, Event::Restart(node));
    }

    /// Checks the state of a process, and of the cluster as far as the process may have changed it.
    fn check(&mut self, node: NodeId) {
        if self.nodes.process(node).as_file_client().is_some()
            && let Err(what) = coexistence::check(&self.held_caps())
        {
            panic!("{what}");
        }
        let process = self.nodes.process(node);
        if let Some(client) = process.as_client() {
            self.records.note_confirmed_watches(self.agenda.now(), self.clock(node), client);
        }
        process.check_invariants();
        if !self.disks.has_omitted() && !self.scenario.may_lose_data() {
            checks::check_findings(process);
        }
        self.checks.note_shut_out(process);
        self.checks.check_quota(process);
        self.checks.check_issued(node, self.nodes.starts(node), process);
        checks::check_memory(process, self.scenario.network.is_wired);
        self.checks.check_steady(process);
        if self.scenario.trials.maps_kept.is_some() {
            self.checks.look_for_gap(process);
        }
        // A restored control store issues epochs twice.
        if self.scenario.cluster.erasure.is_some() && self.scenario.control.restore.is_none() {
            self.checks.check_committed(process);
        }
    }

    fn plan_wake(&mut self, node: NodeId) {
        let Some(due) = self.nodes.process(node).poll_timeout() else { return };
        let due = (due - self.clocks.skew(node)).max(self.agenda.now());
        if self.nodes.note_wake(node, due) {
            self.agenda.at(due, Event::Wake(node));
        }
    }

    fn perform(&mut self, node: NodeId, output: NodeOutput) {
        if let NodeOutput::Connect { conn, target } = &output {
            let (name, to) = (self.nodes.name(node), target.participant);
            self.line(format_args!("{name} {} connects to {to} at {}", conn.0, target.addrs));
        }
        self.resending.note_sent(node, self.nodes.process(node), &output);
        self.network(|network, cx| match output {
            NodeOutput::Send { conn, message } => network.send(cx, node, conn, message),
            NodeOutput::Connect { conn, target } => network.connect(cx, node, conn, &target),
            NodeOutput::Close { conn } => network.close(cx, node, conn),
            NodeOutput::Auth { conn, verdict } => network.verdict(cx, node, conn, verdict),
            NodeOutput::Pause { conn, paused } => network.pause(cx, node, conn, paused),
        });
    }

    /// Starts a process, unless it runs, or is a removed OSD or one without a disk.
    pub fn start(&mut self, node: NodeId) {
        let is_absent = self.disks.is_being_replaced(node) || self.is_removed(node);
        if self.nodes.is_up(node) || is_absent {
            return;
        }
        let ahead = self.injection.prng().below(self.scenario.network.skew_ms_max + 1);
        self.clocks.set_ahead(node, Duration::from_millis(ahead));
        let now = self.clock(node);
        let mut seed = [0; 32];
        self.seeds.fill(&mut seed);
        let name = self.nodes.name(node);
        self.line(format_args!("{name} (node {node}) starts"));
        let is_file_client = self.nodes.process(node).as_file_client().is_some();
        let is_client = self.nodes.client(node).is_some() || is_file_client;
        self.actors_made += u32::from(is_client);
        self.nodes.start(node, now, self.actors_made, seed);
        if is_client {
            let start = self.nodes.starts(node);
            self.agenda.after(IDLE, Event::Think { node, start });
        }
        self.touch(node);
    }

    /// A process dies, silently if its host dies with it. The exclusive user of an image never does.
    pub fn crash(&mut self, node: NodeId, silently: bool) {
        let user = self.nodes.client(node).and_then(ClientProcess::image_user);
        if user.is_some_and(|user| !user.may_crash()) {
            return;
        }
        self.transport.faults_mut().set_paused(node, false);
        if !self.nodes.is_up(node) {
            return;
        }
        self.nodes.crash(node);
        if let Some(client) = self.nodes.process(node).as_file_client() {
            self.records.files.lost(self.agenda.now(), client.actor());
        }
        if let Some(client) = self.nodes.client(node) {
            self.records.watching.died(self.agenda.now(), client.actor());
        }
        self.resending.forget(node);
        self.network(|network, cx| network.node_died(cx, node, silently));
        // Messages delivered to it and not handled are lost with it.
        self.transport.drop_deliveries(node);
    }

    /// Acts on the store of an OSD.
    pub fn with_store(&mut self, node: NodeId, act: impl FnOnce(&mut StoreDisk, Time)) {
        let now = self.clock(node);
        if let Some(osd) = self.nodes.osd_mut(node) {
            act(osd.disk_mut(), now);
        }
    }

    /// Sends a command to the monitors.
    pub fn command(&mut self, node: NodeId, command: &str) {
        let now = self.clock(node);
        if let Some(client) = self.nodes.client_mut(node) {
            client.command(now, command);
        }
        self.touch(node);
        self.settle();
    }

    /// True if the OSD is removed, or stopped and only present in the map.
    pub fn is_removed(&self, node: NodeId) -> bool {
        self.cast.removed == Some(node) && self.injection.removal().is_some_and(|it| it.is_stopped)
    }

    /// All clients, whether they run or not.
    pub fn clients(&self) -> impl Iterator<Item = &ClientProcess> {
        self.nodes.clients()
    }

    /// All OSDs, whether they run or not.
    pub fn osds(&self) -> impl Iterator<Item = &OsdProcess> {
        self.nodes.osds()
    }

    /// The newest map of a running monitor: one may answer before another learns of it. A monitor that has
    /// not loaded the control store yet has none.
    pub fn newest_map(&self) -> Option<&OsdMap> {
        let monitors = self.nodes.monitors().filter_map(|monitor| monitor.daemon());
        let maps = monitors.map(|monitor| &monitor.state().osdmap);
        maps.filter(|map| map.epoch > Epoch(0)).max_by_key(|map| map.epoch)
    }

    /// The control store shared by all monitors.
    pub fn control(&self) -> Shared {
        self.nodes.monitors().next().expect("there is a monitor").control()
    }
}

/// Roles of the processes.
fn cast(scenario: &Scenario, nodes: &Nodes) -> Cast {
    let user = |process: &dyn Process| process.as_client()?.image_user().map(|_| ());
    let osds = nodes.select(|process| process.as_osd().is_some());
    let node_of = |osd: Option<OsdId>| osd.map(|osd| osds[osd.0 as usize]);
    let image_users = nodes.select(|process| user(process).is_some());
    Cast {
        servers: nodes.select(|process| process.as_mds().is_some()),
        file_clients: nodes.select(|process| process.as_file_client().is_some()),
        monitors: nodes.select(|process| process.as_monitor().is_some()),
        hosts: hosts(scenario, &osds),
        spares: osds[scenario.cluster.osds..].to_vec(),
        troubled: node_of(scenario.misreader()),
        removed: node_of(scenario.cluster.removed),
        rotting: node_of(scenario.disks.rotting),
        clients: nodes.select(|process| process.as_client().is_some() && user(process).is_none()),
        sharers: match scenario.load.image_sharers {
            0 => Vec::new(),
            _ => image_users.clone(),
        },
        image_users,
        osds,
    }
}

/// OSDs of each host, without those that join later.
fn hosts(scenario: &Scenario, osds: &[NodeId]) -> Vec<Vec<NodeId>> {
    let mut hosts = vec![Vec::new(); scenario.cluster.hosts];
    for (number, osd) in osds[..scenario.cluster.osds].iter().enumerate() {
        hosts[number % scenario.cluster.hosts].push(*osd);
    }
    hosts
}

fn step_name(step: &ConnectingStep) -> &'static str {
    match step {
        ConnectingStep::Begin => "begins",
        ConnectingStep::More { .. } => "goes on",
        ConnectingStep::Done { .. } => "is done",
        ConnectingStep::BadMethod { .. } => "is refused",
    }
}
