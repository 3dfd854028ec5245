//! Text-driven cases: a few OSDs with one group, driven line by line.
//!
//! ```text
//! map E ACTING...      a new epoch with these acting members (size 3, min_size 2)
//! min N                the pool's min_size from now on
//! write NAME VALUE     a write at the primary
//! remove NAME
//! run                  deliver messages and completions until nothing is left
//! deliver              like run, but stores hold back the completion of commits
//! until OSD STATE      like run, but only until the OSD is in that state; messages left are lost
//! restart OSD          crash, and start again with what the store has
//! wipe OSD             crash, and start again with an empty disk
//! down OSD, up OSD     unreachable for queries of others (membership is what `map` says)
//! commits OSD FATE...  what becomes of the next commits of its store: ok, or full
//! states               who is in which state
//! get OSD NAME         the value of an object in a store
//! equal OSD OSD...     the copies hold the same objects and logs
//! confirmed            how many writes were confirmed since last asked
//! ```

use crate::message::Body;
use crate::*;
use bytes::Bytes;
use engine::Message;
use std::collections::{BTreeMap, VecDeque};
use store::mem::MemStore;
use store::{Change, Collection, RequestKind};
use types::{EVersion, Epoch, HObject, OsdId, PgId, PoolId};

const PG: PgId = PgId { pool: PoolId(1), seed: 0 };

struct Node {
    pg: Pg,
    store: MemStore,
    /// Whether the store has room for its next commits; for further ones it has.
    fates: VecDeque<bool>,
    up: bool,
    up_from: Epoch,
    down_at: Epoch,
    completions: VecDeque<(Tag, Result<store::Outcome, store::StoreError>)>,
}

struct World {
    nodes: Vec<Node>,
    messages: VecDeque<(OsdId, OsdId, Message)>,
    epoch: u32,
    acting: Vec<OsdId>,
    min_size: usize,
    confirmed: usize,
    tickets: u64,
}

fn object(name: &str) -> HObject {
    let name = Bytes::copy_from_slice(name.as_bytes());
    let hash = name.iter().map(|byte| u32::from(*byte)).sum::<u32>() << 8;
    HObject::head(PG.pool, Bytes::new(), Bytes::new(), name, hash)
}

impl Node {
    fn ask_store(&mut self, kind: RequestKind) -> Result<store::Outcome, store::StoreError> {
        let is_commit = matches!(kind, RequestKind::Commit(_));
        match is_commit && self.fates.pop_front() == Some(false) {
            true => Err(store::StoreError::NoSpace { needed: 1, available: 0 }),
            false => self.store.execute(kind),
        }
    }
}

impl World {
    fn new(nodes: i32) -> Self {
        let node = |id| Node {
            pg: Pg::new(PG, OsdId(id)),
            store: MemStore::new(),
            fates: VecDeque::new(),
            up: true,
            up_from: Epoch(1),
            down_at: Epoch(0),
            completions: VecDeque::new(),
        };
        World {
            nodes: (0..nodes).map(node).collect(),
            messages: VecDeque::new(),
            epoch: 1,
            acting: Vec::new(),
            min_size: 2,
            confirmed: 0,
            tickets: 0,
        }
    }

