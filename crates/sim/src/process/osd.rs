//! Process of an OSD.

use super::{Hosted, Process, StoreDisk, delegate_life, delegate_time};
use engine::{Node, NodeOutput, Time, sessions_go_to};
use osd::{Config, Osd};
use types::EntityAddrVec;

pub struct OsdProcess {
    pub hosted: Hosted<Osd, StoreDisk>,
    pub config: Config,
}

impl OsdProcess {
    pub fn new(config: Config, disk: StoreDisk) -> Self {
        OsdProcess { hosted: Hosted::new(disk), config }
    }

    /// Starts the OSD at these addresses, which may differ from those before.
    pub fn start(&mut self, addrs: EntityAddrVec, seed: [u8; 32]) {
        self.config.addrs = addrs;
        self.hosted.daemon = Some(Osd::new(self.config.clone(), seed));
    }
}

impl Node for OsdProcess {
    sessions_go_to!(hosted);
    delegate_time!();

    fn poll_output(&mut self, now: Time) -> Option<NodeOutput> {
        self.hosted.poll_output(now)
    }
}

impl Process for OsdProcess {
    delegate_life!();

    fn check_invariants(&self) {
        if let Some(osd) = &self.hosted.daemon {
            osd.check_invariants();
        }
        self.hosted.disk.check_failure();
    }
}
