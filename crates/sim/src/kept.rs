//! Clusters that earlier versions left on their disks, to be opened by all later ones.
//!
//! [`make`] runs a fixed scenario until the stores hold most of what a store can hold: snapshots and clones,
//! groups that were divided and merged, past intervals, and a copy that is being recovered. Then the power
//! fails.
//!
//! [`open`] starts a cluster over what is left, and finds every object as it was.
//!
//! A directory of `tests/stores` is the work of one version and never changes; a version that changes a
//! format adds its own.

use crate::check::stores::{self as durable, Stores};
use crate::check::{quiet, replicas};
use crate::cluster;
use crate::commands::set_pool_command;
use crate::events::{run_for, run_until};
use crate::fault::{Fault, Kind};
use crate::fault_mix::FaultMix;
use crate::groups::all_groups;
use crate::inject;
use crate::names::{POOL, POOL_ID};
use crate::process::DeviceBlock;
use crate::run::admin::{command, restore};
use crate::run::boot::boot;
use crate::run::clean::{become_clean, fall_silent};
use crate::run::repairs::purge;
use crate::run::scrub::scrub;
use crate::scenario::{ClusterShape, DiskShape, LoadShape, NetworkShape, Scenario};
use crate::snapshots::Snapshots;
use crate::stores::{BlockShape, StoreKind};
use crate::workload::Reach;
use crate::world::World;
use block::disk::{DiskOptions, Unwritten};
use bytes::Bytes;
use codec::DecodeError;
use engine::Duration;
use std::fmt::Write as _;
use stdx::Prng;
use store::Collection;
use store::mem::MemObject;
use types::{HObject, OsdId};

/// All random decisions follow from it, also the ids and keys of the cluster: a version that draws those
/// differently has to take them from the kept control store.
const SEED: u64 = 20;
const OSDS: usize = 3;
const BLOCKS_PER_MIB: u64 = 256;
const LOG_BLOCKS: u64 = 256;
const MEMORY_BYTES: u64 = 4 << 20;
/// Load before, between and after changes of the number of groups.
const LOAD: Duration = Duration::from_secs(4);
/// Groups are divided, then merged.
const GROUPS: [&str; 2] = ["16", "12"];
/// Load while one OSD is away.
const DEGRADED_LOAD: Duration = Duration::from_secs(4);
/// Time for requests without a response.
const ANSWERED_WITHIN: Duration = Duration::from_secs(120);
const UP_WITHIN: Duration = Duration::from_secs(120);
/// Longer than a cluster waits before it opens what an earlier run left: clocks never go back.
const AWAY: Duration = Duration::from_secs(3_600);
const CONTROL: &str = "control";
const OBJECTS: &str = "objects.txt";
/// The OSD whose copies lack the last changes.
const LAGGARD: usize = 2;

/// The state that one version left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Keys and values of the control store, without leases.
    pub control: Vec<(String, Bytes)>,
    /// The devices of each OSD.
    pub disks: Vec<Vec<DeviceBlock>>,
    /// A line for each object of clients: group, name, snapshot, size, checksums of data and omap.
    pub objects: String,
}

impl Kept {
    /// File names and contents.
    pub fn files(&self) -> Vec<(String, Bytes)> {
        let disks = self.disks.iter().enumerate();
        let disks =
            disks.map(|(osd, blocks)| (format!("osd.{osd}"), codec::encode_to_bytes(blocks)));
        let control = (String::from(CONTROL), codec::encode_to_bytes(&self.control));
        let objects = (String::from(OBJECTS), Bytes::from(self.objects.clone()));
        disks.chain([control, objects]).collect()
    }

    /// Reads what [`Kept::files`] named; `read` returns the content of a file.
    pub fn read(read: impl Fn(&str) -> Result<Vec<u8>, String>) -> Result<Self, String> {
        let decode_error = |error: DecodeError| error.to_string();
        let disk = |osd: usize| {
            codec::decode_all("blocks", &read(&format!("osd.{osd}"))?).map_err(decode_error)
        };
        let disks = (0..OSDS).map(disk).collect::<Result<_, String>>()?;
        let control = codec::decode_all("pairs", &read(CONTROL)?).map_err(decode_error)?;
        let objects = String::from_utf8(read(OBJECTS)?).map_err(|error| error.to_string())?;
        Ok(Kept { control, disks, objects })
    }
}

/// Runs the scenario and takes what is on the disks at the end. `Err` says which check failed.
pub fn make() -> Result<Kept, String> {
    let world = &mut cluster::build(scenario(), false);
    boot(world)?;
    inject::set_busy(world, true);
    for groups in GROUPS {
        run_for(world, LOAD);
        command(world, &set_pool_command(POOL, "pg_num", groups))?;
    }
    run_for(world, LOAD);
    inject::heal(world);
    restore(world)?;
    become_clean(world)?;
    purge(world)?;
    // Clones of snapshots that are removed from now on would go while later versions look.
    world.records.snapshots = Snapshots::new(Prng::new(SEED), false);
    let laggard = world.cast.osds[LAGGARD];
    inject::apply(world, Fault::Crash(vec![laggard]));
    world.scenario.faults = FaultMix::default();
    inject::set_busy(world, true);
    run_for(world, DEGRADED_LOAD);
    inject::set_busy(world, false);
    if !run_until(world, ANSWERED_WITHIN, |world| world.in_flight() == 0) {
        return Err(String::from("requests are never answered"));
    }
    let objects = describe(world, &durable::read(world)?);
    inject::apply(world, Fault::Start(vec![laggard]));
    if !run_until(world, UP_WITHIN, is_recovering) {
        return Err(format!("nothing is recovered:\n{}", world.groups()));
    }
    let control = world.control().borrow().pairs();
    let disks = world.osds().map(|osd| osd.disk().durable_blocks()).collect();
    Ok(Kept { control, disks, objects })
}

