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
        let monitor = Monitor::new(self.settings.clone(), seed);
        self.hosted.daemon = Some(monitor.with_high_water(self.hosted.disk.mark()));
    }

    /// Its disk tells the store what it does as the leader.
    pub fn note_leadership(&mut self) {
        self.hosted.disk.leads = self.hosted.daemon.as_ref().is_some_and(Monitor::leads);
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
