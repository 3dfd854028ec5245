//! Completions on their way from the store's threads to the host.

use crate::lock;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use store::Completion;

/// Called, from any thread, when completions have become ready; not again before the host has
/// taken some.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

pub struct Completions {
    ready: Mutex<VecDeque<Completion>>,
    /// The host has been woken and has not looked yet.
    woken: AtomicBool,
    waker: Waker,
}

impl Completions {
    pub fn new(waker: Waker) -> Self {
        Completions { ready: Mutex::default(), woken: AtomicBool::new(false), waker }
    }

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

    /// All that are ready.
    pub fn take(&self) -> VecDeque<Completion> {
        // Whoever pushes sets it after the push: if it is not set, nothing is there to be taken.
        if !self.woken.swap(false, Ordering::AcqRel) {
            return VecDeque::new();
        }
        std::mem::take(&mut *lock(&self.ready))
    }
}
