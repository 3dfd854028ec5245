//! Formatting of pools.

use crate::command::number;
use maps::{OsdMap, Pool, PoolOptionValue};
use serde_json::{Map, Value, json};
use types::{OsdId, PoolId, SnapId};

/// A pool as in `osd dump` and `osd pool ls detail`.
pub fn json(map: &OsdMap, id: PoolId, pool: &Pool) -> Value {
    let mut object = Map::new();
    let identity = json!({
        "pool": id.0,
        "pool_name": map.pool_name(id).unwrap_or_default(),
    });
    for part in [identity, basics(pool), placement(pool), history(pool), snapshots(pool)] {
        extend(&mut object, part);
    }
    extend(&mut object, tiering(pool));
    extend(&mut object, rest(pool));
    let balance = balance(map, id, pool);
    object.insert("read_balance".to_owned(), balance);
    Value::Object(object)
}

fn extend(object: &mut Map<String, Value>, part: Value) {
    if let Value::Object(part) = part {
        object.extend(part);
    }
}

fn basics(pool: &Pool) -> Value {
    json!({
        "create_time": pool.create_time.to_iso(),
        "flags": pool.flags.0,
        "flags_names": pool.flags.to_string(),
        "type": pool.kind.number(),
        "size": pool.size,
        "min_size": pool.min_size,
        "crush_rule": pool.crush_rule,
        "peering_crush_bucket_count": 0,
        "peering_crush_bucket_target": 0,
        "peering_crush_bucket_barrier": 0,
        "peering_crush_bucket_mandatory_member": crush::ITEM_NONE,
        "object_hash": pool.object_hash,
    })
}

fn placement(pool: &Pool) -> Value {
    json!({
        "pg_autoscale_mode": pool.pg_autoscale_mode.name(),
        "pg_num": pool.pg_num,
        "pg_placement_num": pool.pgp_num,
        "pg_placement_num_target": pool.pgp_num_target,
        "pg_num_target": pool.pg_num_target,
        "pg_num_pending": pool.pg_num_pending,
    })
}

fn history(pool: &Pool) -> Value {
    let merge = &pool.last_pg_merge_meta;
    json!({
        "last_pg_merge_meta": {
            "source_pgid": merge.source.to_string(),
            "ready_epoch": merge.ready_epoch.0,
            "last_epoch_started": merge.last_epoch_started.0,
            "last_epoch_clean": merge.last_epoch_clean.0,
            "source_version": merge.source_version.to_string(),
            "target_version": merge.target_version.to_string(),
        },
        "last_change": pool.last_change.to_string(),
        "last_force_op_resend": pool.last_force_op_resend.to_string(),
        "last_force_op_resend_prenautilus": pool.last_force_op_resend_prenautilus.to_string(),
        "last_force_op_resend_preluminous": pool.last_force_op_resend_preluminous.to_string(),
        "auid": pool.auid,
    })
}

fn snapshots(pool: &Pool) -> Value {
    let snap = |snap: &maps::PoolSnap| json!({ "snapid": snap.id.0, "stamp": snap.stamp.to_iso(), "name": snap.name });
    let has_own = pool.flags.contains(maps::PoolFlags::POOL_SNAPS);
    json!({
        "snap_mode": if has_own { "pool" } else { "selfmanaged" },
        "snap_seq": pool.snap_seq.0,
        "snap_epoch": pool.snap_epoch.0,
        "pool_snaps": pool.snaps.values().map(snap).collect::<Vec<_>>(),
        "removed_snaps": pool.removed_snaps.to_string(),
        "quota_max_bytes": pool.quota_max_bytes,
        "quota_max_objects": pool.quota_max_objects,
    })
}

fn tiering(pool: &Pool) -> Value {
    let tier = |tier: Option<PoolId>| tier.map_or(-1, |id| id.0);
    json!({
        "tiers": pool.tiers.iter().map(|id| id.0).collect::<Vec<_>>(),
        "tier_of": tier(pool.tier_of),
        "read_tier": tier(pool.read_tier),
        "write_tier": tier(pool.write_tier),
        "cache_mode": pool.cache_mode.name(),
        "target_max_bytes": pool.target_max_bytes,
        "target_max_objects": pool.target_max_objects,
        "cache_target_dirty_ratio_micro": pool.cache_target_dirty_ratio_micro,
        "cache_target_dirty_high_ratio_micro": pool.cache_target_dirty_high_ratio_micro,
        "cache_target_full_ratio_micro": pool.cache_target_full_ratio_micro,
        "cache_min_flush_age": pool.cache_min_flush_age,
        "cache_min_evict_age": pool.cache_min_evict_age,
        "erasure_code_profile": pool.erasure_code_profile,
        "hit_set_params": { "type": "none" },
        "hit_set_period": pool.hit_set_period,
        "hit_set_count": pool.hit_set_count,
        "use_gmt_hitset": pool.use_gmt_hitset,
        "min_read_recency_for_promote": pool.min_read_recency_for_promote,
        "min_write_recency_for_promote": pool.min_write_recency_for_promote,
        "hit_set_grade_decay_rate": pool.hit_set_grade_decay_rate,
        "hit_set_search_last_n": pool.hit_set_search_last_n,
        "grade_table": [],
    })
}

