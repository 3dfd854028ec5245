//! A tree with a device and a model.

use crate::device::{BLOCK, Extent, ReadError};
use crate::keys;
use crate::table::Table;
use crate::tree::{
    Applied, Apply, Fault, KEY_LEN_MAX, Load, PageRead, PageSpace, Step, Totals, Tree, TreeSize,
    Visitor, pages_bound, walk,
};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use stdx::Prng;
use store::HeldChange;
use types::EVersion;

pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    Random,
    /// Long common prefixes, so that separators are long and the tree is high.
    Similar,
    /// Some need layers.
    Long,
    Ascending,
    /// Keys of objects with ascending ids.
    Fresh,
    /// Held changes with ascending ids, and hashes among all others.
    Held,
}

pub fn key(number: u64) -> Bytes {
    let mut key = b"M0000000".to_vec();
    key.extend_from_slice(&number.to_be_bytes());
    key.into()
}

fn random_key(prng: &mut Prng, keys: Keys) -> Vec<u8> {
    let first = *prng.choose(b"OMHPSa");
    let small = |prng: &mut Prng| prng.below(4) as u8;
    match keys {
        Keys::Random => {
            let length = prng.below(5) as usize;
            [&[first], &prng.next_u64().to_be_bytes()[..length]].concat()
        }
        Keys::Similar => {
            let group = prng.below(60) as u8;
            let middle = vec![b'x'; 850];
            [&[first, group], middle.as_slice(), &[small(prng), small(prng)]].concat()
        }
        Keys::Long => {
            let lengths =
                [0, 10, KEY_LEN_MAX - 2, KEY_LEN_MAX - 1, KEY_LEN_MAX, 2 * KEY_LEN_MAX, 2500];
            let middle = vec![small(prng) / 2 * 255; *prng.choose(&lengths)];
            let tail = vec![small(prng) / 2; prng.below(3) as usize];
            [&[first | small(prng)], middle.as_slice(), &tail, &[prng.below(30) as u8]].concat()
        }
        Keys::Ascending | Keys::Fresh => key(prng.below(1 << 20)).to_vec(),
        Keys::Held => held_key(prng, 0).to_vec(),
    }
}

/// Some have little in common with their neighbours.
fn fresh_key(prng: &mut Prng, number: u64) -> Bytes {
    let mut key = vec![*prng.choose(b"SHMR")];
    key.extend_from_slice(&(number / 4).to_be_bytes());
    let length = *prng.choose(&[0, 4, 40, 700]);
    key.extend((0..length).map(|_| prng.below(3) as u8));
    key.into()
}

/// Of one of a few collections.
pub fn held_key(prng: &mut Prng, id: u64) -> Bytes {
    let version = EVersion::new(1, prng.below(1000));
    let name = HeldChange { version, hash: prng.next_u64() as u32 };
    Bytes::copy_from_slice(&keys::held(prng.below(3), name, id))
}

fn random_value(prng: &mut Prng) -> Vec<u8> {
    let length = match prng.below(60) {
        0 => 60_000 + prng.below(30_000),
        1..3 => prng.below(9000),
        3..15 => 900 + prng.below(500),
        15..30 => prng.below(500),
        _ => prng.below(50),
    };
    let mut value = vec![0; length as usize];
    prng.fill(&mut value);
    value
}

/// A table of about this many operations, built like the engine's: later ones override.
pub fn change_randomly(prng: &mut Prng, keys: Keys, operations: u64) -> Table {
    let mut table = Table::default();
    let (removals, start) = (prng.below(4), prng.below(1 << 20));
    for operation in 0..operations {
        let key = random_key(prng, keys);
        if prng.chance(removals, 4) && prng.chance(1, 10) {
            let mut ends = [key, random_key(prng, keys)];
            ends.sort();
            remove_range(&mut table, &ends[0], &ends[1]);
        } else if prng.chance(removals, 4) {
            table.points.insert(key.into(), None);
        } else {
            let number = start + operation;
            let key = match keys {
                Keys::Ascending => self::key(number),
                Keys::Fresh => fresh_key(prng, number),
                Keys::Held => held_key(prng, number),
                _ => key.into(),
            };
            table.points.insert(key.into(), Some(random_value(prng).into()));
        }
    }
    table
}

