//! `osd pool autoscale-status`: current and recommended `pg_num` of pools.

use crate::autoscale::{Advice, THRESHOLD_DEFAULT, THRESHOLD_OPTION, advice};
use crate::command::{Answer, Command, Context, Refusal, command, number};
use crate::keys;
use crate::table::{Table, bytes};
use maps::{AutoscaleMode, OsdMapFlags};
use serde_json::{Value, json};

pub const COMMANDS: &[Command] = &[
    command(
        "osd pool autoscale-status",
        "report on pool pg_num sizing recommendation and intent",
        "osd",
        "r",
        status,
    ).of_manager(),
    command(
        "osd pool get noautoscale",
        "Get the noautoscale flag to see if all pools are setting the autoscaler on or off",
        "osd",
        "r",
        |context| {
            let state = match context.state.osdmap.flags.contains(OsdMapFlags::NOAUTOSCALE) {
                true => "on",
                false => "off",
            };
            let _ = context;
            Ok(Answer::said(format!("noautoscale is {state}")))
        },
    ).of_manager(),
    command(
        "osd pool set noautoscale",
        "set the noautoscale for all pools",
        "osd",
        "rw",
        |context| Ok(set(context, true)),
    ).of_manager(),
    command(
        "osd pool set threshold name=num,type=CephFloat,range=1.0",
        "set the autoscaler threshold, i.e. the factor by which the new pg_num must vary from the existing pg_num before action is taken",
        "osd",
        "rw",
        set_threshold,
    ).of_manager(),
    command("osd pool unset noautoscale", "Unset the noautoscale flag", "osd", "rw", |context| {
        Ok(set(context, false))
    }).of_manager(),
];

fn set(context: &mut Context<'_>, on: bool) -> Answer {
    let mut flags = context.state.osdmap.flags;
    flags.set(OsdMapFlags::NOAUTOSCALE, on);
    if flags != context.state.osdmap.flags {
        context.change.osdmap(context.state).new_flags = Some(flags);
    }
    let verb = if on { "set" } else { "unset" };
    Answer::said(format!("noautoscale is {verb}"))
}

fn set_threshold(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let threshold = context.arguments.float("num").unwrap_or(THRESHOLD_DEFAULT);
    let option = crate::state::stored_option(THRESHOLD_OPTION);
    context.change.put(keys::config("mgr", &option), threshold.to_string());
    Ok(Answer::output("threshold updated\n"))
}

fn mode(context: &Context<'_>, advice: &Advice) -> AutoscaleMode {
    let pool = context.state.osdmap.pool(advice.pool);
    pool.map_or(AutoscaleMode::OFF, |pool| pool.pg_autoscale_mode)
}

fn status(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let all = advice(context.state, context.live.running, context.live.stats);
    let json = || Value::from(all.iter().map(|one| value(context, one)).collect::<Vec<_>>());
    Ok(context.show(json, || plain(context, &all)))
}

fn value(context: &Context<'_>, advice: &Advice) -> Value {
    json!({
        "pool_id": advice.pool.0,
        "pool_name": context.state.osdmap.pool_name(advice.pool),
        "crush_root_id": -1,
        "logical_used": advice.stored,
        "raw_used_rate": number(advice.raw_rate),
        "raw_used": number(advice.stored as f64 * advice.raw_rate),
        "subtree_capacity": advice.capacity,
        "capacity_ratio": number(advice.capacity_ratio),
        "actual_capacity_ratio": number(advice.actual_ratio),
        "actual_raw_used": number(advice.stored as f64 * advice.raw_rate),
        "target_bytes": advice.target_bytes,
        "target_ratio": number(advice.target_ratio),
        "effective_target_ratio": number(if advice.target_ratio > 0.0 { advice.capacity_ratio } else { 0.0 }),
        "bias": number(advice.bias),
        "pg_num_target": advice.pg_num_target,
        "pg_num_ideal": advice.ideal as u64,
        "pg_num_final": advice.pg_num_final,
        "pg_autoscale_mode": mode(context, advice).name(),
        "would_adjust": advice.would_adjust,
        "bulk": advice.is_bulk,
    })
}

fn plain(context: &Context<'_>, all: &[Advice]) -> String {
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
    let unless_zero = |text: String, is_zero: bool| if is_zero { String::new() } else { text };
    for advice in all {
        let has_target = advice.target_ratio > 0.0;
        table.row([
            context.state.osdmap.pool_name(advice.pool).unwrap_or_default().to_owned(),
            bytes(advice.stored),
            unless_zero(bytes(advice.target_bytes), advice.target_bytes == 0),
            format!("{:.1}", advice.raw_rate),
            bytes(advice.capacity),
            format!("{:.4}", advice.capacity_ratio),
            unless_zero(format!("{:.4}", advice.target_ratio), !has_target),
            unless_zero(format!("{:.4}", advice.capacity_ratio), !has_target),
            format!("{:.1}", advice.bias),
            advice.pg_num_target.to_string(),
            unless_zero(advice.pg_num_final.to_string(), !advice.would_adjust),
            mode(context, advice).name().to_owned(),
            if advice.is_bulk { "True" } else { "False" }.to_owned(),
        ]);
    }
    table.to_string()
}
