//! The roles of metadata servers: a standby takes a rank, and gives it up by failing or stopping.

use maps::{FsId, FsMap, MdsGid, MdsInfo, MdsRank, MdsState, NO_FILE_SYSTEM, NO_RANK};
use types::Epoch;

/// Flag of a file system: standbys that are bound to another one do not serve it.
pub(crate) const REFUSE_STANDBY_FOR_ANOTHER_FS: u32 = 1 << 7;

/// Adds a server without a rank.
pub(crate) fn add_standby(map: &mut FsMap, info: MdsInfo) {
    assert!(!map.roles.contains_key(&info.gid), "server {} is new", info.gid);
    assert_eq!(info.rank, NO_RANK, "a standby has no rank");
    map.roles.insert(info.gid, NO_FILE_SYSTEM);
    map.standby_epochs.insert(info.gid, map.epoch);
    map.standbys.insert(info.gid, info);
}

/// Gives a standby a rank without a server: it creates, starts, or recovers it. The file system demands
/// the features of its servers from then on. Does nothing if one of them does not exist.
pub(crate) fn promote(map: &mut FsMap, gid: MdsGid, fscid: FsId, rank: MdsRank) {
    let Some(fs) = map.file_systems.get_mut(&fscid) else { return };
    let Some(mut info) = map.standbys.remove(&gid) else { return };
    let fs = &mut fs.map;
    assert!(!fs.up.contains_key(&rank), "rank {rank} of {} has no server", fs.fs_name);
    assert!(!fs.damaged.contains(&rank), "rank {rank} of {} was repaired", fs.fs_name);
    info.state = match (fs.stopped.remove(&rank), fs.in_ranks.contains(&rank)) {
        (true, _) => MdsState::STARTING,
        (false, false) => MdsState::CREATING,
        (false, true) => MdsState::REPLAY,
    };
    info.rank = rank;
    info.incarnation = map.epoch.0 as i32;
    fs.compat.merge(&info.compat);
    fs.failed.remove(&rank);
    fs.in_ranks.insert(rank);
    fs.up.insert(rank, gid);
    fs.mds_info.insert(gid, info);
    map.roles.insert(gid, fscid);
    map.standby_epochs.remove(&gid);
}

/// Removes a server that has failed, and returns it. Its rank waits for another one; a rank that was
/// only being created does not exist any more. `osd_epoch` is that of the OSD map which excludes the
/// server.
pub(crate) fn fail(map: &mut FsMap, gid: MdsGid, osd_epoch: Epoch) -> Option<MdsInfo> {
    let fscid = map.roles.remove(&gid)?;
    map.standby_epochs.remove(&gid);
    let Some(fs) = map.file_systems.get_mut(&fscid) else { return map.standbys.remove(&gid) };
    let fs = &mut fs.map;
    let info = fs.mds_info.remove(&gid)?;
    fs.up.remove(&info.rank);
    match info.state {
        MdsState::CREATING => fs.in_ranks.remove(&info.rank),
        _ => fs.failed.insert(info.rank),
    };
    fs.last_failure_osd_epoch = osd_epoch;
    Some(info)
}

/// Removes a server that found the metadata of its rank damaged. No other one takes the rank.
pub(crate) fn damage(map: &mut FsMap, gid: MdsGid, osd_epoch: Epoch) {
    let Some(fscid) = map.roles.get(&gid).copied() else { return };
    let Some(info) = fail(map, gid, osd_epoch) else { return };
    if let Some(fs) = map.file_systems.get_mut(&fscid) {
        fs.map.failed.remove(&info.rank);
        fs.map.in_ranks.insert(info.rank);
        fs.map.damaged.insert(info.rank);
    }
}

/// Removes a server that has handed its tree to other ranks; its rank does not exist any more.
pub(crate) fn stop(map: &mut FsMap, gid: MdsGid) {
    let Some(fscid) = map.roles.get(&gid).copied() else { return };
    let Some(fs) = map.file_systems.get_mut(&fscid) else { return };
    let Some(info) = fs.map.mds_info.remove(&gid) else { return };
    fs.map.up.remove(&info.rank);
    fs.map.in_ranks.remove(&info.rank);
    fs.map.stopped.insert(info.rank);
    map.roles.remove(&gid);
}

