//! Stall of a healthy cluster: requests wait, and health must name the cause before an administrator mends
//! it.

use super::admin::{command, command_output};
use crate::check::health;
use crate::events::{run_for, run_until};
use crate::fault::Fault;
use crate::inject;
use crate::load;
use crate::names::{POOL, POOL_ID};
use crate::node::NodeId;
use crate::stall::Stall;
use crate::world::World;
use engine::Duration;
use types::{OsdId, PgId};

/// Interval of health queries, their first time, and the time by which health must name the cause.
const INTERVAL: Duration = Duration::from_secs(5);
const ASKED_FIRST: Duration = Duration::from_secs(20);
const NAMED_WITHIN: u32 = 24;
/// Time between requests.
const REQUEST_INTERVAL: Duration = Duration::from_millis(100);

/// Time for users of images to find out what is in them.
const READY_LIMIT: Duration = Duration::from_secs(120);

/// Stops the cluster, waits until health names the cause, and mends it.
pub fn play(world: &mut World, stall: Stall) -> Result<(), String> {
    if stall == Stall::Quota {
        // Writes of images to a full pool fail, and their users tolerate no error.
        run_until(world, READY_LIMIT, load::image_users_are_ready);
    }
    let (pg, osds) = draw_members(world, stall);
    let nodes: Vec<NodeId> = osds.iter().map(|osd| world.cast.osds[osd.0 as usize]).collect();
    begin(world, stall, &nodes)?;
    ask_everything(world)?;
    let down: &[OsdId] = if stall.takes_all() { &osds } else { &[] };
    await_names(world, down).map_err(|why| format!("{stall:?} of {osds:?} in {pg}: {why}"))?;
    end(world, stall, &nodes)
}

/// Draws a group of the pool, and enough of its members to stop it; for disks, one.
fn draw_members(world: &mut World, stall: Stall) -> (PgId, Vec<OsdId>) {
    let map = world.newest_map().expect("all is well");
    let pool = map.pool(POOL_ID).expect("it was made");
    let seed = world.scenario.seed as u32 % pool.pg_num;
    let pg = PgId { pool: POOL_ID, seed };
    let mut acting = map.pg_to_osds(pg).acting;
    let count = if stall.takes_all() { acting.len() + 1 - usize::from(pool.min_size) } else { 1 };
    let first = world.injection.prng().below(acting.len() as u64) as usize;
    acting.rotate_left(first);
    acting.truncate(count);
    (pg, acting)
}

fn begin(world: &mut World, stall: Stall, nodes: &[NodeId]) -> Result<(), String> {
    match stall {
        Stall::Dead => inject::apply(world, Fault::Crash(nodes.to_vec())),
        Stall::Frozen => inject::apply(world, Fault::Pause(nodes.to_vec())),
        Stall::Disk => inject::apply(world, Fault::DiskStops(nodes[0])),
        Stall::Flag => command(world, r#"{"prefix":"osd set","key":"pause"}"#)?,
        Stall::Quota => set_quota(world, 1)?,
    }
    Ok(())
}

fn end(world: &mut World, stall: Stall, nodes: &[NodeId]) -> Result<(), String> {
    match stall {
        Stall::Dead => inject::apply(world, Fault::Start(nodes.to_vec())),
        Stall::Frozen => inject::apply(world, Fault::Resume(nodes.to_vec())),
        Stall::Disk => inject::apply(world, Fault::DiskGoesOn(nodes[0])),
        Stall::Flag => command(world, r#"{"prefix":"osd unset","key":"pause"}"#)?,
        Stall::Quota => set_quota(world, 0)?,
    }
    Ok(())
}

fn set_quota(world: &mut World, bytes: u64) -> Result<(), String> {
    let pool = POOL;
    let set = format!(
        r#"{{"prefix":"osd pool set-quota","pool":"{pool}","field":"max_bytes","val":"{bytes}"}}"#
    );
    command(world, &set)
}

/// Writes each object once, by some client.
fn ask_everything(world: &mut World) -> Result<(), String> {
    let clients = world.cast.clients.clone();
    for (object, client) in world.records.workload.changing().zip(clients.into_iter().cycle()) {
        let action = world.records.workload.append(object);
        if !run_until(world, REQUEST_INTERVAL * 10, |world| load::knows_pool(world, client)) {
            return Err(format!("client {client} does not know the pool"));
        }
        load::request(world, client, object, action);
        run_for(world, REQUEST_INTERVAL);
    }
    Ok(())
}

/// Polls health, which may take some time to notice.
fn await_names(world: &mut World, down: &[OsdId]) -> Result<(), String> {
    run_for(world, ASKED_FIRST);
    let mut outcome = Ok(());
    for _ in 0..NAMED_WITHIN {
        let output = command_output(world, r#"{"prefix":"health","detail":"detail"}"#)?;
        outcome = health::check(world, &output, down);
        if outcome.is_ok() {
            break;
        }
        run_for(world, INTERVAL);
    }
    outcome
}
