//! Random writes by a primary, with many in flight and stores and messages in any order, against a model of
//! the objects.

use crate::backend::erasure::Geometry;
use crate::core::settling;
use crate::snaps::index_key;
use crate::tests::world::{PG, World, object, request, shard};
use crate::{
    AlsoWritten, EntryKind, ErasureCode, ErasureLayout, INFO_ATTR, ObjectInfo, Write, meta_object,
};
use bytes::Bytes;
use engine::Time;
use erasure::Code;
use std::collections::{BTreeMap, BTreeSet};
use stdx::Prng;
use store::Change;
use types::{EVersion, HObject, OsdId, SnapId};

const SIZE_MAX: u64 = 90_000;
/// Nanoseconds; longer than any timer.
const LONG: u64 = 10_000_000_000;

/// Objects with their versions and content.
type Objects = BTreeMap<HObject, (EVersion, Vec<u8>)>;

pub(super) struct Trial {
    pub world: World,
    pub rng: Prng,
    geometry: Geometry,
    encoder: Encoder,
    /// All that was submitted is done.
    objects: Objects,
    /// The state after each write, by ticket.
    history: Vec<(EVersion, Objects)>,
    /// Tickets of writes that did not happen.
    dropped: BTreeSet<u64>,
    up: Vec<OsdId>,
    snaps: u64,
    now: u64,
}

fn layout(k: u8, m: u8, unit: u32) -> ErasureLayout {
    ErasureLayout { data: k, parity: m, unit, code: ErasureCode::IsaVandermonde }
}

impl Trial {
    /// An active group, with holes at these positions.
    pub fn new(seed: u64, k: u8, m: u8, unit: u32, holes: &[usize]) -> Self {
        let layout = layout(k, m, unit);
        let positions: Vec<usize> = (0..layout.shards()).collect();
        let mut world = World::of_shards(layout, &positions);
        let word = |at: &usize| if holes.contains(at) { "-".into() } else { at.to_string() };
        let up: Vec<String> = positions.iter().map(word).collect();
        world.run_script(&format!("map 2 {}\nrun", up.join(" ")));
        world.is_lazy = true;
        let encoder = Encoder::new(layout);
        let geometry = Geometry::new(&layout).unwrap();
        let osd = |at: &usize| if holes.contains(at) { OsdId::NONE } else { OsdId(*at as i32) };
        let mut trial = Trial {
            world,
            rng: Prng::new(seed),
            geometry,
            encoder,
            objects: Objects::new(),
            history: Vec::new(),
            dropped: BTreeSet::new(),
            up: positions.iter().map(osd).collect(),
            snaps: 0,
            now: 0,
        };
        assert!(trial.pg().is_active(), "{:?}", trial.pg().state());
        trial.rest();
        trial
    }

    fn pg(&mut self) -> &mut crate::Pg {
        let primary = self.world.primary();
        &mut self.world.node(primary).pg
    }

    pub fn in_flight(&self) -> usize {
        let (acknowledged, dropped) = (&self.world.acknowledged, &self.dropped);
        let is_done = |ticket: &u64| acknowledged.contains(ticket) || dropped.contains(ticket);
        (1..=self.history.len() as u64).filter(|ticket| !is_done(ticket)).count()
    }

    /// Submits a random write.
    pub fn write(&mut self) {
        let head = object(["a", "b"][self.rng.below(2) as usize]);
        let clones: Vec<HObject> = self.objects.keys().cloned().collect();
        let clones: Vec<HObject> = clones
            .into_iter()
            .filter(|one| one.name == head.name && one.snap != SnapId::HEAD)
            .collect();
        // Requests wait for objects that members miss, as in the OSD.
        let family = || clones.iter().chain([&head]);
        if family().any(|object| self.pg().is_blocked(object, true, false)) {
            return;
        }
        let pick = |rng: &mut Prng| {
            (!clones.is_empty()).then(|| clones[rng.below(clones.len() as u64) as usize].clone())
        };
        match (self.rng.below(20), pick(&mut self.rng)) {
            (0, _) if self.objects.contains_key(&head) => self.remove(head),
            (1, Some(clone)) => self.remove(clone),
            (2, Some(clone)) => self.roll_back(head, clone),
            (3 | 4, _) if self.objects.contains_key(&head) => self.change(head, true),
            _ => self.change(head, false),
        }
    }

