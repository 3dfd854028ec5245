//! `fs clone` and `fs subvolume snapshot clone`: a subvolume that is copied from a snapshot in the
//! background.
//!
//! A clone is known by the id of its content. Three places name it: its own metadata, a link in the index,
//! which leads to it as long as the copy is not complete, and the metadata of its source, which keeps the
//! snapshot. They are written in this order; a snapshot is kept only for clones that the index has.

use crate::attributes::{self, Wanted};
use crate::catalog::{CANCELED, FAILED, PENDING, Subvolume, Subvolumes};
use crate::failure::{During, Failure};
use crate::listing::existing;
use crate::metadata::{CLONES, FAILURE, SOURCE};
use crate::order::{Order, Outcome, Printed, unknown};
use crate::paths;
use crate::tree::{Attributes, Tree, is_directory};
use serde_json::{Value, json};
use types::Errno;
use wire::InodeStat;

/// Clones that wait or are copied; a further one is refused with EAGAIN.
const CLONES_MAX: usize = 1000;

/// `fs clone`.
pub(crate) async fn run(all: &Subvolumes<'_>, action: &str) -> Outcome {
    let order = all.order();
    let mut clone = all.load(order.text("group_name"), order.text("clone_name")).await?;
    if clone.kind() != "clone" {
        let text = format!(
            "operation 'clone-{action}' is not allowed on subvolume '{}' of type '{}'",
            clone.name,
            clone.kind()
        );
        return Err(Failure::new(Errno::NOTSUPP, text));
    }
    match action {
        "status" => Ok(Printed::json(&status(&clone))),
        "cancel" => cancel(all, &mut clone).await,
        _ => Err(unknown(order)),
    }
}

fn status(clone: &Subvolume) -> Value {
    let mut status = json!({ "state": clone.state() });
    let source = clone.metadata.keys(SOURCE);
    if !source.is_empty() {
        let known = ["volume", "group", "subvolume", "snapshot"];
        let pairs = known.iter().filter_map(|key| Some((*key, *source.get(key)?)));
        status["source"] = json!(pairs.collect::<std::collections::BTreeMap<_, _>>());
    }
    let failure = clone.metadata.keys(FAILURE);
    if [FAILED, CANCELED].contains(&clone.state()) && !failure.is_empty() {
        status["failure"] = json!(failure);
    }
    json!({ "status": status })
}

async fn cancel(all: &Subvolumes<'_>, clone: &mut Subvolume) -> Outcome {
    if !clone.is_being_cloned() {
        let text = "cannot cancel -- clone finished (check clone status)";
        return Err(Failure::invalid(text));
    }
    clone.set_state(CANCELED);
    clone.metadata.set(FAILURE, "errno", Errno::INTR.0.to_string());
    clone.metadata.set(FAILURE, "error_msg", "user interrupted clone operation");
    all.store(clone).await?;
    unlist(all, clone).await?;
    Ok(Printed::none())
}

/// The content of a subvolume as a snapshot shows it: its path, and its attributes.
pub(crate) async fn content_at(
    all: &Subvolumes<'_>,
    subvolume: &Subvolume,
    snapshot: &str,
) -> Result<(String, InodeStat), Failure> {
    let snapshots = subvolume.snapshot_directory();
    let directory = format!("{snapshots}//{snapshot}");
    let step = || format!("looking at snapshot '{snapshot}' of /{snapshots}");
    if snapshots == subvolume.content() {
        return Ok((directory.clone(), all.tree().stat(&directory).await.during(step)?));
    }
    let none = || {
        Failure::missing(format!("snapshot '{snapshot}' of '{}' has no content", subvolume.name))
    };
    // Other directories may lie beside the content: what another attempt or a user has left.
    let then = all.find_at(subvolume, &directory).await?.ok_or_else(none)?;
    let name = then.content_name();
    if name.is_empty() {
        return Err(none());
    }
    let path = format!("{directory}/{name}");
    match all.tree().find(&path).await.during(step)? {
        Some(stat) if is_directory(&stat) => Ok((path, stat)),
        _ => Err(none()),
    }
}

/// `fs subvolume snapshot clone`: everything but the copy.
pub(crate) async fn begin(all: &Subvolumes<'_>, source: &mut Subvolume) -> Outcome {
    let order = all.order();
    let (snapshot, name) = (order.text("snap_name"), order.text("target_sub_name"));
    let group = order.text("target_group_name");
    order.pool_layout()?;
    existing(all.tree(), &source.snapshot_directory(), snapshot).await?;
    let (_, content) = content_at(all, source, snapshot).await?;
    all.group_for_new(group).await?;
    let clone = match all.find(group, name).await? {
        Some(known) => {
            // An attempt that did not come to its end is brought to it.
            if known.is_being_cloned() && is_of(&known, source, snapshot) {
                list(all, &known, source, snapshot).await?;
            }
            return Err(Failure::new(Errno::EXIST, format!("subvolume '{name}' exists")));
        }
        None => {
            let pending = all.tree().list(paths::CLONES).await.unwrap_or_default().len();
            if pending >= CLONES_MAX {
                let text = format!("{CLONES_MAX} clones are pending already; repeat it later");
                return Err(Failure::new(Errno::AGAIN, text));
            }
            make(all, source, snapshot, &content).await?
        }
    };
    list(all, &clone, source, snapshot).await?;
    Ok(Printed::none())
}

