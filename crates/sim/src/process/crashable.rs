//! A daemon with its disk, which outlives the daemon.

use super::disk::{Disk, Paced};
use engine::{Daemon, Node, NodeOutput, Runner, Storage, Time, sessions_go_to};
use std::fmt::Debug;

/// A process is the daemon in its field `crashable`, and nothing else has a part in its events.
macro_rules! is_its_crashable {
    ($process:ty) => {
        impl engine::Node for $process {
            engine::sessions_go_to!(crashable);

            fn handle_timeout(&mut self, now: engine::Time) {
                self.crashable.handle_timeout(now);
            }

            fn poll_timeout(&self) -> Option<engine::Time> {
                self.crashable.poll_timeout()
            }

            fn poll_output(&mut self, now: engine::Time) -> Option<engine::NodeOutput> {
                self.crashable.poll_output(now)
            }
        }
    };
}
pub(super) use is_its_crashable;

/// A daemon, while it runs, with its disk.
pub struct Crashable<D, S> {
    runner: Runner<D, Paced<S>>,
}

impl<D, S> Crashable<D, S>
where
    S: Disk,
{
    /// An empty or filled disk, over which no daemon runs yet.
    pub fn new(disk: S) -> Self {
        Crashable { runner: Runner::new(Paced::new(disk)) }
    }

    /// Starts a daemon over the disk.
    pub fn start(&mut self, daemon: D) {
        self.runner.start(daemon);
    }

    /// Loses the daemon, and state of the disk that is not durable.
    pub fn crash(&mut self) {
        self.runner.stop();
        self.runner.storage_mut().crash();
    }

    /// The daemon, if it runs.
    pub fn daemon(&self) -> Option<&D> {
        self.runner.daemon()
    }

    /// The daemon, if it runs.
    pub fn daemon_mut(&mut self) -> Option<&mut D> {
        self.runner.daemon_mut()
    }

    /// The disk, which outlives the daemon.
    pub fn disk(&self) -> &S {
        &self.runner.storage().disk
    }

    /// The disk, which outlives the daemon.
    pub fn disk_mut(&mut self) -> &mut S {
        &mut self.runner.storage_mut().disk
    }

    /// Digest of all outputs of all lives so far.
    pub fn digest(&self) -> u64 {
        self.runner.storage().digest()
    }
}

impl<D, S> Node for Crashable<D, S>
where
    D: Daemon,
    D::Request: Debug,
    S: Disk<Request = D::Request, Completion = D::Completion>,
{
    sessions_go_to!(runner);

    fn handle_timeout(&mut self, now: Time) {
        // A disk follows the clock of its process, whatever is due.
        self.runner.storage_mut().handle_timeout(now);
        self.runner.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.runner.poll_timeout()
    }

    fn poll_output(&mut self, now: Time) -> Option<NodeOutput> {
        let output = self.runner.poll_output(now)?;
        self.runner.storage_mut().note_output(&output);
        Some(output)
    }
}
