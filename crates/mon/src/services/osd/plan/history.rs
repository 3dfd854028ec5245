//! Trimming of old OSD maps.
//!
//! A member of a group that was away walks through every map since the group was last clean, to find past
//! intervals that may have accepted writes. So incrementals are kept from the oldest epoch in which any group
//! was last known to be clean, and in any case the latest `mon_min_osdmap_epochs`.

use crate::change::Change;
use crate::keys;
use crate::service::DecideCx;
use crate::statistics::Statistics;
use types::Epoch;

/// Incrementals beyond those to be kept before any is removed, as a share of these, so that not every map
/// trims.
const SLACK_SHARE: usize = 10;
/// Incrementals that one transaction removes. A group that was not clean for long may have kept any number,
/// and stores bound the size of a transaction.
const REMOVED_AT_ONCE: usize = 500;

/// Deletes incrementals that are no longer needed. Needs a report of every group.
pub(super) fn plan(cx: &DecideCx<'_>, stats: &Statistics, change: &mut Change) {
    let (state, known) = (cx.state, &cx.state.history.incrementals);
    let kept = state.options(cx.running).number("mon_min_osdmap_epochs") as usize;
    let slack = kept.div_ceil(SLACK_SHARE);
    if known.len() < kept + slack {
        return;
    }
    let newest = state.osdmap.epoch;
    let latest = Epoch((newest.0 + 1).saturating_sub(kept as u32));
    let Some(needed) = stats.oldest_clean_epoch(&state.osdmap) else { return };
    let kept_from = latest.min(needed);
    let old: Vec<Epoch> = known.range(..kept_from).map(|(epoch, _)| *epoch).collect();
    if old.len() >= slack {
        let first = old.into_iter().take(REMOVED_AT_ONCE);
        first.for_each(|epoch| change.delete(keys::osdmap_incremental(epoch)));
    }
}
