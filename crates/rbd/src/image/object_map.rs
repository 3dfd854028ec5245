//! The object map of an open image whose lock is held: which accesses it saves, and which of its updates come
//! before and after others.
//!
//! While the state of an object is being updated, all accesses to that object wait, so that their order is
//! kept.

use crate::object_map::{ObjectMap, State};
use std::collections::{BTreeMap, VecDeque};
use wire::OsdOp;
use wire::op::OpCode;

/// Number of the request that marks the map invalid; no object has it.
pub(super) const INVALIDATION: u64 = u64::MAX;

#[derive(Debug, Default)]
pub(super) struct ObjectMapState {
    /// `None`: there is no valid map.
    map: Option<ObjectMap>,
    changes: BTreeMap<u64, StateChange>,
    /// Removals in flight, by object.
    removals: BTreeMap<u64, u64>,
    /// The map could not be updated; all accesses wait until the header marks it invalid.
    is_invalidating: bool,
}

/// A state that is being updated, and the accesses that wait for it.
#[derive(Debug)]
struct StateChange {
    new: State,
    /// The first access in the queue needs the update; otherwise it follows an access that is done.
    is_needed: bool,
    waiting: VecDeque<u64>,
}

impl ObjectMapState {
    /// True while an update of the map is in flight.
    pub fn is_busy(&self) -> bool {
        !self.changes.is_empty() || self.is_invalidating
    }

    /// Queues an access if the state of its object is being updated; true if it did.
    pub fn hold(&mut self, object: u64, key: u64) -> bool {
        match self.changes.get_mut(&object) {
            Some(change) => {
                change.waiting.push_back(key);
                true
            }
            None => false,
        }
    }

    /// True if the object is known not to exist.
    pub fn is_absent(&self, object: u64) -> bool {
        let is_known = |map: &ObjectMap| !map.may_exist(object);
        self.map.as_ref().is_some_and(is_known) && !self.changes.contains_key(&object)
    }

    /// State that the map must have before operations on an object.
    pub fn need(&self, object: u64, ops: &[OsdOp]) -> Option<State> {
        let state = self.map.as_ref()?.get(object)?;
        let has = |codes: &[OpCode]| ops.iter().any(|op| codes.contains(&op.code));
        let wanted = match () {
            () if has(&[OpCode::DELETE]) => State::Pending,
            () if has(&[OpCode::WRITE, OpCode::CREATE, OpCode::CALL]) => State::Exists,
            // These operations do not create an object that is about to be removed.
            () if state == State::Pending => state,
            () if has(&[OpCode::ZERO, OpCode::TRUNCATE]) => State::Exists,
            () => state,
        };
        (state != wanted).then_some(wanted)
    }

    /// Counts a removal of an object that has been sent.
    pub fn removal_begins(&mut self, object: u64) {
        if self.map.is_some() {
            *self.removals.entry(object).or_default() += 1;
        }
    }

    /// Exchanges the map: `None` if the lock was lost or the map is invalid.
    pub fn set(&mut self, map: Option<ObjectMap>) {
        self.map = map;
    }

    /// True while the state of the object is being updated.
    pub fn is_changing(&self, object: u64) -> bool {
        self.changes.contains_key(&object)
    }

    /// Begins an update, for which the accesses wait; false if it must not be sent.
    pub fn begin_change(&mut self, object: u64, new: State, waiting: VecDeque<u64>) -> bool {
        let is_needed = !waiting.is_empty();
        self.changes.insert(object, StateChange { new, is_needed, waiting });
        !self.is_invalidating
    }

    /// Applies an update that the map's object has taken.
    pub fn updated(&mut self, object: u64) {
        if let (Some(map), Some(change)) = (&mut self.map, self.changes.get(&object)) {
            map.set(object, change.new);
        }
    }

    /// The access without which an update would not have been made.
    pub fn take_needing(&mut self, object: u64) -> Option<u64> {
        let change = self.changes.get_mut(&object).filter(|change| change.is_needed)?;
        change.waiting.pop_front()
    }

    /// Ends an update and returns the accesses that waited for it.
    pub fn end_change(&mut self, object: u64) -> VecDeque<u64> {
        self.changes.remove(&object).map(|change| change.waiting).unwrap_or_default()
    }

    /// A removal has completed; true if the object's state is to become nonexistent.
    pub fn removal_over(&mut self, object: u64, is_done: bool) -> bool {
        let Some(left) = self.removals.get_mut(&object) else { return false };
        *left -= 1;
        if *left > 0 {
            return false;
        }
        self.removals.remove(&object);
        let state = self.map.as_ref().and_then(|map| map.get(object));
        is_done && !self.is_changing(object) && state == Some(State::Pending)
    }

    /// False if the map is being marked invalid already.
    pub fn begin_invalidation(&mut self) -> bool {
        !std::mem::replace(&mut self.is_invalidating, true)
    }

    /// The header marks the map invalid now, or could not be changed.
    pub fn end_invalidation(&mut self) {
        self.is_invalidating = false;
    }

    /// Drops the map; returns the accesses that waited for it.
    pub fn abandon(&mut self) -> Vec<u64> {
        self.map = None;
        self.removals.clear();
        let changes = std::mem::take(&mut self.changes);
        changes.into_values().flat_map(|change| change.waiting).collect()
    }

    /// Panics if the state contradicts itself; `is_live` tells whether an access exists.
    pub fn check_invariants(&self, is_live: impl Fn(u64) -> bool) {
        for (object, change) in &self.changes {
            assert!(!change.is_needed || !change.waiting.is_empty(), "no access needs {object}");
            assert!(change.waiting.iter().all(|key| is_live(*key)), "{object}: an access is gone");
        }
        assert!(self.removals.values().all(|count| *count > 0));
    }
}
