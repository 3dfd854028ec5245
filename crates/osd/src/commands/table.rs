//! The commands of an OSD and of its groups, with their arguments and help.

use super::groups;
use serde_json::{Value, json};
use wire::options::RUNNING_COMMANDS;
pub(crate) use wire::tell::prefix_of;
use wire::tell::{argument, described, description, numbered};

/// Signature and help of each command, besides those of options and groups.
pub(crate) const COMMANDS: &[(&str, &str)] = &[
    ("get_command_descriptions", "list available commands"),
    ("version", "report version of OSD"),
    ("git_version", "get git sha1"),
    ("status", "high-level status of OSD"),
    (
        "perf dump name=logger,type=CephString,req=false name=counter,type=CephString,req=false",
        "dump non-labeled counters and their values",
    ),
    ("perf schema", "dump non-labeled counters schemas"),
    (
        "perf histogram dump name=logger,type=CephString,req=false \
         name=counter,type=CephString,req=false",
        "dump perf histogram values",
    ),
    ("perf histogram schema", "dump perf histogram schema"),
    (
        "perf reset name=var,type=CephString",
        "perf reset <name>: perf reset all or one perfcounter name",
    ),
    ("ops name=filterstr,type=CephString,n=N,req=false", "show the ops currently in flight"),
    (
        "dump_ops_in_flight name=filterstr,type=CephString,n=N,req=false",
        "show the ops currently in flight",
    ),
    (
        "dump_blocked_ops name=filterstr,type=CephString,n=N,req=false",
        "show the blocked ops currently in flight",
    ),
    ("dump_historic_ops name=filterstr,type=CephString,n=N,req=false", "show recent ops"),
    (
        "dump_historic_ops_by_duration name=filterstr,type=CephString,n=N,req=false",
        "show slowest recent ops, sorted by duration",
    ),
    (
        "dump_historic_slow_ops name=filterstr,type=CephString,n=N,req=false",
        "show slowest recent ops",
    ),
    ("dump_watchers", "show clients which have active watches, and on which objects"),
    ("dump_blocklist", "dump blocklisted clients and times"),
    ("dump_pg_recovery_stats", "dump pg recovery statistics"),
    ("reset_pg_recovery_stats", "reset pg recovery statistics"),
    ("dump_recovery_reservations", "show recovery reservations"),
    ("dump_scrub_reservations", "show scrub reservations"),
    ("dump_scrubs", "print scheduled scrubs"),
    ("dump_osd_network name=value,type=CephInt,req=false", "Dump osd heartbeat network ping times"),
    ("dump_mempools", "get mempool stats"),
    ("dump_pgstate_history", "show recent state history"),
    ("get_latest_osdmap", "force osd to update the latest map from the mon"),
    ("get_mapped_pools", "dump pools whose PG(s) are mapped to this OSD."),
    ("flush_pg_stats", "flush pg stats"),
    (
        "bench name=count,type=CephInt,req=false name=size,type=CephInt,req=false",
        "OSD benchmark: write <count> <size>-byte objects(with <obj_size> <obj_num>), \
         (default count=1G default size=4MB). Results in log.",
    ),
    ("cache status", "Get OSD caches statistics"),
    ("cache drop", "Drop all OSD caches"),
    ("compact", "Commpact object store's omap. WARNING: Compaction probably slows your requests"),
    ("log flush", "flush log entries to log file"),
    ("log dump", "dump recent log entries to log file"),
    ("log reopen", "reopen log file"),
    (
        "heap name=heapcmd,type=CephChoices,strings=dump|start_profiler|stop_profiler|release|\
         get_release_rate|set_release_rate|stats name=value,type=CephString,req=false",
        "show heap usage info",
    ),
    (
        "injectfull name=type,type=CephString,req=false name=count,type=CephInt,req=false",
        "Inject a full disk (optional count times)",
    ),
    ("list_devices", "list OSD devices."),
    (
        "cluster_log name=level,type=CephChoices,strings=error|warning|info|debug \
         name=message,type=CephString,n=N",
        "log a message to the cluster log",
    ),
    ("scrub_purged_snaps", "Scrub purged_snaps vs snapmapper index"),
    (
        "debug kick_recovery_wq name=delay,type=CephInt,range=0",
        "set osd_recovery_delay_start to <val>",
    ),
    ("help", "list available commands"),
];

/// Signature and help of all commands that are not for one group.
fn own_commands() -> impl Iterator<Item = (&'static str, &'static str)> {
    COMMANDS.iter().chain(&RUNNING_COMMANDS).copied()
}

pub(super) fn help() -> Value {
    let own = own_commands().map(|(signature, help)| (prefix_of(signature), json!(help)));
    let of_groups = groups::COMMANDS.iter();
    let of_groups = of_groups.map(|(prefix, _, help)| ((*prefix).to_owned(), json!(help)));
    Value::Object(own.chain(of_groups).collect())
}

/// The command descriptions that `ceph` parses.
pub(super) fn descriptions() -> Value {
    let own = own_commands().map(|(signature, help)| described(signature, help, "osd"));
    let mut descriptions: Vec<Value> = own.collect();
    for (prefix, arguments, help) in groups::COMMANDS {
        let arguments: Vec<Value> = arguments.iter().map(|text| argument(text)).collect();
        let mut new = vec![json!(prefix), argument("name=pgid,type=CephPgid,req=false")];
        new.extend(arguments.iter().cloned());
        descriptions.push(description(new, help, "osd"));
        let choice = format!("name=cmd,type=CephChoices,strings={prefix}");
        let mut old = vec![json!("pg"), argument("name=pgid,type=CephPgid"), argument(&choice)];
        old.extend(arguments);
        descriptions.push(description(old, help, "osd"));
    }
    numbered(descriptions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_name_each_word_of_a_command() {
        let descriptions = descriptions();
        let signatures: Vec<&Value> =
            descriptions.as_object().unwrap().values().map(|command| &command["sig"]).collect();
        assert!(signatures.contains(&&json!(["perf", "schema"])));
        let count = own_commands().count() + 2 * groups::COMMANDS.len();
        assert_eq!(signatures.len(), count);
        let choice = json!({ "name": "cmd", "type": "CephChoices", "strings": "query" });
        assert!(signatures.iter().any(|signature| signature[2] == choice));
        let help = help();
        assert_eq!(
            help["config set"],
            "config set <field> <val> [<val> ...]: set a config variable"
        );
    }
}
