//! Options of a running server, and commands that wait.

use engine::{ConnId, Time};
use wire::options::Running;

/// Commands that wait for an answer. Further ones are refused.
const PENDING_MAX: usize = 64;

/// Options of the running server, and commands that are not answered yet.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    /// Values of the configuration database, and of `config set`.
    pub options: Running,
    /// When the server began.
    pub started: Option<Time>,
    pending: Vec<Pending>,
}

/// A command that is not answered yet.
#[derive(Debug)]
pub(crate) struct Pending {
    /// The session of its sender.
    pub conn: ConnId,
    /// Number of the command there.
    pub tid: u64,
    /// The event that answers it.
    pub what: Awaited,
}

/// An event that a command waits for.
#[derive(Debug)]
pub(crate) enum Awaited {
    /// A checkpoint with this record is stored.
    Checkpoint(u64),
    /// These clients are evicted.
    Evictions(Vec<u64>),
}

impl Commands {
    /// Whether no further command may wait.
    pub fn is_full(&self) -> bool {
        self.pending.len() >= PENDING_MAX
    }

    /// A command waits.
    pub fn wait(&mut self, pending: Pending) {
        self.pending.push(pending);
    }

    /// Takes all that wait. Those that are not done wait again.
    pub fn take(&mut self) -> Vec<Pending> {
        std::mem::take(&mut self.pending)
    }

    /// A session has ended: its commands need no answers.
    pub fn forget(&mut self, conn: ConnId) {
        self.pending.retain(|pending| pending.conn != conn);
    }
}
