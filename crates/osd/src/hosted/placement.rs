//! The distribution of a new map among the groups.

use super::{HostedGroups, sessions, stored_map};
use crate::cx::cx;
use crate::groups::placement::{copies_of, layout, members, statuses};
use crate::groups::split_merge;
use crate::maps::stored;
use crate::maps::telling::{Job, Task, Telling, Then};
use crate::operations::copying;
use crate::operations::snapshots::PoolSnapshots;
use crate::shared::Shared;
use maps::OsdMap;
use pg::split::parts_of;
use pg::{MapChange, Member, Members, Pg};
use std::collections::BTreeSet;
use std::sync::Arc;
use store::{Outcome, StoreError};
use types::{Epoch, PgId, PgShard};

/// Loads the groups, and the stored map, whose collections the store has named. Returns whether it has.
pub(crate) fn load(
    hosted: &mut HostedGroups,
    shared: &mut Shared,
    outcome: Result<Outcome, StoreError>,
) -> bool {
    let collections = match outcome {
        Ok(Outcome::Collections(collections)) => collections,
        other => {
            tracing::error!(osd = %shared.env.config.id, ?other, "the store cannot be read");
            return false;
        }
    };
    hosted.leases.begin(shared.env.now);
    for collection in collections {
        if collection == stored::collection() {
            shared.maps.load(&mut shared.outbox);
            continue;
        }
        let id = collection.0;
        let copy = Pg::load(id, shared.env.whoami());
        hosted.groups.add(copy.with_sizes(shared.env.config.sizes.groups));
        hosted.settle_group(shared, id);
    }
    true
}

/// Whether all groups have been read from the store.
pub(crate) fn are_loaded(hosted: &mut HostedGroups) -> bool {
    hosted.groups.are_loaded()
}

/// Whether maps must be ignored, as groups are being split or merged; if so, they are requested again later.
pub(crate) fn hold_maps(hosted: &mut HostedGroups) -> bool {
    split_merge::hold_maps(&mut hosted.groups)
}

/// Whether no group is being split or merged.
pub(crate) fn is_split_merge_idle(hosted: &HostedGroups) -> bool {
    split_merge::is_idle(&hosted.groups)
}

/// Removes the groups that the map no longer has.
pub(crate) fn remove_deleted(hosted: &mut HostedGroups, shared: &mut Shared) {
    for pg in hosted.groups.deleted(shared.maps.map()) {
        hosted.drop_requests(shared, pg);
        hosted.groups.get_mut(pg).expect("its key was just read").pg.remove();
        hosted.settle_group(shared, pg);
    }
}

/// The job of telling the newest map to all groups.
pub(crate) fn begin(hosted: &HostedGroups, shared: &mut Shared, then: Then) -> Job {
    let own = shared.env.config.id;
    let candidates = Vec::from_iter(shared.maps.candidates(own));
    let others = hosted.groups.iter().map(|(pg, _)| pg);
    let copies = candidates.into_iter().flat_map(|pg| copies_here(shared, pg));
    let all: BTreeSet<PgShard> = copies.chain(others).collect();
    let (map, is_gap) = (shared.maps.map(), shared.maps.is_gap());
    let rest = Vec::from_iter(all).into_iter();
    let task = Task::Tell(Telling { osds: Arc::new(statuses(map)), is_gap });
    Job { rest, task, then }
}

/// The copies of a candidate that this OSD may have under the newest map.
fn copies_here(shared: &Shared, pg: PgId) -> Vec<PgShard> {
    let map = shared.maps.map();
    match map.pool(pg.pool) {
        None => Vec::new(),
        // Whether it is a member is found out when it is told.
        Some(pool) if pool.is_replicated() => vec![PgShard::replicated(pg)],
        Some(pool) => copies_of(pool, pg, &shared.maps.mapping(map, pg), shared.env.config.id),
    }
}

/// Has some groups handle the map, or store the intervals that it began; performs their outputs.
pub(crate) fn go_on(hosted: &mut HostedGroups, shared: &mut Shared, some: &[PgShard], task: &Task) {
    match task {
        Task::Tell(telling) => tell_some(hosted, shared, some, telling),
        Task::Store => store_some(hosted, shared, some),
    }
}

fn store_some(hosted: &mut HostedGroups, shared: &mut Shared, some: &[PgShard]) {
    for pg in some {
        if let Some(group) = hosted.groups.get_mut(*pg) {
            group.pg.store_interval();
            hosted.settle_and_release(shared, *pg);
        }
    }
}

fn tell_some(hosted: &mut HostedGroups, shared: &mut Shared, some: &[PgShard], telling: &Telling) {
    let map = shared.maps.take_map();
    for pg in some {
        tell_map(hosted, shared, *pg, &map, telling);
    }
    shared.maps.return_map(map);
    // Their outputs are not collected for all groups at once, which would need much memory.
    some.iter().for_each(|pg| hosted.settle_and_release(shared, *pg));
}

