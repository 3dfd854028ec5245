//! `sepiola host restart`: restarts the daemons of this machine when the cluster can do without them.
//!
//! OSDs get the flag `noout` meanwhile, so that no data moves to other machines. It is cleared whatever
//! happens: if an OSD does not come back, its data is to be made redundant elsewhere.

use super::units::{self, Daemon};
use crate::cli::RestartArgs;
use crate::osd::Registry;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Interval at which the cluster is looked at.
const PAUSE: Duration = Duration::from_secs(1);

/// `sepiola host restart`
pub fn restart(args: &RestartArgs) -> Result<()> {
    let daemons = units::daemons()?;
    if daemons.is_empty() {
        bail!(
            "systemd runs no daemon of Sepiola on this machine (units sepiola-mon@, sepiola-osd@, sepiola-mds@)"
        );
    }
    let names: Vec<String> = daemons.iter().map(Daemon::to_string).collect();
    println!("{}", names.join(", "));
    if daemons.contains(&Daemon::Cluster) {
        return restart_cluster(args, &daemons);
    }
    let mut cluster = Cluster { registry: Registry::open(&args.cluster)?, timeout: minutes(args) };
    let (osds, monitors) = (ids(&daemons), monitors(&daemons));
    if args.dry_run {
        return match cluster.obstacle(&osds, &monitors)? {
            None => {
                println!("the cluster can do without them now");
                Ok(())
            }
            Some(reason) => bail!("the cluster cannot do without them now: {reason}"),
        };
    }
    cluster.wait("the cluster cannot do without them yet", |cluster| {
        cluster.obstacle(&osds, &monitors)
    })?;
    // Flags of an administrator stay.
    let unflagged = cluster.without_noout(&osds)?;
    let flagged = cluster.set_noout(&unflagged, true);
    let restarted = flagged.and_then(|()| cluster.restart(&daemons, &osds, &monitors));
    // The monitor of this machine may not answer yet.
    let cleared = cluster.wait("noout is not cleared yet", |cluster| {
        Ok(cluster.set_noout(&unflagged, false).err().map(|error| format!("{error:#}")))
    });
    restarted?;
    cleared?;
    println!("restarted; all groups are clean");
    Ok(())
}

/// A cluster in one process is down while it restarts.
fn restart_cluster(args: &RestartArgs, daemons: &[Daemon]) -> Result<()> {
    if args.dry_run {
        println!("clients wait while the cluster restarts");
        return Ok(());
    }
    units::restart(daemons)
}

fn minutes(args: &RestartArgs) -> Duration {
    Duration::from_secs(args.timeout.saturating_mul(60))
}

fn ids(daemons: &[Daemon]) -> Vec<String> {
    let id = |daemon: &Daemon| match daemon {
        Daemon::Osd(id) => Some(id.to_string()),
        _ => None,
    };
    daemons.iter().filter_map(id).collect()
}

fn monitors(daemons: &[Daemon]) -> Vec<String> {
    let name = |daemon: &Daemon| match daemon {
        Daemon::Monitor(name) => Some(name.clone()),
        _ => None,
    };
    daemons.iter().filter_map(name).collect()
}

struct Cluster {
    registry: Registry,
    /// Bound of each wait.
    timeout: Duration,
}

impl Cluster {
    /// Waits until there is no obstacle; prints each one when it is seen first.
    fn wait(
        &mut self,
        what: &str,
        obstacle: impl Fn(&mut Self) -> Result<Option<String>>,
    ) -> Result<()> {
        let (begun, mut last) = (Instant::now(), String::new());
        // A monitor that restarts answers nothing for a while.
        while let Some(reason) = obstacle(self).unwrap_or_else(|error| Some(format!("{error:#}"))) {
            if begun.elapsed() >= self.timeout {
                bail!("{what} after {} s: {reason}", begun.elapsed().as_secs());
            }
            if reason != last {
                println!("{what}: {reason}");
                last = reason;
            }
            sleep(PAUSE);
        }
        Ok(())
    }

    /// The reason why the daemons of this machine must not stop now.
    fn obstacle(&mut self, osds: &[String], monitors: &[String]) -> Result<Option<String>> {
        for (prefix, ids) in [("osd ok-to-stop", osds), ("mon ok-to-stop", monitors)] {
            if ids.is_empty() {
                continue;
            }
            if let Err(refusal) = self.registry.ask(&json!({ "prefix": prefix, "ids": ids })) {
                return Ok(Some(format!("{refusal:#}")));
            }
        }
        self.unclean()
    }

