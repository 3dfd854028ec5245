//! A daemon with its storage as one unit that a core can run.

use crate::contract::{DiskStorage, Hosted, StorageIo, StreamEvent, StreamOutput};
use engine::{CoreLoad, Daemon, Node, NodeOutput, Runner, Storage, Time, sessions_go_to};
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

/// A daemon with its storage. The daemon runs as long as the node exists.
pub struct DaemonNode<D, S> {
    participant: ParticipantName,
    runner: Runner<D, S>,
    check: fn(&D) -> anyhow::Result<()>,
}

impl<D, S> DaemonNode<D, S> {
    /// A daemon of that name towards its peers.
    pub fn new(participant: ParticipantName, daemon: D, storage: S) -> Self {
        let mut runner = Runner::new(storage);
        runner.start(daemon);
        DaemonNode { participant, runner, check: |_| Ok(()) }
    }

    /// The same with a daemon that may be unable to go on: then the function returns the reason.
    pub fn with_check(self, check: fn(&D) -> anyhow::Result<()>) -> Self {
        DaemonNode { check, ..self }
    }

    /// The daemon itself, for its owner.
    pub fn daemon_mut(&mut self) -> &mut D {
        self.runner.daemon_mut().expect("the daemon runs as long as the node exists")
    }
}

impl<D, S> Node for DaemonNode<D, S>
where
    D: Daemon,
    S: Storage<Request = D::Request, Completion = D::Completion>,
{
    sessions_go_to!(runner);

    fn handle_timeout(&mut self, now: Time) {
        self.runner.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.runner.poll_timeout()
    }

    fn handle_load(&mut self, load: CoreLoad) {
        self.runner.handle_load(load);
    }

    fn poll_output(&mut self, now: Time) -> Option<NodeOutput> {
        self.runner.poll_output(now)
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
        self.runner.pump_storage(now)
    }

    fn poll_io(&mut self) -> Option<StorageIo> {
        self.runner.storage_mut().poll_io()
    }

    fn handle_io(&mut self, now: Time, token: u64, result: DiskResult) {
        self.runner.storage_mut().handle_io(now, token, result);
    }

    fn is_open(&self) -> anyhow::Result<bool> {
        self.runner.storage().is_open()
    }

    fn check(&mut self) -> anyhow::Result<()> {
        self.runner.daemon().map_or(Ok(()), self.check)
    }

    fn close(&mut self) {
        self.runner.storage_mut().close();
    }

    fn is_closed(&self) -> bool {
        self.runner.storage().is_closed()
    }
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

    fn handle_load(&mut self, load: CoreLoad) {
        self.as_mut().handle_load(load);
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
