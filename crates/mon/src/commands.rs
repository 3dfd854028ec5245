//! Commands, one file per family. Each file begins with its table of descriptions.

pub(crate) mod admission;
mod auth;
mod autoscale;
mod balancer;
mod blocklist;
mod config;
mod config_key;
mod crash;
mod crush;
mod crush_classes;
mod crush_edit;
mod crush_rules;
mod daemon;
mod df;
mod erasure_code;
mod file_system;
mod image_perf;
mod image_schedules;
pub(crate) mod image_tasks;
mod log;
mod mgr;
mod mgr_modules;
mod misc;
mod mon;
mod osd;
mod osd_life;
mod osd_mapping;
mod osd_marks;
mod osd_safety;
mod osd_usage;
mod pg;
mod pool_application;
mod pool_create;
mod pool_options;
mod pool_quota;
mod pool_settings;
pub(crate) mod pools;
mod progress;
mod recovery;
mod report;
mod reweight;
mod scrub;
mod services;
mod status;
#[cfg(test)]
mod testing;
mod tiers;

pub(crate) use crush_edit::crush_create_or_move;
pub(crate) use daemon::is_told_to_managers;
pub(crate) use pools::SIZE_MAX as POOL_SIZE_MAX;
pub(crate) use report::ping;

use crate::command::{Context, Refusal, Registry};
use serde_json::{Map, Value, json};
use types::{OsdId, PoolId};

/// The commands to the monitors.
pub fn registry() -> Registry {
    Registry::new(&[
        status::COMMANDS,
        report::COMMANDS,
        df::COMMANDS,
        mon::COMMANDS,
        log::COMMANDS,
        auth::COMMANDS,
        config::COMMANDS,
        config_key::COMMANDS,
        osd::COMMANDS,
        osd_usage::COMMANDS,
        reweight::COMMANDS,
        osd_marks::COMMANDS,
        osd_life::COMMANDS,
        osd_safety::COMMANDS,
        osd_mapping::COMMANDS,
        blocklist::COMMANDS,
        pools::COMMANDS,
        pool_create::COMMANDS,
        pool_settings::COMMANDS,
        pool_quota::COMMANDS,
        pool_application::COMMANDS,
        crush::COMMANDS,
        crush_edit::COMMANDS,
        crush_classes::COMMANDS,
        crush_rules::COMMANDS,
        erasure_code::COMMANDS,
        pg::COMMANDS,
        scrub::COMMANDS,
        recovery::COMMANDS,
        tiers::COMMANDS,
        mgr::COMMANDS,
        services::COMMANDS,
        mgr_modules::COMMANDS,
        crash::COMMANDS,
        balancer::COMMANDS,
        autoscale::COMMANDS,
        progress::COMMANDS,
        image_perf::COMMANDS,
        image_schedules::COMMANDS,
        image_schedules::MIRROR_COMMANDS,
        image_schedules::TRASH_COMMANDS,
        image_tasks::COMMANDS,
        file_system::COMMANDS,
        misc::COMMANDS,
    ])
}

/// The commands to one running monitor (`ceph tell mon.X`, `ceph daemon`).
pub fn daemon_registry() -> Registry {
    Registry::new(&[&daemon::commands()])
}

/// Resolves the argument that names a pool; `ENOENT` if there is none of that name.
fn pool_named(context: &Context<'_>, argument: &str) -> Result<PoolId, Refusal> {
    let name = context.arguments.text(argument);
    let id = context.state.osdmap.pool_id(name);
    id.ok_or_else(|| Refusal::missing(format!("unrecognized pool '{name}'")))
}

/// Resolves the argument that lists pools; `ENOENT` if one of them does not exist.
fn pools_listed(context: &Context<'_>, argument: &str) -> Result<Vec<PoolId>, Refusal> {
    let id = |name: &String| {
        let id = context.state.osdmap.pool_id(name);
        id.ok_or_else(|| Refusal::missing(format!("unrecognized pool '{name}'")))
    };
    context.arguments.list(argument).iter().map(id).collect()
}

/// Parses a list of OSDs: `3`, `osd.3`, and `all` or `any` for the result of `or_all`.
fn osds_listed(
    items: &[String],
    or_all: impl FnOnce() -> Vec<OsdId>,
) -> Result<Vec<OsdId>, Refusal> {
    if items.iter().any(|item| matches!(item.as_str(), "all" | "any" | "*")) {
        return Ok(or_all());
    }
    let parse = |item: &String| {
        let digits = item.strip_prefix("osd.").unwrap_or(item);
        let number: Option<i32> = digits.parse().ok().filter(|number| *number >= 0);
        number.map(OsdId).ok_or_else(|| {
            Refusal::invalid(format!("unable to parse osd id \"{item}\", expected osd.3 or 3"))
        })
    };
    items.iter().map(parse).collect()
}

/// Counts daemons by the value of a metadata property.
fn count_values<'a>(values: impl Iterator<Item = &'a str>) -> Value {
    let mut counts = Map::new();
    for value in values {
        let count = counts.get(value).and_then(Value::as_u64).unwrap_or(0);
        counts.insert(value.to_owned(), json!(count + 1));
    }
    Value::Object(counts)
}
