//! Migration of an image's objects with their snapshot history.
//!
//! For each object the versions of the source's and of the target's object are listed; then one version after
//! the other is read and written with the snapshot context that the original write had. Each write asserts
//! that it was not done before, so that an interrupted copy can continue, and copy-ups by clients do no harm.

use crate::Error;
use crate::calls;
use crate::header::Header;
use crate::part;
use crate::workflow::{Stop, Workflow, operation_reply, write_operation};
use bytes::Bytes;
use rados::{
    ClusterRequest, ClusterRequestId, ClusterResponse, Operation, OperationReply, Progress, Reply,
};
use std::collections::BTreeMap;
use types::{Errno, SnapId};
use wire::op::OpCode;
use wire::snapshots::SnapListing;
use wire::{OsdOp, SnapContext};

/// Objects in flight.
const IN_FLIGHT_MAX: usize = 8;

/// Source and target.
#[derive(Debug)]
pub(crate) struct Plan {
    pub source: Header,
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

#[derive(Debug)]
enum Stage {
    /// Lists the versions of the source's object, then of the target's.
    Source,
    Target,
    Reading,
    Writing,
}

#[derive(Debug)]
struct Object {
    stage: Stage,
    /// Versions still to be written, the oldest last.
    writes: Vec<Write>,
}

#[derive(Debug)]
pub(crate) struct Transfer {
    plan: Plan,
    next: u64,
    active: BTreeMap<u64, Object>,
    requests: Vec<(u64, Operation)>,
    error: Option<Errno>,
}

impl Transfer {
    fn new(plan: Plan) -> Self {
        let (active, requests) = (BTreeMap::new(), Vec::new());
        let mut transfer = Transfer { plan, next: 0, active, requests, error: None };
        transfer.begin();
        transfer
    }

    pub fn progress(&self) -> Progress {
        Progress { done: self.next - self.active.len() as u64, total: self.plan.objects }
    }

    fn begin(&mut self) {
        while self.active.len() < IN_FLIGHT_MAX
            && self.next < self.plan.objects
            && self.error.is_none()
        {
            let number = self.next;
            self.next += 1;
            self.active.insert(number, Object { stage: Stage::Source, writes: Vec::new() });
            self.requests.push((number, listing(&self.plan.source, number)));
        }
    }

    pub fn handle_response(&mut self, number: u64, answer: ClusterResponse) {
        let Some(mut object) = self.active.remove(&number) else { return };
        match self.advance(number, &mut object, answer.and_then(operation_reply)) {
            Ok(Some(operation)) => {
                self.requests.push((number, operation));
                self.active.insert(number, object);
            }
            Ok(None) => {}
            Err(errno) => drop(self.error.get_or_insert(errno)),
        }
        self.begin();
    }

    /// The next request for an object, if there is one.
    fn advance(
        &self,
        number: u64,
        object: &mut Object,
        reply: Result<OperationReply, Errno>,
    ) -> Result<Option<Operation>, Errno> {
        match object.stage {
            Stage::Source => {
                let Some(listed) = listed(reply)? else { return Ok(None) };
                object.writes = writes(&listed, &self.plan.snaps);
                object.writes.reverse();
                object.stage = Stage::Target;
                Ok(Some(listing(&self.plan.target, number)))
            }
            Stage::Target => {
                let listed = listed(reply)?.filter(|listed| !listed.clones.is_empty());
                let is_done = |write: &Write| {
                    listed.as_ref().is_some_and(|listed| write.knows.seq <= listed.seq)
                };
                object.writes.retain(|write| !is_done(write));
                self.next_write(number, object)
            }
            Stage::Reading => {
                let output = reply?.ops.into_iter().next().map(|op| op.output);
                let data = without_trailing_zeros(output.unwrap_or_default());
                let write = object.writes.pop().ok_or(Errno::IO)?;
                object.stage = Stage::Writing;
                Ok(Some(self.write(number, &write, OsdOp::write_full(data))))
            }
            Stage::Writing => match reply {
                // Another client, or an earlier attempt, has written it.
                Ok(_) | Err(Errno::EXIST | Errno::RANGE | Errno::NOENT) => {
                    self.next_write(number, object)
                }
                Err(errno) => Err(errno),
            },
        }
    }

