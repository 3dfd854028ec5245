//! What is done in several steps, written down as if each step were answered at once.
//!
//! A [`Task`] holds a function that asks one thing after another of [`Steps`]. What has been answered
//! before is answered again from memory; at the first question without an answer the function stops,
//! the question is asked, and when its answer is there the function is run again from its beginning.
//! So the function must ask the same as long as it is answered the same, and must do nothing else.

use crate::gather::Gathering;
use crate::transfer::Transfer;
use crate::work::Work;
use crate::{Asker, Error};
use bytes::Bytes;
use engine::Duration;
use rados::{Operation, OperationReply, Place, PoolRequest, Reply, WatchEvent, WatchId};
use std::collections::VecDeque;
use std::ops::Range;
use types::Errno;
use wire::OsdOp;
use wire::op::request_flags;

/// Operations on many objects under way at the same time, and how few of them are left when more are asked for:
/// that means to run the function again, which may read a large object map on its way.
pub(crate) const IN_FLIGHT_MAX: u64 = 64;
pub(crate) const IN_FLIGHT_LOW: u64 = IN_FLIGHT_MAX / 2;

/// What an engine wants of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    Operate(Operation),
    Watch(Place),
    Unwatch(WatchId),
    Notify {
        place: Place,
        payload: Bytes,
    },
    /// Is not answered.
    Acknowledge {
        watch: WatchId,
        notify_id: u64,
        reply: Bytes,
    },
    /// Who this client is to others ([`Reply::Identity`]).
    Identify,
    /// What is asked from then on is sent with the map that is the newest now.
    NewestMap,
    /// Changes a pool's snapshots.
    Pool(PoolRequest),
    /// A command to the monitor.
    Command(String),
    /// Is answered later by an empty reply to an operation.
    Wait(Duration),
}

pub type Answer = Result<Reply, Errno>;

/// Tells an asker's questions apart: which part of it asks, and that part's own number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AskId {
    pub(crate) part: Part,
    pub(crate) number: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// A task, or the one that an image has under way.
    Task,
    /// One of many that a step of a task asks at once.
    Gather,
    /// One of the objects of an image that moves.
    Transfer,
    /// What an image does about its lock.
    Lock,
    /// An image's access to one object.
    Access,
    /// A change of an image's object map.
    Map,
    /// A change of the object maps of its snapshots.
    SnapshotMaps,
    Watch,
    Unwatch,
    /// Nobody waits for the answer.
    Nobody,
}

/// How far something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    pub done: u64,
    pub total: u64,
}

/// Why a function that is run again and again ends early.
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

/// The same operation on many objects.
#[derive(Debug)]
struct Sweep {
    next: u64,
    end: u64,
    in_flight: u64,
    done: u64,
    /// Those of them that were there.
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
pub(crate) struct Steps {
    answers: Vec<Answer>,
    /// How many of the answers this run has used.
    used: usize,
    sweep: Option<Sweep>,
    asks: VecDeque<(AskId, Ask)>,
    is_asked: bool,
    /// What is waited for is nothing but time.
    is_resting: bool,
    /// The watches that steps have registered: of one image, or of a clone and its parent.
    watches: Vec<WatchId>,
    /// Requests on an open image, instead of questions.
    pub(crate) work: Option<Box<Work>>,
    /// The same question to many objects, under way.
    pub(crate) gathering: Option<Box<Gathering>>,
    /// An image that moves, under way.
    pub(crate) transfer: Option<Box<Transfer>>,
}

impl Steps {
    pub fn ask(&mut self, ask: impl FnOnce() -> Ask) -> Result<Answer, Stop> {
        if let Some(answer) = self.answers.get(self.used) {
            self.used += 1;
            return Ok(answer.clone());
        }
        if !self.is_asked {
            self.is_asked = true;
            let id = AskId { part: Part::Task, number: self.used as u64 };
            let ask = ask();
            self.is_resting = matches!(ask, Ask::Wait(_));
            self.asks.push_back((id, ask));
        }
        Err(Stop::Waiting)
    }

    /// Asks for something that nobody waits for, once.
    pub fn tell(&mut self, ask: impl FnOnce() -> Ask) {
        if self.used == self.answers.len() {
            self.asks.push_back((AskId { part: Part::Nobody, number: 0 }, ask()));
            self.answers.push(Ok(Reply::Operation(OperationReply::default())));
        }
        self.used += 1;
    }

