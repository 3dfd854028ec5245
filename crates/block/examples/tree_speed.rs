//! Measures the metadata tree: checkpoints of random keys, and reads from a full cache.

use block::device::{BLOCK, Extent};
use block::table::Table;
use block::tree::{Apply, Fault, Load, PageSpace, Step, Tree, TreeSize, pages_bound};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Instant;
use stdx::Prng;

const CHECKPOINTS: u64 = 20;
const CHANGES: u64 = 100_000;
const KEYS: u64 = 1_000_000;

fn key(number: u64) -> Bytes {
    let mut key = vec![b'O'; 60];
    key[1..9].copy_from_slice(&7u64.to_be_bytes());
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    key[9..17].copy_from_slice(&mixed.to_be_bytes());
    key.into()
}

fn main() {
    let mut prng = Prng::new(1);
    let mut space = PageSpace::default();
    space.add_run(Extent::new(0, 1_000_000));
    let mut tree = Tree::new(None, 400_000);
    let mut device: BTreeMap<u64, Bytes> = BTreeMap::new();
    let mut next = 0;
    for checkpoint in 0..CHECKPOINTS {
        let (mut table, mut load) = (Table::default(), Load::default());
        for _ in 0..CHANGES {
            let number = if next < KEYS { next } else { prng.below(KEYS) };
            next += 1;
            let value = vec![checkpoint as u8; 300];
            load.add(Load::point(60, Some(value.len())));
            table.points.insert(key(number).into(), Some(value.into()));
        }
        let bound = pages_bound(&load, &TreeSize::of(tree.root().as_ref())).pages;
        let mut apply = Apply::new(tree.root(), checkpoint);
        let (start, mut longest) = (Instant::now(), 0);
        let mut pieces = 0;
        let mut before = u64::MAX;
        let applied = loop {
            let step_start = Instant::now();
            let step = apply.step(&mut tree, &table, &mut space, 64).unwrap();
            longest = longest.max(step_start.elapsed().as_micros());
            while let Some((page, bytes)) = apply.poll_write() {
                pieces += u64::from(page != before.wrapping_add(1));
                before = page + (bytes.len() / BLOCK) as u64 - 1;
                device.insert(page, bytes);
            }
            match step {
                Step::Done(applied) => break applied,
                Step::Progress => {}
                Step::Need(reads) => {
                    reads.iter().for_each(|r| tree.supply(r.page, device[&r.page].clone()).unwrap())
                }
            }
        };
        let elapsed = start.elapsed();
        applied.freed.iter().for_each(|extent| space.free_later(*extent).unwrap());
        for page in applied.freed.iter().flat_map(|extent| extent.start..extent.end()) {
            device.remove(&page);
        }
        tree.install(applied.root);
        space.commit();
        let keys = table.points.len() as f64;
        let root = applied.root.unwrap();
        println!(
            "{checkpoint:2}: {:5.2} us/key, {:.3} pages/key, bound {:.1}x, longest step {longest} us, \
             {pieces} runs, {} pairs, {} pages, height {}, filled {:.2}",
            elapsed.as_micros() as f64 / keys,
            applied.pages_written as f64 / keys,
            bound as f64 / applied.pages_written as f64,
            root.pairs,
            root.pages,
            root.height,
            root.bytes as f64 / (root.pages as f64 * 4096.0),
        );
    }
    // Warm up, then measure.
    for round in 0..2 {
        let start = Instant::now();
        for _ in 0..KEYS {
            let key = key(prng.below(KEYS));
            loop {
                match tree.get(&key) {
                    Ok(value) => break assert!(value.is_some()),
                    Err(Fault::Missing(reads)) => reads
                        .iter()
                        .for_each(|r| tree.supply(r.page, device[&r.page].clone()).unwrap()),
                    Err(fault) => panic!("{fault}"),
                }
            }
        }
        println!("round {round}: {:.2} us/get", start.elapsed().as_micros() as f64 / KEYS as f64);
    }
    let start = Instant::now();
    let (mut count, mut from) = (0, Bound::Unbounded);
    loop {
        let page = tree.scan(from.as_ref().map(|key: &Bytes| &key[..]), b"P", 1000, 1 << 20);
        let Ok(page) = page else { break };
        count += page.pairs.len();
        match page.pairs.last() {
            Some((key, _)) if page.more => from = Bound::Excluded(key.clone()),
            _ => break,
        }
    }
    println!("{:.2} us/pair scanned of {count}", start.elapsed().as_micros() as f64 / count as f64);
}
