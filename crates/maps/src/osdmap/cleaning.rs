//! Removal of obsolete entries: `pg_temp` entries of OSDs that are gone, and upmaps that a change of the
//! CRUSH map, of weights or of pools has made useless or invalid.

use super::{Incremental, OsdMap};
use types::{OsdId, PgId};

/// Removes the entries that are obsolete in `next`, the map that this incremental leads to. Returns
/// true if there were any; the incremental must be sealed again then.
pub(super) fn clean(inc: &mut Incremental, next: &OsdMap) -> bool {
    let temps = clean_temporary(inc, next);
    let changes_placement = inc.crush.is_some()
        || inc.new_max_osd.is_some()
        || !inc.new_weight.is_empty()
        || !inc.new_pools.is_empty()
        || !inc.old_pools.is_empty()
        || !inc.new_state.is_empty()
        || !inc.new_pg_upmap.is_empty()
        || !inc.new_pg_upmap_items.is_empty();
    let has_upmaps = !next.pg_upmap.is_empty()
        || !next.pg_upmap_items.is_empty()
        || !next.pg_upmap_primaries.is_empty();
    temps | (has_upmaps && changes_placement && clean_upmaps(inc, next))
}

fn clean_temporary(inc: &mut Incremental, next: &OsdMap) -> bool {
    let serves = |osd: &OsdId| next.is_up(*osd);
    let sets: Vec<PgId> = next
        .pg_temp
        .iter()
        .filter(|(pg, set)| !next.has_pg(**pg) || !set.iter().any(serves))
        .map(|(pg, _)| *pg)
        .collect();
    // Daemons take the OSD in the map for the primary even if it is not a member, and its group would
    // never become active.
    let leads = |pg: PgId, osd: &OsdId| serves(osd) && next.pg_to_osds(pg).acting.contains(osd);
    let primaries: Vec<PgId> = next
        .primary_temp
        .iter()
        .filter(|(pg, osd)| !next.has_pg(**pg) || !leads(**pg, osd))
        .map(|(pg, _)| *pg)
        .collect();
    let found = !sets.is_empty() || !primaries.is_empty();
    inc.new_pg_temp.extend(sets.into_iter().map(|pg| (pg, Vec::new())));
    inc.new_primary_temp.extend(primaries.into_iter().map(|pg| (pg, OsdId(-1))));
    found
}

fn clean_upmaps(inc: &mut Incremental, next: &OsdMap) -> bool {
    let is_usable = |osd: OsdId| next.is_in(osd);
    let wholes = useless_sets(next);
    let primary =
        |(pg, osd): (&PgId, &OsdId)| (!next.has_pg(*pg) || !is_usable(*osd)).then_some(*pg);
    let primaries: Vec<PgId> = next.pg_upmap_primaries.iter().filter_map(primary).collect();
    let items = useless_items(next);
    let found = !(wholes.is_empty() && primaries.is_empty() && items.is_empty());
    for pg in wholes {
        inc.new_pg_upmap.remove(&pg);
        inc.old_pg_upmap.insert(pg);
    }
    inc.old_pg_upmap_primaries.extend(primaries);
    for (pg, kept) in items {
        inc.new_pg_upmap_items.remove(&pg);
        match kept.is_empty() {
            true => drop(inc.old_pg_upmap_items.insert(pg)),
            false => drop(inc.new_pg_upmap_items.insert(pg, kept)),
        }
    }
    found
}

/// Groups with a set in `pg_upmap` that names OSDs that are out or have no CRUSH weight, that violates
/// the rule, or that equals the choice of CRUSH.
fn useless_sets(map: &OsdMap) -> Vec<PgId> {
    let (mut placement, mut domains) = (map.placement(), map.domains());
    let takes_data = |osd: &OsdId| {
        map.is_in(*osd) && map.crush.item_weight(osd.0).is_some_and(|weight| weight > 0)
    };
    let mut is_useful = |pg: PgId, set: &[OsdId]| {
        let Some(pool) = map.pool(pg.pool).filter(|_| map.has_pg(pg)) else { return false };
        set.iter().all(takes_data) && domains.fits(pool, set) && placement.pg_to_crush(pg) != set
    };
    map.pg_upmap.iter().filter(|(pg, set)| !is_useful(**pg, set)).map(|(pg, _)| *pg).collect()
}

/// Groups with upmap items that have no effect or violate the rule, with the items that are kept.
fn useless_items(map: &OsdMap) -> Vec<(PgId, Vec<(OsdId, OsdId)>)> {
    let (mut placement, mut domains) = (map.placement(), map.domains());
    let mut found = Vec::new();
    for (pg, items) in &map.pg_upmap_items {
        let Some(pool) = map.pool(pg.pool).filter(|_| map.has_pg(*pg)) else {
            found.push((*pg, Vec::new()));
            continue;
        };
        let mut set = placement.pg_to_crush(*pg);
        let mut kept = Vec::new();
        for (from, to) in items {
            if map.is_in(*to) && domains.allow(pool, &set, *from, *to) {
                set.iter_mut().filter(|osd| *osd == from).for_each(|osd| *osd = *to);
                kept.push((*from, *to));
            }
        }
        if kept != *items {
            found.push((*pg, kept));
        }
    }
    found
}
