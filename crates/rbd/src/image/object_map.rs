//! The object map of an open image whose lock is held: which accesses it spares, and what must be changed in it before
//! and after others.
//!
//! While an object's state is being changed, all accesses to that object wait, so that their order stays.

use super::Image;
use super::access::Action;
use crate::object_map::{self, ObjectMap, State};
use crate::steps::{Answer, Ask, Part};
use std::collections::{BTreeMap, VecDeque};
use types::Errno;
use wire::OsdOp;
use wire::op::OpCode;

/// The number of the question that marks the map as invalid; no object has it.
const INVALIDATION: u64 = u64::MAX;

#[derive(Debug, Default)]
pub(super) struct MapKeeper {
    /// `None`: there is none to rely on.
    map: Option<ObjectMap>,
    changes: BTreeMap<u64, StateChange>,
    /// Removals under way of an object.
    removals: BTreeMap<u64, u64>,
    /// The map cannot be kept up; nothing goes on before the header says so.
    is_invalidating: bool,
}

/// A state that is being changed, and what waits for it.
#[derive(Debug)]
struct StateChange {
    new: State,
    /// The first of those who wait needs it; else it only follows what was done.
    is_needed: bool,
    waiting: VecDeque<u64>,
}

impl MapKeeper {
    pub fn is_busy(&self) -> bool {
        !self.changes.is_empty() || self.is_invalidating
    }

    /// Whether an access waits for what is being changed.
    pub fn hold(&mut self, object: u64, key: u64) -> bool {
        match self.changes.get_mut(&object) {
            Some(change) => {
                change.waiting.push_back(key);
                true
            }
            None => false,
        }
    }

    /// Whether an object is known not to be there.
    pub fn is_absent(&self, object: u64) -> bool {
        let is_known = |map: &ObjectMap| !map.may_exist(object);
        self.map.as_ref().is_some_and(is_known) && !self.changes.contains_key(&object)
    }

    /// What the map must say before operations on an object.
    pub fn need(&self, object: u64, ops: &[OsdOp]) -> Option<State> {
        let state = self.map.as_ref()?.get(object)?;
        let has = |codes: &[OpCode]| ops.iter().any(|op| codes.contains(&op.code));
        let wanted = match () {
            () if has(&[OpCode::DELETE]) => State::Pending,
            () if has(&[OpCode::WRITE, OpCode::CREATE, OpCode::CALL]) => State::Exists,
            // What is about to be removed is not made by that.
            () if state == State::Pending => state,
            () if has(&[OpCode::ZERO, OpCode::TRUNCATE]) => State::Exists,
            () => state,
        };
        (state != wanted).then_some(wanted)
    }

    pub fn removal_begins(&mut self, object: u64) {
        if self.map.is_some() {
            *self.removals.entry(object).or_default() += 1;
        }
    }
}

impl Image {
    /// Spares reads of what is known not to be there, of an image that is only read. Whoever writes
    /// uses the map that comes with the lock.
    pub fn use_map(&mut self, map: ObjectMap) {
        if !self.is_writable {
            self.map.map = Some(map);
        }
    }

    pub(super) fn set_map(&mut self, map: Option<ObjectMap>) {
        self.map.map = map;
    }

    /// Whether an access would find nothing and change nothing.
    pub(super) fn is_spared(&self, object: u64, action: &Action) -> bool {
        let makes_object = matches!(action, Action::Write { .. } | Action::CopyUp);
        !makes_object && self.map.is_absent(object) && self.header.shown_by_parent(object) == 0
    }

    pub(super) fn change_state(
        &mut self,
        object: u64,
        new: State,
        old: Option<State>,
        waiting: VecDeque<u64>,
    ) {
        let is_needed = !waiting.is_empty();
        self.map.changes.insert(object, StateChange { new, is_needed, waiting });
        if !self.map.is_invalidating {
            let operation = object_map::update(&self.header, object..object + 1, new, old);
            self.ask(Part::Map, object, Ask::Operate(operation));
        }
    }

    /// An object was removed, or not.
    pub(super) fn removal_over(&mut self, object: u64, is_done: bool) {
        let Some(left) = self.map.removals.get_mut(&object) else { return };
        *left -= 1;
        if *left > 0 {
            return;
        }
        self.map.removals.remove(&object);
        let state = self.map.map.as_ref().and_then(|map| map.get(object));
        let is_settled = !self.map.changes.contains_key(&object);
        if is_done && is_settled && state == Some(State::Pending) {
            let old = Some(State::Pending);
            self.change_state(object, State::Nonexistent, old, VecDeque::new());
        }
    }

    pub(super) fn map_answered(&mut self, object: u64, answer: Answer) {
        if object == INVALIDATION {
            return self.map_invalidated(answer);
        }
        let Some(change) = self.map.changes.get_mut(&object) else { return };
        match answer {
            Ok(_) => {
                if let Some(map) = &mut self.map.map {
                    map.set(object, change.new);
                }
                self.state_changed(object);
            }
            Err(Errno::BLOCKLISTED) => {
                self.blocklisted();
                self.abandon_map();
            }
            // Whatever needs the room fails; the map stays as it was.
            Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => {
                if change.is_needed
                    && let Some(key) = change.waiting.pop_front()
                {
                    self.access_answered(key, Err(errno));
                }
                self.state_changed(object);
            }
            Err(errno) => self.invalidate_map(errno),
        }
        self.drain();
    }

    fn state_changed(&mut self, object: u64) {
        let Some(change) = self.map.changes.remove(&object) else { return };
        for key in change.waiting {
            self.go_on_with_access(key);
        }
    }

    fn invalidate_map(&mut self, errno: Errno) {
        if self.map.is_invalidating {
            return;
        }
        let image = &self.header.spec;
        tracing::warn!(%image, %errno, "the object map cannot be kept up and becomes invalid");
        self.map.is_invalidating = true;
        let operation = object_map::invalidate(&self.header);
        self.ask(Part::Map, INVALIDATION, Ask::Operate(operation));
    }

    fn map_invalidated(&mut self, answer: Answer) {
        self.map.is_invalidating = false;
        match answer {
            Ok(_) => self.read_header_again(),
            Err(Errno::BLOCKLISTED) => self.blocklisted(),
            Err(errno) => {
                let step = format!("marking the object map of {} as invalid", self.header.spec);
                self.fail(crate::Error::cluster(step, errno));
            }
        }
        self.abandon_map();
        self.drain();
    }

    /// What waits goes on without a map.
    pub(super) fn abandon_map(&mut self) {
        self.map.map = None;
        self.map.removals.clear();
        for (_, change) in std::mem::take(&mut self.map.changes) {
            for key in change.waiting {
                match &self.failure {
                    Some(error) => self.access_refused(key, error.clone()),
                    None => self.go_on_with_access(key),
                }
            }
        }
    }
}
