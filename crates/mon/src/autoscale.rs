//! The PG autoscaler: computes the `pg_num` of each pool from its share of the data, so that OSDs hold about
//! `mon_target_pg_per_osd` copies of groups.

use crate::state::{Overrides, State};
use crate::statistics::Statistics;
use crate::usage::{raw_bytes_per_byte, rule_shares};
use maps::{Pool, PoolFlags, PoolOption, PoolOptionValue};
use types::PoolId;

/// Factor by which `pg_num` must differ from the ideal before it is changed.
pub const THRESHOLD_DEFAULT: f64 = 3.0;
/// The configuration option that overrides [`THRESHOLD_DEFAULT`].
pub const THRESHOLD_OPTION: &str = "mgr/pg_autoscaler/threshold";
/// Lower bound of the groups of a pool without `pg_num_min`.
const PG_NUM_MIN: f64 = 32.0;

/// The autoscaler's inputs for one pool, and its result; a row of `osd pool autoscale-status`.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    pub pool: PoolId,
    /// Bytes stored, before replication or erasure coding.
    pub stored: u64,
    /// Raw bytes for each byte stored.
    pub raw_rate: f64,
    /// Raw bytes of the OSDs that the pool's rule uses.
    pub capacity: u64,
    /// `target_size_bytes`
    pub target_bytes: u64,
    /// `target_size_ratio`
    pub target_ratio: f64,
    /// The share of the capacity that the pool takes or is expected to take, from zero to one: the largest of
    /// the actual share and of the targets.
    pub capacity_ratio: f64,
    /// The share of the capacity that the stored data takes, from zero to one.
    pub actual_ratio: f64,
    /// `pg_autoscale_bias`
    pub bias: f64,
    pub is_bulk: bool,
    pub pg_num_target: u32,
    /// `pg_num` before rounding and limits.
    pub ideal: f64,
    /// The ideal, rounded to a power of two within the pool's limits.
    pub pg_num_final: u32,
    /// Set once the OSDs have reported everything that the result depends on. Until then it must not be acted
    /// on.
    pub is_known: bool,
    /// Set if the advice is known and differs from `pg_num_target` by more than the threshold.
    pub would_adjust: bool,
}

fn option(pool: &Pool, name: &str) -> Option<f64> {
    match pool.options.0.get(&PoolOption::from_name(name)?)? {
        PoolOptionValue::Int(number) => Some(*number as f64),
        PoolOptionValue::Double(number) => Some(*number),
        PoolOptionValue::Str(_) => None,
    }
}

/// Advice for every pool, in the order of their ids.
pub fn advice(state: &State, running: &Overrides, stats: &Statistics) -> Vec<Advice> {
    let map = &state.osdmap;
    let ratio_sum: f64 =
        map.pools.values().filter_map(|pool| option(pool, "target_size_ratio")).sum();
    map.pools
        .iter()
        .map(|(id, pool)| of_pool(state, running, stats, *id, pool, ratio_sum))
        .collect()
}

fn of_pool(
    state: &State,
    running: &Overrides,
    stats: &Statistics,
    id: PoolId,
    pool: &Pool,
    ratio_sum: f64,
) -> Advice {
    let map = &state.osdmap;
    let osds = rule_shares(map, pool);
    let size_of = |osd| stats.osd(osd).map_or(0, |report| report.usage.bytes_total);
    let capacity: u64 = osds.keys().map(|osd| size_of(*osd)).sum();
    let (stored, raw_rate) = (stats.pool_totals(id).bytes, raw_bytes_per_byte(map, id));
    let share = |bytes: f64| if capacity == 0 { 0.0 } else { bytes * raw_rate / capacity as f64 };
    let target_bytes = option(pool, "target_size_bytes").unwrap_or(0.0);
    let target_ratio = option(pool, "target_size_ratio").unwrap_or(0.0);
    let expected = if ratio_sum > 0.0 { target_ratio / ratio_sum } else { 0.0 };
    let is_bulk = pool.flags.contains(PoolFlags::BULK);
    let actual_ratio = share(stored as f64);
    let mut capacity_ratio = actual_ratio.max(share(target_bytes)).max(expected);
    if is_bulk {
        let bulk = map.pools.values().filter(|pool| pool.flags.contains(PoolFlags::BULK)).count();
        capacity_ratio = capacity_ratio.max(1.0 / bulk.max(1) as f64);
    }
    let bias = option(pool, "pg_autoscale_bias").unwrap_or(1.0);
    let budget = osds.len() as f64 * state.options(running).real("mon_target_pg_per_osd");
    let ideal = capacity_ratio * budget / f64::from(pool.size.max(1)) * bias;
    let least = option(pool, "pg_num_min").unwrap_or(PG_NUM_MIN);
    let most = option(pool, "pg_num_max").filter(|most| *most > 0.0);
    let pg_num_final = nearest_power_of_two(ideal.max(least).min(most.unwrap_or(f64::MAX)));
    let (now, wanted) = (f64::from(pool.pg_num_target), f64::from(pg_num_final));
    let threshold = state.mgr_option(THRESHOLD_OPTION).and_then(|text| text.parse().ok());
    let threshold: f64 = threshold.unwrap_or(THRESHOLD_DEFAULT);
    let is_far = wanted > now * threshold || wanted < now / threshold;
    // From only half of the reports, a large pool would look like a small one.
    let is_known = stats.knows_pool(map, id) && stats.knows_sizes(osds.keys()) && capacity > 0;
    Advice {
        pool: id,
        stored,
        raw_rate,
        capacity,
        target_bytes: target_bytes as u64,
        target_ratio,
        capacity_ratio,
        actual_ratio,
        bias,
        is_bulk,
        pg_num_target: pool.pg_num_target,
        ideal,
        pg_num_final,
        is_known,
        would_adjust: is_far && is_known,
    }
}

fn nearest_power_of_two(number: f64) -> u32 {
    let above = (number.clamp(1.0, 65_536.0).ceil() as u32).next_power_of_two();
    let below = above / 2;
    assert!(above.is_power_of_two() && above > below, "{above} of {number}");
    if below > 0 && number - f64::from(below) < f64::from(above) - number { below } else { above }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_are_rounded_to_the_nearest() {
        for (number, expected) in [(0.2, 1), (32.0, 32), (47.0, 32), (49.0, 64), (1e9, 65_536)] {
            assert_eq!(nearest_power_of_two(number), expected, "{number}");
        }
    }
}
