//! Which groups a map may give to this OSD.
//!
//! A cluster has a hundred thousand groups and more, an OSD a hundred. So an OSD does not ask of every
//! group at every epoch where it lies: it keeps what CRUSH says ([`RawTable`]) and looks only at groups
//! that CRUSH gives it, at those that the map gives it by name (temporary sets, upmaps), and at those
//! that it has.
//!
//! Invariant: a group whose `up` or `acting` set has this OSD is among the candidates.

use maps::{Mapping, OsdMap, RawTable};
use std::collections::BTreeSet;
use types::{OsdId, PgId};

#[derive(Debug, Default)]
pub(crate) struct Candidates {
    table: RawTable,
    /// CRUSH's, ascending.
    chosen: Vec<PgId>,
    named: Vec<PgId>,
}

impl Candidates {
    pub fn update(&mut self, map: &OsdMap, own: OsdId) {
        if self.table.update(map) {
            self.chosen = self.table.groups_of(own);
        }
        self.named = named(map, own);
    }

    /// All of them and `others`.
    pub fn with(&self, others: impl Iterator<Item = PgId>) -> BTreeSet<PgId> {
        self.chosen.iter().chain(&self.named).copied().chain(others).collect()
    }

    /// Where a group lies under the map of the last update.
    pub fn mapping(&self, map: &OsdMap, pg: PgId) -> Mapping {
        map.look_up(&self.table, pg)
    }
}

/// Groups for which the map itself names this OSD.
fn named(map: &OsdMap, own: OsdId) -> Vec<PgId> {
    let sets = map.pg_temp.iter().chain(&map.pg_upmap).filter(|(_, osds)| osds.contains(&own));
    let exchanges = map.pg_upmap_items.iter();
    let exchanges = exchanges.filter(|(_, items)| items.iter().any(|(_, to)| *to == own));
    let primaries = map.primary_temp.iter().filter(|(_, osd)| **osd == own);
    let groups = sets.map(|(pg, _)| pg).chain(exchanges.map(|(pg, _)| pg));
    groups.chain(primaries.map(|(pg, _)| pg)).copied().collect()
}
