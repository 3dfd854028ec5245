//! Process of a monitor.

use super::{ControlDisk, Hosted, Process, delegate_life, delegate_time};
use engine::{Node, NodeOutput, Time, sessions_go_to};
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

    /// Tells the disk whether the monitor acts as leader.
    pub fn note_leadership(&mut self) {
        self.hosted.disk.leads = self.hosted.daemon.as_ref().is_some_and(Monitor::leads);
    }
}

impl Node for MonitorProcess {
    sessions_go_to!(hosted);
    delegate_time!();

    fn poll_output(&mut self, now: Time) -> Option<NodeOutput> {
        self.hosted.poll_output(now)
    }
}

impl Process for MonitorProcess {
    delegate_life!();

    fn check_invariants(&self) {
        if let Some(monitor) = &self.hosted.daemon {
            monitor.check_invariants();
        }
    }
}