    fn place(&mut self) -> u64 {
        let grain =
            [1, 4096, self.geometry.unit(), self.geometry.stripe()][self.rng.below(4) as usize];
        self.rng.below(SIZE_MAX) / grain * grain
    }

    fn content(&self, object: &HObject) -> Vec<u8> {
        self.objects.get(object).map(|(_, content)| content.clone()).unwrap_or_default()
    }

    fn change(&mut self, head: HObject, makes_clone: bool) {
        let (mut changes, mut also) = (Vec::new(), Vec::new());
        let mut content = self.content(&head);
        let next = self.pg().next_version();
        if makes_clone {
            self.snaps += 1;
            let clone = head.at(SnapId(self.snaps));
            changes.push(Change::Clone { object: head.clone(), target: clone.clone() });
            changes.push(info(&clone, next, content.len()));
            let key = index_key(SnapId(self.snaps), &clone);
            let pairs = BTreeMap::from([(key, Bytes::new())]);
            changes.push(Change::OmapSet { object: meta_object(PG), pairs });
            self.objects.insert(clone.clone(), (next, content.clone()));
            let prior_version = EVersion::ZERO;
            also.push(AlsoWritten { object: clone, kind: EntryKind::Modify, prior_version });
        }
        let before = content.len();
        for _ in 0..=self.rng.below(2) {
            let change = self.data_change(&head, &mut content);
            changes.push(change);
        }
        self.submit(head, changes, also, Some(content), before);
    }

    /// Writes random bytes to a head.
    fn put(&mut self, name: &str, offset: u64, length: usize) {
        let head = object(name);
        let mut content = self.content(&head);
        let (before, end) = (content.len(), offset as usize + length);
        let mut data = vec![0; length];
        self.rng.fill(&mut data);
        content.resize(before.max(end), 0);
        content[offset as usize..end].copy_from_slice(&data);
        let data = data.into();
        let changes = vec![Change::Write { object: head.clone(), offset, data }];
        self.submit(head, changes, Vec::new(), Some(content), before);
    }

    fn data_change(&mut self, head: &HObject, content: &mut Vec<u8>) -> Change {
        let (one, other) = (self.place(), self.place());
        let (offset, end) = (one.min(other), one.max(other).max(1));
        let (object, length) = (head.clone(), end - offset);
        match self.rng.below(8) {
            0 => {
                content.resize(one as usize, 0);
                Change::Truncate { object, size: one }
            }
            1 => {
                let end = content.len().min(end as usize);
                let start = end.min(offset as usize);
                content[start..end].fill(0);
                Change::Zero { object, offset, length }
            }
            _ => {
                let most = [300, 5000, 40_000][self.rng.below(3) as usize];
                let mut data = vec![0; length.min(most) as usize];
                self.rng.fill(&mut data);
                let end = offset as usize + data.len();
                content.resize(content.len().max(end), 0);
                content[offset as usize..end].copy_from_slice(&data);
                Change::Write { object, offset, data: data.into() }
            }
        }
    }

    fn remove(&mut self, object: HObject) {
        let mut changes = vec![Change::Remove { object: object.clone() }];
        if object.snap != SnapId::HEAD {
            let keys = vec![index_key(object.snap, &object)];
            changes.push(Change::OmapRemove { object: meta_object(PG), keys });
        }
        let before = self.content(&object).len();
        self.submit(object, changes, Vec::new(), None, before);
    }

