//! `fs subvolume snapshot`.

use crate::attributes::{self, DataPlace};
use crate::catalog::{Subvolume, Subvolumes};
use crate::clones;
use crate::failure::{During, Failure};
use crate::listing::{existing, own_names};
use crate::metadata::snapshot_section;
use crate::order::{Outcome, Printed, unknown};
use crate::users;
use serde_json::{Value, json};
use types::Errno;

/// Snapshots of a subvolume: Ceph's servers allow 100 of a directory.
const SNAPSHOTS_MAX: usize = 100;

pub(crate) async fn run(all: &Subvolumes<'_>, action: &str) -> Outcome {
    let action = action.strip_prefix("snapshot ").unwrap_or_default();
    let mut subvolume = all.named().await?;
    if action == "create" {
        return create(all, &subvolume).await;
    }
    if subvolume.is_being_cloned() {
        subvolume.must_be_complete(&format!("snapshot-{action}"))?;
    }
    let name = all.order().text("snap_name");
    match action {
        "ls" => {
            let names = own_names(all.tree(), &subvolume.snapshot_directory()).await?;
            let names: Vec<Value> = names.into_iter().map(|name| json!({ "name": name })).collect();
            Ok(Printed::json(&json!(names)))
        }
        "rm" => remove(all, &mut subvolume).await,
        "info" => info(all, &subvolume).await,
        "getpath" => path(all, &subvolume).await,
        "clone" => clones::begin(all, &mut subvolume).await,
        // Snapshots that are being cloned are protected without these commands.
        "protect" | "unprotect" => {
            existing(all.tree(), &subvolume.snapshot_directory(), name).await?;
            Ok(Printed::none())
        }
        _ => match action.strip_prefix("metadata ") {
            Some(action) => {
                existing(all.tree(), &subvolume.snapshot_directory(), name).await?;
                users::run_of_snapshot(all, &mut subvolume, name, action).await
            }
            None => Err(unknown(all.order())),
        },
    }
}

async fn create(all: &Subvolumes<'_>, subvolume: &Subvolume) -> Outcome {
    subvolume.must_be_complete("snapshot-create")?;
    let (name, directory) = (all.order().text("snap_name"), subvolume.snapshot_directory());
    if name.starts_with(['_', '.']) {
        let text = format!("invalid snapshot name '{name}': it may not begin with '_' or '.'");
        return Err(Failure::invalid(text));
    }
    let known = own_names(all.tree(), &directory).await?;
    if known.iter().any(|known| known == name) {
        return Ok(Printed::none());
    }
    if known.len() >= SNAPSHOTS_MAX {
        let text = format!(
            "subvolume '{}' has {SNAPSHOTS_MAX} snapshots; remove some first",
            subvolume.name
        );
        return Err(Failure::new(Errno::MLINK, text));
    }
    match all.tree().take_snapshot(&directory, name).await {
        Ok(()) | Err(Errno::EXIST) => Ok(Printed::none()),
        Err(errno) => Err(errno).during(|| format!("taking snapshot '{name}' of /{directory}")),
    }
}

async fn remove(all: &Subvolumes<'_>, subvolume: &mut Subvolume) -> Outcome {
    let (name, is_forced) = (all.order().text("snap_name"), all.order().flag("force"));
    match existing(all.tree(), &subvolume.snapshot_directory(), name).await {
        Err(Failure { errno: Errno::NOENT, .. }) if is_forced => return Ok(Printed::none()),
        found => found?,
    };
    if !clones::pending(all.tree(), subvolume, name).await?.is_empty() {
        let text = format!("snapshot '{name}' has pending clones");
        return Err(Failure::new(Errno::AGAIN, text));
    }
    let directory = subvolume.snapshot_directory();
    match all.tree().remove_snapshot(&directory, name).await {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => {
            return Err(errno).during(|| format!("removing snapshot '{name}' of /{directory}"));
        }
    }
    let section = snapshot_section(name);
    if !subvolume.metadata.keys(&section).is_empty() {
        subvolume.metadata.remove_section(&section);
        all.store(subvolume).await?;
    }
    if subvolume.is_retained() && own_names(all.tree(), &directory).await?.is_empty() {
        all.discard(subvolume).await?;
    }
    Ok(Printed::none())
}

/// The path of a subvolume's content in a snapshot, as a client that has mounted the root names it.
async fn path(all: &Subvolumes<'_>, subvolume: &Subvolume) -> Outcome {
    let name = all.order().text("snap_name");
    existing(all.tree(), &subvolume.snapshot_directory(), name).await?;
    let (path, _) = clones::content_at(all, subvolume, name).await?;
    Ok(Printed::text(format!("/{}", path.replace("//", "/.snap/"))))
}

async fn info(all: &Subvolumes<'_>, subvolume: &Subvolume) -> Outcome {
    let name = all.order().text("snap_name");
    let stat = existing(all.tree(), &subvolume.snapshot_directory(), name).await?;
    let (path, content) = clones::content_at(all, subvolume, name).await?;
    let place = DataPlace::of(all.tree(), all.order(), &path, &content).await?;
    let pending = clones::pending(all.tree(), subvolume, name).await?;
    let mut info = json!({
        "created_at": attributes::precise_time(stat.snap_btime),
        "data_pool": place.pool,
        "has_pending_clones": if pending.is_empty() { "no" } else { "yes" },
    });
    if !pending.is_empty() {
        let shown = pending.into_iter().map(|(group, name)| match group.is_empty() {
            true => json!({ "name": name }),
            false => json!({ "name": name, "target_group": group }),
        });
        info["pending_clones"] = json!(shown.collect::<Vec<Value>>());
    }
    Ok(Printed::json(&info))
}
