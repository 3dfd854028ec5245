//! Schedule of the balancer: one step per interval (a minute by default), while it is on and few groups are
//! misplaced.

use super::Monitor;
use super::job::Job;
use crate::balancer::{Limits, plan};
use crate::change::Change;
use crate::state::State;
use crate::statistics::Statistics;
use engine::Time;
use maps::Release;
use std::time::Duration;
use wire::internal::pg_state;

/// Default of `mgr/balancer/sleep_interval`, in seconds.
const INTERVAL_DEFAULT: u64 = 60;

/// Whether the balancer was switched on by `ceph balancer on`.
pub fn is_on(state: &State) -> bool {
    state.mgr_option("mgr/balancer/active").and_then(crate::state::parse_switch).unwrap_or(false)
        && mode(state) == "upmap"
}

/// The mode: `upmap` unless configured otherwise.
pub fn mode(state: &State) -> &str {
    state.mgr_option("mgr/balancer/mode").unwrap_or("upmap")
}

/// The bounds of one step, or the reason why none may be taken now.
pub fn limits(state: &State, stats: &Statistics) -> Result<Limits, String> {
    let map = &state.osdmap;
    if map.require_min_compat_client < Release::LUMINOUS {
        let allowed = map.require_min_compat_client;
        return Err(format!(
            "min_compat_client {allowed} < luminous, which is required for pg-upmap. Try 'ceph osd \
             set-require-min-compat-client luminous' before enabling this mode"
        ));
    }
    let number = |name: &str| {
        let set = state.mgr_option(&format!("mgr/balancer/{name}"));
        set.and_then(|text| text.parse().ok()).unwrap_or_else(|| state.options().number(name))
    };
    let allowed = state.options().real("target_max_misplaced_ratio");
    let (mut groups, mut moving) = (0u64, 0u64);
    for (_, pg) in stats.pg_states(map) {
        groups += 1;
        if pg & pg_state::ACTIVE == 0 || pg & pg_state::STALE != 0 {
            return Err("Some PGs are inactive or unknown; try again later".to_owned());
        }
        if pg & (pg_state::DEGRADED | pg_state::UNDERSIZED) != 0 {
            return Err("Some objects are degraded; try again later".to_owned());
        }
        moving += u64::from(pg & pg_state::CLEAN == 0);
    }
    let room = (allowed * groups as f64).max(1.0) as u64;
    if moving >= room {
        return Err(format!(
            "Too many PGs are misplaced ({moving} of {groups}, allowed are {:.1}%); try again later",
            allowed * 100.0
        ));
    }
    let max_changes = number("upmap_max_optimizations").min(room - moving);
    let max_changes = usize::try_from(max_changes).unwrap_or(usize::MAX);
    Ok(Limits { max_deviation: number("upmap_max_deviation").max(1) as f64, max_changes })
}

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
        let limits = match limits(&self.state, &self.stats) {
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

/// Writes a plan into the map's `pg_upmap_items`.
pub fn apply(
    state: &State,
    plan: impl IntoIterator<Item = (types::PgId, crate::balancer::Items)>,
    change: &mut Change,
) {
    for (pg, items) in plan {
        let incremental = change.osdmap(state);
        match items.is_empty() {
            true => drop(incremental.old_pg_upmap_items.insert(pg)),
            false => drop(incremental.new_pg_upmap_items.insert(pg, items)),
        }
    }
}