    fn roll_back(&mut self, head: HObject, clone: HObject) {
        let content = self.content(&clone);
        let before = self.content(&head).len();
        let mut changes = vec![Change::Clone { object: clone, target: head.clone() }];
        let mut content = content;
        if self.rng.below(2) == 0 {
            let change = self.data_change(&head, &mut content);
            changes.push(change);
        }
        self.submit(head, changes, Vec::new(), Some(content), before);
    }

    fn submit(
        &mut self,
        object: HObject,
        mut changes: Vec<Change>,
        also: Vec<AlsoWritten>,
        content: Option<Vec<u8>>,
        before: usize,
    ) {
        let ticket = self.history.len() as u64 + 1;
        let next = self.pg().next_version();
        let version = EVersion { version: next.version + also.len() as u64, ..next };
        let mut sizes: BTreeMap<HObject, u64> = self
            .objects
            .iter()
            .filter(|(name, _)| also.iter().all(|also| also.object != **name))
            .map(|(name, (_, content))| (name.clone(), content.len() as u64))
            .collect();
        let prior_version = self.objects.get(&object).map_or(EVersion::ZERO, |(at, _)| *at);
        if self.objects.contains_key(&object) {
            sizes.insert(object.clone(), before as u64);
        }
        let kind = if content.is_some() { EntryKind::Modify } else { EntryKind::Delete };
        match content {
            Some(content) => {
                changes.push(info(&object, version, content.len()));
                self.objects.insert(object.clone(), (version, content));
            }
            None => drop(self.objects.remove(&object)),
        }
        self.history.push((version, self.objects.clone()));
        let request = request(ticket);
        let write = Write {
            ticket,
            object,
            kind,
            prior_version,
            request,
            changes,
            also,
            sizes,
            ..Write::default()
        };
        assert_eq!(self.pg().submit(write), version);
        self.world.drain();
    }

    /// Lets some things happen; whether anything did.
    pub fn step(&mut self, steps: u64) -> bool {
        (0..steps).all(|_| self.world.step_any(&mut self.rng))
    }

    /// Lets things happen until fewer writes are in flight.
    pub fn wait(&mut self, depth: usize) {
        let mut pauses = 0;
        while self.in_flight() >= depth {
            if !self.step(1) {
                pauses += 1;
                assert!(pauses < 6, "{} writes are stuck", self.in_flight());
                self.pass_time();
            }
        }
    }

    fn pass_time(&mut self) {
        self.now += LONG;
        self.world.pass_time(Time(self.now));
    }

    /// Publishes a map with this up set.
    fn publish(&mut self) {
        let word = |osd: &OsdId| if *osd == OsdId::NONE { "-".into() } else { osd.0.to_string() };
        let up: Vec<String> = self.up.iter().map(word).collect();
        let epoch = self.world.epoch + 1;
        self.world.run_script(&format!("map {epoch} {}", up.join(" ")));
    }

    /// Crashes an OSD; it is back in the next map, which is published at once.
    pub fn restart(&mut self, at: usize) {
        self.world.crash(OsdId(at as i32), false);
        self.publish();
    }

    /// Takes an OSD out of the up set, or brings it back.
    pub fn toggle(&mut self, at: usize) {
        let osd = OsdId(at as i32);
        let is_up = self.up[at] == osd;
        if is_up {
            self.world.crash(osd, false);
        }
        self.world.run_script(&format!("{} {at}", if is_up { "down" } else { "up" }));
        self.up[at] = if is_up { OsdId::NONE } else { osd };
        self.publish();
    }

