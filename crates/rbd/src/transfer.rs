//! Migration of an image's objects with their snapshot history.
//!
//! For each object the versions of the source's and of the target's object are listed; then one version after
//! the other is read and written with the snapshot context that the original write had. Each write asserts
//! that it was not done before, so that an interrupted copy can continue, and copy-ups by clients do no harm.

use crate::calls;
use crate::header::Header;
use bytes::Bytes;
use rados::{Operation, OperationReply, Progress, Steps};
use std::cell::Cell;
use types::{Errno, SnapId};
use wire::op::OpCode;
use wire::snapshots::SnapListing;
use wire::{OsdOp, SnapContext};

/// Objects in flight.
const IN_FLIGHT_MAX: usize = 8;

/// Source and target.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Header of the image that is copied from.
    pub source: Header,
    /// Header of the image that is copied to.
    pub target: Header,
    /// Snapshots of the source and their ids in the target, the oldest first.
    pub snaps: Vec<(SnapId, SnapId)>,
    /// The largest number of objects that the image ever had.
    pub objects: u64,
}

/// One version of the target's object.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Write {
    /// Snapshot under which the source shows it; `None` if there was no object then.
    from: Option<SnapId>,
    knows: SnapContext,
}

impl Plan {
    /// Copies all objects of an image that is being migrated. After an error no more are begun.
    pub async fn transfer(&self, steps: &Steps) -> Result<(), Errno> {
        let total = self.objects;
        let done = Cell::new(0);
        let copy = async |number| {
            let outcome = self.copy(steps, number).await;
            done.set(done.get() + 1);
            steps.note_progress(Some(Progress { done: done.get(), total }));
            outcome
        };
        steps.note_progress(Some(Progress { done: 0, total }));
        let outcome = steps.each(IN_FLIGHT_MAX, 0..total, copy).await;
        steps.note_progress(None);
        outcome
    }

    async fn copy(&self, steps: &Steps, number: u64) -> Result<(), Errno> {
        let source = listed(steps.operate(listing(&self.source, number)).await)?;
        let Some(source) = source else { return Ok(()) };
        let target = listed(steps.operate(listing(&self.target, number)).await)?;
        let target = target.filter(|listed| !listed.clones.is_empty());
        let is_done =
            |write: &Write| target.as_ref().is_some_and(|listed| write.knows.seq <= listed.seq);
        for write in writes(&source, &self.snaps) {
            if !is_done(&write) {
                self.copy_version(steps, number, &write).await?;
            }
        }
        Ok(())
    }

