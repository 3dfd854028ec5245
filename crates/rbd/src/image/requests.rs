//! Requests of an open image: those that wait, those in flight with their results, those that completed.

use super::access::{Action, Waiter};
use super::assemble::{AccessResult, map, pieces};
use super::request::{Outcome, Request, RequestId};
use crate::{Error, Extent, Layout};
use std::collections::VecDeque;
use std::ops::Range;
use stdx::Slab;

/// Concurrent accesses of one request. Further ones wait.
const ACCESSES_MAX: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Requests {
    pending: Slab<Pending>,
    /// Requests that wait for the header or the lock, in order.
    held: VecDeque<u64>,
    completions: VecDeque<(RequestId, Result<Outcome, Error>)>,
    /// Write requests that have begun and not completed.
    writes: usize,
}

/// A request that has not completed.
#[derive(Debug)]
struct Pending {
    /// Accesses not yet begun.
    work: Option<Work>,
    kind: Kind,
    is_write: bool,
    has_begun: bool,
    /// Accesses in flight.
    in_flight: usize,
    /// In the order of the image; only for requests that return data.
    extents: Vec<Extent>,
    found: Vec<AccessResult>,
    error: Option<Error>,
}

#[derive(Debug)]
struct Work {
    request: Request,
    /// The part of the range for which no access was begun yet.
    rest: Range<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Map,
    Other,
}

impl Pending {
    fn new(request: Request) -> Self {
        let kind = match request {
            Request::Read { .. } => Kind::Read,
            Request::Map { .. } => Kind::Map,
            _ => Kind::Other,
        };
        let (offset, length) = request.range();
        let rest = offset..offset.saturating_add(length);
        let (extents, found) = (Vec::new(), Vec::new());
        let (is_write, has_begun) = (request.writes(), false);
        let work = Some(Work { request, rest });
        Pending { work, kind, is_write, has_begun, in_flight: 0, extents, found, error: None }
    }

    fn outcome(self) -> Result<Outcome, Error> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let parts = self.extents.into_iter().zip(self.found);
        Ok(match self.kind {
            Kind::Other => Outcome::Done,
            Kind::Read => Outcome::Data(pieces(parts)),
            Kind::Map => Outcome::Map(map(parts)),
        })
    }
}

/// An access that a request needs next.
pub(super) struct NextAccess {
    /// Consumer of the result: this request and the index of the extent.
    pub waiter: Waiter,
    /// Number of the data object.
    pub object: u64,
    /// Operation on the object.
    pub action: Action,
}

impl Requests {
    /// Adds a request; the result is its key until it completes.
    pub fn submit(&mut self, request: Request) -> u64 {
        self.pending.insert(Pending::new(request))
    }

    /// Number of requests that have not completed.
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// True if no request is pending.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// True if a write request has begun and not completed.
    pub fn has_writes(&self) -> bool {
        self.writes > 0
    }

    /// The next outcome.
    pub fn poll_completion(&mut self) -> Option<(RequestId, Result<Outcome, Error>)> {
        self.completions.pop_front()
    }

    /// Queues a request that cannot begin yet.
    pub fn hold(&mut self, key: u64) {
        self.held.push_back(key);
    }

    /// Key of the oldest request that waits for header or lock.
    pub fn first_held(&self) -> Option<u64> {
        self.held.front().copied()
    }

    /// Removes the oldest waiting request from the queue; it may begin now.
    pub fn release_first(&mut self) {
        self.held.pop_front();
    }

    /// Empties the queue of waiting requests.
    pub fn take_held(&mut self) -> VecDeque<u64> {
        std::mem::take(&mut self.held)
    }

    /// True if the request changes the image.
    pub fn is_write(&self, key: u64) -> bool {
        self.pending.get(key).is_some_and(|pending| pending.is_write)
    }

    /// The request, while accesses may still begin.
    pub fn get(&self, key: u64) -> Option<&Request> {
        self.pending.get(key)?.work.as_ref().map(|work| &work.request)
    }

