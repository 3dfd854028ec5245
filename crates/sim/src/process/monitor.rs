//! The monitor's process.

use super::{ControlDisk, Hosted, Process, ProcessOutput, delegate_process, delegate_time};
use crate::network::{AuthAnswer, AuthStep};
use engine::{AuthRequest, ConnId, Daemon, Message, Peer, Time};
use mon::{Monitor, Settings};

pub struct MonitorProcess {
    pub hosted: Hosted<Monitor, ControlDisk>,
    settings: Settings,
}

impl MonitorProcess {
    pub fn new(settings: Settings, disk: ControlDisk) -> Self {
        MonitorProcess { hosted: Hosted::new(disk), settings }
    }

    pub fn start(&mut self, seed: [u8; 32]) {
        self.hosted.daemon = Some(Monitor::new(self.settings.clone(), seed));
    }
}

impl Process for MonitorProcess {
    delegate_process!();
    delegate_time!();

    /// A monitor opens no sessions.
    fn authenticate(&mut self, _now: Time, _conn: ConnId, _step: AuthStep) -> AuthAnswer {
        AuthAnswer::GivesUp
    }

    fn check_invariants(&self) {}
}
