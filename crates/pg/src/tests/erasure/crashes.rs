//! Writes, while OSDs crash and come back at any moment, and no disk is lost.
//!
//! Acknowledged entries, and those that a group that serves has in its log when it begins to serve, must be
//! in each later log. At the end, all shards are what the log says.

use super::writes::{Encoder, info};
use crate::tests::world::{World, object, request};
use crate::{
    EntryKind, ErasureCode, ErasureLayout, INFO_ATTR, ObjectInfo, Pg, Sizes, State, Write,
};
use engine::Time;
use std::collections::{BTreeMap, BTreeSet};
use stdx::Prng;
use store::Change;
use types::{EVersion, Epoch, HObject, OsdId};

/// Nanoseconds; longer than any timer.
const LONG: u64 = 10_000_000_000;
const SIZE_MAX: u64 = 30_000;

struct Trial {
    world: World,
    rng: Prng,
    encoder: Encoder,
    down: BTreeSet<usize>,
    /// The OSD of each position, up or down.
    up: Vec<usize>,
    /// Each version of an object that was submitted; `None` if it is removed.
    contents: BTreeMap<(HObject, EVersion), Option<Vec<u8>>>,
    /// The version of each ticket.
    tickets: BTreeMap<u64, EVersion>,
    /// Versions that each later log must have.
    certain: BTreeSet<EVersion>,
    /// The interval whose beginning was seen.
    seen: Epoch,
    now: u64,
}

impl Trial {
    /// `spare` further OSDs can have the first shards. With short logs, members are backfilled.
    fn new(seed: u64, k: u8, m: u8, spare: usize, has_short_logs: bool) -> Self {
        let layout =
            ErasureLayout { data: k, parity: m, unit: 4096, code: ErasureCode::IsaVandermonde };
        let positions: Vec<usize> = (0..layout.shards()).chain(0..spare).collect();
        let mut world = World::of_shards(layout, &positions);
        if has_short_logs {
            let sizes = Sizes {
                log_entries_max: 6,
                log_entries_kept: 3,
                page_objects_max: 2,
                ..Sizes::default()
            };
            world.nodes.iter_mut().for_each(|node| node.pg.core.own.sizes = sizes);
        }
        let mut rng = Prng::new(seed);
        world.min_size = usize::from(k) + rng.below(u64::from(m) + 1) as usize;
        let mut trial = Trial {
            world,
            rng,
            encoder: Encoder::new(layout),
            down: BTreeSet::new(),
            up: (0..layout.shards()).collect(),
            contents: BTreeMap::new(),
            tickets: BTreeMap::new(),
            certain: BTreeSet::new(),
            seen: Epoch(0),
            now: 0,
        };
        trial.publish();
        trial.world.run();
        trial.world.is_lazy = true;
        trial
    }

    fn publish(&mut self) {
        let word =
            |at: &usize| if self.down.contains(at) { "-".to_owned() } else { at.to_string() };
        let up: Vec<String> = self.up.iter().map(word).collect();
        let epoch = self.world.epoch + 1;
        self.world.run_script(&format!("map {epoch} {}", up.join(" ")));
    }

    fn active(&mut self) -> Option<&mut Pg> {
        let primary = self.world.find_primary()?;
        let pg = &mut self.world.node(primary).pg;
        (pg.state() == State::Active).then_some(pg)
    }

    /// Notes what must stay, and checks that it did.
    fn observe(&mut self) {
        let acknowledged = self.world.acknowledged.clone();
        for ticket in acknowledged {
            self.certain.insert(self.tickets[&ticket]);
        }
        let Some(pg) = self.active() else { return };
        let (interval, committed) = (pg.interval(), pg.committed());
        let log: BTreeSet<EVersion> = pg.log().entries().map(|entry| entry.version).collect();
        let tail = pg.log().tail();
        let lost = self.certain.difference(&log).filter(|version| **version > tail);
        let lost: Vec<&EVersion> = lost.collect();
        assert!(lost.is_empty(), "{lost:?} were certain\n{}", told(&self.world));
        if self.seen < interval {
            self.seen = interval;
            self.certain.extend(log.into_iter().filter(|version| *version <= committed));
        }
    }

