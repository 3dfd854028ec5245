//! Procedures: `async` functions that ask a client of the file system, or the monitors, and wait for answers.
//!
//! A [`Procedure`] owns the future of such a function and polls it when an answer arrives. There is no
//! executor and no waker, so the same answers in the same order lead to the same requests. The function
//! awaits nothing but [`Steps`].

use bytes::Bytes;
use fsclient::{Answer, Call, Outcome};
use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use types::{Errno, UTime, Uuid};

/// Number of a request of one procedure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A request of a procedure to its host.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// A call of the client of the file system.
    Call(Call),
    /// A command to the cluster: to the monitors, or to a daemon.
    Command(Target, Value),
    /// To have metadata of subvolumes for itself: of all procedures of a worker, one has it at a time, until
    /// it ends or gives it back.
    Lock,
    /// To give it back.
    Unlock,
}

/// The addressee of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The monitors.
    Monitors,
    /// The metadata server of rank 0 of the volume.
    Server,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Response {
    /// Of a call.
    Call(Outcome),
    /// Of a command: its output, or its errno and text.
    Command(Result<Bytes, (Errno, String)>),
    /// The procedure has the metadata for itself, or has given it back.
    Done,
}

/// Facts that a procedure cannot know by itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Inputs {
    /// The wall clock.
    pub now: UTime,
    /// Random ids for what the procedure makes.
    pub ids: [Uuid; 2],
}

#[derive(Debug, Default)]
struct Board {
    last: u64,
    requests: VecDeque<(RequestId, Request)>,
    /// Answers that no step has taken yet.
    answers: BTreeMap<u64, Response>,
    /// Requests that are not answered.
    open: usize,
    /// Parts that are done, and all.
    progress: Option<(u64, u64)>,
}

/// See the module's description.
pub struct Procedure<T> {
    /// `None` once it is over.
    future: Option<Pin<Box<dyn Future<Output = T>>>>,
    board: Rc<RefCell<Board>>,
    is_cancelled: Rc<Cell<bool>>,
    outcome: Option<T>,
}

impl<T> Procedure<T> {
    /// Makes a procedure and runs it until it waits.
    pub fn new<F: Future<Output = T> + 'static>(
        inputs: Inputs,
        run: impl FnOnce(Steps) -> F,
    ) -> Self {
        let board = Rc::new(RefCell::new(Board::default()));
        let is_cancelled = Rc::new(Cell::new(false));
        let steps = Steps { board: board.clone(), inputs, is_cancelled: is_cancelled.clone() };
        let future: Pin<Box<dyn Future<Output = T>>> = Box::pin(run(steps));
        let mut procedure = Procedure { future: Some(future), board, is_cancelled, outcome: None };
        procedure.run();
        procedure
    }

    fn run(&mut self) {
        let Some(future) = &mut self.future else { return };
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(outcome) = future.as_mut().poll(&mut context) {
            self.future = None;
            self.outcome = Some(outcome);
        }
    }

    /// The next request.
    pub fn poll_request(&mut self) -> Option<(RequestId, Request)> {
        self.board.borrow_mut().requests.pop_front()
    }

    /// An answer has arrived.
    pub fn handle_response(&mut self, id: RequestId, response: Response) {
        {
            let mut board = self.board.borrow_mut();
            board.open = board.open.saturating_sub(1);
            board.answers.insert(id.0, response);
        }
        self.run();
    }

    /// How far it is, from zero to one, if it tells.
    pub fn progress(&self) -> Option<f64> {
        let (done, total) = self.board.borrow().progress?;
        Some((done as f64 / total.max(1) as f64).min(1.0))
    }

    /// Returns the outcome once, when the procedure is over.
    pub fn poll_outcome(&mut self) -> Option<T> {
        self.outcome.take()
    }

    /// Asks the procedure to end soon: one that looks at it does so between two parts of its work.
    pub fn cancel(&mut self) {
        self.is_cancelled.set(true);
    }

    /// # Panics
    /// If it waits for nothing and is not over.
    pub fn check_invariants(&self) {
        assert!(self.future.is_none() || self.board.borrow().open > 0, "a procedure waits");
    }
}

