//! Completions on their way from the store's threads to the host.

use crate::lock::lock;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use store::Completion;

/// Called, from any thread, when completions have become ready; not again before the host has
/// taken some.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Completed requests that the host has not taken.
pub struct Completions {
    ready: Mutex<VecDeque<Completion>>,
    /// The host was woken and has not taken completions yet.
    woken: AtomicBool,
    waker: Waker,
}

impl Completions {
    /// `waker` is called from the store's threads.
    pub fn new(waker: Waker) -> Self {
        Completions { ready: Mutex::default(), woken: AtomicBool::new(false), waker }
    }

    /// Adds completions and wakes the host if it does not know of any.
    pub fn push(&self, completions: impl Iterator<Item = Completion>) {
        let added = {
            let mut ready = lock(&self.ready);
            let before = ready.len();
            ready.extend(completions);
            ready.len() > before
        };
        if added && !self.woken.swap(true, Ordering::AcqRel) {
            (self.waker)();
        }
    }

    /// Takes all completions.
    pub fn take(&self) -> VecDeque<Completion> {
        // A push sets the flag after it has pushed: if the flag is not set, the queue is empty.
        if !self.woken.swap(false, Ordering::AcqRel) {
            return VecDeque::new();
        }
        std::mem::take(&mut *lock(&self.ready))
    }
}
