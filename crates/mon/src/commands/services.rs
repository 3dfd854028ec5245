//! `service`: daemons outside of the cluster that have registered themselves.

use crate::command::{Answer, Command, Context, Refusal, command};
use crate::service_map::{Registered, ServiceMap};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub const COMMANDS: &[Command] = &[
    command("service dump", "dump service map", "service", "r", |context| {
        Ok(context.json(&dump(context.live.daemons)))
    }),
    command("service status", "dump service state", "service", "r", status),
];

type Daemons<'a> = BTreeMap<&'a str, &'a Registered>;

/// The map as in `service dump` and `status`.
pub fn dump(map: &ServiceMap) -> Value {
    let services = map.services().into_iter().map(|(service, daemons)| {
        let named = daemons.into_iter().map(|(name, daemon)| {
            let value = json!({
                "start_epoch": daemon.start_epoch,
                "start_stamp": daemon.start_stamp.to_iso(),
                "gid": daemon.registrant.global_id,
                "addr": daemon.registrant.addr,
                "metadata": daemon.metadata,
                "task_status": daemon.tasks,
            });
            (name.to_owned(), value)
        });
        let summary = std::iter::once(("summary".to_owned(), json!("")));
        let daemons: Map<String, Value> = summary.chain(named).collect();
        (service.to_owned(), json!({ "daemons": daemons }))
    });
    let services: Map<String, Value> = services.collect();
    json!({ "epoch": map.epoch(), "modified": map.modified().to_iso(), "services": services })
}

fn status(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let of_daemon = |daemon: &Registered| {
        json!({
            "status_stamp": daemon.status_stamp.map_or("0.000000".to_owned(), |stamp| stamp.to_iso()),
            "last_beacon": daemon.last_beacon.wall().to_iso(),
            "status": daemon.status,
        })
    };
    let services = context.live.daemons.services().into_iter().map(|(service, daemons)| {
        let daemons =
            daemons.into_iter().map(|(name, daemon)| (name.to_owned(), of_daemon(daemon)));
        (service.to_owned(), Value::Object(daemons.collect()))
    });
    let services: Map<String, Value> = services.collect();
    Ok(context.json(&Value::Object(services)))
}

/// The versions of the daemons, by service.
pub fn versions(map: &ServiceMap) -> Vec<(&str, Vec<&str>)> {
    let mut versions = Vec::new();
    for (service, daemons) in map.services() {
        let said = daemons.into_values().map(|daemon| daemon.metadata.get("ceph_version"));
        versions.push((service, said.map(|said| said.map_or("unknown", String::as_str)).collect()));
    }
    versions
}

/// The width to which `status` pads the names of services.
pub fn width(map: &ServiceMap) -> usize {
    map.services().keys().map(|service| service.len()).max().unwrap_or(0).max("mon".len())
}

/// A line of `status` for each service.
pub fn plain(map: &ServiceMap) -> String {
    let width = width(map) + 1;
    let line = |(service, daemons): (&str, Daemons<'_>)| {
        let label = format!("{service}:");
        format!("    {label:<width$} {}\n", summary(&daemons))
    };
    map.services().into_iter().map(line).collect()
}

/// `3 gateways active (2 hosts, 1 zones)`
fn summary(daemons: &Daemons<'_>) -> String {
    let count = |field: &str| {
        let values = daemons.values().filter_map(|daemon| daemon.metadata.get(field));
        values.collect::<BTreeSet<_>>().len()
    };
    let kind = daemons.values().filter_map(|daemon| daemon.metadata.get("daemon_type")).next_back();
    let kind = kind.map_or("daemon", String::as_str);
    let plural = if daemons.len() > 1 { "s" } else { "" };
    let groups = [("hosts", count("hostname")), ("zones", count("zone_id"))];
    let groups = groups.iter().filter(|(_, count)| *count > 0);
    let groups: Vec<String> = groups.map(|(name, count)| format!("{count} {name}")).collect();
    let groups = match groups.is_empty() {
        true => String::new(),
        false => format!(" ({})", groups.join(", ")),
    };
    format!("{} {kind}{plural} active{groups}", daemons.len())
}

/// Tasks in progress of daemons, by kind, for `status`.
pub fn tasks_plain(map: &ServiceMap) -> String {
    let mut text = String::new();
    for (service, daemons) in map.services() {
        let mut tasks = BTreeMap::<&String, Vec<String>>::new();
        for (name, daemon) in daemons {
            for (task, state) in &daemon.tasks {
                tasks.entry(task).or_default().push(format!("        {service}.{name}: {state}\n"));
            }
        }
        text.extend(
            tasks.into_iter().map(|(task, lines)| format!("    {task}:\n{}", lines.concat())),
        );
    }
    if text.is_empty() { text } else { format!(" \n  task status:\n{text}") }
}
