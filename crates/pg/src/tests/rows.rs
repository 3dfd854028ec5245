//! Groups of real codes whose objects are stored as shards: reads, recovery, backfill and scrub of them.

mod reads;
mod recovery;
mod scrub;

use super::World;
use super::world::{object, shard};
use crate::backend::erasure::geometry::{Geometry, ROW};
use crate::core::Output;
use crate::message::Replicate;
use crate::*;
use bytes::Bytes;
use erasure::Code;
use std::collections::{BTreeMap, VecDeque};
use stdx::Prng;
use store::{Change, RequestKind, Transaction};
use types::{EVersion, HObject, OsdId, ShardId};

/// A group whose OSD of a number has the shard of that number.
pub struct Group {
    pub world: World,
    pub code: Code,
    pub geometry: Geometry,
    tickets: u64,
}

/// The codes that are tested.
pub const CODES: [(u8, u8); 2] = [(2, 1), (4, 2)];

impl Group {
    /// All members are up, and the group is active.
    pub fn new((data, parity): (u8, u8)) -> Self {
        let positions: Vec<usize> = (0..usize::from(data + parity)).collect();
        Group::of((data, parity), &positions)
    }

    /// The OSDs can have only the shards of these positions; the first ones are the members.
    pub fn of((data, parity): (u8, u8), positions: &[usize]) -> Self {
        let code = ErasureCode::IsaVandermonde;
        let layout = ErasureLayout { data, parity, unit: 4096, code };
        let mut world = World::of_shards(layout, positions);
        let members = 0..usize::from(data + parity);
        let osds: Vec<String> = members.map(|osd| osd.to_string()).collect();
        world.run_script(&format!("map 20 {}\n run", osds.join(" ")));
        let code = layout.new_code().unwrap();
        let geometry = Geometry::new(&layout).unwrap();
        let group = Group { world, code, geometry, tickets: 0 };
        assert!(group.world.nodes[0].pg.is_active());
        group
    }

    /// Content of an object with this size.
    pub fn content(seed: u64, size: usize) -> Vec<u8> {
        let mut rng = Prng::new(seed);
        (0..size).map(|_| rng.below(256) as u8).collect()
    }

    /// The shards of an object with this content.
    pub fn shards(&self, content: &[u8]) -> Vec<Vec<u8>> {
        let size = content.len() as u64;
        let longest = self.geometry.shard_len(size, self.code.k()) as usize;
        let mut shards = vec![vec![0; longest]; self.code.shards()];
        for piece in self.geometry.pieces(0, size) {
            let (at, from, len) = (piece.at as usize, piece.offset as usize, piece.length as usize);
            shards[piece.position][at..at + len].copy_from_slice(&content[from..from + len]);
        }
        let (data, parities) = shards.split_at_mut(self.code.k());
        let data: Vec<&[u8]> = data.iter().map(|shard| &shard[..]).collect();
        let mut parities: Vec<&mut [u8]> = parities.iter_mut().map(|p| &mut p[..]).collect();
        self.code.encode(&data, &mut parities);
        for (position, shard) in shards.iter_mut().enumerate() {
            shard.truncate(self.geometry.shard_len(size, position) as usize);
        }
        shards
    }

    /// The changes that give a member its shard.
    fn changes(&self, name: &HObject, size: u64, version: EVersion, shard: Vec<u8>) -> Vec<Change> {
        let info = ObjectInfo { version, size, ..ObjectInfo::default() };
        let attrs = BTreeMap::from([
            (INFO_ATTR, codec::encode_to_bytes(&info)),
            (user_attr(b"colour"), Bytes::from_static(b"red")),
        ]);
        let object = || name.clone();
        vec![
            Change::Remove { object: object() },
            Change::Touch { object: object() },
            Change::SetAttrs { object: object(), attrs },
            Change::Truncate { object: object(), size: shard.len() as u64 },
            Change::Write { object: object(), offset: 0, data: shard.into() },
        ]
    }

    /// Stores an object on the members that are up, as a write that is settled on all of them. Returns its
    /// version.
    pub fn put(&mut self, name: &str, content: &[u8]) -> EVersion {
        let name = object(name);
        let primary = self.world.primary();
        let pg = &self.world.node(primary).pg;
        let (version, prior_version) = (pg.next_version(), pg.logged_version(&name));
        let entry =
            LogEntry { version, prior_version, object: name.clone(), ..LogEntry::default() };
        let shards = self.shards(content);
        for (position, shard) in shards.into_iter().enumerate() {
            let changes = self.changes(&name, content.len() as u64, version, shard);
            let node = &mut self.world.nodes[position];
            if !node.pg.is_serving() {
                continue;
            }
            let core = &mut node.pg.core;
            let info = &mut core.copy.info;
            (info.last_update, info.last_complete) = (version, version);
            info.shard.as_mut().unwrap().settled = version;
            core.copy.committed = version;
            let mut write = Replicate {
                entry: codec::encode_to_bytes(&entry),
                info: codec::encode_to_bytes(&core.copy.info),
                also: Vec::new(),
                committed: version,
                trim: EVersion::ZERO,
                transaction: Transaction::new(),
                deltas: Vec::new(),
            };
            let collection = core.own.collection;
            changes.into_iter().for_each(|change| write.transaction.push(collection, change));
            core.append_entries(&mut write, entry.clone(), Vec::new());
            node.ask_store(RequestKind::Commit(write.transaction)).unwrap();
        }
        version
    }

