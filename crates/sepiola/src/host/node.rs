//! A daemon with its storage as one unit that a core can run.

use super::streams::{StreamEvent, StreamOutput};
use engine::{
    AuthRequest, AuthVerdict, ConnId, ConnectTarget, ConnectingAnswer, ConnectingStep, Daemon,
    Message, Output, Peer, Time,
};
use rt::{DiskRequest, DiskResult, FileId, SocketId};
use types::ParticipantName;

/// Storage of a daemon's state. Completions are polled after each request, whenever the core was woken, and
/// after a disk operation.
///
/// A storage with threads of its own wakes the core. One without threads uses the core's reactor: its disk
/// operations begin together after the daemons of a turn have run, and completed ones are delivered at the
/// beginning of a turn.
pub trait Storage {
    type Request;
    type Completion;

    fn submit(&mut self, now: Time, request: Self::Request);
    fn poll_completion(&mut self) -> Option<Self::Completion>;
    /// The next disk operation to begin. Completes no request by itself.
    fn poll_io(&mut self) -> Option<StorageIo> {
        None
    }
    fn handle_io(&mut self, _now: Time, _token: u64, _result: DiskResult) {}
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    fn handle_timeout(&mut self, _now: Time) {}
    /// True if it serves requests; an error if it failed to open. Requests are accepted before.
    fn is_open(&self) -> anyhow::Result<bool> {
        Ok(true)
    }
    /// The process is about to end: optional writes are made now.
    fn close(&mut self) {}
    /// True when these writes are done.
    fn is_closed(&self) -> bool {
        true
    }
}

/// A disk operation of a daemon's storage, identified by `token`.
#[derive(Debug)]
pub struct StorageIo {
    pub file: FileId,
    pub token: u64,
    pub request: DiskRequest,
}

/// Storage of daemons without state.
#[derive(Debug, Default)]
pub struct NoStorage;

impl Storage for NoStorage {
    type Request = ();
    type Completion = ();

    fn submit(&mut self, _now: Time, (): ()) {}

    fn poll_completion(&mut self) -> Option<()> {
        None
    }
}

/// Outputs of a daemon other than storage requests.
#[derive(Debug)]
pub enum NodeOutput {
    Send { conn: ConnId, message: Message },
    Connect { conn: ConnId, target: ConnectTarget },
    Close { conn: ConnId },
    Auth { conn: ConnId, verdict: AuthVerdict },
    Pause { conn: ConnId, paused: bool },
}

/// A unit that a core runs.
pub trait Hosted {
    /// Name towards its peers.
    fn participant(&self) -> ParticipantName;
    fn handle_auth(&mut self, now: Time, conn: ConnId, request: AuthRequest);
    fn authenticate(&mut self, now: Time, conn: ConnId, step: ConnectingStep) -> ConnectingAnswer;
    fn handle_refused(&mut self, now: Time, conn: ConnId);
    fn handle_opened(&mut self, now: Time, conn: ConnId, peer: Peer);
    fn handle_message(&mut self, now: Time, conn: ConnId, message: Message);
    fn handle_closed(&mut self, now: Time, conn: ConnId);
    fn handle_timeout(&mut self, now: Time);
    /// Delivers storage completions to the daemon; true if there were any.
    fn pump_storage(&mut self, now: Time) -> bool;
    fn poll_output(&mut self, now: Time) -> Option<NodeOutput>;
    fn poll_timeout(&self) -> Option<Time>;
    /// See [`Storage::poll_io`].
    fn poll_io(&mut self) -> Option<StorageIo> {
        None
    }
    fn handle_io(&mut self, _now: Time, _token: u64, _result: DiskResult) {}
    /// An event of a connection that is not a session.
    fn handle_stream(&mut self, _now: Time, _socket: SocketId, _event: StreamEvent) {}
    fn poll_stream(&mut self) -> Option<(SocketId, StreamOutput)> {
        None
    }
    /// See [`Storage::is_open`].
    fn is_open(&self) -> anyhow::Result<bool> {
        Ok(true)
    }
    /// See [`Storage::close`].
    fn close_storage(&mut self) {}
    fn is_storage_closed(&self) -> bool {
        true
    }
}

