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
