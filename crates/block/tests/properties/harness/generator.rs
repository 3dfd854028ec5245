//! Random transactions and reads over few objects, so that they interact.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use stdx::Prng;
use store::{Change, Collection, Hashes, HeldChange, RequestKind, Transaction};
use types::{EVersion, HObject, PgId, PgShard, PoolId, ShardId, SnapId};

const COLLECTIONS: u64 = 3;
const SHARD: u64 = 2;
const OBJECTS: u64 = 7;
const BLOCK: u64 = block::device::BLOCK as u64;

/// Source of data, cut at any byte: it costs nothing, and no two blocks are equal.
fn noise() -> &'static Bytes {
    static NOISE: OnceLock<Bytes> = OnceLock::new();
    NOISE.get_or_init(|| {
        let mut noise = vec![0; 5 << 20];
        Prng::new(0).fill(&mut noise);
        noise.into()
    })
}

/// One of the collections that the generator uses is a shard of the group that another is a copy of.
pub fn collection(number: u64) -> Collection {
    if number == SHARD {
        let (pg, shard) = (PgId { pool: PoolId(1), seed: 0 }, ShardId::at(31));
        return Collection(PgShard { pg, shard: shard.expect("the last one") });
    }
    Collection::replicated(PgId { pool: PoolId(1), seed: number as u32 })
}

/// A collection that no store can have; its key would be that of shard 0 of pool 1.
fn invalid() -> Collection {
    Collection::replicated(PgId { pool: PoolId(Collection::POOL_END + 1), seed: 0 })
}

/// Some share a hash, some a name; some are clones; one is in another pool.
pub fn object(number: u64) -> HObject {
    let name = match number % 3 {
        0 => Bytes::from(format!("object\0{}", number / 2)),
        1 => Bytes::from(vec![b'x'; 1 + number as usize * 9 % 300]),
        _ => Bytes::from(number.to_string()),
    };
    let hash = (number as u32 / 2).wrapping_mul(0x9e37_79b9);
    let pool = PoolId(if number == 3 { 3 } else { 1 });
    let head = HObject::head(pool, Bytes::from("space"), Bytes::new(), name, hash);
    if number.is_multiple_of(4) { HObject { snap: SnapId(number), ..head } } else { head }
}

pub fn one(collection: Collection, change: Change) -> Transaction {
    Transaction { changes: vec![(collection, change)] }
}

/// Generator whose output depends on the seed only.
#[derive(Debug, Clone)]
pub struct Generator {
    prng: Prng,
    /// Approximate size of objects in bytes.
    object_size: u64,
    /// The newest version under which changes were held.
    version: EVersion,
}

impl Generator {
    pub fn new(seed: u64, object_size: u64) -> Self {
        Generator { prng: Prng::new(seed), object_size, version: EVersion::new(1, 0) }
    }

    pub fn transaction(&mut self) -> Transaction {
        let mut transaction = Transaction::new();
        let parts = if self.prng.chance(1, 6) { 2 } else { 1 };
        (0..parts).for_each(|_| self.push_part(&mut transaction));
        transaction
    }

    /// Changes of one collection, mostly one or few.
    fn push_part(&mut self, transaction: &mut Transaction) {
        let collection = collection(self.prng.below(COLLECTIONS));
        match self.prng.below(60) {
            0 => transaction.push(collection, Change::RemoveCollection),
            1 => {
                transaction.push(collection, Change::RemoveCollection);
                transaction.push(collection, Change::CreateCollection);
            }
            // Sometimes the object does not exist, and the transaction is refused.
            2..=4 => {}
            5..=7 => self.push_move(transaction, collection),
            8 if self.prng.chance(1, 4) => transaction.push(invalid(), Change::CreateCollection),
            _ => transaction.push(collection, Change::CreateCollection),
        }
        if self.prng.chance(1, 3) {
            self.push_held(transaction, collection);
        }
        let changes = if self.prng.chance(1, 2) { 1 } else { self.prng.range(1..8) };
        (0..changes).for_each(|_| transaction.push(collection, self.change()));
    }

