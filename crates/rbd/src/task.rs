//! Tasks: operations on images that run once, in several steps.

use crate::{Error, notify};
use rados::{
    ClusterRequest, ClusterRequestId, ClusterResponse, Procedure, Progress, RequestSource, Steps,
    WatchEvent,
};
use std::fmt;

/// Bound of the state of one procedure. A part of a larger one is boxed.
const PROCEDURE_BYTES_MAX: usize = 16 << 10;

/// An operation on an image that runs once, in several steps.
pub struct Task<T>(Procedure<Result<T, Error>>);

impl<T> Task<T> {
    /// Makes a task and runs it until it waits.
    pub(crate) fn new<F>(run: impl FnOnce(Steps) -> F) -> Self
    where
        F: Future<Output = Result<T, Error>> + 'static,
    {
        const { assert!(size_of::<F>() <= PROCEDURE_BYTES_MAX) };
        Task(Procedure::new(run))
    }

    /// Returns the outcome once, when the task is over.
    pub fn poll_outcome(&mut self) -> Option<Result<T, Error>> {
        self.0.poll_outcome()
    }

    /// Ends a delay early.
    pub(crate) fn end_delay(&mut self) {
        self.0.end_delay();
    }

    /// Handles an event of a watch; false if the watch is not this task's. Other clients get an
    /// acknowledgement, and a request for the lock is answered that it will be released soon.
    pub fn handle_watch_event(&mut self, event: &WatchEvent) -> bool {
        self.0.handle_watch_event(event, |payload| notify::release_pending(payload))
    }

    /// Progress, of tasks that take long.
    pub fn progress(&self) -> Option<Progress> {
        self.0.progress()
    }
}

impl<T> RequestSource for Task<T> {
    fn poll_request(&mut self) -> Option<(ClusterRequestId, ClusterRequest)> {
        self.0.poll_request()
    }

    fn handle_response(&mut self, id: ClusterRequestId, answer: ClusterResponse) {
        self.0.handle_response(id, answer);
    }
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Task({:?})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use engine::Duration;
    use rados::{Operation, Place, Reply, WatchId};
    use types::{Errno, PoolId};
    use wire::OsdOp;

    const DELAY: Duration = Duration::from_secs(1);

    #[test]
    fn a_task_answers_at_its_watch_and_goes_on_when_its_delay_is_ended() {
        let place = Place::new(PoolId(1), Bytes::from_static(b"a"));
        let watched = place.clone();
        let task = Task::new(async move |steps| {
            let _ = steps.watch(watched.clone()).await;
            steps.wait(DELAY).await;
            let written = steps.write(&watched, vec![OsdOp::remove()]).await;
            written.map(|_| ()).map_err(|errno| Error::cluster("writing", errno))
        });
        let (requests, outcome) = requests(task);
        assert_eq!(outcome, Err(Error::cluster("writing", Errno::PERM)));
        let (watch, notify_id, reply) = (WatchId(5), 1, Bytes::new());
        let expected = [
            ClusterRequest::Watch(place.clone()),
            ClusterRequest::Wait(DELAY),
            ClusterRequest::Acknowledge { watch, notify_id, reply },
            ClusterRequest::Operate(Operation::write(place, vec![OsdOp::remove()])),
        ];
        assert_eq!(requests, expected);
    }

    /// Requests of a task whose watch is notified, whose delay is ended, and whose write is refused.
    fn requests(mut task: Task<()>) -> (Vec<ClusterRequest>, Result<(), Error>) {
        let mut requests = Vec::new();
        let payload = crate::notify::header_update();
        let event = WatchEvent::Notified { watch: WatchId(5), notify_id: 1, notifier: 2, payload };
        while let Some((id, request)) = task.poll_request() {
            match request {
                ClusterRequest::Watch(_) => {
                    assert!(!task.handle_watch_event(&event));
                    task.handle_response(id, Ok(Reply::Watching(WatchId(5))));
                }
                ClusterRequest::Wait(_) => {
                    assert!(task.handle_watch_event(&event));
                    task.end_delay();
                }
                ClusterRequest::Operate(_) => task.handle_response(id, Err(Errno::PERM)),
                _ => {}
            }
            requests.push(request);
        }
        (requests, task.poll_outcome().expect("all requests are answered"))
    }
}