    /// The groups that are not clean, as text.
    fn unclean(&mut self) -> Result<Option<String>> {
        let stat = self.registry.ask_json(&json!({ "prefix": "pg stat", "format": "json" }))?;
        Ok(unclean_groups(&stat))
    }

    /// The OSDs that do not have the flag `noout`.
    fn without_noout(&mut self, osds: &[String]) -> Result<Vec<String>> {
        let dump = self.registry.ask_json(&json!({ "prefix": "osd dump", "format": "json" }))?;
        let all = dump["osds"].as_array().context("'osd dump' lists no OSDs")?;
        let has_flag = |osd: &&Value| {
            osd["state"].as_array().is_some_and(|state| state.iter().any(|flag| flag == "noout"))
        };
        let flagged: Vec<String> =
            all.iter().filter(has_flag).map(|osd| osd["osd"].to_string()).collect();
        Ok(osds.iter().filter(|osd| !flagged.contains(osd)).cloned().collect())
    }

    fn set_noout(&mut self, osds: &[String], on: bool) -> Result<()> {
        if osds.is_empty() {
            return Ok(());
        }
        let prefix = if on { "osd add-noout" } else { "osd rm-noout" };
        let list = osds.join(" ");
        self.registry
            .ask(&json!({ "prefix": prefix, "ids": osds }))
            .map(|_| ())
            .with_context(|| format!("'ceph {prefix} {list}'"))
    }

    fn restart(&mut self, daemons: &[Daemon], osds: &[String], monitors: &[String]) -> Result<()> {
        let before = self.incarnations()?;
        let mut kinds = daemons.chunk_by(same_kind);
        kinds.try_for_each(units::restart)?;
        self.wait("not back yet", |cluster| {
            let now = cluster.incarnations()?;
            let is_back = |osd: &&String| now.get(*osd) > before.get(*osd);
            if let Some(osd) = osds.iter().find(|osd| !is_back(osd)) {
                return Ok(Some(format!("osd.{osd} is not up")));
            }
            if let Some(monitor) = cluster.absent_monitor(monitors)? {
                return Ok(Some(format!("mon.{monitor} is not in quorum")));
            }
            cluster.unclean()
        })
    }

    /// The epoch since which each OSD is up, by id; OSDs that are down have none.
    fn incarnations(&mut self) -> Result<BTreeMap<String, u64>> {
        let dump = self.registry.ask_json(&json!({ "prefix": "osd dump", "format": "json" }))?;
        let osds = dump["osds"].as_array().context("'osd dump' lists no OSDs")?;
        let up = osds.iter().filter(|osd| osd["up"] == 1);
        Ok(up.filter_map(|osd| Some((osd["osd"].to_string(), osd["up_from"].as_u64()?))).collect())
    }

    fn absent_monitor<'a>(&mut self, monitors: &'a [String]) -> Result<Option<&'a String>> {
        let stat = self.registry.ask_json(&json!({ "prefix": "mon stat", "format": "json" }))?;
        let quorum = stat["quorum"].as_array().cloned().unwrap_or_default();
        let is_in = |name: &&String| quorum.iter().any(|one| one["name"] == name.as_str());
        Ok(monitors.iter().find(|name| !is_in(name)))
    }
}

fn same_kind(left: &Daemon, right: &Daemon) -> bool {
    std::mem::discriminant(left) == std::mem::discriminant(right)
}

/// `3 of 32 groups are active+undersized+degraded`
fn unclean_groups(stat: &Value) -> Option<String> {
    let summary = stat.get("pg_summary").unwrap_or(stat);
    let states = summary["num_pg_by_state"].as_array()?;
    let all = summary["num_pgs"].as_u64().unwrap_or(0);
    let unclean = states.iter().find(|state| {
        let name = state["name"].as_str().unwrap_or_default();
        !(name.starts_with("active+clean"))
    })?;
    let name = unclean["name"].as_str().unwrap_or("unknown");
    Some(format!("{} of {all} groups are {name}", unclean["num"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_scrub_are_clean_and_others_are_named() {
        let clean = json!({ "num_pgs": 8, "num_pg_by_state": [
            { "name": "active+clean", "num": 7 }, { "name": "active+clean+scrubbing+deep", "num": 1 },
        ]});
        assert_eq!(unclean_groups(&clean), None);
        let degraded = json!({ "pg_summary": { "num_pgs": 8, "num_pg_by_state": [
            { "name": "active+clean", "num": 5 }, { "name": "active+undersized+degraded", "num": 3 },
        ]}});
        let text = "3 of 8 groups are active+undersized+degraded";
        assert_eq!(unclean_groups(&degraded).as_deref(), Some(text));
    }
}
