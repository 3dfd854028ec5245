//! A daemon with its storage as one unit that a core can run.

use crate::contract::{DiskStorage, Hosted, StorageIo, StreamEvent, StreamOutput};
use engine::{Daemon, Node, NodeOutput, Storage, Time, sessions_go_to};
use rt::{DiskResult, SocketId};
use types::ParticipantName;

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

impl DiskStorage for NoStorage {}

/// A daemon with its storage.
pub struct DaemonNode<D, S> {
    participant: ParticipantName,
    daemon: D,
    storage: S,
}

impl<D, S> DaemonNode<D, S> {
    /// A daemon of that name towards its peers.
    pub fn new(participant: ParticipantName, daemon: D, storage: S) -> Self {
        DaemonNode { participant, daemon, storage }
    }

    /// The daemon itself, for its owner.
    pub fn daemon_mut(&mut self) -> &mut D {
        &mut self.daemon
    }
}

impl<D, S> Node for DaemonNode<D, S>
where
    D: Daemon,
    S: Storage<Request = D::Request, Completion = D::Completion>,
{
    sessions_go_to!(daemon);

    fn handle_timeout(&mut self, now: Time) {
        if is_due(self.daemon.poll_timeout(), now) {
            self.daemon.handle_timeout(now);
        }
        if is_due(self.storage.poll_timeout(), now) {
            self.storage.handle_timeout(now);
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        let timeouts = [self.daemon.poll_timeout(), self.storage.poll_timeout()];
        timeouts.into_iter().flatten().min()
    }

    fn poll_output(&mut self, now: Time) -> Option<NodeOutput> {
        loop {
            let Some(output) = self.daemon.poll_output() else {
                // Requests may have completed at once, and the completions may cause more.
                let completion = self.storage.poll_completion()?;
                self.daemon.handle_completion(now, completion);
                continue;
            };
            match output.for_sessions() {
                Ok(output) => return Some(output),
                Err(request) => self.storage.submit(now, request),
            }
        }
    }
}

impl<D, S> Hosted for DaemonNode<D, S>
where
    D: Daemon,
    S: DiskStorage<Request = D::Request, Completion = D::Completion>,
{
    fn participant(&self) -> ParticipantName {
        self.participant
    }

    fn pump_storage(&mut self, now: Time) -> bool {
        let mut any = false;
        while let Some(completion) = self.storage.poll_completion() {
            self.daemon.handle_completion(now, completion);
            any = true;
        }
        any
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

    fn close(&mut self) {
        self.storage.close();
    }

    fn is_closed(&self) -> bool {
        self.storage.is_closed()
    }
}

fn is_due(timeout: Option<Time>, now: Time) -> bool {
    timeout.is_some_and(|due| due <= now)
}

/// Daemons of several kinds on one core.
impl Node for Box<dyn Hosted> {
    sessions_go_to!(as_mut());

    fn handle_timeout(&mut self, now: Time) {
        self.as_mut().handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.as_ref().poll_timeout()
    }

    fn poll_output(&mut self, now: Time) -> Option<NodeOutput> {
        self.as_mut().poll_output(now)
    }
}

impl Hosted for Box<dyn Hosted> {
    fn participant(&self) -> ParticipantName {
        self.as_ref().participant()
    }

    fn pump_storage(&mut self, now: Time) -> bool {
        self.as_mut().pump_storage(now)
    }

    fn poll_io(&mut self) -> Option<StorageIo> {
        self.as_mut().poll_io()
    }

    fn handle_io(&mut self, now: Time, token: u64, result: DiskResult) {
        self.as_mut().handle_io(now, token, result);
    }

    fn handle_stream(&mut self, now: Time, socket: SocketId, event: StreamEvent) {
        self.as_mut().handle_stream(now, socket, event);
    }

    fn poll_stream(&mut self) -> Option<(SocketId, StreamOutput)> {
        self.as_mut().poll_stream()
    }

    fn is_open(&self) -> anyhow::Result<bool> {
        self.as_ref().is_open()
    }

    fn check(&mut self) -> anyhow::Result<()> {
        self.as_mut().check()
    }

    fn close(&mut self) {
        self.as_mut().close();
    }

    fn is_closed(&self) -> bool {
        self.as_ref().is_closed()
    }
}
