//! The requests of the OSD, the objects that they concern, and the memory that they have reserved.

use crate::Budgets;
use crate::execute::{Answer, Need};
use crate::operations::answered::Answered;
use crate::operations::copies::Copies;
use crate::operations::keys::ObjectKey;
use crate::operations::memory::Memory;
use crate::operations::object::{Contexts, ObjectContext};
use crate::operations::queues::GroupQueues;
use crate::operations::request::{Class, Origin, Request};
use crate::operations::requests::Requests;
use crate::sessions::clients::Clients;
use crate::watches::GroupWatches;
use engine::Time;
use types::{Errno, OsdId};

/// All requests of the OSD.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    /// Requests in progress; the key of one is the ticket of its write.
    pub(super) requests: Requests,
    /// The objects in memory.
    pub(super) contexts: Contexts,
    /// Memory that requests have reserved.
    pub(super) memory: Memory,
    pub(super) copies: Copies,
    /// Clients' requests that were answered and are not reported yet.
    pub(super) answered: Vec<Answered>,
}

impl Operations {
    /// Number of requests in progress.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    pub fn get(&self, key: u64) -> Option<&Request> {
        self.requests.get(key)
    }

    /// The caller must not change [`Request::pg`], by which requests are indexed.
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

    /// Message bytes of each request of a client in progress. Pieces that other OSDs read have no bound.
    pub fn sizes_of_bounded(&self) -> impl Iterator<Item = usize> {
        let is_bounded =
            |request: &&Request| request.is_of_client() && request.memory.class != Class::Piece;
        self.checked().map(|(_, request)| request).filter(is_bounded).map(|request| request.bytes)
    }

    /// Whether a client has a request in progress.
    pub fn has_clients(&self) -> bool {
        self.iter().any(|(_, request)| request.is_of_client())
    }

    /// Adds a request that is not admitted yet, and returns its key.
    pub fn insert(&mut self, request: Request) -> u64 {
        self.requests.insert(request)
    }

    /// The context of an object, unless it was evicted.
    pub fn context(&self, object: ObjectKey) -> Option<&ObjectContext> {
        self.contexts.get(object)
    }

    pub fn context_mut(&mut self, object: ObjectKey) -> Option<&mut ObjectContext> {
        self.contexts.get_mut(object)
    }

    /// Number of objects in memory.
    pub fn objects_len(&self) -> usize {
        self.contexts.len()
    }

    /// Whether no request is in progress on an object of a group.
    pub fn are_idle(&self, queues: &GroupQueues) -> bool {
        queues.are_idle(&self.contexts)
    }

    /// Evicts the idle objects of a group that are not watched.
    pub fn evict_all(&mut self, queues: &mut GroupQueues, watches: &GroupWatches) {
        queues.evict_all(&mut self.contexts, watches);
    }

    /// Whether the client or the copy of a request does not wait for it any more.
    pub fn is_orphaned(&self, request: &Request, clients: &Clients) -> bool {
        match request.origin {
            Origin::Client { conn } => !clients.contains(conn),
            Origin::Copy { copy } => !self.copies.is_known(copy),
            Origin::WatchTimeout | Origin::SnapTrim { .. } | Origin::Lost { .. } => false,
        }
    }

    /// Adds a loaded part to an attempt of a request. Returns whether that was the last one, so that the
    /// request can go on.
    pub fn need_loaded(&mut self, key: u64, attempt: u32, need: Need, answer: Answer) -> bool {
        let Some(request) = self.requests.get_mut(key) else { return false };
        if request.attempt != attempt {
            return false;
        }
        request.loaded.insert(need, answer);
        request.outstanding -= 1;
        request.outstanding == 0
    }

    /// Reserves memory, so that a request holds `needed` bytes. False if it waits: the request has
    /// restarted, and runs again when the memory is granted. `TOOBIG` if it needs more than the
    /// whole account.
    pub fn reserve(&mut self, budgets: &Budgets, key: u64, needed: u64) -> Result<bool, Errno> {
        self.memory.reserve(&mut self.requests, budgets, key, needed)
    }

    /// Reserves memory for the next request that waits for it and fits, and returns its key.
    pub fn grant_memory(&mut self, budgets: &Budgets) -> Option<u64> {
        self.memory.grant(&mut self.requests, budgets)
    }

    /// Restarts a request, as if it had just arrived, and returns its reservation.
    pub fn start_over(&mut self, key: u64) {
        let Some(request) = self.requests.get_mut(key) else { return };
        self.memory.release(request);
        request.reset();
    }

    /// Panics if the memory of requests exceeds what they have reserved, or that exceeds the budgets.
    pub fn check_memory(&self, budgets: &Budgets) {
        self.memory.check_invariants(&self.requests, budgets);
    }

    /// Takes out the clients' requests that were answered.
    pub fn take_answered(&mut self) -> impl Iterator<Item = Answered> + '_ {
        self.answered.drain(..)
    }

    /// Number of requests for pieces of objects that clients copy, so far.
    pub fn fetches(&self) -> u64 {
        self.copies.fetches()
    }

    /// Whether a request waits for memory.
    pub fn waits_for_memory(&self, key: u64) -> bool {
        self.memory.waits(key)
    }

    /// Whether a request waits for an object that it copies.
    pub fn waits_for_copy(&self, key: u64) -> bool {
        self.copies.waits(key)
    }

    /// The session with an OSD has ended, from which pieces of copies were requested.
    pub fn interrupt_copies(&mut self, osd: OsdId, now: Time) {
        self.copies.interrupt_at(osd, now);
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

    /// Panics if the requests, or the objects of these groups, contradict themselves.
    pub fn check_invariants<'a>(&self, groups: impl Iterator<Item = &'a GroupQueues>) {
        self.requests.check_invariants();
        assert!(self.answered.is_empty(), "answered requests are reported");
        let mut objects = 0;
        for queues in groups {
            queues.check_invariants(&self.contexts);
            objects += queues.objects_len();
        }
        assert_eq!(objects, self.contexts.len(), "each object is in the index of its group");
    }
}
