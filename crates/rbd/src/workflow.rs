//! Workflows: sequences of requests written as straight-line code.
//!
//! A [`WorkflowRun`] holds a function that performs one request after another through [`Workflow`].
//! Responses are recorded. At the first request without a recorded response the function returns, and the
//! request is sent; when its response arrives, the function is run again from its beginning, and earlier
//! requests are answered from the record. The function must therefore be deterministic: for the same
//! responses it makes the same requests, and it has no other effects.

use crate::gather::Gathering;
use crate::part;
use crate::{Error, RequestSource};
use engine::Duration;
use rados::{
    ClusterRequest, ClusterRequestId, ClusterResponse, Operation, OperationReply, Place, Progress,
    Reply, WatchEvent, WatchId,
};
use std::collections::VecDeque;
use std::ops::Range;
use types::Errno;
use wire::OsdOp;
use wire::op::request_flags;

/// Operations of one sweep in flight, and the number left in flight at which more are sent. Each refill runs
/// the function again, which may read a large object map on its way.
pub(crate) const IN_FLIGHT_MAX: u64 = 64;
pub(crate) const IN_FLIGHT_LOW: u64 = IN_FLIGHT_MAX / 2;

/// Reason why one run of a workflow function ends early.
#[derive(Debug)]
pub(crate) enum Stop {
    Waiting,
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error)
    }
}

/// One operation on each of many objects.
#[derive(Debug)]
struct Sweep {
    next: u64,
    end: u64,
    in_flight: u64,
    done: u64,
    /// Number of objects that existed.
    found: u64,
    total: u64,
    error: Option<Errno>,
}

