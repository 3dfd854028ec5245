//! Measures what a commit does with metadata in memory: `cargo run --release -p block --example metadata`.

use block::keys;
use block::object::{ExtentSegment, Onode, SEGMENT_BLOCKS};
use block::scan::{ScanPage, TreeScan};
use block::table::{Op, Table, View};
use bytes::Bytes;
use std::convert::Infallible;
use std::hint::black_box;
use std::ops::Bound;
use std::time::{Duration, Instant};
use stdx::Prng;
use types::{HObject, PoolId};

const ROUNDS: u32 = 1_000_000;
const ENTRIES: u64 = 100_000;

fn main() {
    onodes();
    segments();
    tables();
}

fn measure(what: &str, rounds: u32, mut step: impl FnMut(u32)) {
    (0..rounds / 10).for_each(&mut step);
    let start = Instant::now();
    (0..rounds).for_each(&mut step);
    println!("{what:<58} {:>8.1} ns", start.elapsed().as_nanos() as f64 / f64::from(rounds));
}

fn onodes() {
    let mut onode = Onode { size: 4 << 20, has_omap: true, ..Onode::new(123_456) };
    let lengths = [("_", 200), ("snapset", 31), ("lock", 12)];
    onode.attrs = lengths.map(|(name, len)| (name.into(), vec![5; len].into())).into();
    let _ = onode.spill();
    let bytes = onode.encode();
    let what = format!("onode of {} bytes, 3 attributes", bytes.len());
    measure(&format!("{what}: decode"), ROUNDS, |_| drop(black_box(Onode::decode(&bytes))));
    measure(&format!("{what}: encode"), ROUNDS, |_| drop(black_box(onode.encode())));
    measure(&format!("{what}: both"), ROUNDS, |_| {
        drop(black_box(Onode::decode(&bytes).unwrap().encode()));
    });
    onode.size = 4096;
    onode.absorb(ExtentSegment::default());
    onode.inline.as_mut().unwrap().map(0, 1 << 28, &[7]);
    let bytes = onode.encode();
    measure("the same with an inline extent segment of one block: both", ROUNDS, |_| {
        drop(black_box(Onode::decode(&bytes).unwrap().encode()));
    });
}

fn segments() {
    let mut whole = ExtentSegment::default();
    whole.map(0, 1 << 28, &[7; SEGMENT_BLOCKS as usize]);
    let mut scattered = ExtentSegment::default();
    (0..SEGMENT_BLOCKS).for_each(|block| drop(scattered.map(block, 1 << (block % 32), &[7])));
    for (name, segment) in [("whole", whole), ("scattered", scattered)] {
        let bytes = segment.encode();
        let what = format!("{name} extent segment of {} bytes", bytes.len());
        measure(&format!("{what}: decode"), ROUNDS, |_| {
            drop(black_box(ExtentSegment::decode(&bytes)))
        });
        measure(&format!("{what}: encode"), ROUNDS, |_| drop(black_box(segment.encode())));
        let mut changed = segment.clone();
        measure(&format!("{what}: map one block there and back"), ROUNDS, |i| {
            let block = u64::from(i) / 2 % SEGMENT_BLOCKS;
            let place = [1 << 30, segment.get(block).unwrap().physical][i as usize % 2];
            black_box(changed.map(block, place, &[i]));
        });
        measure(&format!("{what}: decode, set a checksum, encode"), ROUNDS, |i| {
            let mut segment = ExtentSegment::decode(&bytes).unwrap();
            segment.set_crc(u64::from(i) % SEGMENT_BLOCKS, i);
            black_box(segment.encode());
        });
    }
}

fn object(number: u64) -> HObject {
    let name = format!("rbd_data.10f06b8b4567.{number:016x}");
    let hash = (number as u32).wrapping_mul(0x9e37_79b9);
    HObject::head(PoolId(3), Bytes::new(), Bytes::new(), name.into(), hash)
}

struct NoTree;

impl TreeScan for NoTree {
    type Fault = Infallible;

    fn scan(
        &mut self,
        _from: Bound<&[u8]>,
        _end: &[u8],
        _entries_max: usize,
        _bytes_max: usize,
    ) -> Result<ScanPage, Infallible> {
        Ok(ScanPage::default())
    }
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    statm.split(' ').nth(1).expect("the second field").parse::<usize>().expect("a number") * 4096
}

fn tables() {
    let objects: Vec<HObject> = (0..ENTRIES).map(object).collect();
    measure("key of an object", ROUNDS, |i| {
        black_box(keys::object(7, &objects[i as usize % objects.len()]));
    });
    let random: Vec<Bytes> = objects.iter().map(|object| keys::object(7, object)).collect();
    let ascending: Vec<Bytes> = (0..ENTRIES).map(|i| keys::omap(9, &i.to_be_bytes())).collect();
    for (name, keys) in [("objects' keys, random", random), ("omap keys, ascending", ascending)] {
        table(name, &keys);
    }
}

/// Keys of a commit are in the processor's cache: copies of a few at a time have the same effect.
fn measure_hot(what: &str, keys: &[Bytes], mut step: impl FnMut(&Bytes)) {
    const BATCH: usize = 64;
    let mut elapsed = Duration::ZERO;
    for batch in keys.chunks(BATCH) {
        let hot: Vec<Bytes> = batch.iter().map(|key| Bytes::copy_from_slice(key)).collect();
        let start = Instant::now();
        hot.iter().for_each(&mut step);
        elapsed += start.elapsed();
    }
    println!("{what:<58} {:>8.1} ns", elapsed.as_nanos() as f64 / keys.len() as f64);
}

fn table(name: &str, keys: &[Bytes]) {
    let value = Bytes::from(vec![7; 300]);
    let mut prng = Prng::new(1);
    let mut table = Table::default();
    let before = resident_bytes();
    keys.iter().for_each(|key| table.put(key, value.clone()));
    let resident = resident_bytes().saturating_sub(before);
    println!("{name}: memory {} counted, {resident} resident", table.bytes);
    table.clear();
    measure_hot(&format!("{name}: put into a growing table"), keys, |key| {
        table.put(key, value.clone());
    });
    let any = |_| keys[prng.below(keys.len() as u64) as usize].clone();
    let keys: Vec<Bytes> = (0..2 * ENTRIES).map(any).collect();
    measure_hot(&format!("{name}: put again"), &keys, |key| table.put(key, value.clone()));
    measure_hot(&format!("{name}: apply an operation"), &keys, |key| {
        table.apply(Op::Put { key: key.clone().into(), value: value.clone() });
    });
    measure_hot(&format!("{name}: get"), &keys, |key| {
        drop(black_box(table.get(&key.clone().into())))
    });
    let absent: Vec<Bytes> = keys.iter().map(|key| [key, &b"x"[..]].concat().into()).collect();
    measure_hot(&format!("{name}: get of an absent key"), &absent, |key| {
        drop(black_box(table.get(&key.clone().into())));
    });
    let frozen = Table::default();
    let view = View { active: &table, frozen: Some(&frozen) };
    measure_hot(&format!("{name}: scan of 100 pairs"), &keys[..ENTRIES as usize / 10], |key| {
        let from = Bound::Included(&key[..]);
        drop(black_box(view.scan(&mut NoTree, from, b"\xff", 100, 1 << 20)));
    });
}
