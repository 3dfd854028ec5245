//! Changes of the OSD map that are due because of reports and time. Later ones see the pools as earlier ones
//! leave them.

mod blocklist;
mod fullness;
mod history;
mod purge;
mod quotas;

use crate::change::Change;
use crate::numbers;
use crate::service::DecideCx;
use crate::statistics::Statistics;

/// Adds all changes but those of failure detection.
pub(super) fn plan(cx: &DecideCx<'_>, stats: &Statistics, change: &mut Change) {
    let (state, running) = (cx.state, cx.running);
    fullness::plan(state, stats, change);
    quotas::plan(state, stats, change);
    blocklist::plan(state, cx.now, change);
    history::plan(cx, stats, change);
    numbers::plan_steps(state, running, stats, change);
    purge::plan(state, stats, change);
    numbers::plan_targets(state, running, stats, change);
}