    fn write(&mut self) {
        let object = object(["a", "b", "c"][self.rng.below(3) as usize]);
        let removes = self.rng.below(8) == 0;
        let Some(pg) = self.active() else { return };
        if pg.is_blocked(&object, true, removes) || !pg.shows_committed(&object) {
            return pg.want_object(&object);
        }
        let (version, logged) = (pg.next_version(), pg.logged_version(&object));
        let primary = self.world.primary();
        let prior = logged.max(self.world.node(primary).version(&object));
        let before = self.contents.get(&(object.clone(), prior)).cloned().flatten();
        let prior_version = if before.is_some() { prior } else { EVersion::ZERO };
        let sizes = before.iter().map(|data| (object.clone(), data.len() as u64)).collect();
        let mut content = before.clone().unwrap_or_default();
        let (kind, changes) = match removes {
            true if before.is_none() => return,
            true => (EntryKind::Delete, vec![Change::Remove { object: object.clone() }]),
            false => {
                let offset = self.rng.below(SIZE_MAX);
                let mut data = vec![0; 1 + self.rng.below(9000) as usize];
                self.rng.fill(&mut data);
                let end = offset as usize + data.len();
                content.resize(content.len().max(end), 0);
                content[offset as usize..end].copy_from_slice(&data);
                let data = data.into();
                let write = Change::Write { object: object.clone(), offset, data };
                (EntryKind::Modify, vec![write, info(&object, version, content.len())])
            }
        };
        let after = (!removes).then_some(content);
        self.contents.insert((object.clone(), version), after);
        let ticket = self.tickets.len() as u64 + 1;
        self.tickets.insert(ticket, version);
        let request = request(ticket);
        let write = Write {
            ticket,
            object,
            kind,
            prior_version,
            request,
            changes,
            sizes,
            ..Write::default()
        };
        let pg = self.active().expect("it is active");
        assert_eq!(pg.submit(write), version);
        self.world.drain();
    }

    fn step(&mut self, steps: u64) {
        for _ in 0..steps {
            if !self.world.step_any(&mut self.rng) {
                return;
            }
            self.observe();
        }
    }

    fn crash(&mut self) {
        let at = self.rng.below(self.world.nodes.len() as u64) as usize;
        if self.down.contains(&at) {
            return;
        }
        let osd = OsdId(at as i32);
        self.world.crash(osd, false);
        self.world.load(osd);
        if self.rng.below(3) > 0 {
            self.world.run_script(&format!("down {at}"));
            self.down.insert(at);
        }
        self.publish();
    }

    fn revive(&mut self) {
        let choices: Vec<usize> = self.down.iter().copied().collect();
        if choices.is_empty() {
            return;
        }
        let at = choices[self.rng.below(choices.len() as u64) as usize];
        self.down.remove(&at);
        self.world.run_script(&format!("up {at}"));
        self.publish();
    }

    /// Another OSD, or the first one again, gets a position.
    fn remap(&mut self) {
        let spare = self.world.nodes.len() - self.up.len();
        if spare > 0 {
            let position = self.rng.below(spare as u64) as usize;
            let others = [position, position + self.up.len()];
            self.up[position] = others[self.rng.below(2) as usize];
            self.publish();
        }
    }

    fn act(&mut self) {
        match self.rng.below(21) {
            20 => self.remap(),
            0 => self.crash(),
            1..3 => self.revive(),
            3..6 => drop(self.world.grant()),
            6 => self.pass_time(),
            7..14 => self.write(),
            _ => {
                let steps = self.rng.below(80);
                self.step(steps);
            }
        }
        self.observe();
    }

    fn pass_time(&mut self) {
        self.now += LONG;
        self.world.pass_time(Time(self.now));
    }

    fn rest(&mut self) {
        while !self.down.is_empty() {
            self.revive();
        }
        for _ in 0..12 {
            while self.world.step_any(&mut self.rng) || self.world.grant() {
                self.observe();
            }
            self.pass_time();
        }
    }

