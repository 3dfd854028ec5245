//! Process of a client of the file system.

use super::client::NoDisk;
use super::crashable::{Crashable, is_its_crashable};
use crate::model::ActorId;
use auth::Entropy;
use engine::Time;
use fsclient::{Call, CallId, Config, FsClient, Outcome};
use std::collections::BTreeMap;

/// A client of the file system with the calls of its user.
pub struct FileClientProcess {
    crashable: Crashable<FsClient, NoDisk>,
    config: Config,
    actor: ActorId,
    /// Indices of calls in the history.
    calls: BTreeMap<CallId, usize>,
    /// Those of calls that have ended and may not be durable.
    ended: BTreeMap<CallId, usize>,
    /// Sessions that this life has lost, as far as the history knows.
    losses_noted: u64,
}

impl FileClientProcess {
    /// A client that does not run yet.
    pub fn new(config: Config) -> Self {
        let crashable = Crashable::new(NoDisk);
        let (calls, ended) = (BTreeMap::new(), BTreeMap::new());
        FileClientProcess { crashable, config, actor: 0, calls, ended, losses_noted: 0 }
    }

    /// Starts the client under a new name.
    pub fn start(&mut self, actor: ActorId, seed: [u8; 32]) {
        self.crashable.start(FsClient::new(self.config.clone(), Entropy::from_seed(seed)));
        (self.actor, self.losses_noted) = (actor, 0);
        self.calls.clear();
        self.ended.clear();
    }

    /// Loses the client and its calls.
    pub fn crash(&mut self) {
        self.crashable.crash();
        self.calls.clear();
        self.ended.clear();
    }

    /// The name of this life in the history.
    pub fn actor(&self) -> ActorId {
        self.actor
    }

    /// The client, if it runs.
    pub fn daemon(&self) -> Option<&FsClient> {
        self.crashable.daemon()
    }

    /// Number of calls without an answer.
    pub fn in_flight(&self) -> usize {
        self.calls.len()
    }

    /// Makes a call; `index` is its place in the history.
    pub fn call(&mut self, now: Time, index: usize, call: Call) {
        if let Some(client) = self.crashable.daemon_mut() {
            let id = client.call(now, call);
            self.calls.insert(id, index);
        }
    }

    /// The next call that has ended.
    pub fn poll_ended(&mut self) -> Option<(usize, Outcome)> {
        let (id, outcome) = self.crashable.daemon_mut()?.poll_completion()?;
        let index = self.calls.remove(&id).expect("what ends was begun, once");
        self.ended.insert(id, index);
        Some((index, outcome))
    }

    /// The next call that is durable, after it has ended.
    pub fn poll_durable(&mut self) -> Option<usize> {
        let id = self.crashable.daemon_mut()?.poll_durable()?;
        Some(self.ended.remove(&id).expect("what is durable has ended"))
    }

    /// True once for each session that was lost with all that was not synced.
    pub fn take_loss(&mut self) -> bool {
        let lost = self.daemon().map_or(0, FsClient::sessions_lost);
        std::mem::replace(&mut self.losses_noted, lost) < lost
    }

    /// Panics if the state of the client contradicts itself.
    pub fn check_invariants(&self) {
        self.daemon().into_iter().for_each(FsClient::check_invariants);
    }

    /// Digest of all outputs of all lives so far.
    pub fn digest(&self) -> u64 {
        self.crashable.digest()
    }
}

is_its_crashable!(FileClientProcess);
