//! All requests in progress, indexed by group.
//!
//! When many groups begin a new interval at once, each must find its own requests without a scan
//! over those of all others.

use crate::operations::request::Request;
use stdx::{FastMap, Slab};
use types::PgShard;

/// A request, with its neighbours in the list of its group.
#[derive(Debug)]
struct Entry {
    request: Request,
    before: Option<u64>,
    behind: Option<u64>,
}

/// All requests in progress, by a key that is reused once its request has ended.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    all: Slab<Entry>,
    /// The first request of each group, by [`Request::pg`]. The others follow in a list, so that no
    /// request allocates for its place.
    first: FastMap<PgShard, u64>,
    /// Number of requests visited by iteration.
    #[cfg(test)]
    looked_at: std::cell::Cell<usize>,
}

impl Requests {
    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn get(&self, key: u64) -> Option<&Request> {
        self.all.get(key).map(|entry| &entry.request)
    }

    /// The caller must not change [`Request::pg`]; [`Requests::assign`] does that.
    pub fn get_mut(&mut self, key: u64) -> Option<&mut Request> {
        self.all.get_mut(key).map(|entry| &mut entry.request)
    }

    /// All requests, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Request)> {
        self.checked().inspect(|_| self.note_look())
    }

    /// The same for checks of invariants, whose visits are not counted.
    pub fn checked(&self) -> impl Iterator<Item = (u64, &Request)> {
        self.all.iter().map(|(key, entry)| (key, &entry.request))
    }

    /// Adds a request and returns its key.
    pub fn insert(&mut self, request: Request) -> u64 {
        let key = self.all.insert(Entry { request, before: None, behind: None });
        self.link(key);
        key
    }

    pub fn remove(&mut self, key: u64) -> Option<Request> {
        self.unlink(key);
        self.all.remove(key).map(|entry| entry.request)
    }

    /// Moves a request to another group.
    pub fn assign(&mut self, key: u64, pg: PgShard) {
        if self.get(key).is_none_or(|request| request.pg == pg) {
            return;
        }
        self.unlink(key);
        self.get_mut(key).expect("it was just there").pg = pg;
        self.link(key);
    }

    /// The requests of a group, in no particular order.
    pub fn of_group(&self, pg: PgShard) -> impl Iterator<Item = (u64, &Request)> {
        let first = self.first.get(&pg).copied();
        let behind = |key: &u64| self.all.get(*key)?.behind;
        let keys = std::iter::successors(first, behind);
        keys.filter_map(|key| Some((key, self.get(key)?))).inspect(|_| self.note_look())
    }

    /// The requests of a group that are in no queue, in no particular order.
    pub fn begun_of_group(&self, pg: PgShard) -> impl Iterator<Item = u64> {
        self.of_group(pg).filter(|(_, request)| request.has_begun()).map(|(key, _)| key)
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

    /// Puts a request in front of the list of its group.
    fn link(&mut self, key: u64) {
        let entry = self.all.get(key).expect("the caller has it");
        let behind = self.first.insert(entry.request.pg, key);
        self.join(Some(key), behind);
        self.join(None, Some(key));
    }

    /// Takes a request out of the list of its group.
    fn unlink(&mut self, key: u64) {
        let Some(entry) = self.all.get(key) else { return };
        let (pg, before, behind) = (entry.request.pg, entry.before, entry.behind);
        self.join(before, behind);
        match (before, behind) {
            (Some(_), _) => {}
            (None, Some(behind)) => {
                self.first.insert(pg, behind);
            }
            (None, None) => {
                self.first.remove(&pg);
            }
        }
    }

    /// Makes two requests neighbours; `None` stands for an end of the list.
    fn join(&mut self, before: Option<u64>, behind: Option<u64>) {
        if let Some(entry) = before.and_then(|key| self.all.get_mut(key)) {
            entry.behind = behind;
        }
        if let Some(entry) = behind.and_then(|key| self.all.get_mut(key)) {
            entry.before = before;
        }
    }

    /// Panics if a list of a group is wrong.
    pub fn check_invariants(&self) {
        let mut listed = 0;
        for (pg, first) in &self.first {
            let (mut before, mut next) = (None, Some(*first));
            while let Some(key) = next {
                let entry = self.all.get(key).expect("a list has only requests that exist");
                assert_eq!((entry.request.pg, entry.before), (*pg, before), "{key}");
                listed += 1;
                (before, next) = (next, entry.behind);
            }
        }
        assert_eq!(listed, self.all.len(), "each request is known to its group, and to no other");
    }
}