fn tell_map(
    hosted: &mut HostedGroups,
    shared: &mut Shared,
    pg: PgShard,
    map: &OsdMap,
    telling: &Telling,
) {
    let is_up = shared.is_up();
    if map.pool(pg.pg.pool).is_none_or(|pool| pg.pg.seed >= pool.pg_num) {
        return;
    }
    let Some(members) = members_of(shared, map, pg.pg) else { return };
    let own = Member { osd: shared.env.config.id, shard: pg.shard };
    let is_member = is_up && members.has_member(own);
    let known = hosted.groups.get(pg).map(|group| &group.pg);
    if !is_member && known.is_none() {
        return;
    }
    let before = known.filter(|known| known.interval() > Epoch(0));
    let before = before.map(|known| known.members().hash_bits);
    let is_new = !telling.is_gap && shared.maps.is_new(pg.pg.pool);
    let (epoch, osds, is_gap) = (map.epoch, telling.osds.clone(), telling.is_gap);
    let change = MapChange { epoch, osds, is_up, is_gap, is_new };
    place(hosted, shared, pg, &change, members);
    let now = hosted.groups.get(pg).map(|group| group.pg.members().hash_bits);
    match before.zip(now) {
        Some((before, now)) if now > before => {
            place_parts(hosted, shared, (pg, before), map, &change);
        }
        Some((before, now)) if now < before => {
            split_merge::begin_merge(&mut hosted.groups, pg, map, &change);
        }
        _ => {}
    }
}

/// The up and acting set of a group under the map of the last update of the candidates; `None` if this
/// version does not know how its pool keeps objects: such groups are left alone.
fn members_of(shared: &Shared, map: &OsdMap, pg: PgId) -> Option<Members> {
    let pool = map.pool(pg.pool)?;
    match layout(map, pool) {
        Ok(layout) => Some(members(map, pg, pool, layout, shared.maps.mapping(map, pg))),
        Err(error) => {
            tracing::error!(%pg, %error, "the group is not served");
            None
        }
    }
}

/// Tells a group its members under a new map; creates the group if there is none.
fn place(
    hosted: &mut HostedGroups,
    shared: &mut Shared,
    pg: PgShard,
    change: &MapChange,
    members: Members,
) {
    let has_space = !shared.usage.is_disk_full();
    if hosted.groups.place(&shared.env, &hosted.leases, has_space, pg, change, members) {
        shared.maps.distribution.must_store(pg);
    }
}

/// Creates the parts of a group that is split, under the same map. `bits` is the number of hash bits that
/// selected its objects before.
fn place_parts(
    hosted: &mut HostedGroups,
    shared: &mut Shared,
    (pg, bits): (PgShard, u8),
    map: &OsdMap,
    change: &MapChange,
) {
    let is_absent = hosted.groups.get(pg).expect("it was just placed").pg.is_absent();
    let pg_num = map.pool(pg.pg.pool).map_or(0, |pool| pool.pg_num);
    let own = shared.env.config.id;
    let mut parts = BTreeSet::new();
    for part in parts_of(pg.pg, bits, pg_num) {
        let Some(members) = members_of(shared, map, part) else { continue };
        let part = PgShard { pg: part, ..pg };
        let own = Member { osd: own, shard: pg.shard };
        let is_wanted = !is_absent || change.is_up && members.has_member(own);
        if !is_wanted {
            continue;
        }
        if split_merge::has_part(&hosted.groups, part) {
            tracing::error!(%pg, %part, osd = %own.osd, "the part is there already");
            continue;
        }
        hosted.forget_group(shared, part);
        split_merge::add_part(&mut hosted.groups, pg, part);
        place(hosted, shared, part, change, members);
        parts.insert(part);
    }
    split_merge::begin_split(&mut hosted.groups, pg, parts);
}

/// Work that must wait until all groups have handled the map.
pub(crate) fn all_handled_map(hosted: &mut HostedGroups, shared: &mut Shared, then: Then) {
    shared.maps.note_placed();
    for pg in hosted.groups.announce_merges(shared.maps.map()) {
        hosted.activated(shared, pg);
        hosted.settle(shared);
    }
    // The monitor waits for the state of the groups.
    if shared.maps.map().pools.values().any(|pool| pool.pg_num_target != pool.pg_num) {
        shared.request_report();
    }
    take_pool_snapshots(hosted, shared);
    hosted.groups.ids().into_iter().for_each(|pg| hosted.settle_group(shared, pg));
    sessions::peers_changed(hosted, shared);
    shared.maps.distribution.note_told(then);
}

/// Updates the groups' snapshots from a new map.
fn take_pool_snapshots(hosted: &mut HostedGroups, shared: &mut Shared) {
    shared.maps.note_removed_snaps();
    let removed = shared.maps.removed_snaps();
    let known = PoolSnapshots::of_pools(shared.maps.map(), |pool| removed.of(pool));
    let trimmed = hosted.groups.take_snapshots(&known);
    trimmed.into_iter().for_each(|pg| hosted.note_trim(shared, pg));
}

/// All groups have handled the new map and stored their intervals: stores the map, and ends what it ends.
pub(crate) fn all_stored_intervals(hosted: &mut HostedGroups, shared: &mut Shared) {
    if split_merge::is_idle(&hosted.groups) {
        stored_map::store(hosted, shared);
    }
    copying::end_vain(&mut hosted.operations, cx!(shared));
    hosted.settle(shared);
    let (cx, peers) = (cx!(shared), &mut shared.peers);
    copying::resend(&mut hosted.operations, cx, peers);
    hosted.settle(shared);
    let map = shared.maps.map();
    if !map.blocklist.is_empty() || !map.range_blocklist.is_empty() {
        let all = hosted.groups.ids();
        all.into_iter().for_each(|pg| hosted.end_blocklisted_watches(shared, pg));
        hosted.settle(shared);
    }
}
