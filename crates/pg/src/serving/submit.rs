//! Submits writes, in the way of the group.

use super::service::Service;
use super::shard_submits;
use super::writes::{self, Write};
use types::EVersion;

/// Orders a write after all others, stores and replicates it, and returns its version. Panics unless the
/// group is active.
pub fn submit(service: &mut Service<'_>, write: Write) -> EVersion {
    match service.core.placement.geometry() {
        None => writes::submit(service, write),
        Some(_) => shard_submits::submit(service, write),
    }
}
