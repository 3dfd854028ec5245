//! Bounds on the requests of clients in progress: their number and the bytes of their messages, per
//! session and in total.
//!
//! Beyond a bound, sessions are paused (not read from) until less is in progress; nothing is
//! dropped. Once half of the total is in use, each session is also limited to a share of the
//! remainder, so that clients of an inactive group do not stop those of others. Sessions of other
//! OSDs are never paused: they carry the messages that requests wait for.

use crate::Budgets;

/// A session may use one part in so many of the remaining bytes.
const SHARES: usize = 4;

/// Number and message bytes of requests in progress.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Load {
    pub requests: usize,
    pub bytes: usize,
}

impl Load {
    pub fn add(&mut self, bytes: usize) {
        self.requests += 1;
        self.bytes += bytes;
    }

    pub fn remove(&mut self, bytes: usize) {
        self.requests -= 1;
        self.bytes -= bytes;
    }

    /// Whether it exceeds a bound by more than one message of `largest` bytes.
    pub fn is_beyond(&self, requests: usize, bytes: usize, largest: usize) -> bool {
        self.requests > requests + 1 || self.bytes > bytes + largest
    }

    fn exceeds(&self, requests: usize, bytes: usize) -> bool {
        self.bytes > bytes || self.requests > requests
    }
}

/// All clients' requests in progress.
#[derive(Debug, Default)]
pub(super) struct Inflight {
    pub load: Load,
    /// All sessions of clients are paused.
    is_full: bool,
}

impl Inflight {
    /// Notes that a bound of all sessions is exceeded. Returns whether that is new.
    pub fn note_full(&mut self, budgets: &Budgets) -> bool {
        let was_full = self.is_full;
        self.is_full |= self.load.exceeds(budgets.all_requests, budgets.all_bytes);
        self.is_full && !was_full
    }

    /// Notes that the load has fallen to half of the bounds. Returns whether it exceeded them before.
    pub fn note_low(&mut self, budgets: &Budgets) -> bool {
        let was_full = self.is_full;
        self.is_full &= self.load.exceeds(budgets.all_requests / 2, budgets.all_bytes / 2);
        was_full && !self.is_full
    }

    /// Whether a session must be paused: it exceeds its bounds, or all sessions exceed theirs. One
    /// that is paused is resumed at half of its bounds.
    pub fn must_pause(&self, session: Load, is_paused: bool, budgets: &Budgets) -> bool {
        // While room is scarce, a session may use a share of it, which shrinks with the room.
        let is_scarce = self.load.bytes > budgets.all_bytes / 2;
        let share = budgets.all_bytes.saturating_sub(self.load.bytes) / SHARES;
        let (requests, bytes) = (budgets.session_requests, budgets.session_bytes);
        let exceeds = |parts: usize| {
            session.exceeds(requests / parts, bytes / parts)
                || is_scarce && session.bytes > share / parts
        };
        self.is_full || exceeds(if is_paused { 2 } else { 1 })
    }
}
