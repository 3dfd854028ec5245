//! Schedule of the balancer: one step per interval (a minute by default), while it is on and few groups are
//! misplaced.

use crate::balancer::{apply, is_on, limits, plan};
use crate::change::Change;
use crate::live::BalancerStatus;
use crate::service::DecideCx;
use crate::state::State;
use crate::statistics::Statistics;
use engine::Time;
use std::time::Duration;

/// Default of `mgr/balancer/sleep_interval`, in seconds.
const INTERVAL_DEFAULT: u64 = 60;

/// Whether a step is due: the balancer is on, and the interval is over.
pub(super) fn is_due(now: Time, state: &State, status: &BalancerStatus) -> bool {
    let interval = state.mgr_option("mgr/balancer/sleep_interval");
    let seconds = interval.and_then(|text| text.parse().ok()).unwrap_or(INTERVAL_DEFAULT);
    let rests = |last: Time| now.since(last) < Duration::from_secs(seconds);
    is_on(state) && !status.last.is_some_and(rests)
}

/// Runs a step.
pub(super) fn run(
    cx: &mut DecideCx<'_>,
    stats: &Statistics,
    status: &mut BalancerStatus,
    change: &mut Change,
) {
    status.started = Some(cx.now);
    let limits = match limits(cx.state, cx.running, stats) {
        Ok(limits) => limits,
        Err(reason) => {
            status.result = reason;
            return;
        }
    };
    cx.placement.update(&cx.state.osdmap);
    let plan = plan(&cx.state.osdmap, cx.placement, limits);
    status.is_even = plan.is_empty();
    status.result = match plan.is_empty() {
        true => {
            "Unable to find further optimization, or distribution is already perfect".to_owned()
        }
        false => "Optimization plan created successfully".to_owned(),
    };
    apply(cx.state, plan, change);
}
