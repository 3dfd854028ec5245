//! Process of a monitor.

use super::control_disk::{ControlDisk, Shared};
use super::crashable::{Crashable, is_its_crashable};
use mon::{Monitor, Settings};

/// A monitor with its way to the control store and the file of its high-water mark.
pub struct MonitorProcess {
    crashable: Crashable<Monitor, ControlDisk>,
    settings: Settings,
}

impl MonitorProcess {
    /// A monitor that does not run yet.
    pub fn new(settings: Settings, disk: ControlDisk) -> Self {
        MonitorProcess { crashable: Crashable::new(disk), settings }
    }

    /// Starts the monitor, which reads its high-water mark.
    pub fn start(&mut self, seed: [u8; 32]) {
        let monitor = Monitor::new(self.settings.clone(), seed);
        let mark = self.crashable.disk().mark();
        self.crashable.start(monitor.with_high_water(mark));
    }

    /// Loses the monitor, and what it had not made durable.
    pub fn crash(&mut self) {
        self.crashable.crash();
    }

    /// The monitor, if it runs.
    pub fn daemon(&self) -> Option<&Monitor> {
        self.crashable.daemon()
    }

    /// The control store that all monitors share.
    pub fn control(&self) -> Shared {
        self.crashable.disk().shared()
    }

    /// Loses the file of the high-water mark.
    pub fn lose_mark(&mut self) {
        self.crashable.disk_mut().lose_mark();
    }

    /// Tells the disk whether the monitor acts as leader.
    pub fn note_leadership(&mut self) {
        let leads = self.daemon().is_some_and(Monitor::leads);
        self.crashable.disk_mut().leads = leads;
    }

    /// Panics if the monitor's state contradicts itself.
    pub fn check_invariants(&self) {
        if let Some(monitor) = self.daemon() {
            monitor.check_invariants();
        }
    }

    /// Digest of all outputs of all lives so far.
    pub fn digest(&self) -> u64 {
        self.crashable.digest()
    }
}

is_its_crashable!(MonitorProcess);
