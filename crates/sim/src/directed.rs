//! An overwrite of an erasure-coded object that some of the shards hold when the power fails.
//!
//! Each case says which members hold the overwrite, and which stay dead when the others restart. The object
//! reads as one of its two versions, as the new one if that was acknowledged, and the same ever after.

pub mod dropped;

use crate::cluster;
use crate::erasure::ErasureShape;
use crate::events::{run_for, run_until};
use crate::fault::Fault;
use crate::fault_mix::FaultMix;
use crate::history::ObjectId;
use crate::inject;
use crate::load;
use crate::model::Action;
use crate::names::POOL_ID;
use crate::node::NodeId;
use crate::run::boot::boot;
use crate::run::clean::{become_clean, fall_silent};
use crate::run::verdict::check_stores;
use crate::scenario::{ClusterShape, DiskShape, LoadShape, NetworkShape, Scenario};
use crate::stores::StoreKind;
use crate::workload::Reach;
use crate::world::World;
use bytes::Bytes;
use engine::Duration;
use store::crash::CrashOptions;
use types::{OsdId, PgId};

const SEED: u64 = 20;
const UNIT: u32 = 4096;
const OBJECT: ObjectId = 0;
/// Time for messages to those members that get them, and for their disks.
const HELD_WITHIN: Duration = Duration::from_millis(300);
/// Long enough that nothing is settled, or so short that everything is.
const SETTLE_LATE_MS: u64 = 100_000;
const SETTLE_SOON_MS: u64 = 1;
const ANSWERED_WITHIN: Duration = Duration::from_secs(200);

/// One case. Sets of positions are bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// Shards of data.
    pub data: u8,
    /// Shards of parity.
    pub parity: u8,
    /// Positions whose members hold the overwrite. All others get no message, or store none of it.
    pub held_by: u32,
    /// Positions whose members stay dead at first; at most `parity`.
    pub dead: u32,
    /// Held changes are settled before the power fails.
    pub settles: bool,
    /// First byte of the overwrite.
    pub offset: u64,
}

impl Case {
    /// All cases of a code: each set that holds the overwrite, and each set that stays dead.
    pub fn all(data: u8, parity: u8) -> impl Iterator<Item = Case> {
        let sets = 0..1u32 << (data + parity);
        let dead = sets.clone().filter(move |dead| dead.count_ones() <= parity.into());
        let both = sets.flat_map(move |held| dead.clone().map(move |dead| (held, dead)));
        let with = both.flat_map(|both| [false, true].map(|settles| (both, settles)));
        with.enumerate().map(move |(number, ((held_by, dead), settles))| {
            // Each chunk in turn, now at its beginning and now across its end.
            let offset = number as u64 * u64::from(UNIT) / 2 % (3 * u64::from(UNIT));
            Case { data, parity, held_by, dead, settles, offset }
        })
    }

    fn positions(&self) -> usize {
        usize::from(self.data + self.parity)
    }
}

/// Plays a case. `Err` says what went wrong.
pub fn play(case: Case) -> Result<(), String> {
    let world = &mut cluster::build(scenario(case), false);
    boot(world)?;
    let before = Bytes::from(vec![b'a'; 3 * UNIT as usize + 100]);
    let patch = Bytes::from_static(b"<overwritten>");
    let mut after = before.to_vec();
    after[case.offset as usize..][..patch.len()].copy_from_slice(&patch);
    let writer = world.cast.clients[0];
    ask(world, writer, OBJECT, Action::WriteFull { data: before.clone() })?;
    run_for(world, HELD_WITHIN);
    let nodes = members(world);
    let patch = Action::Write { offset: case.offset, data: patch };
    let is_answered = change(world, case, &nodes, patch);
    restart(world, case, &nodes, &nodes);
    let first = read(world)?;
    if first != before && first != after[..] {
        return Err(format!("the object is neither as before nor as after: {first:?}"));
    }
    if is_answered && first != after[..] {
        return Err(String::from("the overwrite was acknowledged, and is lost"));
    }
    // A client that is dead counts as one that waits for its answer.
    inject::apply(world, Fault::Start([nodes, vec![writer]].concat()));
    become_clean(world)?;
    let second = read(world)?;
    if first != second {
        return Err(String::from("the object was read in one version, and later in the other"));
    }
    fall_silent(world);
    check_stores(world).map(|_| ())
}

