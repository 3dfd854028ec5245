//! State that a procedure and its steps share: pending requests, and the steps that wait for responses.

use super::guest::{Guest, HostedEngine};
use super::window::Window;
use crate::{
    ClusterRequest, ClusterRequestId, ClusterResponse, Operation, OperationReply, Part, Progress,
    Reply, WatchId,
};
use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;

/// A step that waits for one response.
#[derive(Debug)]
struct Waiting {
    /// The request is only a delay.
    is_delay: bool,
    /// The response, until the step takes it.
    answer: Option<ClusterResponse>,
}

#[derive(Debug, Default)]
pub(super) struct Board {
    /// The largest number given to a request, a window or an engine.
    last: u64,
    requests: VecDeque<(ClusterRequestId, ClusterRequest)>,
    /// Steps by the number of their request.
    open: BTreeMap<u64, Waiting>,
    /// Steps that perform many operations.
    windows: BTreeMap<u64, Window>,
    /// Engines that steps host.
    guests: BTreeMap<u64, Guest>,
    /// Watches that steps have registered, also those that ended.
    watches: Vec<WatchId>,
    label: &'static str,
    /// Progress that a step counts itself.
    progress: Option<Progress>,
}

impl Board {
    fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn push(&mut self, number: u64, request: ClusterRequest) {
        self.requests.push_back((ClusterRequestId { part: Part::STEP, number }, request));
    }

    /// Queues a request; returns the number under which [`Board::take`] gives the response.
    pub fn ask(&mut self, request: ClusterRequest) -> u64 {
        let number = self.next_number();
        let is_delay = matches!(request, ClusterRequest::Wait(_));
        self.open.insert(number, Waiting { is_delay, answer: None });
        self.push(number, request);
        number
    }

    /// Queues a request whose response is dropped.
    pub fn send(&mut self, request: ClusterRequest) {
        self.requests.push_back((ClusterRequestId::DROPPED, request));
    }

    /// The response to a request, once.
    pub fn take(&mut self, number: u64) -> Option<ClusterResponse> {
        let answer = self.open.get_mut(&number)?.answer.take()?;
        self.open.remove(&number);
        Some(answer)
    }

    /// Forgets a step that ended early. A request that was not polled yet is withdrawn.
    pub fn abandon(&mut self, number: u64) {
        if self.open.remove(&number).is_some() {
            self.withdraw(|other| other == number);
        }
    }

    fn withdraw(&mut self, is_meant: impl Fn(u64) -> bool) {
        self.requests.retain(|(id, _)| id.part != Part::STEP || !is_meant(id.number));
    }

    /// Opens a slot for one operation per number; returns its key.
    pub fn open_window(&mut self, numbers: Range<u64>) -> u64 {
        let key = self.next_number();
        self.windows.insert(key, Window::new(numbers));
        key
    }

    /// The window of a slot, which must be open.
    pub fn window(&mut self, key: u64) -> &mut Window {
        self.windows.get_mut(&key).expect("a step of many operations has its window until it ends")
    }

    /// Queues the operation for one number of a window.
    pub fn operate(&mut self, key: u64, number: u64, operation: Operation) {
        let request = self.next_number();
        self.window(key).sent(request, number);
        self.push(request, ClusterRequest::Operate(operation));
    }

    /// Closes a slot; responses that are still to come are dropped.
    pub fn close_window(&mut self, key: u64) {
        if let Some(window) = self.windows.remove(&key) {
            self.withdraw(|number| window.awaits(number));
        }
    }

    /// Opens a slot for a hosted engine; returns its key.
    pub fn open_guest(&mut self, engine: Rc<RefCell<dyn HostedEngine>>) -> u64 {
        let key = self.next_number();
        self.guests.insert(key, Guest::new(engine));
        key
    }

    /// Closes a slot; responses that are still to come are dropped.
    pub fn close_guest(&mut self, key: u64) {
        self.guests.remove(&key);
    }

    /// The engines that steps host, for a moment each.
    pub fn guests(&self) -> impl Iterator<Item = RefMut<'_, dyn HostedEngine + 'static>> {
        self.guests.values().map(|guest| guest.engine.borrow_mut())
    }

    /// The next request of a step, or, if there is none, of a hosted engine.
    pub fn poll_request(&mut self) -> Option<(ClusterRequestId, ClusterRequest)> {
        if let Some(request) = self.requests.pop_front() {
            return Some(request);
        }
        let last = &mut self.last;
        let mut number = || {
            *last += 1;
            *last
        };
        self.guests.values_mut().find_map(|guest| guest.poll_request(&mut number))
    }

    /// True if a step can go on with the response. Late and dropped responses answer no step.
    pub fn handle_response(&mut self, id: ClusterRequestId, answer: ClusterResponse) -> bool {
        if id.part != Part::STEP {
            return false;
        }
        if let Some(window) = self.windows.values_mut().find(|window| window.awaits(id.number)) {
            return window.handle_response(id.number, answer);
        }
        if let Some(guest) = self.guests.values_mut().find(|guest| guest.awaits(id.number)) {
            guest.handle_response(id.number, answer);
            return true;
        }
        let Some(waiting) = self.open.get_mut(&id.number) else { return false };
        if let Ok(Reply::Watching(watch)) = answer {
            self.watches.push(watch);
        }
        waiting.answer = Some(answer);
        true
    }

    /// Ends all delays; true if there were any.
    pub fn end_delays(&mut self) -> bool {
        let mut is_ended = false;
        for waiting in self.open.values_mut() {
            if waiting.is_delay && waiting.answer.is_none() {
                waiting.answer = Some(Ok(Reply::Operation(OperationReply::default())));
                is_ended = true;
            }
        }
        self.requests.retain(|(_, request)| !matches!(request, ClusterRequest::Wait(_)));
        is_ended
    }

    /// True for a watch of the procedure or of an engine that it hosts.
    pub fn has_watch(&self, watch: WatchId) -> bool {
        self.watches.contains(&watch)
    }

    /// Progress of the step that reports one.
    pub fn progress(&self) -> Option<Progress> {
        let window = self.windows.values().next().map(Window::progress);
        self.progress.or(window).or_else(|| self.guests().find_map(|engine| engine.progress()))
    }

    /// Replaces the progress; `None` if the step has none.
    pub fn note_progress(&mut self, progress: Option<Progress>) {
        self.progress = progress;
    }

    /// Names the current step, for debug output.
    pub fn set_label(&mut self, label: &'static str) {
        self.label = label;
    }

    /// Name of the current step; empty if it has none.
    pub fn label(&self) -> &'static str {
        self.label
    }

    /// True if the response to some request is outstanding, or an engine is hosted, which has its own.
    pub fn waits(&self) -> bool {
        let is_unanswered = |waiting: &Waiting| waiting.answer.is_none();
        self.open.values().any(is_unanswered)
            || self.windows.values().any(Window::is_busy)
            || !self.guests.is_empty()
    }

    fn awaits(&self, number: u64) -> bool {
        let is_open = self.open.get(&number).is_some_and(|waiting| waiting.answer.is_none());
        is_open || self.windows.values().any(|window| window.awaits(number))
    }

    /// Panics if slots and requests contradict each other.
    pub fn check_invariants(&self) {
        for (id, _) in self.requests.iter().filter(|(id, _)| id.part == Part::STEP) {
            assert!(self.awaits(id.number), "no step waits for the pending request {id:?}");
        }
        for number in self.open.keys().chain(self.windows.keys()).chain(self.guests.keys()) {
            assert!(*number <= self.last, "the number {number} was not given out");
        }
        for window in self.windows.values() {
            window.check_invariants();
        }
    }
}