    fn run_script(&mut self, script: &str) {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (command, expected) = line.split_once(" => ").unwrap_or((line, ""));
            let words: Vec<&str> = command.split_whitespace().collect();
            let output = self.command(&words);
            assert_eq!(output.trim(), expected.trim(), "after `{command}`");
            self.nodes.iter().for_each(|node| node.pg.check_invariants());
        }
    }

    fn command(&mut self, words: &[&str]) -> String {
        let osds = |words: &[&str]| -> Vec<OsdId> {
            words.iter().map(|word| OsdId(word.parse().unwrap())).collect()
        };
        match words {
            ["map", epoch, acting @ ..] => {
                self.epoch = epoch.parse().unwrap();
                self.acting = osds(acting);
                self.publish();
            }
            ["min", number] => self.min_size = number.parse().unwrap(),
            ["write", name, value] => self.write(name, Some(value)),
            ["remove", name] => self.write(name, None),
            ["run"] => self.run(true),
            ["deliver"] => self.run(false),
            ["until", osd, state] => self.run_until(osds(&[osd])[0], state),
            ["restart", osd] => self.restart(osds(&[osd])[0], false),
            ["wipe", osd] => self.restart(osds(&[osd])[0], true),
            ["down", osd] => {
                let node = &mut self.nodes[osds(&[osd])[0].0 as usize];
                (node.up, node.down_at) = (false, Epoch(self.epoch + 1));
            }
            ["up", osd] => self.nodes[osds(&[osd])[0].0 as usize].up = true,
            ["commits", osd, fates @ ..] => {
                let fates = fates.iter().map(|fate| *fate == "ok");
                self.nodes[osds(&[osd])[0].0 as usize].fates = fates.collect();
            }
            ["states"] => {
                let states = self.nodes.iter().map(|node| format!("{:?}", node.pg.state()));
                return states.collect::<Vec<_>>().join(" ");
            }
            ["get", osd, name] => return self.get(osds(&[osd])[0], name),
            ["equal", list @ ..] => self.assert_equal(&osds(list)),
            ["confirmed"] => return std::mem::take(&mut self.confirmed).to_string(),
            other => panic!("no such command: {other:?}"),
        }
        String::new()
    }

    fn publish(&mut self) {
        let up_from = self.acting.iter().map(|osd| self.nodes[osd.0 as usize].up_from).collect();
        let members = Members {
            up: self.acting.clone(),
            acting: self.acting.clone(),
            primary: self.acting.first().copied(),
            up_from,
            size: 3,
            min_size: self.min_size,
        };
        let all = || (0..self.nodes.len()).map(|index| (OsdId(index as i32), &self.nodes[index]));
        let others = Others {
            up: all().filter(|(_, n)| n.up).map(|(osd, n)| (osd, n.up_from)).collect(),
            down: all().filter(|(_, n)| !n.up).map(|(osd, n)| (osd, n.down_at)).collect(),
        };
        for node in self.nodes.iter_mut().filter(|node| node.up) {
            node.pg.handle_map(Epoch(self.epoch), members.clone(), others.clone());
        }
        self.drain();
    }

    fn write(&mut self, name: &str, value: Option<&str>) {
        let primary = self.acting[0].0 as usize;
        let pg = &mut self.nodes[primary].pg;
        let object = object(name);
        let info = ObjectInfo { version: pg.next_version(), ..ObjectInfo::default() };
        let changes = match value {
            Some(value) => vec![
                Change::Write {
                    object: object.clone(),
                    offset: 0,
                    data: Bytes::copy_from_slice(value.as_bytes()),
                },
                Change::SetAttrs {
                    object: object.clone(),
                    attrs: BTreeMap::from([(INFO_ATTR, codec::encode_to_bytes(&info))]),
                },
            ],
            None => vec![Change::Remove { object: object.clone() }],
        };
        let kind = if value.is_some() { EntryKind::Modify } else { EntryKind::Delete };
        self.tickets += 1;
        pg.submit(Write { ticket: self.tickets, object, kind, changes, ..Write::default() });
        self.drain();
    }

    fn drain(&mut self) {
        for index in 0..self.nodes.len() {
            while let Some(output) = self.nodes[index].pg.poll_output() {
                let node = &mut self.nodes[index];
                match output {
                    Output::Send { to, message } => {
                        self.messages.push_back((OsdId(index as i32), to, message));
                    }
                    Output::Storage { tag, kind } => {
                        let outcome = node.ask_store(kind);
                        node.completions.push_back((tag, outcome));
                    }
                    Output::Committed { .. } => self.confirmed += 1,
                    Output::Removed => node.pg = Pg::new(PG, OsdId(index as i32)),
                    Output::Interrupted { .. } | Output::Activated | Output::WantsInterval => {}
                }
            }
        }
    }

    fn run_until(&mut self, osd: OsdId, state: &str) {
        while format!("{:?}", self.nodes[osd.0 as usize].pg.state()) != state {
            assert!(self.step(true), "{state} is never reached");
        }
        self.messages.clear();
    }

    fn run(&mut self, with_commits: bool) {
        while self.step(with_commits) {}
    }

    /// Delivers one message or completion; false if there is none.
    fn step(&mut self, with_commits: bool) -> bool {
        {
            self.drain();
            if let Some((from, to, message)) = self.messages.pop_front() {
                let (header, body) = Body::decode(&message).unwrap();
                let node = &mut self.nodes[to.0 as usize];
                if node.up && header.epoch.0 <= self.epoch {
                    node.pg.handle_message(from, &header, body);
                }
                return true;
            }
            let ready = |node: &Node| {
                let commit = |tag: &Tag| {
                    !matches!(
                        tag,
                        Tag::Load | Tag::Source(_) | Tag::ScanPage(_) | Tag::ScanObject(..)
                    )
                };
                let next =
                    node.completions.iter().position(|(tag, _)| with_commits || !commit(tag));
                next.filter(|_| node.up)
            };
            let Some((index, at)) =
                self.nodes.iter().enumerate().find_map(|(index, node)| Some((index, ready(node)?)))
            else {
                return false;
            };
            let (tag, outcome) = self.nodes[index].completions.remove(at).unwrap();
            self.nodes[index].pg.handle_completion(tag, outcome);
            true
        }
    }

    fn restart(&mut self, osd: OsdId, wipe: bool) {
        let node = &mut self.nodes[osd.0 as usize];
        node.completions.clear();
        node.up_from = Epoch(self.epoch + 1);
        if wipe {
            node.store = MemStore::new();
        }
        let exists = node.store.collections().next().is_some();
        node.pg = if exists { Pg::load(PG, osd) } else { Pg::new(PG, osd) };
        self.messages.retain(|(from, to, _)| *from != osd && *to != osd);
        self.run(true);
    }

    fn get(&mut self, osd: OsdId, name: &str) -> String {
        let kind = RequestKind::Read {
            collection: Collection(PG),
            object: object(name),
            offset: 0,
            length: 1000,
        };
        match self.nodes[osd.0 as usize].store.execute(kind) {
            Ok(store::Outcome::Read(read)) => String::from_utf8_lossy(&read.data).into_owned(),
            _ => "absent".to_owned(),
        }
    }

    fn assert_equal(&self, osds: &[OsdId]) {
        let content = |osd: &OsdId| {
            let node = &self.nodes[osd.0 as usize];
            let objects = node.store.objects(Collection(PG));
            let objects = objects.filter(|(name, _)| !is_meta_object(name));
            let head: (EVersion, bool) = (node.pg.log().head(), node.pg.info().is_complete());
            (head, objects.map(|(name, object)| (name.clone(), object.clone())).collect::<Vec<_>>())
        };
        osds.windows(2).for_each(|pair| assert_eq!(content(&pair[0]), content(&pair[1])));
    }
}

