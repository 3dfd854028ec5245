//! How data of a removed snapshot goes: OSDs hear of it by their map, and remove it by themselves.

use engine::Duration;
use rados::{PoolRequest, Steps};
use types::{Errno, PoolId, SnapId};

/// Pause before the monitor is asked again that has refused or could not answer.
const RETRY: Duration = Duration::from_secs(10);

/// Asks the monitor until it has noted the removal for each pool.
pub(super) async fn remove(steps: Steps, snap: SnapId, pools: Vec<PoolId>) -> SnapId {
    for pool in pools {
        loop {
            match steps.pool(PoolRequest::remove_snapshot(pool, snap)).await {
                // The pool may be gone.
                Ok(_) | Err(Errno::NOENT) => break,
                Err(error) => tracing::warn!(%pool, snap = snap.0, %error,
                    "the monitor does not note that a snapshot is removed; it is asked again"),
            }
            steps.wait(RETRY).await;
        }
    }
    snap
}
