//! Random writes, planned and applied to shards in memory, against objects in plain vectors.

use super::cell::zero_row;
use super::geometry::{Geometry, ROW};
use super::plan::{Plan, Reach, RowRead, ShardOp};
use crate::{ErasureCode, ErasureLayout};
use bytes::Bytes;
use erasure::{Code, Shards, Technique};
use std::collections::BTreeMap;
use stdx::Prng;
use store::Change;
use types::{HObject, SnapId};

/// The shards of one object, by position.
type Stored = Vec<Vec<u8>>;

struct World {
    geometry: Geometry,
    code: Code,
    /// As clients wrote them.
    objects: BTreeMap<HObject, Vec<u8>>,
    stored: BTreeMap<HObject, Stored>,
    /// Rows that were read for writes.
    reads: usize,
}

impl World {
    fn new(k: u8, m: u8, unit: u32) -> Self {
        let code = ErasureCode::IsaVandermonde;
        let layout = ErasureLayout { data: k, parity: m, unit, code };
        let code = Code::new(Technique::IsaVandermonde, k.into(), m.into()).unwrap();
        let geometry = Geometry::new(&layout).unwrap();
        World { geometry, code, objects: BTreeMap::new(), stored: BTreeMap::new(), reads: 0 }
    }

    /// Plans and applies a write by the primary that has shard `own`, with these shards missing.
    fn write(&mut self, own: usize, missing: Shards, changes: Vec<Change>) {
        let all = Shards::first(self.geometry.shards());
        let reach = Reach { own, readable: all.without(missing), written: all };
        let sizes = self.objects.clone();
        let size_of = |object: &HObject| Some(sizes.get(object)?.len() as u64);
        for change in &changes {
            self.expect(change);
        }
        let plan = Plan::new(self.geometry, reach, changes, size_of);
        let old = plan.needs().iter().map(|read| (read.clone(), self.row(read))).collect();
        self.reads += plan.needs().len();
        for (position, ops) in plan.finish(&self.code, &old).into_iter().enumerate() {
            ops.into_iter().for_each(|op| self.apply(position, op));
        }
        self.check();
    }

    fn row(&self, read: &RowRead) -> Bytes {
        let shard = self.stored.get(&read.object).map(|shards| &shards[read.position][..]);
        let mut row = shard.unwrap_or_default().to_vec();
        row.drain(..row.len().min((read.row * ROW) as usize));
        row.resize(row.len().max(ROW as usize), 0);
        row.truncate(ROW as usize);
        row.into()
    }

    /// The effect on the object as a client sees it.
    fn expect(&mut self, change: &Change) {
        match change {
            Change::Write { object, offset, data } => {
                let content = self.objects.entry(object.clone()).or_default();
                let (start, end) = (*offset as usize, *offset as usize + data.len());
                content.resize(content.len().max(end), 0);
                content[start..end].copy_from_slice(data);
            }
            Change::Zero { object, offset, length } => {
                let content = self.objects.entry(object.clone()).or_default();
                let end = content.len().min((offset + length) as usize);
                let start = end.min(*offset as usize);
                content[start..end].fill(0);
            }
            Change::Truncate { object, size } => {
                self.objects.entry(object.clone()).or_default().resize(*size as usize, 0);
            }
            Change::Remove { object } => drop(self.objects.remove(object)),
            Change::Clone { object, target } => {
                let content = self.objects.get(object).cloned().unwrap_or_default();
                self.objects.insert(target.clone(), content);
            }
            other => panic!("{other:?}"),
        }
    }

    fn shard_mut(&mut self, position: usize, object: HObject) -> &mut Vec<u8> {
        let shards = self.geometry.shards();
        &mut self.stored.entry(object).or_insert_with(|| vec![Vec::new(); shards])[position]
    }

    fn apply(&mut self, position: usize, op: ShardOp) {
        let overwrite = |shard: &mut Vec<u8>, at: u64, data: &[u8]| {
            let (start, end) = (at as usize, at as usize + data.len());
            shard.resize(shard.len().max(end), 0);
            shard[start..end].copy_from_slice(data);
        };
        match op {
            ShardOp::Store(Change::Write { object, offset, data }) => {
                assert!(offset.is_multiple_of(ROW) && data.len().is_multiple_of(ROW as usize));
                overwrite(self.shard_mut(position, object), offset, &data);
            }
            ShardOp::Store(Change::Zero { object, offset, length }) => {
                let shard = self.shard_mut(position, object);
                let end = shard.len().min((offset + length) as usize);
                shard[end.min(offset as usize)..end].fill(0);
            }
            ShardOp::Store(Change::Truncate { object, size }) => {
                self.shard_mut(position, object).resize(size as usize, 0);
            }
            ShardOp::Store(Change::Touch { object }) => drop(self.shard_mut(position, object)),
            ShardOp::Store(Change::Remove { object }) => self.shard_mut(position, object).clear(),
            ShardOp::Store(Change::Clone { object, target }) => {
                let content = self.shard_mut(position, object).clone();
                *self.shard_mut(position, target) = content;
            }
            ShardOp::Store(other) => panic!("{other:?}"),
            ShardOp::Xor { object, row, data } => {
                assert!(position >= self.geometry.data(), "data is written, parity is added to");
                let shard = self.shard_mut(position, object);
                let mut sum = data.to_vec();
                let start = (row * ROW) as usize;
                sum.iter_mut()
                    .zip(shard.get(start..).unwrap_or_default())
                    .for_each(|(sum, old)| *sum ^= old);
                overwrite(shard, row * ROW, &sum);
            }
        }
    }

