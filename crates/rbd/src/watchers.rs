//! Watchers of an image's header: the clients that have the image open.

use crate::steps::NamedSteps;
use crate::{Error, calls, notify};
use rados::{Place, Steps};
use wire::OsdOp;
use wire::op::OpCode;
use wire::watch::{Watcher, WatcherListing};

/// Clients that have the image open.
pub(crate) async fn list(steps: &Steps, header: &Place) -> Result<Vec<Watcher>, Error> {
    let ops = vec![OsdOp::new(OpCode::LIST_WATCHERS)];
    let reply = steps.read_step("listing the watchers of the header", header, ops).await?;
    let listing: WatcherListing = calls::output(&reply, 0, "the list of watchers")?;
    Ok(listing.entries)
}

/// Tells all clients that have the image open that the header has changed. A watcher that does not answer is
/// left to its timeout.
pub(crate) async fn notify(steps: &Steps, header: &Place) -> Result<(), Error> {
    let _ = steps.notify(header.clone(), notify::header_update()).await;
    Ok(())
}
