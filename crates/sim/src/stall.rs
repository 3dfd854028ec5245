//! Stall of a healthy cluster: requests wait, and health must name the cause before an administrator mends
//! it.

use crate::check::health;
use crate::cluster;
use crate::faults::Fault;
use crate::network::NodeId;
use crate::run::{command, command_output};
use crate::world::World;
use engine::Duration;
use stdx::Prng;
use types::{OsdId, PgId};

const SALT: u64 = 0x7374_616c_6c65;
/// One in so many seeds ends with a stall.
const STALLS_ONE_IN: u64 = 3;
/// Interval of health queries, their first time, and the time by which health must name the cause.
const INTERVAL: Duration = Duration::from_secs(5);
const ASKED_FIRST: Duration = Duration::from_secs(20);
const NAMED_WITHIN: u32 = 24;
/// Time between requests.
const REQUEST_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stall {
    /// So many members of a group are dead that it serves no requests.
    Dead,
    /// The members neither send nor receive.
    Frozen,
    /// The disk of one member completes nothing.
    Disk,
    /// The cluster is paused: no reads, no writes.
    Flag,
    /// The pool exceeds its quota.
    Quota,
}

/// Time for users of images to find out what is in them.
const READY_LIMIT: Duration = Duration::from_secs(120);

impl Stall {
    pub fn draw(seed: u64, can_stall: bool) -> Option<Stall> {
        let mut prng = Prng::new(seed ^ SALT);
        let stalls = prng.chance(1, STALLS_ONE_IN) && can_stall;
        let all = [Stall::Dead, Stall::Frozen, Stall::Disk, Stall::Flag, Stall::Quota];
        let stall = *prng.choose(&all);
        stalls.then_some(stall)
    }

    fn takes_all(self) -> bool {
        matches!(self, Stall::Dead | Stall::Frozen)
    }
}

pub fn play(world: &mut World, stall: Stall) -> Result<(), String> {
    if stall == Stall::Quota {
        // Writes of images to a full pool fail, and their users tolerate no error.
        world.run_until(READY_LIMIT, World::image_users_are_ready);
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
    let pool = map.pool(cluster::POOL_ID).expect("it was made");
    let seed = world.scenario.seed as u32 % pool.pg_num;
    let pg = PgId { pool: cluster::POOL_ID, seed };
    let mut acting = map.pg_to_osds(pg).acting;
    let count = if stall.takes_all() { acting.len() + 1 - usize::from(pool.min_size) } else { 1 };
    let first = world.fault_prng.below(acting.len() as u64) as usize;
    acting.rotate_left(first);
    acting.truncate(count);
    (pg, acting)
}

fn begin(world: &mut World, stall: Stall, nodes: &[NodeId]) -> Result<(), String> {
    match stall {
        Stall::Dead => world.fault(Fault::Crash(nodes.to_vec())),
        Stall::Frozen => world.fault(Fault::Pause(nodes.to_vec())),
        Stall::Disk => world.fault(Fault::DiskStops(nodes[0])),
        Stall::Flag => command(world, r#"{"prefix":"osd set","key":"pause"}"#)?,
        Stall::Quota => set_quota(world, 1)?,
    }
    Ok(())
}

fn end(world: &mut World, stall: Stall, nodes: &[NodeId]) -> Result<(), String> {
    match stall {
        Stall::Dead => world.fault(Fault::Start(nodes.to_vec())),
        Stall::Frozen => world.fault(Fault::Resume(nodes.to_vec())),
        Stall::Disk => world.fault(Fault::DiskGoesOn(nodes[0])),
        Stall::Flag => command(world, r#"{"prefix":"osd unset","key":"pause"}"#)?,
        Stall::Quota => set_quota(world, 0)?,
    }
    Ok(())
}

fn set_quota(world: &mut World, bytes: u64) -> Result<(), String> {
    let pool = cluster::POOL;
    let set = format!(
        r#"{{"prefix":"osd pool set-quota","pool":"{pool}","field":"max_bytes","val":"{bytes}"}}"#
    );
    command(world, &set)
}

/// Writes each object once, by some client.
fn ask_everything(world: &mut World) -> Result<(), String> {
    let clients = world.cast.clients.clone();
    for (object, client) in world.workload.changing().zip(clients.into_iter().cycle()) {
        let action = world.workload.append();
        if !world.run_until(REQUEST_INTERVAL * 10, |world| world.knows_pool(client)) {
            return Err(format!("client {client} does not know the pool"));
        }
        world.request(client, object, action);
        world.run_until(REQUEST_INTERVAL, |_| false);
    }
    Ok(())
}

/// Polls health, which may take some time to notice.
fn await_names(world: &mut World, down: &[OsdId]) -> Result<(), String> {
    world.run_until(ASKED_FIRST, |_| false);
    let mut outcome = Ok(());
    for _ in 0..NAMED_WITHIN {
        let output = command_output(world, r#"{"prefix":"health","detail":"detail"}"#)?;
        outcome = health::check(world, &output, down);
        if outcome.is_ok() {
            break;
        }
        world.run_until(INTERVAL, |_| false);
    }
    outcome
}
