//! Requests that a full metadata pool refuses. Changes that need no more room go on, and removals free some.

use crate::plan::Plan;
use namespace::{AttributeChange, Operation};
use types::Errno;
use wire::ClientRequest;

/// Checks whether a pool that may be full has room for what a request adds. A request on which its client has
/// acted already must not fail.
///
/// # Errors
///
/// ENOSPC.
pub(super) fn check(is_full: bool, request: &ClientRequest, plan: &Plan) -> Result<(), Errno> {
    let refuses = is_full && !request.is_replayed();
    if refuses && plan.operations.iter().any(adds) { Err(Errno::NOSPC) } else { Ok(()) }
}

fn adds(operation: &Operation) -> bool {
    match operation {
        Operation::Create { .. } | Operation::Link { .. } | Operation::TakeSnapshot { .. } => true,
        Operation::Change { change, .. } => matches!(**change, AttributeChange::SetXattr { .. }),
        _ => false,
    }
}
