//! Groups that a map may assign to this OSD.
//!
//! A cluster has a hundred thousand groups and more, an OSD a hundred. So an OSD does not compute
//! the members of every group at every epoch: it keeps the results of CRUSH ([`RawTable`]) and
//! examines only the groups that CRUSH assigns to it, those for which the map names it (temporary
//! sets, upmaps), and those that it has.
//!
//! Invariant: a group whose `up` or `acting` set has this OSD is among the candidates.

use maps::{Mapping, OsdMap, RawTable};
use types::{OsdId, PgId};

/// The groups that a map may assign to this OSD.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    table: RawTable,
    /// Assigned by CRUSH, ascending.
    chosen: Vec<PgId>,
    /// Assigned by temporary sets or upmaps.
    named: Vec<PgId>,
}

impl Candidates {
    /// Follows a new map; `own` is this OSD.
    pub fn update(&mut self, map: &OsdMap, own: OsdId) {
        if self.table.update(map) {
            self.chosen = self.table.groups_of(own);
        }
        self.named = named(map, own);
    }

    /// All candidates, some more than once.
    pub fn all(&self) -> impl Iterator<Item = PgId> + '_ {
        self.chosen.iter().chain(&self.named).copied()
    }

    /// The up and acting set of a group under the map of the last update.
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
