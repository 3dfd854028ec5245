//! `osd pool get`, `osd pool set`, quotas.

use super::pool_named;
use super::pools::check_pg_num;
use crate::command::{Answer, Command, Context, Refusal, command};
use crate::dump::pool::option_value;
use crate::table::{bytes, count};
use maps::{OptionType, Pool, PoolFlags, PoolOption, PoolOptionValue};
use serde_json::{Map, Value, json};
use types::{Errno, PoolId};

const SIZE_MAX: i64 = 10;

macro_rules! variables {
    ($prefix:literal, $suffix:literal) => {
        concat!(
            $prefix,
            " name=pool,type=CephPoolname name=var,type=CephChoices,strings=size|min_size|pg_num|",
            "pgp_num|pgp_num_actual|crush_rule|hashpspool|nodelete|nopgchange|nosizechange|",
            "write_fadvise_dontneed|noscrub|nodeep-scrub|use_gmt_hitset|erasure_code_profile|all|",
            "fast_read|scrub_min_interval|scrub_max_interval|deep_scrub_interval|recovery_priority|",
            "recovery_op_priority|scrub_priority|compression_mode|compression_algorithm|",
            "compression_required_ratio|compression_max_blob_size|compression_min_blob_size|",
            "csum_type|csum_min_block|csum_max_block|allow_ec_overwrites|fingerprint_algorithm|",
            "pg_autoscale_mode|pg_autoscale_bias|pg_num_min|pg_num_max|target_size_bytes|",
            "target_size_ratio|dedup_tier|dedup_chunk_algorithm|dedup_cdc_chunk_size|eio|bulk|",
            "read_ratio|hit_set_type|hit_set_period|hit_set_count|hit_set_fpp|target_max_objects|",
            "target_max_bytes|read_lease_interval",
            $suffix
        )
    };
}

pub const COMMANDS: &[Command] = &[
    command(variables!("osd pool get", ""), "get pool parameter <var>", "osd", "r", get),
    command(
        variables!(
            "osd pool set",
            " name=val,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false"
        ),
        "set pool parameter <var> to <val>",
        "osd",
        "rw",
        set,
    ),
    command(
        "osd pool set-quota name=pool,type=CephPoolname \
         name=field,type=CephChoices,strings=max_objects|max_bytes name=val,type=CephString",
        "set object or byte limit on pool",
        "osd",
        "rw",
        set_quota,
    ),
    command(
        "osd pool get-quota name=pool,type=CephPoolname",
        "obtain object or byte limits for pool",
        "osd",
        "r",
        get_quota,
    ),
];

/// Settings that `all` shows, in its order.
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

