//! A group in which no member has a whole object: two halves, and their parity.
//!
//! It peers and writes as any group does, in the language of `tests/world.rs`. Its reads and recoveries are
//! plans that these tests carry out themselves:
//!
//! ```text
//! object NAME          the content that a client reads at the primary, or `lost`
//! restore OSD NAME     the member lacks its shard: it is computed from others, and stored
//! ```

use super::World;
use super::world::{PG, object};
use crate::backend::striped::{ENOUGH, assemble, shard_of};
use crate::backend::{Fetch, ReadPlan};
use crate::{ErasureCode, ErasureLayout, Layout, Member, Pg};
use bytes::Bytes;
use std::collections::BTreeMap;
use store::{Change, Collection, Outcome, RequestKind, Transaction};
use types::{HObject, OsdId, ShardId};

/// Bytes of all values in these tests.
const SIZE: usize = 6;

fn member(position: usize) -> Member {
    Member { osd: OsdId(position as i32), shard: ShardId::at(position).unwrap() }
}

/// OSDs 0, 1 and 2 keep the first half, the second half and the parity.
fn world() -> World {
    let mut world = World::new(3);
    let code = ErasureCode::IsaVandermonde;
    world.layout = Layout::Erasure(ErasureLayout { data: 2, parity: 1, unit: 4096, code });
    for (position, node) in world.nodes.iter_mut().enumerate() {
        let mut pg = Pg::new(types::PgShard::replicated(PG), OsdId(position as i32));
        pg.core.own.whoami = member(position);
        node.pg = pg;
    }
    world
}

fn run(world: &mut World, script: &str) {
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (command, expected) = line.split_once(" =>").unwrap_or((line, ""));
        let said = match command.split_whitespace().collect::<Vec<_>>()[..] {
            ["object", name] => read(world, &object(name)),
            ["restore", osd, name] => restore(world, osd.parse().unwrap(), &object(name)),
            _ => {
                world.run_script(line);
                continue;
            }
        };
        assert_eq!(said, expected.trim(), "after `{command}`");
    }
}

fn whole(object: &HObject) -> RequestKind {
    let (collection, object) = (Collection::replicated(PG), object.clone());
    RequestKind::Read { collection, object, offset: 0, length: SIZE as u64 }
}

/// Has each member answer its request, and computes the content.
fn gather(world: &mut World, reads: Vec<(Member, RequestKind)>) -> Bytes {
    assert_eq!(reads.len(), ENOUGH);
    let mut parts = BTreeMap::new();
    for (member, kind) in reads {
        match world.node(member.osd).ask_store(kind) {
            Ok(Outcome::Read(read)) => drop(parts.insert(member.shard, read.data)),
            other => panic!("{member} does not have its shard: {other:?}"),
        }
    }
    assemble(SIZE, &parts)
}

fn read(world: &mut World, object: &HObject) -> String {
    let primary = world.primary();
    match world.node(primary).pg.read(object, whole(object)) {
        ReadPlan::Gather(reads) => String::from_utf8(gather(world, reads).to_vec()).unwrap(),
        ReadPlan::Lost => "lost".to_owned(),
        ReadPlan::Local(kind) => panic!("no member has all of it: {kind:?}"),
    }
}

/// Computes the shard of a member from those that the primary's plan names, and stores it.
fn restore(world: &mut World, position: usize, object: &HObject) -> String {
    let lacking = member(position);
    let primary = world.primary();
    let pg = &world.node(primary).pg;
    let need = pg.logged_version(object);
    let own = [pg.whoami()].into_iter().filter(|own| *own != lacking);
    let others: Vec<Member> = pg.view().sources(object, need).filter(|m| *m != lacking).collect();
    let backend = pg.core.placement.backend;
    let plan = backend.plan_recovery(lacking == pg.whoami(), own.chain(others));
    let Some(Fetch::Shards(sources)) = plan else { return format!("{plan:?}") };
    let reads = sources.iter().map(|source| (*source, whole(object))).collect();
    let data = shard_of(&gather(world, reads), lacking.shard);
    let mut transaction = Transaction::new();
    let write = Change::Write { object: object.clone(), offset: 0, data };
    transaction.push(Collection::replicated(PG), write);
    world.node(lacking.osd).ask_store(RequestKind::Commit(transaction)).unwrap();
    let names: Vec<String> = sources.iter().map(Member::to_string).collect();
    format!("from {}", names.join(" "))
}

