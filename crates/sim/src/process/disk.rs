//! Interface of simulated disks.

use engine::{Storage, Time};

/// Simulated storage of a daemon: its timers are the completions of disk operations.
pub trait Disk: Storage {
    /// Called when the daemon has submitted all requests that its last input causes.
    fn end_turn(&mut self, _now: Time) {}
    /// Loses state that is not durable.
    fn crash(&mut self);
}
