//! Reads of files as snapshots show them. They need no capability, since a snapshot does not change.

use crate::call::{Answer, Call, CallId, Outcome};
use crate::striping;
use crate::transfers::{Transfer, Transfers};
use bytes::{Bytes, BytesMut};
use engine::Time;
use rados::Operation;
use std::collections::BTreeMap;
use types::{Errno, SnapId};
use wire::{InodeStat, OsdOp};

/// A read in progress.
#[derive(Debug)]
struct Read {
    /// The file, if all of it is read.
    file: Option<Box<InodeStat>>,
    bytes: BytesMut,
    /// Parts that have not arrived.
    parts: usize,
    failure: Option<Errno>,
}

/// Reads in progress.
#[derive(Debug, Default)]
pub(crate) struct SnapshotReads(BTreeMap<CallId, Read>);

impl SnapshotReads {
    /// Begins to read a whole file.
    pub(super) fn begin_file(
        &mut self,
        now: Time,
        transfers: &mut Transfers,
        id: CallId,
        stat: Box<InodeStat>,
    ) -> Option<Outcome> {
        let over = self.begin(now, transfers, id, &stat, (0, stat.size));
        if let Some(read) = self.0.get_mut(&id) {
            read.file = Some(stat);
            return None;
        }
        over.map(|outcome| whole(outcome, Some(stat)))
    }

    /// Begins a read; returns its outcome if there is nothing to wait for.
    pub(super) fn begin(
        &mut self,
        now: Time,
        transfers: &mut Transfers,
        id: CallId,
        stat: &InodeStat,
        range: (u64, u64),
    ) -> Option<Outcome> {
        let ((offset, length), layout) = (range, &stat.layout);
        if length > Call::READ_MAX || !layout.is_valid() || offset.checked_add(length).is_none() {
            return Some(Err(Errno::INVAL));
        }
        let length = length.min(stat.size.saturating_sub(offset));
        let bytes = BytesMut::zeroed(length as usize);
        let extents = striping::extents(layout, offset, length);
        if extents.is_empty() {
            return Some(Ok(Answer::Data(bytes.freeze())));
        }
        self.0.insert(id, Read { file: None, bytes, parts: extents.len(), failure: None });
        for extent in extents {
            let place = striping::place(layout, stat.ino, extent.object);
            let ops = vec![OsdOp::read(extent.offset, extent.length)];
            let operation = Operation { snap: SnapId(stat.snap), ..Operation::new(place, ops) };
            let (at, length) = (extent.at as usize, extent.length as usize);
            transfers.submit(now, operation, Transfer::Part { call: id, at, length });
        }
        None
    }

    /// A part has arrived. Objects that are absent or short show zeros. Returns the outcome after the last
    /// one.
    pub(super) fn take(
        &mut self,
        id: CallId,
        at: usize,
        length: usize,
        answer: Result<Bytes, Errno>,
    ) -> Option<Outcome> {
        let read = self.0.get_mut(&id)?;
        match answer {
            Ok(bytes) => {
                let length = length.min(bytes.len());
                read.bytes[at..at + length].copy_from_slice(&bytes[..length]);
            }
            Err(Errno::NOENT) => {}
            Err(errno) => {
                tracing::warn!(%errno, "data of a snapshot is not read");
                read.failure = Some(errno);
            }
        }
        read.parts -= 1;
        if read.parts > 0 {
            return None;
        }
        let Read { file, bytes, failure, .. } = self.0.remove(&id)?;
        let outcome = match failure {
            None => Ok(Answer::Data(bytes.freeze())),
            Some(_) => Err(Errno::IO),
        };
        Some(whole(outcome, file))
    }
}

/// The outcome of a read, with the file if all of it was read.
fn whole(outcome: Outcome, file: Option<Box<InodeStat>>) -> Outcome {
    match (outcome?, file) {
        (Answer::Data(data), Some(stat)) => Ok(Answer::File(stat, data)),
        (answer, _) => Ok(answer),
    }
}
