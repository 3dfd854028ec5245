//! Calls to the file system in a healed cluster, at the end of a run.

use super::clean::LIVENESS_LIMIT;
use crate::events::{run_for, run_until};
use crate::file_load;
use crate::node::NodeId;
use crate::world::World;
use engine::Duration;
use fsclient::{Call, Outcome};
use types::Errno;

pub(super) const META_POOL: &str = "fs.meta";
/// Attempts of a call in a healed cluster: a session may be lost once more.
pub(super) const ATTEMPTS: usize = 3;

/// A call that must succeed. One that is made again may find that it was executed.
pub(super) fn succeeds(world: &mut World, node: NodeId, call: &Call) -> Result<(), String> {
    match last_call(world, node, call)? {
        Ok(_) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(format!("{call:?}: {errno}")),
    }
}

/// A call in a healed cluster.
pub(super) fn last_call(world: &mut World, node: NodeId, call: &Call) -> Result<Outcome, String> {
    for _ in 0..ATTEMPTS {
        let Some(index) = file_load::call(world, node, call.clone()) else {
            run_for(world, Duration::from_secs(2));
            continue;
        };
        let is_answered =
            |world: &mut World| world.records.files.entries()[index].completed.is_some();
        if !run_until(world, LIVENESS_LIMIT, is_answered) {
            let client = world.nodes.process(node).as_file_client();
            let client = client.and_then(|client| client.daemon()).map(|client| client.describe());
            return Err(format!("{call:?} is never answered: {client:?}"));
        }
        let completed = world.records.files.entries()[index].completed.clone();
        let (_, outcome) = completed.expect("it is answered");
        if outcome != Err(Errno::IO) {
            return Ok(outcome);
        }
    }
    Err(format!("{call:?} fails in a healed cluster"))
}
