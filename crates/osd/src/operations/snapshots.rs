//! Snapshots of the OSD's pools: those that a write must preserve, and the place of the state that
//! a request reads.

use crate::Osd;
use crate::execute::{Answer, Need, Snapshots};
use crate::operations::keys::ObjectKey;
use crate::operations::object::Progress;
use crate::operations::request::Request;
use crate::tokens::Token;
use engine::Time;
use maps::{PoolFlags, SnapIntervals};
use pg::snaps::At;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{Collection, RequestKind};
use types::{Errno, HObject, PgId, SnapId};
use wire::op::OpCode;
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

impl Osd {
    /// Updates the groups' snapshots from a new map.
    pub(crate) fn take_pool_snapshots(&mut self, now: Time) {
        self.maps.note_removed_snaps();
        let map = self.maps.map();
        let mut known: BTreeMap<_, PoolSnapshots> = BTreeMap::new();
        for (id, pool) in &map.pools {
            let removed = map.removed_snaps_queue.get(id);
            let is_pool_mode = pool.flags.contains(PoolFlags::POOL_SNAPS);
            let gone = self.maps.removed_snaps().of(*id);
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
        let (mut wanting, none) = (Vec::new(), PoolSnapshots::default());
        for (pg, group) in &mut self.groups.by_id {
            group.snapshots = known.get(&pg.pool).unwrap_or(&none).clone();
            group.trim.forget_purged(&group.snapshots.removed);
            if !group.snapshots.removed.is_empty() {
                wanting.push(*pg);
            }
        }
        wanting.into_iter().for_each(|pg| self.note_trim(now, pg));
    }

    /// Finds the clones that a request reads, and loads or recovers them. `Some` if the request
    /// cannot run yet.
    pub(crate) fn find_clones(
        &mut self,
        pg: PgId,
        object: ObjectKey,
        key: u64,
    ) -> Option<Progress> {
        let request = self.operations.requests.get(key).expect("the caller has it");
        let group = &self.groups.by_id[&pg];
        let context = self.operations.contexts.get(object).expect("its request runs");
        let head = &context.name;
        let state = context.state.as_ref().expect("it is loaded before");
        let set = state.snaps.as_deref();
        let snapshots = group.snapshots.of_request(request, &[]);
        if request.nature.rolls_back {
            let ops = request.message.ops.iter().filter(|op| op.code == OpCode::ROLLBACK);
            let mut clones = ops.filter_map(|op| match snapshots.find(set, op.snap()) {
                At::Clone(id) => Some(head.at(id)),
                _ => None,
            });
            let lacking = clones.find(|clone| group.pg.is_blocked(clone, true, false))?;
            return self.await_clone(pg, object, key, &lacking);
        }
        let at = snapshots.find(set, request.object().snap);
        let cached = context.clone.as_ref().map(|(id, _)| *id);
        let request = self.operations.requests.get_mut(key).expect("it was just there");
        request.at = Some(at);
        let At::Clone(id) = at else { return None };
        let clone = head.at(id);
        let is_absent = group.pg.is_blocked(&clone, false, false);
        if is_absent && group.pg.is_primary() {
            return self.await_clone(pg, object, key, &clone);
        }
        if is_absent {
            return Some(self.reject(object, key, Errno::AGAIN));
        }
        if cached == Some(id) {
            return None;
        }
        self.load_clone(pg, object, key, id, clone)
    }

    /// Makes a request wait for a clone that is not here; it fails if the clone is lost.
    fn await_clone(
        &mut self,
        pg: PgId,
        object: ObjectKey,
        key: u64,
        clone: &HObject,
    ) -> Option<Progress> {
        let group = self.groups.by_id.get_mut(&pg).expect("the caller has it");
        if group.pg.is_lost(clone) {
            return Some(self.reject(object, key, Errno::IO));
        }
        group.pg.want_object(clone);
        Some(Progress::Blocked)
    }

    /// Puts the state of a clone into its object's context, or loads it.
    fn load_clone(
        &mut self,
        pg: PgId,
        object: ObjectKey,
        key: u64,
        id: SnapId,
        clone: HObject,
    ) -> Option<Progress> {
        let need = Need::Clone(id);
        let request = self.operations.requests.get(key).expect("the caller has it");
        match request.loaded.find(&need) {
            Some(Answer::Clone(state)) => {
                let state = state.clone();
                let context = self.operations.contexts.get_mut(object).expect("its request runs");
                context.clone = Some((id, state));
                None
            }
            Some(_) => {
                let errno = self.unreadable_errno(pg, Errno::IO);
                Some(self.reject(object, key, errno))
            }
            None => {
                self.operations.mark_begun(object, key);
                let request = self.operations.requests.get_mut(key).expect("it was just there");
                request.outstanding = 1;
                let token = Token::Need { request: key, attempt: request.attempt, need };
                let kind =
                    RequestKind::Meta { collection: Collection::replicated(pg), object: clone };
                self.outbox.ask(token, kind);
                Some(Progress::Begun)
            }
        }
    }
}
