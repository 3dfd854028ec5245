//! What Ceph's manager and its modules answer. There is one manager, this process, without modules.

use super::mon::own_metadata;
use crate::command::{Answer, Command, Context, Refusal, command};
use crate::dump::maps::mgrmap;
use crate::table::Table;
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
    command("mgr module ls", "list active mgr modules", "mgr", "r", modules),
    command(
        "mgr module enable name=module,type=CephString name=force,type=CephBool,req=false",
        "enable mgr module",
        "mgr",
        "rw",
        no_module,
    ),
    command(
        "mgr module disable name=module,type=CephString",
        "disable mgr module",
        "mgr",
        "rw",
        no_module,
    ),
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
    command("service dump", "dump service map", "service", "r", service_dump),
    command("service status", "dump service state", "service", "r", |context| {
        Ok(context.json(&json!({})))
    }),
    command("device ls", "Show devices", "mgr", "r", devices),
    command(
        "device ls-by-daemon name=who,type=CephString",
        "Show devices associated with a daemon",
        "mgr",
        "r",
        devices,
    ),
    command(
        "device ls-by-host name=host,type=CephString",
        "Show devices on a host",
        "mgr",
        "r",
        devices,
    ),
    command("crash ls", "Show new and archived crash dumps", "mgr", "r", crashes),
    command("crash ls-new", "Show new crash dumps", "mgr", "r", crashes),
    command("crash stat", "Summarize recorded crashes", "mgr", "r", |context| {
        Ok(context.show(|| json!({}), || "0 crashes recorded\n".to_owned()))
    }),
    command("telemetry status", "Show current configuration", "mgr", "r", |context| {
        Ok(context.json(&json!({ "enabled": false })))
    }),
    command("orch status", "Report configured backend and its status", "mgr", "r", no_orchestrator),
    command("orch ls", "List services known to orchestrator", "mgr", "r", no_orchestrator),
    command("orch ps", "List daemons known to orchestrator", "mgr", "r", no_orchestrator),
    command("orch host ls", "List hosts", "mgr", "r", no_orchestrator),
    command("orch device ls", "List devices on a host", "mgr", "r", no_orchestrator),
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

fn modules(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let json = || json!({ "always_on_modules": [], "enabled_modules": [], "disabled_modules": [] });
    Ok(context.show(json, || "MODULE\n".to_owned()))
}

fn no_module(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let module = context.arguments.text("module");
    let text = format!("module '{module}' is not available: this manager has no modules");
    Err(Refusal::missing(text))
}

fn metadata(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.mgrmap;
    let own = own_metadata(context, &map.active_name, map.active_addrs.to_string());
    match context.arguments.optional("who") {
        None => Ok(context.json(&json!([own]))),
        Some(who) if who == map.active_name => Ok(context.json(&own)),
        Some(who) => Err(Refusal::missing(format!("mgr.{who} does not exist"))),
    }
}

fn count_metadata(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let map = &context.state.mgrmap;
    let own = own_metadata(context, &map.active_name, map.active_addrs.to_string());
    let value = own[context.arguments.text("property")].as_str().unwrap_or("unknown");
    Ok(context.json(&json!({ value: 1 })))
}

fn versions(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    Ok(context.json(&json!({ crate::VERSION: 1 })))
}

fn fail(_: &mut Context<'_>) -> Result<Answer, Refusal> {
    let text = "there is no standby manager to fail over to: the monitor's process is the manager";
    Err(Refusal::new(Errno::NOTSUPP, text))
}

fn service_dump(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let modified = context.state.mgrmap.active_change.to_iso();
    Ok(context.json(&json!({ "epoch": 1, "modified": modified, "services": {} })))
}

fn devices(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let columns = ["DEVICE", "HOST:DEV", "DAEMONS", "WEAR", "LIFE EXPECTANCY"];
    Ok(context.show(|| json!([]), || Table::new(&columns).to_string()))
}

fn crashes(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    Ok(context.show(|| json!([]), String::new))
}

fn no_orchestrator(_: &mut Context<'_>) -> Result<Answer, Refusal> {
    let text = "No orchestrator configured: daemons are started by the sepiola command, not by the cluster";
    Err(Refusal::missing(text))
}
