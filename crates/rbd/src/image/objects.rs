//! Accesses of an open image to objects: the order of object map, copy-up and the access itself.

use super::Image;
use super::access::{Access, Action, ObjectRange, Stage, Waiter, access_result};
use super::assemble::{AccessResult, pieces};
use super::copyup::{copy_up, first_attempt, op_in_clone, sparse};
use super::object_map::INVALIDATION;
use super::parent::PartRead;
use crate::object_map::{self, State};
use crate::part;
use crate::{Error, Features, Header};
use bytes::Bytes;
use rados::{ClusterRequest, ClusterResponse, Operation, OperationReply, Reply};
use std::collections::VecDeque;
use std::sync::Arc;
use types::Errno;
use wire::OsdOp;
use wire::op::{OpCode, request_flags};

/// Accesses.
impl Image {
    /// Begins an access to an object of the image.
    pub(super) fn access(&mut self, waiter: Waiter, object: u64, action: Action) {
        let ancestors = self.header.ancestors.clone();
        self.begin(Access::new(waiter, 0, object, action, ancestors));
    }

    /// Begins a read of an object of the image or of an ancestor.
    pub(super) fn begin_read(
        &mut self,
        waiter: Waiter,
        ancestors: Arc<[Header]>,
        range: ObjectRange,
    ) {
        let ObjectRange { generation, object, .. } = range;
        self.begin(Access::new(waiter, generation, object, range.action(), ancestors));
    }

    fn begin(&mut self, access: Access) {
        let is_own = access.generation == 0;
        let object = access.object;
        let key = self.accesses.insert(access);
        if !is_own || !self.existence.hold(object, key) {
            self.send_access(key);
        }
    }

    /// Sends an access once no earlier access to the same object is held.
    pub(super) fn send_access(&mut self, key: u64) {
        let Some(access) = self.accesses.get_mut(key) else { return };
        let (generation, object) = (access.generation, access.object);
        if generation == 0 && self.map.hold(object, key) {
            return;
        }
        if access.action.writes() {
            return self.send_write(key);
        }
        access.stage = Stage::Sent;
        if generation == 0 && self.map.is_absent(object) {
            return self.sent_answered(key, Err(Errno::NOENT));
        }
        let header = match generation {
            0 => &self.header,
            number => &access.ancestors[number - 1],
        };
        let mut operation = Operation::new(header.data_place(object), vec![access.action.op()]);
        operation.snap = header.snap;
        self.request(part::ACCESS, key, ClusterRequest::Operate(operation));
    }

    /// Sends a change of an object, after the object map has been updated if it must be.
    pub(super) fn operate(&mut self, key: u64, stage: Stage, ops: Vec<OsdOp>) {
        let obstacle = self.write_obstacle();
        let Some(access) = self.accesses.get_mut(key) else { return };
        access.stage = stage;
        let object = access.object;
        if let Some(error) = obstacle {
            return self.access_refused(key, error);
        }
        if self.map.hold(object, key) {
            access.prepared = Some(ops);
            return;
        }
        match self.map.need(object, &ops) {
            Some(state) => {
                access.prepared = Some(ops);
                self.change_state(object, state, None, [key].into());
            }
            None => self.perform(key, ops),
        }
    }

    /// Resumes an access after an update of the object map.
    pub(super) fn resume_access(&mut self, key: u64) {
        let Some(access) = self.accesses.get_mut(key) else { return };
        let stage = access.stage;
        match access.prepared.take() {
            Some(ops) => self.operate(key, stage, ops),
            None => self.send_access(key),
        }
    }

    /// Submits operations with the image's current snapshot context.
    fn perform(&mut self, key: u64, ops: Vec<OsdOp>) {
        let Some(access) = self.accesses.get(key) else { return };
        if ops.iter().any(|op| op.code == OpCode::DELETE) {
            self.map.removal_begins(access.object);
        }
        let mut operation = Operation::new(self.header.data_place(access.object), ops);
        // The parent's data predates all snapshots, so it is written with an empty snapshot context.
        if access.stage != Stage::CopyingUpFirst {
            operation.snap_context = self.header.snap_context.clone();
        }
        // A write to a full pool must fail instead of waiting for space.
        operation.flags |= request_flags::FULL_TRY;
        if operation.ops.iter().any(|op| op.code == OpCode::CALL) {
            operation.flags |= request_flags::WRITE;
        }
        self.request(part::ACCESS, key, ClusterRequest::Operate(operation));
    }