#[test]
fn a_new_group_becomes_active_and_confirms_writes() {
    World::new(3).run_script(
        "map 2 0 1 2
         states => GetInfo Replica Replica
         run
         states => Active ReplicaActive ReplicaActive
         write a one
         write b two
         deliver
         confirmed => 0
         run
         confirmed => 2
         get 2 a => one
         equal 0 1 2",
    );
}

#[test]
fn a_member_that_was_away_is_brought_up_to_date_from_the_log() {
    World::new(3).run_script(
        "map 2 0 1 2
         run
         write a one
         write b two
         run
         down 2
         map 3 0 1
         run
         write a changed
         remove b
         write c new
         run
         confirmed => 5
         up 2
         restart 2
         map 4 0 1 2
         run
         states => Active ReplicaActive ReplicaActive
         get 2 a => changed
         get 2 b => absent
         get 2 c => new
         equal 0 1 2",
    );
}

#[test]
fn a_restarted_primary_learns_from_the_others_what_it_missed() {
    World::new(3).run_script(
        "map 2 0 1 2
         run
         write a one
         run
         down 0
         map 3 1 2
         run
         write a two
         run
         up 0
         restart 0
         map 4 0 1 2
         run
         states => Active ReplicaActive ReplicaActive
         get 0 a => two
         equal 0 1 2",
    );
}