/// Settings that are flags.
fn flag(variable: &str) -> Option<PoolFlags> {
    Some(match variable {
        "hashpspool" => PoolFlags::HASHPSPOOL,
        "allow_ec_overwrites" => PoolFlags::EC_OVERWRITES,
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

/// The value of a setting, `None` if it does not apply or is not set.
fn value(context: &Context<'_>, pool: &Pool, variable: &str) -> Option<Value> {
    if matches!(variable, "allow_ec_overwrites" | "erasure_code_profile") && !pool.is_erasure() {
        return None;
    }
    if let Some(flag) = flag(variable) {
        return Some(json!(pool.flags.contains(flag)));
    }
    Some(match variable {
        "size" => json!(pool.size),
        "min_size" => json!(pool.min_size),
        "pg_num" => json!(pool.pg_num),
        "pgp_num" | "pgp_num_actual" => json!(pool.pgp_num),
        "crush_rule" => {
            let id = u32::from(pool.crush_rule);
            let name = context.state.osdmap.crush.rule_name(id).map(str::to_owned);
            json!(name.unwrap_or_else(|| id.to_string()))
        }
        "use_gmt_hitset" => json!(pool.use_gmt_hitset),
        "erasure_code_profile" => json!(pool.erasure_code_profile),
        "fast_read" => json!(u8::from(pool.fast_read)),
        "pg_autoscale_mode" => json!(pool.pg_autoscale_mode.name()),
        _ => option_value(pool.options.0.get(&PoolOption::from_name(variable)?)?),
    })
}

fn plain_value(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn get(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let id = pool_named(context, "pool")?;
    let Some(pool) = context.state.osdmap.pool(id) else { return Ok(Answer::default()) };
    let variable = context.arguments.text("var");
    let name = context.arguments.text("pool");
    let mut found: Vec<(&str, Value)> = Vec::new();
    if variable == "all" {
        let options = PoolOption::all().filter_map(PoolOption::name);
        let variables = ALWAYS.into_iter().chain(["eio", "bulk"]).chain(options);
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
    let plain =
        || found.iter().map(|(name, value)| format!("{name}: {}\n", plain_value(value))).collect();
    Ok(context.show(json, plain))
}

fn integer(text: &str) -> Result<i64, Refusal> {
    text.parse().map_err(|_| {
        Refusal::invalid(format!(
            "error parsing integer value '{text}': Expected option value to be integer, got '{text}'"
        ))
    })
}

fn boolean(text: &str) -> Result<bool, Refusal> {
    match text {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err(Refusal::invalid(format!(
            "expecting value 'true', 'false', '0', or '1', got '{text}'"
        ))),
    }
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
        "size" => set_size(context, &mut pool, integer(&text)?)?,
        "min_size" => set_min_size(&mut pool, integer(&text)?)?,
        "pg_num" => set_pg_num(context, id, &mut pool, integer(&text)?)?,
        "pgp_num" | "pgp_num_actual" => set_pgp_num(&mut pool, integer(&text)?)?,
        "crush_rule" => set_rule(context, &mut pool, &text)?,
        "fast_read" => pool.fast_read = boolean(&text)?,
        "use_gmt_hitset" => pool.use_gmt_hitset = boolean(&text)?,
        "pg_autoscale_mode" => {
            pool.pg_autoscale_mode = text.parse().map_err(|()| {
                Refusal::invalid(format!(
                    "specified invalid mode '{text}', expected on, off or warn"
                ))
            })?;
        }
        _ => set_other(&mut pool, &variable, &text)?,
    }
    if pool != before
        && let Some(changed) = context.change.pool(context.state, id)
    {
        let last_change = changed.last_change;
        *changed = Pool { last_change, ..pool };
    }
    Ok(Answer::said(format!("set pool {id} {variable} to {text}")))
}

fn set_size(context: &Context<'_>, pool: &mut Pool, size: i64) -> Result<(), Refusal> {
    if pool.flags.contains(PoolFlags::NOSIZECHANGE) {
        let text =
            "pool size change is disabled; you must unset nosizechange flag for the pool first";
        return Err(Refusal::new(Errno::PERM, text));
    }
    if pool.is_erasure() {
        return Err(Refusal::new(
            Errno::NOTSUPP,
            "can not change the size of an erasure-coded pool",
        ));
    }
    if !(1..=SIZE_MAX).contains(&size) {
        return Err(Refusal::invalid("pool size must be between 1 and 10"));
    }
    if size == 1 {
        let confirmed = context.arguments.flag("yes_i_really_mean_it");
        if context.state.mon_option("mon_allow_pool_size_one") == Some("false") {
            let text = "configuring pool size as 1 is disabled by default.";
            return Err(Refusal::new(Errno::PERM, text));
        }
        if !confirmed {
            let text = "WARNING: setting pool size 1 could lead to data loss without recovery. If you are \
                        *ABSOLUTELY CERTAIN* that is what you want, pass the flag --yes-i-really-mean-it.";
            return Err(Refusal::new(Errno::PERM, text));
        }
    }
    pool.size = size as u8;
    let usual = pool.size - pool.size / 2;
    pool.min_size = if pool.min_size > pool.size { usual } else { pool.min_size.max(1) };
    Ok(())
}

fn set_min_size(pool: &mut Pool, min_size: i64) -> Result<(), Refusal> {
    if pool.flags.contains(PoolFlags::NOSIZECHANGE) {
        let text =
            "pool min size change is disabled; you must unset nosizechange flag for the pool first";
        return Err(Refusal::new(Errno::PERM, text));
    }
    let size = i64::from(pool.size);
    if !(1..=size).contains(&min_size) {
        return Err(Refusal::invalid(format!(
            "pool min_size must be between 1 and size, which is set to {size}"
        )));
    }
    pool.min_size = min_size as u8;
    Ok(())
}

fn set_pg_num(
    context: &Context<'_>,
    id: PoolId,
    pool: &mut Pool,
    pg_num: i64,
) -> Result<(), Refusal> {
    if pool.flags.contains(PoolFlags::NOPGCHANGE) {
        let text =
            "pool pg_num change is disabled; you must unset nopgchange flag for the pool first";
        return Err(Refusal::new(Errno::PERM, text));
    }
    let pg_num = u32::try_from(pg_num).unwrap_or(0);
    check_pg_num(context.state, Some(id), pg_num, pool.size)?;
    if pg_num == pool.pg_num {
        return Ok(());
    }
    // OSDs neither split nor merge placement groups.
    let text = format!("pg_num can only be set when a pool is created (it is {})", pool.pg_num);
    Err(Refusal::new(Errno::NOTSUPP, text))
}

fn set_pgp_num(pool: &mut Pool, pgp_num: i64) -> Result<(), Refusal> {
    let pg_num = i64::from(pool.pg_num);
    if !(1..=pg_num).contains(&pgp_num) {
        return Err(Refusal::invalid(format!("specified pgp_num {pgp_num} > pg_num {pg_num}")));
    }
    pool.pgp_num = pgp_num as u32;
    pool.pgp_num_target = pgp_num as u32;
    Ok(())
}

fn set_rule(context: &Context<'_>, pool: &mut Pool, name: &str) -> Result<(), Refusal> {
    let crush = &context.state.osdmap.crush;
    let missing = || Refusal::missing(format!("crush rule {name} does not exist"));
    let id = crush.rule_id(name).ok_or_else(missing)?;
    let rule = crush.rule(id).ok_or_else(missing)?;
    let serves = match pool.is_erasure() {
        true => rule.rule_type.serves_erasure(),
        false => rule.rule_type.serves_replicated(),
    };
    if !serves {
        return Err(Refusal::invalid(format!("crush rule {name} type does not match pool")));
    }
    pool.crush_rule = u8::try_from(id).map_err(|_| missing())?;
    Ok(())
}

fn set_other(pool: &mut Pool, variable: &str, text: &str) -> Result<(), Refusal> {
    if let Some(flag) = flag(variable) {
        let on = boolean(text)?;
        if flag == PoolFlags::EC_OVERWRITES && !pool.is_erasure() {
            return Err(Refusal::invalid(
                "ec overwrites can only be enabled for an erasure coded pool",
            ));
        }
        pool.flags.set(flag, on);
        return Ok(());
    }
    let option = PoolOption::from_name(variable).ok_or_else(|| {
        Refusal::new(
            Errno::NOTSUPP,
            format!("'{variable}' is about cache tiering, which is not supported"),
        )
    })?;
    let value = parse_option(option, variable, text)?;
    // Zero and nothing mean the default again.
    match value {
        PoolOptionValue::Int(0) => pool.options.0.remove(&option),
        PoolOptionValue::Str(text) if text.is_empty() || text == "unset" => {
            pool.options.0.remove(&option)
        }
        value => pool.options.0.insert(option, value),
    };
    Ok(())
}

fn parse_option(
    option: PoolOption,
    variable: &str,
    text: &str,
) -> Result<PoolOptionValue, Refusal> {
    Ok(match option.value_type() {
        Some(OptionType::Int) if variable.contains("bytes") || variable.contains("blob") => {
            let size = stdx::parse_bytes(text);
            PoolOptionValue::Int(match size {
                Some(size) => size as i64,
                None => integer(text)?,
            })
        }
        Some(OptionType::Int) => PoolOptionValue::Int(integer(text)?),
        Some(OptionType::Double) => PoolOptionValue::Double(text.parse().map_err(|_| {
            Refusal::invalid(format!("error parsing floating point value '{text}'"))
        })?),
        _ => {
            let modes = ["none", "passive", "aggressive", "force", "unset", ""];
            if variable == "compression_mode" && !modes.contains(&text) {
                let text = format!("unrecognized compression mode '{text}'");
                return Err(Refusal::invalid(text));
            }
            PoolOptionValue::Str(text.to_owned())
        }
    })
}

fn set_quota(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let id = pool_named(context, "pool")?;
    let (field, text) =
        (context.arguments.text("field").to_owned(), context.arguments.text("val").to_owned());
    let number = match field.as_str() {
        "max_bytes" => stdx::parse_bytes(&text),
        _ => parse_count(&text),
    };
    let number = number.ok_or_else(|| {
        Refusal::invalid(format!(
            "error parsing value '{text}' of {field}, expected a number such as 100 or 10M"
        ))
    })?;
    if let Some(pool) = context.change.pool(context.state, id) {
        match field.as_str() {
            "max_bytes" => pool.quota_max_bytes = number,
            _ => pool.quota_max_objects = number,
        }
    }
    let pool = context.arguments.text("pool");
    Ok(Answer::said(format!("set-quota {field} = {number} for pool {pool}")))
}

/// Numbers of objects have units of a thousand: `10k`.
fn parse_count(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = match &text[digits..] {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(unit)
}

fn get_quota(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let id = pool_named(context, "pool")?;
    let Some(pool) = context.state.osdmap.pool(id) else { return Ok(Answer::default()) };
    let (name, totals) = (context.arguments.text("pool"), context.stats.pool_totals(id));
    let (objects, volume) = (pool.quota_max_objects, pool.quota_max_bytes);
    let json = || {
        json!({
            "pool_name": name,
            "pool_id": id.0,
            "quota_max_objects": objects,
            "current_num_objects": totals.objects,
            "quota_max_bytes": volume,
            "current_num_bytes": totals.bytes,
        })
    };
    let plain = || {
        let objects = match objects {
            0 => "N/A".to_owned(),
            limit => format!(
                "{} objects  (current num objects: {} objects)",
                count(limit),
                totals.objects
            ),
        };
        let volume = match volume {
            0 => "N/A".to_owned(),
            limit => format!("{}  (current num bytes: {} bytes)", bytes(limit), totals.bytes),
        };
        format!("quotas for pool '{name}':\n  max objects: {objects}\n  max bytes  : {volume}\n")
    };
    Ok(context.show(json, plain))
}