    /// Marks a request as begun. A copy-up is limited to the part of the image that has a parent.
    pub fn begin(&mut self, key: u64, overlap: u64) {
        let Some(pending) = self.pending.get_mut(key) else { return };
        assert!(!pending.has_begun, "a request begins once");
        pending.has_begun = true;
        self.writes += usize::from(pending.is_write);
        if let Some(Work { request: Request::CopyUp { .. }, rest }) = &mut pending.work {
            rest.end = rest.end.min(overlap).max(rest.start);
        }
    }

    /// Cuts off the next access of a request, unless enough are in flight.
    pub fn next_access(&mut self, key: u64, layout: Layout) -> Option<NextAccess> {
        let pending = self.pending.get_mut(key)?;
        if pending.in_flight >= ACCESSES_MAX {
            return None;
        }
        let Work { request, rest } = pending.work.as_mut()?;
        let Some(extent) = layout.extents(rest.start, rest.end - rest.start).next() else {
            pending.work = None;
            return None;
        };
        let buffer_offset = rest.start - request.range().0;
        rest.start += extent.length;
        let extent = Extent { buffer_offset, ..extent };
        let action = action(request, &extent, layout.object_size());
        let index = pending.extents.len();
        if pending.kind != Kind::Other {
            pending.extents.push(extent);
            pending.found.push(AccessResult::Nothing);
        }
        let waiter = Waiter::Request { key, index };
        Some(NextAccess { waiter, object: extent.object, action })
    }

    /// Counts an access of the request that has been begun.
    pub fn access_begins(&mut self, key: u64) {
        if let Some(pending) = self.pending.get_mut(key) {
            pending.in_flight += 1;
        }
    }

    /// Notes the result of an access; false if the request does not exist.
    pub fn access_completed(
        &mut self,
        key: u64,
        index: usize,
        found: Result<AccessResult, Error>,
    ) -> bool {
        let Some(pending) = self.pending.get_mut(key) else { return false };
        pending.in_flight -= 1;
        match found {
            Ok(AccessResult::Nothing) => {}
            Ok(found) => pending.found[index] = found,
            Err(error) => self.fail(key, error),
        }
        true
    }

    /// Stops beginning accesses; the request fails when those in flight end.
    pub fn fail(&mut self, key: u64, error: Error) {
        if let Some(pending) = self.pending.get_mut(key) {
            pending.work = None;
            pending.error = Some(error);
        }
    }

    /// True if no access of the request is in flight.
    pub fn is_idle(&self, key: u64) -> bool {
        self.pending.get(key).is_some_and(|pending| pending.in_flight == 0)
    }

    /// Queues the completion of a request; true if it was a write that had begun.
    pub fn complete(&mut self, key: u64) -> bool {
        let Some(pending) = self.pending.remove(key) else { return false };
        let is_write = pending.is_write && pending.has_begun;
        self.completions.push_back((RequestId(key), pending.outcome()));
        self.writes -= usize::from(is_write);
        is_write
    }

    /// Panics if the state contradicts itself.
    pub fn check_invariants(&self) {
        let begun = self.pending.iter().filter(|(_, one)| one.is_write && one.has_begun).count();
        assert_eq!(self.writes, begun, "the number of writes in flight");
        for (key, one) in self.pending.iter() {
            assert!(one.in_flight <= ACCESSES_MAX, "request {key} has {} accesses", one.in_flight);
            assert!(one.has_begun || one.in_flight == 0, "request {key} has not begun");
            assert!(one.has_begun || self.held.contains(&key), "request {key} is forgotten");
            assert!(!one.has_begun || one.in_flight > 0, "request {key} is never completed");
        }
        for key in &self.held {
            assert!(self.pending.get(*key).is_some(), "request {key} is held and gone");
        }
    }
}

fn action(request: &Request, extent: &Extent, object_size: u64) -> Action {
    let Extent { offset, length, buffer_offset, .. } = *extent;
    match request {
        Request::Read { .. } => Action::Read { offset, length },
        Request::Map { .. } => Action::Map { offset, length },
        Request::Write { data, .. } => {
            let (start, end) = (buffer_offset as usize, (buffer_offset + length) as usize);
            Action::Write { offset, data: data.slice(start..end) }
        }
        Request::CopyUp { .. } => Action::CopyUp,
        _ if length == object_size => Action::Remove,
        _ if offset + length == object_size => Action::Truncate { size: offset },
        _ => Action::Zero { offset, length },
    }
}