#[test]
fn a_write_that_only_the_old_primary_has_gives_way_to_confirmed_ones() {
    World::new(3).run_script(
        "map 2 0 1 2
         run
         write a one
         run
         write a lost
         down 0
         map 3 1 2
         run
         write b kept
         run
         confirmed => 2
         up 0
         restart 0
         map 4 0 1 2
         run
         get 0 a => one
         equal 0 1 2
         states => Active ReplicaActive ReplicaActive",
    );
}

#[test]
fn an_empty_disk_is_filled() {
    World::new(3).run_script(
        "map 2 0 1 2
         run
         write a one
         write b two
         run
         wipe 0
         map 3 0 1 2
         run
         states => Active ReplicaActive ReplicaActive
         get 0 a => one
         equal 0 1 2",
    );
}

#[test]
fn too_few_members_serve_nothing() {
    World::new(3).run_script(
        "map 2 0
         run
         states => Inactive Stray Stray
         min 1
         map 3 0
         run
         states => Active Stray Stray",
    );
}

#[test]
fn an_interrupted_recovery_is_no_authority() {
    World::new(3).run_script(
        "min 1
         map 2 0 1 2
         run
         write a one
         run
         down 2
         map 3 0 1
         run
         write a two
         write b three
         run
         up 2
         restart 2
         map 4 0 1 2
         until 2 CatchingUp
         states => Equalizing Replica CatchingUp
         down 0
         down 1
         restart 2
         map 5 2
         run
         states => Equalizing Replica Incomplete
         get 2 b => absent
         up 0
         restart 0
         map 6 2
         run
         states => Stray Replica Incomplete
         up 1
         restart 1
         map 7 2
         run
         get 2 b => three
         equal 0 2",
    );
}

#[test]
fn a_copy_waits_for_those_who_may_have_gone_on_without_it() {
    World::new(2).run_script(
        "min 1
         map 2 0 1
         run
         write a one
         run
         down 1
         map 3 0
         run
         states => Active ReplicaActive
         write a two
         run
         confirmed => 2
         down 0
         up 1
         restart 1
         map 4 1
         run
         states => Active Incomplete
         up 0
         restart 0
         map 5 1 0
         run
         states => ReplicaActive Active
         get 1 a => two",
    );
}

#[test]
fn an_empty_copy_waits_for_those_who_have_the_data() {
    World::new(3).run_script(
        "min 1
         map 2 0 1
         run
         write a one
         run
         down 0
         down 1
         map 3 2
         run
         states => Active ReplicaActive Incomplete
         up 0
         restart 0
         map 4 2
         run
         get 2 a => one",
    );
}

#[test]
fn a_restart_waits_for_nobody_who_could_not_have_gone_on_alone() {
    World::new(3).run_script(
        "min 1
         map 2 0 1
         run
         write a one
         run
         map 3 0 1
         map 4 0 1
         down 2
         map 5 0 1
         run
         restart 0
         restart 1
         map 6 0 1
         run
         states => Active ReplicaActive Stray",
    );
}

#[test]
fn whoever_comes_back_while_copies_are_compared_is_asked_too() {
    World::new(3).run_script(
        "min 1
         map 2 0 1
         run
         down 1
         map 3 0
         run
         write a one
         run
         confirmed => 1
         down 0
         up 1
         restart 1
         map 4 1
         states => Active GetInfo Stray
         up 0
         restart 0
         map 5 1
         run
         get 1 a => one",
    );
}

#[test]
fn an_osd_that_starts_answers_the_primary_of_an_interval_that_began_before() {
    World::new(3).run_script(
        "map 2 0 1
         restart 2
         map 3 0 1
         run
         states => Active ReplicaActive Stray",
    );
}