    /// Runs until the group is active, and returns to the state that its log has.
    pub fn become_active(&mut self) {
        let mut rounds = 0;
        while !self.pg().is_active() {
            if !self.step(1) && !self.world.grant() {
                rounds += 1;
                assert!(rounds < 6, "the group stays {:?}", self.pg().state());
                self.pass_time();
            }
        }
        let head = self.pg().log().head();
        let kept = self.history.iter().rposition(|(version, _)| *version <= head);
        self.objects = kept.map(|at| self.history[at].1.clone()).unwrap_or_default();
        let kept = kept.map_or(0, |at| at as u64 + 1);
        for ticket in 1..=self.history.len() as u64 {
            let is_lost = ticket > kept && self.history[ticket as usize - 1].0 > head;
            let is_acknowledged = self.world.acknowledged.contains(&ticket);
            assert!(!is_lost || !is_acknowledged, "an acknowledged write is lost");
            if !is_acknowledged {
                self.dropped.insert(ticket);
            }
        }
        let (dropped, history) = (&self.dropped, &mut self.history);
        for (index, (version, objects)) in history.iter_mut().enumerate() {
            if dropped.contains(&(index as u64 + 1)) && index as u64 >= kept {
                (*version, *objects) = (head, self.objects.clone());
            }
        }
    }

    /// Publishes the map that the primary asks for; whether it did. It may begin an interval.
    pub fn grant(&mut self) -> bool {
        let is_granted = self.world.grant();
        if is_granted {
            self.become_active();
        }
        is_granted
    }

    /// Runs until all is settled and recovered.
    pub fn rest(&mut self) {
        for _ in 0..4 {
            while self.world.step_any(&mut self.rng) || self.grant() {}
            self.pass_time();
        }
        while self.world.step_any(&mut self.rng) {}
        assert_eq!(self.in_flight(), 0, "all writes are acknowledged at rest");
    }

    /// All shards are what the objects say, and nothing is held.
    pub fn check(&self) {
        let acting = self.world.nodes[self.world.primary().0 as usize].pg.members().acting.clone();
        let holes = |at: usize| acting[at] == OsdId::NONE;
        for at in (0..self.geometry.shards()).filter(|at| !holes(*at)) {
            let node = &self.world.nodes[acting[at].0 as usize];
            let collection = node.pg.collection();
            assert_eq!(node.store.held().of(collection).count(), 0, "nothing is held at rest");
            let stored: Vec<HObject> = node
                .store
                .objects(collection)
                .map(|(name, _)| name.clone())
                .filter(|name| !crate::is_meta_object(name))
                .collect();
            let expected: Vec<HObject> = self.objects.keys().cloned().collect();
            assert_eq!(stored, expected, "shard {at}");
            for (name, (version, content)) in &self.objects {
                let stored = node.store.object(collection, name).unwrap();
                let info = stored.attrs.get(&INFO_ATTR).expect("an object has an info");
                let info = codec::decode_all::<ObjectInfo>("info", info).unwrap();
                assert_eq!(info.version, *version, "{name} on shard {at}");
                let mut shard = stored.data.read(0, stored.data.size()).data.to_vec();
                let expected = &self.encoder.shards_of(content)[at];
                let bound = self.geometry.shard_len(content.len() as u64, at) as usize;
                assert!(shard.len() <= bound, "shard {at} has nothing behind the end");
                shard.resize(expected.len(), 0);
                let wrong = shard.iter().zip(expected).position(|(is, must)| is != must);
                assert_eq!(wrong, None, "shard {at} of {name}, {} bytes", content.len());
            }
        }
    }
}

/// The shards of objects with a layout.
pub(super) struct Encoder {
    geometry: Geometry,
    code: Code,
}

impl Encoder {
    pub fn new(layout: ErasureLayout) -> Self {
        let geometry = Geometry::new(&layout).unwrap();
        Encoder { geometry, code: layout.new_code().unwrap() }
    }

