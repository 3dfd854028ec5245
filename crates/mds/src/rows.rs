//! Rows that a checkpoint writes.
//!
//! Rows are written as they are when their turn comes, not as they were when the checkpoint began: a row may
//! be newer than the checkpoint, and is sent once the records that made it are durable. So no values are
//! kept, and replay from the checkpoint overlays such a row with the same values.

use crate::log::Log;
use crate::purges::Purges;
use crate::sessions::Sessions;
use bytes::Bytes;
use codec::Writer;
use namespace::{Ino, RowKey, Tree, ino_key, snapshots};
use rados::{Operation, Place};
use std::collections::{BTreeMap, VecDeque};
use types::PoolId;
use wire::OsdOp;
use wire::op::{OpCode, request_flags};

/// The RADOS namespace of all objects.
pub const NAMESPACE: &[u8] = b"sepiola";
/// Pairs of one request.
const PAIRS_MAX: usize = 1024;
/// Bytes of one request, unless it has one pair.
const BYTES_MAX: usize = 1 << 20;

/// Rows that are still to be written.
#[derive(Debug, Default)]
pub(crate) struct RowQueue {
    keys: VecDeque<RowKey>,
    sessions: VecDeque<u64>,
    purges: VecDeque<u64>,
}

impl RowQueue {
    /// All rows that have changed so far.
    pub fn freeze(log: &mut Log) -> Self {
        let sessions = std::mem::take(&mut log.sessions).into_iter().collect();
        let purges = std::mem::take(&mut log.purges).into_iter().collect();
        RowQueue { keys: log.rows.freeze().into(), sessions, purges }
    }

    /// Whether all are taken.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.sessions.is_empty() && self.purges.is_empty()
    }

    /// The next rows of one object; `None` if none is left.
    pub fn next(
        &mut self,
        rank: u32,
        tree: &Tree,
        log: &Log,
        sessions: &Sessions,
        purges: &Purges,
    ) -> Option<RowWrite> {
        while let Some(key) = self.keys.front() {
            let object = key.object(rank);
            let write = self.take_rows(object, rank, tree, log);
            if write.removes_object || !write.sets.is_empty() || !write.removes.is_empty() {
                return Some(write);
            }
        }
        let session = |client| sessions.get(client).map(|s| codec::encode_to_bytes(s.image()));
        let purge = |ino| purges.get(ino).map(codec::encode_to_bytes);
        take_numbered(&mut self.sessions, sessions_object(rank), session)
            .or_else(|| take_numbered(&mut self.purges, purges_object(rank), purge))
    }

    fn take_rows(&mut self, object: String, rank: u32, tree: &Tree, log: &Log) -> RowWrite {
        let mut write = RowWrite { object, ..RowWrite::default() };
        let mut bytes = 0;
        while let Some(key) = self.keys.front()
            && bytes < BYTES_MAX
            && write.sets.len() + write.removes.len() < PAIRS_MAX
            && key.object(rank) == write.object
        {
            let key = self.keys.pop_front().expect("it was seen");
            match (&key, tree.row(&key)) {
                (RowKey::Directory(directory), _) => {
                    write.removes_object = !snapshots::keep_rows_of(tree, *directory);
                }
                (_, Some(row)) => {
                    let value = row.encode();
                    bytes += value.len();
                    write.sets.insert(key.key(), value);
                }
                // The rows of a removed directory go with their object.
                (RowKey::Entry(directory, _) | RowKey::OldEntry(directory, ..), None)
                    if !snapshots::keep_rows_of(tree, *directory) => {}
                (_, None) if log.rows.may_be_stored(&key) => write.removes.push(key.key()),
                (_, None) => {}
            }
        }
        write
    }
}

/// The next rows of a table whose keys are numbers; `None` if none is left.
fn take_numbered(
    numbers: &mut VecDeque<u64>,
    object: String,
    value: impl Fn(u64) -> Option<Bytes>,
) -> Option<RowWrite> {
    let mut write = RowWrite { object, ..RowWrite::default() };
    let mut bytes = 0;
    while bytes < BYTES_MAX
        && write.sets.len() + write.removes.len() < PAIRS_MAX
        && let Some(number) = numbers.pop_front()
    {
        match value(number) {
            Some(value) => {
                bytes += value.len();
                write.sets.insert(ino_key(Ino(number)), value);
            }
            None => write.removes.push(ino_key(Ino(number))),
        }
    }
    (!write.sets.is_empty() || !write.removes.is_empty()).then_some(write)
}

/// The object with the rows of sessions.
pub(crate) fn sessions_object(rank: u32) -> String {
    format!("sessions.{rank}")
}

/// The object with the rows of purges.
pub(crate) fn purges_object(rank: u32) -> String {
    format!("tasks.{rank}")
}

/// The place of an object.
pub(crate) fn place(pool: PoolId, object: impl Into<Bytes>) -> Place {
    Place { namespace: Bytes::from_static(NAMESPACE), ..Place::new(pool, object) }
}

/// A write of the server's own, which a full pool takes, too: what frees space is written as well.
pub(crate) fn write(place: Place, ops: Vec<OsdOp>) -> Operation {
    let operation = Operation::write(place, ops);
    Operation { flags: operation.flags | request_flags::FULL_FORCE, ..operation }
}

/// Changes of the pairs of one object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RowWrite {
    /// Its name.
    pub object: String,
    /// New and changed pairs.
    pub sets: BTreeMap<Bytes, Bytes>,
    /// Keys whose pairs go.
    pub removes: Vec<Bytes>,
    /// All pairs go, with the object.
    pub removes_object: bool,
}

impl RowWrite {
    /// The operation. That an object does not exist whose pairs are removed is no failure.
    pub fn operation(&self, pool: PoolId) -> Operation {
        let place = place(pool, self.object.clone());
        if self.removes_object {
            return write(place, vec![OsdOp::remove()]);
        }
        let mut ops = Vec::new();
        if !self.sets.is_empty() {
            let pairs = codec::encode_to_bytes(&self.sets);
            ops.push(OsdOp::new(OpCode::OMAPSETVALS).with_input(pairs));
        }
        if !self.removes.is_empty() {
            let mut w = Writer::new();
            w.list(&self.removes, |w, key| w.blob(key));
            ops.push(OsdOp::new(OpCode::OMAPRMKEYS).with_input(w.into_bytes()));
        }
        write(place, ops)
    }
}
