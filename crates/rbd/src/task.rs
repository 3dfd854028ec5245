//! Tasks: operations on images that run once, in several steps.

use crate::workflow::{Stop, Workflow, WorkflowRun};
use crate::{Error, RequestSource, notify};
use rados::{
    ClusterRequest, ClusterRequestId, ClusterResponse, Procedure, Progress, Steps, WatchEvent,
};
use std::fmt;

/// Bound of the state of one procedure. A part of a larger one is boxed.
const PROCEDURE_BYTES_MAX: usize = 16 << 10;

/// An operation on an image that runs once, in several steps.
pub struct Task<T>(Form<T>);

/// Both ways to write the function of a task.
enum Form<T> {
    Workflow(WorkflowRun<T>),
    Procedure(Procedure<Result<T, Error>>),
}

impl<T> Task<T> {
    pub(crate) fn new(function: impl Fn(&mut Workflow) -> Result<T, Stop> + 'static) -> Self {
        Task(Form::Workflow(WorkflowRun::new(function)))
    }

    pub(crate) fn perform<F>(run: impl FnOnce(Steps) -> F) -> Self
    where
        F: Future<Output = Result<T, Error>> + 'static,
    {
        const { assert!(size_of::<F>() <= PROCEDURE_BYTES_MAX) };
        Task(Form::Procedure(Procedure::new(run)))
    }

    /// Returns the outcome once, when the task is over.
    pub fn poll_outcome(&mut self) -> Option<Result<T, Error>> {
        match &mut self.0 {
            Form::Workflow(run) => run.poll_outcome(),
            Form::Procedure(procedure) => procedure.poll_outcome(),
        }
    }

    /// Ends a delay early.
    pub(crate) fn end_delay(&mut self) {
        match &mut self.0 {
            Form::Workflow(run) => run.end_delay(),
            Form::Procedure(procedure) => procedure.end_delay(),
        }
    }

    /// Handles an event of a watch; false if the watch is not this task's. Other clients get an
    /// acknowledgement, and a request for the lock is answered that it will be released soon.
    pub fn handle_watch_event(&mut self, event: &WatchEvent) -> bool {
        match &mut self.0 {
            Form::Workflow(run) => run.handle_watch_event(event),
            Form::Procedure(procedure) => {
                procedure.handle_watch_event(event, |payload| notify::release_pending(payload))
            }
        }
    }

    /// Progress, of tasks that take long.
    pub fn progress(&self) -> Option<Progress> {
        match &self.0 {
            Form::Workflow(run) => run.progress(),
            Form::Procedure(procedure) => procedure.progress(),
        }
    }
}

impl<T> RequestSource for Task<T> {
    fn poll_request(&mut self) -> Option<(ClusterRequestId, ClusterRequest)> {
        match &mut self.0 {
            Form::Workflow(run) => run.poll_request(),
            Form::Procedure(procedure) => procedure.poll_request(),
        }
    }

    fn handle_response(&mut self, id: ClusterRequestId, answer: ClusterResponse) {
        match &mut self.0 {
            Form::Workflow(run) => run.handle_response(id, answer),
            Form::Procedure(procedure) => procedure.handle_response(id, answer),
        }
    }
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Workflow(run) => write!(f, "Task({run:?})"),
            Form::Procedure(procedure) => write!(f, "Task({procedure:?})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use rados::{Place, Reply, WatchId};
    use types::{Errno, PoolId};
    use wire::OsdOp;

    #[test]
    fn a_task_of_either_form_asks_the_same() {
        let place = Place::new(PoolId(1), Bytes::from_static(b"a"));
        let other = place.clone();
        let by_workflow = Task::new(move |workflow| {
            let _ = workflow.request(|| ClusterRequest::Watch(place.clone()))?;
            workflow.delay(engine::Duration::from_secs(1))?;
            workflow.write("writing", &place, || vec![OsdOp::remove()])
        });
        let by_procedure = Task::perform(async move |steps| {
            let _ = steps.watch(other.clone()).await;
            steps.wait(engine::Duration::from_secs(1)).await;
            let written = steps.write(&other, vec![OsdOp::remove()]).await;
            written.map(|_| ()).map_err(|errno| Error::cluster("writing", errno))
        });
        let [(first, outcome), other] = [by_workflow, by_procedure].map(requests);
        assert_eq!(outcome, Err(Error::cluster("writing", Errno::PERM)));
        assert_eq!((first, outcome), other);
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