impl Sweep {
    fn has_more(&self) -> bool {
        self.next < self.end && self.error.is_none()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Workflow {
    responses: Vec<ClusterResponse>,
    /// Number of recorded responses that this run has used.
    used: usize,
    sweep: Option<Sweep>,
    requests: VecDeque<(ClusterRequestId, ClusterRequest)>,
    is_requested: bool,
    /// The request in flight is only a delay.
    is_delayed: bool,
    /// Watches that steps have registered: of one image, or of a clone and its parent.
    watches: Vec<WatchId>,
    /// A gather step in progress.
    pub(crate) gathering: Option<Box<Gathering>>,
}

impl Workflow {
    pub fn request(
        &mut self,
        request: impl FnOnce() -> ClusterRequest,
    ) -> Result<ClusterResponse, Stop> {
        if let Some(answer) = self.responses.get(self.used) {
            self.used += 1;
            return Ok(answer.clone());
        }
        if !self.is_requested {
            self.is_requested = true;
            let id = ClusterRequestId { part: part::TASK, number: self.used as u64 };
            let request = request();
            self.is_delayed = matches!(request, ClusterRequest::Wait(_));
            self.requests.push_back((id, request));
        }
        Err(Stop::Waiting)
    }

    /// Sends a request whose response is dropped, once.
    pub fn send(&mut self, request: impl FnOnce() -> ClusterRequest) {
        if self.used == self.responses.len() {
            self.requests.push_back((ClusterRequestId::DROPPED, request()));
            self.responses.push(Ok(Reply::Operation(OperationReply::default())));
        }
        self.used += 1;
    }

    /// Waits for a delay, or less if a notification ends it.
    pub fn delay(&mut self, duration: Duration) -> Result<(), Stop> {
        self.request(|| ClusterRequest::Wait(duration)).map(|_| ())
    }

    /// Performs operations that only read.
    pub fn try_read(
        &mut self,
        place: &Place,
        ops: impl FnOnce() -> Vec<OsdOp>,
    ) -> Result<Result<OperationReply, Errno>, Stop> {
        let answer =
            self.request(|| ClusterRequest::Operate(Operation::new(place.clone(), ops())))?;
        Ok(answer.and_then(operation_reply))
    }

    /// Performs operations of which some write, or call class methods that write. They return no outputs.
    pub fn try_write(
        &mut self,
        place: &Place,
        ops: impl FnOnce() -> Vec<OsdOp>,
    ) -> Result<Result<OperationReply, Errno>, Stop> {
        let answer =
            self.request(|| ClusterRequest::Operate(write_operation(place.clone(), ops())))?;
        Ok(answer.and_then(operation_reply))
    }

    /// Performs reads that must succeed; `step` names them in an error.
    pub fn read(
        &mut self,
        step: &str,
        place: &Place,
        ops: impl FnOnce() -> Vec<OsdOp>,
    ) -> Result<OperationReply, Stop> {
        self.try_read(place, ops)?.map_err(|errno| Error::cluster(step, errno).into())
    }

    pub fn write(
        &mut self,
        step: &str,
        place: &Place,
        ops: impl FnOnce() -> Vec<OsdOp>,
    ) -> Result<(), Stop> {
        match self.try_write(place, ops)? {
            Ok(_) => Ok(()),
            Err(errno) => Err(Error::cluster(step, errno).into()),
        }
    }

    /// Performs one operation, or none, for each number, with bounded concurrency. ENOENT counts as success.
    pub fn sweep(
        &mut self,
        step: &str,
        numbers: Range<u64>,
        operation: impl Fn(u64) -> Option<Operation>,
    ) -> Result<(), Stop> {
        self.count(step, numbers, operation).map(|_| ())
    }

    /// Performs a sweep and returns the number of objects that existed.
    pub fn count(
        &mut self,
        step: &str,
        numbers: Range<u64>,
        operation: impl Fn(u64) -> Option<Operation>,
    ) -> Result<u64, Stop> {
        if let Some(answer) = self.responses.get(self.used) {
            self.used += 1;
            return match answer {
                Ok(Reply::Operation(OperationReply { user_version, .. })) => Ok(*user_version),
                Ok(_) => Ok(0),
                Err(errno) => Err(Error::cluster(step, *errno).into()),
            };
        }
        if !self.advance_sweep(&numbers, &operation) {
            return Err(Stop::Waiting);
        }
        self.count(step, numbers, operation)
    }

    /// True when the sweep is over. The count stands in the version of the recorded operation reply.
    fn advance_sweep(
        &mut self,
        numbers: &Range<u64>,
        operation: &impl Fn(u64) -> Option<Operation>,
    ) -> bool {
        let total = numbers.end.saturating_sub(numbers.start);
        let (next, end) = (numbers.start, numbers.end);
        let new = Sweep { next, end, in_flight: 0, done: 0, found: 0, total, error: None };
        let sweep = self.sweep.get_or_insert(new);
        while sweep.has_more() && sweep.in_flight < IN_FLIGHT_MAX {
            let id = ClusterRequestId { part: part::TASK, number: self.used as u64 };
            match operation(sweep.next) {
                Some(operation) => {
                    self.requests.push_back((id, ClusterRequest::Operate(operation)));
                    sweep.in_flight += 1;
                }
                None => sweep.done += 1,
            }
            sweep.next += 1;
        }
        if sweep.in_flight > 0 {
            return false;
        }
        let (found, outcome) = (sweep.found, sweep.error.map_or(Ok(()), Err));
        let reply = OperationReply { user_version: found, ..OperationReply::default() };
        self.responses.push(outcome.map(|()| Reply::Operation(reply)));
        self.sweep = None;
        true
    }

    /// The recorded response to the next step.
    pub(crate) fn recorded(&mut self) -> Option<ClusterResponse> {
        let answer = self.responses.get(self.used)?;
        self.used += 1;
        Some(answer.clone())
    }

    pub(crate) fn push_request(&mut self, id: ClusterRequestId, request: ClusterRequest) {
        self.requests.push_back((id, request));
    }

    pub(crate) fn record(&mut self, answer: ClusterResponse) {
        self.responses.push(answer);
    }

    /// True if the function must run again. Dropped responses and single responses of a sweep do not need it.
    fn handle_response(&mut self, id: ClusterRequestId, answer: ClusterResponse) -> bool {
        if id.part == part::GATHER {
            let gathering = self.gathering.as_mut();
            return gathering.is_some_and(|gathering| gathering.handle_response(id.number, answer));
        }
        if id.part != part::TASK || id.number != self.responses.len() as u64 {
            return false;
        }
        if let Ok(Reply::Watching(watch)) = answer {
            self.watches.push(watch);
        }
        match &mut self.sweep {
            Some(sweep) => {
                sweep.in_flight -= 1;
                sweep.done += 1;
                match answer {
                    Ok(_) => sweep.found += 1,
                    Err(Errno::NOENT) => {}
                    Err(errno) => sweep.error = Some(errno),
                }
                sweep.in_flight <= if sweep.has_more() { IN_FLIGHT_LOW } else { 0 }
            }
            None => {
                self.is_requested = false;
                self.is_delayed = false;
                self.responses.push(answer);
                true
            }
        }
    }
}

/// Sets FULL_TRY, so that an operation on a full pool fails instead of waiting for space.
pub(crate) fn write_operation(place: Place, ops: Vec<OsdOp>) -> Operation {
    let mut operation = Operation::new(place, ops);
    operation.flags |= request_flags::WRITE | request_flags::FULL_TRY;
    operation
}

pub(crate) fn operation_reply(reply: Reply) -> Result<OperationReply, Errno> {
    match reply {
        Reply::Operation(reply) => Ok(reply),
        _ => Err(Errno::IO),
    }
}

type Function<T> = Box<dyn Fn(&mut Workflow) -> Result<T, Stop>>;

/// A workflow with the function that performs its steps.
pub(crate) struct WorkflowRun<T> {
    function: Function<T>,
    workflow: Workflow,
    outcome: Option<Result<T, Error>>,
    is_over: bool,
}

impl<T> WorkflowRun<T> {
    pub fn new(function: impl Fn(&mut Workflow) -> Result<T, Stop> + 'static) -> Self {
        let (function, workflow) = (Box::new(function), Workflow::default());
        let mut run = WorkflowRun { function, workflow, outcome: None, is_over: false };
        run.run();
        run
    }

    fn run(&mut self) {
        if self.is_over {
            return;
        }
        self.workflow.used = 0;
        self.outcome = match (self.function)(&mut self.workflow) {
            Ok(value) => Some(Ok(value)),
            Err(Stop::Failed(error)) => Some(Err(error)),
            Err(Stop::Waiting) => None,
        };
        self.is_over = self.outcome.is_some();
    }

    pub fn poll_outcome(&mut self) -> Option<Result<T, Error>> {
        self.outcome.take()
    }

    pub fn end_delay(&mut self) {
        if self.workflow.is_delayed {
            self.workflow
                .requests
                .retain(|(_, request)| !matches!(request, ClusterRequest::Wait(_)));
            let id =
                ClusterRequestId { part: part::TASK, number: self.workflow.responses.len() as u64 };
            self.handle_response(id, Ok(Reply::Operation(OperationReply::default())));
        }
    }

    pub fn handle_watch_event(&mut self, event: &WatchEvent) -> bool {
        match event {
            WatchEvent::Notified { watch, notify_id, payload, .. }
                if self.workflow.watches.contains(watch) =>
            {
                let reply = crate::notify::release_pending(payload);
                let request =
                    ClusterRequest::Acknowledge { watch: *watch, notify_id: *notify_id, reply };
                self.workflow.requests.push_back((ClusterRequestId::DROPPED, request));
                true
            }
            WatchEvent::Lost { watch, .. } => self.workflow.watches.contains(watch),
            WatchEvent::Notified { .. } => false,
        }
    }

    pub fn progress(&self) -> Option<Progress> {
        if let Some(gathering) = &self.workflow.gathering {
            return Some(gathering.progress());
        }
        self.workflow.sweep.as_ref().map(|sweep| Progress { done: sweep.done, total: sweep.total })
    }
}

impl<T> RequestSource for WorkflowRun<T> {
    fn poll_request(&mut self) -> Option<(ClusterRequestId, ClusterRequest)> {
        self.workflow.requests.pop_front()
    }

    fn handle_response(&mut self, id: ClusterRequestId, answer: ClusterResponse) {
        if self.workflow.handle_response(id, answer) {
            self.run();
        }
    }
}

impl<T> std::fmt::Debug for WorkflowRun<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Workflow({} steps answered)", self.workflow.responses.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Task;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use types::PoolId;

    fn place(name: String) -> Place {
        Place::new(PoolId(1), name)
    }

    fn done() -> ClusterResponse {
        Ok(Reply::Operation(OperationReply::default()))
    }

    #[test]
    fn each_step_is_asked_once_and_the_outcome_told_once() {
        let mut task = Task::new(|workflow| {
            workflow.read("first", &place("a".into()), || vec![OsdOp::stat()])?;
            workflow.read("second", &place("b".into()), || vec![OsdOp::stat()])?;
            Ok(7)
        });
        for name in ["a", "b"] {
            let (id, request) = task.poll_request().unwrap();
            assert!(
                matches!(request, ClusterRequest::Operate(operation) if operation.place.object == name)
            );
            assert!(task.poll_request().is_none() && task.poll_outcome().is_none());
            task.handle_response(id, done());
        }
        assert_eq!(task.poll_outcome(), Some(Ok(7)));
        assert!(task.poll_outcome().is_none() && task.poll_request().is_none());
    }

    #[test]
    fn a_dropped_response_answers_no_step() {
        let mut earlier: Task<()> = Task::new(|workflow| {
            workflow.send(|| ClusterRequest::Unwatch(WatchId(1)));
            Ok(())
        });
        let (late, _) = earlier.poll_request().unwrap();
        let mut task = Task::new(|workflow| {
            workflow.read("looking", &place("a".into()), || vec![OsdOp::stat()])?;
            Ok(())
        });
        let (id, _) = task.poll_request().unwrap();
        task.handle_response(late, done());
        assert_eq!(task.poll_outcome(), None);
        task.handle_response(id, done());
        assert_eq!(task.poll_outcome(), Some(Ok(())));
    }

    #[test]
    fn a_task_answers_at_all_of_its_watches() {
        let mut task = Task::new(|workflow| {
            for name in ["clone", "parent", "more"] {
                let _ = workflow.request(|| ClusterRequest::Watch(place(name.into())))?;
            }
            Ok(())
        });
        for number in 1..=2 {
            let (id, _) = task.poll_request().unwrap();
            task.handle_response(id, Ok(Reply::Watching(WatchId(number))));
        }
        assert!(task.poll_request().is_some());
        let event = |number| WatchEvent::Notified {
            watch: WatchId(number),
            notify_id: 1,
            notifier: 2,
            payload: crate::notify::header_update(),
        };
        assert_eq!(
            [1, 2, 3].map(|number| task.handle_watch_event(&event(number))),
            [true, true, false]
        );
    }

    #[test]
    fn a_failed_step_ends_the_task_and_is_named() {
        let mut task = Task::new(|workflow| {
            workflow.read("looking", &place("a".into()), || vec![OsdOp::stat()])?;
            Ok(())
        });
        let (id, _) = task.poll_request().unwrap();
        task.handle_response(id, Err(Errno::PERM));
        assert_eq!(task.poll_outcome(), Some(Err(Error::cluster("looking", Errno::PERM))));
    }

    #[test]
    fn a_sweep_is_bounded_and_ends_when_all_is_answered() {
        let total = IN_FLIGHT_MAX + 3;
        let mut task = Task::new(move |workflow| {
            let remove =
                |number| Some(write_operation(place(format!("{number}")), vec![OsdOp::remove()]));
            workflow.sweep("removing", 0..total, remove)?;
            Ok(())
        });
        let mut in_flight: VecDeque<ClusterRequestId> = VecDeque::new();
        let mut asked = 0;
        loop {
            while let Some((id, _)) = task.poll_request() {
                in_flight.push_back(id);
                asked += 1;
            }
            assert!(in_flight.len() as u64 <= IN_FLIGHT_MAX);
            let Some(id) = in_flight.pop_front() else { break };
            let answer = if asked % 2 == 0 { done() } else { Err(Errno::NOENT) };
            task.handle_response(id, answer);
        }
        assert_eq!((asked, task.poll_outcome()), (total, Some(Ok(()))));
    }

    #[test]
    fn the_function_is_not_run_again_for_each_answer_to_a_sweep() {
        let runs = Arc::new(AtomicU64::new(0));
        let counted = runs.clone();
        let mut task = Task::new(move |workflow| {
            counted.fetch_add(1, Ordering::Relaxed);
            let remove =
                |number| Some(write_operation(place(format!("{number}")), vec![OsdOp::remove()]));
            workflow.sweep("removing", 0..10 * IN_FLIGHT_MAX, remove)?;
            Ok(())
        });
        while let Some((id, _)) = task.poll_request() {
            task.handle_response(id, done());
        }
        assert_eq!(task.poll_outcome(), Some(Ok(())));
        assert!(runs.load(Ordering::Relaxed) <= 10 * IN_FLIGHT_MAX / IN_FLIGHT_LOW);
    }

    #[test]
    fn a_sweep_stops_at_an_error() {
        let mut task = Task::new(|workflow| {
            let remove =
                |number| Some(write_operation(place(format!("{number}")), vec![OsdOp::remove()]));
            workflow.sweep("removing", 0..1000, remove)?;
            Ok(())
        });
        let mut asked = 0;
        while let Some((id, _)) = task.poll_request() {
            asked += 1;
            task.handle_response(id, Err(Errno::PERM));
        }
        assert_eq!(asked, IN_FLIGHT_MAX);
        assert_eq!(task.poll_outcome(), Some(Err(Error::cluster("removing", Errno::PERM))));
    }
}
