//! Process of an OSD.

use super::crashable::{Crashable, is_its_crashable};
use super::store_disk::StoreDisk;
use osd::{Config, Osd};
use pg::Pg;
use types::{EntityAddrVec, OsdId, Uuid};

/// Gives the addresses of an OSD at one of its starts.
pub type Addresses = fn(OsdId, u32) -> EntityAddrVec;

/// An OSD with its store.
pub struct OsdProcess {
    crashable: Crashable<Osd, StoreDisk>,
    config: Config,
    addresses: Addresses,
}

impl OsdProcess {
    /// An OSD that does not run yet. Its addresses differ from one start to the next.
    pub fn new(config: Config, disk: StoreDisk, addresses: Addresses) -> Self {
        OsdProcess { crashable: Crashable::new(disk), config, addresses }
    }

    /// Starts the OSD for the nth time; returns its addresses.
    pub fn start(&mut self, number: u32, seed: [u8; 32]) -> EntityAddrVec {
        self.config.addrs = (self.addresses)(self.config.id, number);
        self.crashable.start(Osd::new(self.config.clone(), seed));
        self.config.addrs.clone()
    }

    /// Loses the OSD, and what its store had not made durable.
    pub fn crash(&mut self) {
        self.crashable.crash();
    }

    /// The id of the OSD, whether it runs or not.
    pub fn id(&self) -> OsdId {
        self.config.id
    }

    /// The OSD, if it runs.
    pub fn daemon(&self) -> Option<&Osd> {
        self.crashable.daemon()
    }

    /// Its groups, if it runs.
    pub fn groups(&self) -> impl Iterator<Item = &Pg> {
        self.daemon().into_iter().flat_map(Osd::groups)
    }

    /// Its store.
    pub fn disk(&self) -> &StoreDisk {
        self.crashable.disk()
    }

    /// Its store.
    pub fn disk_mut(&mut self) -> &mut StoreDisk {
        self.crashable.disk_mut()
    }

    /// Gives an OSD that does not run an empty store, under a new identity.
    pub fn replace_disk(&mut self, disk: StoreDisk, uuid: Uuid) {
        assert!(self.daemon().is_none(), "the disk of a running OSD stays");
        *self.crashable.disk_mut() = disk;
        self.config.uuid = uuid;
    }

    /// Panics if the state of the OSD contradicts itself, or its store shut down without a cause.
    pub fn check_invariants(&self) {
        if let Some(osd) = self.daemon() {
            osd.check_invariants();
        }
        self.disk().check_failure();
    }

    /// Digest of all outputs of all lives so far.
    pub fn digest(&self) -> u64 {
        self.crashable.digest()
    }
}

is_its_crashable!(OsdProcess);
