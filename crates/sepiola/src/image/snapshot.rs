//! `sepiola image snap`

use super::target::begin;
use crate::cli::{SnapArgs, SnapCommand, SnapListArgs, SnapRenameArgs};
use access::ImageArgs;
use anyhow::{Result, bail};
use rbd::{Purpose, Snapshot};
use serde_json::json;
use std::io::{self, Write};
use stdx::format_bytes;

/// `sepiola image snap …`
pub fn run(command: &SnapCommand) -> Result<()> {
    match command {
        SnapCommand::Create(args) => task(args, rbd::take_snapshot),
        SnapCommand::Ls(args) => list(args),
        SnapCommand::Rm(args) => task(args, rbd::remove_snapshot),
        SnapCommand::Rollback(args) => task(args, rbd::roll_back),
        SnapCommand::Protect(args) => task(args, rbd::protect_snapshot),
        SnapCommand::Unprotect(args) => unprotect(args),
        SnapCommand::Purge(args) => purge(args),
        SnapCommand::Rename(args) => rename(args),
    }
}

/// Runs a task on one snapshot.
fn task(args: &SnapArgs, make: impl FnOnce(rbd::ImageSpec, String) -> rbd::Task<()>) -> Result<()> {
    let (mut client, image) = begin(&args.cluster, &args.snap.image)?;
    client.run(make(image, args.snap.snap.clone()))
}

fn unprotect(args: &SnapArgs) -> Result<()> {
    let (mut client, image) = begin(&args.cluster, &args.snap.image)?;
    let pools = client.pools();
    client.run(rbd::unprotect_snapshot(image, args.snap.snap.clone(), pools))
}

fn purge(args: &ImageArgs) -> Result<()> {
    let (mut client, image) = begin(&args.cluster, &args.image)?;
    let purged = client.run(rbd::purge_snapshots(image))?;
    match purged.protected.is_empty() {
        true => Ok(()),
        false => bail!(
            "{} removed; protected, and so kept: {}",
            purged.removed.len(),
            purged.protected.join(", ")
        ),
    }
}

fn rename(args: &SnapRenameArgs) -> Result<()> {
    let (mut client, image) = begin(&args.snap.cluster, &args.snap.snap.image)?;
    let old = args.snap.snap.snap.clone();
    client.run(rbd::rename_snapshot(image, old, args.new.clone()))
}

fn list(args: &SnapListArgs) -> Result<()> {
    let (mut client, image) = begin(&args.image.cluster, &args.image.image)?;
    let mut all = client.run(rbd::snapshots(image))?;
    if !args.all {
        all.retain(|snapshot| snapshot.purpose == Purpose::User);
    }
    let mut output = io::stdout().lock();
    if args.json {
        writeln!(output, "{}", json!(all.iter().map(as_json).collect::<Vec<_>>()))?;
        return Ok(());
    }
    for snapshot in &all {
        let Snapshot { id, name, size, created, .. } = snapshot;
        let (size, created) = (format_bytes(*size), created.to_iso());
        writeln!(output, "{:>6}  {name:<24} {size:>10}  {created}  {}", id.0, remarks(snapshot))?;
    }
    Ok(())
}

fn remarks(snapshot: &Snapshot) -> String {
    let mut remarks = Vec::new();
    match &snapshot.purpose {
        Purpose::User => {}
        Purpose::Group => remarks.push("of a group".to_owned()),
        Purpose::Mirror => remarks.push("for mirroring".to_owned()),
        Purpose::Trash(name) => remarks.push(format!("removed, was {name}")),
        Purpose::Unknown => remarks.push("of an unknown kind".to_owned()),
    }
    if snapshot.is_protected() {
        remarks.push("protected".to_owned());
    }
    match snapshot.children {
        0 => {}
        1 => remarks.push("1 clone".to_owned()),
        children => remarks.push(format!("{children} clones")),
    }
    remarks.join(", ")
}

/// Member names are those of `rbd snap ls --all --format json`.
fn as_json(snapshot: &Snapshot) -> serde_json::Value {
    let namespace = match &snapshot.purpose {
        Purpose::User => json!({"type": "user"}),
        Purpose::Group => json!({"type": "group"}),
        Purpose::Trash(name) => json!({"type": "trash", "original_name": name}),
        Purpose::Mirror => json!({"type": "mirror"}),
        Purpose::Unknown => json!({"type": "unknown"}),
    };
    json!({
        "id": snapshot.id.0,
        "name": snapshot.name,
        "size": snapshot.size,
        "protected": snapshot.is_protected().to_string(),
        "timestamp": snapshot.created.to_iso(),
        "children": snapshot.children,
        "namespace": namespace,
    })
}
