//! Trimming of old OSD maps.
//!
//! A member of a group that was away walks through every map since the group was last clean, to find past
//! intervals that may have accepted writes. So incrementals are kept from the oldest epoch in which any group
//! was last known to be clean, and in any case the latest [`INCREMENTALS_KEPT`].

use crate::change::Change;
use crate::keys;
use crate::state::{INCREMENTALS_KEPT, State};
use crate::statistics::Statistics;
use types::Epoch;

/// Incrementals beyond those to be kept before any is removed, so that not every map trims.
const SLACK: usize = 50;
/// Incrementals that one transaction removes. A group that was not clean for long may have kept any number,
/// and stores bound the size of a transaction.
const REMOVED_AT_ONCE: usize = 500;

/// Deletes incrementals that are no longer needed. Needs a report of every group.
pub(super) fn plan(state: &State, stats: &Statistics, change: &mut Change) {
    let known = &state.history.incrementals;
    if known.len() < INCREMENTALS_KEPT + SLACK {
        return;
    }
    let newest = state.osdmap.epoch;
    let latest = Epoch((newest.0 + 1).saturating_sub(INCREMENTALS_KEPT as u32));
    let Some(needed) = stats.oldest_clean_epoch(&state.osdmap) else { return };
    let kept_from = latest.min(needed);
    let old: Vec<Epoch> = known.range(..kept_from).map(|(epoch, _)| *epoch).collect();
    if old.len() >= SLACK {
        let first = old.into_iter().take(REMOVED_AT_ONCE);
        first.for_each(|epoch| change.delete(keys::osdmap_incremental(epoch)));
    }
}
