//! Full devices: writes are refused only when the device is really full; removals, and notes of
//! groups about them, are never refused unless they name many keys; nothing is lost, and all space
//! comes back.

use super::Report;
use super::generator::{Generator, collection, object, one};
use super::history::Tolerance;
use super::life::Life;
use super::shape::{MEMORY_TINY, Shape};
use bytes::Bytes;
use std::collections::BTreeMap;
use stdx::Prng;
use store::{Change, Outcome, RequestKind, Transaction, Usage};
use types::HObject;

const PG: u64 = 0;
/// Number of refused writes after which a device counts as full.
const REFUSALS: u64 = 12;
/// More objects than ever fit.
const OBJECTS: u64 = 2000;
/// Checkpoints after which removed space must have come back.
const RECLAIM_CHECKPOINTS: u64 = 8;
/// Entries of a group's log; older ones are removed.
const LOG_ENTRIES: u64 = 100;
/// Keys that a transaction can always remove, with a note of the group: a quarter of the pages of the
/// smallest reserve.
const KEYS_REMOVED_ALWAYS: usize = 16;
/// MiB from which on reserves are a small part of a device.
const LARGE_MIB: u64 = 128;

/// Minimum percentage in use when additions are refused, and maximum reported as available then.
const USED_LEAST: u64 = 85;
const USED_LEAST_LARGE: u64 = 90;
const AVAILABLE_MOST: u64 = 10;

/// Data that fills a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filling {
    Data,
    SmallObjects,
    Omap,
    LargeOmaps,
    Mixed,
}

const FILLINGS: [Filling; 5] =
    [Filling::Data, Filling::SmallObjects, Filling::Omap, Filling::LargeOmaps, Filling::Mixed];

pub fn full_devices(seed: u64) -> Report {
    fullness_run(seed, 3)
}

pub fn fullness_run(seed: u64, rounds: u64) -> Report {
    let mut prng = Prng::new(seed);
    let is_large = prng.chance(1, 4);
    let main_mib = if is_large { prng.range(LARGE_MIB..160) } else { prng.range(16..33) };
    let mut shape = Shape::new(main_mib, if prng.chance(1, 3) { 16 } else { 0 });
    shape.store.memory = *prng.choose(&[MEMORY_TINY, 8 << 20, 128 << 20]);
    shape.store.discard = prng.chance(1, 2);
    let mut life = Life::begin(&shape, seed).tolerating(Tolerance::NoSpace);
    let empty = usage(&mut life);
    let filling = *prng.choose(&FILLINGS);
    let has_fast = shape.store.fast_blocks > 0;
    let mut fullness =
        Fullness { generator: life.generator(), prng, life, filling, has_fast, entries: 0 };
    let first = fullness.fill();
    // Metadata has its own device, which is full if the main one is not.
    let mut is_dense = !has_fast || filling == Filling::Data;
    fullness.check_available();
    if is_dense {
        fullness.check_use();
    }
    for _ in 0..rounds {
        fullness = fullness.verified();
        fullness.remove_some();
        if fullness.prng.chance(1, 2) {
            fullness.filling = *fullness.prng.choose(&FILLINGS);
            is_dense &= !has_fast;
        }
        fullness.fill();
        fullness.check_available();
        if is_dense {
            fullness.check_use();
        }
    }
    fullness = fullness.verified();
    fullness.remove_all(&empty);
    fullness.filling = filling;
    let again = fullness.fill();
    let has_large_omaps = matches!(filling, Filling::LargeOmaps | Filling::Mixed);
    let share = if has_large_omaps { 6 } else { 8 };
    assert!(
        again * 10 >= first * share,
        "{first} bytes of {filling:?} fitted at first, {again} in the end"
    );
    fullness.remove_all(&empty);
    fullness.life.report
}

fn usage(life: &mut Life) -> Usage {
    match life.execute(RequestKind::Usage) {
        Ok(Outcome::Usage(usage)) => usage,
        other => panic!("{other:?}"),
    }
}

struct Fullness {
    life: Life,
    generator: Generator,
    prng: Prng,
    filling: Filling,
    has_fast: bool,
    /// Number of entries of the group's log so far.
    entries: u64,
}

impl Fullness {
    /// Writes until the device is full; returns the bytes that fitted.
    fn fill(&mut self) -> u64 {
        let (mut fitted, mut refusals) = (0, 0);
        self.commit_always(one(collection(PG), Change::CreateCollection));
        while refusals < REFUSALS {
            let mut transaction = one(collection(PG), self.addition());
            let bytes = transaction.bytes_added();
            self.push_log_entry(&mut transaction);
            match self.life.commit_alone(transaction) {
                true => fitted += bytes,
                false => refusals += 1,
            }
        }
        fitted
    }

    /// Asserts that little is unused when additions are refused.
    fn check_use(&mut self) {
        let usage = usage(&mut self.life);
        let used = usage.bytes_used * 100 / usage.bytes_total;
        let is_large = usage.bytes_total >= (LARGE_MIB * 7 / 8) << 20;
        let least = if is_large { USED_LEAST_LARGE } else { USED_LEAST };
        assert!(used >= least, "{used} % in use when a write of {:?} is refused", self.filling);
    }

    /// Asserts that little is reported as available, whichever device is full.
    fn check_available(&mut self) {
        let usage = usage(&mut self.life);
        let available = usage.bytes_available * 100 / usage.bytes_total;
        assert!(
            available <= AVAILABLE_MOST,
            "{available} % available, but writes of {:?} are refused",
            self.filling
        );
    }

