//! Engines that a step hosts: their requests pass through the procedure under its own numbers.

use crate::{
    ClusterRequest, ClusterRequestId, ClusterResponse, Part, Progress, RequestSource, WatchEvent,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// An engine that a step of a procedure can host.
pub trait HostedEngine: RequestSource {
    /// Handles an event of a watch; false if this engine has not registered the watch.
    fn handle_watch_event(&mut self, event: &WatchEvent) -> bool;
    /// Progress of the engine's own work.
    fn progress(&self) -> Option<Progress>;
}

/// A hosted engine. It is borrowed for moments only: here, and by its step between two responses.
pub(super) struct Guest {
    /// Shared with the step that hosts it.
    pub engine: Rc<RefCell<dyn HostedEngine>>,
    /// The engine's own ids of its requests in flight, by the procedure's number.
    in_flight: BTreeMap<u64, ClusterRequestId>,
}

impl Guest {
    /// A guest with no request in flight.
    pub fn new(engine: Rc<RefCell<dyn HostedEngine>>) -> Self {
        Guest { engine, in_flight: BTreeMap::new() }
    }

    /// The engine's next request, with an id that `number` gives if it has a response.
    pub fn poll_request(
        &mut self,
        number: impl FnOnce() -> u64,
    ) -> Option<(ClusterRequestId, ClusterRequest)> {
        let (id, request) = self.engine.borrow_mut().poll_request()?;
        if id.part == Part::DROPPED {
            return Some((id, request));
        }
        let number = number();
        let former = self.in_flight.insert(number, id);
        assert!(former.is_none(), "request {number} is in flight");
        Some((ClusterRequestId { part: Part::STEP, number }, request))
    }

    /// True if the response to the request is the engine's.
    pub fn awaits(&self, number: u64) -> bool {
        self.in_flight.contains_key(&number)
    }

    /// Passes a response on under the engine's own id.
    pub fn handle_response(&mut self, number: u64, answer: ClusterResponse) {
        if let Some(id) = self.in_flight.remove(&number) {
            self.engine.borrow_mut().handle_response(id, answer);
        }
    }
}

impl fmt::Debug for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guest").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}
