//! Flapping: OSDs that are marked down again and again although they run. Each time moves data and blocks
//! clients, so after a few times such an OSD is kept down for a while.
//!
//! Only failures detected by missed heartbeats count, and only if the same process then boots again: it was
//! cut off from its peers but not from the monitor, or is too slow. An administrator who restarts the process
//! gets it back at once.

use crate::state::{Overrides, State};
use engine::Time;
use maps::OsdMap;
use std::collections::BTreeMap;
use types::{Epoch, OsdId};

/// OSDs that were marked down for missed heartbeats.
#[derive(Debug, Default)]
pub struct Flapping {
    osds: BTreeMap<OsdId, Past>,
}

#[derive(Debug, Default)]
struct Past {
    /// The incarnation (`up_from`) that was last marked down for missed heartbeats.
    judged: Option<Epoch>,
    /// Incarnations that were marked down although they ran, with the time at which that was noticed.
    wrongly: BTreeMap<Epoch, Time>,
}

impl Flapping {
    /// Records that an OSD is marked down for missed heartbeats.
    pub fn judged(&mut self, map: &OsdMap, osd: OsdId) {
        let up_from = map.osd(osd).map(|known| known.info.up_from);
        self.osds.entry(osd).or_default().judged = up_from;
    }

    /// Handles the boot of an OSD, and returns whether it must wait. May be called more than once for the
    /// same boot. `lived`: the process has run since it was marked down.
    pub fn boots(
        &mut self,
        state: &State,
        running: &Overrides,
        now: Time,
        osd: OsdId,
        lived: bool,
    ) -> bool {
        if !lived {
            self.osds.remove(&osd);
            return false;
        }
        let Some(past) = self.osds.get_mut(&osd) else { return false };
        let life = state.osdmap.osd(osd).map(|known| known.info.up_from);
        if let Some(life) = life.filter(|life| past.judged == Some(*life)) {
            past.wrongly.entry(life).or_insert(now);
        }
        self.is_held(state, running, now, osd)
    }

    /// Whether an OSD was marked down wrongly more than `osd_max_markdown_count` times in
    /// `osd_max_markdown_period`.
    pub fn is_held(&self, state: &State, running: &Overrides, now: Time, osd: OsdId) -> bool {
        let options = state.osd_options(running);
        let period = options.duration("osd_max_markdown_period");
        let Some(past) = self.osds.get(&osd) else { return false };
        let recent = past.wrongly.values().filter(|when| now.since(**when) < period).count();
        recent as u64 > options.number("osd_max_markdown_count")
    }

    /// Drops entries that no longer count.
    pub fn expire(&mut self, state: &State, running: &Overrides, now: Time) {
        let period = state.osd_options(running).duration("osd_max_markdown_period");
        for past in self.osds.values_mut() {
            past.wrongly.retain(|_, when| now.since(*when) < period);
        }
        self.osds.retain(|osd, past| {
            state.osdmap.exists(*osd) && (past.judged.is_some() || !past.wrongly.is_empty())
        });
    }

    /// OSDs that are kept down now.
    pub fn held(&self, state: &State, running: &Overrides, now: Time) -> Vec<OsdId> {
        let is_held =
            |osd: &OsdId| !state.osdmap.is_up(*osd) && self.is_held(state, running, now, *osd);
        self.osds.keys().copied().filter(is_held).collect()
    }
}
