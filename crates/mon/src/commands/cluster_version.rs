//! `cluster`: the cluster version, which an administrator raises when all daemons are of a new release.

use crate::cluster_version::{Daemon, daemons, next};
use crate::command::{Answer, Command, Context, Refusal, command};
use crate::keys;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use types::{ClusterVersion, Errno};

/// Daemons that a refusal names.
const NAMED_MAX: usize = 8;

pub const COMMANDS: &[Command] = &[
    command(
        "cluster version",
        "show the cluster version, and which ones daemons serve",
        "mon",
        "r",
        version,
    ),
    command(
        "cluster finalize",
        "raise the cluster version to that of a new release: older daemons may not join any more",
        "mon",
        "rw",
        finalize,
    ),
];

fn version(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let state = context.state;
    let mut served: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for daemon in daemons(state) {
        let versions = daemon.served.map_or("unknown".to_owned(), |served| served.to_string());
        served.entry(versions).or_default().push(daemon.name);
    }
    let next = next(state).ok();
    let json = || -> Value {
        json!({
            "cluster_version": state.members.cluster_version.0,
            "next": next.map(|version| version.0),
            "daemons": served,
        })
    };
    let plain = || {
        let mut lines = vec![format!("cluster version {}", state.members.cluster_version)];
        let daemons = served.iter().map(|(versions, names)| {
            format!("{} serve {versions}: {}", names.len(), listed(names.iter().cloned()))
        });
        lines.extend(daemons);
        if let Some(next) = next {
            lines.push(format!("'sepiola cluster finalize' raises it to {next}"));
        }
        lines.join("\n") + "\n"
    };
    Ok(context.show(json, plain))
}

fn finalize(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let state = context.state;
    match next(state) {
        Ok(next) => raise(context, next),
        Err(_)
            if daemons(state)
                .iter()
                .all(|daemon| is_newest(state.members.cluster_version, daemon)) =>
        {
            let version = state.members.cluster_version;
            Ok(Answer::said(format!(
                "cluster version {version} is the newest that all daemons serve"
            )))
        }
        Err(others) => {
            Err(Refusal::new(Errno::PERM, blocked(state.members.cluster_version, &others)))
        }
    }
}

/// Daemons that boot meanwhile read the version of before: the maps that list them change with it, so that
/// one of the two changes is decided again.
fn raise(context: &mut Context<'_>, next: ClusterVersion) -> Result<Answer, Refusal> {
    context.change.put(keys::CLUSTER_VERSION, next.to_string());
    context.change.osdmap(context.state);
    context.change.fsmap(context.state);
    let text = format!("the cluster is finalized: its version is {next}");
    context.change.note(1, text.clone());
    Ok(Answer::said(text))
}

fn is_newest(version: ClusterVersion, daemon: &Daemon) -> bool {
    daemon.served.is_some_and(|served| served.newest <= version)
}

fn blocked(version: ClusterVersion, others: &[Daemon]) -> String {
    let describe = |daemon: &Daemon| match daemon.served {
        Some(served) => format!("{} (serves {served})", daemon.name),
        None => format!("{} (does not run)", daemon.name),
    };
    format!(
        "{} of the daemons do not serve cluster version {}: {}; install the new release there and restart them, or \
         remove those that are gone",
        others.len(),
        version.next(),
        listed(others.iter().map(describe))
    )
}

fn listed(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = names.len().saturating_sub(NAMED_MAX);
    let shown: Vec<String> = names.take(NAMED_MAX).collect();
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    shown.join(", ") + &rest
}
