//! Registration of monitors, and of the manager that the leader stands in for, in the maps.

use super::Monitor;
use crate::bootstrap::MANAGER_GLOBAL_ID;
use crate::change::Change;
use crate::keys;
use maps::{MonInfo, StandbyInfo};
use std::collections::BTreeMap;
use types::Epoch;

impl Monitor {
    /// Writes this monitor's current addresses into the mon map. A monitor that is not in it joins.
    pub(super) fn announce_address(&mut self, change: &mut Change) {
        let settings = &self.settings;
        let mut monmap = self.state.monmap.clone();
        let known = monmap.mon_info.get(&settings.mon_name);
        if known.is_some_and(|mon| mon.public_addrs == settings.mon_addrs) {
            return;
        }
        if known.is_none() {
            monmap.ranks.push(settings.mon_name.clone());
        }
        let mon = monmap.mon_info.entry(settings.mon_name.clone()).or_insert_with(|| MonInfo {
            name: settings.mon_name.clone(),
            time_added: change.now(),
            ..MonInfo::default()
        });
        mon.public_addrs = settings.mon_addrs.clone();
        monmap.epoch = monmap.epoch.next();
        monmap.last_changed = change.now();
        change.put(keys::monmap(monmap.epoch), codec::encode_to_bytes(&monmap));
        change.delete(keys::monmap(self.state.monmap.epoch));
    }

    /// The leader is the active manager; the other monitors stand by.
    pub(super) fn plan_manager(&self, change: &mut Change) {
        let (settings, map) = (&self.settings, &self.state.mgrmap);
        let gid_of = |rank: Option<usize>| MANAGER_GLOBAL_ID - rank.unwrap_or(0) as u64;
        let own_gid = gid_of(self.state.monmap.rank(&settings.mon_name));
        let others = self.state.quorum().into_iter().filter_map(|(rank, name)| {
            let presence = self.state.members.present.get(name)?;
            let gid = gid_of(Some(rank));
            let mgr_features = types::features::SUPPORTED;
            let name = presence.manager.clone();
            let standby = StandbyInfo { gid, name, mgr_features, ..StandbyInfo::default() };
            (gid != own_gid).then_some((gid, standby))
        });
        let standbys: BTreeMap<u64, StandbyInfo> = others.collect();
        let is_active = map.active_addrs == settings.mgr_addrs
            && map.active_name == settings.mgr_name
            && map.active_gid == own_gid
            && map.available;
        if is_active && map.standbys == standbys {
            return;
        }
        let mut map = map.clone();
        map.epoch = Epoch(map.epoch.0 + 1);
        map.standbys = standbys;
        if !is_active {
            map.active_gid = own_gid;
            map.active_addrs = settings.mgr_addrs.clone();
            map.active_name = settings.mgr_name.clone();
            map.active_change = change.now();
            map.available = true;
        }
        change.put(keys::MGRMAP, codec::encode_to_bytes(&map));
    }
}
