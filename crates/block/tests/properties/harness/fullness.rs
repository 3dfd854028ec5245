//! Full devices: writes are refused, deletes are not, nothing is lost, and all space comes back.

use super::Report;
use super::generator::{Generator, collection, object, one};
use super::history::Tolerance;
use super::life::Life;
use super::shape::{MEMORY_TINY, Shape};
use bytes::Bytes;
use std::collections::BTreeMap;
use stdx::Prng;
use store::{Change, Outcome, RequestKind, Transaction, Usage};

const PG: u64 = 0;
/// A device is full when so many writes were refused.
const REFUSALS: u64 = 12;
/// More objects than ever fit.
const OBJECTS: u64 = 400;
/// Checkpoints after which removed space must have come back.
const RECLAIM_CHECKPOINTS: u64 = 8;

pub fn full_devices(seed: u64) -> Report {
    fullness_run(seed, 3)
}

pub fn fullness_run(seed: u64, rounds: u64) -> Report {
    let mut prng = Prng::new(seed);
    let main_mib = prng.range(16..33);
    let mut shape = Shape::new(main_mib, if prng.chance(1, 3) { 16 } else { 0 });
    shape.store.memory = *prng.choose(&[MEMORY_TINY, 8 << 20]);
    shape.store.discard = prng.chance(1, 2);
    let mut life = Life::begin(&shape, seed).tolerating(Tolerance::NoSpace);
    let empty = usage(&mut life);
    let mut fullness = Fullness { generator: life.generator(), prng, life };
    let first = fullness.fill();
    for _ in 0..rounds {
        fullness = fullness.verified();
        fullness.remove_some();
        fullness.fill();
    }
    fullness = fullness.verified();
    fullness.remove_all(&empty);
    let again = fullness.fill();
    assert!(again * 10 >= first * 8, "{first} bytes fitted at first, {again} in the end");
    fullness.remove_all(&empty);
    fullness.life.report
}

fn usage(life: &mut Life) -> Usage {
    match life.ask(RequestKind::Usage) {
        Ok(Outcome::Usage(usage)) => usage,
        other => panic!("{other:?}"),
    }
}

struct Fullness {
    life: Life,
    generator: Generator,
    prng: Prng,
}

impl Fullness {
    /// Writes until the device is full; how many bytes fitted.
    fn fill(&mut self) -> u64 {
        let (mut fitted, mut refusals) = (0, 0);
        self.commit_always(one(collection(PG), Change::CreateCollection));
        while refusals < REFUSALS {
            let (transaction, bytes) = self.addition();
            match self.life.commit(transaction) {
                true => fitted += bytes,
                false => refusals += 1,
            }
        }
        fitted
    }

    /// Mostly data.
    fn addition(&mut self) -> (Transaction, u64) {
        let object = object(self.prng.below(OBJECTS));
        let change = match self.prng.below(8) {
            0 => {
                let value = vec![self.prng.next_u64() as u8; 1000];
                let number = || Bytes::from(self.prng.next_u64().to_string());
                let keys: Vec<Bytes> = std::iter::repeat_with(number).take(20).collect();
                let pairs = keys.into_iter().map(|key| (key, Bytes::from(value.clone())));
                Change::OmapSet { object, pairs: pairs.collect::<BTreeMap<_, _>>() }
            }
            _ => {
                let length = *self.prng.choose(&[1000, 4096, 20_000, 131_072, 131_072, 700_000]);
                let mut data = vec![self.prng.next_u64() as u8; length];
                self.prng.fill(&mut data[..8]);
                let offset = self.prng.below(100) * 4096 + self.prng.below(2) * 77;
                Change::Write { object, offset, data: data.into() }
            }
        };
        let transaction = one(collection(PG), change);
        let bytes = transaction.bytes_added();
        (transaction, bytes)
    }

    /// What the store must not refuse.
    fn commit_always(&mut self, transaction: Transaction) {
        self.life.history.tolerance = Tolerance::None;
        assert!(self.life.commit(transaction));
        self.life.history.tolerance = Tolerance::NoSpace;
    }

    /// Removes about half of the objects, by all means.
    fn remove_some(&mut self) {
        let names: Vec<_> = self
            .life
            .history
            .state()
            .objects(collection(PG))
            .map(|(name, _)| name.clone())
            .collect();
        for object in names {
            let change = match self.prng.below(8) {
                0..=2 => Change::Remove { object },
                3 => Change::Truncate { object, size: 0 },
                4 => Change::OmapClear { object },
                _ => continue,
            };
            self.commit_always(one(collection(PG), change));
        }
    }

    /// Nothing is lost, by a crash neither.
    fn verified(mut self) -> Self {
        self.life.verify();
        if self.prng.chance(1, 2) {
            self.life = self.life.crash().recover();
        }
        self
    }

    /// Afterwards the store is as empty as it was at first, though it may take a while.
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

/// A checkpoint leaves a few pages of metadata, and a few more that it keeps at hand.
const METADATA_LEFT_MAX: u64 = 1 << 20;

fn is_as_empty(now: &Usage, empty: &Usage) -> bool {
    now.objects == 0
        && now.bytes_omap == empty.bytes_omap
        && now.bytes_used.saturating_sub(now.bytes_meta) == empty.bytes_used
        && now.bytes_meta < METADATA_LEFT_MAX
        && now.bytes_available + METADATA_LEFT_MAX >= empty.bytes_available
}