    /// A group with an object, of which the member at this position has gone back to the version before; its
    /// content and version.
    pub fn with_stale(code: (u8, u8), position: usize) -> (Self, Vec<u8>, EVersion) {
        let mut group = Group::new(code);
        let old = Group::content(4, 50_000);
        let stale = group.shards(&old)[position].clone();
        let before = group.put("a", &old);
        let content = Group::content(5, 50_000);
        let version = group.put("a", &content);
        let changes = group.changes(&object("a"), 50_000, before, stale);
        let node = &mut group.world.nodes[position];
        let collection = node.pg.collection();
        let changes = changes.into_iter().map(|change| (collection, change)).collect();
        node.ask_store(RequestKind::Commit(Transaction { changes })).unwrap();
        (group, content, version)
    }

    /// The bytes that a client reads.
    pub fn read(&mut self, name: &str, range: (u64, u64)) -> Result<Bytes, ReadError> {
        let ticket = self.begin_read(name, range);
        self.end_read(ticket)
    }

    /// Begins a read; returns its ticket.
    pub fn begin_read(&mut self, name: &str, (offset, length): (u64, u64)) -> u64 {
        let (object, primary) = (object(name), self.world.primary());
        self.tickets += 1;
        let ticket = self.tickets;
        let node = self.world.node(primary);
        let stored = node.store.object(node.pg.collection(), &object).expect("it is here");
        let info: ObjectInfo = codec::decode_all("info", &stored.attrs[&INFO_ATTR]).unwrap();
        let ObjectInfo { version, size, .. } = info;
        node.pg.read_shards(Read { ticket, object, version, size, offset, length });
        ticket
    }

    /// Runs the group until it is quiet; returns the outcome of a read.
    pub fn end_read(&mut self, ticket: u64) -> Result<Bytes, ReadError> {
        self.world.run();
        self.world.reads.remove(&ticket).expect("the read has ended")
    }

    /// Runs the group while the stores of some nodes answer nothing; whether one of them has an answer.
    pub fn run_without(&mut self, nodes: &[usize]) -> bool {
        let mut held = vec![VecDeque::new(); nodes.len()];
        loop {
            self.world.drain();
            for (held, node) in held.iter_mut().zip(nodes) {
                held.append(&mut self.world.nodes[*node].completions);
            }
            if !self.world.step(true) && !self.world.grant() {
                break;
            }
        }
        let has_held = held.iter().any(|held| !held.is_empty());
        for (held, node) in held.into_iter().zip(nodes) {
            self.world.nodes[*node].completions = held;
        }
        has_held
    }

    /// The bytes of a member's shard, and the version that is stored with it; `None` if it is not there.
    pub fn shard(&self, position: usize, name: &str) -> Option<(Bytes, EVersion)> {
        let node = &self.world.nodes[position];
        let stored = node.store.object(node.pg.collection(), &object(name))?;
        let info = stored.attrs.get(&INFO_ATTR)?;
        let info: ObjectInfo = codec::decode_all("info", info).unwrap();
        Some((stored.data.read(0, stored.data.size()).data, info.version))
    }

    /// Panics unless each member has its shard of an object, in this version, and nothing is missing.
    pub fn assert_whole(&self, name: &str, content: &[u8], version: EVersion) {
        for (position, shard) in self.shards(content).into_iter().enumerate() {
            let stored = self.shard(position, name);
            assert_eq!(stored, Some((shard.into(), version)), "shard {position} of {name}");
            assert!(self.world.nodes[position].pg.missing().is_empty(), "{position}");
        }
        let primary = &self.world.nodes[self.world.primary().0 as usize].pg;
        assert!(primary.is_whole(), "nothing is missing");
    }

    /// All sets of at most `max` positions.
    pub fn sets(&self, max: usize) -> Vec<Vec<usize>> {
        let all = self.code.shards();
        let set = |bits: u32| (0..all).filter(|at| bits >> at & 1 == 1).collect::<Vec<_>>();
        (0..1 << all).map(set).filter(|set| set.len() <= max).collect()
    }
}

/// Sizes with all kinds of ends: none, within a row, whole rows, whole stripes, several pieces.
pub fn sizes(geometry: Geometry) -> Vec<usize> {
    let stripe = geometry.stripe() as usize;
    vec![0, 1, ROW as usize, ROW as usize + 5, stripe, 3 * stripe + 4097, 5 * stripe - 1]
}
