//! The commands of a metadata server, with their arguments and help, and those that it refuses.

use serde_json::{Value, json};
use types::Errno;
use wire::options::RUNNING_COMMANDS;
use wire::tell::{Sentence, described, numbered, prefix_of};

/// Signature and help of each command, besides those of options.
const COMMANDS: &[(&str, &str)] = &[
    ("get_command_descriptions", "list available commands"),
    ("help", "list available commands"),
    ("version", "report version of the metadata server"),
    ("git_version", "get git sha1"),
    ("status", "high-level status of MDS"),
    (
        "session ls name=cap_dump,type=CephBool,req=false name=filters,type=CephString,n=N,req=false",
        "List client sessions based on a filter",
    ),
    (
        "client ls name=cap_dump,type=CephBool,req=false name=filters,type=CephString,n=N,req=false",
        "List client sessions based on a filter",
    ),
    (
        "session evict name=filters,type=CephString,n=N,req=false",
        "Evict client session(s) based on a filter",
    ),
    (
        "client evict name=filters,type=CephString,n=N,req=false",
        "Evict client session(s) based on a filter",
    ),
    ("session kill name=client_id,type=CephString", "Evict a client session by id"),
    ("ops", "show the ops currently in flight"),
    ("dump_ops_in_flight", "show the ops currently in flight"),
    ("dump_blocked_ops", "show the blocked ops currently in flight"),
    ("cache status", "show cache status"),
    ("dump inode name=number,type=CephInt", "dump inode by inode number"),
    ("flush journal", "Flush the journal to the backing store"),
    ("damage ls", "List detected metadata damage"),
    ("damage rm name=damage_id,type=CephInt", "Forget detected damage"),
    (
        "scrub start name=path,type=CephString name=scrubops,type=CephChoices,strings=force|recursive|repair,n=N,req=false name=tag,type=CephString,req=false",
        "Compare stored rows with what is served",
    ),
    ("scrub status", "Status of the scrub"),
    ("scrub abort", "End the scrub"),
    ("scrub pause", "Pause the scrub"),
    ("scrub resume", "Resume the scrub"),
    (
        "perf dump name=logger,type=CephString,req=false name=counter,type=CephString,req=false",
        "dump non-labeled counters and their values",
    ),
];

/// Commands of Ceph's metadata server that this one does not have, by their first words, and why.
const REFUSED: &[(&str, &str)] = &[
    ("heap", "the allocator has no profiler"),
    ("cache drop", "all inodes are in memory, there is no cache that could be emptied"),
    ("dump cache", "all inodes are in memory; see 'dump inode'"),
    ("dump tree", "all inodes are in memory; see 'dump inode'"),
    ("dump_historic", "finished requests are not kept; see 'ops'"),
    ("dump loads", "one rank serves all, so no load is measured"),
    ("dump snaps", "there are no snapshots"),
    ("export dir", "one rank serves all directories"),
    ("get subtrees", "one rank serves all directories"),
    ("dirfrag", "directories are not split into fragments"),
    ("flush_path", "single inodes are not flushed; use 'flush journal'"),
    ("force_readonly", "a rank cannot be made read-only; use 'ceph fs fail' to stop it"),
    ("osdmap barrier", "the server takes maps by itself"),
    ("perf reset", "counters begin with the server"),
    ("perf schema", "counters have no schema; see 'perf dump'"),
    ("perf histogram", "there are no histograms"),
    ("session config", "sessions have no options"),
    ("respawn", "restart its service instead, or use 'ceph mds fail'"),
    ("exit", "stop its service instead, or use 'ceph mds fail'"),
];

fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    COMMANDS.iter().chain(&RUNNING_COMMANDS).copied()
}

/// The answer to `help`.
pub(crate) fn help() -> Value {
    Value::Object(all().map(|(signature, help)| (prefix_of(signature), json!(help))).collect())
}

/// The command descriptions that `ceph` parses. Those that are refused are described, too, so that they reach
/// the server, which says why.
pub(crate) fn descriptions() -> Value {
    let own = all().map(|(signature, help)| described(signature, help, "mds"));
    let refused = REFUSED.iter().map(|(prefix, why)| {
        let signature = format!("{prefix} name=arguments,type=CephString,n=N,req=false");
        described(&signature, &format!("not available: {why}"), "mds")
    });
    numbered(own.chain(refused))
}

/// Whether a metadata server has a command.
pub(crate) fn has(prefix: &str) -> bool {
    all().any(|(signature, _)| prefix_of(signature) == prefix)
}

/// The refusal of a command that metadata servers do not have.
pub(crate) fn refusal(name: &str, prefix: &str) -> Sentence {
    let found = REFUSED.iter().find(|(words, _)| prefix.starts_with(words));
    match found {
        Some((_, why)) => {
            let text = format!("mds.{name} does not serve '{prefix}': {why}");
            Sentence::new(Errno::NOTSUPP, text)
        }
        None => {
            let text =
                format!("mds.{name} has no command {prefix:?}; see `ceph tell mds.{name} help`");
            Sentence::new(Errno::INVAL, text)
        }
    }
}
