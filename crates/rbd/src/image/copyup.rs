//! Writing a clone. What an object shows of the parent must stay when a part of it is written: such a
//! write is sent on condition that the object is there. If it is not, what the parent has is read and
//! written with it.
//!
//! While nobody knows whether an object is there, everything else that concerns it is held, so that the
//! order stays and reads see what was written before.

use super::Image;
use super::access::{Action, Stage, Waiter};
use super::assemble::{Found, pieces};
use super::parent::ObjectRange;
use super::request::Piece;
use crate::steps::{Answer, Ask, Part};
use crate::{Error, Features, Header, object_map};
use bytes::Bytes;
use rados::OperationReply;
use std::collections::{BTreeMap, VecDeque};
use stdx::FastMap;
use types::Errno;
use wire::OsdOp;

/// Objects that are made of their parents' at the same time, each in memory as a whole.
const COPY_UPS_MAX: usize = 16;
/// Objects that are remembered to be there.
const PRESENT_MAX: usize = 1 << 16;
/// What is compared with zeros at a time, so that holes stay holes.
const GRAIN: usize = 4096;

/// What is known of an object.
#[derive(Debug)]
enum Guard {
    Present,
    /// Being found out; accesses that wait for that, in order.
    Uncertain(VecDeque<u64>),
}

/// What is known of a clone's objects. It only saves waiting: writes name their condition anyway.
#[derive(Debug, Default)]
pub(super) struct Guards {
    objects: FastMap<u64, Guard>,
    under_way: usize,
    waiting: VecDeque<u64>,
    is_going_on: bool,
}

impl Guards {
    /// Whether an access has to wait for what is being found out.
    pub fn hold(&mut self, object: u64, key: u64) -> bool {
        match self.objects.get_mut(&object) {
            Some(Guard::Uncertain(held)) => {
                held.push_back(key);
                true
            }
            _ => false,
        }
    }

    fn is_present(&self, object: u64) -> bool {
        matches!(self.objects.get(&object), Some(Guard::Present))
    }

    fn find_out(&mut self, object: u64) {
        let guard = self.objects.entry(object).or_insert(Guard::Present);
        if matches!(guard, Guard::Present) {
            *guard = Guard::Uncertain(VecDeque::new());
        }
    }

    /// Who has waited.
    fn found_out(&mut self, object: u64, is_present: bool) -> VecDeque<u64> {
        if self.objects.len() > PRESENT_MAX {
            self.forget();
        }
        let old = match is_present {
            true => self.objects.insert(object, Guard::Present),
            false => self.objects.remove(&object),
        };
        match old {
            Some(Guard::Uncertain(held)) => held,
            _ => VecDeque::new(),
        }
    }

    /// Objects may have been removed.
    pub fn forget(&mut self) {
        self.objects.retain(|_, guard| matches!(guard, Guard::Uncertain(_)));
    }
}

/// How a write gets along with what the parent shows of its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plan {
    /// That is nothing.
    Plain,
    /// It hides all of that.
    Hides,
    /// Some of that must stay, here or in snapshots.
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

/// An object that is not there shows the parent's, so that none is removed.
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
        if self.is_spared(object, &access.action) {
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
        if stage == Stage::Guarded && !self.guards.is_present(object) {
            self.guards.find_out(object);
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
                self.found_out(object, true);
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
        self.found_out(object, false);
    }

    /// Lets those go on who have waited.
    fn found_out(&mut self, object: u64, is_present: bool) {
        for key in self.guards.found_out(object, is_present) {
            if !self.guards.hold(object, key) {
                self.send_access(key);
            }
        }
    }

    /// The object is not there.
    fn copy_up(&mut self, key: u64) {
        let Some(access) = self.accesses.get_mut(key) else { return };
        let object = access.object;
        access.stage = Stage::Held;
        self.guards.find_out(object);
        self.guards.waiting.push_back(key);
        self.go_on_copying();
    }

    fn go_on_copying(&mut self) {
        // What ends at once lets the next one go on here, not from within itself.
        if std::mem::replace(&mut self.guards.is_going_on, true) {
            return;
        }
        while self.guards.under_way < COPY_UPS_MAX
            && let Some(key) = self.guards.waiting.pop_front()
        {
            self.guards.under_way += 1;
            self.read_parent(key);
        }
        self.guards.is_going_on = false;
    }

    fn copy_up_ended(&mut self, stage: Stage) {
        if matches!(stage, Stage::CopyingUp | Stage::CopyingUpFirst) {
            self.guards.under_way -= 1;
            self.go_on_copying();
        }
    }

    fn read_parent(&mut self, key: u64) {
        let Some(access) = self.accesses.get_mut(key) else { return };
        access.stage = Stage::CopyingUp;
        let object = access.object;
        let length = self.header.shown_by_parent(object);
        let range = ObjectRange { generation: 0, object, offset: 0, length, is_map: false };
        self.fall_through(Waiter::CopyUp(key), self.header.ancestors.clone(), range);
    }

    /// What the parent has for an object is here.
    pub(super) fn copy_read(&mut self, key: u64, found: Result<Found, Error>) {
        let parts = match found {
            Ok(Found::Parts(parts)) => pieces(parts.into_iter()),
            Ok(_) => Vec::new(),
            Err(error) => return self.fail_write(key, error),
        };
        let Some(access) = self.accesses.get(key) else { return };
        let object = access.object;
        // The image may have become smaller meanwhile: what it no longer shows must not come back.
        let shown = self.header.shown_by_parent(object);
        let op = op_in_clone(&access.action);
        let is_copy = matches!(access.action, Action::CopyUp);
        let makes_object = matches!(access.action, Action::Write { .. });
        let is_deep = is_copy || !self.header.snap_context.snaps.is_empty();
        match sparse(&parts, shown) {
            Some(data) if is_deep => self.copy_up_first(key, &data),
            Some(data) => {
                self.operate(key, Stage::CopyingUp, vec![copy_up(&data), op]);
                self.found_out(object, true);
            }
            None if makes_object => {
                self.copy_up_ended(Stage::CopyingUp);
                self.operate(key, Stage::Sent, vec![op]);
                self.found_out(object, true);
            }
            // Nothing shows zeros as well.
            None => {
                self.copy_up_ended(Stage::CopyingUp);
                self.finish(key, Ok(()));
                self.found_out(object, false);
            }
        }
    }

    /// The object comes to be in the snapshots too, and their maps must say so before.
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
            self.ask(Part::SnapshotMaps, key, Ask::Operate(operation));
        }
    }

    pub(super) fn snapshot_map_answered(&mut self, key: u64, answer: Answer) {
        let Some(access) = self.accesses.get_mut(key) else { return };
        access.map_changes -= 1;
        match answer {
            // The image was smaller then, or the snapshot has gone or has no map.
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

    /// The object is there, also in snapshots; now for the write.
    fn copied_up_first(&mut self, key: u64) {
        let Some(access) = self.accesses.get(key) else { return };
        let (object, op) = (access.object, op_in_clone(&access.action));
        let is_copy = matches!(access.action, Action::CopyUp);
        self.copy_up_ended(Stage::CopyingUpFirst);
        match is_copy {
            true => self.finish(key, Ok(())),
            false => self.operate(key, Stage::Sent, vec![op]),
        }
        self.found_out(object, true);
    }
}

/// Does nothing if the object is there.
fn copy_up(data: &Bytes) -> OsdOp {
    OsdOp::call("rbd", "sparse_copyup", data)
}

/// Extents and their data one behind the other, up to an offset; `None` if all is zeros.
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
    fn only_what_is_not_zeros_is_copied() {
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
