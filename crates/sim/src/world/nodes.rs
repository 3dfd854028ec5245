//! All processes of the world, with their addresses and scheduled wake-ups.

use crate::model::ActorId;
use crate::network::Presence;
use crate::node::NodeId;
use crate::process::{ClientProcess, MonitorProcess, OsdProcess, Process, Start};
use engine::Time;
use std::hash::Hasher;
use stdx::FastHasher;
use types::ParticipantName;

/// Processes by number.
pub struct Nodes {
    all: Vec<Node>,
    presences: Vec<Presence>,
}

struct Node {
    process: Box<dyn Process>,
    /// The scheduled time of the next wake-up.
    wake: Option<Time>,
    starts: u32,
}

impl Nodes {
    /// Processes that do not run yet.
    pub fn new(nodes: Vec<(Box<dyn Process>, Presence)>) -> Self {
        let node = |process| Node { process, wake: None, starts: 0 };
        let (all, presences) =
            nodes.into_iter().map(|(process, presence)| (node(process), presence)).unzip();
        Nodes { all, presences }
    }

    /// Number of processes, whether they run or not.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// One process.
    pub fn process(&self, node: NodeId) -> &dyn Process {
        &*self.all[node].process
    }

    /// One process.
    pub fn process_mut(&mut self, node: NodeId) -> &mut dyn Process {
        &mut *self.all[node].process
    }

    /// True while the process runs.
    pub fn is_up(&self, node: NodeId) -> bool {
        self.process(node).is_up()
    }

    /// Numbers of the processes that `is_wanted` chooses.
    pub fn select(&self, is_wanted: impl Fn(&dyn Process) -> bool) -> Vec<NodeId> {
        (0..self.all.len()).filter(|node| is_wanted(self.process(*node))).collect()
    }

    /// The client of that number; `None` if the process is of another kind.
    pub fn client(&self, node: NodeId) -> Option<&ClientProcess> {
        self.process(node).as_client()
    }

    /// The client of that number; `None` if the process is of another kind.
    pub fn client_mut(&mut self, node: NodeId) -> Option<&mut ClientProcess> {
        self.process_mut(node).as_client_mut()
    }

    /// The OSD of that number; `None` if the process is of another kind.
    pub fn osd(&self, node: NodeId) -> Option<&OsdProcess> {
        self.process(node).as_osd()
    }

    /// The OSD of that number; `None` if the process is of another kind.
    pub fn osd_mut(&mut self, node: NodeId) -> Option<&mut OsdProcess> {
        self.process_mut(node).as_osd_mut()
    }

    /// All monitors, whether they run or not.
    pub fn monitors(&self) -> impl Iterator<Item = &MonitorProcess> {
        self.all.iter().filter_map(|node| node.process.as_monitor())
    }

    /// All monitors, whether they run or not.
    pub fn monitors_mut(&mut self) -> impl Iterator<Item = &mut MonitorProcess> {
        self.all.iter_mut().filter_map(|node| node.process.as_monitor_mut())
    }

    /// All OSDs, whether they run or not.
    pub fn osds(&self) -> impl Iterator<Item = &OsdProcess> {
        self.all.iter().filter_map(|node| node.process.as_osd())
    }

    /// All OSDs, whether they run or not.
    pub fn osds_mut(&mut self) -> impl Iterator<Item = &mut OsdProcess> {
        self.all.iter_mut().filter_map(|node| node.process.as_osd_mut())
    }

    /// All clients, whether they run or not.
    pub fn clients(&self) -> impl Iterator<Item = &ClientProcess> {
        self.all.iter().filter_map(|node| node.process.as_client())
    }

    /// Addresses and identities of all processes.
    pub fn presences(&self) -> &[Presence] {
        &self.presences
    }

    /// The first name of a process.
    pub fn name(&self, node: NodeId) -> ParticipantName {
        self.presences[node].participant()
    }

    /// Number of starts of a process so far.
    pub fn starts(&self, node: NodeId) -> u32 {
        self.all[node].starts
    }

    /// Starts a process that does not run.
    pub fn start(&mut self, node: NodeId, now: Time, actor: ActorId, seed: [u8; 32]) {
        assert!(!self.is_up(node), "a process starts once per life");
        let Node { process, starts, .. } = &mut self.all[node];
        let presence = &mut self.presences[node];
        *starts += 1;
        presence.is_up = true;
        let addrs = &mut presence.addrs;
        process.start(Start { now, number: *starts, seed, actor, addrs });
    }

    /// Ends a process that runs.
    pub fn crash(&mut self, node: NodeId) {
        self.all[node].process.crash();
        self.presences[node].is_up = false;
    }

    /// Forgets the wake-up that is due; false if it was replaced by an earlier one.
    pub fn take_wake(&mut self, node: NodeId, now: Time) -> bool {
        let wake = &mut self.all[node].wake;
        let is_due = *wake == Some(now);
        if is_due {
            *wake = None;
        }
        is_due
    }

    /// Notes a wake-up; false if one that is not later is noted already.
    pub fn note_wake(&mut self, node: NodeId, due: Time) -> bool {
        let wake = &mut self.all[node].wake;
        let is_earlier = wake.is_none_or(|wake| due < wake);
        if is_earlier {
            *wake = Some(due);
        }
        is_earlier
    }

    /// Digest of the outputs of all processes.
    pub fn digest(&self) -> u64 {
        let mut hasher = FastHasher::default();
        self.all.iter().for_each(|node| hasher.write_u64(node.process.digest()));
        hasher.finish()
    }
}
