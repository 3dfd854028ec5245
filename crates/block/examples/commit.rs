//! Measures one copy of a replicated 4 KiB write: `cargo run --release -p block --example commit`. With the
//! argument `hold`, one shard of an erasure-coded write of which 4 KiB belong to this store: each transaction
//! holds its change and settles the one before of its group.
//!
//! The device is simulated, and its cost is part of the result. A profiler that counts calls, such
//! as callgrind, shows instructions and allocations of the store alone.

use block::disk::{DiskOptions, Driver, FaultyDisk};
use block::{BlockStore, Options, format};
use bytes::Bytes;
use engine::Time;
use std::time::Instant;
use stdx::Prng;
use store::{Change, Collection, RequestKind, Transaction};
use types::{EVersion, HObject, PgId, PoolId};

const POOL: PoolId = PoolId(1);
const BLOCK: u64 = 4096;
const MAIN_BLOCKS: u64 = 128 << 10;
const GROUPS: u32 = 16;
const OBJECTS: u64 = 64;
const OBJECT_BLOCKS: u64 = 256;
const ROUNDS: u64 = 20_000;
/// Typical lengths in a placement group, in bytes.
const OBJECT_INFO_LEN: usize = 250;
const LOG_ENTRY_LEN: usize = 170;
const GROUP_INFO_LEN: usize = 120;

fn main() {
    let holds = std::env::args().nth(1).is_some_and(|argument| argument == "hold");
    let mut driver = store();
    (0..GROUPS).for_each(|group| commit(&mut driver, vec![(at(group), Change::CreateCollection)]));
    let mut version = 0;
    let mut write = |driver: &mut Driver<BlockStore>, object: u64, block: u64| {
        version += 1;
        let changes = changes(object, block, version);
        commit(driver, if holds { held(changes, version) } else { changes });
    };
    for number in 0..OBJECTS * OBJECT_BLOCKS {
        write(&mut driver, number / OBJECT_BLOCKS, number % OBJECT_BLOCKS);
    }
    let mut prng = Prng::new(1);
    let start = Instant::now();
    for _ in 0..ROUNDS {
        write(&mut driver, prng.below(OBJECTS), prng.below(OBJECT_BLOCKS));
    }
    let nanos = start.elapsed().as_nanos() as f64 / ROUNDS as f64;
    println!("{ROUNDS} commits, {nanos:.0} ns each with the simulated device");
}

fn store() -> Driver<BlockStore> {
    let options = Options { main_blocks: MAIN_BLOCKS, ..Options::default() };
    let devices = DiskOptions { main_blocks: MAIN_BLOCKS, ..DiskOptions::default() };
    let mut disk = FaultyDisk::new(1, devices);
    disk.perform(format(&options, [1; 16], b"osd.0", None).expect("the device is large enough"));
    let mut driver = Driver::new(BlockStore::open(options), disk, Time::ZERO);
    driver.run_until_ready();
    driver
}

fn commit(driver: &mut Driver<BlockStore>, changes: Vec<(Collection, Change)>) {
    driver.execute(RequestKind::Append(Transaction { changes })).expect("the device has space");
}

fn at(group: u32) -> Collection {
    Collection::replicated(PgId { pool: POOL, seed: group })
}

/// Holds the changes of the object, and settles those before.
fn held(changes: Vec<(Collection, Change)>, version: u64) -> Vec<(Collection, Change)> {
    let [(at, data), (_, info), log] = changes.try_into().expect("three changes");
    let settle = Change::Settle { through: EVersion::new(1, version - 1) };
    let hold = Change::Hold { version: EVersion::new(1, version), changes: vec![data, info] };
    vec![(at, settle), (at, hold), log]
}

/// Data, object info, and the log entry and info of the group.
fn changes(object: u64, block: u64, version: u64) -> Vec<(Collection, Change)> {
    let group = object as u32 % GROUPS;
    let name = Bytes::from(format!("rbd_data.10226b8b4567.{object:016x}"));
    let object = HObject::head(POOL, Bytes::new(), Bytes::new(), name, group);
    let group_object = HObject::head(POOL, Bytes::new(), Bytes::new(), Bytes::new(), group);
    let filled = |length: usize| Bytes::from(vec![version as u8; length]);
    let log_key = [b"l\0\0\0\x01", &version.to_be_bytes()[..]].concat();
    let attrs = [("_".into(), filled(OBJECT_INFO_LEN))].into();
    let pairs =
        [("info".into(), filled(GROUP_INFO_LEN)), (Bytes::from(log_key), filled(LOG_ENTRY_LEN))];
    let data = filled(BLOCK as usize);
    [
        Change::Write { object: object.clone(), offset: block * BLOCK, data },
        Change::SetAttrs { object, attrs },
        Change::OmapSet { object: group_object, pairs: pairs.into() },
    ]
    .map(|change| (at(group), change))
    .into()
}
