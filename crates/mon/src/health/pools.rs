//! Checks of pools: room, redundancy, settings.

use super::check::{Health, View, next_step};
use crate::autoscale::{Advice, advice};
use crate::table;
use maps::{AutoscaleMode, Pool, PoolFlags};
use types::PoolId;

/// A pool without an application gets a warning once it holds data.
const APPLICATION_HINT: &str = "use 'ceph osd pool application enable <pool-name> <app-name>', \
     where <app-name> is 'cephfs', 'rbd', 'rgw', or freeform for custom applications.";

/// The names of the pools that fulfil a condition.
fn named(view: &View<'_>, wanted: impl Fn(PoolId, &Pool) -> bool) -> Vec<String> {
    let map = &view.state.osdmap;
    let found = map.pools.iter().filter(|(id, pool)| wanted(**id, pool));
    found.filter_map(|(id, _)| map.pool_name(*id).map(str::to_owned)).collect()
}

pub(crate) fn check(health: &mut Health, view: &View<'_>) {
    check_room(health, view);
    check_quotas(health, view);
    check_groups_per_osd(health, view);
    check_redundancy(health, view);
    check_applications(health, view);
    check_group_numbers(health, view);
    check_autoscale(health, view);
    check_scrubs(health, view);
    check_omaps(health, view);
}

/// Pools that are not scrubbed: damage to their data goes unnoticed.
fn check_scrubs(health: &mut Health, view: &View<'_>) {
    let map = &view.state.osdmap;
    let flags = [(PoolFlags::NOSCRUB, "noscrub"), (PoolFlags::NODEEP_SCRUB, "nodeep-scrub")];
    let mut lines = Vec::new();
    for (id, pool) in &map.pools {
        let set = flags.iter().filter(|(flag, _)| pool.flags.contains(*flag));
        let set: Vec<&str> = set.map(|(_, name)| *name).collect();
        if !set.is_empty() {
            let name = map.pool_name(*id).unwrap_or_default();
            lines.push(format!("Pool {name} has {} flag", set.join(",")));
        }
    }
    let count = lines.len();
    let step = "'ceph osd pool set POOL noscrub 0' (or nodeep-scrub) when the reason is gone";
    let details = next_step(lines, step);
    let summary = "Some pool(s) have the noscrub, nodeep-scrub flag(s) set".to_owned();
    health.warn("POOL_SCRUB_FLAGS", count, summary, details);
}

/// Objects with large omaps, as counted by deep scrubs.
fn check_omaps(health: &mut Health, view: &View<'_>) {
    let (map, stats) = (&view.state.osdmap, view.live.stats);
    let pools = map.pools.keys().map(|id| (*id, stats.pool_totals(*id).large_omaps));
    let large: Vec<(PoolId, u64)> = pools.filter(|(_, count)| *count > 0).collect();
    let count: u64 = large.iter().map(|(_, count)| count).sum();
    let lines = large.iter().map(|(id, count)| {
        format!("{count} large objects found in pool '{}'", map.pool_name(*id).unwrap_or_default())
    });
    let tip = "Search the cluster log for 'Large omap object found' for more details.";
    let details = lines.chain([tip.to_owned()]).collect();
    health.warn(
        "LARGE_OMAP_OBJECTS",
        count as usize,
        format!("{count} large omap objects"),
        details,
    );
}

fn check_room(health: &mut Health, view: &View<'_>) {
    const NEXT: &str = "'ceph osd df' shows which OSDs are full: delete data or add OSDs";
    let has = |flag: PoolFlags| named(view, |_, pool| pool.flags.contains(flag));
    let over_quota = has(PoolFlags::FULL_QUOTA);
    let mut lines: Vec<String> = over_quota
        .iter()
        .map(|pool| format!("pool '{pool}' is full (running out of quota)"))
        .collect();
    let full = has(PoolFlags::FULL);
    let without_room = full.iter().filter(|pool| !over_quota.contains(pool));
    lines.extend(without_room.map(|pool| format!("pool '{pool}' is full (no space)")));
    let count = lines.len();
    let step = match over_quota.is_empty() {
        true => NEXT,
        false => "delete data or raise the quota with 'ceph osd pool set-quota'",
    };
    let details = next_step(lines, step);
    health.warn("POOL_FULL", count, format!("{count} pool(s) full"), details);
    for (flag, name, what) in [
        (PoolFlags::BACKFILLFULL, "POOL_BACKFILLFULL", "backfillfull"),
        (PoolFlags::NEARFULL, "POOL_NEARFULL", "nearfull"),
    ] {
        let pools = has(flag);
        let lines = pools.iter().map(|pool| format!("pool '{pool}' is {what}"));
        let details = next_step(lines, NEXT);
        health.warn(name, pools.len(), format!("{} pool(s) {what}", pools.len()), details);
    }
}

/// Copies of groups on each OSD, on average: it may have grown since pools were made, as OSDs went.
fn check_groups_per_osd(health: &mut Health, view: &View<'_>) {
    let map = &view.state.osdmap;
    let (limit, osds) = (view.options().number("mon_max_pg_per_osd"), map.in_count() as u64);
    let copies: u64 =
        map.pools.values().map(|pool| u64::from(pool.pg_num) * u64::from(pool.size)).sum();
    let per_osd = copies / osds.max(1);
    if limit == 0 || osds == 0 || per_osd <= limit {
        return;
    }
    let line = format!("{copies} copies of groups on {osds} OSDs that are in");
    let step = "add OSDs, mark those in that are out, or give pools fewer groups with 'ceph osd pool set POOL pg_num'; the limit \
                is mon_max_pg_per_osd";
    let summary = format!("too many PGs per OSD ({per_osd} > max {limit})");
    health.warn("TOO_MANY_PGS", 1, summary, next_step([line], step));
}

