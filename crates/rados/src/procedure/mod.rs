//! Procedures: sequences of requests to the cluster, written as `async` functions.
//!
//! A [`Procedure`] owns the future of such a function and polls it itself: when it is made, when a response
//! arrives that a step waits for, and when a delay is ended. There is no executor and no waker, so that the
//! same responses in the same order lead to the same requests. The function awaits nothing but [`Steps`].
//!
//! ```text
//! Procedure::new(async move |steps| { steps.read(..).await?; steps.for_each(..).await?; .. })
//!   poll_request -> ClusterRequest;  handle_response, end_delay, handle_watch_event
//!   poll_outcome -> T, once
//! ```
//!
//! Invariants:
//! * The numbers of requests never repeat within a procedure, so a late response answers no other step.
//! * A procedure that is not over waits for at least one response: it cannot hang.
//! * To drop a procedure is to end it where it waits. What it holds then (a lock, a watch) stays until it
//!   times out.
//!
//! Criterion: code that asks and waits is a procedure; code that is told, at any time, is a state machine.

mod board;
mod guest;
mod steps;
#[cfg(test)]
mod tests;
mod window;

pub use guest::HostedEngine;
pub use steps::Steps;

use crate::{
    ClusterRequest, ClusterRequestId, ClusterResponse, Progress, RequestSource, WatchEvent,
};
use board::Board;
use bytes::Bytes;
use std::cell::RefCell;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// See the module's description.
pub struct Procedure<T> {
    /// `None` once it is over.
    future: Option<Pin<Box<dyn Future<Output = T>>>>,
    board: Rc<RefCell<Board>>,
    outcome: Option<T>,
}

impl<T> Procedure<T> {
    /// Makes a procedure and runs it until it waits.
    pub fn new<F: Future<Output = T> + 'static>(run: impl FnOnce(Steps) -> F) -> Self {
        let board = Rc::new(RefCell::new(Board::default()));
        let future: Pin<Box<dyn Future<Output = T>>> = Box::pin(run(Steps::new(board.clone())));
        let mut procedure = Procedure { future: Some(future), board, outcome: None };
        procedure.run();
        procedure
    }

    fn run(&mut self) {
        let Some(future) = &mut self.future else { return };
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(outcome) = future.as_mut().poll(&mut context) {
            self.future = None;
            self.outcome = Some(outcome);
        }
    }

    /// True once the function has returned. Requests whose responses are dropped may still be pending.
    pub fn is_over(&self) -> bool {
        self.future.is_none()
    }

    /// Returns the outcome once, when the procedure is over.
    pub fn poll_outcome(&mut self) -> Option<T> {
        self.outcome.take()
    }

    /// Progress of the step in progress, if it performs one operation for each of many numbers, hosts an
    /// engine that knows its own, or counts it itself.
    pub fn progress(&self) -> Option<Progress> {
        self.board.borrow().progress()
    }

    /// Ends the delays in which the procedure is.
    pub fn end_delay(&mut self) {
        let is_ended = self.board.borrow_mut().end_delays();
        if is_ended {
            self.run();
        }
    }

    /// Handles an event of a watch; false if neither a step of this procedure nor an engine that it hosts has
    /// registered the watch. A step's notification is acknowledged with the reply that `answer` makes of its
    /// payload.
    pub fn handle_watch_event(
        &mut self,
        event: &WatchEvent,
        answer: impl FnOnce(&Bytes) -> Bytes,
    ) -> bool {
        let mut board = self.board.borrow_mut();
        if board.guests().any(|mut engine| engine.handle_watch_event(event)) {
            return true;
        }
        match event {
            WatchEvent::Notified { watch, notify_id, payload, .. } if board.has_watch(*watch) => {
                let (watch, notify_id, reply) = (*watch, *notify_id, answer(payload));
                board.send(ClusterRequest::Acknowledge { watch, notify_id, reply });
                true
            }
            WatchEvent::Lost { watch, .. } => board.has_watch(*watch),
            WatchEvent::Notified { .. } => false,
        }
    }

    /// Panics if the state contradicts itself. The locals of the function are its own to assert.
    pub fn check_invariants(&self) {
        let board = self.board.borrow();
        board.check_invariants();
        assert_eq!(
            board.waits(),
            !self.is_over(),
            "a procedure waits for a response until it is over, in the step {:?}",
            board.label()
        );
        assert!(self.outcome.is_none() || self.is_over(), "an outcome of a procedure that runs");
    }
}

impl<T> RequestSource for Procedure<T> {
    fn poll_request(&mut self) -> Option<(ClusterRequestId, ClusterRequest)> {
        self.board.borrow_mut().poll_request()
    }

    fn handle_response(&mut self, id: ClusterRequestId, answer: ClusterResponse) {
        let can_go_on = self.board.borrow_mut().handle_response(id, answer);
        if can_go_on {
            self.run();
        }
    }
}

impl<T> fmt::Debug for Procedure<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Procedure").field("board", &self.board.borrow()).finish_non_exhaustive()
    }
}
