//! OSDs with one group, a monitor that grants the primaries' requests, and the script that drives them.

mod node;
mod script;

pub use node::Node;

use crate::message::{Body, Header};
use crate::*;
use bytes::Bytes;
use engine::{Message, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use store::mem::MemStore;
use store::{Change, RequestKind};
use types::{
    EVersion, EntityType, Epoch, HObject, OsdId, ParticipantName, PgId, PgShard, PoolId, RequestId,
    ShardId,
};

pub const PG: PgId = PgId { pool: PoolId(1), seed: 0 };
/// Hashes of names are multiples of 256; names with an odd sum of bytes have the ninth bit set.
pub const HASH_BITS: u8 = 8;
/// Objects in recovery at the same time, for each OSD.
const RECOVERING_MAX: usize = 2;
const STEPS_MAX: usize = 1_000_000;

/// A choice of [`World::step_any`].
enum Choice {
    Message((OsdId, OsdId)),
    Request(usize, usize),
}

pub struct World {
    pub nodes: Vec<Node>,
    pub messages: VecDeque<(OsdId, OsdId, Message)>,
    pub epoch: u32,
    up: Vec<OsdId>,
    temporary: Vec<OsdId>,
    pub layout: Layout,
    size: usize,
    pub min_size: usize,
    pub hash_bits: u8,
    confirmed: usize,
    /// Reads of shards that have ended, by ticket.
    pub reads: BTreeMap<u64, Result<Bytes, ReadError>>,
    tickets: u64,
    may_recover: bool,
    now: Time,
    maps: BTreeMap<u32, (MapChange, Members)>,
    /// Maps before the next one are not available.
    is_gap: bool,
    /// Whether stores execute requests only in [`World::step_any`]: a read may come before commits that were
    /// submitted before it.
    pub is_lazy: bool,
    /// Tickets of writes that were acknowledged.
    pub acknowledged: BTreeSet<u64>,
    /// Tickets of writes that were refused.
    pub refused: BTreeSet<u64>,
}

/// The shard of a position on the OSD of the same number.
pub fn shard(position: usize) -> Member {
    Member { osd: OsdId(position as i32), shard: ShardId::at(position).expect("there are few") }
}

pub fn object(name: &str) -> HObject {
    let name = Bytes::copy_from_slice(name.as_bytes());
    let hash = name.iter().map(|byte| u32::from(*byte)).sum::<u32>() << 8;
    HObject::head(PG.pool, Bytes::new(), Bytes::new(), name, hash)
}

/// The request id of the write with this number, from 1 on.
pub fn request(tid: u64) -> RequestId {
    let name = ParticipantName::new(EntityType::CLIENT, 1);
    RequestId { name, tid, incarnation: 0 }
}

fn ids(words: &[&str]) -> Vec<OsdId> {
    let id = |word: &str| if word == "-" { OsdId::NONE } else { OsdId(word.parse().unwrap()) };
    words.iter().map(|word| id(word)).collect()
}

fn text(osds: impl Iterator<Item = OsdId>) -> String {
    let word = |osd: OsdId| if osd == OsdId::NONE { "-".to_owned() } else { osd.0.to_string() };
    osds.map(word).collect::<Vec<_>>().join(" ")
}

impl World {
    pub fn new(nodes: i32) -> Self {
        World::of((0..nodes).map(|id| Node::new(id, ShardId::NONE)).collect())
    }

    /// A group with this layout. The OSDs can have only the shards of these positions.
    pub fn of_shards(layout: ErasureLayout, positions: &[usize]) -> Self {
        let node = |(id, at): (i32, &usize)| Node::new(id, ShardId::at(*at).unwrap());
        let mut world = World::of((0..).zip(positions).map(node).collect());
        world.layout = Layout::Erasure(layout);
        world.size = layout.shards();
        world.min_size = layout.enough();
        world
    }

    fn of(nodes: Vec<Node>) -> Self {
        World {
            nodes,
            messages: VecDeque::new(),
            epoch: 1,
            up: Vec::new(),
            temporary: Vec::new(),
            layout: Layout::Replicated,
            size: 3,
            min_size: 2,
            hash_bits: HASH_BITS,
            confirmed: 0,
            reads: BTreeMap::new(),
            tickets: 0,
            may_recover: true,
            now: Time::ZERO,
            is_gap: false,
            is_lazy: false,
            acknowledged: BTreeSet::new(),
            refused: BTreeSet::new(),
            maps: BTreeMap::new(),
        }
    }

    pub fn node(&mut self, osd: OsdId) -> &mut Node {
        &mut self.nodes[osd.0 as usize]
    }

    /// Runs until the OSD's missing set is not empty.
    pub fn step_until_missing(&mut self, osd: OsdId) {
        while self.node(osd).pg.missing().is_empty() {
            assert!(self.step(true), "osd.{} misses nothing", osd.0);
        }
    }

    /// Removes an object from a store behind the copy's back.
    pub fn lose(&mut self, osd: OsdId, name: &str) {
        let change = Change::Remove { object: object(name) };
        let changes = vec![(self.node(osd).pg.collection(), change)];
        self.node(osd).ask_store(RequestKind::Commit(store::Transaction { changes })).unwrap();
    }

    pub fn pass_time(&mut self, now: Time) {
        self.now = now;
        for node in &mut self.nodes {
            node.pg.set_time(now, node.granted_until);
            if node.waits_until.is_some_and(|until| until <= now) {
                node.waits_until = None;
                node.pg.time_passed();
            }
        }
        self.drain();
    }

    fn acting(&self) -> Vec<OsdId> {
        let is_up =
            |osd: &OsdId| self.nodes.get(osd.0 as usize).is_some_and(|node| node.status.is_up);
        let mut temporary = self.temporary.clone();
        match self.layout {
            Layout::Replicated => temporary.retain(is_up),
            Layout::Erasure(_) => {
                temporary.iter_mut().filter(|osd| !is_up(osd)).for_each(|osd| *osd = OsdId::NONE);
            }
        }
        let is_empty = temporary.iter().all(|osd| *osd == OsdId::NONE);
        if is_empty { self.up.clone() } else { temporary }
    }

    pub fn primary(&self) -> OsdId {
        self.find_primary().expect("the group has a primary")
    }

    pub fn find_primary(&self) -> Option<OsdId> {
        self.acting().into_iter().find(|osd| *osd != OsdId::NONE)
    }

    fn publish(&mut self) {
        let acting = self.acting();
        let node = |osd: &OsdId| self.nodes.get(osd.0 as usize);
        let up_from = |osd| node(osd).map_or(Epoch(0), |node| node.status.up_from);
        let up_from = acting.iter().map(up_from).collect();
        let members = Members {
            up: self.up.clone(),
            primary: self.find_primary(),
            acting,
            up_from,
            size: self.size,
            min_size: self.min_size,
            hash_bits: self.hash_bits,
            layout: self.layout,
        };
        let statuses = self.nodes.iter().map(|node| node.status);
        let osds: Osds = (0..).map(OsdId).zip(statuses).collect();
        let change = MapChange {
            epoch: Epoch(self.epoch),
            osds: Arc::new(osds),
            is_up: true,
            is_gap: self.is_gap,
            is_new: self.maps.is_empty(),
        };
        self.maps.insert(self.epoch, (change, members));
        for node in self.nodes.iter_mut().filter(|node| node.status.is_up) {
            node.is_starting = false;
            node.pg.set_time(self.now, node.granted_until);
            node.catch_up(&self.maps);
        }
        self.drain();
    }

    /// Publishes a map with what primaries ask for; false if they ask for nothing.
    pub fn grant(&mut self) -> bool {
        let is_running = |node: &&mut Node| node.status.is_up && !node.is_starting;
        let mut changed = false;
        let primary = self.find_primary();
        for node in self.nodes.iter_mut().filter(is_running) {
            if let Some(epoch) = node.pg.wanted_up_thru() {
                changed |= node.status.up_thru < epoch;
                node.status.up_thru = epoch;
            }
            if Some(node.pg.members().primary) == Some(primary)
                && node.pg.is_primary()
                && let Some(wanted) = node.pg.wanted_acting()
                && *wanted != self.temporary
            {
                self.temporary = wanted.to_vec();
                changed = true;
            }
        }
        if changed {
            self.epoch += 1;
            self.publish();
        }
        changed
    }

    pub fn write(&mut self, name: &str, value: Option<&str>) {
        let object = object(name);
        let write = |value: &str| Change::Write {
            object: object.clone(),
            offset: 0,
            data: Bytes::copy_from_slice(value.as_bytes()),
        };
        self.change(&object, value.map(|value| vec![write(value)]));
    }

    /// Writes the object with these changes at the primary, or removes it.
    pub fn change(&mut self, object: &HObject, changes: Option<Vec<Change>>) {
        let primary = self.primary();
        let object = object.clone();
        let prior_version = self.node(primary).version(&object);
        let pg = &mut self.node(primary).pg;
        let info = ObjectInfo { version: pg.next_version(), ..ObjectInfo::default() };
        let attrs = BTreeMap::from([(INFO_ATTR, codec::encode_to_bytes(&info))]);
        let kind = if changes.is_some() { EntryKind::Modify } else { EntryKind::Delete };
        let set_info = Change::SetAttrs { object: object.clone(), attrs };
        let changes = match changes {
            Some(changes) => changes.into_iter().chain([set_info]).collect(),
            None => vec![Change::Remove { object: object.clone() }],
        };
        self.tickets += 1;
        let ticket = self.tickets;
        let request = request(ticket);
        let write =
            Write { ticket, object, kind, prior_version, request, changes, ..Write::default() };
        self.node(primary).pg.submit(write);
        self.drain();
    }

    /// Drops maps that OSDs may not have got: they are not available any more.
    pub fn forget_maps(&mut self, epochs: std::ops::RangeInclusive<u32>) {
        self.maps.retain(|epoch, _| !epochs.contains(epoch));
    }

    pub fn drain(&mut self) {
        for index in 0..self.nodes.len() {
            while let Some(output) = self.nodes[index].pg.poll_output() {
                self.carry_out(index, output);
            }
            let node = &mut self.nodes[index];
            while self.may_recover
                && node.pg.wants_recovery()
                && node.pg.recovering() < RECOVERING_MAX
            {
                node.pg.recover_next();
            }
            if !node.pg.core.outputs.is_empty() {
                return self.drain();
            }
            node.store_map();
        }
    }

    fn carry_out(&mut self, index: usize, output: Output) {
        let node = &mut self.nodes[index];
        match output {
            Output::Send { to, message } => {
                self.messages.push_back((OsdId(index as i32), to, message));
            }
            Output::Storage { tag, kind } if self.is_lazy => node.requests.push_back((tag, kind)),
            Output::Storage { tag, kind } => {
                let outcome = node.ask_store(kind);
                node.completions.push_back((tag, outcome));
            }
            Output::Refused { ticket, .. } => drop(self.refused.insert(ticket)),
            Output::Committed { ticket } => {
                self.confirmed += 1;
                self.acknowledged.insert(ticket);
            }
            Output::Read { ticket, outcome } => drop(self.reads.insert(ticket, outcome)),
            Output::WaitUntil(until) => node.waits_until = Some(until),
            Output::Removed => {
                let sizes = node.pg.core.own.sizes;
                node.pg = Pg::new(node.pg.pg_shard(), OsdId(index as i32)).with_sizes(sizes);
                if self.layout != Layout::Replicated {
                    // The OSD forgets the group, and finds it in its map when it is asked.
                    node.seen = self.epoch - 1;
                    node.catch_up(&self.maps);
                }
            }
            Output::Reserve(primary) if !node.may_fill => node.pg.reserved(primary, false),
            Output::Reserve(_) if node.has_place => {} // waits for ever
            Output::Reserve(primary) => {
                node.has_place = true;
                node.pg.reserved(primary, true);
            }
            Output::Release => node.has_place = false,
            Output::Quiesced => node.split_or_merge(),
            Output::SplitMerged => node.finish_split_merge(),
            Output::SplitMergeFailed
            | Output::Interrupted { .. }
            | Output::Activated
            | Output::Clean
            | Output::Recovered { .. }
            | Output::Settled
            | Output::WantsMap
            | Output::WantsInterval => {}
        }
    }

    fn run_until(&mut self, osd: OsdId, state: &str) {
        while format!("{:?}", self.node(osd).pg.state()) != state {
            assert!(self.step(true) || self.grant(), "{state} is never reached");
        }
        self.messages.clear();
    }

    pub fn run(&mut self) {
        for _ in 0..STEPS_MAX {
            if !self.step(true) && !self.grant() {
                return;
            }
        }
        panic!("the group does not become quiet");
    }

    /// Delivers one message or completion; false if there is none.
    pub fn step(&mut self, with_commits: bool) -> bool {
        self.drain();
        if let Some((from, to, message)) = self.messages.pop_front() {
            let (header, body) = Body::decode(&message).unwrap();
            let epoch = self.epoch;
            let node = self.node(to);
            if header.to != node.pg.whoami().shard && body == Body::Query {
                let header = Header { to: header.from, from: header.to, ..header };
                self.messages.push_back((to, from, Body::Info(None).encode(&header)));
            } else if node.status.is_up && !node.is_starting && header.epoch.0 <= epoch {
                node.pg.handle_message(from, &header, body);
            }
            return true;
        }
        let ready = |node: &Node| {
            let next =
                node.completions.iter().position(|(tag, _)| with_commits || !tag.is_commit());
            next.filter(|_| node.status.is_up)
        };
        let mut nodes = self.nodes.iter().enumerate();
        let Some((index, at)) = nodes.find_map(|(index, node)| Some((index, ready(node)?))) else {
            return false;
        };
        let (tag, outcome) = self.nodes[index].completions.remove(at).unwrap();
        self.nodes[index].pg.handle_completion(tag, outcome);
        true
    }

    /// Executes any request to a lazy store, or delivers any message, so that those of two OSDs keep their
    /// order; false if there is none.
    pub fn step_any(&mut self, rng: &mut stdx::Prng) -> bool {
        self.drain();
        let links: BTreeSet<(OsdId, OsdId)> =
            self.messages.iter().map(|(from, to, _)| (*from, *to)).collect();
        let mut choices: Vec<Choice> = links.into_iter().map(Choice::Message).collect();
        for (index, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.status.is_up) {
            let mut had_commit = false;
            for (at, (tag, _)) in node.requests.iter().enumerate() {
                if !tag.is_commit() || !std::mem::replace(&mut had_commit, true) {
                    choices.push(Choice::Request(index, at));
                }
            }
        }
        if choices.is_empty() {
            return false;
        }
        match choices.swap_remove(rng.below(choices.len() as u64) as usize) {
            Choice::Message(link) => {
                let mut all = self.messages.iter();
                let at = all.position(|(from, to, _)| (*from, *to) == link).unwrap();
                let message = self.messages.remove(at).unwrap();
                self.messages.push_front(message);
                self.step(true);
            }
            Choice::Request(index, at) => {
                let node = &mut self.nodes[index];
                let (tag, kind) = node.requests.remove(at).unwrap();
                let outcome = node.ask_store(kind);
                node.pg.handle_completion(tag, outcome);
            }
        }
        self.drain();
        self.nodes.iter().for_each(|node| node.pg.check_invariants());
        true
    }

    /// Delivers all completions of an OSD's store, and nothing else.
    pub fn finish_commits(&mut self, osd: OsdId) {
        while let Some((tag, outcome)) = self.node(osd).completions.pop_front() {
            self.node(osd).pg.handle_completion(tag, outcome);
            self.drain();
        }
    }

    pub fn restart(&mut self, osd: OsdId, wipe: bool) {
        self.crash(osd, wipe);
        while !self.is_lazy && self.step(true) {}
    }

    /// Loads a copy, before it is passed maps.
    pub fn load(&mut self, osd: OsdId) {
        self.drain();
        while let Some((tag, kind)) = self.node(osd).requests.pop_front() {
            let outcome = self.node(osd).ask_store(kind);
            self.node(osd).pg.handle_completion(tag, outcome);
            self.drain();
        }
        let node = self.node(osd);
        assert!(node.pg.is_loaded(), "it has answered");
        // A stored map is never ahead of the interval that follows from it.
        node.seen = node.seen.min(node.pg.interval().0.max(1));
    }

    /// Like a restart, and nothing happens yet.
    pub fn crash(&mut self, osd: OsdId, wipe: bool) {
        let epoch = Epoch(self.epoch + 1);
        let node = self.node(osd);
        node.completions.clear();
        node.requests.clear();
        node.store.restart();
        node.has_place = false;
        node.status.up_from = epoch;
        node.is_starting = true;
        if wipe {
            node.store = MemStore::new();
        }
        let exists = node.store.collections().next().is_some();
        node.seen = if wipe { 1 } else { node.stored };
        node.stored = node.seen;
        let (id, sizes) = (node.pg.pg_shard(), node.pg.core.own.sizes);
        let pg = if exists { Pg::load(id, osd) } else { Pg::new(id, osd) };
        node.pg = pg.with_sizes(sizes);
        self.messages.retain(|(from, to, _)| *from != osd && *to != osd);
    }

    fn get(&mut self, osd: OsdId, name: &str) -> String {
        let collection = self.node(osd).pg.collection();
        let kind = RequestKind::Read { collection, object: object(name), offset: 0, length: 1000 };
        match self.node(osd).store.execute(kind) {
            Ok(store::Outcome::Read(read)) => String::from_utf8_lossy(&read.data).into_owned(),
            _ => "absent".to_owned(),
        }
    }

    pub fn assert_equal(&self, osds: &[OsdId]) {
        let content = |osd: &OsdId| {
            let node = &self.nodes[osd.0 as usize];
            let objects = node.store.objects(node.pg.collection());
            let objects = objects.filter(|(name, _)| !is_meta_object(name));
            let head: (EVersion, bool) = (node.pg.log().head(), node.pg.info().is_complete());
            assert!(node.pg.missing().is_empty());
            (head, objects.map(|(name, object)| (name.clone(), object.clone())).collect::<Vec<_>>())
        };
        osds.windows(2).for_each(|pair| assert_eq!(content(&pair[0]), content(&pair[1])));
    }
}