fn remove_range(table: &mut Table, first: &[u8], last: &[u8]) {
    if first >= last {
        return;
    }
    table.points.retain(|key, _| key[..] < *first || key[..] >= *last);
    let (mut start, mut end) = (Bytes::copy_from_slice(first), Bytes::copy_from_slice(last));
    table.ranges.retain(|a, b| {
        let apart = b[..] < start[..] || a[..] > end[..];
        if !apart {
            start = start.clone().min(a.clone());
            end = end.clone().max(b.clone());
        }
        apart
    });
    table.ranges.insert(start, end);
}

pub struct World {
    pub tree: Tree,
    pub device: BTreeMap<u64, Bytes>,
    pub space: PageSpace,
    pub model: Model,
    totals: Totals,
    checkpoints: u64,
    /// Number of times that a checkpoint waited for pages.
    pub waits: usize,
}

impl World {
    pub fn new(cache: usize) -> Self {
        let mut space = PageSpace::default();
        // Runs of odd sizes, some too small for large values.
        for number in 0..2000 {
            space.add_run(Extent::new(10 + number * 37, 30 + number % 8));
        }
        space.add_run(Extent::new(1 << 20, 100_000));
        World {
            tree: Tree::new(None, cache),
            device: BTreeMap::new(),
            space,
            model: Model::new(),
            totals: Totals::default(),
            checkpoints: 0,
            waits: 0,
        }
    }

    /// Reopens the tree with an empty cache.
    pub fn reopen(&mut self) {
        self.tree = Tree::new(self.tree.root(), 4);
    }

    pub fn read_device(&self, page: u64, pages: u32) -> Result<Bytes, ReadError> {
        let mut raw = Vec::new();
        for page in page..page + u64::from(pages) {
            raw.extend_from_slice(
                self.device
                    .get(&page)
                    .ok_or(ReadError::Outside { extent: Extent::new(page, 1), limit: 0 })?,
            );
        }
        Ok(raw.into())
    }

    pub fn supply(&mut self, reads: &[PageRead]) {
        for read in reads {
            assert!(!read.is_in_flight, "every wanted page was supplied");
            // Damage is reported to the operation that needs the page.
            self.tree.settle_read(read.page, self.read_device(read.page, read.pages));
        }
    }

    /// Runs an operation until it has a result.
    pub fn run<T>(
        &mut self,
        mut operation: impl FnMut(&mut Tree) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        for _ in 0..100 {
            match operation(&mut self.tree) {
                Err(Fault::Missing(reads)) => self.supply(&reads),
                result => return result,
            }
        }
        panic!("an operation does not get on");
    }

    pub fn bound(&self, table: &Table) -> u64 {
        let ids = self.model.keys().filter_map(|key| keys::counted_id(key));
        let above = Table::above(ids.max().map_or(0, |id| id.saturating_add(1)));
        let mut load = Load::default();
        for (key, value) in &table.points {
            load.add(above.point_load(key, value));
        }
        for (first, last) in &table.ranges {
            load.add(Load::range(first.len(), last.len()));
        }
        pages_bound(&load, &TreeSize::of(self.tree.root().as_ref())).pages
    }

    pub fn checkpoint(&mut self, table: &Table, prng: &mut Prng) -> Applied {
        self.checkpoints += 1;
        let mut apply = Apply::new(self.tree.root(), self.checkpoints);
        let budget = 1 + prng.below(64) as usize;
        let used = self.space.used_pages();
        let applied = loop {
            let step = apply.step(&mut self.tree, table, &mut self.space, budget);
            self.store(&mut apply);
            match step.expect("there is space and no damage") {
                Step::Need(reads) => {
                    self.waits += 1;
                    self.supply(&reads);
                }
                Step::Progress => self.check_some_key(prng),
                Step::Done(applied) => break applied,
            }
        };
        assert_eq!(self.space.used_pages() - used, applied.pages_written);
        assert!(applied.pages_written <= self.bound(table), "more pages than the bound");
        for _ in 0..3 {
            self.check_some_key(prng);
        }
        self.install(table, &applied);
        applied
    }