fn rest(pool: &Pool) -> Value {
    json!({
        "stripe_width": pool.stripe_width,
        "expected_num_objects": pool.expected_num_objects,
        "fast_read": pool.fast_read,
        "options": options(pool),
        "application_metadata": pool.application_metadata,
    })
}

fn options(pool: &Pool) -> Value {
    let named = pool
        .options
        .0
        .iter()
        .filter_map(|(option, value)| Some((option.name()?.to_owned(), option_value(value))));
    Value::Object(named.collect())
}

/// The value of a pool option.
pub fn option_value(value: &PoolOptionValue) -> Value {
    match value {
        PoolOptionValue::Str(text) => json!(text),
        PoolOptionValue::Int(value) => json!(value),
        PoolOptionValue::Double(value) => number(*value),
    }
}

/// How far the busiest primary exceeds its fair share of a pool's groups.
fn read_balance_score(map: &OsdMap, id: PoolId) -> Option<f64> {
    let mut placement = map.placement();
    let mut primaries = std::collections::BTreeMap::<OsdId, u32>::new();
    let (mut groups, mut members) = (0, std::collections::BTreeSet::new());
    for pg in map.pgs(id) {
        let mapping = placement.pg_to_osds(pg);
        *primaries.entry(mapping.acting_primary?).or_default() += 1;
        members.extend(mapping.acting);
        groups += 1;
    }
    let most = primaries.values().max().copied()?;
    let fair = f64::from(groups) / members.len() as f64;
    Some((f64::from(most) / fair * 100.0).round() / 100.0)
}

fn balance(map: &OsdMap, id: PoolId, pool: &Pool) -> Value {
    let score = pool.is_replicated().then(|| read_balance_score(map, id)).flatten();
    let score = number(score.unwrap_or(0.0));
    json!({
        "score_acting": score,
        "score_stable": score,
        "optimal_score": 1,
        "raw_score_acting": score,
        "raw_score_stable": score,
        "primary_affinity_weighted": 1,
        "average_primary_affinity": 1,
        "average_primary_affinity_weighted": 1,
    })
}

/// A pool's line in plain `osd dump`.
pub fn line(map: &OsdMap, id: PoolId, pool: &Pool) -> String {
    let name = map.pool_name(id).unwrap_or_default();
    let mut line = format!("pool {id} '{name}' {}", pool.kind);
    if !pool.erasure_code_profile.is_empty() {
        line += &format!(" profile {}", pool.erasure_code_profile);
    }
    line += &format!(
        " size {} min_size {} crush_rule {} object_hash rjenkins pg_num {} pgp_num {}",
        pool.size, pool.min_size, pool.crush_rule, pool.pg_num, pool.pgp_num
    );
    if pool.pg_num_target != pool.pg_num {
        line += &format!(" pg_num_target {}", pool.pg_num_target);
    }
    line += &format!(
        " autoscale_mode {} last_change {} flags {}",
        pool.pg_autoscale_mode.name(),
        pool.last_change,
        pool.flags
    );
    if pool.quota_max_bytes > 0 {
        line += &format!(" max_bytes {}", pool.quota_max_bytes);
    }
    if pool.quota_max_objects > 0 {
        line += &format!(" max_objects {}", pool.quota_max_objects);
    }
    line += &format!(" stripe_width {}", pool.stripe_width);
    for option in pool.options.0.iter().filter_map(|(option, value)| {
        Some(format!(" {} {}", option.name()?, option_value(value).to_string().trim_matches('"')))
    }) {
        line += &option;
    }
    let applications: Vec<&str> = pool.application_metadata.keys().map(String::as_str).collect();
    if !applications.is_empty() {
        line += &format!(" application {}", applications.join(","));
    }
    if let Some(score) = pool.is_replicated().then(|| read_balance_score(map, id)).flatten() {
        line += &format!(" read_balance_score {score:.2}");
    }
    line.push('\n');
    for (SnapId(number), snap) in &pool.snaps {
        line += &format!("\tsnap {number} '{}' {}\n", snap.name, snap.stamp.to_iso());
    }
    line
}
