//! Workflow steps that send one operation to each of many objects and collect one byte per response.

use crate::Error;
use crate::part;
use crate::workflow::{IN_FLIGHT_LOW, IN_FLIGHT_MAX, Stop, Workflow, operation_reply};
use bytes::Bytes;
use rados::{
    ClusterRequest, ClusterRequestId, ClusterResponse, Operation, OperationReply, Progress, Reply,
};
use std::ops::Range;
use types::Errno;
use wire::{OpResult, OsdOp};

/// Progress of such a step: one byte per object.
#[derive(Debug)]
pub(crate) struct Gathering {
    numbers: Range<u64>,
    next: u64,
    in_flight: u64,
    /// Responses not yet processed.
    arrived: Vec<(u64, ClusterResponse)>,
    bytes: Vec<u8>,
    error: Option<Errno>,
}

impl Gathering {
    fn new(numbers: Range<u64>) -> Self {
        let bytes = vec![0; numbers.end.saturating_sub(numbers.start) as usize];
        let next = numbers.start;
        Gathering { numbers, next, in_flight: 0, arrived: Vec::new(), bytes, error: None }
    }

    /// True if the workflow must run again to process the responses that have arrived.
    pub fn handle_response(&mut self, number: u64, answer: ClusterResponse) -> bool {
        self.arrived.push((number, answer));
        let left = self.in_flight - self.arrived.len() as u64;
        left <= if self.has_more() { IN_FLIGHT_LOW } else { 0 }
    }

    fn has_more(&self) -> bool {
        self.next < self.numbers.end && self.error.is_none()
    }

    pub fn progress(&self) -> Progress {
        let done = self.next - self.numbers.start - self.in_flight;
        Progress { done, total: self.bytes.len() as u64 }
    }

    fn read(&mut self, byte: impl Fn(Result<OperationReply, Errno>) -> Result<u8, Errno>) {
        for (number, answer) in self.arrived.drain(..) {
            self.in_flight -= 1;
            match byte(answer.and_then(operation_reply)) {
                Ok(byte) => self.bytes[(number - self.numbers.start) as usize] = byte,
                Err(errno) => drop(self.error.get_or_insert(errno)),
            }
        }
    }

    fn next(&mut self) -> Option<u64> {
        if !self.has_more() || self.in_flight >= IN_FLIGHT_MAX {
            return None;
        }
        self.next += 1;
        self.in_flight += 1;
        Some(self.next - 1)
    }
}

impl Workflow {
    /// One byte for each number: what `byte` derives from the reply to its operation. The caller bounds the
    /// number of operations, and so the memory.
    pub fn gather(
        &mut self,
        step: &str,
        numbers: Range<u64>,
        operation: impl Fn(u64) -> Operation,
        byte: impl Fn(Result<OperationReply, Errno>) -> Result<u8, Errno>,
    ) -> Result<Bytes, Stop> {
        if let Some(answer) = self.recorded() {
            let reply = answer.and_then(operation_reply);
            let reply = reply.map_err(|errno| Error::cluster(step, errno))?;
            return Ok(reply.ops.into_iter().next().map(|op| op.output).unwrap_or_default());
        }
        let mut gathering =
            self.gathering.take().unwrap_or_else(|| Box::new(Gathering::new(numbers.clone())));
        gathering.read(&byte);
        while let Some(number) = gathering.next() {
            let id = ClusterRequestId { part: part::GATHER, number };
            self.push_request(id, ClusterRequest::Operate(operation(number)));
        }
        if gathering.in_flight > 0 {
            self.gathering = Some(gathering);
            return Err(Stop::Waiting);
        }
        self.record(match gathering.error {
            None => Ok(recorded(gathering.bytes)),
            Some(errno) => Err(errno),
        });
        self.gather(step, numbers, operation, byte)
    }
}

/// The result bytes stand in the output of the recorded operation reply.
fn recorded(bytes: Vec<u8>) -> Reply {
    let ops = vec![OpResult::new(&OsdOp::stat(), 0, bytes.into())];
    Reply::Operation(OperationReply { ops, ..OperationReply::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RequestSource, Task};
    use types::PoolId;

    fn task(total: u64) -> Task<Bytes> {
        Task::new(move |workflow| {
            let look = |number| {
                let place = rados::Place::new(PoolId(1), format!("{number}"));
                Operation::new(place, vec![OsdOp::stat()])
            };
            workflow.gather("looking", 7..7 + total, look, |answer| match answer {
                Ok(_) => Ok(1),
                Err(Errno::NOENT) => Ok(2),
                Err(errno) => Err(errno),
            })
        })
    }

    #[test]
    fn each_answer_has_its_byte_in_whichever_order_they_come() {
        let total = IN_FLIGHT_MAX + 3;
        let mut task = task(total);
        let mut asked = Vec::new();
        let mut most = 0;
        loop {
            asked.extend(std::iter::from_fn(|| task.poll_request()));
            most = most.max(asked.len());
            let Some((id, request)) = asked.pop() else { break };
            let ClusterRequest::Operate(operation) = request else { panic!("an operation") };
            let is_first = operation.place.object == "7";
            let answer = Ok(Reply::Operation(OperationReply::default()));
            task.handle_response(id, if is_first { Err(Errno::NOENT) } else { answer });
        }
        let mut expected = vec![1; total as usize];
        expected[0] = 2;
        assert_eq!(task.poll_outcome(), Some(Ok(expected.into())));
        assert_eq!(most as u64, IN_FLIGHT_MAX);
    }

    #[test]
    fn an_error_ends_it_once_nothing_is_under_way() {
        let mut task = task(1000);
        let mut asked = 0;
        while let Some((id, _)) = task.poll_request() {
            asked += 1;
            task.handle_response(id, Err(Errno::PERM));
        }
        assert_eq!(asked, IN_FLIGHT_MAX);
        assert_eq!(task.poll_outcome(), Some(Err(Error::cluster("looking", Errno::PERM))));
    }
}
