//! Rules of file systems that commands, beacons and timers share.

pub(crate) mod roles;

use crate::change::Change;
use crate::state::{Overrides, State};
use maps::{MdsGid, MdsMap, MdsRank, MdsState, NO_RANK};
use std::time::Duration;
use types::{AddrType, EntityAddrVec, Epoch, PoolId, UTime};

/// `mon_mds_blocklist_interval`: for how long the addresses of a failed metadata server are excluded.
const BLOCKLISTED_FOR: Duration = Duration::from_secs(24 * 3600);
/// `MAX_MDS`: ranks of a file system.
pub(crate) const RANKS_MAX: i64 = 256;

/// `CEPHFS_FEATURE_*`: features of clients by bit. A file system may demand those that have a name.
pub(crate) const CLIENT_FEATURES: [(usize, &str); 22] = [
    (0, RESERVED),
    (1, RESERVED),
    (2, RESERVED),
    (3, RESERVED),
    (4, RESERVED),
    (5, "jewel"),
    (6, "kraken"),
    (7, "luminous"),
    (8, "mimic"),
    (9, "reply_encoding"),
    (10, "reclaim_client"),
    (11, "lazy_caps_wanted"),
    (12, "multi_reconnect"),
    (13, "deleg_ino"),
    (14, "metric_collect"),
    (15, "alternate_name"),
    (16, "notify_session_state"),
    (17, "op_getvxattr"),
    (18, "32bits_retry_fwd"),
    (19, "new_snaprealm_info"),
    (20, "has_owner_uidgid"),
    (21, "client_mds_auth_caps"),
];
pub(crate) const RESERVED: &str = "reserved";

/// Severities of [`Change::note`].
pub(crate) const DEBUG: u16 = 0;
pub(crate) const INFO: u16 = 1;
pub(crate) const WARNING: u16 = 3;
pub(crate) const ERROR: u16 = 4;

/// Flag of a file system: servers move directories between ranks by themselves.
pub(crate) const BALANCE_AUTOMATE: u32 = 1 << 8;

/// Time without a beacon after which a metadata server is replaced (`mds_beacon_grace`).
pub(crate) fn beacon_grace(state: &State, running: &Overrides) -> Duration {
    state.options(running).duration("mds_beacon_grace")
}

/// Whether a server in one state may ask for another one.
pub(crate) fn is_transition(from: MdsState, to: MdsState) -> bool {
    use MdsState as S;
    if to == S::DNE {
        return true;
    }
    let has_rank = !matches!(from, S::STANDBY | S::STANDBY_REPLAY);
    if to == S::DAMAGED {
        return has_rank;
    }
    match from {
        S::CREATING | S::STARTING => to == S::ACTIVE,
        S::REPLAY => matches!(to, S::RESOLVE | S::RECONNECT),
        S::RESOLVE => to == S::RECONNECT,
        // Of a single rank nothing has to be joined again.
        S::RECONNECT => matches!(to, S::REJOIN | S::ACTIVE),
        S::REJOIN => matches!(to, S::ACTIVE | S::CLIENTREPLAY),
        S::CLIENTREPLAY => to == S::ACTIVE,
        S::STOPPING => to == S::STOPPED,
        // A standby gets a rank from the monitor, and an active server stops when the monitor says so.
        _ => false,
    }
}

/// Whether a rank may be added or stopped now: no other one is on its way.
pub(crate) fn is_resizable(map: &MdsMap) -> bool {
    let moves = |info: &maps::MdsInfo| {
        let state = info.state;
        matches!(state, MdsState::CREATING | MdsState::STARTING | MdsState::STOPPING)
    };
    !map.is_degraded() && !map.mds_info.values().any(moves)
}

/// The rank that a file system with fewer than `max_mds` ranks lacks next.
pub(crate) fn next_rank(map: &MdsMap) -> Option<MdsRank> {
    if !is_resizable(map) || map.in_ranks.len() as i64 >= i64::from(map.max_mds) {
        return None;
    }
    (0..map.max_mds).find(|rank| !map.in_ranks.contains(rank))
}

/// Excludes the addresses of a metadata server from all OSDs. Returns the epoch of the OSD map that does.
pub(crate) fn blocklist(state: &State, change: &mut Change, addrs: &EntityAddrVec) -> Epoch {
    let now = change.now().as_nanos();
    let until = now.saturating_add(BLOCKLISTED_FOR.as_nanos() as u64);
    let until = UTime::from_nanos(until.min(u64::from(u32::MAX) * 1_000_000_000));
    for addr in &addrs.0 {
        let addr = types::EntityAddr { kind: AddrType::Any, ..*addr };
        match state.osdmap.blocklist.contains_key(&addr) {
            true => change.extend_blocklist(state, &addr, until),
            false => drop(change.osdmap(state).new_blocklist.insert(addr, until)),
        }
    }
    change.osdmap(state).epoch
}

/// Removes a metadata server. One with a rank may still write, so its addresses are blocklisted in the same
/// change.
pub(crate) fn fail(state: &State, change: &mut Change, gid: MdsGid) {
    let Some(info) = change.fsmap_after(state).server(gid).cloned() else { return };
    let osd_epoch = match info.rank {
        NO_RANK => Epoch(0),
        _ => blocklist(state, change, &info.addrs),
    };
    roles::fail(change.fsmap(state), gid, osd_epoch);
}

/// The file system that uses a pool.
pub(crate) fn user_of(state: &State, pool: PoolId) -> Option<&MdsMap> {
    let uses = |map: &&MdsMap| map.metadata_pool == pool || map.data_pools.contains(&pool);
    state.fs.map.file_systems.values().map(|fs| &fs.map).find(uses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_takes_its_rank_step_by_step() {
        use MdsState as S;
        let steps = [S::REPLAY, S::RECONNECT, S::REJOIN, S::CLIENTREPLAY, S::ACTIVE];
        assert!(steps.windows(2).all(|pair| is_transition(pair[0], pair[1])));
        assert!(!is_transition(S::STANDBY, S::ACTIVE), "only the monitor gives ranks");
        assert!(is_transition(S::RECONNECT, S::ACTIVE));
        assert!(!is_transition(S::REPLAY, S::ACTIVE), "clients must see the reconnect state");
        assert!(!is_transition(S::ACTIVE, S::STOPPING), "only the monitor takes ranks");
        assert!(is_transition(S::STANDBY, S::DNE) && !is_transition(S::STANDBY, S::DAMAGED));
    }

    #[test]
    fn ranks_are_added_one_by_one() {
        let mut map = MdsMap { max_mds: 2, ..MdsMap::default() };
        assert_eq!(next_rank(&map), Some(0));
        map.in_ranks.insert(0);
        assert_eq!(next_rank(&map), Some(1));
        map.failed.insert(0);
        assert_eq!(next_rank(&map), None, "a degraded file system does not grow");
        map.failed.clear();
        map.in_ranks.insert(1);
        assert_eq!(next_rank(&map), None);
    }
}
