//! One operation for each number of a range, a bounded count of them in flight.

use crate::{ClusterResponse, Progress};
use std::ops::Range;

/// Operations of one window in flight, and the number left in flight at which more are sent.
pub(super) const IN_FLIGHT_MAX: usize = 64;
pub(super) const IN_FLIGHT_LOW: usize = IN_FLIGHT_MAX / 2;

/// Progress of such a step.
#[derive(Debug)]
pub(super) struct Window {
    /// Numbers without an operation yet.
    rest: Range<u64>,
    total: u64,
    /// Numbers that were answered or skipped.
    done: u64,
    /// Number of the request, and the number that its operation is for.
    in_flight: Vec<(u64, u64)>,
    /// Responses that the step has not taken yet, by the number of the operation.
    arrived: Vec<(u64, ClusterResponse)>,
}

impl Window {
    /// A window of which no operation is in flight.
    pub fn new(numbers: Range<u64>) -> Self {
        let total = numbers.end.saturating_sub(numbers.start);
        let (in_flight, arrived) = (Vec::new(), Vec::new());
        Window { rest: numbers, total, done: 0, in_flight, arrived }
    }

    /// The next number that is to get an operation, if another one may be in flight.
    pub fn next(&mut self) -> Option<u64> {
        if self.in_flight.len() < IN_FLIGHT_MAX { self.rest.next() } else { None }
    }

    /// Notes that the operation for `number` was sent as `request`.
    pub fn sent(&mut self, request: u64, number: u64) {
        self.in_flight.push((request, number));
    }

    /// Notes that a number needs no operation.
    pub fn skipped(&mut self) {
        self.done += 1;
    }

    /// Sends no more operations.
    pub fn stop(&mut self) {
        self.rest.start = self.rest.end;
    }

    /// True if `request` is one of this window's.
    pub fn awaits(&self, request: u64) -> bool {
        self.in_flight.iter().any(|(other, _)| *other == request)
    }

    /// True if operations are in flight.
    pub fn is_busy(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Takes a response; true if the step is to go on now, because few operations are left in flight.
    pub fn handle_response(&mut self, request: u64, answer: ClusterResponse) -> bool {
        let Some(at) = self.in_flight.iter().position(|(other, _)| *other == request) else {
            return false;
        };
        let (_, number) = self.in_flight.swap_remove(at);
        self.arrived.push((number, answer));
        self.done += 1;
        self.is_due()
    }

    fn is_due(&self) -> bool {
        let low = if self.rest.is_empty() { 0 } else { IN_FLIGHT_LOW };
        self.in_flight.len() <= low
    }

    /// Moves the responses into the empty `buffer`, in the order of their arrival, if the step is to go on.
    pub fn take_arrived(&mut self, buffer: &mut Vec<(u64, ClusterResponse)>) -> bool {
        let is_due = self.is_due();
        if is_due {
            std::mem::swap(&mut self.arrived, buffer);
        }
        is_due
    }

    /// Numbers done, of all.
    pub fn progress(&self) -> Progress {
        Progress { done: self.done, total: self.total }
    }

    /// Panics if the counts contradict each other.
    pub fn check_invariants(&self) {
        assert!(self.in_flight.len() <= IN_FLIGHT_MAX, "too many operations are in flight");
        assert!(self.done <= self.total, "more is done than there is to do");
        assert!(self.is_busy() || self.arrived.is_empty(), "no response is left to its step");
    }
}
