//! Ids of snapshots, which the monitor allocates for a pool.

use crate::Error;
use engine::Duration;
use rados::{PoolRequest, Steps};
use types::{Errno, PoolId, SnapId};

/// Attempts while the monitor's control store fails, with a delay between them.
const ATTEMPTS_MAX: usize = 30;
const PAUSE: Duration = Duration::from_secs(1);
/// Attempts after timeouts; fewer, since each may have taken minutes.
const TIMEOUTS_MAX: usize = 2;

/// Allocates a snapshot id in the pool that holds the data.
pub(super) async fn allocate(steps: &Steps, pool: PoolId) -> Result<SnapId, Error> {
    let answer = request_from_monitor(steps, || PoolRequest::take_snapshot(pool)).await;
    let what = "allocating a snapshot id";
    match answer {
        Ok(Some(snap)) => Ok(snap),
        Ok(_) => Err(Error::cluster(what, Errno::IO)),
        Err(Errno::INVAL) => Err(Error::refused(
            "the pool with the data has snapshots of its own (`ceph osd pool mksnap`), and so can \
             have none of images",
        )),
        Err(errno) => Err(Error::cluster(what, errno)),
    }
}

/// Deletes a snapshot id, so that OSDs trim its clones.
pub(super) async fn delete(
    steps: &Steps,
    pool: PoolId,
    id: SnapId,
) -> Result<Option<SnapId>, Errno> {
    request_from_monitor(steps, || PoolRequest::remove_snapshot(pool, id)).await
}

/// Sends a request to the monitor, again while its store fails. It may then be executed twice, which is
/// harmless for allocating and deleting ids. Returns the new snapshot id, if one was asked for.
async fn request_from_monitor(
    steps: &Steps,
    request: impl Fn() -> PoolRequest,
) -> Result<Option<SnapId>, Errno> {
    let (mut answer, mut timeouts) = (Err(Errno::IO), 0);
    for _ in 0..ATTEMPTS_MAX {
        answer = steps.pool(request()).await.map(|(_, snap)| snap);
        match answer {
            Err(Errno::IO | Errno::AGAIN) => {}
            Err(Errno::TIMEDOUT) if timeouts < TIMEOUTS_MAX => timeouts += 1,
            _ => break,
        }
        steps.wait(PAUSE).await;
    }
    answer
}
