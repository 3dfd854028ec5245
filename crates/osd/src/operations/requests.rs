//! All requests in progress, indexed by group.
//!
//! When many groups begin a new interval at once, each must find its own requests without a scan
//! over those of all others.

use crate::operations::request::Request;
use std::collections::BTreeSet;
use stdx::{FastMap, Slab};
use types::PgId;

/// All requests in progress, by a key that is reused once its request has ended.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    all: Slab<Request>,
    /// By [`Request::pg`].
    of_groups: FastMap<PgId, BTreeSet<u64>>,
    /// Number of requests visited by iteration.
    #[cfg(test)]
    looked_at: std::cell::Cell<usize>,
}

impl Requests {
    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn get(&self, key: u64) -> Option<&Request> {
        self.all.get(key)
    }

    /// The caller must not change [`Request::pg`]; [`Requests::assign`] does that.
    pub fn get_mut(&mut self, key: u64) -> Option<&mut Request> {
        self.all.get_mut(key)
    }

    /// All requests, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Request)> {
        self.all.iter().inspect(|_| self.note_look())
    }

    /// The same for checks of invariants, whose visits are not counted.
    pub fn checked(&self) -> impl Iterator<Item = (u64, &Request)> {
        self.all.iter()
    }

    /// Adds a request and returns its key.
    pub fn insert(&mut self, request: Request) -> u64 {
        let pg = request.pg;
        let key = self.all.insert(request);
        self.of_groups.entry(pg).or_default().insert(key);
        key
    }

    pub fn remove(&mut self, key: u64) -> Option<Request> {
        let request = self.all.remove(key)?;
        self.take_from(request.pg, key);
        Some(request)
    }

    /// Moves a request to another group.
    pub fn assign(&mut self, key: u64, pg: PgId) {
        let Some(request) = self.all.get_mut(key) else { return };
        let before = std::mem::replace(&mut request.pg, pg);
        if before != pg {
            self.take_from(before, key);
            self.of_groups.entry(pg).or_default().insert(key);
        }
    }

    /// The requests of a group, in the order of their keys.
    pub fn of_group(&self, pg: PgId) -> impl Iterator<Item = (u64, &Request)> {
        let keys = self.of_groups.get(&pg).into_iter().flatten();
        keys.filter_map(|key| Some((*key, self.all.get(*key)?))).inspect(|_| self.note_look())
    }

    /// Number of requests visited so far.
    #[cfg(test)]
    pub fn looked_at(&self) -> usize {
        self.looked_at.get()
    }

    #[cfg(test)]
    fn note_look(&self) {
        self.looked_at.set(self.looked_at.get() + 1);
    }

    #[cfg(not(test))]
    fn note_look(&self) {}

    fn take_from(&mut self, pg: PgId, key: u64) {
        let Some(keys) = self.of_groups.get_mut(&pg) else { return };
        keys.remove(&key);
        if keys.is_empty() {
            self.of_groups.remove(&pg);
        }
    }

    /// Panics if the index by group is wrong.
    pub fn check_invariants(&self) {
        let indexed: usize = self.of_groups.values().map(BTreeSet::len).sum();
        assert_eq!(indexed, self.all.len(), "each request is known to its group, and no other");
        for (key, request) in self.all.iter() {
            assert!(self.of_groups[&request.pg].contains(&key), "{request:?}");
        }
    }
}
