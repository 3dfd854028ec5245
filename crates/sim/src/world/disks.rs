//! Disks that fail, and are repaired or replaced; and monitors that lose their store alone.

use super::{Body, Event, World};
use crate::faults::{Fault, Kind};
use crate::network::NodeId;
use crate::process::StoreDisk;
use engine::{Duration, Time};
use osd::Osd;
use types::{OsdId, Uuid};

/// How long an administrator waits before trying again.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// What waits for a moment of calm looks so often whether it is there.
const MOMENT: Duration = Duration::from_millis(50);

/// A time in which a disk failed to read what perhaps nobody else had.
#[derive(Debug, Clone)]
pub struct Misread {
    node: NodeId,
    pub since: Time,
    pub until: Option<Time>,
}

/// An OSD whose old disk is gone, and that is not known with its new one yet. It does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    pub node: NodeId,
    pub osd: OsdId,
    uuid: Uuid,
}

impl Replacement {
    /// What `sepiola osd replace` says to the monitors.
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

    /// Data of an OSD is lost while it does not run, nothing of which it has alone: not even a write that was not
    /// acknowledged, for nobody knows that it was not. Later, for a while, it may be alone within reach.
    pub(super) fn rot_soon(&mut self, node: NodeId) {
        if !self.nodes[node].process().is_up() {
            return;
        }
        if !self.is_clean() || !self.is_settled() {
            return self.agenda.after(MOMENT, Event::Fault(Fault::RotSoon(node)));
        }
        self.note_misread(node);
        self.crash(node, false);
        self.rot(node);
        let away = self.fault_prng.below(self.scenario.faults.away_ms_max.max(1));
        self.agenda.after(Duration::from_millis(away), Event::Fault(Fault::Start(vec![node])));
        *self.tally.entry(Kind::Rot).or_default() += 1;
    }

    /// Whether all that any group has was confirmed by all its members.
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
        // What nobody else has cannot be read from a dead disk, as long as its OSD does not know. Others have all
        // that is acknowledged, unless they are being made whole, or their disks fail, too.
        let may_be_alone =
            self.scenario.min_size == 1 || !self.bad_disks.is_empty() || !self.is_clean();
        self.bad_disks.insert(node);
        if may_be_alone {
            self.note_misread(node);
        }
        self.with_store(node, |store, _| store.kill());
    }

    pub(super) fn misread(&mut self, node: NodeId, per_million: u64) {
        // What one OSD alone has is lost if it cannot read it.
        if self.scenario.min_size > 1 {
            self.bad_disks.insert(node);
            self.note_misread(node);
            self.with_store(node, |store, _| store.misread(per_million));
        }
    }

    /// A read fails, and would not if it were tried again.
    pub(super) fn fail_read(&mut self, node: NodeId, after: u64) {
        if self.is_removed(node) || self.bad_disks.contains(&node) {
            return;
        }
        self.note_misread(node);
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

    fn note_misread(&mut self, node: NodeId) {
        self.misreads.push(Misread { node, since: self.agenda.now(), until: None });
    }

    pub(super) fn end_misread(&mut self, node: NodeId) {
        let now = self.agenda.now();
        let going_on = |misread: &&mut Misread| misread.node == node && misread.until.is_none();
        self.misreads.iter_mut().filter(going_on).for_each(|misread| misread.until = Some(now));
    }

    /// The disk is as it was; an OSD that gave up is started again. It stops first: what a disk refused, it
    /// does not take later, while what came behind it is taken.
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

    /// One step of giving an OSD an empty disk. Each is tried again until it succeeds.
    pub(super) fn replace(&mut self, node: NodeId) {
        // One after the other.
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

    /// A command, unless it was given and not answered yet.
    pub(super) fn ask_unless_asked(&mut self, command: &str) {
        let client = self.cast.clients[0];
        let Body::Client(process) = &self.nodes[client].body else { return };
        if !process.is_asking(command) {
            self.command(client, command);
        }
    }

    /// Takes the old disk away, if nobody needs it.
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

    /// Of an OSD that is down, groups that serve have all that was ever acknowledged, if they find it.
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

    /// The OSD is known, and starts over its new disk.
    pub fn end_replacement(&mut self) {
        if let Some(replacement) = self.replacement.take() {
            self.start(replacement.node);
        }
    }
}
