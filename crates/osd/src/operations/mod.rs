//! Requests of clients, and our own: from admission to the reply.

mod admission;
mod copying;
mod healing;
mod interruption;
pub(crate) mod listing;
mod lost_object;
mod memory;
pub(crate) mod object;
pub(crate) mod objects;
pub(crate) mod own;
pub(crate) mod queues;
mod replies;
pub(crate) mod request;
mod requests;
pub(crate) mod snapshots;
mod turns;

use copying::Copies;
use engine::Time;
use memory::Memory;
use request::{Origin, Request};
use requests::Requests;
use types::PgId;

/// All requests of the OSD.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    /// Requests in progress; the key of one is the ticket of its write.
    requests: Requests,
    /// Memory that requests have reserved.
    memory: Memory,
    copies: Copies,
}

impl Operations {
    /// Number of requests in progress.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    pub fn get(&self, key: u64) -> Option<&Request> {
        self.requests.get(key)
    }

    /// The caller must not change [`Request::pg`]; [`Operations::assign`] does that.
    pub fn get_mut(&mut self, key: u64) -> Option<&mut Request> {
        self.requests.get_mut(key)
    }

    /// All requests, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Request)> {
        self.requests.iter()
    }

    /// The same for checks of invariants, whose visits are not counted.
    pub fn checked(&self) -> impl Iterator<Item = (u64, &Request)> {
        self.requests.checked()
    }

    /// Whether a client has a request in progress.
    pub fn has_clients(&self) -> bool {
        self.iter().any(|(_, request)| matches!(request.origin, Origin::Client { .. }))
    }

    /// Adds a request that is not admitted yet, and returns its key.
    pub fn insert(&mut self, request: Request) -> u64 {
        self.requests.insert(request)
    }

    /// Moves a request to another group.
    pub fn assign(&mut self, key: u64, pg: PgId) {
        self.requests.assign(key, pg);
    }

    /// Whether a request waits for memory.
    pub fn waits_for_memory(&self, key: u64) -> bool {
        self.memory.waits(key)
    }

    /// Whether a request waits for an object that it copies.
    pub fn waits_for_copy(&self, key: u64) -> bool {
        self.copies.waits(key)
    }

    /// When a piece of a copy must be requested again.
    pub fn copies_due(&self) -> Option<Time> {
        self.copies.due()
    }

    /// The tids of all current requests for pieces of copies.
    #[cfg(test)]
    pub fn copies_asked(&self) -> Vec<u64> {
        self.copies.questions()
    }

    /// Number of requests visited by iteration.
    #[cfg(test)]
    pub fn looked_at(&self) -> usize {
        self.requests.looked_at()
    }

    /// Panics if the index by group is wrong.
    pub fn check_invariants(&self) {
        self.requests.check_invariants();
    }
}
