//! Copy-up: writes to clones.
//!
//! The part of the parent's data that a write does not cover must stay visible. A write therefore asserts
//! that the object exists; if it does not, the parent's data is read and written together with the change.
//!
//! While the existence of an object is being determined, all other accesses to it are held, so that order is
//! kept and reads see earlier writes.

use super::Image;
use super::access::{Action, Stage, Waiter};
use super::assemble::{AccessResult, pieces};
use super::parent::ObjectRange;
use super::request::Piece;
use crate::part;
use crate::{Error, Features, Header, object_map};
use bytes::Bytes;
use rados::{ClusterRequest, ClusterResponse, OperationReply};
use std::collections::{BTreeMap, VecDeque};
use stdx::FastMap;
use types::Errno;
use wire::OsdOp;

/// Concurrent copy-ups; each holds one whole object in memory. Further ones wait.
const COPY_UPS_MAX: usize = 16;
/// Objects remembered as present. Beyond that the cache is emptied.
const PRESENT_MAX: usize = 1 << 16;
/// Unit of comparison with zeros, so that holes stay holes.
const GRAIN: usize = 4096;

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
    in_flight: usize,
    waiting: VecDeque<u64>,
    is_resuming: bool,
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

    fn is_present(&self, object: u64) -> bool {
        matches!(self.objects.get(&object), Some(Existence::Present))
    }

    fn mark_uncertain(&mut self, object: u64) {
        let guard = self.objects.entry(object).or_insert(Existence::Present);
        if matches!(guard, Existence::Present) {
            *guard = Existence::Uncertain(VecDeque::new());
        }
    }

    /// Returns the accesses that waited.
    fn existence_known(&mut self, object: u64, is_present: bool) -> VecDeque<u64> {
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

/// Relation of a write to the parent's data in its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plan {
    /// The parent shows nothing there.
    Plain,
    /// The write covers all of the parent's data.
    Hides,
    /// Some of the parent's data must be kept, in the image or in snapshots.
    Keeps,
}

fn plan(header: &Header, object: u64, action: &Action) -> Plan {
    let shown = header.shown_by_parent(object);
    let hides = match action {
        Action::Write { offset, data } => *offset == 0 && data.len() as u64 >= shown,
        Action::Zero { offset, length } => *offset == 0 && *length >= shown,
        Action::Truncate { size } => *size == 0,
        Action::Remove => true,
        Action::CopyUp | Action::Read { .. } | Action::Map { .. } => false,
    };
    match hides && header.snap_context.snaps.is_empty() {
        _ if shown == 0 => Plan::Plain,
        true => Plan::Hides,
        false => Plan::Keeps,
    }
}

/// Operation for an object of a clone. A missing object would show the parent again, so removal becomes
/// truncation.
fn op_in_clone(action: &Action) -> OsdOp {
    match action {
        Action::Remove => OsdOp::truncate(0),
        other => other.op(),
    }
}

impl Image {
    pub(super) fn send_write(&mut self, key: u64) {
        let Some(access) = self.accesses.get(key) else { return };
        let (object, op) = (access.object, op_in_clone(&access.action));
        if self.is_needless(object, &access.action) {
            return self.finish(key, Ok(()));
        }
        let (stage, ops) = match (plan(&self.header, object, &access.action), &access.action) {
            (Plan::Plain, action) => (Stage::Sent, vec![action.op()]),
            (Plan::Hides, Action::Write { .. }) => (Stage::Sent, vec![op]),
            (Plan::Hides, _) => (Stage::Sent, vec![OsdOp::create(false), op]),
            (Plan::Keeps, Action::CopyUp) => (Stage::Guarded, vec![OsdOp::stat()]),
            (Plan::Keeps, _) => (Stage::Guarded, vec![OsdOp::stat(), op]),
        };
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
        self.existence.waiting.push_back(key);
        self.resume_copy_ups();
    }

    fn resume_copy_ups(&mut self) {
        // A copy-up that completes at once resumes the next one in this loop instead of by recursion.
        if std::mem::replace(&mut self.existence.is_resuming, true) {
            return;
        }
        while self.existence.in_flight < COPY_UPS_MAX
            && let Some(key) = self.existence.waiting.pop_front()
        {
            self.existence.in_flight += 1;
            self.read_parent(key);
        }
        self.existence.is_resuming = false;
    }

    fn copy_up_ended(&mut self, stage: Stage) {
        if matches!(stage, Stage::CopyingUp | Stage::CopyingUpFirst) {
            self.existence.in_flight -= 1;
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

/// Calls the class method `copyup`, which does nothing if the object exists.
fn copy_up(data: &Bytes) -> OsdOp {
    OsdOp::call("rbd", "sparse_copyup", data)
}

/// Concatenates extents and data up to an offset; `None` if all is zeros.
fn sparse(pieces: &[Piece], end: u64) -> Option<Bytes> {
    let mut extents: BTreeMap<u64, u64> = BTreeMap::new();
    let mut data: Vec<u8> = Vec::new();
    let mut offset = 0;
    for piece in pieces {
        if let Piece::Data(bytes) = piece {
            let shown = end.saturating_sub(offset).min(bytes.len() as u64) as usize;
            add_filled(&mut extents, &mut data, offset, &bytes[..shown]);
        }
        offset += piece.len();
    }
    (!data.is_empty()).then(|| codec::encode_to_bytes(&(extents, Bytes::from(data))))
}

fn add_filled(extents: &mut BTreeMap<u64, u64>, data: &mut Vec<u8>, mut at: u64, bytes: &[u8]) {
    for grain in bytes.chunks(GRAIN) {
        if grain.iter().any(|byte| *byte != 0) {
            data.extend_from_slice(grain);
            match extents.last_entry() {
                Some(mut last) if last.key() + last.get() == at => {
                    *last.get_mut() += grain.len() as u64;
                }
                _ => drop(extents.insert(at, grain.len() as u64)),
            }
        }
        at += grain.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_not_copied_up() {
        let grain = |byte: u8| vec![byte; GRAIN];
        let data = [grain(1), grain(2), grain(0), grain(3)].concat();
        let pieces = [Piece::Zeros(100), Piece::Data(data.into()), Piece::Zeros(1)];
        let payload = sparse(&pieces, u64::MAX).unwrap();
        let (extents, copied): (BTreeMap<u64, u64>, Bytes) =
            codec::decode_all("payload", &payload).unwrap();
        let size = GRAIN as u64;
        assert_eq!(extents, BTreeMap::from([(100, 2 * size), (100 + 3 * size, size)]));
        assert_eq!(copied, [grain(1), grain(2), grain(3)].concat());
        let cut = sparse(&pieces, 110).unwrap();
        let (extents, _): (BTreeMap<u64, u64>, Bytes) = codec::decode_all("payload", &cut).unwrap();
        assert_eq!(extents, BTreeMap::from([(100, 10)]));
        assert!(sparse(&[Piece::Data(grain(0).into())], u64::MAX).is_none());
    }
}
