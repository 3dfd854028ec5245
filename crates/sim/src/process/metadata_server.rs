//! Process of a metadata server.

use super::client::NoDisk;
use super::crashable::{Crashable, is_its_crashable};
use auth::CryptoKey;
use mds::{Config, Mds};
use types::{EntityAddrVec, EntityName, EntityType};

/// A metadata server. It keeps nothing of its own.
pub struct MdsProcess {
    crashable: Crashable<Mds, NoDisk>,
    config: Config,
}

impl MdsProcess {
    /// A server that does not run yet.
    pub fn new(config: Config) -> Self {
        MdsProcess { crashable: Crashable::new(NoDisk), config }
    }

    /// The server proves its name with a key from now on.
    pub fn set_key(&mut self, key: CryptoKey) {
        self.config.key = Some(key);
    }

    /// Its name.
    pub fn name(&self) -> EntityName {
        EntityName::new(EntityType::MDS, self.config.name.clone())
    }

    /// Starts a run of the server at these addresses.
    pub fn start(&mut self, addrs: EntityAddrVec, seed: [u8; 32]) {
        self.config.addrs = addrs;
        self.crashable.start(Mds::new(self.config.clone(), seed));
    }

    /// Loses the server.
    pub fn crash(&mut self) {
        self.crashable.crash();
    }

    /// The server, if it runs.
    pub fn daemon(&self) -> Option<&Mds> {
        self.crashable.daemon()
    }

    /// Why this run is over, if it is: the process must be started again.
    pub fn end(&self) -> Option<String> {
        self.daemon()?.end().map(|end| end.to_string())
    }

    /// Panics if the state of the server contradicts itself.
    pub fn check_invariants(&self) {
        self.daemon().into_iter().for_each(Mds::check_invariants);
    }

    /// Digest of all outputs of all lives so far.
    pub fn digest(&self) -> u64 {
        self.crashable.digest()
    }
}

is_its_crashable!(MdsProcess);
