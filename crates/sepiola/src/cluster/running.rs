//! A cluster of `sepiola up` that runs: a monitor and its OSDs.

use super::settings::{MGR_NAME, MON_NAME, Settings};
use crate::cli::UpArgs;
use crate::daemons::{MonMember, OsdMember, msgr2_addrs, plan};
use crate::listen::{parse_console, parse_metrics};
use access::{AuthMode, DataDir};
use anyhow::Result;
use disks::default_memory;
use host::{Member, Notices, Plan, RunningDaemons};
use machine::hostname;
use std::net::SocketAddr;
use types::Uuid;

/// A cluster whose threads run until it is stopped.
pub struct RunningCluster {
    settings: Settings,
    daemons: RunningDaemons,
}

impl RunningCluster {
    /// As [`RunningDaemons::start`].
    pub fn start(
        dir: &DataDir,
        settings: Settings,
        args: &UpArgs,
        notices: &Notices,
    ) -> Result<Self> {
        let plan = cluster_plan(dir, &settings, args)?;
        let daemons = RunningDaemons::start(plan, notices)?;
        Ok(RunningCluster { settings, daemons })
    }

    /// Its id.
    pub fn fsid(&self) -> Uuid {
        self.settings.fsid
    }

    /// Where the monitor listens.
    pub fn mon_addr(&self) -> SocketAddr {
        self.settings.mon_addr
    }

    /// How clients prove who they are.
    pub fn auth(&self) -> AuthMode {
        self.settings.auth
    }

    /// As [`RunningDaemons::stop`].
    pub fn stop(self) -> Result<()> {
        self.daemons.stop()
    }
}

/// A whole cluster: the monitor first, then its OSDs.
fn cluster_plan(dir: &DataDir, settings: &Settings, args: &UpArgs) -> Result<Plan> {
    let monitor = MonMember {
        name: MON_NAME.to_owned(),
        rank: 0,
        manager: MGR_NAME.to_owned(),
        listen: settings.mon_addr,
        metrics: parse_metrics(args.metrics.as_deref(), settings.mon_addr)?,
        console: parse_console(args.console.as_deref(), settings.mon_addr)?,
        auth: settings.auth,
        dir: dir.clone(),
    };
    let osds = (0..settings.osds as i32).map(|id| OsdMember {
        id,
        uuid: Uuid::default(),
        directory: dir.osd(id),
        fsid: settings.fsid,
        listen: SocketAddr::new(settings.mon_addr.ip(), 0),
        monitors: vec![msgr2_addrs(settings.mon_addr)],
        auth: settings.auth,
        key: None,
        hostname: hostname(),
        memory: args.memory.unwrap_or_else(|| default_memory(&dir.osd(id), settings.osds)),
        log: settings.log.as_ref().map(|log| log.join(format!("osd.{id}.log"))),
        capacity: Some(settings.osd_capacity),
    });
    let mut members: Vec<Box<dyn Member>> = vec![Box::new(monitor)];
    members.extend(osds.map(|osd| -> Box<dyn Member> { Box::new(osd) }));
    plan(members, args.cores)
}
