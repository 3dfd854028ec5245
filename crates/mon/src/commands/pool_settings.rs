//! `osd pool get` and `osd pool set`.

use super::named::pool_named;
use super::new_pool::check_rule;
use super::pool_numbers::{set_min_size, set_pg_num, set_pg_num_at_once, set_pgp_num, set_size};
use super::pool_options::{self, UNSET, integer};
use crate::command::{Answer, Command, Context, Refusal, command};
use crate::state::parse_switch;
use crate::usage::{room_found, room_wanted};
use maps::{OsdMap, Pool, PoolFlags, PoolOption};
use serde_json::{Map, Value, json};
use types::{Errno, PoolId};

macro_rules! variables {
    ($prefix:literal, $more:literal) => {
        concat!(
            $prefix,
            " name=pool,type=CephPoolname name=var,type=CephChoices,strings=size|min_size|pg_num|",
            "pgp_num|crush_rule|hashpspool|nodelete|nopgchange|nosizechange|write_fadvise_dontneed|",
            "noscrub|nodeep-scrub|hit_set_type|hit_set_period|hit_set_count|hit_set_fpp|",
            "use_gmt_hitset|target_max_objects|target_max_bytes|cache_target_dirty_ratio|",
            "cache_target_dirty_high_ratio|cache_target_full_ratio|cache_min_flush_age|",
            "cache_min_evict_age|min_read_recency_for_promote|min_write_recency_for_promote|",
            "fast_read|hit_set_grade_decay_rate|hit_set_search_last_n|scrub_min_interval|",
            "scrub_max_interval|deep_scrub_interval|recovery_priority|recovery_op_priority|",
            "scrub_priority|compression_mode|compression_algorithm|compression_required_ratio|",
            "compression_max_blob_size|compression_min_blob_size|csum_type|csum_min_block|",
            "csum_max_block|allow_ec_overwrites|fingerprint_algorithm|pg_autoscale_mode|",
            "pg_autoscale_bias|pg_num_min|pg_num_max|target_size_bytes|target_size_ratio|",
            "dedup_tier|dedup_chunk_algorithm|dedup_cdc_chunk_size|eio|bulk|read_ratio|",
            "read_lease_interval|pct_update_delay|allow_ec_optimizations|",
            $more
        )
    };
}

pub const COMMANDS: &[Command] = &[
    command(
        variables!("osd pool get", "erasure_code_profile|all"),
        "get pool parameter <var>",
        "osd",
        "r",
        get,
    ),
    command(
        variables!(
            "osd pool set",
            "pg_num_actual|pgp_num_actual name=val,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false"
        ),
        "set pool parameter <var> to <val>",
        "osd",
        "rw",
        set,
    ),
];

/// Settings that `all` shows for every pool, in its order.
const ALWAYS: [&str; 17] = [
    "size",
    "min_size",
    "pg_num",
    "pgp_num",
    "crush_rule",
    "hashpspool",
    "allow_ec_overwrites",
    "nodelete",
    "nopgchange",
    "nosizechange",
    "write_fadvise_dontneed",
    "noscrub",
    "nodeep-scrub",
    "use_gmt_hitset",
    "erasure_code_profile",
    "fast_read",
    "pg_autoscale_mode",
];

/// Settings of cache tiers, which are not supported.
const ONLY_TIER: [&str; 15] = [
    "hit_set_type",
    "hit_set_period",
    "hit_set_count",
    "hit_set_fpp",
    "target_max_objects",
    "target_max_bytes",
    "cache_target_full_ratio",
    "cache_target_dirty_ratio",
    "cache_target_dirty_high_ratio",
    "cache_min_flush_age",
    "cache_min_evict_age",
    "min_read_recency_for_promote",
    "min_write_recency_for_promote",
    "hit_set_grade_decay_rate",
    "hit_set_search_last_n",
];

const ONLY_ERASURE: [&str; 3] =
    ["allow_ec_overwrites", "erasure_code_profile", "allow_ec_optimizations"];

