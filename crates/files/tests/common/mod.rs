//! A store driven synchronously, random transactions, and comparison with the reference.
#![allow(dead_code)]

pub mod scratch;

use bytes::Bytes;
use engine::Time;
use files::{FileStore, Options};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use stdx::Prng;
use store::mem::MemStore;
use store::{
    Change, Collection, Completion, Hashes, HeldChange, ObjectStore, Outcome, Request, RequestKind,
    StoreError, Transaction,
};
use types::{EVersion, HObject, PgId, PgShard, PoolId, ShardId, SnapId};

/// Collections of the generator.
pub const COLLECTIONS: u64 = 3;

pub struct Driver {
    pub store: FileStore,
    woken: Receiver<()>,
    next_token: u64,
}

pub fn options() -> Options {
    Options {
        log_size: 2 << 20,
        cache_size: 1 << 20,
        open_files_max: 3,
        checkpoint_interval: Duration::from_millis(20),
        reserve: 0,
        ..Options::default()
    }
}

impl Driver {
    pub fn open(directory: &Path, options: &Options) -> Driver {
        let (wake, woken) = channel();
        let waker = Arc::new(move || wake.send(()).unwrap_or(()));
        let store = FileStore::open(directory, options, waker).unwrap();
        Driver { store, woken, next_token: 0 }
    }

    pub fn submit(&mut self, kind: RequestKind) -> u64 {
        self.next_token += 1;
        self.store.submit(Time::ZERO, Request { token: self.next_token, kind });
        self.next_token
    }

    pub fn next(&mut self) -> Completion {
        loop {
            if let Some(completion) = self.store.poll_completion() {
                return completion;
            }
            self.woken.recv().unwrap();
        }
    }

    /// Executes one request; no other may be in flight.
    pub fn execute(&mut self, kind: RequestKind) -> Result<Outcome, StoreError> {
        let token = self.submit(kind);
        let completion = self.next();
        assert_eq!(completion.token, token);
        completion.outcome
    }

    pub fn commit(&mut self, transaction: Transaction) -> Result<Outcome, StoreError> {
        self.execute(RequestKind::Commit(transaction))
    }
}

/// The last collection of the generator is a shard of the group that the first is a copy of.
pub fn collection(number: u64) -> Collection {
    if number == COLLECTIONS - 1 {
        let (pg, shard) = (PgId { pool: PoolId(1), seed: 0 }, ShardId::at(0));
        return Collection(PgShard { pg, shard: shard.expect("the first one") });
    }
    Collection::replicated(PgId { pool: PoolId(1), seed: number as u32 })
}

pub fn object(number: u64) -> HObject {
    let name = Bytes::from(format!("object\0{number}"));
    let hash = (number as u32).wrapping_mul(0x9e37_79b9);
    HObject::head(PoolId(1), Bytes::from("space"), Bytes::new(), name, hash)
}

pub fn one(collection: Collection, change: Change) -> Transaction {
    Transaction { changes: vec![(collection, change)] }
}

/// Generates random transactions over a few objects of a few collections, from a seed.
pub struct Generator {
    pub prng: Prng,
    pub objects: u64,
    /// Never removes collections, for use with concurrent requests.
    pub keep_collections: bool,
    /// Number of the newest version under which changes were held.
    pub version: u64,
}

impl Generator {
    pub fn new(seed: u64) -> Self {
        Generator { prng: Prng::new(seed), objects: 6, keep_collections: false, version: 0 }
    }

    pub fn transaction(&mut self) -> Transaction {
        let changes = self.prng.range(1..5);
        let collection = collection(self.prng.below(COLLECTIONS));
        let mut transaction = Transaction::new();
        if !self.keep_collections && self.prng.chance(1, 60) {
            transaction.push(collection, Change::RemoveCollection);
        }
        if !self.keep_collections {
            transaction.push(collection, Change::CreateCollection);
        }
        if !self.keep_collections && self.prng.chance(1, 20) {
            self.push_move(&mut transaction, collection);
        }
        if !self.keep_collections && self.prng.chance(1, 3) {
            self.push_held(&mut transaction, collection);
        }
        (0..changes).for_each(|_| transaction.push(collection, self.change()));
        transaction
    }