    /// Mostly as an OSD does: a held change, and the end of those before it.
    fn push_held(&mut self, transaction: &mut Transaction, collection: Collection) {
        let last = self.version;
        for _ in 0..self.prng.below(3) {
            let hold = Change::Hold { version: self.next_version(), changes: self.held() };
            transaction.push(collection, hold);
        }
        let before = |generator: &mut Self| {
            let back = *generator.prng.choose(&[0, 0, 1, 4, 20]);
            EVersion { version: last.version.saturating_sub(back), ..last }
        };
        match self.prng.below(6) {
            0..=1 => transaction.push(collection, Change::Settle { through: before(self) }),
            2 => transaction.push(collection, Change::Settle { through: self.version }),
            3 => {
                let (from, through) = (before(self), before(self));
                transaction.push(collection, Change::Drop { from, through });
            }
            _ => {}
        }
    }

    /// Rarely one that comes again, perhaps in a new epoch, and is refused.
    fn next_version(&mut self) -> EVersion {
        let EVersion { epoch, version } = self.version;
        let epoch = epoch.0 + u32::from(self.prng.chance(1, 10));
        let step = if self.prng.chance(1, 30) { 0 } else { self.prng.range(1..3) };
        self.version = EVersion::new(epoch, version + step);
        self.version
    }

    /// Changes of objects with one hash.
    fn held(&mut self) -> Vec<Change> {
        let number = self.prng.below(OBJECTS);
        let count = *self.prng.choose(&[1, 1, 1, 2, 5]);
        // Without it, an absent object stays absent.
        let touch = Change::Touch { object: object(number) };
        let touch = self.prng.chance(1, 2).then_some(touch);
        let mut changes: Vec<Change> = touch.into_iter().collect();
        changes.extend((0..count).map(|_| self.held_change(number)));
        if self.prng.chance(1, 40) {
            changes.push(self.change());
        }
        changes
    }

    fn held_change(&mut self, number: u64) -> Change {
        let twin = |generator: &mut Self| object(number ^ u64::from(generator.prng.chance(1, 3)));
        let (object, target) = (twin(self), twin(self));
        let aligned = |bytes: u64| bytes / BLOCK * BLOCK;
        match self.prng.below(20) {
            0..=9 => {
                let data = self.data();
                let data = data.slice(..aligned(data.len() as u64) as usize);
                Change::Write { object, offset: aligned(self.offset()), data }
            }
            10..=11 => {
                let (offset, length) = (aligned(self.offset()), aligned(self.offset()));
                Change::Zero { object, offset, length }
            }
            12 => Change::Truncate { object, size: aligned(self.offset()) },
            13 => Change::Remove { object },
            14 => Change::Touch { object },
            15 => Change::SetAttrs { object, attrs: self.attrs() },
            16 => Change::RemoveAttr { object, name: self.key() },
            17 => Change::OmapClear { object },
            _ => Change::Clone { object, target },
        }
    }

    /// A split or merge of placement groups; sometimes the other half comes later.
    fn push_move(&mut self, transaction: &mut Transaction, source: Collection) {
        let target = collection(self.prng.below(COLLECTIONS));
        if !self.prng.chance(1, 8) {
            transaction.push(source, Change::CreateCollection);
            transaction.push(target, Change::CreateCollection);
        }
        let hashes = Hashes::new(self.prng.below(4) as u8, self.prng.next_u64() as u32);
        transaction.push(source, Change::MoveObjects { target, hashes });
        if self.prng.chance(1, 4) {
            transaction.push(source, Change::RemoveCollection);
            transaction.push(source, Change::CreateCollection);
        }
    }

    fn object(&mut self) -> HObject {
        object(self.prng.below(OBJECTS))
    }

    fn offset(&mut self) -> u64 {
        let limits = [100, 5000, 20_000, 70_000, self.object_size, self.object_size];
        let limit = (*self.prng.choose(&limits)).min(self.object_size);
        let offset = self.prng.below(limit);
        if self.prng.chance(1, 3) { offset / BLOCK * BLOCK } else { offset }
    }