    /// All shards are what the log says.
    fn check(&mut self) {
        let states: Vec<String> =
            self.world.nodes.iter().map(|node| format!("{:?}", node.pg.state())).collect();
        assert!(self.active().is_some(), "{states:?}\n{}", told(&self.world));
        let missing: Vec<usize> =
            self.world.nodes.iter().map(|node| node.pg.missing().len()).collect();
        assert!(missing.iter().all(|count| *count == 0), "missing:\n{}", told(&self.world));
        let pg = self.active().expect("it is active");
        assert!(pg.is_clean(), "{}", told(&self.world));
        for name in ["a", "b", "c"] {
            let object = object(name);
            let logged = self.active().expect("it is active").logged_version(&object);
            let primary = self.world.primary();
            let version = logged.max(self.world.node(primary).version(&object));
            let mut known = self
                .contents
                .range((object.clone(), EVersion::ZERO)..)
                .take_while(|((name, _), _)| *name == object)
                .map(|((_, version), _)| *version);
            let newest = known.by_ref().filter(|version| self.certain.contains(version)).max();
            let is_removed = version == EVersion::ZERO
                && self.contents.iter().any(|((name, at), content)| {
                    *name == object && Some(*at) >= newest && content.is_none()
                });
            assert!(
                Some(version) >= newest || is_removed,
                "{name} is at {version}, not {newest:?}"
            );
            let content = self.contents.get(&(object.clone(), version)).cloned().flatten();
            let shards = content.as_ref().map(|content| self.encoder.shards_of(content));
            for (at, node) in self.up.iter().map(|osd| &self.world.nodes[*osd]).enumerate() {
                let stored = node.store.object(node.pg.collection(), &object);
                let Some(shards) = &shards else {
                    assert!(stored.is_none(), "{name} is removed from shard {at}");
                    continue;
                };
                let stored = stored.unwrap_or_else(|| panic!("shard {at} of {name}"));
                let info = stored.attrs.get(&INFO_ATTR).expect("an object has an info");
                let info = codec::decode_all::<ObjectInfo>("info", info).unwrap();
                assert_eq!(info.version, version, "{name} on shard {at}");
                let mut shard = stored.data.read(0, stored.data.size()).data.to_vec();
                shard.resize(shards[at].len(), 0);
                let wrong = shard.iter().zip(&shards[at]).position(|(is, must)| is != must);
                assert_eq!(wrong, None, "shard {at} of {name} at {version}");
            }
        }
        for node in &self.world.nodes {
            assert_eq!(node.store.held().of(node.pg.collection()).count(), 0, "nothing is held");
        }
    }
}

/// The states of all copies, for messages.
fn told(world: &World) -> String {
    let one = |node: &crate::tests::world::Node| {
        let pg = &node.pg;
        let info = pg.info();
        let held = super::copies::held(world, pg.whoami().osd.0 as usize).join(" ");
        let missing: Vec<String> = pg
            .missing()
            .all_stored()
            .map(|o| format!("{o}={:?}", pg.missing().items_of(o).collect::<Vec<_>>()))
            .collect();
        format!(
            "{} {:?} started {} knew {} update {} head {} settled {} committed {} held [{held}] missing {missing:?} past {:?}\n",
            pg.whoami(),
            pg.state(),
            info.last_epoch_started,
            info.history.last_epoch_started,
            info.last_update,
            pg.log().head(),
            info.settled(),
            pg.committed(),
            pg.core
                .copy
                .past
                .iter()
                .map(|i| (
                    i.first.0,
                    i.last.0,
                    i.acting.iter().map(|o| o.0).collect::<Vec<_>>(),
                    i.maybe_went_rw
                ))
                .collect::<Vec<_>>(),
        )
    };
    world.nodes.iter().map(one).collect()
}

fn run(seed: u64, k: u8, m: u8) {
    let (spare, has_short_logs) = ([0, 2, 3][seed as usize % 3], seed % 2 == 1);
    let mut trial = Trial::new(seed, k, m, spare, has_short_logs);
    for _ in 0..3 {
        for _ in 0..150 {
            trial.act();
        }
        trial.rest();
        trial.check();
    }
}

/// `FIRST` and `SEEDS` in the environment choose other trials.
#[test]
fn crashes_lose_nothing_that_was_certain() {
    let seeds = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(4);
    let first = std::env::var("FIRST").ok().and_then(|first| first.parse().ok()).unwrap_or(0);
    for seed in first..first + seeds {
        for (k, m) in [(2, 1), (2, 2), (4, 2)] {
            let outcome = std::panic::catch_unwind(|| run(seed, k, m));
            assert!(outcome.is_ok(), "seed {seed} of {k}+{m}");
        }
    }
}