/// Delegates session events to a component of the daemon.
macro_rules! sessions_go_to {
    ($($part:tt)+) => {
        fn handle_auth(&mut self, now: Time, conn: ConnId, request: engine::AuthRequest) {
            self.$($part)+.handle_auth(now, conn, request);
        }

        fn handle_refused(&mut self, now: Time, conn: ConnId) {
            self.$($part)+.handle_refused(now, conn);
        }

        fn handle_opened(&mut self, now: Time, conn: ConnId, peer: engine::Peer) {
            self.$($part)+.handle_opened(now, conn, peer);
        }

        fn handle_message(&mut self, now: Time, conn: ConnId, message: engine::Message) {
            self.$($part)+.handle_message(now, conn, message);
        }

        fn handle_closed(&mut self, now: Time, conn: ConnId) {
            self.$($part)+.handle_closed(now, conn);
        }
    };
}
pub(crate) use sessions_go_to;

/// A daemon with its storage.
pub struct DaemonNode<D, S> {
    participant: ParticipantName,
    daemon: D,
    storage: S,
}

impl<D, S> DaemonNode<D, S> {
    pub fn new(participant: ParticipantName, daemon: D, storage: S) -> Self {
        DaemonNode { participant, daemon, storage }
    }

    pub fn daemon_mut(&mut self) -> &mut D {
        &mut self.daemon
    }
}

impl<D, S> Hosted for DaemonNode<D, S>
where
    D: Daemon,
    S: Storage<Request = D::Request, Completion = D::Completion>,
{
    fn participant(&self) -> ParticipantName {
        self.participant
    }

    sessions_go_to!(daemon);

    fn authenticate(&mut self, now: Time, conn: ConnId, step: ConnectingStep) -> ConnectingAnswer {
        self.daemon.authenticate(now, conn, step)
    }

    fn handle_timeout(&mut self, now: Time) {
        if is_due(self.daemon.poll_timeout(), now) {
            self.daemon.handle_timeout(now);
        }
        if is_due(self.storage.poll_timeout(), now) {
            self.storage.handle_timeout(now);
        }
    }

    fn pump_storage(&mut self, now: Time) -> bool {
        let mut any = false;
        while let Some(completion) = self.storage.poll_completion() {
            self.daemon.handle_completion(now, completion);
            any = true;
        }
        any
    }

    fn poll_output(&mut self, now: Time) -> Option<NodeOutput> {
        loop {
            return Some(match self.daemon.poll_output() {
                Some(Output::Storage(request)) => {
                    self.storage.submit(now, request);
                    continue;
                }
                Some(Output::Send { conn, message }) => NodeOutput::Send { conn, message },
                Some(Output::Connect { conn, target }) => NodeOutput::Connect { conn, target },
                Some(Output::Close { conn }) => NodeOutput::Close { conn },
                Some(Output::Auth { conn, verdict }) => NodeOutput::Auth { conn, verdict },
                Some(Output::Pause { conn, paused }) => NodeOutput::Pause { conn, paused },
                None => {
                    // Requests may have completed at once, and the completions may cause more.
                    let completion = self.storage.poll_completion()?;
                    self.daemon.handle_completion(now, completion);
                    continue;
                }
            });
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        let timeouts = [self.daemon.poll_timeout(), self.storage.poll_timeout()];
        timeouts.into_iter().flatten().min()
    }

    fn poll_io(&mut self) -> Option<StorageIo> {
        self.storage.poll_io()
    }

    fn handle_io(&mut self, now: Time, token: u64, result: DiskResult) {
        self.storage.handle_io(now, token, result);
    }

    fn is_open(&self) -> anyhow::Result<bool> {
        self.storage.is_open()
    }

    fn close_storage(&mut self) {
        self.storage.close();
    }

    fn is_storage_closed(&self) -> bool {
        self.storage.is_closed()
    }
}

fn is_due(timeout: Option<Time>, now: Time) -> bool {
    timeout.is_some_and(|due| due <= now)
}
