//! Steps that ask the same of many objects and keep what each answers.

use crate::Error;
use crate::steps::{
    Answer, Ask, AskId, IN_FLIGHT_LOW, IN_FLIGHT_MAX, Part, Progress, Steps, Stop, operation_reply,
};
use bytes::Bytes;
use rados::{Operation, OperationReply, Reply};
use std::ops::Range;
use types::Errno;
use wire::{OpResult, OsdOp};

/// A byte of each answer.
#[derive(Debug)]
pub(crate) struct Gathering {
    numbers: Range<u64>,
    next: u64,
    in_flight: u64,
    /// Not looked at yet.
    arrived: Vec<(u64, Answer)>,
    bytes: Vec<u8>,
    error: Option<Errno>,
}

impl Gathering {
    fn new(numbers: Range<u64>) -> Self {
        let bytes = vec![0; numbers.end.saturating_sub(numbers.start) as usize];
        let next = numbers.start;
        Gathering { numbers, next, in_flight: 0, arrived: Vec::new(), bytes, error: None }
    }

    /// Whether the answers that have arrived are to be looked at.
    pub fn handle_answer(&mut self, number: u64, answer: Answer) -> bool {
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

    fn look(&mut self, byte: impl Fn(Result<OperationReply, Errno>) -> Result<u8, Errno>) {
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

impl Steps {
    /// A byte for each number: what `byte` makes of the answer to its operation. The caller bounds how many
    /// there are.
    pub fn gather(
        &mut self,
        step: &str,
        numbers: Range<u64>,
        operation: impl Fn(u64) -> Operation,
        byte: impl Fn(Result<OperationReply, Errno>) -> Result<u8, Errno>,
    ) -> Result<Bytes, Stop> {
        if let Some(answer) = self.remembered() {
            let reply = answer.and_then(operation_reply);
            let reply = reply.map_err(|errno| Error::cluster(step, errno))?;
            return Ok(reply.ops.into_iter().next().map(|op| op.output).unwrap_or_default());
        }
        let mut gathering =
            self.gathering.take().unwrap_or_else(|| Box::new(Gathering::new(numbers.clone())));
        gathering.look(&byte);
        while let Some(number) = gathering.next() {
            let id = AskId { part: Part::Gather, number };
            self.also_ask(id, Ask::Operate(operation(number)));
        }
        if gathering.in_flight > 0 {
            self.gathering = Some(gathering);
            return Err(Stop::Waiting);
        }
        self.remember(match gathering.error {
            None => Ok(remembered(gathering.bytes)),
            Some(errno) => Err(errno),
        });
        self.gather(step, numbers, operation, byte)
    }
}

/// The bytes stand where a single operation's answer has its output.
fn remembered(bytes: Vec<u8>) -> Reply {
    let ops = vec![OpResult::new(&OsdOp::stat(), 0, bytes.into())];
    Reply::Operation(OperationReply { ops, ..OperationReply::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Asker, Task};
    use types::PoolId;

    fn task(total: u64) -> Task<Bytes> {
        Task::new(move |steps| {
            let look = |number| {
                let place = rados::Place::new(PoolId(1), format!("{number}"));
                Operation::new(place, vec![OsdOp::stat()])
            };
            steps.gather("looking", 7..7 + total, look, |answer| match answer {
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
            asked.extend(std::iter::from_fn(|| task.poll_ask()));
            most = most.max(asked.len());
            let Some((id, ask)) = asked.pop() else { break };
            let Ask::Operate(operation) = ask else { panic!("an operation") };
            let is_first = operation.place.object == "7";
            let answer = Ok(Reply::Operation(OperationReply::default()));
            task.handle_answer(id, if is_first { Err(Errno::NOENT) } else { answer });
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
        while let Some((id, _)) = task.poll_ask() {
            asked += 1;
            task.handle_answer(id, Err(Errno::PERM));
        }
        assert_eq!(asked, IN_FLIGHT_MAX);
        assert_eq!(task.poll_outcome(), Some(Err(Error::cluster("looking", Errno::PERM))));
    }
}
