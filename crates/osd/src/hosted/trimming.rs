//! Trimming of removed snapshots in the groups.

use super::HostedGroups;
use crate::operations::{own, queue};
use crate::shared::Shared;
use crate::trim::{LOOKED_AT_MAX, Listed};
use store::{Outcome, StoreError};
use types::PgShard;

/// Begins steps of trimming in groups that are due.
pub(crate) fn begin_if_due(hosted: &mut HostedGroups, shared: &mut Shared) {
    let (groups, now) = (&hosted.groups, shared.env.now);
    let is_busy = |pg| groups.get(pg).is_some_and(|group| group.trim.is_busy());
    if !hosted.trim.begin_look(now, shared.maps.map(), is_busy) {
        return;
    }
    for _ in 0..LOOKED_AT_MAX {
        let Some(pg) = hosted.trim.next() else { break };
        if let Some(group) = hosted.groups.get_mut(pg) {
            hosted.trim.begin_step(now, &mut shared.outbox, &mut group.trimmed());
        }
    }
    hosted.trim.end_look(now);
}

/// Handles a page of the index of clones: starts a request for each clone, or ends the step.
pub(super) fn listed(
    hosted: &mut HostedGroups,
    shared: &mut Shared,
    pg: PgShard,
    generation: u64,
    outcome: Result<Outcome, StoreError>,
) {
    let Some(group) = hosted.groups.get_mut(pg) else { return };
    if group.queues.generation != generation {
        return;
    }
    match group.trim.listed(pg, outcome) {
        Listed::Nothing => {}
        Listed::Ended { has_failed } => hosted.end_trim_step(shared, pg, has_failed),
        Listed::Clones(clones) => {
            for (snap, clone) in clones {
                let request = own::trimming(pg, snap, &clone, shared.epoch());
                let request = hosted.operations.insert(request);
                hosted.serve(shared, pg, |s| queue::start(s, request));
            }
        }
    }
}
