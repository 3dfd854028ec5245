//! The interface between a host and what it runs: a daemon together with its storage.

use crate::{
    AuthRequest, ConnId, ConnectingAnswer, ConnectingStep, CoreLoad, Message, Output, Peer, Time,
};
use std::convert::Infallible;

/// Storage of a daemon's state.
///
/// The host passes it the daemon's requests and returns its completions to the daemon. Completions may
/// come in any order that the contract of the requests permits, and at once.
pub trait Storage {
    /// A request.
    type Request;
    /// Completion of a request.
    type Completion;

    /// Begins a request.
    fn submit(&mut self, now: Time, request: Self::Request);
    /// The next completion; `None` if there is none now.
    fn poll_completion(&mut self) -> Option<Self::Completion>;
    /// Time at which `handle_timeout` has work to do.
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    /// Called at or after the time of `poll_timeout`.
    fn handle_timeout(&mut self, _now: Time) {}
    /// Called when the daemon has submitted all requests that its last inputs cause.
    fn end_turn(&mut self, _now: Time) {}
}

/// Output of a node: [`Output`] without [`Output::Storage`], whose requests the node has submitted.
pub type NodeOutput = Output<Infallible>;

impl<R> Output<R> {
    /// Separates what concerns sessions from storage requests.
    ///
    /// # Errors
    ///
    /// The storage request, if it is one.
    pub fn for_sessions(self) -> Result<NodeOutput, R> {
        Ok(match self {
            Output::Send { conn, message } => Output::Send { conn, message },
            Output::Connect { conn, target } => Output::Connect { conn, target },
            Output::Close { conn } => Output::Close { conn },
            Output::Auth { conn, verdict } => Output::Auth { conn, verdict },
            Output::Pause { conn, paused } => Output::Pause { conn, paused },
            Output::Storage(request) => return Err(request),
        })
    }
}

/// A daemon together with its storage, as a host runs it. The methods are those of
/// [`Daemon`](crate::Daemon); the storage is inside.
pub trait Node {
    /// A connecting peer authenticates.
    fn handle_auth(&mut self, now: Time, conn: ConnId, request: AuthRequest);
    /// Authenticates on a session that the daemon opens.
    fn authenticate(&mut self, now: Time, conn: ConnId, step: ConnectingStep) -> ConnectingAnswer;
    /// The target of a session does not listen.
    fn handle_refused(&mut self, now: Time, conn: ConnId);
    /// A session is open.
    fn handle_opened(&mut self, now: Time, conn: ConnId, peer: Peer);
    /// A message has arrived.
    fn handle_message(&mut self, now: Time, conn: ConnId, message: Message);
    /// A session has ended.
    fn handle_closed(&mut self, now: Time, conn: ConnId);
    /// Timers of the daemon and of its storage.
    fn handle_timeout(&mut self, now: Time);
    /// Time at which `handle_timeout` has work to do.
    fn poll_timeout(&self) -> Option<Time>;
    /// The load of its core; called about once a second.
    fn handle_load(&mut self, _load: CoreLoad) {}
    /// The next output; storage requests were submitted.
    fn poll_output(&mut self, now: Time) -> Option<NodeOutput>;
}

/// Delegates what concerns sessions to a component that is a [`Node`] or a [`Daemon`](crate::Daemon).
#[macro_export]
macro_rules! sessions_go_to {
    ($($part:tt)+) => {
        fn handle_auth(
            &mut self,
            now: $crate::Time,
            conn: $crate::ConnId,
            request: $crate::AuthRequest,
        ) {
            self.$($part)+.handle_auth(now, conn, request);
        }

        fn authenticate(
            &mut self,
            now: $crate::Time,
            conn: $crate::ConnId,
            step: $crate::ConnectingStep,
        ) -> $crate::ConnectingAnswer {
            self.$($part)+.authenticate(now, conn, step)
        }

        fn handle_refused(&mut self, now: $crate::Time, conn: $crate::ConnId) {
            self.$($part)+.handle_refused(now, conn);
        }

        fn handle_opened(&mut self, now: $crate::Time, conn: $crate::ConnId, peer: $crate::Peer) {
            self.$($part)+.handle_opened(now, conn, peer);
        }

        fn handle_message(
            &mut self,
            now: $crate::Time,
            conn: $crate::ConnId,
            message: $crate::Message,
        ) {
            self.$($part)+.handle_message(now, conn, message);
        }

        fn handle_closed(&mut self, now: $crate::Time, conn: $crate::ConnId) {
            self.$($part)+.handle_closed(now, conn);
        }
    };
}
