//! `osd pool create`, and what is said about autoscaling.

use super::erasure_code::{profile_shape, rule_for_profile};
use super::pools::{self, NewPool};
use crate::command::{Answer, Command, Context, Refusal, command, number};
use crate::dump::usage::raw_bytes_per_byte;
use crate::table::{Table, bytes};
use maps::{PoolFlags, PoolOption, PoolOptionValue, PoolType};
use serde_json::{Value, json};
use types::{Errno, PoolId};

/// Bytes of one shard of a stripe (`osd_pool_erasure_code_stripe_unit`).
const STRIPE_UNIT: u32 = 4096;

pub const COMMANDS: &[Command] = &[
    command(
        "osd pool create name=pool,type=CephPoolname name=pg_num,type=CephInt,range=0,req=false \
         name=pgp_num,type=CephInt,range=0,req=false \
         name=pool_type,type=CephChoices,strings=replicated|erasure,req=false \
         name=erasure_code_profile,type=CephString,req=false,goodchars=[A-Za-z0-9-_.] \
         name=rule,type=CephString,req=false name=expected_num_objects,type=CephInt,range=0,req=false \
         name=size,type=CephInt,range=0,req=false name=pg_num_min,type=CephInt,range=0,req=false \
         name=pg_num_max,type=CephInt,range=0,req=false \
         name=autoscale_mode,type=CephChoices,strings=on|off|warn,req=false \
         name=bulk,type=CephBool,req=false name=target_size_bytes,type=CephInt,range=0,req=false \
         name=target_size_ratio,type=CephFloat,range=0.0,req=false \
         name=yes_i_really_mean_it,type=CephBool,req=false",
        "create pool",
        "osd",
        "rw",
        create,
    ),
    command(
        "osd pool autoscale-status",
        "report on pool pg_num sizing recommendation and intent",
        "osd",
        "r",
        autoscale,
    ),
];

fn create(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let name = context.arguments.text("pool").to_owned();
    let kind = context.arguments.optional("pool_type").unwrap_or("replicated");
    let kind: PoolType = kind.parse().unwrap_or_default();
    if let Some(id) = context.state.osdmap.pool_id(&name) {
        let existing = context.state.osdmap.pool(id).map(|pool| pool.kind).unwrap_or_default();
        if existing != kind {
            let text = format!("pool '{name}' cannot change to type {kind}");
            return Err(Refusal::invalid(text));
        }
        return Ok(Answer::said(format!("pool '{name}' already exists")));
    }
    let id = match kind {
        PoolType::Replicated => create_replicated(context, &name)?,
        PoolType::Erasure => create_erasure(context, &name)?,
    };
    apply_options(context, id)?;
    Ok(Answer::said(format!("pool '{name}' created")))
}

fn count(context: &Context<'_>, argument: &str) -> Result<Option<u32>, Refusal> {
    match context.arguments.int(argument) {
        None => Ok(None),
        Some(number) => u32::try_from(number).map(Some).map_err(|_| {
            Refusal::new(Errno::RANGE, format!("'{argument}' {number} is out of range"))
        }),
    }
}

fn size(context: &Context<'_>) -> Result<Option<u8>, Refusal> {
    match context.arguments.int("size").filter(|size| *size > 0) {
        None => Ok(None),
        Some(size) => u8::try_from(size)
            .map(Some)
            .map_err(|_| Refusal::invalid(format!("pool size {size} is out of range"))),
    }
}

fn rule_named(context: &Context<'_>, name: &str) -> Result<u8, Refusal> {
    let id = context.state.osdmap.crush.rule_id(name).and_then(|id| u8::try_from(id).ok());
    id.ok_or_else(|| Refusal::missing(format!("specified rule {name} doesn't exist")))
}

fn create_replicated(context: &mut Context<'_>, name: &str) -> Result<PoolId, Refusal> {
    // For replicated pools, what stands where the profile would be is the rule.
    let rule = context.arguments.optional("rule");
    let rule = rule.or(context.arguments.optional("erasure_code_profile"));
    let rule =
        rule.filter(|rule| !rule.is_empty()).map(|rule| rule_named(context, rule)).transpose()?;
    let new = NewPool {
        name,
        rule,
        pg_num: count(context, "pg_num")?,
        pgp_num: count(context, "pgp_num")?,
        size: size(context)?,
        ..NewPool::default()
    };
    pools::create(context.state, &mut context.change, &new)
}

