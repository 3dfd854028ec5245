//! `balancer`: the commands of Ceph's balancer module.

use crate::balancer::{self, plan, score, spreads};
use crate::command::{Answer, Command, Context, Refusal, command, number};
use crate::keys;
use serde_json::json;
use types::Errno;

pub const COMMANDS: &[Command] = &[
    command("balancer status", "Show balancer status", "mgr", "r", status),
    command("balancer status detail", "Show balancer status (detailed)", "mgr", "r", status),
    command("balancer on", "Enable automatic balancing", "mgr", "rw", |context| {
        Ok(set(context, "active", "true"))
    }),
    command("balancer off", "Disable automatic balancing", "mgr", "rw", |context| {
        Ok(set(context, "active", "false"))
    }),
    command(
        "balancer mode name=mode,type=CephChoices,strings=none|crush-compat|upmap|read|upmap-read",
        "Set balancer mode",
        "mgr",
        "rw",
        set_mode,
    ),
    command(
        "balancer eval name=option,type=CephString,req=false",
        "Evaluate data distribution for the current cluster or specific pool or specific plan",
        "mgr",
        "r",
        eval,
    ),
    command(
        "balancer eval-verbose name=option,type=CephString,req=false",
        "Evaluate data distribution for the current cluster or specific pool or specific plan (verbosely)",
        "mgr",
        "r",
        eval_verbose,
    ),
    command(
        "balancer optimize name=plan,type=CephString name=pools,type=CephString,n=N,req=false",
        "Run optimizer to create a new plan",
        "mgr",
        "rw",
        optimize,
    ),
    command("balancer ls", "List all plans", "mgr", "r", |context| Ok(context.json(&json!([])))),
    // An empty answer means that all pools are balanced.
    command("balancer pool ls", "List automatic balancing pools", "mgr", "r", |_| {
        Ok(Answer::default())
    }),
];

fn status(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let status = &context.live.osds.balancer;
    let started = status.started.map(|time| time.wall().to_iso()).unwrap_or_default();
    Ok(context.json(&json!({
        "active": balancer::is_on(context.state),
        "last_optimize_duration": if started.is_empty() { "" } else { "0:00:00.000000" },
        "last_optimize_started": started,
        "mode": balancer::mode(context.state),
        "no_optimization_needed": status.is_even,
        "optimize_result": status.result,
        "plans": [],
    })))
}

fn set(context: &mut Context<'_>, name: &str, value: &str) -> Answer {
    let option = crate::state::stored_option(&format!("mgr/balancer/{name}"));
    context.change.put(keys::config("mgr", &option), value.to_owned());
    Answer::default()
}

fn set_mode(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let mode = context.arguments.text("mode").to_owned();
    if !matches!(mode.as_str(), "none" | "upmap") {
        let text = format!("balancer mode '{mode}' is not supported: use upmap, or none");
        return Err(Refusal::new(Errno::NOTSUPP, text));
    }
    Ok(set(context, "mode", &mode))
}

fn eval(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.osdmap;
    context.placement.update(map);
    let spreads = spreads(map, context.placement);
    let (what, score) = match context.arguments.optional("option") {
        None => ("current cluster".to_owned(), score(&spreads)),
        Some(name) => {
            let missing = || Refusal::missing(format!("option \"{name}\" not a plan or a pool"));
            let pool = map.pool_id(name).ok_or_else(missing)?;
            let spread = spreads.into_iter().find(|spread| spread.pool == pool);
            (format!("pool \"{name}\""), spread.map_or(0.0, |spread| spread.score))
        }
    };
    // As in Ceph, a sentence in every format.
    Ok(Answer::output(format!("{what} score {score:.6} (lower is better)\n")))
}

fn eval_verbose(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.osdmap;
    context.placement.update(map);
    let spreads = spreads(map, context.placement);
    let score = score(&spreads);
    let pools = spreads.into_iter().map(|spread| {
        json!({
            "pool": map.pool_name(spread.pool),
            "pool_id": spread.pool.0,
            "deviation_max": number(spread.deviation_max),
            "score": number(spread.score),
        })
    });
    Ok(context.json(&json!({ "score": number(score), "pools": pools.collect::<Vec<_>>() })))
}

/// Executes a step at once, as plans are not stored.
fn optimize(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let limits = balancer::limits(context.state, context.live.running, context.live.stats)
        .map_err(|reason| Refusal::new(Errno::AGAIN, reason))?;
    context.placement.update(&context.state.osdmap);
    let mut plan = plan(&context.state.osdmap, context.placement, limits);
    let pools = context.arguments.list("pools");
    let map = &context.state.osdmap;
    if let Some(name) = pools.iter().find(|name| map.pool_id(name).is_none()) {
        return Err(Refusal::missing(format!("pool {name} does not exist")));
    }
    let wanted =
        |pool| pools.is_empty() || pools.iter().any(|name| map.pool_id(name) == Some(pool));
    plan.retain(|pg, _| wanted(pg.pool));
    if plan.is_empty() {
        let text = "Error EALREADY: Unable to find further optimization, or pool(s) pg_num is \
                    decreasing, or distribution is already perfect";
        return Err(Refusal::new(Errno::ALREADY, text));
    }
    let count = plan.len();
    balancer::apply(context.state, plan, &mut context.change);
    Ok(Answer::said(format!("{count} placement groups are exchanged at once; plans are not kept")))
}
