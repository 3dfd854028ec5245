//! Measures allocation on a device of 1 TiB: empty, almost full, and aged.
//!
//! `cargo run --release -p block --example allocate`

use block::device::Extent;
use block::space::{BlockMap, Space};
use std::hint::black_box;
use std::time::Instant;
use stdx::Prng;

const BLOCKS: u64 = 1 << 28;
const ROUNDS: u64 = 1_000_000;
const LARGE: u64 = 1024;

fn measure(what: &str, rounds: u64, mut action: impl FnMut()) {
    let start = Instant::now();
    (0..rounds).for_each(|_| action());
    let nanoseconds = start.elapsed().as_nanos() as f64 / rounds as f64;
    println!("{what:<52} {nanoseconds:>10.1} ns");
}

/// Single blocks, allocated and then released in random order; then large allocations.
fn measure_map(state: &str, map: &mut BlockMap, prng: &mut Prng) {
    let rounds = ROUNDS.min(map.free() / 2);
    let mut blocks = Vec::with_capacity(rounds as usize);
    measure(&format!("{state}: allocate 1"), rounds, || {
        blocks.push(map.allocate(1).expect("half is enough")[0]);
    });
    for last in (1..blocks.len()).rev() {
        blocks.swap(last, prng.below(last as u64 + 1) as usize);
    }
    let mut released = blocks.iter();
    measure(&format!("{state}: release 1 of those"), rounds, || {
        map.release(*released.next().expect("as many")).expect("was allocated");
    });
    for count in [16, LARGE] {
        let mut extents = Vec::new();
        let rounds = (map.free() / 2 / count).min(20_000);
        measure(&format!("{state}: allocate {count}"), rounds, || {
            extents.push(map.allocate(count).expect("half is enough"));
        });
        let pieces: usize = extents.iter().map(|extents| extents.len()).sum();
        println!("{:52} {:>10.1} pieces", "", pieces as f64 / rounds as f64);
        for extent in extents.iter().flatten() {
            map.release(*extent).expect("was allocated");
        }
    }
    let start = Instant::now();
    let runs = map.free_runs();
    println!("{state}: {} free runs counted in {:?}", runs.count(), start.elapsed());
}

/// Every block used except one of a hundred, at random.
fn almost_full(prng: &mut Prng) -> BlockMap {
    let mut map = BlockMap::new(Extent::new(0, BLOCKS));
    map.allocate(BLOCKS).expect("it is empty");
    for _ in 0..BLOCKS / 100 {
        map.set_free(Extent::new(prng.below(BLOCKS), 1)).expect("within");
    }
    map
}

/// Four fifths full with allocations of mixed sizes, of which random ones were replaced.
fn aged(prng: &mut Prng, cycles: u64) -> BlockMap {
    let mut map = BlockMap::new(Extent::new(0, BLOCKS));
    let mut size = {
        let mut prng = Prng::new(2);
        move || if prng.chance(1, 20) { LARGE } else { 1 << prng.below(5) }
    };
    let mut held = Vec::new();
    while map.free() > BLOCKS / 5 {
        held.push(map.allocate(size()).expect("a fifth is free"));
    }
    let start = Instant::now();
    for _ in 0..cycles {
        let victim = prng.below(held.len() as u64) as usize;
        for extent in held.swap_remove(victim) {
            map.release(extent).expect("was allocated");
        }
        held.push(map.allocate(size()).expect("a fifth is free"));
    }
    let nanoseconds = start.elapsed().as_nanos() as f64 / cycles as f64;
    println!("{:<52} {nanoseconds:>10.1} ns", "release and allocate 1..1024, at random");
    map
}

/// Cost of an overwrite of one block: allocate, free, and learn that the record is durable.
fn measure_space(prng: &mut Prng) {
    let mut space = Space::new(Extent::new(0, BLOCKS));
    let mut held: Vec<Extent> = space.allocate(BLOCKS / 2).expect("it is empty").to_vec();
    let base = held[0];
    held = (0..ROUNDS).map(|block| Extent::new(base.start + block * 64, 1)).collect();
    let mut seq = 0;
    measure("space: allocate 1, free another, durable", ROUNDS, || {
        seq += 1;
        let victim = prng.below(held.len() as u64) as usize;
        let fresh = space.allocate(1).expect("half is free")[0];
        let old = std::mem::replace(&mut held[victim], fresh);
        space.free_after(seq, old).expect("was allocated");
        if seq % 16 == 0 {
            black_box(space.durable(seq - 16));
        }
    });
    measure("space: pin and unpin 1", ROUNDS, || {
        let block = *prng.choose(&held);
        space.pin(block).expect("is in use");
        black_box(space.unpin(block).expect("is pinned"));
    });
    let start = Instant::now();
    let chunks = space.snapshot_dirty().len();
    println!("space: snapshot of {chunks} chunks in {:?}", start.elapsed());
}

fn main() {
    let mut prng = Prng::new(1);
    let start = Instant::now();
    let mut map = BlockMap::new(Extent::new(0, BLOCKS));
    println!("1 TiB: {} KiB of memory, made in {:?}", map.memory() / 1024, start.elapsed());
    measure_map("empty", &mut map, &mut prng);
    measure_map("99 % full", &mut almost_full(&mut prng), &mut prng);
    measure_map("aged", &mut aged(&mut prng, 10_000_000), &mut prng);
    measure_space(&mut prng);
}
