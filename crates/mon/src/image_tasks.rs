//! Background tasks on block images (`ceph rbd task`), as in Ceph's manager module `rbd_support`.
//!
//! A task waits in the control store until a worker takes it. A worker is a process with a client of its own;
//! it reports progress regularly, and a worker that falls silent loses the task to the next worker that asks.

use std::collections::BTreeMap;

/// The manager module that Ceph names in capabilities for these commands.
pub const MODULE: &str = "rbd_support";
/// The pool of images that are named without one.
pub const POOL_DEFAULT: &str = "rbd";
/// Seconds after its last report at which a worker is considered gone.
pub const SILENCE_MAX: u64 = 60;
/// Seconds until a task that failed is tried again.
pub const RETRY_AFTER: u64 = 30;
/// Time for which a request that equals a completed task returns that task: it may be a resend.
pub const REPLAY_MAX: std::time::Duration = std::time::Duration::from_secs(60);
/// Completed tasks that are remembered; the oldest is dropped.
pub const COMPLETED_MAX: usize = 50;
/// Tasks that may wait; further ones are refused.
pub const TASKS_MAX: usize = 10_000;

/// One task as stored under `image-task/<n>`.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ImageTask {
    pub id: String,
    pub message: String,
    /// The fields that clients see: `action`, `pool_name`, `pool_namespace`, and `image_name` or `image_id`.
    pub refs: BTreeMap<String, String>,
    /// The worker that runs it, and the time of its last report in seconds since 1970.
    #[serde(default)]
    pub worker: Option<String>,
    #[serde(default)]
    pub heard: u64,
    /// When the worker took it, in seconds since 1970.
    #[serde(default)]
    pub started: u64,
    /// Progress from zero to one.
    #[serde(default)]
    pub progress: f64,
    #[serde(default)]
    pub is_canceled: bool,
    /// The error of the last attempt, and the time of the next one in seconds since 1970.
    #[serde(default)]
    pub failure: Option<String>,
    #[serde(default)]
    pub not_before: u64,
}

impl ImageTask {
    /// Whether a worker runs it. `now` is in seconds since 1970.
    pub fn is_under_way(&self, now: u64) -> bool {
        self.worker.is_some() && now < self.heard + SILENCE_MAX
    }

    /// Whether a worker may take it now. `now` is in seconds since 1970.
    pub fn may_be_taken(&self, now: u64) -> bool {
        !self.is_under_way(now) && now >= self.not_before
    }
}