fn create_erasure(context: &mut Context<'_>, name: &str) -> Result<PoolId, Refusal> {
    let profile =
        context.arguments.optional("erasure_code_profile").filter(|name| !name.is_empty());
    let profile = profile.unwrap_or("default").to_owned();
    let known = context.state.osdmap.erasure_code_profiles.get(&profile);
    let known = known.ok_or_else(|| {
        Refusal::missing(format!("erasure code profile '{profile}' does not exist"))
    })?;
    let (data, coding) = profile_shape(known)?;
    let rule = match context.arguments.optional("rule").filter(|rule| !rule.is_empty()) {
        Some(rule) => rule_named(context, rule)?,
        None => rule_for_profile(context.state, &mut context.change, name, known)?,
    };
    // The rule may be part of this very change, so the check for it must see that.
    let (pg_num, pgp_num) = (count(context, "pg_num")?, count(context, "pgp_num")?);
    let is_new = context.state.osdmap.crush.rule(rule.into()).is_none();
    let new = NewPool {
        name,
        kind: PoolType::Erasure,
        rule: (!is_new).then_some(rule),
        pg_num,
        pgp_num,
        size: Some(data + coding),
        profile: &profile,
        stripe_width: u32::from(data) * STRIPE_UNIT,
    };
    let id = pools::create(context.state, &mut context.change, &new)?;
    if let Some(pool) = context.change.osdmap(context.state).new_pools.get_mut(&id) {
        pool.crush_rule = rule;
        pool.min_size = data + u8::from(coding > 1);
    }
    Ok(id)
}

fn apply_options(context: &mut Context<'_>, id: PoolId) -> Result<(), Refusal> {
    let mut options = Vec::new();
    for name in ["pg_num_min", "pg_num_max", "target_size_bytes"] {
        if let Some(value) = context.arguments.int(name).filter(|value| *value > 0) {
            options.push((name, PoolOptionValue::Int(value)));
        }
    }
    if let Some(ratio) = context.arguments.float("target_size_ratio").filter(|ratio| *ratio > 0.0) {
        options.push(("target_size_ratio", PoolOptionValue::Double(ratio)));
    }
    let configured = context.state.mon_option("osd_pool_default_pg_autoscale_mode");
    let mode = context.arguments.optional("autoscale_mode").or(configured).unwrap_or("on");
    let mode = mode.parse().unwrap_or(maps::AutoscaleMode::ON);
    let bulk = context.arguments.flag("bulk");
    let expected = context.arguments.int("expected_num_objects").unwrap_or(0);
    let protected = context.state.mon_option("osd_pool_default_flag_nodelete") == Some("true");
    let Some(pool) = context.change.osdmap(context.state).new_pools.get_mut(&id) else {
        return Ok(());
    };
    pool.pg_autoscale_mode = mode;
    pool.flags.set(PoolFlags::BULK, bulk);
    pool.flags.set(PoolFlags::NODELETE, protected);
    pool.expected_num_objects = expected.max(0) as u64;
    for (name, value) in options {
        if let Some(option) = PoolOption::from_name(name) {
            pool.options.0.insert(option, value);
        }
    }
    Ok(())
}

/// Placement groups are never split by themselves; the numbers are shown as they are.
fn autoscale(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.osdmap;
    let capacity = context.stats.usage(map).bytes_total;
    let rows = || {
        map.pools.iter().map(|(id, pool)| {
            let totals = context.stats.pool_totals(*id);
            (*id, pool, totals, raw_bytes_per_byte(map, *id))
        })
    };
    let ratio = |stored: u64, rate: f64| match capacity {
        0 => 0.0,
        capacity => stored as f64 * rate / capacity as f64,
    };
    let json = || {
        let pool =
            |(id, pool, totals, rate): (PoolId, &maps::Pool, crate::statistics::Totals, f64)| {
                json!({
                    "pool_id": id.0,
                    "pool_name": map.pool_name(id),
                    "logical_used": totals.bytes,
                    "raw_used_rate": number(rate),
                    "subtree_capacity": capacity,
                    "capacity_ratio": number(ratio(totals.bytes, rate)),
                    "actual_capacity_ratio": number(ratio(totals.bytes, rate)),
                    "target_bytes": 0,
                    "target_ratio": 0,
                    "effective_target_ratio": 0,
                    "bias": 1,
                    "pg_num_target": pool.pg_num,
                    "pg_num_ideal": pool.pg_num,
                    "pg_num_final": pool.pg_num,
                    "pg_autoscale_mode": pool.pg_autoscale_mode.name(),
                    "would_adjust": false,
                    "bulk": pool.flags.contains(PoolFlags::BULK),
                })
            };
        Value::from(rows().map(pool).collect::<Vec<_>>())
    };
    let plain = || {
        let mut table = Table::new(&[
            "POOL",
            ">SIZE",
            ">TARGET SIZE",
            ">RATE",
            ">RAW CAPACITY",
            ">RATIO",
            ">TARGET RATIO",
            ">EFFECTIVE RATIO",
            ">BIAS",
            ">PG_NUM",
            ">NEW PG_NUM",
            "AUTOSCALE",
            "BULK",
        ]);
        for (id, pool, totals, rate) in rows() {
            let bulk = if pool.flags.contains(PoolFlags::BULK) { "True" } else { "False" };
            table.row([
                map.pool_name(id).unwrap_or_default().to_owned(),
                bytes(totals.bytes),
                String::new(),
                format!("{rate:.1}"),
                bytes(capacity),
                format!("{:.4}", ratio(totals.bytes, rate)),
                String::new(),
                String::new(),
                "1.0".to_owned(),
                pool.pg_num.to_string(),
                String::new(),
                pool.pg_autoscale_mode.name().to_owned(),
                bulk.to_owned(),
            ]);
        }
        table.to_string()
    };
    Ok(context.show(json, plain))
}
