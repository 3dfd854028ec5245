//! The components that all others of an OSD use: facts, the map, sessions, and the ways out.

use crate::config::Config;
use crate::env::{Env, Stage};
use crate::maps::Maps;
use crate::outbox::Outbox;
use crate::report::Report;
use crate::report::usage::DiskUsage;
use crate::sessions::clients::Clients;
use crate::sessions::monitor::MonitorLink;
use crate::sessions::peers::Peers;
use crate::work::WorkQueue;
use types::Epoch;

/// The components that the others are lent, whole or as a [`Cx`](crate::cx::Cx). It knows no group and no
/// request.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Time, configuration, options and stage.
    pub env: Env,
    /// The map, its history and its distribution.
    pub maps: Maps,
    /// Open sessions, and their throttle.
    pub clients: Clients,
    /// Sessions with other OSDs.
    pub peers: Peers,
    /// The session with a monitor.
    pub monitor: MonitorLink,
    /// Fullness of the disk.
    pub usage: DiskUsage,
    /// Statistics and log lines for the monitor.
    pub report: Report,
    /// Outputs, and requests to the store in progress.
    pub outbox: Outbox,
    /// Work that is possible now.
    pub work: WorkQueue,
}

impl Shared {
    /// Without a map and without sessions.
    pub fn new(config: Config) -> Self {
        Shared {
            maps: Maps::new(config.fsid),
            env: Env::new(config),
            clients: Clients::default(),
            peers: Peers::default(),
            monitor: MonitorLink::default(),
            usage: DiskUsage::default(),
            report: Report::default(),
            outbox: Outbox::default(),
            work: WorkQueue::default(),
        }
    }

    /// The epoch of the newest map.
    pub fn epoch(&self) -> Epoch {
        self.maps.map().epoch
    }

    /// Whether the OSD serves requests: a map that it has applied says that it is up.
    pub fn is_up(&self) -> bool {
        self.env.stage == Stage::Up
    }

    /// Panics unless each request to the store can be completed, and commits are counted.
    pub fn check_invariants(&self) {
        self.outbox.check_invariants();
        if self.env.stage != Stage::Failed {
            self.usage.check_invariants(self.outbox.commit_bytes());
        }
    }

    /// Has the monitor get a report immediately.
    pub fn request_report(&mut self) {
        self.report.schedule.request(self.env.now);
    }
}