/// Pools that have used most of their quota.
fn check_quotas(health: &mut Health, view: &View<'_>) {
    let threshold = view.options().number("mon_pool_quota_warn_threshold");
    if threshold == 0 {
        return;
    }
    let is_near = |used: u64, quota: u64| {
        quota > 0 && u128::from(used) * 100 >= u128::from(quota) * u128::from(threshold)
    };
    let map = &view.state.osdmap;
    let mut lines = Vec::new();
    for (id, pool) in map.pools.iter().filter(|(_, pool)| !pool.flags.contains(PoolFlags::FULL)) {
        let (bytes, objects) = (pool.quota_max_bytes, pool.quota_max_objects);
        if bytes == 0 && objects == 0 {
            continue;
        }
        let totals = view.live.stats.pool_totals(*id);
        let name = map.pool_name(*id).unwrap_or_default();
        if is_near(totals.objects, objects) {
            lines.push(format!("pool '{name}' has {} objects (max {objects})", totals.objects));
        }
        if is_near(totals.bytes, bytes) {
            let (used, quota) = (table::bytes(totals.bytes), table::bytes(bytes));
            lines.push(format!("pool '{name}' has {used} (max {quota})"));
        }
    }
    let count = lines.len();
    let step = "delete data, or raise the quota with 'ceph osd pool set-quota'; the warning begins at \
                mon_pool_quota_warn_threshold percent";
    let details = next_step(lines, step);
    health.warn("POOL_NEAR_FULL", count, format!("{count} pool(s) near their quota"), details);
}

fn check_redundancy(health: &mut Health, view: &View<'_>) {
    if !view.is_on("mon_warn_on_pool_no_redundancy") {
        return;
    }
    let bare = named(view, |_, pool| pool.is_replicated() && pool.size == 1);
    let lines = bare.iter().map(|name| format!("pool '{name}' has no replicas configured"));
    let details = next_step(lines, "give them more copies with 'ceph osd pool set POOL size 3'");
    let summary = format!("{} pool(s) have no replicas configured", bare.len());
    health.warn("POOL_NO_REDUNDANCY", bare.len(), summary, details);
}

fn check_applications(health: &mut Health, view: &View<'_>) {
    if !view.is_on("mon_warn_on_pool_no_app") {
        return;
    }
    let nameless = named(view, |id, pool| {
        pool.application_metadata.is_empty() && view.live.stats.pool_totals(id).objects > 0
    });
    let lines = nameless.iter().map(|name| format!("application not enabled on pool '{name}'"));
    let details = lines.chain([APPLICATION_HINT.to_owned()]).collect();
    let summary = format!("{} pool(s) do not have an application enabled", nameless.len());
    health.warn("POOL_APP_NOT_ENABLED", nameless.len(), summary, details);
}

fn check_group_numbers(health: &mut Health, view: &View<'_>) {
    let fewer = named(view, |_, pool| {
        pool.pgp_num < pool.pg_num && pool.pgp_num_target < pool.pg_num_target
    });
    let lines = fewer.iter().map(|name| format!("pool {name} pg_num > pgp_num"));
    let step = "'ceph osd pool set POOL pgp_num' to its pg_num spreads the data over all groups";
    let details = next_step(lines, step);
    let summary = format!("{} pools have pg_num > pgp_num", fewer.len());
    health.warn("SMALLER_PGP_NUM", fewer.len(), summary, details);
    if !view.options().switch("mon_warn_on_pool_pg_num_not_power_of_two") {
        return;
    }
    let uneven = named(view, |_, pool| {
        !pool.pg_num_target.is_power_of_two() && pool.pg_num_target == pool.pg_num
    });
    let lines = uneven.iter().map(|name| format!("pool '{name}' pg_num is not a power of two"));
    let step =
        "'ceph osd pool set POOL pg_num' to the next power of two makes groups alike in size";
    let details = next_step(lines, step);
    let summary = format!("{} pool(s) have non-power-of-two pg_num", uneven.len());
    health.warn("POOL_PG_NUM_NOT_POWER_OF_TWO", uneven.len(), summary, details);
}

/// Pools in autoscale mode `warn` that the autoscaler would change.
fn check_autoscale(health: &mut Health, view: &View<'_>) {
    let map = &view.state.osdmap;
    let warns = |pool: &Pool| pool.pg_autoscale_mode == AutoscaleMode::WARN;
    if !map.pools.values().any(warns) {
        return;
    }
    let all = advice(view.state, view.live.running, view.live.stats);
    let wrong = all.iter().filter(|one| one.would_adjust && map.pool(one.pool).is_some_and(warns));
    let (few, many): (Vec<&Advice>, Vec<&Advice>) =
        wrong.partition(|one| one.pg_num_final > one.pg_num_target);
    for (pools, name, word) in
        [(few, "POOL_TOO_FEW_PGS", "few"), (many, "POOL_TOO_MANY_PGS", "many")]
    {
        let lines = pools.iter().map(|one| {
            let name = map.pool_name(one.pool).unwrap_or_default();
            let (now, ideal) = (one.pg_num_target, one.pg_num_final);
            format!("Pool {name} has {now} placement groups, should have {ideal}")
        });
        let step =
            "'ceph osd pool set POOL pg_num' to what it should have, or pg_autoscale_mode on";
        let details = next_step(lines, step);
        let summary = format!("{} pools have too {word} placement groups", pools.len());
        health.warn(name, pools.len(), summary, details);
    }
}