    /// Lets time pass, or less of it if somebody says that it is enough.
    pub fn rest(&mut self, duration: Duration) -> Result<(), Stop> {
        self.ask(|| Ask::Wait(duration)).map(|_| ())
    }

    /// Operations that only read.
    pub fn try_look(
        &mut self,
        place: &Place,
        ops: impl FnOnce() -> Vec<OsdOp>,
    ) -> Result<Result<OperationReply, Errno>, Stop> {
        let answer = self.ask(|| Ask::Operate(Operation::new(place.clone(), ops())))?;
        Ok(answer.and_then(operation_reply))
    }

    /// Operations of which some write, or call methods that do. Their outputs are not to be had.
    pub fn try_change(
        &mut self,
        place: &Place,
        ops: impl FnOnce() -> Vec<OsdOp>,
    ) -> Result<Result<OperationReply, Errno>, Stop> {
        let answer = self.ask(|| Ask::Operate(change(place.clone(), ops())))?;
        Ok(answer.and_then(operation_reply))
    }

    /// The same for something that must work; `step` says what it is in an error.
    pub fn look(
        &mut self,
        step: &str,
        place: &Place,
        ops: impl FnOnce() -> Vec<OsdOp>,
    ) -> Result<OperationReply, Stop> {
        self.try_look(place, ops)?.map_err(|errno| Error::cluster(step, errno).into())
    }

    pub fn change(
        &mut self,
        step: &str,
        place: &Place,
        ops: impl FnOnce() -> Vec<OsdOp>,
    ) -> Result<(), Stop> {
        match self.try_change(place, ops)? {
            Ok(_) => Ok(()),
            Err(errno) => Err(Error::cluster(step, errno).into()),
        }
    }

    /// An operation for each number, or none, many at a time. What is not there needs nothing done
    /// to it.
    pub fn sweep(
        &mut self,
        step: &str,
        numbers: Range<u64>,
        operation: impl Fn(u64) -> Option<Operation>,
    ) -> Result<(), Stop> {
        self.count(step, numbers, operation).map(|_| ())
    }

