//! Work on volumes that a worker does for the leader, as commands tell of it and read it.

use crate::command::Answer;
use serde_json::Value;
use std::collections::BTreeMap;

/// An effect of a command on the orders, which follows once the leader is confirmed.
#[derive(Debug, Clone)]
pub enum Note {
    /// The command waits for the outcome of an order: its content, and whether it may lead to work in the
    /// background on a volume.
    Order { content: Value, adds_work: Option<i64> },
    /// A worker waits for an order.
    Take { worker: String },
    /// A worker has carried out an order.
    Done { worker: String, id: u64, answer: Answer },
    /// A worker tells how far its copies are.
    Progress { worker: String, clones: Vec<CloneProgress> },
}

impl Note {
    /// Whether its command is answered later.
    pub fn is_awaited(&self) -> bool {
        matches!(self, Note::Order { .. } | Note::Take { .. })
    }
}

/// A copy of a snapshot in progress, as its worker reported it.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct CloneProgress {
    pub id: String,
    /// A sentence for `status`.
    pub message: String,
    /// From zero to one.
    pub progress: f64,
    /// Seconds since 1970.
    pub started: u64,
}

/// Facts about the work, for commands.
#[derive(Debug, Default)]
pub struct VolumeWork {
    /// The worker that gets all orders.
    pub trusted: Option<String>,
    /// Copies in progress.
    pub clones: Vec<CloneProgress>,
    /// Number of orders that have added work in the background, by the number of the file system.
    pub generation: BTreeMap<i64, u64>,
}

impl VolumeWork {
    /// Whether a worker is to do the work in the background.
    pub fn is_trusted(&self, worker: &str) -> bool {
        self.trusted.as_deref() == Some(worker)
    }

    /// The generation of the work in the background of a volume: there may be more when it has grown.
    pub fn generation(&self, fs: i64) -> u64 {
        self.generation.get(&fs).copied().unwrap_or(0)
    }
}