/// The standbys that may serve a file system: those bound to it first, then those bound to none, and at last
/// those bound to another one, unless the file system refuses them.
pub(crate) fn standbys_for(map: &FsMap, fscid: FsId) -> impl Iterator<Item = &MdsInfo> {
    let fs = map.file_systems.get(&fscid).map(|fs| &fs.map);
    let compat = fs.map(|fs| &fs.compat);
    let takes_others = fs.is_some_and(|fs| !fs.has(REFUSE_STANDBY_FOR_ANOTHER_FS));
    let can_serve = move |info: &&MdsInfo| {
        let knows_all = compat.is_some_and(|compat| info.compat.can_write(compat));
        knows_all && info.state == MdsState::STANDBY && !info.is_laggy()
    };
    let bound = map.standbys.values().filter(move |info| info.join_fscid == fscid);
    let free = map.standbys.values().filter(|info| info.join_fscid == NO_FILE_SYSTEM);
    let of_others = map
        .standbys
        .values()
        .filter(move |info| takes_others && ![fscid, NO_FILE_SYSTEM].contains(&info.join_fscid));
    bound.chain(free).chain(of_others).filter(can_serve)
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::{CompatSet, FileSystem};

    fn map() -> FsMap {
        let mut map = FsMap { epoch: Epoch(5), ..FsMap::default() };
        map.file_systems.insert(1, FileSystem { fscid: 1, ..FileSystem::default() });
        for gid in [10, 11] {
            let compat = CompatSet::of_file_systems();
            add_standby(&mut map, MdsInfo { gid, compat, ..MdsInfo::default() });
        }
        map
    }

    fn state(map: &FsMap, gid: MdsGid) -> &'static str {
        map.check_invariants();
        map.server(gid).map_or("gone", |info| info.state.name())
    }

    #[test]
    fn a_rank_is_created_once_and_recovered_by_each_successor() {
        let mut map = map();
        promote(&mut map, 10, 1, 0);
        assert_eq!(state(&map, 10), "up:creating");
        assert_eq!(map.server(10).unwrap().incarnation, 5);
        map.server_mut(10).unwrap().state = MdsState::ACTIVE;
        fail(&mut map, 10, Epoch(7));
        assert_eq!((state(&map, 10), map.file_systems[&1].map.failed.len()), ("gone", 1));
        assert_eq!(map.file_systems[&1].map.last_failure_osd_epoch, Epoch(7));
        promote(&mut map, 11, 1, 0);
        assert_eq!((state(&map, 11), map.file_systems[&1].map.failed.len()), ("up:replay", 0));
    }

    #[test]
    fn a_rank_whose_creation_failed_is_created_again() {
        let mut map = map();
        promote(&mut map, 10, 1, 0);
        fail(&mut map, 10, Epoch(7));
        assert!(map.file_systems[&1].map.in_ranks.is_empty());
        promote(&mut map, 11, 1, 0);
        assert_eq!(state(&map, 11), "up:creating");
    }

    #[test]
    fn a_stopped_rank_is_started_and_a_damaged_one_waits() {
        let mut map = map();
        promote(&mut map, 10, 1, 0);
        stop(&mut map, 10);
        promote(&mut map, 11, 1, 0);
        assert_eq!(state(&map, 11), "up:starting");
        damage(&mut map, 11, Epoch(9));
        assert_eq!(state(&map, 11), "gone");
        let fs = &map.file_systems[&1].map;
        assert!(fs.damaged.contains(&0) && fs.failed.is_empty() && fs.in_ranks.contains(&0));
    }

    #[test]
    fn a_standby_must_know_all_features_and_prefers_the_file_system_it_is_bound_to() {
        let mut map = map();
        map.standbys.get_mut(&11).unwrap().join_fscid = 1;
        let of = |map: &FsMap| standbys_for(map, 1).map(|info| info.gid).collect::<Vec<_>>();
        assert_eq!(of(&map), [11, 10]);
        map.standbys.get_mut(&10).unwrap().join_fscid = 2;
        assert_eq!(of(&map), [11, 10], "that of another file system is the last resort");
        map.file_systems.get_mut(&1).unwrap().map.flags |= REFUSE_STANDBY_FOR_ANOTHER_FS;
        assert_eq!(of(&map), [11]);
        map.file_systems.get_mut(&1).unwrap().map.compat.incompat.insert(11, "minor log segments");
        assert!(of(&map).is_empty());
    }
}
