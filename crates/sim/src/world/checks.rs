//! Checks of the whole cluster after each step of a process. A violation is a panic, which fails the seed.

use crate::check::coexistence::ShutOut;
use crate::check::committed::Committed;
use crate::check::issued::Issued;
use crate::check::memory;
use crate::node::NodeId;
use crate::process::Process;
use maps::{OsdMap, Pool, PoolFlags};
use types::{EntityAddrVec, Epoch, PoolId};

/// A pool whose expected size determines its number of groups.
#[derive(Debug, Clone, Copy)]
pub struct Steady {
    /// The pool.
    pub pool: PoolId,
    /// Its number of groups.
    pub groups: u32,
}

/// State of the checks, and what they may expect.
#[derive(Default)]
pub struct Checks {
    issued: Issued,
    committed: Committed,
    shut_out: ShutOut,
    /// The pool that exceeds its quota, with the epoch of the map that says so.
    over_quota: Option<(PoolId, Epoch)>,
    /// The pool with a constant number of groups, once it exists.
    steady: Option<Steady>,
    /// A copy did not get the maps of some time.
    has_met_gap: bool,
}

impl Checks {
    /// The newest epoch of the OSD map that any process had.
    pub fn newest_epoch(&self) -> Epoch {
        self.issued.newest()
    }

    /// From that epoch on the pool exceeds its quota.
    pub fn expect_over_quota(&mut self, pool: PoolId, since: Epoch) {
        self.over_quota = Some((pool, since));
    }

    /// From now on the number of groups of that pool stays.
    pub fn expect_steady(&mut self, steady: Steady) {
        self.steady = Some(steady);
    }

    /// Panics if a monitor clears the flag without a cause.
    pub fn check_quota(&self, process: &dyn Process) {
        let Some((pool, since)) = self.over_quota else { return };
        let Some(map) = monitor_map(process) else { return };
        let is_lifted = |pool: &Pool| !pool.flags.contains(PoolFlags::FULL_QUOTA);
        let epoch = map.epoch;
        // Some monitors learn of it later than others.
        if epoch < since {
            return;
        }
        assert!(
            !map.pool(pool).is_some_and(is_lifted),
            "epoch {epoch} takes a pool for less than its quota, and nothing was removed from it"
        );
    }

    /// Checks the map of a process, and the id of a client.
    pub fn check_issued(&mut self, node: NodeId, starts: u32, process: &dyn Process) {
        let mut map = monitor_map(process);
        if let Some(osd) = process.as_osd() {
            map = osd.daemon().map(osd::Osd::map);
        }
        if let Some(client) = process.as_client() {
            let id = client.daemon().map_or(0, rados::Client::global_id);
            if id != 0 {
                agreed(self.issued.note_id(id, client.actor()));
            }
            map = client.daemon().and_then(rados::Client::osd_map);
        }
        if let Some(map) = map {
            agreed(self.issued.note_map(node, starts, map));
        }
    }

    /// Notes clients that the map of a monitor shuts out.
    pub fn note_shut_out(&mut self, process: &dyn Process) {
        monitor_map(process).into_iter().for_each(|map| self.shut_out.note(map));
    }

    /// Whether the OSDs refuse what a process with these addresses does.
    pub fn is_shut_out(&self, addrs: &EntityAddrVec) -> bool {
        self.shut_out.has(addrs)
    }

    /// Looks for copies that did not get the maps of some time.
    pub fn look_for_gap(&mut self, process: &dyn Process) {
        let Some(osd) = process.as_osd().filter(|_| !self.has_met_gap) else { return };
        self.has_met_gap = osd.groups().any(pg::Pg::has_gap);
    }

    /// True if a copy did not get the maps of some time.
    pub fn has_met_gap(&self) -> bool {
        self.has_met_gap
    }

    /// Panics if an erasure-coded group loses a committed write, or settles one that is not committed.
    pub fn check_committed(&mut self, process: &dyn Process) {
        let Some(osd) = process.as_osd() else { return };
        agreed(self.committed.look(osd));
    }

    /// Panics if a monitor chooses another number of groups than the expected size determines.
    pub fn check_steady(&self, process: &dyn Process) {
        let Some(Steady { pool, groups }) = self.steady else { return };
        let Some(map) = monitor_map(process) else { return };
        let Some(pool) = map.pool(pool) else { return };
        let (epoch, target) = (map.epoch, pool.pg_num_target);
        assert!(
            target == groups,
            "epoch {epoch} wants {target} groups where the size that is expected makes {groups}"
        );
    }
}

/// Panics if an OSD exceeds its memory budget.
pub fn check_memory(process: &dyn Process, is_wired: bool) {
    let Some(daemon) = process.as_osd().and_then(|osd| osd.daemon()) else { return };
    agreed(memory::check(daemon, is_wired));
}

/// Panics if a scrub finds an error. Called where no fault of a device explains one.
pub fn check_findings(process: &dyn Process) {
    let Some(daemon) = process.as_osd().and_then(|osd| osd.daemon()) else { return };
    let (found, osd) = (daemon.scrub_findings(), daemon.id());
    assert!(found == 0, "a scrub of osd.{osd} finds damage, and nothing was damaged");
}

fn monitor_map(process: &dyn Process) -> Option<&OsdMap> {
    process.as_monitor()?.daemon().map(|monitor| &monitor.state().osdmap)
}

fn agreed(outcome: Result<(), String>) {
    if let Err(what) = outcome {
        panic!("{what}");
    }
}