    /// All shards of an object, as long as the longest.
    pub fn shards_of(&self, content: &[u8]) -> Vec<Vec<u8>> {
        let size = content.len() as u64;
        let longest = self.geometry.shard_len(size, self.geometry.data()) as usize;
        let mut data = vec![Vec::new(); self.geometry.data()];
        for piece in self.geometry.pieces(0, size) {
            let range = piece.offset as usize..(piece.offset + piece.length) as usize;
            data[piece.position].extend_from_slice(&content[range]);
        }
        data.iter_mut().for_each(|shard| shard.resize(longest, 0));
        let mut parities = vec![vec![0; longest]; self.code.m()];
        let sources: Vec<&[u8]> = data.iter().map(|shard| &shard[..]).collect();
        let mut outputs: Vec<&mut [u8]> = parities.iter_mut().map(|p| &mut p[..]).collect();
        self.code.encode(&sources, &mut outputs);
        data.into_iter().chain(parities).collect()
    }
}

pub(super) fn info(object: &HObject, version: EVersion, size: usize) -> Change {
    let info = ObjectInfo { version, size: size as u64, ..ObjectInfo::default() };
    let attrs = BTreeMap::from([(INFO_ATTR, codec::encode_to_bytes(&info))]);
    Change::SetAttrs { object: object.clone(), attrs }
}

fn run(seed: u64, k: u8, m: u8, unit: u32, holes: &[usize]) {
    let mut trial = Trial::new(seed, k, m, unit, holes);
    for round in 0..6 {
        let depth = [1, 4, 32][round % 3];
        for _ in 0..25 {
            trial.write();
            trial.wait(depth);
            let steps = trial.rng.below(12);
            trial.step(steps);
        }
        trial.rest();
        trial.check();
    }
}

#[test]
fn random_writes_leave_shards_that_encode_the_objects() {
    for seed in 0..4 {
        run(seed, 2, 1, 4096, &[]);
        run(seed, 4, 2, 8192, &[]);
    }
}

#[test]
fn random_writes_with_a_hole_at_each_position_leave_shards_that_encode_the_objects() {
    for hole in 0..3 {
        run(hole as u64, 2, 1, 4096, &[hole]);
    }
    for hole in 0..6 {
        run(hole as u64, 4, 2, 4096, &[hole]);
    }
    run(9, 2, 2, 4096, &[0, 1]);
}

/// Restarts at any point, of members that take part in writes and in peering.
fn run_with_restarts(seed: u64, k: u8, m: u8, is_away: bool) {
    let mut trial = Trial::new(seed, k, m, 4096, &[]);
    let shards = u64::from(k + m);
    for _ in 0..12 {
        for _ in 0..trial.rng.below(20) {
            trial.write();
            let steps = trial.rng.below(15);
            trial.step(steps);
        }
        for _ in 0..=trial.rng.below(3) {
            let at = trial.rng.below(shards) as usize;
            match is_away && trial.up.iter().all(|osd| *osd != OsdId::NONE) {
                true => trial.toggle(at),
                false if trial.up[at] != OsdId::NONE => trial.restart(at),
                false => {}
            }
            let steps = trial.rng.below(60);
            trial.step(steps);
        }
        trial.become_active();
        if trial.rng.below(2) == 0 {
            for at in 0..shards as usize {
                if trial.up[at] == OsdId::NONE {
                    trial.toggle(at);
                }
            }
            trial.become_active();
            trial.rest();
            trial.check();
        }
    }
}

#[test]
fn restarts_at_any_point_lose_no_acknowledged_write() {
    for seed in 5..9 {
        run_with_restarts(seed, 2, 1, false);
        run_with_restarts(seed, 4, 2, false);
    }
}

#[test]
fn members_that_were_away_are_brought_up_to_date() {
    for seed in 5..9 {
        run_with_restarts(seed, 2, 1, true);
        run_with_restarts(seed, 4, 2, true);
    }
}

/// Repeating the write without that would end in the same refusal.
#[test]
fn a_parity_that_cannot_read_an_old_row_is_rebuilt_before_the_write_is_repeated() {
    let mut trial = Trial::new(1, 2, 1, 4096, &[]);
    trial.put("a", 0, 64 << 10);
    trial.rest();
    trial.world.run_script("damage 2 a");
    trial.put("a", 0, 4096);
    while trial.step(1) {}
    assert!(trial.world.refused.contains(&2), "its request is told why");
    trial.publish();
    trial.become_active();
    trial.rest();
    trial.check();
    trial.put("a", 0, 4096);
    trial.rest();
    trial.check();
    assert!(trial.world.acknowledged.contains(&3) && !trial.world.acknowledged.contains(&2));
}