impl<T> fmt::Debug for Procedure<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Procedure").field("board", &self.board.borrow()).finish_non_exhaustive()
    }
}

/// A request that is under way.
#[derive(Debug)]
pub struct Ticket(u64);

/// The handle by which a procedure asks.
#[derive(Clone)]
pub struct Steps {
    board: Rc<RefCell<Board>>,
    inputs: Inputs,
    is_cancelled: Rc<Cell<bool>>,
}

impl Steps {
    /// The inputs of the procedure.
    pub fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    /// Whether the procedure is to end.
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.get()
    }

    /// Tells how many parts are done.
    pub fn report(&self, done: u64, total: u64) {
        self.board.borrow_mut().progress = Some((done, total));
    }

    fn start(&self, request: Request) -> Ticket {
        let mut board = self.board.borrow_mut();
        board.last += 1;
        board.open += 1;
        let number = board.last;
        board.requests.push_back((RequestId(number), request));
        Ticket(number)
    }

    async fn wait(&self, ticket: Ticket) -> Response {
        poll_fn(|_| match self.board.borrow_mut().answers.remove(&ticket.0) {
            Some(response) => Poll::Ready(response),
            None => Poll::Pending,
        })
        .await
    }

    /// Begins a call, for [`Steps::finish`].
    pub fn begin(&self, call: Call) -> Ticket {
        self.start(Request::Call(call))
    }

    /// Waits for a call that was begun.
    pub async fn finish(&self, ticket: Ticket) -> Result<Answer, Errno> {
        match self.wait(ticket).await {
            Response::Call(outcome) => outcome,
            Response::Command(_) | Response::Done => Err(Errno::IO),
        }
    }

    /// Waits until no other procedure changes metadata of subvolumes.
    pub async fn lock(&self) {
        let ticket = self.start(Request::Lock);
        self.wait(ticket).await;
    }

    /// Lets others change metadata of subvolumes.
    pub async fn unlock(&self) {
        let ticket = self.start(Request::Unlock);
        self.wait(ticket).await;
    }

    /// Makes a call and waits for its end.
    pub async fn call(&self, call: Call) -> Result<Answer, Errno> {
        let ticket = self.begin(call);
        self.finish(ticket).await
    }

    /// Runs a command and waits for its output.
    ///
    /// # Errors
    ///
    /// The command's errno and text.
    pub async fn command(&self, target: Target, command: Value) -> Result<Bytes, (Errno, String)> {
        let ticket = self.start(Request::Command(target, command));
        match self.wait(ticket).await {
            Response::Command(output) => output,
            _ => Err((Errno::IO, "another answer than that of a command".to_owned())),
        }
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steps").field("inputs", &self.inputs).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_reach_the_steps_that_wait_for_them_in_any_order() {
        let mut procedure = Procedure::new(Inputs::default(), |steps| async move {
            let (one, two) = (steps.begin(Call::Fsync(1)), steps.begin(Call::Fsync(2)));
            (steps.finish(one).await, steps.finish(two).await)
        });
        procedure.check_invariants();
        let first = procedure.poll_request().unwrap().0;
        let second = procedure.poll_request().unwrap().0;
        assert!(procedure.poll_request().is_none());
        procedure.handle_response(second, Response::Call(Err(Errno::IO)));
        assert!(procedure.poll_outcome().is_none());
        procedure.handle_response(first, Response::Call(Ok(Answer::Done)));
        assert_eq!(procedure.poll_outcome(), Some((Ok(Answer::Done), Err(Errno::IO))));
        assert!(procedure.poll_outcome().is_none());
        procedure.check_invariants();
    }
}
