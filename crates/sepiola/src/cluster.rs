//! The daemons of one process: which there are, and how each is made.

mod create;
mod daemons;
mod disk;
mod osd;

pub use create::{MGR_NAME, MON_NAME, SIZE_DEFAULT, Settings, admin_args, create};
pub use daemons::{MonMember, monitor_plan, osds_plan};
pub use osd::{OsdMember, default_memory, machine_memory};

use crate::cli::{AuthMode, UpArgs};
use access::DataDir;
use anyhow::Result;
use host::{Notice, RunningDaemons};
use std::net::SocketAddr;
use std::sync::mpsc;
use types::Uuid;

/// A cluster whose threads run until it is stopped.
pub struct RunningCluster {
    settings: Settings,
    daemons: RunningDaemons,
}

impl RunningCluster {
    /// As [`RunningDaemons::start`].
    pub fn start(dir: &DataDir, args: &UpArgs, notices: &mpsc::Sender<Notice>) -> Result<Self> {
        let settings = Settings::load(dir)?;
        let plan = daemons::cluster_plan(dir, &settings, args)?;
        let daemons = RunningDaemons::start(plan, notices)?;
        Ok(RunningCluster { settings, daemons })
    }

    pub fn fsid(&self) -> Uuid {
        self.settings.fsid
    }

    pub fn mon_addr(&self) -> SocketAddr {
        self.settings.mon_addr
    }

    pub fn auth(&self) -> AuthMode {
        self.settings.auth
    }

    pub fn stop(self) -> Result<()> {
        self.daemons.stop()
    }
}