fn is_of(clone: &Subvolume, source: &Subvolume, snapshot: &str) -> bool {
    let is = |key: &str, value: &str| clone.metadata.get(SOURCE, key).unwrap_or_default() == value;
    is("group", &source.group) && is("subvolume", &source.name) && is("snapshot", snapshot)
}

/// Makes the clone without content, with the attributes that the copy will have.
async fn make(
    all: &Subvolumes<'_>,
    source: &Subvolume,
    snapshot: &str,
    content: &InodeStat,
) -> Result<Subvolume, Failure> {
    let order: &Order = all.order();
    let (group, name) = (order.text("target_group_name"), order.text("target_sub_name"));
    let mut clone = Subvolume::new(group, name)?;
    let path = all.make_content(&clone, 0o755).await?;
    match order.pool_layout()? {
        Some(_) => Wanted::of(order)?.apply(all.tree(), order, &path, false).await?,
        None => attributes::copy_layout(all.tree(), order, content, &path).await?,
    }
    if content.quota.max_bytes > 0 {
        attributes::set_quota(all.tree(), &path, content.quota.max_bytes).await?;
    }
    let owner = Some((content.uid, content.gid));
    let set = Attributes { mode: Some(content.mode & 0o7777), owner, times: None };
    all.tree().set(&path, set).await.during(|| format!("setting the owner of /{path}"))?;
    all.describe(&mut clone, "clone", &path, PENDING);
    clone.metadata.set(SOURCE, "volume", order.volume.name.clone());
    if !source.group.is_empty() {
        clone.metadata.set(SOURCE, "group", source.group.clone());
    }
    clone.metadata.set(SOURCE, "subvolume", source.name.clone());
    clone.metadata.set(SOURCE, "snapshot", snapshot);
    all.store(&clone).await?;
    Ok(clone)
}

/// Puts a clone into the index and into its source's metadata.
async fn list(
    all: &Subvolumes<'_>,
    clone: &Subvolume,
    source: &Subvolume,
    snapshot: &str,
) -> Result<(), Failure> {
    let step = || format!("listing clone '{}'", clone.name);
    let id = clone.content_name();
    all.tree().mkdirs(paths::CLONES, 0o755).await.during(step)?;
    let target = format!("/{}", clone.directory());
    match all.tree().symlink(format!("{}/{id}", paths::CLONES), target.as_bytes()).await {
        Ok(_) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno).during(step),
    }
    let mut source = source.clone();
    source.metadata.set(CLONES, id, snapshot);
    all.store(&source).await
}

/// Takes a clone out of the index and out of its source's metadata.
pub(crate) async fn unlist(all: &Subvolumes<'_>, clone: &Subvolume) -> Result<(), Failure> {
    let id = clone.content_name();
    match all.tree().unlink(format!("{}/{id}", paths::CLONES)).await {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno).during(|| format!("unlisting clone '{}'", clone.name)),
    }
    if let Some(mut source) = source_of(all, clone).await?
        && source.metadata.remove(CLONES, id)
    {
        all.store(&source).await?;
    }
    Ok(())
}

/// The subvolume that a clone is copied from, if it is there.
pub(crate) async fn source_of(
    all: &Subvolumes<'_>,
    clone: &Subvolume,
) -> Result<Option<Subvolume>, Failure> {
    let of_source = |key: &str| clone.metadata.get(SOURCE, key).unwrap_or_default();
    all.find(of_source("group"), of_source("subvolume")).await
}

/// Clones that are copied from a snapshot, or wait for that: groups and names.
pub(crate) async fn pending(
    tree: &Tree,
    source: &Subvolume,
    snapshot: &str,
) -> Result<Vec<(String, String)>, Failure> {
    let tracked = source.metadata.keys(CLONES);
    let mut clones = Vec::new();
    for (id, _) in tracked.into_iter().filter(|(_, read)| *read == snapshot) {
        let path = format!("{}/{id}", paths::CLONES);
        let link = tree.find(&path).await.during(|| format!("looking at /{path}"))?;
        let target = link.map(|link| String::from_utf8_lossy(&link.symlink).into_owned());
        clones.extend(target.and_then(|target| paths::parse(&target)));
    }
    Ok(clones)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::Metadata;

    #[test]
    fn the_status_is_that_of_ceph() {
        let text = "[GLOBAL]\nversion = 2\ntype = clone\npath = /volumes/_nogroup/c/id\nstate = failed\n\n[source]\n\
                    volume = v\nsubvolume = s\nsnapshot = x\n\n[CLONE_FAILURE]\nerrno = 122\n\
                    error_msg = Disk quota exceeded\n\n";
        let metadata = Metadata::parse(text).unwrap();
        let mut clone = Subvolume { group: String::new(), name: "c".to_owned(), metadata };
        let expected = json!({ "status": {
            "state": "failed",
            "source": { "volume": "v", "subvolume": "s", "snapshot": "x" },
            "failure": { "errno": "122", "error_msg": "Disk quota exceeded" },
        }});
        assert_eq!(status(&clone), expected);
        clone.metadata.remove_section(SOURCE);
        clone.metadata.remove_section(FAILURE);
        clone.set_state("complete");
        assert_eq!(status(&clone), json!({ "status": { "state": "complete" } }));
    }
}