#[test]
fn each_member_stores_its_own_part_of_a_write() {
    run(
        &mut world(),
        "map 20 0 1 2
         run
         states => Active ReplicaActive ReplicaActive
         write a abcdef
         run
         confirmed => 1
         get 0 a => abc
         get 1 a => def
         object a => abcdef",
    );
}

#[test]
fn messages_name_the_shards_of_both_and_others_ignore_them() {
    use crate::message::Body;
    let mut world = world();
    run(&mut world, "map 20 0 1 2\n run\n write a abcdef");
    let (from, to, message) = world.messages.front().cloned().expect("a write is sent");
    assert_eq!((message.version, message.compat_version), (2, 2));
    let (header, body) = Body::decode(&message).unwrap();
    assert_eq!((from, header.from), (OsdId(0), member(0).shard));
    assert_eq!(Some(header.to), to.0.try_into().ok().and_then(ShardId::at));
    let pg = &mut world.node(to).pg;
    let (head, stray) = (pg.log().head(), crate::message::Header { to: member(0).shard, ..header });
    pg.handle_message(from, &stray, body.clone());
    assert_eq!(pg.log().head(), head, "it is for another shard");
    pg.handle_message(from, &header, body);
    assert!(pg.log().head() > head);
}

#[test]
fn an_object_is_read_from_any_two_members() {
    let mut world = world();
    run(&mut world, "map 20 0 1 2\n run\n write a abcdef\n run");
    let (whole, name) = (whole(&object("a")), object("a"));
    let backend = world.nodes[0].pg.core.placement.backend;
    for gone in 0..3 {
        let left = (0..3).filter(|position| *position != gone).map(member);
        let plan = backend.plan_read(member(0), whole.clone(), left);
        let ReadPlan::Gather(reads) = plan else { panic!("{plan:?}") };
        assert!(reads.iter().all(|(from, _)| *from != member(gone)));
        assert_eq!(gather(&mut world, reads), "abcdef", "without {gone}");
        let one = std::iter::once(member(gone));
        let plan = backend.plan_read(member(0), whole.clone(), one);
        assert!(matches!(plan, ReadPlan::Lost), "{plan:?}");
    }
    let meta = RequestKind::Meta { collection: Collection::replicated(PG), object: name };
    let plan = backend.plan_read(member(0), meta, std::iter::once(member(0)));
    assert!(matches!(plan, ReadPlan::Local(_)), "attributes are the same on all");
}

#[test]
fn a_member_that_was_away_gets_its_shard_from_two_others() {
    run(
        &mut world(),
        "map 20 0 1 2
         run
         write a abcdef
         run
         down 1
         size 3
         map 25 0 2147483647 2
         run
         states => Active ReplicaActive ReplicaActive
         write a uvwxyz
         run
         get 0 a => uvw
         get 1 a => def
         object a => uvwxyz
         hold
         up 1
         map 30 0 1 2
         run
         states => Active ReplicaActive ReplicaActive
         blocked a => yes
         missing 1 => a
         restore 1 a => from 0(0) 2(2)
         get 1 a => xyz",
    );
}

#[test]
fn one_survivor_of_a_written_interval_is_not_enough() {
    run(
        &mut world(),
        "map 20 0 1 2
         run
         write a abcdef
         run
         down 1
         down 2
         map 25 0 2147483647 2147483647
         run
         states => Down ReplicaActive ReplicaActive
         blocked-by 0 => 1 2
         up 2
         restart 2
         map 30 0 2147483647 2
         run
         states => Active ReplicaActive ReplicaActive
         object a => abcdef",
    );
}

#[test]
fn a_replicated_group_reads_what_it_is_asked_for_from_its_own_store() {
    let mut world = World::new(2);
    world.run_script("size 2\n map 20 0 1\n run\n write a abcdef\n run");
    for node in &world.nodes {
        let plan = node.pg.read(&object("a"), whole(&object("a")));
        let ReadPlan::Local(RequestKind::Read { object: read, length, .. }) = plan else {
            panic!("{plan:?}")
        };
        assert_eq!((read, length), (object("a"), SIZE as u64));
    }
}