    fn data(&mut self) -> Bytes {
        let size = self.object_size;
        let limits = [1, 50, BLOCK, BLOCK, 9000, 30_000, 70_000, 140_000, size];
        let limit = (*self.prng.choose(&limits)).min(size);
        let limit = if self.prng.chance(1, 60) { 2 * size } else { limit };
        let length = match self.prng.below(3) {
            0 => limit,
            1 => (limit / BLOCK * BLOCK).max(1),
            _ => self.prng.below(limit + 1),
        };
        let start = self.prng.below(noise().len() as u64 - length);
        noise().slice(start as usize..(start + length) as usize)
    }

    fn key(&mut self) -> Bytes {
        let length =
            if self.prng.chance(1, 8) { self.prng.below(200) } else { self.prng.range(1..4) };
        (0..length).map(|_| self.prng.below(6) as u8).collect::<Vec<u8>>().into()
    }

    fn value(&mut self, limits: &[u64]) -> Bytes {
        let limit = *self.prng.choose(limits);
        let length = self.prng.below(limit + 1);
        noise().slice(length as usize..2 * length as usize)
    }

    /// Few and small attributes, as an OSD has.
    fn attrs(&mut self) -> BTreeMap<Bytes, Bytes> {
        let count = self.prng.below(5);
        (0..count).map(|_| (self.key(), self.value(&[0, 10, 250, 250, 2000]))).collect()
    }

    fn pairs(&mut self) -> BTreeMap<Bytes, Bytes> {
        let count = *self.prng.choose(&[0, 1, 1, 5, 5, 30, 300]);
        // Large values are rare.
        let limits: &[u64] = if count < 10 { &[0, 10, 200, 5000, 40_000] } else { &[10, 200] };
        (0..count).map(|_| (self.key(), self.value(limits))).collect()
    }

    pub fn change(&mut self) -> Change {
        let object = self.object();
        match self.prng.below(40) {
            0..=13 => Change::Write { object, offset: self.offset(), data: self.data() },
            14..=16 => Change::Zero { object, offset: self.offset(), length: self.offset() },
            17..=18 => Change::Truncate { object, size: self.offset() },
            19..=20 => Change::Remove { object },
            21 => Change::Touch { object },
            22..=23 => Change::SetAttrs { object, attrs: self.attrs() },
            24 => Change::RemoveAttr { object, name: self.key() },
            25 => Change::OmapSetHeader { object, header: self.value(&[0, 10, 500, 5000]) },
            26..=29 => Change::OmapSet { object, pairs: self.pairs() },
            30..=31 => {
                let count = self.prng.below(8);
                Change::OmapRemove { object, keys: (0..count).map(|_| self.key()).collect() }
            }
            32..=33 => Change::OmapRemoveRange { object, first: self.key(), last: self.key() },
            34 => Change::OmapClear { object },
            _ => Change::Clone { object, target: self.object() },
        }
    }

    /// A random read.
    pub fn read(&mut self) -> RequestKind {
        let (collection, object) = (collection(self.prng.below(COLLECTIONS)), self.object());
        match self.prng.below(10) {
            0 => RequestKind::Meta { collection, object },
            1..=5 => {
                let (offset, length) = (self.offset(), self.offset());
                RequestKind::Read { collection, object, offset, length }
            }
            6 => RequestKind::OmapHeader { collection, object },
            7 => {
                let count = self.prng.below(5);
                let keys = (0..count).map(|_| self.key()).collect();
                RequestKind::OmapGet { collection, object, keys }
            }
            8 => RequestKind::OmapList {
                collection,
                object,
                after: self.prng.chance(1, 2).then(|| self.key()),
                prefix: if self.prng.chance(1, 2) { self.key() } else { Bytes::new() },
                entries_max: self.prng.range(1..40) as usize,
                bytes_max: self.prng.range(1..2000) as usize,
            },
            9 if self.prng.chance(1, 2) => {
                let back = self.prng.below(8);
                let version = self.version.version.saturating_sub(back);
                let version = EVersion { version, ..self.version };
                let held = HeldChange { version, hash: object.hash };
                match self.prng.chance(1, 2) {
                    true => RequestKind::ReadHeld { collection, held },
                    false => {
                        let entries_max = self.prng.below(5) as usize;
                        RequestKind::Held { collection, after: Some(held), entries_max }
                    }
                }
            }
            _ => {
                let entries_max = self.prng.range(1..5) as usize;
                RequestKind::List { collection, from: object, entries_max }
            }
        }
    }
}
