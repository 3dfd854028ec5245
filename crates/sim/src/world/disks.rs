//! Disks that fail and are repaired or replaced, and monitors that lose the control store alone.

use super::{Body, Event, World};
use crate::faults::{Fault, Kind};
use crate::network::NodeId;
use crate::process::StoreDisk;
use engine::{Duration, Time};
use osd::Osd;
use types::{OsdId, Uuid};

/// Interval at which an administrator tries again.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// Interval at which a delayed fault checks whether it is safe.
const MOMENT: Duration = Duration::from_millis(50);

/// A period in which a disk failed to read data of which it may have had the only copy.
#[derive(Debug, Clone)]
pub struct Misread {
    /// A retry succeeds.
    pub is_once: bool,
    node: NodeId,
    pub since: Time,
    pub until: Option<Time>,
}

/// An OSD whose old disk is gone and whose new one is not announced yet. It does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    pub node: NodeId,
    pub osd: OsdId,
    uuid: Uuid,
}

impl Replacement {
    /// Commands that `sepiola osd replace` sends to the monitors.
    pub fn commands(&self) -> [String; 2] {
        let (osd, uuid) = (self.osd, self.uuid);
        [
            format!(r#"{{"prefix":"osd destroy","id":"{osd}","yes_i_really_mean_it":true}}"#),
            format!(r#"{{"prefix":"osd new","uuid":"{uuid}","id":"{osd}"}}"#),
        ]
    }
}

impl World {
    pub(super) fn cut_store(&mut self, node: NodeId, duration: Duration) {
        let number = self.cast.monitors.iter().position(|monitor| *monitor == node);
        let number = number.expect("only monitors have a control store");
        self.control().borrow_mut().cut(number, duration);
    }

    /// Corrupts data of an OSD that does not run, at a time when it has no data alone: not even a write
    /// that was not acknowledged, since no OSD knows that it was not. Later, it may be the only reachable
    /// copy for a while.
    pub(super) fn rot_soon(&mut self, node: NodeId) {
        if !self.nodes[node].process().is_up() {
            return;
        }
        if !self.is_clean() || !self.is_settled() {
            return self.agenda.after(MOMENT, Event::Fault(Fault::RotSoon(node)));
        }
        self.note_misread(node, false);
        self.crash(node, false);
        self.rot(node);
        let away = self.fault_prng.below(self.scenario.faults.away_ms_max.max(1));
        self.agenda.after(Duration::from_millis(away), Event::Fault(Fault::Start(vec![node])));
        *self.tally.entry(Kind::Rot).or_default() += 1;
    }

    /// True if all members of each group have confirmed everything that it has.
    fn is_settled(&self) -> bool {
        let groups = self.osds().filter_map(|osd| osd.hosted.daemon.as_ref()).flat_map(Osd::groups);
        let mut primaries = groups.filter(|group| group.is_primary());
        primaries.all(|group| group.committed() == group.info().last_update)
    }

    pub(super) fn rot(&mut self, node: NodeId) {
        self.with_store(node, |store, now| store.rot(now));
    }

    pub(super) fn kill_disk(&mut self, node: NodeId) {
        if self.is_removed(node) {
            return;
        }
        // Data on a dead disk that no other OSD has cannot be read as long as its OSD has not noticed.
        // Others have all acknowledged data, unless they are recovering, or their disks fail, too.
        let may_be_alone =
            self.scenario.min_size == 1 || !self.bad_disks.is_empty() || !self.is_clean();
        self.bad_disks.insert(node);
        if may_be_alone {
            self.note_misread(node, false);
        }
        self.with_store(node, |store, _| store.kill());
    }

    pub(super) fn misread(&mut self, node: NodeId, per_million: u64) {
        // Data that one OSD alone has is lost if the OSD cannot read it.
        if self.scenario.min_size > 1 {
            self.bad_disks.insert(node);
            self.note_misread(node, false);
            self.with_store(node, |store, _| store.misread(per_million));
        }
    }

    /// One read fails; a retry would succeed.
    pub(super) fn fail_read(&mut self, node: NodeId, after: u64) {
        if self.is_removed(node) || self.bad_disks.contains(&node) {
            return;
        }
        self.note_misread(node, true);
        self.failing_reads.insert(node);
        self.with_store(node, |store, _| store.fail_read(after));
    }

    pub(super) fn heal_reads(&mut self, node: NodeId) {
        if !self.failing_reads.remove(&node) || self.bad_disks.contains(&node) {
            return;
        }
        self.end_misread(node);
        let Body::Osd(osd) = &mut self.nodes[node].body else { return };
        let has_failed = osd.hosted.daemon.as_ref().is_some_and(Osd::has_failed);
        self.with_store(node, |store, _| store.heal_reads());
        if has_failed {
            self.crash(node, false);
            self.with_store(node, |store, _| store.heal());
            self.start(node);
        }
    }

    fn note_misread(&mut self, node: NodeId, is_once: bool) {
        self.misreads.push(Misread { node, since: self.agenda.now(), until: None, is_once });
    }

    pub(super) fn end_misread(&mut self, node: NodeId) {
        let now = self.agenda.now();
        let going_on = |misread: &&mut Misread| misread.node == node && misread.until.is_none();
        self.misreads.iter_mut().filter(going_on).for_each(|misread| misread.until = Some(now));
    }

    /// Repairs the disk and restarts an OSD that gave up. The OSD stops first: otherwise the disk would
    /// accept requests that follow those which it refused.
    pub(super) fn heal_disk(&mut self, node: NodeId) {
        self.end_misread(node);
        let restarts = self.bad_disks.remove(&node) && self.nodes[node].process().is_up();
        if restarts {
            self.crash(node, false);
        }
        self.with_store(node, |store, _| store.heal());
        if restarts {
            self.start(node);
        }
    }

    pub(super) fn is_being_replaced(&self, node: NodeId) -> bool {
        self.replacement.as_ref().is_some_and(|replacement| replacement.node == node)
    }

    /// One step of replacing an OSD's disk. Each is retried until it succeeds.
    pub(super) fn replace(&mut self, node: NodeId) {
        // Replacements run one after the other.
        let is_other = self.replacement.is_some() && !self.is_being_replaced(node);
        if self.is_being_replaced(node) || !is_other && self.give_disk(node) {
            self.ask_next();
        }
        if self.is_being_replaced(node) || self.bad_disks.contains(&node) {
            self.agenda.after(PATIENCE, Event::Fault(Fault::Replace(node)));
        }
    }

    fn ask_next(&mut self) {
        let Some(replacement) = &self.replacement else { return };
        let [destroy, new] = replacement.commands();
        let is_done = |what: &String| {
            self.commands_done.iter().any(|(command, outcome)| command == what && *outcome == Ok(0))
        };
        let next = match (is_done(&destroy), is_done(&new)) {
            (_, true) => return self.end_replacement(),
            (true, false) => new,
            (false, false) => destroy,
        };
        self.ask_unless_asked(&next);
    }

    /// Sends a command, unless the same one is in flight.
    pub(super) fn ask_unless_asked(&mut self, command: &str) {
        let client = self.cast.clients[0];
        let Body::Client(process) = &self.nodes[client].body else { return };
        if !process.is_asking(command) {
            self.command(client, command);
        }
    }

    /// Replaces the disk, if no group needs the old one.
    fn give_disk(&mut self, node: NodeId) -> bool {
        let Body::Osd(process) = &self.nodes[node].body else { return false };
        let osd = process.config.id;
        if !self.bad_disks.contains(&node) {
            return false;
        }
        self.crash(node, false);
        if !self.does_without(osd) {
            return false;
        }
        let mut bytes = [0; 16];
        self.fault_prng.fill(&mut bytes);
        let (kind, seed) =
            (self.scenario.stores[osd.0 as usize].clone(), self.fault_prng.next_u64());
        let uuid = Uuid(bytes);
        if let Body::Osd(process) = &mut self.nodes[node].body {
            process.hosted.disk = StoreDisk::new(seed, kind);
            process.config.uuid = uuid;
        }
        self.bad_disks.remove(&node);
        self.end_misread(node);
        self.has_churned = true;
        self.commands_done.clear();
        self.replacement = Some(Replacement { node, osd, uuid });
        true
    }

    /// True if the groups that serve without this OSD, which is down, find everything that was ever
    /// acknowledged.
    fn does_without(&self, osd: OsdId) -> bool {
        let Some(map) = self.newest_map().filter(|map| map.exists(osd) && !map.is_up(osd)) else {
            return false;
        };
        let groups = map.pools.keys().flat_map(|pool| map.pgs(*pool));
        let serves = |pg| {
            let mut daemons = self.osds().filter_map(|osd| osd.hosted.daemon.as_ref());
            daemons.any(|daemon| {
                daemon.map().epoch == map.epoch
                    && daemon.groups().any(|group| {
                        group.id() == pg && group.is_active() && group.unfound().next().is_none()
                    })
            })
        };
        groups.into_iter().all(serves)
    }

    /// Starts the OSD over its new disk, which is announced.
    pub fn end_replacement(&mut self) {
        if let Some(replacement) = self.replacement.take() {
            self.start(replacement.node);
        }
    }
}