/// Starts a cluster over what was kept, and compares every object once all copies are complete.
pub fn open(kept: &Kept) -> Result<(), String> {
    let world = &mut cluster::build(scenario(), false);
    world.control().borrow_mut().replace(kept.control.clone());
    for (osd, blocks) in world.nodes.osds_mut().zip(&kept.disks) {
        osd.disk_mut().replace_blocks(blocks);
    }
    run_for(world, AWAY);
    (0..world.nodes.count()).for_each(|node| world.start(node));
    let are_up = |world: &mut World| world.newest_map().is_some_and(|map| map.up_count() == OSDS);
    if !run_until(world, UP_WITHIN, are_up) {
        return Err(String::from("not all OSDs come up"));
    }
    become_clean(world)?;
    scrub(world)?;
    fall_silent(world);
    quiet::check(world)?;
    let stores = durable::read(world)?;
    replicas::check(world, &stores)?;
    let found = describe(world, &stores);
    let wrong = kept.objects.lines().find(|line| !found.lines().any(|other| other == *line));
    match wrong {
        Some(line) => Err(format!("not found as it was left: {line}\nthere is:\n{found}")),
        None if found != kept.objects => Err(format!("there is more than was left:\n{found}")),
        None => Ok(()),
    }
}

/// Three OSDs with block stores, one of which keeps log and metadata on a device of its own.
fn scenario() -> Scenario {
    let store = |fast_mib: u64| {
        let (main_blocks, fast_blocks) = (16 * BLOCKS_PER_MIB, fast_mib * BLOCKS_PER_MIB);
        let store = block::Options {
            main_blocks,
            fast_blocks,
            memory: MEMORY_BYTES,
            flush_main: true,
            flush_fast: true,
            discard: false,
            deferred_blocks: 8,
            owner: None,
        };
        let disk = DiskOptions {
            main_blocks,
            fast_blocks,
            unwritten: Unwritten::Zeros,
            ..DiskOptions::default()
        };
        let log_blocks = Some(LOG_BLOCKS);
        StoreKind::Block(Box::new(BlockShape { store, disk, log_blocks, checkpoint_one_in: 40 }))
    };
    let drawn = Scenario::draw(SEED);
    Scenario {
        cluster: ClusterShape {
            monitors: 1,
            osds: OSDS,
            spares: 0,
            hosts: OSDS,
            clients: 2,
            size: 2,
            min_size: 1,
            pg_num: 8,
            uses_cephx: true,
            leaver: None,
            removed: None,
            ..drawn.cluster
        },
        network: NetworkShape { is_wired: false, delay_us: (50, 1_000), skew_ms_max: 0 },
        load: LoadShape {
            objects: 12,
            reach: Reach::FAR,
            think_us: 40_000,
            in_flight_max: 4,
            has_image: false,
            image_sharers: 0,
            has_snapshots: true,
            ..drawn.load
        },
        disks: DiskShape {
            stores: vec![store(0), store(16), store(0)],
            is_tight: false,
            slow: None,
            rotten: None,
            rotting: None,
            troubled: None,
            replaced: None,
        },
        trials: Default::default(),
        control: Default::default(),
        stall: None,
        faults: FaultMix {
            interval_ms: 1_500,
            weights: vec![(Kind::CrashOsd, 2), (Kind::Churn, 1)],
            away_ms_max: 4_000,
        },
        ..drawn
    }
}

/// Some copy has received objects that it lacked, and lacks others.
fn is_recovering(world: &mut World) -> bool {
    let osds = world.osds().filter_map(|osd| osd.daemon());
    osds.flat_map(osd::Osd::groups).any(|group| group.is_primary() && group.recovering() > 0)
}

/// Every object of clients as its primary has it.
fn describe(world: &World, stores: &Stores) -> String {
    let map = world.newest_map().expect("the monitor runs");
    let groups = all_groups(map).into_iter().filter(|pg| pg.pool == POOL_ID);
    let mut lines = String::new();
    for pg in groups {
        let primary: OsdId = map.pg_to_osds(pg).acting[0];
        let objects = stores.of(primary).objects(Collection::replicated(pg));
        for (name, object) in objects.filter(|(name, _)| !pg::is_meta_object(name)) {
            writeln!(lines, "{pg} {}", line(name, object)).expect("a string has room");
        }
    }
    lines
}

fn line(name: &HObject, object: &MemObject) -> String {
    let data = object.data.read(0, object.data.size()).data;
    let pairs = codec::encode_to_bytes(&(object.omap_header.clone(), object.omap.clone()));
    let (data_crc, omap_crc) = (crc_fast::crc32_iscsi(&data), crc_fast::crc32_iscsi(&pairs));
    let (text, snap, size) = (String::from_utf8_lossy(&name.name), name.snap.0, data.len());
    format!("{text} snap {snap:x}: {size} bytes {data_crc:08x} omap {omap_crc:08x}")
}