/// The processes of the only group's members, by position.
fn members(world: &World) -> Vec<NodeId> {
    let map = world.newest_map().expect("the monitor runs");
    let acting = map.pg_to_osds(PgId { pool: POOL_ID, seed: 0 }).acting;
    let node = |osd: &OsdId| world.cast.osds[osd.0 as usize];
    acting.iter().map(node).collect()
}

/// Changes the object, so that only some members hold that. Returns whether the client had an answer.
fn change(world: &mut World, case: Case, nodes: &[NodeId], action: Action) -> bool {
    let primary = nodes[0];
    for (position, node) in nodes.iter().enumerate() {
        match case.held_by & 1 << position {
            0 if position == 0 => inject::apply(world, Fault::DiskStops(primary)),
            0 => world.transport.faults_mut().block((primary, *node)),
            _ => {}
        }
    }
    let (writer, request) = (world.cast.clients[0], world.records.history.entries().len());
    load::request(world, writer, OBJECT, action);
    run_for(world, HELD_WITHIN);
    world.records.history.entries()[request].completed.is_some()
}

/// Some OSDs lose power, and those that are not dead come back. The writer dies, too: it must not resend.
fn restart(world: &mut World, case: Case, nodes: &[NodeId], fallen: &[NodeId]) {
    let writer = world.cast.clients[0];
    inject::apply(world, Fault::Crash(vec![writer]));
    inject::apply(world, Fault::Vanish(fallen.to_vec()));
    inject::apply(world, Fault::DiskGoesOn(nodes[0]));
    inject::apply(world, Fault::Mend);
    let alive = nodes.iter().enumerate().filter(|(position, _)| case.dead & 1 << position == 0);
    let alive = alive.map(|(_, node)| *node).collect();
    inject::apply(world, Fault::Start(alive));
}

fn read(world: &mut World) -> Result<Bytes, String> {
    let reader = world.cast.clients[1];
    let request = ask(world, reader, OBJECT, Action::Read)?;
    let answer = world.records.history.entries()[request].completed.clone();
    let answer = answer.expect("it was waited for").outcome;
    let seen = answer.map_err(|errno| format!("the object cannot be read: {errno}"))?;
    seen.data.ok_or_else(|| String::from("a read has no data"))
}

/// Makes a request, and waits for its answer. Returns its number.
fn ask(
    world: &mut World,
    client: NodeId,
    object: ObjectId,
    action: Action,
) -> Result<usize, String> {
    let asks = |world: &mut World| load::request(world, client, object, action.clone());
    if !run_until(world, ANSWERED_WITHIN, asks) {
        return Err(String::from("the client does not know the pool"));
    }
    let request = world.records.history.entries().len() - 1;
    let is_done = |world: &mut World| world.records.history.entries()[request].completed.is_some();
    match run_until(world, ANSWERED_WITHIN, is_done) {
        true => Ok(request),
        false => Err(format!("no answer to {action:?}:\n{}", world.groups())),
    }
}

/// One group of an erasure-coded pool, with an OSD for each shard.
fn scenario(case: Case) -> Scenario {
    let drawn = Scenario::draw(SEED);
    let settle_ms = if case.settles { SETTLE_SOON_MS } else { SETTLE_LATE_MS };
    let code = ("isa", "reed_sol_van");
    let shape = ErasureShape {
        data: case.data,
        code,
        unit: UNIT,
        settle_ms,
        has_appended: false,
        in_pairs: false,
    };
    let store = StoreKind::Crash(CrashOptions::default());
    let mut scenario = Scenario {
        cluster: ClusterShape {
            monitors: 1,
            osds: case.positions(),
            spares: 0,
            hosts: case.positions(),
            clients: 2,
            size: case.parity + 1,
            min_size: 1,
            erasure: Some(shape),
            pg_num: 1,
            uses_cephx: false,
            leaver: None,
            removed: None,
            ..drawn.cluster
        },
        network: NetworkShape { is_wired: false, delay_us: (50, 1_000), skew_ms_max: 0 },
        load: LoadShape {
            objects: 1,
            reach: Reach::NEAR,
            has_image: false,
            has_snapshots: false,
            ..drawn.load
        },
        disks: DiskShape { stores: vec![store; case.positions()], ..DiskShape::default() },
        trials: Default::default(),
        control: Default::default(),
        stall: None,
        faults: FaultMix::default(),
        ..drawn
    };
    scenario.trials.sizes.groups.settle_idle = Duration::from_millis(settle_ms);
    scenario
}
