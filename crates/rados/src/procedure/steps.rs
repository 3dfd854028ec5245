//! Steps of procedures: requests, and what groups them.

use super::board::Board;
use super::guest::HostedEngine;
use crate::{
    ClusterRequest, ClusterResponse, CommandOutput, Operation, OperationReply, Place, PoolRequest,
    Progress, Reply, WatchId,
};
use bytes::Bytes;
use engine::Duration;
use std::cell::RefCell;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use types::{Epoch, Errno, SnapId};
use wire::OsdOp;
use wire::watch::NotifyResult;

/// Handle with which the function of a procedure performs its steps. A reply of another kind than the request
/// asks for is [`Errno::IO`].
#[derive(Debug, Clone)]
pub struct Steps {
    /// Borrowed for moments only, never while a future is polled or a caller's function runs.
    board: Rc<RefCell<Board>>,
}

impl Steps {
    pub(super) fn new(board: Rc<RefCell<Board>>) -> Self {
        Steps { board }
    }

    /// Sends a request and waits for its response.
    pub async fn request(&self, request: ClusterRequest) -> ClusterResponse {
        let number = self.board.borrow_mut().ask(request);
        Answer { board: &self.board, number }.await
    }

    /// Sends a request whose response is dropped.
    pub fn send(&self, request: ClusterRequest) {
        self.board.borrow_mut().send(request);
    }

    /// Names the step in progress, for `Debug` and violated invariants.
    pub fn label(&self, step: &'static str) {
        self.board.borrow_mut().set_label(step);
    }

    /// Notes the progress of a step that counts it itself, or its end.
    pub fn note_progress(&self, progress: Option<Progress>) {
        self.board.borrow_mut().note_progress(progress);
    }

    /// Performs operations on one object.
    pub async fn operate(&self, operation: Operation) -> Result<OperationReply, Errno> {
        self.request(ClusterRequest::Operate(operation)).await.and_then(Reply::into_operation)
    }

    /// Performs operations that only read.
    pub async fn read(&self, place: &Place, ops: Vec<OsdOp>) -> Result<OperationReply, Errno> {
        self.operate(Operation::new(place.clone(), ops)).await
    }

    /// Performs operations of which some write, see [`Operation::write`].
    pub async fn write(&self, place: &Place, ops: Vec<OsdOp>) -> Result<OperationReply, Errno> {
        self.operate(Operation::write(place.clone(), ops)).await
    }

    /// Registers a watch. The procedure acknowledges its notifications until the procedure is dropped.
    pub async fn watch(&self, place: Place) -> Result<WatchId, Errno> {
        match self.request(ClusterRequest::Watch(place)).await? {
            Reply::Watching(watch) => Ok(watch),
            _ => Err(Errno::IO),
        }
    }

    /// Ends a watch; its events are not passed on any more.
    pub async fn unwatch(&self, watch: WatchId) -> Result<(), Errno> {
        self.request(ClusterRequest::Unwatch(watch)).await.map(|_| ())
    }

    /// True if a step of this procedure has registered the watch, given that it is this client's.
    pub fn has_watch(&self, watch: WatchId) -> bool {
        self.board.borrow().has_watch(watch)
    }

    /// Notifies all watchers of an object, and waits until they have answered or their time is over.
    pub async fn notify(&self, place: Place, payload: Bytes) -> Result<NotifyResult, Errno> {
        match self.request(ClusterRequest::Notify { place, payload }).await? {
            Reply::Notified(result) => Ok(result),
            _ => Err(Errno::IO),
        }
    }

    /// The global id of this client, by which others see it.
    pub async fn identify(&self) -> Result<u64, Errno> {
        match self.request(ClusterRequest::Identify).await? {
            Reply::Identity { global_id } => Ok(global_id),
            _ => Err(Errno::IO),
        }
    }

    /// Waits for the newest OSD map; later requests are sent with its epoch.
    pub async fn newest_map(&self) -> Result<Epoch, Errno> {
        match self.request(ClusterRequest::NewestMap).await? {
            Reply::Map(epoch) => Ok(epoch),
            _ => Err(Errno::IO),
        }
    }

    /// Changes the snapshots of a pool: the first epoch that shows the change, and the new snapshot, if any.
    pub async fn pool(&self, request: PoolRequest) -> Result<(Epoch, Option<SnapId>), Errno> {
        match self.request(ClusterRequest::Pool(request)).await? {
            Reply::Pool { epoch, snap } => Ok((epoch, snap)),
            _ => Err(Errno::IO),
        }
    }

    /// Sends a command to the monitor. The command itself may have failed: see [`CommandOutput::result`].
    pub async fn command(&self, command: String) -> Result<CommandOutput, Errno> {
        match self.request(ClusterRequest::Command(command)).await? {
            Reply::Command(output) => Ok(output),
            _ => Err(Errno::IO),
        }
    }

