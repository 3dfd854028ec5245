//! Facts that hold for all of the OSD: its configuration and options, its stage, and the time.

mod options;

pub use options::{BenchLimits, Options};

use crate::Config;
use engine::{CoreLoad, Time};
use std::collections::BTreeMap;
use types::OsdId;
use wire::options::Running;

/// Life cycle of the OSD since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Lists its collections, then reads the logs of its groups.
    Loading,
    /// Asks the monitor to mark it up.
    Booting,
    /// The map says that it is up: it serves requests.
    Up,
    /// The disk has failed: no request is served any more, until the next start.
    Failed,
}

/// They change at the start of an input, when the OSD enters another stage, and by commands.
#[derive(Debug)]
pub(crate) struct Env {
    pub config: Config,
    /// Facts about the machine for the metadata (`ceph osd metadata`).
    pub host_facts: BTreeMap<String, String>,
    /// The configuration: set in the monitor's database, and set at this OSD alone.
    pub running: Running,
    /// The options that follow from `running`.
    pub options: Options,
    pub stage: Stage,
    /// The reason for which the OSD is out of service, and what an administrator can do.
    /// Set if this OSD has skipped maps while it was up, until it is marked down: the others know nothing of
    /// the intervals that its groups have begun therefore.
    pub has_skipped_maps: bool,
    pub failure: Option<String>,
    /// Time of the present input.
    pub now: Time,
    /// The load of the core that runs the OSD, as last told.
    pub load: CoreLoad,
}

impl Env {
    /// The facts at the start, before anything has been loaded.
    pub fn new(config: Config) -> Self {
        Env {
            config,
            host_facts: BTreeMap::new(),
            running: Running::default(),
            options: Options::default(),
            stage: Stage::Loading,
            has_skipped_maps: false,
            failure: None,
            now: Time::ZERO,
            load: CoreLoad::default(),
        }
    }

    pub fn whoami(&self) -> OsdId {
        self.config.id
    }

    /// Applies the content of the monitor's configuration database, which is sent as a whole each
    /// time.
    pub fn handle_config(&mut self, config: &wire::Config) {
        self.running.take_database(config.options.clone());
        self.apply_options();
    }

    /// Applies the options that are set now, in the database and at this OSD alone.
    pub fn apply_options(&mut self) {
        let options = Options::read(&self.running.set());
        if options != self.options {
            tracing::info!(osd = %self.whoami(), ?options, "options changed");
            self.options = options;
        }
    }
}
