//! Units of systemd that run daemons of this machine.

use anyhow::{Context, Result, bail};
use std::process::Command;

/// The daemon that a unit runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Daemon {
    /// A monitor, by its name. Monitors are restarted first: a new release of them knows the older OSDs.
    Monitor(String),
    Osd(i32),
    /// A metadata server, by its name.
    MetadataServer(String),
    /// A whole cluster in one process.
    Cluster,
}

impl Daemon {
    /// The daemon of a unit; `None` for a unit of something else.
    fn of_unit(unit: &str) -> Option<Self> {
        let name = unit.strip_prefix("sepiola-")?.strip_suffix(".service")?;
        match name.split_once('@') {
            Some(("mon", name)) => Some(Daemon::Monitor(name.to_owned())),
            Some(("mds", name)) => Some(Daemon::MetadataServer(name.to_owned())),
            Some(("osd", id)) => id.parse().ok().map(Daemon::Osd),
            None if name == "up" => Some(Daemon::Cluster),
            _ => None,
        }
    }

    /// The name of its unit.
    pub fn unit(&self) -> String {
        match self {
            Daemon::Monitor(name) => format!("sepiola-mon@{name}.service"),
            Daemon::Osd(id) => format!("sepiola-osd@{id}.service"),
            Daemon::MetadataServer(name) => format!("sepiola-mds@{name}.service"),
            Daemon::Cluster => "sepiola-up.service".to_owned(),
        }
    }
}

/// `osd.3`
impl std::fmt::Display for Daemon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Daemon::Monitor(name) => write!(f, "mon.{name}"),
            Daemon::Osd(id) => write!(f, "osd.{id}"),
            Daemon::MetadataServer(name) => write!(f, "mds.{name}"),
            Daemon::Cluster => f.write_str("the cluster of sepiola-up"),
        }
    }
}

/// The daemons whose units run, in the order in which they are restarted. One that has failed is not
/// restarted: its OSD may have been replaced.
pub fn daemons() -> Result<Vec<Daemon>> {
    let mut command = Command::new("systemctl");
    command.args(["list-units", "--type=service", "--plain", "--no-legend", "--no-pager"]);
    command.args(["--state=active,activating,reloading", "sepiola-*"]);
    let output = command.output().context("running systemctl; this machine has no systemd?")?;
    if !output.status.success() {
        bail!("systemctl list-units: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

fn parse(listed: &str) -> Vec<Daemon> {
    let units = listed.lines().filter_map(|line| line.split_whitespace().next());
    let mut daemons: Vec<Daemon> = units.filter_map(Daemon::of_unit).collect();
    daemons.sort();
    daemons
}

/// Restarts units together, and returns when they are ready.
pub fn restart(daemons: &[Daemon]) -> Result<()> {
    let mut command = Command::new("systemctl");
    let status = command.arg("restart").args(daemons.iter().map(Daemon::unit)).status();
    let status = status.context("running systemctl")?;
    let names = || daemons.iter().map(Daemon::unit).collect::<Vec<_>>().join(" ");
    if !status.success() {
        bail!("systemctl restart {}: {status}; see 'journalctl -u UNIT'", names());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_listed_with_monitors_first() {
        let listed = "sepiola-osd@10.service loaded active running Sepiola OSD 10\n\
                      sepiola-osd@2.service loaded active running Sepiola OSD 2\n\
                      sepiola-mon@a.service loaded active running Sepiola monitor a\n\
                      sepiola-exporter.service loaded active running something else\n";
        let names: Vec<String> = parse(listed).iter().map(Daemon::to_string).collect();
        assert_eq!(names, ["mon.a", "osd.2", "osd.10"]);
    }

    #[test]
    fn a_daemon_has_the_unit_that_it_was_read_from() {
        for unit in ["sepiola-osd@3.service", "sepiola-mds@x-y.service", "sepiola-up.service"] {
            assert_eq!(Daemon::of_unit(unit).expect("a daemon").unit(), unit);
        }
        for unit in ["sepiola.target", "sepiola-osd@x.service", "ceph-osd@1.service"] {
            assert_eq!(Daemon::of_unit(unit), None, "{unit}");
        }
    }
}