/// A write of another object, whose old row is not read yet, holds up one that needs none.
#[test]
fn a_parity_that_refuses_a_write_misses_the_version_that_is_in_its_log() {
    for seed in 0..24 {
        let mut trial = Trial::new(seed, 2, 1, 4096, &[]);
        trial.put("a", 0, 64 << 10);
        trial.put("b", 0, 64 << 10);
        trial.rest();
        trial.world.run_script("damage 2 a\n damage 2 b");
        trial.put("b", 0, 4096);
        trial.put("a", 0, 8192);
        trial.put("a", 16384, 4096);
        while trial.world.nodes[2].pg.missing().is_empty() {
            assert!(trial.step(1), "an old row is read");
        }
        let pg = &trial.world.nodes[2].pg;
        let (name, item) = pg.missing().iter().next().expect("it misses an object");
        assert_eq!(item.need, pg.logged_version(name), "seed {seed}");
    }
}

/// The primary's store, or that of a member, has no space for a write.
#[test]
fn a_write_that_a_member_refuses_never_happens_and_its_request_is_told_why() {
    for at in 0..3 {
        let mut trial = Trial::new(at, 2, 1, 4096, &[]);
        trial.put("a", 0, 64 << 10);
        trial.rest();
        trial.world.run_script(&format!("commits {at} full"));
        trial.put("a", 0, 4096);
        while trial.step(1) {}
        assert!(trial.world.refused.contains(&2), "its request is told why");
        trial.publish();
        trial.become_active();
        trial.rest();
        trial.check();
        assert!(!trial.world.acknowledged.contains(&2));
    }
}

/// Members hold the copying of the clone's shards, and would copy a part of a shard that is being rebuilt.
#[test]
fn a_clone_is_not_rebuilt_while_a_rollback_to_it_is_in_flight() {
    let mut trial = Trial::new(1, 2, 1, 4096, &[]);
    trial.put("a", 0, 64 << 10);
    trial.change(object("a"), true);
    trial.rest();
    let clone = object("a").at(SnapId(1));
    let version = trial.objects[&clone].0;
    trial.roll_back(object("a"), clone.clone());
    let is_marked = trial.pg().mark_corrupt(&clone, version, &[shard(1)]);
    assert!(!is_marked, "the rollback is in flight");
    trial.rest();
    assert!(trial.pg().mark_corrupt(&clone, version, &[shard(1)]));
    trial.rest();
    trial.check();
}

/// Snapshot trimming begins when all writes of the clients that did not know of it are committed.
#[test]
fn a_write_that_waits_for_its_old_rows_is_submitted() {
    let mut trial = Trial::new(1, 2, 1, 4096, &[]);
    trial.put("a", 0, 64 << 10);
    trial.rest();
    trial.put("a", 100, 10);
    let version = trial.objects[&object("a")].0;
    assert!(trial.pg().info().last_update < version, "its old row is not read");
    assert_eq!(trial.pg().submitted(), version);
    assert!(trial.pg().committed() < version);
    trial.rest();
    assert_eq!(trial.pg().committed(), version);
}

/// A group with writes that are committed and not settled.
fn unsettled(seed: u64, writes: u64) -> Trial {
    let mut trial = Trial::new(seed, 2, 1, 4096, &[]);
    for index in 0..writes {
        trial.put("a", index * 4096, 4096);
    }
    trial.wait(1);
    trial
}