    pub(super) fn access_answered(&mut self, key: u64, answer: ClusterResponse) {
        let Some(access) = self.accesses.get(key) else { return };
        let answer = answer.and_then(Reply::into_operation);
        match access.stage {
            Stage::Guarded | Stage::CopyingUp | Stage::CopyingUpFirst => {
                self.write_answered(key, answer);
            }
            Stage::Held | Stage::Sent => self.sent_answered(key, answer),
        }
    }

    fn sent_answered(&mut self, key: u64, answer: Result<OperationReply, Errno>) {
        let Some(access) = self.accesses.remove(key) else { return };
        if matches!(access.action, Action::Remove) {
            self.removal_over(access.object, matches!(answer, Ok(_) | Err(Errno::NOENT)));
        }
        match answer {
            Ok(reply) => self.deliver(access.waiter, access_result(&access.action, reply)),
            Err(Errno::NOENT) if access.action.may_miss() => match access.range() {
                Some(range) => self.read_from_parent(access.waiter, access.ancestors, range),
                None => self.deliver(access.waiter, Ok(AccessResult::Nothing)),
            },
            Err(errno) => {
                let error = self.access_error(&access.action, errno);
                self.deliver(access.waiter, Err(error));
            }
        }
    }

    pub(super) fn access_error(&mut self, action: &Action, errno: Errno) -> Error {
        if errno == Errno::BLOCKLISTED {
            self.blocklisted();
            return crate::lock::blocklisted(&self.header);
        }
        let what = if action.writes() { "writing" } else { "reading" };
        Error::cluster(format!("{what} {}", self.header.spec), errno)
    }

    /// Completes an access.
    pub(super) fn finish(&mut self, key: u64, outcome: Result<(), Error>) {
        let Some(access) = self.accesses.remove(key) else { return };
        self.deliver(access.waiter, outcome.map(|()| AccessResult::Nothing));
    }

    /// Completes an access that was not sent.
    pub(super) fn access_refused(&mut self, key: u64, error: Error) {
        let Some(access) = self.accesses.get(key) else { return };
        match access.stage {
            Stage::Held | Stage::Sent => self.finish(key, Err(error)),
            _ => self.fail_write(key, error),
        }
    }

    pub(super) fn deliver(&mut self, waiter: Waiter, found: Result<AccessResult, Error>) {
        match waiter {
            Waiter::Request { key, index } => self.access_completed(key, index, found),
            Waiter::Fetch { key, index } => self.part_read(key, index, found),
            Waiter::CopyUp(key) => self.copy_read(key, found),
        }
    }
}

/// Reads of the parent, and copy-up.
impl Image {
    /// Reads the parent in place of an object that does not exist.
    fn read_from_parent(&mut self, waiter: Waiter, ancestors: Arc<[Header]>, missing: ObjectRange) {
        match self.parent_reads.begin(&self.header, waiter, ancestors, missing) {
            Some(key) => self.continue_parent_read(key),
            None => self.deliver(waiter, Ok(AccessResult::Nothing)),
        }
    }

    fn continue_parent_read(&mut self, key: u64) {
        while let Some(PartRead { waiter, ancestors, range }) = self.parent_reads.next_part(key) {
            self.begin_read(waiter, ancestors, range);
        }
        let Some(read) = self.parent_reads.end(key) else { return };
        let ancestors = &self.header.ancestors;
        let is_outdated = read.missing.generation == 0 && !Arc::ptr_eq(&read.ancestors, ancestors);
        match is_outdated && read.waiter.is_request() {
            // A flatten may have run meanwhile, and the parent may have been removed.
            true => self.begin_read(read.waiter, ancestors.clone(), read.missing),
            false => self.deliver(read.waiter, read.outcome),
        }
    }

    /// One access of a parent read has completed.
    fn part_read(&mut self, key: u64, index: usize, found: Result<AccessResult, Error>) {
        if self.parent_reads.part_completed(key, index, found) {
            self.continue_parent_read(key);
        }
    }

    pub(super) fn send_write(&mut self, key: u64) {
        let Some(access) = self.accesses.get(key) else { return };
        let (object, action) = (access.object, &access.action);
        if self.is_needless(object, action) {
            return self.finish(key, Ok(()));
        }
        let (stage, ops) = first_attempt(&self.header, object, action);
        if stage == Stage::Guarded && self.map.is_absent(object) {
            return self.copy_up(key);
        }
        if stage == Stage::Guarded && !self.existence.is_present(object) {
            self.existence.mark_uncertain(object);
        }
        self.operate(key, stage, ops);
    }