#[test]
fn a_former_member_is_dismissed_once_the_group_is_whole() {
    World::new(4).run_script(
        "map 2 0 1 2
         run
         write a one
         run
         map 3 0 1 3
         run
         states => Active ReplicaActive Stray ReplicaActive
         get 3 a => one
         get 2 a => absent
         equal 0 1 3",
    );
}

#[test]
fn copies_whose_logs_do_not_overlap_are_compared() {
    let mut world = World::new(3);
    world.run_script(
        "map 2 0 1 2
         run
         write same one
         write gone two
         run
         down 2
         map 3 0 1
         run
         remove gone",
    );
    for number in 0..2 * LOG_ENTRIES_MAX {
        world.write(&format!("object{}", number % 300), Some(&number.to_string()));
    }
    world.run_script(
        "run
         up 2
         restart 2
         map 4 0 1 2
         run
         get 2 gone => absent
         get 2 same => one
         equal 0 1 2
         restart 1
         map 5 0 1 2
         run
         states => Active ReplicaActive ReplicaActive
         equal 0 1 2",
    );
    assert!(world.nodes[1].pg.log().len() <= LOG_ENTRIES_MAX);
}

#[test]
fn a_write_that_the_primary_has_no_room_for_is_fetched_from_the_others() {
    World::new(3).run_script(
        "map 2 0 1 2
         run
         write a one
         run
         commits 0 full ok
         write a two
         write b three
         run
         confirmed => 1
         states => Stalled ReplicaActive ReplicaActive
         map 3 0 1 2
         run
         states => Active ReplicaActive ReplicaActive
         get 0 a => two
         get 0 b => three
         equal 0 1 2
         write a four
         run
         confirmed => 1",
    );
}

#[test]
fn a_replica_without_room_halts_the_group_until_it_has_some() {
    World::new(3).run_script(
        "map 2 0 1 2
         run
         write a one
         run
         commits 2 full ok full
         write a two
         write b three
         run
         confirmed => 1
         states => Stalled ReplicaActive Stalled
         map 3 0 1 2
         run
         states => Stalled Replica Stalled
         map 4 0 1 2
         run
         states => Active ReplicaActive ReplicaActive
         get 2 a => two
         equal 0 1 2",
    );
}

#[test]
fn a_write_that_nobody_has_room_for_never_happened() {
    World::new(3).run_script(
        "map 2 0 1 2
         run
         write a one
         run
         confirmed => 1
         commits 0 full
         commits 1 full
         commits 2 full
         write a two
         run
         map 3 0 1 2
         run
         confirmed => 0
         states => Active ReplicaActive ReplicaActive
         get 0 a => one
         equal 0 1 2",
    );
}

#[test]
fn a_hole_in_the_log_survives_a_restart_and_is_no_authority() {
    World::new(2).run_script(
        "min 1
         map 2 0 1
         run
         write a one
         run
         commits 0 full ok
         write a two
         write b three
         run
         down 1
         restart 0
         map 3 0
         run
         states => Incomplete ReplicaActive
         up 1
         map 4 0 1
         run
         states => Active ReplicaActive
         get 0 a => two
         equal 0 1",
    );
}

#[test]
fn members_that_are_nearly_full_say_so_and_take_it_back() {
    let mut world = World::new(2);
    let full = |world: &mut World, is_full: bool| {
        world.nodes[1].pg.set_room(!is_full);
        world.drain();
        world.run(true);
        world.nodes[0].pg.has_room()
    };
    assert!(full(&mut world, true));
    world.run_script("map 2 0 1\n run");
    assert!(!world.nodes[0].pg.has_room(), "it is told on activation");
    assert!(full(&mut world, false));
    assert!(!full(&mut world, true));
    world.run_script("map 3 1 0\n run\n states => ReplicaActive Active");
    assert!(world.nodes[0].pg.has_room() && !world.nodes[1].pg.has_room());
}