/// The settle of other writes is in its transaction, and is what the store refuses.
#[test]
fn a_write_is_not_told_why_a_settle_in_its_transaction_was_refused() {
    for at in 0..3 {
        let mut trial = unsettled(at, 40);
        trial.world.nodes[at as usize].settled_max = 8;
        trial.put("b", 0, 4096);
        while trial.step(1) {}
        assert!(!trial.pg().is_active(), "the store of {at} refuses the transaction");
        assert!(trial.world.refused.is_empty(), "the write is not the reason");
        trial.publish();
        trial.become_active();
        trial.rest();
        trial.check();
    }
}

/// First a settle of other writes is in its transaction. It is not told, and is tried again without them.
#[test]
fn a_write_that_is_refused_by_itself_is_told_why_when_it_is_repeated() {
    for at in 0..3 {
        let mut trial = unsettled(at, 8);
        trial.world.run_script(&format!("fill {at}"));
        trial.put("b", 0, 4096);
        while trial.step(1) {}
        assert!(trial.world.refused.is_empty(), "the settle may be the reason");
        trial.publish();
        trial.become_active();
        trial.put("b", 0, 4096);
        while trial.step(1) {}
        assert!(trial.world.refused.contains(&10), "the write is the reason");
    }
}

/// Too much for one transaction of a store, or for the reserve of a full one.
#[test]
fn a_member_whose_store_refuses_a_large_step_settles_in_smaller_ones() {
    for at in 0..3 {
        let mut trial = unsettled(at, 40);
        trial.world.nodes[at as usize].settled_max = 8;
        trial.pass_time();
        for _ in 0..3 {
            while trial.step(1) {}
            trial.pass_time();
            if !trial.pg().is_active() {
                trial.publish();
                trial.become_active();
            }
        }
        trial.rest();
        trial.check();
    }
}

/// If the removal is dropped, the object is missing again, and strays or former members may have its shards.
#[test]
fn a_group_is_not_clean_before_the_removal_of_a_missing_object_is_committed() {
    let mut trial = Trial::new(1, 2, 1, 4096, &[]);
    trial.put("a", 0, 64 << 10);
    trial.rest();
    trial.world.run_script("hold\nclean => yes");
    let version = trial.objects[&object("a")].0;
    assert!(trial.pg().mark_corrupt(&object("a"), version, &[shard(1)]));
    trial.remove(object("a"));
    while trial.in_flight() > 0 {
        assert!(!trial.pg().is_clean(), "the removal is not committed");
        assert!(trial.step(1));
    }
    trial.rest();
    trial.world.run_script("clean => yes");
    trial.check();
}

/// Infos of the peering tell of objects that members miss no more. Nothing looks again when a write is
/// settled.
#[test]
fn a_group_whose_members_are_recovered_before_a_write_is_settled_is_clean() {
    let mut trial = Trial::new(1, 2, 1, 4096, &[]);
    trial.world.run_script("hold");
    for (away, name) in [(1, "a"), (2, "b")] {
        trial.toggle(away);
        trial.become_active();
        trial.put(name, 0, 4096);
        trial.wait(1);
        trial.toggle(away);
        trial.become_active();
    }
    trial.restart(0);
    trial.become_active();
    trial.put("c", 0, 4096);
    trial.wait(1);
    trial.world.run_script("clean => no\nrecover");
    while trial.step(1) {}
    trial.rest();
    trial.world.run_script("clean => yes");
    trial.check();
}

/// A reader would see that the clone is settled, and not find it.
#[test]
fn a_step_of_settling_does_not_end_between_the_entries_of_a_write() {
    let mut trial = Trial::new(1, 2, 1, 4096, &[]);
    for _ in 0..63 {
        trial.put("a", 0, 4096);
    }
    trial.change(object("a"), true);
    trial.put("a", 0, 4096);
    let core = &trial.pg().core;
    let after = core.copy.info.settled();
    let versions: Vec<EVersion> = core.copy.log.above(after).map(|entry| entry.version).collect();
    assert_eq!(versions.len(), 66);
    assert_eq!(settling::step_before(core, versions[65]), Some(versions[64]));
}