    async fn copy_version(&self, steps: &Steps, number: u64, write: &Write) -> Result<(), Errno> {
        let op = match write.from {
            Some(snap) => OsdOp::write_full(self.read(steps, number, snap).await?),
            None => OsdOp::remove(),
        };
        let guard = match write.knows.seq {
            SnapId(0) => OsdOp::create(true),
            seq => calls::assert_newer_snapshots(seq),
        };
        let mut operation = Operation::write(self.target.data_place(number), vec![guard, op]);
        operation.snap_context = write.knows.clone();
        match steps.operate(operation).await {
            // Another client, or an earlier attempt, has written it.
            Ok(_) | Err(Errno::EXIST | Errno::RANGE | Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    async fn read(&self, steps: &Steps, number: u64, snap: SnapId) -> Result<Bytes, Errno> {
        let ops = vec![OsdOp::read(0, self.source.layout.object_size())];
        let mut operation = Operation::new(self.source.data_place(number), ops);
        operation.snap = snap;
        let output = steps.operate(operation).await?.ops.into_iter().next().map(|op| op.output);
        Ok(without_trailing_zeros(output.unwrap_or_default()))
    }
}

fn listing(image: &Header, number: u64) -> Operation {
    let mut operation =
        Operation::new(image.data_place(number), vec![OsdOp::new(OpCode::LIST_SNAPS)]);
    operation.snap = SnapId::DIR;
    operation
}

/// `None` if there never was such an object.
fn listed(reply: Result<OperationReply, Errno>) -> Result<Option<SnapListing>, Errno> {
    match reply {
        Ok(reply) => {
            calls::output(&reply, 0, "the snapshots of an object").map(Some).map_err(|_| Errno::IO)
        }
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// The version of an object that a snapshot shows: [`SnapId::HEAD`], a clone, or none.
fn state_at(listed: &SnapListing, snap: SnapId) -> Option<SnapId> {
    let has_head = listed.clones.iter().any(|clone| clone.clone == SnapId::HEAD);
    if snap > listed.seq {
        return has_head.then_some(SnapId::HEAD);
    }
    let mut clones = listed.clones.iter().filter(|clone| clone.clone != SnapId::HEAD);
    let clone = clones.find(|clone| clone.clone >= snap)?;
    clone.snaps.contains(&snap).then_some(clone.clone)
}

/// The writes that reproduce an object's history, the oldest first.
fn writes(listed: &SnapListing, snaps: &[(SnapId, SnapId)]) -> Vec<Write> {
    let mut known: Vec<SnapId> = Vec::new();
    let mut last = None;
    let mut writes = Vec::new();
    let points = snaps.iter().map(|(from, to)| (*from, Some(*to)));
    for (from, to) in points.chain([(SnapId::HEAD, None)]) {
        let state = state_at(listed, from);
        if state != last {
            let seq = known.last().copied().unwrap_or_default();
            let snaps = known.iter().rev().copied().collect();
            let knows = SnapContext { seq, snaps };
            writes.push(Write { from: state.map(|_| from), knows });
            last = state;
        }
        known.extend(to);
    }
    writes
}

fn without_trailing_zeros(data: Bytes) -> Bytes {
    let length = data.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    data.slice(..length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::snapshots::CloneInfo;

    fn ids(ids: &[u64]) -> Vec<SnapId> {
        ids.iter().copied().map(SnapId).collect()
    }

    fn clone(id: SnapId, snaps: &[u64]) -> CloneInfo {
        CloneInfo { clone: id, snaps: ids(snaps), ..CloneInfo::default() }
    }

    /// Versions that are read, and the snapshot context of each write.
    fn history(listed: &SnapListing, snaps: &[(u64, u64)]) -> Vec<(Option<u64>, Vec<u64>)> {
        let snaps: Vec<_> = snaps.iter().map(|(from, to)| (SnapId(*from), SnapId(*to))).collect();
        let writes = writes(listed, &snaps).into_iter();
        let history = |write: Write| {
            let knows = write.knows.snaps.iter().map(|snap| snap.0).collect();
            (write.from.map(|snap| snap.0), knows)
        };
        writes.map(history).collect()
    }

    #[test]
    fn an_object_gets_the_same_history() {
        let head = SnapId::HEAD;
        let snaps = [(3, 30), (5, 50), (8, 80)];
        // Never written since: the oldest snapshot shows it already.
        let listed = SnapListing { clones: vec![clone(head, &[])], seq: SnapId(0) };
        assert_eq!(history(&listed, &snaps), [(Some(3), vec![])]);
        // Created after the first snapshot, changed after the second one, which a clone shows.
        let clones = vec![clone(SnapId(5), &[5]), clone(head, &[])];
        let listed = SnapListing { clones, seq: SnapId(5) };
        assert_eq!(history(&listed, &snaps), [(Some(5), vec![30]), (Some(8), vec![50, 30])]);
        // One clone for two snapshots; then the object was removed.
        let listed = SnapListing { clones: vec![clone(SnapId(5), &[3, 5])], seq: SnapId(8) };
        assert_eq!(history(&listed, &snaps), [(Some(3), vec![]), (None, vec![50, 30])]);
        assert_eq!(history(&listed, &[]), []);
    }

    #[test]
    fn only_zeros_at_the_end_are_left_out() {
        assert_eq!(without_trailing_zeros("\0a\0\0".into()), "\0a");
        assert_eq!(without_trailing_zeros("\0\0".into()), "");
    }
}