    /// Waits for a delay, or less if [`super::Procedure::end_delay`] ends it.
    pub async fn wait(&self, delay: Duration) {
        // A delay cannot fail.
        let _ = self.request(ClusterRequest::Wait(delay)).await;
    }

    /// Performs one operation, or none, for each number, 64 at a time, and passes their replies on in the
    /// order of arrival. After an error of `reply` no more are sent, those in flight are awaited, and the
    /// first error is returned. More are sent when half of them are left, with no allocation per number.
    pub async fn for_each(
        &self,
        numbers: Range<u64>,
        operation: impl Fn(u64) -> Option<Operation>,
        mut reply: impl FnMut(u64, Result<OperationReply, Errno>) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut many = Many::new(&self.board, numbers);
        let mut outcome = Ok(());
        loop {
            many.fill(&operation);
            if !many.is_busy() {
                return outcome;
            }
            many.wait_for_replies().await;
            for (number, answer) in many.arrived.drain(..) {
                let replied = reply(number, answer.and_then(Reply::into_operation));
                outcome = outcome.and(replied);
            }
            if outcome.is_err() {
                many.stop();
            }
        }
    }

    /// Runs a sub-procedure for each item, up to `limit` at once, in the order of the items. After an error
    /// no more are begun, those that run are awaited, and the first error is returned.
    pub async fn each<I, E>(
        &self,
        limit: usize,
        items: impl IntoIterator<Item = I>,
        run: impl AsyncFn(I) -> Result<(), E>,
    ) -> Result<(), E> {
        assert!(limit > 0, "no item could ever run");
        let mut items = items.into_iter().fuse();
        let mut children = Vec::new();
        let mut outcome = Ok(());
        poll_fn(|context| {
            loop {
                while outcome.is_ok() && children.len() < limit {
                    let Some(item) = items.next() else { break };
                    children.push(Box::pin(run(item)));
                }
                let running = children.len();
                children.retain_mut(|child| match child.as_mut().poll(context) {
                    Poll::Pending => true,
                    Poll::Ready(ended) => {
                        if outcome.is_ok() {
                            outcome = ended;
                        }
                        false
                    }
                });
                if running == 0 {
                    return Poll::Ready(());
                }
                // Others may begin in the places of those that ended.
                if children.len() == running {
                    return Poll::Pending;
                }
            }
        })
        .await;
        outcome
    }

    /// Performs another engine as one step. Its requests pass through the procedure. `turn` runs first, and
    /// again after each response, until there is an outcome.
    pub async fn host<E: HostedEngine + 'static, R>(
        &self,
        engine: E,
        mut turn: impl FnMut(&mut E) -> Option<R>,
    ) -> R {
        let engine = Rc::new(RefCell::new(engine));
        let key = self.board.borrow_mut().open_guest(engine.clone());
        let _stay = Stay { board: &self.board, key };
        poll_fn(|_| turn(&mut engine.borrow_mut()).map_or(Poll::Pending, Poll::Ready)).await
    }
}

/// The response to one request.
struct Answer<'a> {
    board: &'a RefCell<Board>,
    number: u64,
}

impl Future for Answer<'_> {
    type Output = ClusterResponse;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<ClusterResponse> {
        self.board.borrow_mut().take(self.number).map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        self.board.borrow_mut().abandon(self.number);
    }
}

/// The time for which a step hosts an engine.
struct Stay<'a> {
    board: &'a RefCell<Board>,
    key: u64,
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        self.board.borrow_mut().close_guest(self.key);
    }
}

/// The window of one [`Steps::for_each`].
struct Many<'a> {
    board: &'a RefCell<Board>,
    key: u64,
    arrived: Vec<(u64, ClusterResponse)>,
}

impl<'a> Many<'a> {
    fn new(board: &'a RefCell<Board>, numbers: Range<u64>) -> Self {
        let key = board.borrow_mut().open_window(numbers);
        Many { board, key, arrived: Vec::new() }
    }

    fn fill(&self, operation: &impl Fn(u64) -> Option<Operation>) {
        loop {
            let Some(number) = self.board.borrow_mut().window(self.key).next() else { return };
            let operation = operation(number);
            let mut board = self.board.borrow_mut();
            match operation {
                Some(operation) => board.operate(self.key, number, operation),
                None => board.window(self.key).skipped(),
            }
        }
    }

    fn is_busy(&self) -> bool {
        self.board.borrow_mut().window(self.key).is_busy()
    }

    fn stop(&self) {
        self.board.borrow_mut().window(self.key).stop();
    }

    async fn wait_for_replies(&mut self) {
        let (board, key, arrived) = (self.board, self.key, &mut self.arrived);
        poll_fn(|_| match board.borrow_mut().window(key).take_arrived(arrived) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }
}

impl Drop for Many<'_> {
    fn drop(&mut self) {
        self.board.borrow_mut().close_window(self.key);
    }
}
