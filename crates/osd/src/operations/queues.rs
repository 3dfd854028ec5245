//! The requests of one group: the contexts of its objects, and what waits for the group as a whole.

use crate::operations::keys::ObjectKey;
use crate::operations::object::{Contexts, ObjectContext};
use crate::operations::request::Request;
use crate::operations::shard_reads::ShardReads;
use crate::watches::GroupWatches;
use maps::{OsdMap, OsdMapFlags};
use std::collections::{BTreeMap, VecDeque};
use stdx::FastMap;
use types::{EVersion, Epoch, HObject, PgShard};
use wire::op::request_flags::{FULL_FORCE, FULL_TRY};

/// Operations and their bytes since the OSD was started.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counters {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub write_bytes: u64,
    /// Objects that were recovered.
    pub recovered: u64,
}

impl Counters {
    /// Counts a read by the length of its outputs.
    pub fn note_read(&mut self, bytes: u64) {
        self.reads += 1;
        self.read_bytes += bytes;
    }

    /// Counts a write by the length of its message.
    pub fn note_write(&mut self, bytes: usize) {
        self.writes += 1;
        self.write_bytes += bytes as u64;
    }
}

/// The last epochs at which writes were dropped because their clients should have held them. A
/// client resends such a write with all that it sent before it saw that map, in order.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HeldBack {
    /// A pause holds every write.
    by_pause: Epoch,
    /// Fullness does not hold writes with `FULL_TRY` or `FULL_FORCE`: their clients do not resend them.
    by_fullness: Epoch,
}

impl HeldBack {
    /// Whether a write may have been dropped before this one by a map that its client has not seen. The
    /// client resends both, so this one must not overtake.
    pub fn covers(&self, request: &Request) -> bool {
        let forced = request.message.flags & (FULL_TRY | FULL_FORCE) != 0;
        let epoch = request.message.map_epoch;
        let is_behind = epoch < self.by_pause || !forced && epoch < self.by_fullness;
        request.is_of_client() && request.may_write() && is_behind
    }

    /// Notes that a request is dropped which its client should have held for this map.
    pub fn note(&mut self, map: &OsdMap, request: &Request) {
        if !request.may_write() || self.covers(request) {
            return;
        }
        let is_paused = map.flags.contains(OsdMapFlags::PAUSEWR);
        *(if is_paused { &mut self.by_pause } else { &mut self.by_fullness }) = map.epoch;
    }
}

/// Requests of one group, and the objects that they concern.
#[derive(Debug, Default)]
pub(crate) struct GroupQueues {
    /// The objects that have a context, by name.
    objects: FastMap<HObject, ObjectKey>,
    /// The same, oldest first: candidates for eviction.
    cached: VecDeque<ObjectKey>,
    /// Incremented when all objects are forgotten, so that loads begun before are ignored.
    pub generation: u64,
    /// Requests that came while the group was not active.
    pub waiting: VecDeque<u64>,
    /// Resent requests whose first submission is in flight, by the version of that write.
    pub repeated: BTreeMap<EVersion, Vec<u64>>,
    /// Reads that were executed and wait for a lease. They keep their places in the order of their
    /// objects.
    pub waiting_for_readable: Vec<u64>,
    /// The last epochs at which writes of clients were dropped.
    pub held_back: HeldBack,
    /// Reads in progress, if the members keep shards.
    pub shard_reads: ShardReads,
}

impl GroupQueues {
    /// The context of an object, if it has one.
    pub fn find(&self, object: &HObject) -> Option<ObjectKey> {
        self.objects.get(object).copied()
    }

    /// The context of an object of this group; makes one if there is none.
    pub fn enter(&mut self, contexts: &mut Contexts, pg: PgShard, object: HObject) -> ObjectKey {
        if let Some(known) = self.find(&object) {
            return known;
        }
        let key = contexts.insert(ObjectContext::new(pg, object.clone()));
        self.objects.insert(object, key);
        self.cached.push_back(key);
        key
    }

    /// Number of objects that have a context.
    pub fn objects_len(&self) -> usize {
        self.objects.len()
    }

    /// Whether no request is in progress on any object.
    pub fn are_idle(&self, contexts: &Contexts) -> bool {
        let is_idle = |key: &ObjectKey| contexts.get(*key).is_none_or(ObjectContext::is_idle);
        self.waiting_for_readable.is_empty() && self.objects.values().all(is_idle)
    }

    /// Evicts an object if it is idle.
    pub fn forget_if_idle(&mut self, contexts: &mut Contexts, object: ObjectKey) {
        if contexts.get(object).is_some_and(ObjectContext::is_idle) {
            self.forget(contexts, object);
            self.cached.retain(|cached| *cached != object);
        }
    }

    /// Evicts idle objects beyond a share, oldest first, but none that is watched.
    pub fn evict(&mut self, contexts: &mut Contexts, watches: &GroupWatches, share: usize) {
        /// Contexts examined per call; more than one, so that the number falls after the share has shrunk.
        const LOOKED_AT: usize = 2;
        for _ in 0..LOOKED_AT {
            if self.objects.len() <= share {
                return;
            }
            let Some(oldest) = self.cached.pop_front() else { return };
            match contexts.get(oldest).is_some_and(|context| context.may_go(watches)) {
                true => self.forget(contexts, oldest),
                false => self.cached.push_back(oldest),
            }
        }
    }

    /// Evicts all idle objects that are not watched.
    pub fn evict_all(&mut self, contexts: &mut Contexts, watches: &GroupWatches) {
        for object in std::mem::take(&mut self.cached) {
            match contexts.get(object).is_some_and(|context| context.may_go(watches)) {
                true => self.forget(contexts, object),
                false => self.cached.push_back(object),
            }
        }
    }

    fn forget(&mut self, contexts: &mut Contexts, object: ObjectKey) {
        let context = contexts.remove(object).expect("the caller looked at it");
        self.objects.remove(&context.name);
    }

    /// Forgets all objects and takes out all requests, in the order in which the objects were first
    /// used, which is deterministic.
    pub fn interrupt(&mut self, contexts: &mut Contexts) -> Vec<u64> {
        let mut keys = Vec::new();
        for object in std::mem::take(&mut self.cached) {
            let context = contexts.remove(object).into_iter();
            keys.extend(
                context.flat_map(|context| context.queue.into_iter().chain(context.readers)),
            );
        }
        keys.extend(std::mem::take(&mut self.repeated).into_values().flatten());
        keys.extend(std::mem::take(&mut self.waiting));
        keys.extend(std::mem::take(&mut self.waiting_for_readable));
        self.objects.clear();
        self.shard_reads.clear();
        self.generation += 1;
        keys
    }

    /// Panics if the object contexts contradict themselves.
    pub fn check_invariants(&self, contexts: &Contexts) {
        assert_eq!(
            self.objects.len(),
            self.cached.len(),
            "each object is a candidate for eviction"
        );
        for (name, key) in &self.objects {
            let context = contexts.get(*key).expect("an object of the index has a context");
            assert_eq!(*name, context.name);
            let is_alone = !context.has_writer || context.readers.is_empty();
            assert!(is_alone || context.copier.is_some(), "a write waits for reads");
            assert!(context.state.is_some() || context.writes_in_flight == 0);
        }
    }
}
