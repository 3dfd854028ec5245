//! Shares, places and free space of pools on the OSDs of their rules.

use crate::statistics::{Statistics, Totals};
use maps::{OsdMap, Pool, Room};
use std::collections::BTreeMap;
use types::{OsdId, PoolId};
use wire::internal::OsdUsage;

/// Usage of one pool, in bytes unless named otherwise.
#[derive(Debug, Clone)]
pub struct PoolUsage {
    /// Data and omaps: as clients see them, and as raw space.
    pub stored: u64,
    pub used: u64,
    pub used_data: u64,
    pub used_omap: u64,
    pub objects: u64,
    pub available: u64,
    pub raw_available: u64,
    pub percent: f64,
    pub totals: Totals,
}

/// Raw bytes for each byte of a pool: copies, or the overhead of erasure coding.
pub fn raw_bytes_per_byte(map: &OsdMap, id: PoolId) -> f64 {
    let Some(pool) = map.pool(id) else { return 1.0 };
    if pool.is_replicated() {
        return f64::from(pool.size.max(1));
    }
    let profile = map.erasure_code_profiles.get(&pool.erasure_code_profile);
    let shards = |name: &str| -> Option<f64> { profile?.get(name)?.parse().ok() };
    match (shards("k"), shards("m")) {
        (Some(k), Some(m)) if k > 0.0 => (k + m) / k,
        _ => f64::from(pool.size.max(1)),
    }
}

/// The OSDs that a pool's rule can choose, with the share of the data that each gets (in sum one).
pub fn rule_shares(map: &OsdMap, pool: &Pool) -> BTreeMap<OsdId, f64> {
    let Some(rule) = map.crush.rule(pool.crush_rule.into()) else { return BTreeMap::new() };
    let crush_weights = map.crush.device_weights();
    let mut weights = BTreeMap::<OsdId, f64>::new();
    for root in rule.takes() {
        for device in map.crush.devices_below(root) {
            let Some(osd) = map.osd(OsdId(device)).filter(|osd| osd.is_in()) else { continue };
            let weight = f64::from(crush_weights.get(&device).copied().unwrap_or(0));
            *weights.entry(OsdId(device)).or_default() += weight * f64::from(osd.weight);
        }
    }
    let sum: f64 = weights.values().sum();
    weights.retain(|_, weight| *weight > 0.0);
    assert!(weights.is_empty() || sum > 0.0, "shares are parts of a sum");
    weights.into_iter().map(|(osd, weight)| (osd, weight / sum)).collect()
}

/// Bytes that can still be stored in a pool before its first OSD is full (`MAX AVAIL`).
pub fn pool_available(map: &OsdMap, stats: &Statistics, id: PoolId) -> u64 {
    (raw_available(map, stats, id) / raw_bytes_per_byte(map, id)) as u64
}

/// Usage of one pool.
pub fn pool_usage(map: &OsdMap, stats: &Statistics, id: PoolId) -> PoolUsage {
    let totals = stats.pool_totals(id);
    let rate = raw_bytes_per_byte(map, id);
    let raw_available = raw_available(map, stats, id);
    let available = (raw_available / rate) as u64;
    let raw = |bytes: u64| (bytes as f64 * rate) as u64;
    let (used_data, used_omap) = (raw(totals.bytes), raw(totals.omap_bytes));
    let used = used_data + used_omap;
    let reachable = used as f64 + available as f64 * rate;
    PoolUsage {
        stored: totals.bytes + totals.omap_bytes,
        used,
        used_data,
        used_omap,
        objects: totals.objects,
        available,
        raw_available: raw_available as u64,
        percent: if reachable > 0.0 { used as f64 / reachable } else { 0.0 },
        totals,
    }
}

/// Usage per device class; OSDs without a class are under `-`.
pub fn usage_by_class(map: &OsdMap, stats: &Statistics) -> BTreeMap<String, OsdUsage> {
    let mut classes = BTreeMap::<String, OsdUsage>::new();
    for (osd, report) in stats.osds().filter(|(osd, _)| map.is_in(*osd)) {
        let class = map.crush.item_class(osd.0).unwrap_or("-").to_owned();
        let sum = classes.entry(class).or_default();
        sum.bytes_total += report.usage.bytes_total;
        sum.bytes_available += report.usage.bytes_available;
        sum.bytes_used += report.usage.bytes_used;
    }
    classes
}

/// The same in raw bytes.
pub fn raw_available(map: &OsdMap, stats: &Statistics, id: PoolId) -> f64 {
    let Some(pool) = map.pool(id) else { return 0.0 };
    let projected = rule_shares(map, pool).into_iter().filter_map(|(osd, share)| {
        let usage = &stats.osd(osd)?.usage;
        let unusable = usage.bytes_total as f64 * (1.0 - f64::from(map.full_ratio));
        Some((usage.bytes_available as f64 - unusable).max(0.0) / share)
    });
    let least = projected.fold(f64::INFINITY, f64::min);
    if least.is_finite() { least } else { 0.0 }
}

/// The members of a pool's groups: `6 shards, at most 2 on each host`
pub fn room_wanted(pool: &Pool, room: &Room<'_>) -> String {
    let (size, kind) = (pool.size, room.kind);
    let what = if pool.is_erasure() { "shards" } else { "copies" };
    match room.per_domain {
        1 => format!("{size} {what}, each on another {kind}"),
        several => format!("{size} {what}, at most {several} on each {kind}"),
    }
}

/// Where its rule can place them: `finds 3 hosts`, or `finds places for 4 on 2 hosts`
pub fn room_found(room: &Room<'_>) -> String {
    let (domains, kind) = (room.domains, room.kind);
    let found = format!("{domains} {kind}{}", if domains == 1 { "" } else { "s" });
    match room.places == domains {
        true => format!("finds {found}"),
        false => format!("finds places for {} on {found}", room.places),
    }
}