    pub(super) fn write_answered(&mut self, key: u64, answer: Result<OperationReply, Errno>) {
        let Some(access) = self.accesses.get(key) else { return };
        let (stage, object) = (access.stage, access.object);
        match (stage, answer) {
            (Stage::Guarded, Err(Errno::NOENT)) => self.copy_up(key),
            (Stage::CopyingUpFirst, Ok(_)) => self.copied_up_first(key),
            (Stage::Guarded, Ok(_)) => {
                self.finish(key, Ok(()));
                self.existence_known(object, true);
            }
            (_, Ok(_)) => {
                self.copy_up_ended(stage);
                self.finish(key, Ok(()));
            }
            (_, Err(errno)) => {
                let action = access.action.clone();
                let error = self.access_error(&action, errno);
                self.fail_write(key, error);
            }
        }
    }

    pub(super) fn fail_write(&mut self, key: u64, error: Error) {
        let Some(access) = self.accesses.get(key) else { return };
        let (stage, object) = (access.stage, access.object);
        self.copy_up_ended(stage);
        self.finish(key, Err(error));
        self.existence_known(object, false);
    }

    /// Resumes the accesses that waited for the existence of an object.
    fn existence_known(&mut self, object: u64, is_present: bool) {
        for key in self.existence.existence_known(object, is_present) {
            if !self.existence.hold(object, key) {
                self.send_access(key);
            }
        }
    }

    /// Begins the copy-up of an object that does not exist.
    fn copy_up(&mut self, key: u64) {
        let Some(access) = self.accesses.get_mut(key) else { return };
        let object = access.object;
        access.stage = Stage::Held;
        self.existence.mark_uncertain(object);
        self.copy_ups.enqueue(key);
        self.resume_copy_ups();
    }

    fn resume_copy_ups(&mut self) {
        if !self.copy_ups.begin_resuming() {
            return;
        }
        while let Some(key) = self.copy_ups.next() {
            self.read_parent(key);
        }
        self.copy_ups.end_resuming();
    }

    fn copy_up_ended(&mut self, stage: Stage) {
        if matches!(stage, Stage::CopyingUp | Stage::CopyingUpFirst) {
            self.copy_ups.ended();
            self.resume_copy_ups();
        }
    }

    fn read_parent(&mut self, key: u64) {
        let Some(access) = self.accesses.get_mut(key) else { return };
        access.stage = Stage::CopyingUp;
        let object = access.object;
        let length = self.header.shown_by_parent(object);
        let range = ObjectRange { generation: 0, object, offset: 0, length, is_map: false };
        self.read_from_parent(Waiter::CopyUp(key), self.header.ancestors.clone(), range);
    }

    /// The parent's data for a copy-up has been read.
    pub(super) fn copy_read(&mut self, key: u64, found: Result<AccessResult, Error>) {
        let parts = match found {
            Ok(AccessResult::Parts(parts)) => pieces(parts.into_iter()),
            Ok(_) => Vec::new(),
            Err(error) => return self.fail_write(key, error),
        };
        let Some(access) = self.accesses.get(key) else { return };
        let object = access.object;
        // The image may have been shrunk meanwhile: data behind its end must not come back.
        let shown = self.header.shown_by_parent(object);
        let op = op_in_clone(&access.action);
        let is_copy = matches!(access.action, Action::CopyUp);
        let makes_object = matches!(access.action, Action::Write { .. });
        let is_deep = is_copy || !self.header.snap_context.snaps.is_empty();
        match sparse(&parts, shown) {
            Some(data) if is_deep => self.copy_up_first(key, &data),
            Some(data) => {
                self.operate(key, Stage::CopyingUp, vec![copy_up(&data), op]);
                self.existence_known(object, true);
            }
            None if makes_object => {
                self.copy_up_ended(Stage::CopyingUp);
                self.operate(key, Stage::Sent, vec![op]);
                self.existence_known(object, true);
            }
            // An absent object reads as zeros as well.
            None => {
                self.copy_up_ended(Stage::CopyingUp);
                self.finish(key, Ok(()));
                self.existence_known(object, false);
            }
        }
    }

