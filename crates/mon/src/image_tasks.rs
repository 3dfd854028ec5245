//! Work on block images that goes on in the background, as Ceph's manager module `rbd_support` has it.
//!
//! A task waits in the control store until a worker takes it. A worker has a client of its own; it says again
//! and again that it is still at it, and whoever falls silent loses the task to the next one that asks.

use std::collections::BTreeMap;

/// Ceph's name of who answers commands about these, which capabilities use.
pub const MODULE: &str = "rbd_support";
/// A worker that has said nothing for so many seconds is gone.
pub const SILENCE_MAX: u64 = 60;
/// Seconds until what failed is tried again.
pub const RETRY_AFTER: u64 = 30;
/// For so long a task that is done is what an equal request means: it may have been sent again.
pub const REPLAY_MAX: std::time::Duration = std::time::Duration::from_secs(60);
/// Tasks that are remembered after they are done.
pub const COMPLETED_MAX: usize = 50;
/// Tasks that may wait.
pub const TASKS_MAX: usize = 10_000;

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ImageTask {
    pub id: String,
    pub message: String,
    /// What clients know of it: `action`, `pool_name`, `pool_namespace`, and `image_name` or `image_id`.
    pub refs: BTreeMap<String, String>,
    /// Who is at it, and when that was last heard of, in seconds since 1970.
    #[serde(default)]
    pub worker: Option<String>,
    #[serde(default)]
    pub heard: u64,
    /// When the worker took it.
    #[serde(default)]
    pub started: u64,
    /// From zero to one.
    #[serde(default)]
    pub progress: f64,
    #[serde(default)]
    pub is_canceled: bool,
    /// Why it failed the last time, and when it is tried again.
    #[serde(default)]
    pub failure: Option<String>,
    #[serde(default)]
    pub not_before: u64,
}

impl ImageTask {
    /// Whether somebody is at it.
    pub fn is_under_way(&self, now: u64) -> bool {
        self.worker.is_some() && now < self.heard + SILENCE_MAX
    }

    pub fn may_be_taken(&self, now: u64) -> bool {
        !self.is_under_way(now) && now >= self.not_before
    }
}
