//! Schedule of the balancer: one step per interval (a minute by default), while it is on and few groups are
//! misplaced.

use super::Monitor;
use crate::balancer::{apply, is_on, limits, plan};
use crate::change::Change;
use crate::job::Job;
use engine::Time;
use std::time::Duration;

/// Default of `mgr/balancer/sleep_interval`, in seconds.
const INTERVAL_DEFAULT: u64 = 60;

impl Monitor {
    /// Queues a step if the balancer is on and the interval is over.
    pub(super) fn balance_if_due(&mut self, now: Time) {
        let interval = self.state.mgr_option("mgr/balancer/sleep_interval");
        let seconds = interval.and_then(|text| text.parse().ok()).unwrap_or(INTERVAL_DEFAULT);
        let rests = |last: Time| now.since(last) < Duration::from_secs(seconds);
        let status = &mut self.overview.osds.balancer;
        if !is_on(&self.state) || status.last.is_some_and(rests) {
            return;
        }
        status.last = Some(now);
        self.enqueue(Job::Balance);
    }

    /// Runs a step of the balancer.
    pub(super) fn balance(&mut self, now: Time, change: &mut Change) {
        let status = &mut self.overview.osds.balancer;
        status.started = Some(now);
        let limits = match limits(&self.state, &self.overview.running, &self.stats) {
            Ok(limits) => limits,
            Err(reason) => {
                status.result = reason;
                return;
            }
        };
        self.placement.update(&self.state.osdmap);
        let plan = plan(&self.state.osdmap, &self.placement, limits);
        status.is_even = plan.is_empty();
        status.result = match plan.is_empty() {
            true => {
                "Unable to find further optimization, or distribution is already perfect".to_owned()
            }
            false => "Optimization plan created successfully".to_owned(),
        };
        apply(&self.state, plan, change);
    }
}
