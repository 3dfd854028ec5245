//! The object map of an open image whose lock is held: which accesses it saves, and which of its updates come
//! before and after others.
//!
//! While the state of an object is being updated, all accesses to that object wait, so that their order is
//! kept.

use super::Image;
use super::access::Action;
use crate::object_map::{self, ObjectMap, State};
use crate::part;
use rados::{ClusterRequest, ClusterResponse};
use std::collections::{BTreeMap, VecDeque};
use types::Errno;
use wire::OsdOp;
use wire::op::OpCode;

/// Number of the request that marks the map invalid; no object has it.
const INVALIDATION: u64 = u64::MAX;

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

    pub fn removal_begins(&mut self, object: u64) {
        if self.map.is_some() {
            *self.removals.entry(object).or_default() += 1;
        }
    }
}

impl Image {
    /// Lets a read-only image skip reads of objects that do not exist. A writable image uses the map that
    /// comes with the lock.
    pub fn use_map(&mut self, map: ObjectMap) {
        if !self.is_writable {
            self.map.map = Some(map);
        }
    }

    pub(super) fn set_map(&mut self, map: Option<ObjectMap>) {
        self.map.map = map;
    }

    /// True if an access would find nothing and change nothing.
    pub(super) fn is_needless(&self, object: u64, action: &Action) -> bool {
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
            self.request(part::MAP, object, ClusterRequest::Operate(operation));
        }
    }

    /// A removal has completed; `is_done` tells whether it succeeded.
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

    pub(super) fn map_answered(&mut self, object: u64, answer: ClusterResponse) {
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
            // The access that needs the space fails; the map stays as it was.
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
            self.resume_access(key);
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
        self.request(part::MAP, INVALIDATION, ClusterRequest::Operate(operation));
    }

    fn map_invalidated(&mut self, answer: ClusterResponse) {
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

    /// Drops the map and resumes the accesses that waited for it.
    pub(super) fn abandon_map(&mut self) {
        self.map.map = None;
        self.map.removals.clear();
        for (_, change) in std::mem::take(&mut self.map.changes) {
            for key in change.waiting {
                match &self.failure {
                    Some(error) => self.access_refused(key, error.clone()),
                    None => self.resume_access(key),
                }
            }
        }
    }
}
