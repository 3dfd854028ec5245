//! Steps that must succeed: their names stand in errors.

use crate::Error;
use rados::{Operation, OperationReply, Place, Steps};
use std::ops::Range;
use types::Errno;
use wire::OsdOp;

/// Steps of a procedure, each with its name for users.
pub(crate) trait NamedSteps {
    /// Performs operations that only read.
    async fn read_step(
        &self,
        step: &str,
        place: &Place,
        ops: Vec<OsdOp>,
    ) -> Result<OperationReply, Error>;

    /// Performs operations of which some write.
    async fn write_step(&self, step: &str, place: &Place, ops: Vec<OsdOp>) -> Result<(), Error>;

    /// Performs one operation, or none, for each number, some at a time. ENOENT counts as success.
    async fn for_each_step(
        &self,
        step: &str,
        numbers: Range<u64>,
        operation: impl Fn(u64) -> Option<Operation>,
    ) -> Result<(), Error>;

    /// Performs one operation, or none, for each number, some at a time. Returns the number of objects that
    /// existed: ENOENT counts as success.
    async fn count_step(
        &self,
        step: &str,
        numbers: Range<u64>,
        operation: impl Fn(u64) -> Option<Operation>,
    ) -> Result<u64, Error>;
}

impl NamedSteps for Steps {
    async fn read_step(
        &self,
        step: &str,
        place: &Place,
        ops: Vec<OsdOp>,
    ) -> Result<OperationReply, Error> {
        self.read(place, ops).await.map_err(|errno| Error::cluster(step, errno))
    }

    async fn write_step(&self, step: &str, place: &Place, ops: Vec<OsdOp>) -> Result<(), Error> {
        match self.write(place, ops).await {
            Ok(_) => Ok(()),
            Err(errno) => Err(Error::cluster(step, errno)),
        }
    }

    async fn for_each_step(
        &self,
        step: &str,
        numbers: Range<u64>,
        operation: impl Fn(u64) -> Option<Operation>,
    ) -> Result<(), Error> {
        self.count_step(step, numbers, operation).await.map(|_| ())
    }

    async fn count_step(
        &self,
        step: &str,
        numbers: Range<u64>,
        operation: impl Fn(u64) -> Option<Operation>,
    ) -> Result<u64, Error> {
        // Of several errors the last one is reported.
        let (mut found, mut last) = (0, Ok(()));
        let reply = |_, answer: Result<OperationReply, Errno>| match answer {
            Ok(_) => {
                found += 1;
                Ok(())
            }
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => {
                last = Err(errno);
                last
            }
        };
        let _ = self.for_each(numbers, operation, reply).await;
        last.map(|()| found).map_err(|errno| Error::cluster(step, errno))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClusterRequest, RequestSource, Task};
    use rados::Reply;
    use types::PoolId;

    fn place(number: u64) -> Place {
        Place::new(PoolId(1), number.to_string())
    }

    fn done() -> Result<Reply, Errno> {
        Ok(Reply::Operation(OperationReply::default()))
    }

    /// Answers each request of a task for the object that its number names. Returns the number of requests.
    fn answer<T>(task: &mut Task<T>, answer: impl Fn(u64) -> Result<Reply, Errno>) -> u64 {
        let mut asked = 0;
        while let Some((id, request)) = task.poll_request() {
            let ClusterRequest::Operate(operation) = request else { panic!("an operation") };
            let number = String::from_utf8_lossy(&operation.place.object).parse();
            task.handle_response(id, answer(number.expect("the name of an object is a number")));
            asked += 1;
        }
        asked
    }

    fn remove(number: u64) -> Option<Operation> {
        Some(Operation::write(place(number), vec![OsdOp::remove()]))
    }

    #[test]
    fn a_failed_step_ends_the_task_and_is_named() {
        let mut task = Task::new(async move |steps| {
            steps.read_step("looking", &place(1), vec![OsdOp::stat()]).await?;
            steps.write_step("writing", &place(2), vec![OsdOp::remove()]).await?;
            steps.write_step("writing more", &place(3), vec![OsdOp::remove()]).await
        });
        assert_eq!(
            answer(&mut task, |number| if number < 2 { done() } else { Err(Errno::PERM) }),
            2
        );
        assert_eq!(task.poll_outcome(), Some(Err(Error::cluster("writing", Errno::PERM))));
    }

    #[test]
    fn objects_that_do_not_exist_are_not_counted_and_are_no_error() {
        let total = 1000;
        let mut task =
            Task::new(async move |steps| steps.count_step("removing", 0..total, remove).await);
        let is_there = |number: u64| number.is_multiple_of(4);
        let asked = answer(&mut task, |number| match is_there(number) {
            true => done(),
            false => Err(Errno::NOENT),
        });
        assert_eq!((asked, task.poll_outcome()), (total, Some(Ok(total / 4))));
    }

    #[test]
    fn an_error_for_one_of_many_objects_ends_the_step_and_is_named() {
        let mut task =
            Task::new(async move |steps| steps.for_each_step("removing", 0..1000, remove).await);
        let asked = answer(&mut task, |_| Err(Errno::PERM));
        assert!(asked < 100, "{asked} operations were sent");
        assert_eq!(task.poll_outcome(), Some(Err(Error::cluster("removing", Errno::PERM))));
    }
}