/// The flag that a setting stands for.
fn flag(variable: &str) -> Option<PoolFlags> {
    Some(match variable {
        "hashpspool" => PoolFlags::HASHPSPOOL,
        "allow_ec_overwrites" => PoolFlags::EC_OVERWRITES,
        "allow_ec_optimizations" => PoolFlags::EC_OPTIMIZATIONS,
        "nodelete" => PoolFlags::NODELETE,
        "nopgchange" => PoolFlags::NOPGCHANGE,
        "nosizechange" => PoolFlags::NOSIZECHANGE,
        "write_fadvise_dontneed" => PoolFlags::WRITE_FADVISE_DONTNEED,
        "noscrub" => PoolFlags::NOSCRUB,
        "nodeep-scrub" => PoolFlags::NODEEP_SCRUB,
        "eio" => PoolFlags::EIO,
        "bulk" => PoolFlags::BULK,
        _ => return None,
    })
}

/// The value of a setting; `None` if it does not apply or is not set.
fn value(context: &Context<'_>, pool: &Pool, variable: &str) -> Option<Value> {
    if ONLY_ERASURE.contains(&variable) && !pool.is_erasure() {
        return None;
    }
    if let Some(flag) = flag(variable) {
        return Some(json!(pool.flags.contains(flag)));
    }
    Some(match variable {
        "size" => json!(pool.size),
        "min_size" => json!(pool.min_size),
        "pg_num" => json!(pool.pg_num),
        "pgp_num" => json!(pool.pgp_num),
        "crush_rule" => {
            let id = u32::from(pool.crush_rule);
            let name = context.state.osdmap.crush.rule_name(id).map(str::to_owned);
            json!(name.unwrap_or_else(|| id.to_string()))
        }
        "use_gmt_hitset" => json!(pool.use_gmt_hitset),
        "erasure_code_profile" => json!(pool.erasure_code_profile),
        "fast_read" => json!(u8::from(pool.fast_read)),
        "pg_autoscale_mode" => json!(pool.pg_autoscale_mode.name()),
        _ => {
            let option = PoolOption::from_name(variable)?;
            pool_options::shown(option, pool.options.0.get(&option)?)
        }
    })
}

