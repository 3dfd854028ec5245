//! The requests of one group: the contexts of its objects, and what waits for the group as a whole.

use crate::operations::object::ObjectContext;
use std::collections::{BTreeMap, VecDeque};
use stdx::FastMap;
use types::{EVersion, Epoch, HObject};

/// Operations and their bytes since the OSD was started.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counters {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub write_bytes: u64,
}

/// The last epochs at which writes were dropped because their clients should have held them. A
/// client resends such a write with all that it sent before it saw that map, in order.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HeldBack {
    /// A pause holds every write.
    pub by_pause: Epoch,
    /// Fullness does not hold writes with `FULL_TRY` or `FULL_FORCE`: their clients do not resend them.
    pub by_fullness: Epoch,
}

/// Requests of one group, and the objects that they concern.
#[derive(Debug, Default)]
pub(crate) struct GroupQueues {
    pub objects: FastMap<HObject, ObjectContext>,
    /// The keys of `objects`, oldest first: candidates for eviction.
    pub cached: VecDeque<HObject>,
    /// Incremented when `objects` is cleared, so that loads begun before are ignored.
    pub generation: u64,
    /// Requests that came while the group was not active.
    pub waiting: VecDeque<u64>,
    /// Resent requests whose first submission is in flight, by the version of that write.
    pub repeated: BTreeMap<EVersion, Vec<u64>>,
    /// Reads that were executed and wait for a lease. They keep their places in the order of their
    /// objects.
    pub unleased: Vec<u64>,
    /// The last epochs at which writes of clients were dropped.
    pub held_back: HeldBack,
}

impl GroupQueues {
    /// Whether no request is in progress on any object.
    pub fn are_idle(&self) -> bool {
        self.unleased.is_empty() && self.objects.values().all(ObjectContext::is_idle)
    }

    /// Forgets all objects and takes out all requests, in the order in which the objects were first
    /// used, which is deterministic.
    pub fn interrupt(&mut self) -> Vec<u64> {
        let mut keys = Vec::new();
        for object in std::mem::take(&mut self.cached) {
            let context = self.objects.get(&object).into_iter();
            keys.extend(context.flat_map(|c| c.queue.iter().chain(&c.readers)));
        }
        keys.extend(std::mem::take(&mut self.repeated).into_values().flatten());
        keys.extend(std::mem::take(&mut self.waiting));
        keys.extend(std::mem::take(&mut self.unleased));
        self.objects.clear();
        self.generation += 1;
        keys
    }

    /// Panics if the object contexts contradict themselves.
    pub fn check_invariants(&self) {
        for context in self.objects.values() {
            let is_alone = !context.has_writer || context.readers.is_empty();
            assert!(is_alone || context.copier.is_some(), "a write waits for reads");
            assert!(context.state.is_some() || context.writes_in_flight == 0);
        }
    }
}