    /// All shards are what the objects say, and no longer than that.
    fn check(&self) {
        for (object, content) in &self.objects {
            let nothing = vec![Vec::new(); self.geometry.shards()];
            let stored = self.stored.get(object).unwrap_or(&nothing);
            let mut expected = vec![Vec::new(); self.geometry.data()];
            for piece in self.geometry.pieces(0, content.len() as u64) {
                let range = piece.offset as usize..(piece.offset + piece.length) as usize;
                expected[piece.position].extend_from_slice(&content[range]);
            }
            let size = content.len() as u64;
            let longest = self.geometry.shard_len(size, self.geometry.data()) as usize;
            expected.iter_mut().for_each(|shard| shard.resize(longest, 0));
            let mut parities = vec![vec![0; longest]; self.code.m()];
            let data: Vec<&[u8]> = expected.iter().map(|shard| &shard[..]).collect();
            let mut outputs: Vec<&mut [u8]> = parities.iter_mut().map(|p| &mut p[..]).collect();
            self.code.encode(&data, &mut outputs);
            for (position, expected) in expected.iter().chain(&parities).enumerate() {
                let mut shard = stored[position].clone();
                let bound = self.geometry.shard_len(size, position) as usize;
                assert!(shard.len() <= bound, "{} > {bound} in {position}", shard.len());
                shard.resize(longest, 0);
                assert!(shard == *expected, "shard {position} of {} bytes", content.len());
            }
        }
    }
}

fn head() -> HObject {
    HObject { snap: SnapId::HEAD, ..HObject::hash_start(types::PoolId(1), 7) }
}

fn data(rng: &mut Prng, length: u64) -> Bytes {
    let mut data = vec![0; length as usize];
    rng.fill(&mut data);
    data.into()
}

/// A random change; ranges begin and end at rows, chunks and stripes as often as anywhere else.
fn change(rng: &mut Prng, world: &World, bound: u64, clone: &HObject) -> Change {
    let place = |rng: &mut Prng| {
        let grain = [1, ROW, world.geometry.unit(), world.geometry.stripe()][rng.below(4) as usize];
        rng.below(bound) / grain * grain
    };
    let (one, other) = (place(rng), place(rng));
    let (offset, end) = (one.min(other), one.max(other).max(1));
    let object = head();
    match rng.below(12) {
        0 => Change::Truncate { object, size: one },
        1 | 2 => Change::Zero { object, offset, length: end - offset },
        3 => Change::Remove { object },
        4 => Change::Clone { object: clone.clone(), target: object },
        _ => Change::Write { object, offset, data: data(rng, (end - offset).min(70_000)) },
    }
}

#[test]
fn random_writes_leave_shards_that_encode_the_object() {
    let mut rng = Prng::new(11);
    for (k, m, unit) in [(2, 1, 4096), (2, 2, 8192), (3, 2, 4096), (4, 2, 16384), (8, 3, 4096)] {
        for _ in 0..4 {
            let mut world = World::new(k, m, unit);
            for _ in 0..15 {
                let bound = [9_000, 60_000, 400_000][rng.below(3) as usize];
                let mut changes = Vec::new();
                // A request never rolls back to the clone that it makes.
                let (made, other) = [(4, 5), (5, 4)][rng.below(2) as usize];
                let [made, other] = [made, other].map(|snap| head().at(SnapId(snap)));
                if rng.below(6) == 0 {
                    changes.push(Change::Clone { object: head(), target: made });
                }
                let mut next = || change(&mut rng, &world, bound, &other);
                (0..4).for_each(|_| changes.push(next()));
                let own = rng.below(u64::from(k + m)) as usize;
                let missing = match rng.below(3) {
                    0 => [rng.below(u64::from(k + m)) as usize].into_iter().collect(),
                    _ => Shards::default(),
                };
                world.write(own, missing, changes);
            }
        }
    }
}

/// On 2+1 an overwrite needs nothing but the primary's own shard.
#[test]
fn overwrites_on_two_data_shards_read_only_the_primarys_own_shard() {
    let mut world = World::new(2, 1, 4096);
    let mut rng = Prng::new(5);
    let write = |offset, data| vec![Change::Write { object: head(), offset, data }];
    world.write(0, Shards::default(), write(0, data(&mut rng, 64 << 10)));
    assert_eq!(world.reads, 0, "whole stripes are encoded");
    for row in 0..16u64 {
        let sizes = world.objects.clone();
        let all = Shards::first(3);
        let reach = Reach { own: 0, readable: all, written: all };
        let changes = write(row * ROW, data(&mut rng, ROW));
        let size_of = |object: &HObject| Some(sizes.get(object)?.len() as u64);
        let plan = Plan::new(world.geometry, reach, changes.clone(), size_of);
        let [read] = plan.needs() else { panic!("one row: {:?}", plan.needs()) };
        assert_eq!(read.position, 0);
        world.write(0, Shards::default(), changes);
    }
    let before = world.reads;
    world.write(0, Shards::default(), write(64 << 10, data(&mut rng, 100)));
    world.write(0, Shards::default(), write((64 << 10) + ROW, data(&mut rng, ROW)));
    assert_eq!(world.reads, before, "an append adds to the parity that exists");
    assert_ne!(zero_row(), world.row(&RowRead { object: head(), position: 0, row: 8 }));
}
