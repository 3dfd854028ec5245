//! An OSD's process.

use super::{Hosted, Process, ProcessOutput, StoreDisk, delegate_process, delegate_time};
use crate::network::{AuthAnswer, AuthStep};
use engine::{AuthRequest, ConnId, Daemon, Message, Peer, Time};
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

    /// It may be found elsewhere than before.
    pub fn start(&mut self, addrs: EntityAddrVec, seed: [u8; 32]) {
        self.config.addrs = addrs;
        self.hosted.daemon = Some(Osd::new(self.config.clone(), seed));
    }
}

impl Process for OsdProcess {
    delegate_process!();
    delegate_time!();

    /// Daemons do not prove who they are to each other.
    fn authenticate(&mut self, _now: Time, _conn: ConnId, _step: AuthStep) -> AuthAnswer {
        AuthAnswer::GivesUp
    }

    fn check_invariants(&self) {
        if let Some(osd) = &self.hosted.daemon {
            osd.check_invariants();
        }
        self.hosted.disk.check_failure();
    }
}