    fn install(&mut self, table: &Table, applied: &Applied) {
        applied.freed.iter().for_each(|extent| self.space.free_later(*extent).unwrap());
        let encoded = self.space.encode();
        self.space.commit();
        self.tree.install(applied.root);
        self.space.check_invariants();
        let reread = PageSpace::decode(&encoded).expect("what was encoded");
        assert_eq!(reread.free_pages(), self.space.free_pages());
        for page in applied.freed.iter().flat_map(|extent| extent.start..extent.end()) {
            // Free pages may contain anything.
            assert!(self.device.remove(&page).is_some());
        }
        self.model.retain(|key, _| {
            !table.ranges.iter().any(|(a, b)| a[..] <= key[..] && key[..] < b[..])
        });
        for (key, value) in &table.points {
            match value {
                Some(value) => drop(self.model.insert(key.to_vec(), value.to_vec())),
                None => drop(self.model.remove(&key[..])),
            }
        }
        let (sum, change) = (&mut self.totals, applied.changes);
        sum.pairs += change.pairs;
        sum.bytes += change.bytes;
        sum.omap_bytes += change.omap_bytes;
        sum.objects += change.objects;
    }

    fn store(&mut self, apply: &mut Apply) {
        while let Some((page, bytes)) = apply.poll_write() {
            assert_eq!(bytes.as_ptr() as usize % BLOCK, 0, "writes are aligned");
            for (index, raw) in bytes.chunks_exact(BLOCK).enumerate() {
                let old = self.device.insert(page + index as u64, Bytes::copy_from_slice(raw));
                assert!(old.is_none(), "page {page} was in use");
            }
        }
    }

    fn check_some_key(&mut self, prng: &mut Prng) {
        let keys = *prng.choose(&[Keys::Random, Keys::Long, Keys::Similar, Keys::Ascending]);
        let probe = random_key(prng, keys);
        let next = self.model.range(probe.clone()..).next().map(|(key, _)| key.clone());
        for key in [Some(probe), next].into_iter().flatten() {
            let found = self.run(|tree| tree.get(&key)).expect("no damage");
            assert_eq!(found.as_deref(), self.model.get(&key).map(Vec::as_slice));
        }
    }

    /// Checks every pair, page and total.
    pub fn check(&mut self) {
        self.tree.check_invariants();
        let (mut pairs, mut pages) = (Model::new(), BTreeSet::new());
        let findings = walk(
            self.tree.root().as_ref(),
            Visitor {
                read: &mut |page, count| self.read_device(page, count),
                pair: &mut |key, value| drop(pairs.insert(key.to_vec(), value.to_vec())),
                pages: &mut |extent| pages.extend(extent.start..extent.end()),
            },
        );
        assert_eq!(findings, []);
        assert!(pairs == self.model, "{} pairs, {} expected", pairs.len(), self.model.len());
        assert!(pages.iter().eq(self.device.keys()), "a page is lost or used without account");
        assert_eq!(pages.len() as u64, self.space.used_pages());
        self.check_totals();
    }

    fn check_totals(&self) {
        let mut totals = Totals::default();
        for (key, value) in &self.model {
            let bytes = (key.len() + value.len()) as i64;
            totals.pairs += 1;
            totals.bytes += bytes;
            totals.omap_bytes += if matches!(key[0], b'M' | b'H') { bytes } else { 0 };
            totals.objects += i64::from(key[0] == b'O');
        }
        assert_eq!(self.totals, totals);
    }

    pub fn check_reads(&mut self, prng: &mut Prng) {
        for _ in 0..5 {
            self.check_some_key(prng);
        }
        let mut ends = [random_key(prng, Keys::Long), random_key(prng, Keys::Similar)];
        ends.sort();
        let entries = 1 + prng.below(30) as usize;
        let (mut found, mut from) = (Vec::new(), Bound::Included(ends[0].clone()));
        loop {
            let start = from.as_ref().map(Vec::as_slice);
            let page = self.run(|tree| tree.scan(start, &ends[1], entries, 20_000));
            let page = page.expect("no damage");
            assert!(page.pairs.len() <= entries);
            found.extend(page.pairs);
            match found.last() {
                Some((key, _)) if page.more => from = Bound::Excluded(key.to_vec()),
                last => {
                    assert!(!page.more, "more behind {last:?}");
                    break;
                }
            }
        }
        let expected = self.model.range(ends[0].clone()..ends[1].clone());
        let same = |((a, b), (c, d)): ((&Vec<u8>, &Vec<u8>), &(Bytes, Bytes))| a == c && b == d;
        assert_eq!(expected.clone().count(), found.len());
        assert!(expected.zip(&found).all(same));
    }
}