    /// The same, and on how many something was there.
    pub fn count(
        &mut self,
        step: &str,
        numbers: Range<u64>,
        operation: impl Fn(u64) -> Option<Operation>,
    ) -> Result<u64, Stop> {
        if let Some(answer) = self.answers.get(self.used) {
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

    /// Whether it is over. The count stands where a single operation's answer has its version.
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
            let id = AskId { part: Part::Task, number: self.used as u64 };
            match operation(sweep.next) {
                Some(operation) => {
                    self.asks.push_back((id, Ask::Operate(operation)));
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
        self.answers.push(outcome.map(|()| Reply::Operation(reply)));
        self.sweep = None;
        true
    }

    /// Whether a watcher with that cookie is a step's, if it is this client's.
    pub(crate) fn has_watch(&self, cookie: u64) -> bool {
        self.watches.contains(&WatchId(cookie))
    }

    /// What was answered to the step that comes now.
    pub(crate) fn remembered(&mut self) -> Option<Answer> {
        let answer = self.answers.get(self.used)?;
        self.used += 1;
        Some(answer.clone())
    }

    pub(crate) fn also_ask(&mut self, id: AskId, ask: Ask) {
        self.asks.push_back((id, ask));
    }

    pub(crate) fn remember(&mut self, answer: Answer) {
        self.answers.push(answer);
    }

    /// Whether the function is to be run again: not for what is no longer waited for, nor for each of many.
    fn handle_answer(&mut self, id: AskId, answer: Answer) -> bool {
        if let Some(work) = &mut self.work {
            work.handle_answer(id, answer);
            return true;
        }
        if id.part == Part::Gather {
            let gathering = self.gathering.as_mut();
            return gathering.is_some_and(|gathering| gathering.handle_answer(id.number, answer));
        }
        if id.part == Part::Transfer {
            let transfer = self.transfer.as_mut();
            return transfer.map(|transfer| transfer.handle_answer(id.number, answer)).is_some();
        }
        if id.part != Part::Task || id.number != self.answers.len() as u64 {
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
                self.is_asked = false;
                self.is_resting = false;
                self.answers.push(answer);
                true
            }
        }
    }
}

/// Where there is no room the answer shall say so, instead of a wait for room.
pub(crate) fn change(place: Place, ops: Vec<OsdOp>) -> Operation {
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

type Procedure<T> = Box<dyn Fn(&mut Steps) -> Result<T, Stop> + Send>;

/// Something that is done once.
pub struct Task<T> {
    procedure: Procedure<T>,
    steps: Steps,
    outcome: Option<Result<T, Error>>,
    is_over: bool,
}

impl<T> Task<T> {
    pub(crate) fn new(procedure: impl Fn(&mut Steps) -> Result<T, Stop> + Send + 'static) -> Self {
        let (procedure, steps) = (Box::new(procedure), Steps::default());
        let mut task = Task { procedure, steps, outcome: None, is_over: false };
        task.run();
        task
    }

    fn run(&mut self) {
        if self.is_over {
            return;
        }
        self.steps.used = 0;
        self.outcome = match (self.procedure)(&mut self.steps) {
            Ok(value) => Some(Ok(value)),
            Err(Stop::Failed(error)) => Some(Err(error)),
            Err(Stop::Waiting) => None,
        };
        self.is_over = self.outcome.is_some();
    }

    /// Once, when it is over.
    pub fn poll_outcome(&mut self) -> Option<Result<T, Error>> {
        self.outcome.take()
    }

    /// Ends a wait for time to pass.
    pub(crate) fn end_rest(&mut self) {
        if self.steps.is_resting {
            self.steps.asks.retain(|(_, ask)| !matches!(ask, Ask::Wait(_)));
            let id = AskId { part: Part::Task, number: self.steps.answers.len() as u64 };
            self.handle_answer(id, Ok(Reply::Operation(OperationReply::default())));
        }
    }

    /// What the client was told of a watch; false if the watch is not this task's. Others learn
    /// that they are heard, and that the lock which they ask for will be given up.
    pub fn handle_watch_event(&mut self, event: &WatchEvent) -> bool {
        if let Some(work) = &mut self.steps.work {
            return work.handle_watch_event(event);
        }
        match event {
            WatchEvent::Notified { watch, notify_id, payload, .. }
                if self.steps.watches.contains(watch) =>
            {
                let reply = crate::notify::patience(payload);
                let ask = Ask::Acknowledge { watch: *watch, notify_id: *notify_id, reply };
                self.steps.asks.push_back((AskId { part: Part::Nobody, number: 0 }, ask));
                true
            }
            WatchEvent::Lost { watch, .. } => self.steps.watches.contains(watch),
            WatchEvent::Notified { .. } => false,
        }
    }

    /// Of what takes long.
    pub fn progress(&self) -> Option<Progress> {
        if let Some(work) = &self.steps.work {
            return Some(work.progress());
        }
        if let Some(gathering) = &self.steps.gathering {
            return Some(gathering.progress());
        }
        if let Some(transfer) = &self.steps.transfer {
            return Some(transfer.progress());
        }
        self.steps.sweep.as_ref().map(|sweep| Progress { done: sweep.done, total: sweep.total })
    }
}

impl<T> Asker for Task<T> {
    fn poll_ask(&mut self) -> Option<(AskId, Ask)> {
        let ask = self.steps.asks.pop_front();
        ask.or_else(|| self.steps.work.as_mut().and_then(|work| work.poll_ask()))
    }

    fn handle_answer(&mut self, id: AskId, answer: Answer) {
        if self.steps.handle_answer(id, answer) {
            self.run();
        }
    }
}

impl<T> std::fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Task({} steps answered)", self.steps.answers.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use types::PoolId;

    fn place(name: String) -> Place {
        Place::new(PoolId(1), name)
    }

    fn done() -> Answer {
        Ok(Reply::Operation(OperationReply::default()))
    }

    #[test]
    fn each_step_is_asked_once_and_the_outcome_told_once() {
        let mut task = Task::new(|steps| {
            steps.look("first", &place("a".into()), || vec![OsdOp::stat()])?;
            steps.look("second", &place("b".into()), || vec![OsdOp::stat()])?;
            Ok(7)
        });
        for name in ["a", "b"] {
            let (id, ask) = task.poll_ask().unwrap();
            assert!(matches!(ask, Ask::Operate(operation) if operation.place.object == name));
            assert!(task.poll_ask().is_none() && task.poll_outcome().is_none());
            task.handle_answer(id, done());
        }
        assert_eq!(task.poll_outcome(), Some(Ok(7)));
        assert!(task.poll_outcome().is_none() && task.poll_ask().is_none());
    }

    #[test]
    fn what_nobody_waits_for_answers_no_step() {
        let mut earlier: Task<()> = Task::new(|steps| {
            steps.tell(|| Ask::Unwatch(WatchId(1)));
            Ok(())
        });
        let (late, _) = earlier.poll_ask().unwrap();
        let mut task = Task::new(|steps| {
            steps.look("looking", &place("a".into()), || vec![OsdOp::stat()])?;
            Ok(())
        });
        let (id, _) = task.poll_ask().unwrap();
        task.handle_answer(late, done());
        assert_eq!(task.poll_outcome(), None);
        task.handle_answer(id, done());
        assert_eq!(task.poll_outcome(), Some(Ok(())));
    }

    #[test]
    fn a_task_answers_at_all_of_its_watches() {
        let mut task = Task::new(|steps| {
            for name in ["clone", "parent", "more"] {
                let _ = steps.ask(|| Ask::Watch(place(name.into())))?;
            }
            Ok(())
        });
        for number in 1..=2 {
            let (id, _) = task.poll_ask().unwrap();
            task.handle_answer(id, Ok(Reply::Watching(WatchId(number))));
        }
        assert!(task.poll_ask().is_some());
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
        let mut task = Task::new(|steps| {
            steps.look("looking", &place("a".into()), || vec![OsdOp::stat()])?;
            Ok(())
        });
        let (id, _) = task.poll_ask().unwrap();
        task.handle_answer(id, Err(Errno::PERM));
        assert_eq!(task.poll_outcome(), Some(Err(Error::cluster("looking", Errno::PERM))));
    }

    #[test]
    fn a_sweep_is_bounded_and_ends_when_all_is_answered() {
        let total = IN_FLIGHT_MAX + 3;
        let mut task = Task::new(move |steps| {
            let remove = |number| Some(change(place(format!("{number}")), vec![OsdOp::remove()]));
            steps.sweep("removing", 0..total, remove)?;
            Ok(())
        });
        let mut under_way: VecDeque<AskId> = VecDeque::new();
        let mut asked = 0;
        loop {
            while let Some((id, _)) = task.poll_ask() {
                under_way.push_back(id);
                asked += 1;
            }
            assert!(under_way.len() as u64 <= IN_FLIGHT_MAX);
            let Some(id) = under_way.pop_front() else { break };
            let answer = if asked % 2 == 0 { done() } else { Err(Errno::NOENT) };
            task.handle_answer(id, answer);
        }
        assert_eq!((asked, task.poll_outcome()), (total, Some(Ok(()))));
    }

    #[test]
    fn the_function_is_not_run_again_for_each_answer_to_a_sweep() {
        let runs = Arc::new(AtomicU64::new(0));
        let counted = runs.clone();
        let mut task = Task::new(move |steps| {
            counted.fetch_add(1, Ordering::Relaxed);
            let remove = |number| Some(change(place(format!("{number}")), vec![OsdOp::remove()]));
            steps.sweep("removing", 0..10 * IN_FLIGHT_MAX, remove)?;
            Ok(())
        });
        while let Some((id, _)) = task.poll_ask() {
            task.handle_answer(id, done());
        }
        assert_eq!(task.poll_outcome(), Some(Ok(())));
        assert!(runs.load(Ordering::Relaxed) <= 10 * IN_FLIGHT_MAX / IN_FLIGHT_LOW);
    }

    #[test]
    fn a_sweep_stops_at_an_error() {
        let mut task = Task::new(|steps| {
            let remove = |number| Some(change(place(format!("{number}")), vec![OsdOp::remove()]));
            steps.sweep("removing", 0..1000, remove)?;
            Ok(())
        });
        let mut asked = 0;
        while let Some((id, _)) = task.poll_ask() {
            asked += 1;
            task.handle_answer(id, Err(Errno::PERM));
        }
        assert_eq!(asked, IN_FLIGHT_MAX);
        assert_eq!(task.poll_outcome(), Some(Err(Error::cluster("removing", Errno::PERM))));
    }
}