fn plain_value(name: &str, value: &Value) -> String {
    // The only boolean that is a number in plain output.
    if name == "use_gmt_hitset" {
        return u8::from(value == true).to_string();
    }
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn get(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let id = pool_named(context, "pool")?;
    let Some(pool) = context.state.osdmap.pool(id) else { return Ok(Answer::default()) };
    let variable = context.arguments.text("var");
    let name = context.arguments.text("pool");
    check_applicable(pool, name, variable)?;
    let mut found: Vec<(&str, Value)> = Vec::new();
    if variable == "all" {
        let options = PoolOption::all().filter_map(PoolOption::name);
        let variables =
            ALWAYS.into_iter().chain(["eio", "bulk", "allow_ec_optimizations"]).chain(options);
        found.extend(variables.filter_map(|name| Some((name, value(context, pool, name)?))));
    } else {
        let value = value(context, pool, variable).ok_or_else(|| {
            Refusal::missing(format!("option '{variable}' is not set on pool '{name}'"))
        })?;
        found.push((variable, value));
    }
    let json = || {
        let mut object = Map::new();
        object.insert("pool".to_owned(), json!(name));
        object.insert("pool_id".to_owned(), json!(id.0));
        object.extend(found.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        Value::Object(object)
    };
    let plain = || {
        let line =
            |(name, value): &(&str, Value)| format!("{name}: {}\n", plain_value(name, value));
        found.iter().map(line).collect()
    };
    Ok(context.show(json, plain))
}

fn check_applicable(pool: &Pool, name: &str, variable: &str) -> Result<(), Refusal> {
    if ONLY_TIER.contains(&variable) {
        return Err(not_applicable(name, "tier"));
    }
    if ONLY_ERASURE.contains(&variable) && !pool.is_erasure() {
        return Err(not_applicable(name, "erasure"));
    }
    Ok(())
}

fn not_applicable(name: &str, needed: &str) -> Refusal {
    let text = format!("pool '{name}' is not a {needed} pool: variable not applicable");
    Refusal::new(Errno::ACCES, text)
}

fn boolean(given: &str) -> Result<bool, Refusal> {
    let text = || format!("expecting value 'true', 'false', '0', or '1', got '{given}'");
    parse_switch(given).ok_or_else(|| Refusal::invalid(text()))
}

fn set(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let id = pool_named(context, "pool")?;
    let variable = context.arguments.text("var").to_owned();
    let text = context.arguments.text("val").to_owned();
    let Some(mut pool) = context.state.osdmap.pool(id).cloned() else {
        return Ok(Answer::default());
    };
    let before = pool.clone();
    match variable.as_str() {
        "size" => set_size(context, id, &mut pool, integer(&text)?)?,
        "min_size" => set_min_size(&context.state.osdmap, &mut pool, integer(&text)?)?,
        "pg_num" => set_pg_num(context, id, &mut pool, integer(&text)?)?,
        "pg_num_actual" => set_pg_num_at_once(context, id, &mut pool, integer(&text)?)?,
        "pgp_num" => set_pgp_num(&mut pool, integer(&text)?, false)?,
        "pgp_num_actual" => set_pgp_num(&mut pool, integer(&text)?, true)?,
        "crush_rule" => set_rule(context, id, &mut pool, &text)?,
        "fast_read" => set_fast_read(&mut pool, &text)?,
        "pg_autoscale_mode" => {
            pool.pg_autoscale_mode = text.parse().map_err(|()| {
                Refusal::invalid(format!(
                    "specified invalid mode '{text}', expected on, off or warn"
                ))
            })?;
        }
        _ => set_other(context, &mut pool, &variable, &text)?,
    }
    if pool != before
        && let Some(changed) = context.change.pool(context.state, id)
    {
        let last_change = changed.last_change;
        *changed = Pool { last_change, ..pool };
    }
    Ok(Answer::said(match text.as_str() {
        UNSET => format!("unset pool {id} {variable}"),
        text => format!("set pool {id} {variable} to {text}"),
    }))
}

fn set_rule(context: &Context<'_>, of: PoolId, pool: &mut Pool, name: &str) -> Result<(), Refusal> {
    let map = &context.state.osdmap;
    let id = map.crush.rule_id(name).and_then(|id| u8::try_from(id).ok());
    let missing = || Refusal::missing(format!("crush rule {name} does not exist"));
    let id = id.ok_or_else(missing)?;
    check_rule(&map.crush, id, pool.kind)?;
    let is_sure = context.arguments.flag("yes_i_really_mean_it");
    let is_other = std::mem::replace(&mut pool.crush_rule, id) != id;
    match pool.is_erasure() && is_other && !is_sure {
        true => check_places(map, of, pool, name),
        false => Ok(()),
    }
}

/// Refuses a rule by which no group of an erasure-coded pool could have all its shards.
fn check_places(map: &OsdMap, of: PoolId, pool: &Pool, rule: &str) -> Result<(), Refusal> {
    let mut domains = map.domains();
    let room = domains.room(pool, |osd| map.is_in(osd));
    if room.places >= usize::from(pool.size) {
        return Ok(());
    }
    let (wanted, found, kind) = (room_wanted(pool, &room), room_found(&room), room.kind);
    let of = map.pool_name(of).unwrap_or_default();
    Err(Refusal::invalid(format!(
        "pool '{of}' keeps its rule: it wants {wanted}, and rule '{rule}' {found}, so its groups would be \
         degraded for good. Next: add {kind}s, or choose another rule; or with --yes-i-really-mean-it set it \
         before they are there"
    )))
}

fn set_fast_read(pool: &mut Pool, text: &str) -> Result<(), Refusal> {
    if pool.is_replicated() {
        return Err(Refusal::invalid("fast read is not supported in replication pool"));
    }
    pool.fast_read = boolean(text)?;
    Ok(())
}

fn set_other(
    context: &Context<'_>,
    pool: &mut Pool,
    variable: &str,
    text: &str,
) -> Result<(), Refusal> {
    if let Some(flag) = flag(variable) {
        if ONLY_ERASURE.contains(&variable) && !pool.is_erasure() {
            let text = format!("{variable} can only be enabled for an erasure coded pool");
            return Err(Refusal::invalid(text));
        }
        if flag == PoolFlags::HASHPSPOOL && !context.arguments.flag("yes_i_really_mean_it") {
            let text = "are you SURE?  this will remap all placement groups in this pool, this triggers \
                        large data movement, pass --yes-i-really-mean-it if you really do.";
            return Err(Refusal::new(Errno::PERM, text));
        }
        let is_on = boolean(text)?;
        check_one_way(pool, variable, flag, is_on)?;
        pool.flags.set(flag, is_on);
        return Ok(());
    }
    match PoolOption::from_name(variable) {
        Some(option) => pool_options::set(pool, option, variable, text),
        // All others are for tiers (`use_gmt_hitset` among them, although every pool shows it).
        None => Err(not_applicable(context.arguments.text("pool"), "tier")),
    }
}

/// Refuses to take back a permission by which objects may have been written already.
fn check_one_way(pool: &Pool, variable: &str, flag: PoolFlags, is_on: bool) -> Result<(), Refusal> {
    let what = match flag {
        PoolFlags::EC_OVERWRITES => "ec overwrites",
        PoolFlags::EC_OPTIMIZATIONS => variable,
        _ => return Ok(()),
    };
    match pool.flags.contains(flag) && !is_on {
        true => Err(Refusal::invalid(format!("{what} cannot be disabled once enabled"))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{add_pool, run, set_option, state, text};
    use super::*;
    use crate::numbers::SPLITS;
    use crate::state::State;
    use types::PoolId;

    fn set(state: &mut State, variable: &str, value: &str) -> Result<Answer, Refusal> {
        run(state, "osd pool set", json!({ "pool": "x", "var": variable, "val": value }))
    }

    fn set_surely(state: &mut State, variable: &str, value: &str) -> Result<Answer, Refusal> {
        let given = json!({
            "pool": "x", "var": variable, "val": value, "yes_i_really_mean_it": true,
        });
        run(state, "osd pool set", given)
    }

    fn pool(state: &State) -> &Pool {
        &state.osdmap.pools[&PoolId(1)]
    }

    #[test]
    fn a_new_size_brings_its_default_min_size_and_must_fit_the_osds() {
        let mut state = state();
        add_pool(&mut state);
        set(&mut state, "min_size", "1").unwrap();
        set(&mut state, "size", "5").unwrap();
        assert_eq!((pool(&state).size, pool(&state).min_size), (5, 3));
        set_option(&mut state, "mon_max_pg_per_osd", "15");
        assert_eq!(set(&mut state, "size", "9").unwrap_err().errno, Errno::RANGE);
        set(&mut state, "size", "2").unwrap();
        assert_eq!((pool(&state).size, pool(&state).min_size), (2, 1));
        for size in ["0", "-1", "11", "258"] {
            assert_eq!(set(&mut state, "size", size).unwrap_err().errno, Errno::INVAL);
        }
    }

    #[test]
    fn a_single_copy_needs_consent_in_the_options_and_in_the_command() {
        let mut state = state();
        add_pool(&mut state);
        assert_eq!(set(&mut state, "size", "1").unwrap_err().errno, Errno::PERM);
        for spelling in ["0", "no", "False", "off"] {
            set_option(&mut state, "mon_allow_pool_size_one", spelling);
            let refusal = set_surely(&mut state, "size", "1").unwrap_err();
            assert_eq!(refusal.text, "configuring pool size as 1 is disabled by default.");
        }
        set_option(&mut state, "mon_allow_pool_size_one", "1");
        set_surely(&mut state, "size", "1").unwrap();
    }

    #[test]
    fn what_moves_all_data_needs_consent() {
        let mut state = state();
        add_pool(&mut state);
        let refusal = set(&mut state, "hashpspool", "false").unwrap_err();
        assert_eq!(refusal.errno, Errno::PERM);
        set_surely(&mut state, "hashpspool", "false").unwrap();
        assert!(!pool(&state).flags.contains(PoolFlags::HASHPSPOOL));
    }

    #[test]
    fn numbers_of_groups_are_guarded_by_a_flag_and_are_targets() {
        let mut state = state();
        add_pool(&mut state);
        state.osdmap.osds[0].state.insert(maps::OsdState::UP);
        assert_eq!(set(&mut state, "pg_num", "16").unwrap_err().errno, Errno::NOTSUPP);
        let said = [(SPLITS.to_owned(), "1".to_owned())].into();
        state.osd_metadata.insert(types::OsdId(0), said);
        set(&mut state, "pg_num", "16").unwrap();
        assert_eq!((pool(&state).pg_num, pool(&state).pg_num_target), (8, 16));
        assert_eq!((pool(&state).pgp_num, pool(&state).pgp_num_target), (8, 16));
        assert_eq!(set(&mut state, "pg_num", "4").unwrap_err().errno, Errno::NOTSUPP);
        assert_eq!(set(&mut state, "pg_num", "-1").unwrap_err().errno, Errno::RANGE);
        set(&mut state, "pgp_num", "9").unwrap();
        assert_eq!((pool(&state).pgp_num, pool(&state).pgp_num_target), (8, 9));
        set(&mut state, "pg_num_actual", "12").unwrap();
        assert_eq!((pool(&state).pg_num, pool(&state).pg_num_target), (12, 16));
        assert_eq!(set(&mut state, "pg_num_actual", "8").unwrap_err().errno, Errno::INVAL);
        set(&mut state, "pgp_num_actual", "4").unwrap();
        assert_eq!(pool(&state).pgp_num, 4);
        assert_eq!(set(&mut state, "pgp_num", "17").unwrap_err().errno, Errno::INVAL);
        set(&mut state, "nopgchange", "true").unwrap();
        for variable in ["pg_num", "pgp_num", "pgp_num_actual"] {
            assert_eq!(set(&mut state, variable, "8").unwrap_err().errno, Errno::PERM);
        }
    }

    #[test]
    fn settings_of_other_kinds_of_pools_do_not_apply() {
        let mut state = state();
        add_pool(&mut state);
        let refusal = set(&mut state, "fast_read", "1").unwrap_err();
        assert_eq!(refusal.text, "fast read is not supported in replication pool");
        assert_eq!(set(&mut state, "hit_set_period", "1").unwrap_err().errno, Errno::ACCES);
        let mut get = |variable: &str| {
            run(&mut state, "osd pool get", json!({ "pool": "x", "var": variable }))
        };
        for (variable, kind) in [
            ("hit_set_type", "tier"),
            ("cache_min_evict_age", "tier"),
            ("erasure_code_profile", "erasure"),
        ] {
            let refusal = get(variable).unwrap_err();
            let expected = format!("pool 'x' is not a {kind} pool: variable not applicable");
            assert_eq!((refusal.errno, refusal.text), (Errno::ACCES, expected));
        }
        assert_eq!(text(&get("use_gmt_hitset").unwrap()), "use_gmt_hitset: 1\n");
    }

    #[test]
    fn checksums_are_shown_by_name() {
        let mut state = state();
        add_pool(&mut state);
        set(&mut state, "csum_type", "crc32c").unwrap();
        let given = json!({ "pool": "x", "var": "csum_type" });
        let shown = run(&mut state, "osd pool get", given).unwrap();
        assert_eq!(text(&shown), "csum_type: crc32c\n");
    }
}
