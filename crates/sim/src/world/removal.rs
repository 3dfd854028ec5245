//! Removal of an OSD from the cluster while everything else continues.

use super::disks::PATIENCE;
use super::{Body, Event, World};
use crate::faults::{Fault, Kind};
use crate::network::NodeId;
use engine::Time;
use maps::OsdMap;
use types::OsdId;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removal {
    /// Earliest time of the next step.
    not_before: Time,
    /// The OSD is stopped, and no group needs its data.
    is_stopped: bool,
}

pub fn out_command(osd: OsdId) -> String {
    format!(r#"{{"prefix":"osd out","ids":["{osd}"]}}"#)
}

pub fn purge_command(osd: OsdId) -> String {
    format!(r#"{{"prefix":"osd purge","id":{osd},"yes_i_really_mean_it":true}}"#)
}

impl World {
    /// One step: out, drained, stopped, purged. Each is retried until it succeeds.
    pub(super) fn remove(&mut self, node: NodeId) {
        let now = self.agenda.now();
        let Body::Osd(process) = &self.nodes[node].body else { return };
        let osd = process.config.id;
        if self.removal.get_or_insert_default().not_before > now {
            return; // it is under way
        }
        let Some(map) = self.newest_map() else { return };
        let is_stopped = self.is_removed(node);
        if is_stopped && !map.exists(osd) {
            return;
        }
        let (is_up, is_empty) = (map.is_up(osd), is_without(map, osd));
        let removal = Removal { not_before: now + PATIENCE, is_stopped };
        self.removal = Some(removal);
        self.has_churned = true;
        self.agenda.after(PATIENCE, Event::Fault(Fault::Remove(node)));
        match is_stopped {
            true if is_up => {}
            true => self.ask_unless_asked(&purge_command(osd)),
            false if is_empty && self.is_clean() && self.is_intact(node) => {
                self.crash(node, false);
                self.removal.iter_mut().for_each(|removal| removal.is_stopped = true);
                *self.tally.entry(Kind::RemoveOsd).or_default() += 1;
            }
            false => self.ask_unless_asked(&out_command(osd)),
        }
    }

    fn is_intact(&self, node: NodeId) -> bool {
        !self.bad_disks.contains(&node) && !self.is_being_replaced(node)
    }

    /// True if the OSD is removed, or stopped and only present in the map.
    pub fn is_removed(&self, node: NodeId) -> bool {
        self.cast.removed == Some(node) && self.removal.as_ref().is_some_and(|it| it.is_stopped)
    }

    /// The OSD that was removed, if any.
    pub fn removed(&self) -> Option<OsdId> {
        self.cast.removed.filter(|node| self.is_removed(*node)).and(self.scenario.removed)
    }
}

/// True if no group is mapped to that OSD.
fn is_without(map: &OsdMap, osd: OsdId) -> bool {
    let mut groups = map.pools.keys().flat_map(|pool| map.pgs(*pool));
    groups.all(|pg| {
        let osds = map.pg_to_osds(pg);
        !osds.acting.contains(&osd) && !osds.up.contains(&osd)
    })
}
