//! Snapshots of the OSD's pools: those that a write must preserve, and those in which a request reads.

use crate::execute::Snapshots;
use crate::operations::request::Request;
use maps::{OsdMap, PoolFlags, SnapIntervals};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{PoolId, SnapId};
use wire::op::request_flags::{ENFORCE_SNAPC, ORDERSNAP};

/// Snapshots of a group's pool as the map has them. Empty for most pools, so that a write costs one
/// comparison.
#[derive(Debug, Clone, Default)]
pub(crate) struct PoolSnapshots {
    /// Whether these are preserved, instead of those in the client's snapshot context.
    is_pool_mode: bool,
    seq: SnapId,
    /// Newest first.
    snaps: Vec<SnapId>,
    /// Snapshots whose removal has begun and is not complete.
    pub removed: Arc<SnapIntervals>,
    /// Those, and all others of whose removal this OSD has learned: a request may have been in
    /// flight for long.
    gone: Arc<SnapIntervals>,
}

impl PoolSnapshots {
    /// The snapshots of all pools that have any or had. `gone` are the snapshots of a pool of whose removal
    /// this OSD has learned.
    pub fn of_pools<'a>(
        map: &OsdMap,
        gone: impl Fn(PoolId) -> Option<&'a SnapIntervals>,
    ) -> BTreeMap<PoolId, PoolSnapshots> {
        let mut known = BTreeMap::new();
        for (id, pool) in &map.pools {
            let removed = map.removed_snaps_queue.get(id);
            let is_pool_mode = pool.flags.contains(PoolFlags::POOL_SNAPS);
            let gone = gone(*id);
            if is_pool_mode || gone.is_some() {
                let snapshots = PoolSnapshots {
                    is_pool_mode,
                    seq: if is_pool_mode { pool.snap_seq } else { SnapId(0) },
                    snaps: pool.snaps.keys().rev().copied().filter(|_| is_pool_mode).collect(),
                    removed: Arc::new(removed.cloned().unwrap_or_default()),
                    gone: Arc::new(gone.cloned().unwrap_or_default()),
                };
                known.insert(*id, snapshots);
            }
        }
        known
    }

    /// Whether the pool's snapshots apply to the request, instead of those it names.
    fn rules(&self, request: &Request) -> bool {
        self.is_pool_mode && !request.message.has_flag(ENFORCE_SNAPC)
    }

    /// Whether the snapshot context of the request has any snapshot.
    pub fn has_any(&self, request: &Request) -> bool {
        let own = request.message.snap_context.seq > SnapId(0);
        if self.rules(request) { self.seq > SnapId(0) } else { own }
    }

    /// Snapshots that a write must preserve, newest first. Removed ones are left out, as its client
    /// may not know of the removal yet.
    pub fn to_preserve<'a>(&'a self, request: &'a Request) -> Cow<'a, [SnapId]> {
        if self.rules(request) {
            return Cow::Borrowed(&self.snaps);
        }
        let named = &request.message.snap_context.snaps;
        if self.gone.is_empty() || !named.iter().any(|snap| self.gone.contains(*snap)) {
            return Cow::Borrowed(named);
        }
        Cow::Owned(named.iter().copied().filter(|snap| !self.gone.contains(*snap)).collect())
    }

    /// The snapshots for the execution of a request; `snaps` are those to preserve.
    pub fn of_request<'a>(&'a self, request: &Request, snaps: &'a [SnapId]) -> Snapshots<'a> {
        let named = request.message.snap_context.seq;
        Snapshots {
            seq: if self.rules(request) { self.seq } else { named },
            snaps,
            is_ordered: request.message.has_flag(ORDERSNAP),
            removed: (!self.removed.is_empty()).then_some(&*self.removed),
        }
    }
}
