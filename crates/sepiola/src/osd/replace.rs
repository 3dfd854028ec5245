//! `sepiola osd replace`: new stores under the old ids, in the old places of the CRUSH map.

use super::create::{self, Identity};
use super::registry::Registry;
use crate::cli::{OsdReplaceArgs, OsdStoreArgs};
use crate::daemon_files;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use types::EntityName;

/// `sepiola osd replace`
pub fn replace(args: &OsdReplaceArgs) -> Result<()> {
    let mut registry = Registry::open(&args.cluster)?;
    let ids = match (&args.old_host, args.ids.is_empty()) {
        (Some(host), true) => registry.osds_of_host(host)?,
        (None, false) => args.ids.clone(),
        _ => bail!("name the OSDs by --id, or all of a machine by --old-host"),
    };
    let jobs = jobs(args, &ids)?;
    // Nothing is touched before all of it may be.
    for id in &ids {
        check_replaceable(&mut registry, *id, args.force)?;
    }
    for (id, directory, store) in jobs {
        replace_one(&mut registry, id, &directory, &store)
            .with_context(|| format!("replacing osd.{id}"))?;
        println!("osd.{id} has a new store in {}", directory.display());
        println!("  sepiola osd start --data {}", directory.display());
    }
    Ok(())
}

/// Which OSD gets which disk, in the order in which both are named.
fn jobs(args: &OsdReplaceArgs, ids: &[i32]) -> Result<Vec<(i32, PathBuf, OsdStoreArgs)>> {
    let bound = |what: &str, count: usize| match count {
        0 => Ok(()),
        count if count == ids.len() => Ok(()),
        count => bail!("{} OSDs are replaced, but {count} {what} are named", ids.len()),
    };
    bound("disks (--disk)", args.disks.len())?;
    bound("disks for logs (--log-disk)", args.log_disks.len())?;
    bound("directories (--data)", args.data.len())?;
    let job = |(index, id): (usize, &i32)| {
        let directory = args.data.get(index).cloned();
        let store = OsdStoreArgs {
            disk: args.disks.get(index).cloned(),
            log_disk: args.log_disks.get(index).cloned(),
            disk_size: args.disk_size,
            kind: args.kind,
            wipe: args.wipe,
            host: args.host.clone().or_else(|| args.old_host.clone()),
        };
        create::check(&store)?;
        Ok((
            *id,
            directory.unwrap_or_else(|| daemon_files::default_directory(&EntityName::osd(*id))),
            store,
        ))
    };
    ids.iter().enumerate().map(job).collect()
}

/// It must not run, and what it had must be elsewhere.
fn check_replaceable(registry: &mut Registry, id: i32, force: bool) -> Result<()> {
    if registry.is_up(id)? {
        bail!("osd.{id} is up; stop it first (`systemctl stop sepiola-osd@{id}`)");
    }
    if force {
        return Ok(());
    }
    let status = registry.ask_json(&json!({"prefix": "status", "format": "json"}))?;
    let states = status["pgmap"]["pgs_by_state"].as_array().cloned().unwrap_or_default();
    let is_whole = |state: &Value| has_all(state["state_name"].as_str().unwrap_or_default());
    if let Some(state) = states.iter().find(|state| !is_whole(state)) {
        let (count, name) = (&state["count"], state["state_name"].as_str().unwrap_or_default());
        bail!(
            "{count} placement groups are {name}: osd.{id} may hold the only copy of something; \
             see `ceph health detail`, or say --force"
        );
    }
    Ok(())
}

/// Whether a group in this state has, without an OSD that is down, all that was ever acknowledged. One that
/// serves does; so does one that only has too few members for that (peered): it waits for a member, not for
/// data.
fn has_all(state: &str) -> bool {
    let is = |wanted: &str| state.split('+').any(|part| part == wanted);
    (is("active") || is("peered")) && !is("recovery_unfound") && !is("stale")
}

/// The store first: until it is there, the old one stays what it is.
fn replace_one(
    registry: &mut Registry,
    id: i32,
    directory: &Path,
    store: &OsdStoreArgs,
) -> Result<()> {
    create::make_store(registry, id, directory, store)?;
    let identity = Identity::new()?;
    let destroy =
        json!({"prefix": "osd destroy", "id": id.to_string(), "yes_i_really_mean_it": true});
    registry.ask(&destroy)?;
    registry.register(identity.uuid, &identity.key, Some(id))?;
    create::finish(registry, id, &identity, directory, store)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partner_that_waits_only_for_a_second_member_has_all() {
        for state in ["active+clean", "active+undersized+degraded", "undersized+degraded+peered"] {
            assert!(has_all(state), "{state}");
        }
        for state in ["down", "incomplete", "peering", "unknown", "stale+undersized+peered"] {
            assert!(!has_all(state), "{state}");
        }
        assert!(!has_all("undersized+degraded+recovery_unfound+peered"));
        assert!(!has_all("activating+undersized"));
    }
}
