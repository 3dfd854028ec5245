//! Maintenance: changes of an image that the owner of its exclusive lock makes, for itself or for another
//! client.

pub(crate) mod detach;
pub(crate) mod parents;
pub(crate) mod resize;
mod snapshot_ids;
pub(crate) mod snapshots;

use crate::Error;
use crate::header::{self, Header};
use crate::notify::Maintenance;
use rados::Steps;

/// Maintenance by the owner of the lock for another client. The header may predate that client's changes.
pub(crate) async fn maintain(
    steps: &Steps,
    header: &Header,
    what: &Maintenance,
) -> Result<(), Error> {
    let header = header::read_with_id(steps, &header.spec, header.id.clone()).await?;
    match what {
        Maintenance::Resize { size, may_shrink } => {
            resize::resize_as_owner(steps, &header, *size, *may_shrink).await
        }
        Maintenance::TakeSnapshot(name) => snapshots::take_as_owner(steps, &header, name).await,
        Maintenance::RemoveSnapshot(name) => snapshots::remove_as_owner(steps, &header, name).await,
    }
}
