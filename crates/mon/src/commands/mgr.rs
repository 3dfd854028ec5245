//! `mgr`: the manager, which is part of the leading monitor.

use super::mon::own_metadata;
use crate::command::{Answer, Command, Context, Refusal, command};
use crate::dump::maps::mgrmap;
use serde_json::json;
use types::Errno;

pub const COMMANDS: &[Command] = &[
    command("mgr stat", "dump basic info about the mgr cluster state", "mgr", "r", stat),
    command(
        "mgr dump name=epoch,type=CephInt,range=0,req=false",
        "dump the latest MgrMap",
        "mgr",
        "r",
        dump,
    ),
    command("mgr services", "list service endpoints provided by mgr modules", "mgr", "r", services),
    command(
        "mgr metadata name=who,type=CephString,req=false",
        "dump metadata for all daemons or a specific daemon",
        "mgr",
        "r",
        metadata,
    ),
    command(
        "mgr count-metadata name=property,type=CephString",
        "count ceph-mgr daemons by metadata field property",
        "mgr",
        "r",
        count_metadata,
    ),
    command("mgr versions", "check running versions of ceph-mgr daemons", "mgr", "r", versions),
    command(
        "mgr fail name=who,type=CephString,req=false",
        "treat the named manager daemon as failed",
        "mgr",
        "rw",
        fail,
    ),
];

fn stat(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.mgrmap;
    Ok(context.json(&json!({
        "epoch": map.epoch.0,
        "available": map.available,
        "active_name": map.active_name,
        "num_standby": 0,
    })))
}

fn dump(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    Ok(context.json(&mgrmap(&context.state.mgrmap)))
}

fn services(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    Ok(context.json(&json!(context.state.mgrmap.services)))
}

fn metadata(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.mgrmap;
    let own = own_metadata(context, &map.active_name, &map.active_addrs);
    match context.arguments.optional("who") {
        None => Ok(context.json(&json!([own]))),
        Some(who) if who == map.active_name => Ok(context.json(&own)),
        Some(who) => Err(Refusal::missing(format!("mgr.{who} does not exist"))),
    }
}

fn count_metadata(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.mgrmap;
    let own = own_metadata(context, &map.active_name, &map.active_addrs);
    let value = own[context.arguments.text("property")].as_str().unwrap_or("unknown");
    Ok(context.json(&json!({ value: 1 })))
}

fn versions(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    Ok(context.json(&json!({ crate::VERSION: 1 })))
}

fn fail(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.mgrmap;
    let who = context.arguments.optional("who").unwrap_or(&map.active_name);
    if who != map.active_name && who.parse() != Ok(map.active_gid) {
        return Ok(Answer::said(format!("Daemon not found '{who}', already failed?")));
    }
    let text = "there is no standby manager to fail over to: the monitor's process is the manager";
    Err(Refusal::new(Errno::NOTSUPP, text))
}