    fn addition(&mut self) -> Change {
        let object = object(self.prng.below(OBJECTS));
        match (self.filling, self.prng.below(8)) {
            (Filling::Data, _) | (Filling::Mixed, 0..=3) => {
                let lengths = [1000, 4096, 20_000, 131_072, 131_072, 700_000];
                self.write(object, &lengths)
            }
            (Filling::SmallObjects, _) | (Filling::Mixed, 4..=5) => {
                self.write(object, &[100, 1000, 4096])
            }
            (Filling::LargeOmaps, _) | (Filling::Mixed, 6) => self.omap_set(object, 2000, 40),
            (Filling::Omap, _) | (Filling::Mixed, _) => self.omap_set(object, 20, 1000),
        }
    }

    fn write(&mut self, object: HObject, lengths: &[usize]) -> Change {
        let length = *self.prng.choose(lengths);
        let mut data = vec![self.prng.next_u64() as u8; length];
        self.prng.fill(&mut data[..8]);
        let offset = self.prng.below(100) * 4096 + self.prng.below(2) * 77;
        Change::Write { object, offset, data: data.into() }
    }

    fn omap_set(&mut self, object: HObject, keys: usize, length: usize) -> Change {
        let value = Bytes::from(vec![self.prng.next_u64() as u8; length]);
        let number = || Bytes::from(self.prng.next_u64().to_string());
        let keys: Vec<Bytes> = std::iter::repeat_with(number).take(keys).collect();
        let pairs = keys.into_iter().map(|key| (key, value.clone()));
        Change::OmapSet { object, pairs: pairs.collect() }
    }

    /// Appends like a placement group: its log is the omap of an object without a name.
    fn push_log_entry(&mut self, transaction: &mut Transaction) {
        let key = |number: u64| Bytes::from(format!("{number:020}"));
        let object = HObject::default();
        let pairs = BTreeMap::from([(key(self.entries), Bytes::from(vec![1; 250]))]);
        transaction.push(collection(PG), Change::OmapSet { object: object.clone(), pairs });
        let (first, last) = (key(0), key(self.entries.saturating_sub(LOG_ENTRIES)));
        transaction.push(collection(PG), Change::OmapRemoveRange { object, first, last });
        self.entries += 1;
    }

    /// Commits a transaction that the store must not refuse.
    fn commit_always(&mut self, transaction: Transaction) {
        self.life.history.tolerance = Tolerance::None;
        assert!(self.life.commit_alone(transaction));
        self.life.history.tolerance = Tolerance::NoSpace;
    }

    /// Removes about half of the objects by all kinds of changes, and notes it in the log.
    fn remove_some(&mut self) {
        let objects = self.life.history.state().objects(collection(PG));
        let objects = objects.filter(|(name, _)| !name.name.is_empty());
        // Every other key: each may lie in a page of its own.
        let half = |omap: &BTreeMap<Bytes, Bytes>| omap.keys().step_by(2).cloned().collect();
        let known: Vec<(HObject, Vec<Bytes>)> =
            objects.map(|(name, object)| (name.clone(), half(&object.omap))).collect();
        for (object, keys) in known {
            let change = match self.prng.below(9) {
                0..=2 => Change::Remove { object },
                3 => Change::Truncate { object, size: 0 },
                4 => Change::OmapClear { object },
                5 => {
                    self.remove_keys(&object, keys);
                    continue;
                }
                _ => continue,
            };
            let transaction = self.noted(change);
            self.commit_always(transaction);
        }
    }

    /// Removes keys at once, or in portions if they lie in more pages than are reserved.
    fn remove_keys(&mut self, object: &HObject, keys: Vec<Bytes>) {
        let change =
            |keys: &[Bytes]| Change::OmapRemove { object: object.clone(), keys: keys.to_vec() };
        let at_once = self.noted(change(&keys));
        if keys.len() > KEYS_REMOVED_ALWAYS && self.life.commit_alone(at_once) {
            return;
        }
        for portion in keys.chunks(KEYS_REMOVED_ALWAYS) {
            let transaction = self.noted(change(portion));
            self.commit_always(transaction);
        }
    }

    /// A removal, with an entry of the group's log in most cases.
    fn noted(&mut self, removal: Change) -> Transaction {
        let mut transaction = one(collection(PG), removal);
        if self.prng.chance(7, 8) {
            self.push_log_entry(&mut transaction);
        }
        transaction
    }

    /// Checks that nothing is lost, also after a crash.
    fn verified(mut self) -> Self {
        self.life.verify();
        if self.prng.chance(1, 2) {
            self.life = self.life.crash().recover();
        }
        self
    }

    /// Removes everything; afterwards the store is as empty as at first, though it may take a
    /// while.
    fn remove_all(&mut self, empty: &Usage) {
        self.remove_some();
        self.commit_always(one(collection(PG), Change::RemoveCollection));
        let mut now = usage(&mut self.life);
        for _ in 0..RECLAIM_CHECKPOINTS {
            if is_as_empty(&now, empty) {
                break;
            }
            self.life.checkpoint();
            now = usage(&mut self.life);
        }
        assert!(is_as_empty(&now, empty), "{now:?} is left of {empty:?}");
        self.life.verify();
    }
}

/// Pages of metadata that a checkpoint leaves, in bytes, including some that it keeps at hand.
const METADATA_LEFT_MAX: u64 = 1 << 20;

fn is_as_empty(now: &Usage, empty: &Usage) -> bool {
    now.objects == 0
        && now.bytes_omap == empty.bytes_omap
        && now.bytes_used.saturating_sub(now.bytes_meta) == empty.bytes_used
        && now.bytes_meta < METADATA_LEFT_MAX
        && now.bytes_available + METADATA_LEFT_MAX >= empty.bytes_available
}