    /// Held changes, and the end of some before them.
    fn push_held(&mut self, transaction: &mut Transaction, collection: Collection) {
        for _ in 0..self.prng.below(3) {
            self.version += self.prng.range(1..3);
            let object = self.object();
            let count = self.prng.range(1..4);
            // Without it, an absent object stays absent.
            let touch = Change::Touch { object: object.clone() };
            let touch = self.prng.chance(1, 2).then_some(touch);
            let changes = touch.into_iter();
            let changes = changes.chain((0..count).map(|_| self.held_change(object.clone())));
            let changes = changes.collect();
            transaction.push(collection, Change::Hold { version: self.version(0), changes });
        }
        let back = *self.prng.choose(&[0, 1, 2, 9]);
        let (from, through) = (self.version(back + 2), self.version(back));
        match self.prng.below(4) {
            0..=1 => transaction.push(collection, Change::Settle { through }),
            2 => transaction.push(collection, Change::Drop { from, through }),
            _ => {}
        }
    }

    fn version(&self, back: u64) -> EVersion {
        let number = self.version.saturating_sub(back);
        EVersion::new(1 + number as u32 / 20, number)
    }

    fn held_change(&mut self, object: HObject) -> Change {
        let copy = HObject { snap: SnapId(4), ..object.clone() };
        let aligned = |bytes: u64| bytes / 4096 * 4096;
        match self.prng.below(12) {
            0..=4 => {
                let data = self.data();
                let data = data.slice(..aligned(data.len() as u64) as usize);
                Change::Write { object, offset: aligned(self.offset()), data }
            }
            5 => {
                let (offset, length) = (aligned(self.offset()), aligned(self.offset()));
                Change::Zero { object, offset, length }
            }
            6 => Change::Truncate { object, size: aligned(self.offset()) },
            7 => Change::Remove { object },
            8 => Change::SetAttrs { object, attrs: self.pairs() },
            9 => Change::Clone { object: copy, target: object },
            10 => Change::OmapClear { object },
            _ => Change::Clone { object, target: copy },
        }
    }

    /// The moves of objects in a split or merge of a placement group.
    fn push_move(&mut self, transaction: &mut Transaction, source: Collection) {
        let target = collection(self.prng.below(COLLECTIONS));
        transaction.push(target, Change::CreateCollection);
        if self.prng.chance(1, 2) {
            transaction.push(source, self.change());
        }
        let hashes = Hashes::new(self.prng.below(3) as u8, self.prng.next_u64() as u32);
        transaction.push(source, Change::MoveObjects { target, hashes });
        if self.prng.chance(1, 2) {
            transaction.push(target, self.change());
        }
    }

    fn object(&mut self) -> HObject {
        object(self.prng.below(self.objects))
    }

    /// Mostly small; sometimes near the sizes at which objects move to files or get more checksums.
    fn offset(&mut self) -> u64 {
        let limit = *self.prng.choose(&[100, 5000, 5000, 20_000, 70_000, 400_000]);
        let offset = self.prng.below(limit);
        if self.prng.chance(1, 3) { offset / 4096 * 4096 } else { offset }
    }

    fn data(&mut self) -> Bytes {
        let limit = *self.prng.choose(&[1, 50, 4096, 4096, 9000, 30_000, 100_000]);
        let length = if self.prng.chance(1, 2) { limit } else { self.prng.below(limit + 1) };
        let mut data = vec![0; length as usize];
        self.prng.fill(&mut data);
        data.into()
    }

    fn key(&mut self) -> Bytes {
        let length = self.prng.range(1..3);
        (0..length).map(|_| self.prng.below(5) as u8).collect::<Vec<u8>>().into()
    }

    fn pairs(&mut self) -> BTreeMap<Bytes, Bytes> {
        let count = self.prng.below(6);
        (0..count).map(|_| (self.key(), Bytes::from(self.prng.next_u64().to_string()))).collect()
    }

