//! Requests of groups to the monitor: an `up_thru`, a `pg_temp`, or just a new map although nothing has
//! changed.

use super::Groups;
use crate::limits;
use engine::Time;
use pg::{Pg, State};
use std::collections::BTreeMap;
use types::{Epoch, OsdId, PgId, PgShard};

/// The requests of all groups.
#[derive(Debug, Default)]
pub(crate) struct Wants {
    pub up_thru: Option<Epoch>,
    pub acting: BTreeMap<PgId, Vec<OsdId>>,
}

impl Groups {
    /// Repeats the groups' requests to a monitor that may not have got them.
    pub fn ask_again(&mut self) {
        let asking = self.by_id.iter().filter(|(_, group)| is_asking(&group.pg));
        self.asking = asking.map(|(pg, _)| *pg).collect();
    }

    /// Checks after a pause which requests were not fulfilled.
    pub fn retry_later(&mut self, now: Time) {
        self.retry_due.get_or_insert(now + limits::RETRY_PAUSE);
    }

    /// Whether requests must be checked that were not fulfilled in time; if so, it begins now.
    pub fn begin_retry(&mut self, now: Time) -> bool {
        self.retry_due.take_if(|due| *due <= now).is_some()
    }

    /// Checks one group. Returns whether it may have outputs.
    pub fn retry(&mut self, now: Time, pg: PgShard) -> bool {
        let Some(group) = self.by_id.get_mut(&pg) else { return false };
        if group.pg.state() == State::SplitMerge {
            group.pg.retry_split_merge();
            self.retry_later(now);
            return true;
        }
        if group.pg.wants_interval() || is_asking(&group.pg) {
            self.asking.insert(pg);
        }
        false
    }

    /// Notes that a group needs something of the monitor.
    pub fn note_asking(&mut self, pg: PgShard) {
        self.asking.insert(pg);
    }

    /// Whether a group needs something of the monitor.
    pub fn are_asking(&self) -> bool {
        !self.asking.is_empty()
    }

    /// When requests are checked that were not fulfilled in time.
    pub fn retry_due(&self) -> Option<Time> {
        self.retry_due
    }

    /// Takes out the requests of the groups that are asking; `None` if there are none. `newest` is
    /// the epoch of the map.
    pub fn take_wants(&mut self, now: Time, newest: Epoch) -> Option<Wants> {
        let mut wants = Wants::default();
        for pg in std::mem::take(&mut self.asking) {
            let Some(group) = self.by_id.get(&pg) else { continue };
            let wanted = group.pg.wanted_up_thru();
            let wanted = wanted.or(group.pg.wants_interval().then_some(newest));
            wants.up_thru = wants.up_thru.max(wanted);
            if let Some(osds) = group.pg.wanted_acting() {
                wants.acting.insert(pg.pg, osds.to_vec());
            }
        }
        if wants.up_thru.is_none() && wants.acting.is_empty() {
            return None;
        }
        self.retry_later(now);
        Some(wants)
    }
}

fn is_asking(pg: &Pg) -> bool {
    pg.wanted_up_thru().is_some() || pg.wanted_acting().is_some()
}
