//! A metadata pool over its quota, at the end of a run: what is new is refused, and removals go on, also at
//! the next server.

use super::admin::{BOOT_LIMIT, command};
use super::clean::LIVENESS_LIMIT;
use super::file_calls::{META_POOL, last_call, succeeds};
use crate::events::{run_for, run_until};
use crate::fault::Fault;
use crate::file_load;
use crate::files::below;
use crate::inject;
use crate::node::NodeId;
use crate::world::World;
use engine::Duration;
use fsclient::Call;
use maps::PoolFlags;
use types::Errno;

const DIRECTORY: &str = "full";
/// In this time the metadata server has the newest map.
const MAP_TOLD: Duration = Duration::from_secs(5);

/// Fills the metadata pool for a while, if the scenario says so.
pub(super) fn finish(world: &mut World) -> Result<(), String> {
    if !world.scenario.file_system.is_some_and(|shape| shape.has_full_pool) {
        return Ok(());
    }
    let client = world.cast.file_clients[0];
    let make = |name: &str| Call::Create(below(DIRECTORY, name));
    let remove = |name: &str| Call::Unlink(below(DIRECTORY, name));
    for call in [Call::Mkdir(DIRECTORY.to_owned()), make("a"), make("b")] {
        succeeds(world, client, &call)?;
    }
    set_quota(world, 1)?;
    refuses(world, client, &make("c"))?;
    goes(world, client, &remove("a"))?;
    // The next server has to write before it serves.
    let servers = world.cast.servers.clone();
    inject::apply(world, Fault::Crash(servers.clone()));
    inject::apply(world, Fault::Start(servers));
    if !run_until(world, BOOT_LIMIT, |world| !file_load::serving(world).is_empty()) {
        return Err("a file system with a full pool is not served".to_owned());
    }
    goes(world, client, &remove("b"))?;
    set_quota(world, 0)?;
    succeeds(world, client, &make("c"))
}

/// Bounds the objects of the pool, 0 for no bound, and waits until all know whether it is full.
fn set_quota(world: &mut World, most: u64) -> Result<(), String> {
    let set = format!(
        r#"{{"prefix":"osd pool set-quota","pool":"{META_POOL}","field":"max_objects","val":"{most}"}}"#
    );
    command(world, &set)?;
    let is_known = |world: &mut World| {
        let map = world.newest_map();
        let pool = map.and_then(|map| map.pool(map.pool_id(META_POOL)?).map(|pool| pool.flags));
        pool.is_some_and(|flags| flags.contains(PoolFlags::FULL_QUOTA) == (most > 0))
    };
    if !run_until(world, LIVENESS_LIMIT, is_known) {
        return Err(format!("a quota of {most} objects has no effect"));
    }
    run_for(world, MAP_TOLD);
    Ok(())
}

fn refuses(world: &mut World, client: NodeId, call: &Call) -> Result<(), String> {
    match last_call(world, client, call)? {
        Err(Errno::NOSPC) => Ok(()),
        outcome => Err(format!("{call:?} in a full pool: {outcome:?}")),
    }
}

/// A removal that is made again may find that it was executed.
fn goes(world: &mut World, client: NodeId, call: &Call) -> Result<(), String> {
    match last_call(world, client, call)? {
        Ok(_) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(format!("{call:?} in a full pool: {errno}")),
    }
}