    pub fn change(&mut self) -> Change {
        let object = self.object();
        match self.prng.below(30) {
            0..=9 => Change::Write { object, offset: self.offset(), data: self.data() },
            10..=11 => Change::Zero { object, offset: self.offset(), length: self.offset() },
            12..=13 => Change::Truncate { object, size: self.offset() },
            14 => Change::Remove { object },
            15 => Change::Touch { object },
            16..=17 => Change::SetAttrs { object, attrs: self.pairs() },
            18 => Change::RemoveAttr { object, name: self.key() },
            19 => Change::OmapSetHeader { object, header: self.key() },
            20..=22 => Change::OmapSet { object, pairs: self.pairs() },
            23 => Change::OmapRemove { object, keys: vec![self.key(), self.key()] },
            24 => Change::OmapRemoveRange { object, first: self.key(), last: self.key() },
            25 if self.prng.chance(1, 2) => Change::OmapClear { object },
            _ => Change::Clone { object, target: self.object() },
        }
    }

    /// A random read.
    pub fn read(&mut self) -> RequestKind {
        let (collection, object) = (collection(self.prng.below(COLLECTIONS)), self.object());
        match self.prng.below(7) {
            0 => RequestKind::Meta { collection, object },
            1..=2 => {
                let (offset, length) = (self.offset(), self.offset());
                RequestKind::Read { collection, object, offset, length }
            }
            3 => RequestKind::OmapHeader { collection, object },
            4 => RequestKind::OmapGet { collection, object, keys: vec![self.key(), self.key()] },
            5 => RequestKind::OmapList {
                collection,
                object,
                after: self.prng.chance(1, 2).then(|| self.key()),
                prefix: if self.prng.chance(1, 2) { self.key() } else { Bytes::new() },
                entries_max: self.prng.range(1..9) as usize,
                bytes_max: self.prng.range(1..200) as usize,
            },
            _ => {
                let entries_max = self.prng.range(1..5) as usize;
                RequestKind::List { collection, from: object, entries_max }
            }
        }
    }
}

/// Compares one result. Extents may be larger than the reference's.
pub fn compare_read(store: &mut Driver, model: &mut MemStore, kind: RequestKind) {
    let found = store.execute(kind.clone());
    let expected = model.execute(kind.clone());
    match (found, expected) {
        (Ok(Outcome::Read(found)), Ok(Outcome::Read(expected))) => {
            assert!(found.data == expected.data, "{kind:?}");
            for (start, length) in expected.extents {
                let covers = |&(at, len): &(u64, u64)| at <= start && start + length <= at + len;
                assert!(found.extents.iter().any(covers), "{kind:?}: {:?}", found.extents);
            }
        }
        (found, expected) => assert!(found == expected, "{kind:?}: {}", brief(&found)),
    }
}

/// The outcome without bulk data, for messages.
fn brief(outcome: &Result<Outcome, StoreError>) -> String {
    let mut text = format!("{outcome:?}");
    text.truncate(1000);
    text
}

/// Compares the whole content.
pub fn compare(store: &mut Driver, model: &mut MemStore) {
    compare_read(store, model, RequestKind::Collections);
    for collection in model.collections().collect::<Vec<_>>() {
        let (from, entries_max) = (HObject::default(), usize::MAX);
        compare_read(store, model, RequestKind::Held { collection, after: None, entries_max });
        let held: Vec<HeldChange> = model.held().of(collection).map(|(name, _)| name).collect();
        for held in held {
            compare_read(store, model, RequestKind::ReadHeld { collection, held });
        }
        compare_read(store, model, RequestKind::List { collection, from, entries_max });
        let names: Vec<HObject> = model.objects(collection).map(|(name, _)| name.clone()).collect();
        for object in names {
            let named = object.clone();
            compare_read(store, model, RequestKind::Meta { collection, object: named });
            let named = object.clone();
            compare_read(store, model, RequestKind::OmapHeader { collection, object: named });
            let (object_, offset, length) = (object.clone(), 0, u64::MAX);
            let read = RequestKind::Read { collection, object: object_, offset, length };
            compare_read(store, model, read);
            let list = RequestKind::OmapList {
                collection,
                object,
                after: None,
                prefix: Bytes::new(),
                entries_max: usize::MAX,
                bytes_max: usize::MAX,
            };
            compare_read(store, model, list);
        }
    }
}

pub fn assert_sound(store: &mut Driver) {
    let faults = store.store.verify().unwrap();
    assert!(faults.is_empty(), "{faults:?}");
}
