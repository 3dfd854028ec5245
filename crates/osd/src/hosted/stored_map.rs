//! The map is stored behind the intervals that it began: a restarted OSD continues from the stored map, and
//! tells its groups only of later ones.

use super::HostedGroups;
use crate::shared::Shared;
use types::PgShard;

/// Stores the map behind all that groups store because of it.
pub(super) fn store(hosted: &HostedGroups, shared: &mut Shared) {
    let behind = hosted.groups.iter().filter(|(_, group)| !group.pg.has_stored_interval());
    let behind = behind.map(|(pg, _)| pg).collect();
    shared.maps.store_behind(behind, &mut shared.outbox);
}

/// A transaction of a copy has completed: the map may have waited for it.
pub(super) fn note_stored(hosted: &HostedGroups, shared: &mut Shared, pg: PgShard) {
    if shared.maps.waits_for(pg)
        && hosted.groups.get(pg).is_none_or(|group| group.pg.has_stored_interval())
    {
        shared.maps.note_stored_interval(pg, &mut shared.outbox);
    }
}
