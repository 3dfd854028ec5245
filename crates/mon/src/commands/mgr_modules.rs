//! `mgr module`: modules of Ceph's manager. Their function is part of the monitor, or not supported; commands
//! of tools about them are answered.

use crate::command::{Answer, Command, Context, Refusal, command};
use crate::dump::maps::ALWAYS_ON;
use crate::table::Table;
use serde_json::{Value, json};
use types::Errno;

pub const COMMANDS: &[Command] = &[
    command("mgr module ls", "list active mgr modules", "mgr", "r", list),
    command(
        "mgr module enable name=module,type=CephString name=force,type=CephBool,req=false",
        "enable mgr module",
        "mgr",
        "rw",
        enable,
    ),
    command(
        "mgr module disable name=module,type=CephString",
        "disable mgr module",
        "mgr",
        "rw",
        disable,
    ),
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
    command(
        "device info name=devid,type=CephString",
        "Show information about a device",
        "mgr",
        "r",
        device,
    ),
    command("telemetry status", "Show current configuration", "mgr", "r", telemetry),
    command("insights", "Retrieve insights report", "mgr", "r", |_| {
        let text = "Module 'insights' is not enabled (required by command 'insights'): this manager has \
                    no such module; 'ceph status', 'ceph report' and 'ceph crash ls' have its contents";
        Err(Refusal::new(Errno::NOTSUPP, text))
    }),
    command("orch status", "Report configured backend and its status", "mgr", "r", no_orchestrator),
    command("orch ls", "List services known to orchestrator", "mgr", "r", no_orchestrator),
    command("orch ps", "List daemons known to orchestrator", "mgr", "r", no_orchestrator),
    command("orch host ls", "List hosts", "mgr", "r", no_orchestrator),
    command("orch device ls", "List devices on a host", "mgr", "r", no_orchestrator),
];

fn list(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let json =
        || json!({ "always_on_modules": ALWAYS_ON, "enabled_modules": [], "disabled_modules": [] });
    let plain = || {
        let mut table = Table::new(&["MODULE", ""]);
        for module in ALWAYS_ON {
            table.row([module.to_owned(), "on (always on)".to_owned()]);
        }
        table.to_string()
    };
    Ok(context.show(json, plain))
}

fn enable(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let module = context.arguments.text("module");
    if ALWAYS_ON.contains(&module) {
        return Ok(Answer::said(format!("module '{module}' is already enabled (always-on)")));
    }
    let text = format!(
        "module '{module}' is not available: this manager has no other modules than those that are always on"
    );
    Err(Refusal::missing(text))
}

fn disable(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let module = context.arguments.text("module");
    if ALWAYS_ON.contains(&module) {
        return Err(Refusal::invalid(format!("module '{module}' cannot be disabled (always-on)")));
    }
    Ok(Answer::said(format!("module '{module}' is already disabled")))
}

fn devices(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let columns = ["DEVICE", "HOST:DEV", "DAEMONS", "WEAR", "LIFE EXPECTANCY"];
    Ok(context.show(|| json!([]), || Table::new(&columns).to_string()))
}

fn device(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let device = context.arguments.text("devid");
    Err(Refusal::missing(format!(
        "device {device} not found: the health of devices is not followed"
    )))
}

/// Telemetry is never sent.
fn telemetry(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    Ok(context.json(&json!({
        "channel_basic": false,
        "channel_crash": false,
        "channel_device": false,
        "channel_ident": false,
        "channel_perf": false,
        "contact": Value::Null,
        "description": Value::Null,
        "device_url": "",
        "enabled": false,
        "interval": 24,
        "last_opt_revision": 1,
        "last_upload": Value::Null,
        "leaderboard": false,
        "leaderboard_description": Value::Null,
        "log_level": "",
        "log_to_cluster": false,
        "log_to_cluster_level": "info",
        "log_to_file": false,
        "organization": Value::Null,
        "proxy": Value::Null,
        "sqlite3_killpoint": 0,
        "url": "",
    })))
}

fn no_orchestrator(_: &mut Context<'_>) -> Result<Answer, Refusal> {
    let text = "No orchestrator configured: daemons are started by the sepiola command, not by the cluster";
    Err(Refusal::missing(text))
}
