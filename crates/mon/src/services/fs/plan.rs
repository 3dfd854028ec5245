//! The changes of the file system map that are due because of time: silent servers are replaced, ranks
//! without a server get a standby, and `max_mds` is followed.

use crate::change::Change;
use crate::file_systems::{INFO, WARNING, beacon_grace, fail, is_resizable, next_rank, roles};
use crate::live::MdsWatch;
use crate::service::DecideCx;
use crate::state::State;
use maps::{FsId, FsMap, MdsGid, MdsInfo, MdsMap, MdsRank, MdsState, NO_RANK};

/// Adds all changes that are due.
pub(super) fn plan(cx: &DecideCx<'_>, watch: &MdsWatch, change: &mut Change) {
    let state = cx.state;
    let grace = beacon_grace(state, cx.running);
    let is_silent = |info: &&MdsInfo| watch.silence(cx.now, info.gid) > grace;
    let mut silent: Vec<MdsInfo> = state.fs.map.servers().filter(is_silent).cloned().collect();
    // Standbys first: no rank is given to a silent one.
    silent.sort_by_key(|info| info.rank != NO_RANK);
    for info in silent {
        replace_silent(state, &info, change);
    }
    assign(state, change);
}

/// A silent standby is removed. A silent server with a rank is replaced if a standby can take the rank;
/// otherwise it is marked, and keeps the rank if it speaks again.
fn replace_silent(state: &State, info: &MdsInfo, change: &mut Change) {
    if info.rank == NO_RANK || has_standby(change.fsmap_after(state), info.gid) {
        let text = format!(
            "MDS daemon mds.{} is removed because it is dead or otherwise unavailable.",
            info.name
        );
        change.note(WARNING, text);
        fail(state, change, info.gid);
        // The standby is there for one rank.
        assign(state, change);
    } else if !info.is_laggy() {
        let now = change.now();
        if let Some(info) = change.fsmap(state).server_mut(info.gid) {
            info.laggy_since = now;
        }
    }
}

/// Whether a standby may take the rank of a server now.
fn has_standby(map: &FsMap, gid: MdsGid) -> bool {
    let fs = map.roles.get(&gid).and_then(|fscid| map.file_systems.get(fscid));
    fs.is_some_and(|fs| {
        !fs.map.has(MdsMap::NOT_JOINABLE) && roles::standbys_for(map, fs.fscid).next().is_some()
    })
}

/// Gives ranks to standbys, and takes them away, as far as the map allows now.
pub(crate) fn assign(state: &State, change: &mut Change) {
    let ids: Vec<_> = change.fsmap_after(state).file_systems.keys().copied().collect();
    for id in ids {
        while let Some((gid, rank)) = vacancy(change.fsmap_after(state), id) {
            note_assigned(change, state, id, gid, rank);
            roles::promote(change.fsmap(state), gid, id, rank);
        }
        shrink(state, id, change);
    }
}

/// A rank that has no server, and the standby that takes it.
fn vacancy(map: &FsMap, id: FsId) -> Option<(MdsGid, MdsRank)> {
    let fs = &map.file_systems.get(&id)?.map;
    if fs.has(MdsMap::NOT_JOINABLE) {
        return None;
    }
    let rank = fs.failed.first().copied().or_else(|| next_rank(fs))?;
    Some((roles::standbys_for(map, id).next()?.gid, rank))
}

fn note_assigned(change: &mut Change, state: &State, id: FsId, gid: MdsGid, rank: MdsRank) {
    let map = change.fsmap_after(state);
    let name = map.server(gid).map_or("", |info| info.name.as_str());
    let Some(fs) = map.file_systems.get(&id).map(|fs| &fs.map) else { return };
    let who = if fs.failed.contains(&rank) { "Standby daemon" } else { "daemon" };
    let fs = &fs.fs_name;
    let text = format!("{who} mds.{name} assigned to filesystem {fs} as rank {rank}");
    change.note(INFO, text);
}

/// Stops the greatest rank if there are more than `max_mds`.
fn shrink(state: &State, id: FsId, change: &mut Change) {
    let Some(fs) = change.fsmap_after(state).file_systems.get(&id).map(|fs| &fs.map) else {
        return;
    };
    let is_too_large = fs.in_ranks.len() as i64 > i64::from(fs.max_mds.max(0));
    let last = fs.in_ranks.last().and_then(|rank| fs.server(*rank));
    let Some(last) = last.filter(|info| info.state == MdsState::ACTIVE) else { return };
    if is_too_large && is_resizable(fs) {
        let (gid, name, rank) = (last.gid, last.name.clone(), last.rank);
        if let Some(info) = change.fsmap(state).server_mut(gid) {
            info.state = MdsState::STOPPING;
        }
        change.note(INFO, format!("stopping daemon mds.{name} of rank {rank}"));
    }
}
