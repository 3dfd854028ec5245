//! Removal of snapshots from the pools of file systems, for metadata servers.

use crate::change::Change;
use crate::file_systems::user_of;
use crate::job::{FsJob, Job, ServiceJob};
use crate::service::{Cx, DecideCx};
use crate::sessions::{Caps, Session};
use crate::state::State;
use auth::{MonAccess, Rwx};
use engine::ConnId;
use maps::PoolFlags;
use std::collections::BTreeMap;
use types::{EntityType, PoolId, SnapId};
use wire::{MessageBody, PeerFault, RemoveSnaps};

/// Bound of the snapshots in a request; a file system has at most some hundreds.
const SNAPS_MAX: usize = 65_536;

/// Handles a request.
pub(super) fn take(cx: &mut Cx<'_>, conn: ConnId, request: RemoveSnaps) {
    let count: usize = request.snaps.values().map(Vec::len).sum();
    let is_allowed = cx.sessions.get(conn).is_some_and(may_remove_snapshots);
    if !is_allowed || count > SNAPS_MAX {
        return cx.log_dropped(conn, &PeerFault::NotAllowed { kind: RemoveSnaps::KIND });
    }
    if request.snaps.iter().any(|(pool, snaps)| !new_snaps(cx.state, *pool, snaps).is_empty()) {
        let snaps = request.snaps;
        cx.enqueue(Job::Of(ServiceJob::Fs(FsJob::RemoveSnaps { conn, snaps })));
    }
}

/// Whether the peer is a metadata server with the capability for this command.
pub(crate) fn may_remove_snapshots(session: &Session) -> bool {
    let Caps::Mon(caps) = session.caps() else { return false };
    let name = &session.peer().name;
    name.kind == EntityType::MDS
        && caps.allows(&MonAccess {
            name,
            service: "osd",
            command: "osd pool rmsnap",
            arguments: &BTreeMap::new(),
            needed: Rwx::WRITE,
            peer: session.ip(),
        })
}

/// The snapshots that are not queued for removal yet. Only pools of file systems have such.
fn new_snaps(state: &State, pool: i32, snaps: &[SnapId]) -> Vec<SnapId> {
    let id = PoolId(pool.into());
    if user_of(state, id).is_none() {
        return Vec::new();
    }
    let queue = state.osdmap.removed_snaps_queue.get(&id);
    let is_new = |snap: &SnapId| {
        let is_number = snap.0 > 0 && snap.0 < u64::from(u32::MAX);
        is_number && queue.is_none_or(|queue| !queue.contains(*snap))
    };
    snaps.iter().copied().filter(is_new).collect()
}

/// Queues snapshots for removal.
pub(super) fn run(cx: &DecideCx<'_>, snaps: &BTreeMap<i32, Vec<SnapId>>, change: &mut Change) {
    for (number, snaps) in snaps {
        let (id, new) = (PoolId((*number).into()), new_snaps(cx.state, *number, snaps));
        let Some(greatest) = new.iter().max().copied() else { continue };
        let Some(pool) = change.pool_snapshots(cx.state, id) else { continue };
        if pool.flags.contains(PoolFlags::POOL_SNAPS) {
            continue;
        }
        pool.flags.insert(PoolFlags::SELFMANAGED_SNAPS);
        pool.snap_seq = pool.snap_seq.max(greatest);
        let removed = change.osdmap(cx.state).new_removed_snaps.entry(id).or_default();
        new.into_iter().for_each(|snap| removed.insert(snap));
    }
}
