//! Existence of a clone's objects, and the copy-ups of those that do not exist.

use std::collections::VecDeque;
use stdx::FastMap;

/// Concurrent copy-ups; each holds one whole object in memory. Further ones wait.
const COPY_UPS_MAX: usize = 16;
/// Objects remembered as present. Beyond that the cache is emptied.
const PRESENT_MAX: usize = 1 << 16;
/// Existence of one object.
#[derive(Debug)]
enum Existence {
    Present,
    /// The existence is being determined; the accesses in the queue wait for it, in order.
    Uncertain(VecDeque<u64>),
}

/// Existence of a clone's objects. It is only a cache: writes assert existence in any case.
#[derive(Debug, Default)]
pub(super) struct ExistenceCache {
    objects: FastMap<u64, Existence>,
}

impl ExistenceCache {
    /// Queues an access if the existence of its object is being determined; true if it did.
    pub fn hold(&mut self, object: u64, key: u64) -> bool {
        match self.objects.get_mut(&object) {
            Some(Existence::Uncertain(held)) => {
                held.push_back(key);
                true
            }
            _ => false,
        }
    }

    /// True if the object is known to exist.
    pub fn is_present(&self, object: u64) -> bool {
        matches!(self.objects.get(&object), Some(Existence::Present))
    }

    /// Begins to determine the existence of an object; later accesses to it are held.
    pub fn mark_uncertain(&mut self, object: u64) {
        let guard = self.objects.entry(object).or_insert(Existence::Present);
        if matches!(guard, Existence::Present) {
            *guard = Existence::Uncertain(VecDeque::new());
        }
    }

    /// Returns the accesses that waited.
    pub fn existence_known(&mut self, object: u64, is_present: bool) -> VecDeque<u64> {
        if self.objects.len() > PRESENT_MAX {
            self.forget();
        }
        let old = match is_present {
            true => self.objects.insert(object, Existence::Present),
            false => self.objects.remove(&object),
        };
        match old {
            Some(Existence::Uncertain(held)) => held,
            _ => VecDeque::new(),
        }
    }

    /// Drops all entries but those being determined, since objects may have been removed.
    pub fn forget(&mut self) {
        self.objects.retain(|_, guard| matches!(guard, Existence::Uncertain(_)));
    }
}

/// Copy-ups in flight, and those that wait.
#[derive(Debug, Default)]
pub(super) struct CopyUps {
    in_flight: usize,
    waiting: VecDeque<u64>,
    is_resuming: bool,
}

impl CopyUps {
    /// Queues an access whose object must be copied up.
    pub fn enqueue(&mut self, key: u64) {
        self.waiting.push_back(key);
    }

    /// False if a caller is resuming copy-ups already. A copy-up that completes at once resumes the next one
    /// in that caller's loop instead of by recursion.
    pub fn begin_resuming(&mut self) -> bool {
        !std::mem::replace(&mut self.is_resuming, true)
    }

    /// Begins the next copy-up, unless enough are in flight.
    pub fn next(&mut self) -> Option<u64> {
        if self.in_flight >= COPY_UPS_MAX {
            return None;
        }
        let key = self.waiting.pop_front()?;
        self.in_flight += 1;
        Some(key)
    }

    /// Ends the loop that [`CopyUps::begin_resuming`] began.
    pub fn end_resuming(&mut self) {
        self.is_resuming = false;
    }

    /// A copy-up has ended, with or without success.
    pub fn ended(&mut self) {
        self.in_flight -= 1;
    }

    /// True if no copy-up is in flight and none waits.
    pub fn is_empty(&self) -> bool {
        self.in_flight == 0 && self.waiting.is_empty()
    }

    /// Panics if the state contradicts itself.
    pub fn check_invariants(&self) {
        assert!(!self.is_resuming && self.in_flight <= COPY_UPS_MAX);
        assert!(
            self.waiting.is_empty() || self.in_flight == COPY_UPS_MAX,
            "copy-ups wait although none is in flight"
        );
    }
}
