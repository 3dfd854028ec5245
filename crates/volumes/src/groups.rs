//! `fs subvolumegroup`: directories of subvolumes.

use crate::attributes::{self, DataPlace, Resize};
use crate::catalog::{check_group, group_directory};
use crate::failure::{During, Failure};
use crate::listing::own_names;
use crate::order::{Order, Outcome, Printed, unknown};
use crate::paths;
use crate::tree::{Tree, is_directory};
use serde_json::{Value, json};
use types::Errno;
use wire::InodeStat;

pub(crate) async fn run(tree: &Tree, order: &Order, action: &str) -> Outcome {
    match action {
        "create" => create(tree, order).await,
        "rm" => remove(tree, order).await,
        "ls" => Ok(Printed::json(&json!(listed(tree).await?))),
        "exist" => exist(tree).await,
        "getpath" => {
            let (path, _) = existing(tree, order).await?;
            Ok(Printed::text(format!("/{path}")))
        }
        "info" => info(tree, order).await,
        "resize" => resize(tree, order).await,
        "pin" => {
            let (path, _) = existing(tree, order).await?;
            attributes::pin(tree, order, &path).await
        }
        "snapshot ls" => snapshot_list(tree, order).await,
        "snapshot create" => {
            let text = "subvolume group snapshots are not supported; take one of each subvolume";
            Err(Failure::new(Errno::NOSYS, text))
        }
        "snapshot rm" => snapshot_remove(tree, order).await,
        _ => Err(unknown(order)),
    }
}

async fn existing(tree: &Tree, order: &Order) -> Result<(String, InodeStat), Failure> {
    group_directory(tree, order.text("group_name")).await
}

async fn create(tree: &Tree, order: &Order) -> Outcome {
    let name = order.text("group_name");
    check_group(name)?;
    let wanted = attributes::Wanted::of(order)?;
    let path = paths::group(name);
    let step = || format!("making /{path}");
    tree.mkdirs(paths::PREFIX, 0o755).await.during(step)?;
    let is_new = match tree.mkdir(&path, wanted.mode()).await {
        Ok(_) => true,
        Err(Errno::EXIST) => false,
        Err(errno) => return Err(errno).during(step),
    };
    let applied = wanted.apply(tree, order, &path, is_new).await;
    if is_new && applied.is_err() {
        // The next attempt repeats it all.
        let _ = tree.rmdir(&path).await;
    }
    applied?;
    Ok(Printed::none())
}

async fn remove(tree: &Tree, order: &Order) -> Outcome {
    let name = order.text("group_name");
    let (path, _) = match existing(tree, order).await {
        Err(Failure { errno: Errno::NOENT, .. }) if order.flag("force") => {
            return Ok(Printed::none());
        }
        found => found?,
    };
    match tree.rmdir(&path).await {
        Err(Errno::NOTEMPTY) => {
            let text =
                format!("subvolume group '{name}' is not empty: remove its subvolumes first");
            Err(Failure::new(Errno::NOTEMPTY, text))
        }
        Err(Errno::NOENT) if order.flag("force") => Ok(Printed::none()),
        removed => removed.during(|| format!("removing /{path}")).map(|()| Printed::none()),
    }
}

async fn names(tree: &Tree) -> Result<Vec<String>, Failure> {
    let entries = match tree.list(paths::PREFIX).await {
        Err(Errno::NOENT) => Vec::new(),
        entries => entries.during(|| "listing groups".to_owned())?,
    };
    let groups = entries.into_iter().filter(|(name, stat)| {
        is_directory(stat) && !paths::INTERNAL.contains(&name.as_str()) && !name.starts_with('.')
    });
    Ok(groups.map(|(name, _)| name).collect())
}

async fn listed(tree: &Tree) -> Result<Vec<Value>, Failure> {
    let mut names = names(tree).await?;
    names.sort();
    Ok(names.into_iter().map(|name| json!({ "name": name })).collect())
}

async fn exist(tree: &Tree) -> Outcome {
    Ok(Printed::text(match names(tree).await?.is_empty() {
        true => "no subvolumegroup exists",
        false => "subvolumegroup exists",
    }))
}

async fn info(tree: &Tree, order: &Order) -> Outcome {
    let (path, stat) = existing(tree, order).await?;
    let place = DataPlace::of(tree, order, &path, &stat).await?;
    Ok(Printed::json(&attributes::info(order, &stat, &place)))
}

async fn resize(tree: &Tree, order: &Order) -> Outcome {
    let (path, stat) = existing(tree, order).await?;
    let resize = Resize::of(order)?;
    resize.apply(tree, &path, &stat, "subvolume group").await
}

async fn snapshot_list(tree: &Tree, order: &Order) -> Outcome {
    let (path, _) = existing(tree, order).await?;
    let names = own_names(tree, &path).await?;
    let names: Vec<Value> = names.into_iter().map(|name| json!({ "name": name })).collect();
    Ok(Printed::json(&json!(names)))
}

async fn snapshot_remove(tree: &Tree, order: &Order) -> Outcome {
    let (path, _) = existing(tree, order).await?;
    let name = order.text("snap_name");
    match tree.remove_snapshot(&path, name).await {
        Err(Errno::NOENT) if order.flag("force") => Ok(Printed::none()),
        Err(Errno::NOENT) => Err(Failure::missing(format!("snapshot '{name}' does not exist"))),
        removed => removed
            .during(|| format!("removing snapshot '{name}' of /{path}"))
            .map(|()| Printed::none()),
    }
}