    fn next_write(&self, number: u64, object: &mut Object) -> Result<Option<Operation>, Errno> {
        let Some(write) = object.writes.last() else { return Ok(None) };
        let Some(snap) = write.from else {
            let write = object.writes.pop().ok_or(Errno::IO)?;
            object.stage = Stage::Writing;
            return Ok(Some(self.write(number, &write, OsdOp::remove())));
        };
        object.stage = Stage::Reading;
        let source = &self.plan.source;
        let ops = vec![OsdOp::read(0, source.layout.object_size())];
        let mut operation = Operation::new(source.data_place(number), ops);
        operation.snap = snap;
        Ok(Some(operation))
    }

    fn write(&self, number: u64, write: &Write, op: OsdOp) -> Operation {
        let guard = match write.knows.seq {
            SnapId(0) => OsdOp::create(true),
            seq => calls::assert_newer_snapshots(seq),
        };
        let mut operation = write_operation(self.plan.target.data_place(number), vec![guard, op]);
        operation.snap_context = write.knows.clone();
        operation
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

impl Workflow {
    /// Copies all objects of an image that is being migrated.
    pub fn transfer(&mut self, step: &str, plan: impl FnOnce() -> Plan) -> Result<(), Stop> {
        if let Some(answer) = self.recorded() {
            return answer.map(|_| ()).map_err(|errno| Error::cluster(step, errno).into());
        }
        let transfer = self.transfer.take();
        let mut transfer = transfer.unwrap_or_else(|| Box::new(Transfer::new(plan())));
        for (number, operation) in std::mem::take(&mut transfer.requests) {
            self.push_request(
                ClusterRequestId { part: part::TRANSFER, number },
                ClusterRequest::Operate(operation),
            );
        }
        if !transfer.active.is_empty() {
            self.transfer = Some(transfer);
            return Err(Stop::Waiting);
        }
        let done = Reply::Operation(OperationReply::default());
        self.record(transfer.error.map_or(Ok(done), Err));
        let _ = self.recorded();
        transfer.error.map_or(Ok(()), |errno| Err(Error::cluster(step, errno).into()))
    }
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
    fn told(listed: &SnapListing, snaps: &[(u64, u64)]) -> Vec<(Option<u64>, Vec<u64>)> {
        let snaps: Vec<_> = snaps.iter().map(|(from, to)| (SnapId(*from), SnapId(*to))).collect();
        let writes = writes(listed, &snaps).into_iter();
        let told = |write: Write| {
            let knows = write.knows.snaps.iter().map(|snap| snap.0).collect();
            (write.from.map(|snap| snap.0), knows)
        };
        writes.map(told).collect()
    }

    #[test]
    fn an_object_gets_the_same_history() {
        let head = SnapId::HEAD;
        let snaps = [(3, 30), (5, 50), (8, 80)];
        // Never written since: the oldest snapshot shows it already.
        let listed = SnapListing { clones: vec![clone(head, &[])], seq: SnapId(0) };
        assert_eq!(told(&listed, &snaps), [(Some(3), vec![])]);
        // Created after the first snapshot, changed after the second one, which a clone shows.
        let clones = vec![clone(SnapId(5), &[5]), clone(head, &[])];
        let listed = SnapListing { clones, seq: SnapId(5) };
        assert_eq!(told(&listed, &snaps), [(Some(5), vec![30]), (Some(8), vec![50, 30])]);
        // One clone for two snapshots; then the object was removed.
        let listed = SnapListing { clones: vec![clone(SnapId(5), &[3, 5])], seq: SnapId(8) };
        assert_eq!(told(&listed, &snaps), [(Some(3), vec![]), (None, vec![50, 30])]);
        assert_eq!(told(&listed, &[]), []);
    }

    #[test]
    fn only_zeros_at_the_end_are_left_out() {
        assert_eq!(without_trailing_zeros("\0a\0\0".into()), "\0a");
        assert_eq!(without_trailing_zeros("\0\0".into()), "");
    }
}