    /// Prepares the copy-up below the snapshots: the object will exist in them too, and their object maps
    /// must say so first.
    fn copy_up_first(&mut self, key: u64, data: &Bytes) {
        let snaps = self.header.snap_context.snaps.clone();
        let has_maps = self.header.features.contains(Features::OBJECT_MAP) && !snaps.is_empty();
        let Some(access) = self.accesses.get_mut(key) else { return };
        let (object, ops) = (access.object, vec![copy_up(data)]);
        if !has_maps {
            return self.operate(key, Stage::CopyingUpFirst, ops);
        }
        access.prepared = Some(ops);
        access.map_changes = snaps.len();
        for snap in snaps.iter().copied() {
            let is_oldest = snaps.last() == Some(&snap);
            let operation = object_map::update_snapshot(&self.header, snap, object, is_oldest);
            self.request(part::SNAPSHOT_MAPS, key, ClusterRequest::Operate(operation));
        }
    }

    pub(super) fn snapshot_map_answered(&mut self, key: u64, answer: ClusterResponse) {
        let Some(access) = self.accesses.get_mut(key) else { return };
        access.map_changes -= 1;
        match answer {
            // The image was smaller at that snapshot, or the snapshot was removed or has no object map.
            Ok(_) | Err(Errno::NOENT | Errno::RANGE | Errno::INVAL) => {}
            Err(errno) => access.map_failure = Some(errno),
        }
        if access.map_changes > 0 {
            return;
        }
        match (access.map_failure, access.prepared.take()) {
            (None, Some(ops)) => self.operate(key, Stage::CopyingUpFirst, ops),
            (errno, _) => {
                let error = self.access_error(&Action::CopyUp, errno.unwrap_or(Errno::IO));
                self.fail_write(key, error);
            }
        }
    }

    /// The copy-up below the snapshots is done; the write follows.
    fn copied_up_first(&mut self, key: u64) {
        let Some(access) = self.accesses.get(key) else { return };
        let (object, op) = (access.object, op_in_clone(&access.action));
        let is_copy = matches!(access.action, Action::CopyUp);
        self.copy_up_ended(Stage::CopyingUpFirst);
        match is_copy {
            true => self.finish(key, Ok(())),
            false => self.operate(key, Stage::Sent, vec![op]),
        }
        self.existence_known(object, true);
    }
}

/// The object map.
impl Image {
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
        if self.map.begin_change(object, new, waiting) {
            let operation = object_map::update(&self.header, object..object + 1, new, old);
            self.request(part::MAP, object, ClusterRequest::Operate(operation));
        }
    }

    /// A removal has completed; `is_done` tells whether it succeeded.
    pub(super) fn removal_over(&mut self, object: u64, is_done: bool) {
        if self.map.removal_over(object, is_done) {
            let old = Some(State::Pending);
            self.change_state(object, State::Nonexistent, old, VecDeque::new());
        }
    }

    pub(super) fn map_answered(&mut self, object: u64, answer: ClusterResponse) {
        if object == INVALIDATION {
            return self.map_invalidated(answer);
        }
        if !self.map.is_changing(object) {
            return;
        }
        match answer {
            Ok(_) => {
                self.map.updated(object);
                self.state_changed(object);
            }
            Err(Errno::BLOCKLISTED) => {
                self.blocklisted();
                self.abandon_map();
            }
            // The access that needs the space fails; the map stays as it was.
            Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => {
                if let Some(key) = self.map.take_needing(object) {
                    self.access_answered(key, Err(errno));
                }
                self.state_changed(object);
            }
            Err(errno) => self.invalidate_map(errno),
        }
        self.drain();
    }

    fn state_changed(&mut self, object: u64) {
        for key in self.map.end_change(object) {
            self.resume_access(key);
        }
    }

    fn invalidate_map(&mut self, errno: Errno) {
        if !self.map.begin_invalidation() {
            return;
        }
        let image = &self.header.spec;
        tracing::warn!(%image, %errno, "the object map cannot be updated and is marked invalid");
        let operation = object_map::invalidate(&self.header);
        self.request(part::MAP, INVALIDATION, ClusterRequest::Operate(operation));
    }

    fn map_invalidated(&mut self, answer: ClusterResponse) {
        self.map.end_invalidation();
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
        for key in self.map.abandon() {
            match &self.failure {
                Some(error) => self.access_refused(key, error.clone()),
                None => self.resume_access(key),
            }
        }
    }
}
