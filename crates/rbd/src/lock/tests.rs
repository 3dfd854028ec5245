//! The scope of the exclusive lock, on a cluster in memory.

use super::*;
use crate::memory::{Cluster, FEATURES, OBJECT, spec};
use crate::{RequestSource, Task};

/// Runs a task on an image of which it has the lock, in a cluster that refuses to release locks. Returns the
/// task's outcome.
fn run_without_release<T>(task: impl FnOnce(Header) -> Task<T>) -> Result<T, Error> {
    let mut cluster = Cluster::default();
    cluster.create(spec("a"), OBJECT, FEATURES.with(Features::EXCLUSIVE_LOCK));
    let mut task = task(cluster.header("a"));
    let mut refused = 0;
    while let Some((id, request)) = task.poll_request() {
        let watch = cluster.watches.keys().next().copied();
        let release = watch.map(|watch| vec![unlock(&LockIdentity::of_watch(watch.0))]);
        let answer = match &request {
            ClusterRequest::Operate(operation) if Some(&operation.ops) == release.as_ref() => {
                refused += 1;
                Some(Err(Errno::IO))
            }
            _ => cluster.answer(request),
        };
        if let Some(answer) = answer {
            task.handle_response(id, answer);
        }
    }
    assert_eq!(refused, 1);
    assert!(cluster.watches.is_empty(), "the watch is unregistered");
    task.poll_outcome().expect("all requests are answered")
}

#[test]
fn a_failed_release_of_the_lock_changes_no_outcome() {
    for outcome in [Ok(5), Err(Error::refused("no"))] {
        let expected = outcome.clone();
        let outcome = run_without_release(|header| {
            Task::new(async move |steps| with_lock(&steps, header, async |_, _| outcome).await)
        });
        assert_eq!(outcome, expected);
    }
}
