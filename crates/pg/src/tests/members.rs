//! The choice of the acting set, and the OSDs that peering waits for.

use super::World;
use super::world::PG;
use crate::members::MEMBERS_MAX;
use crate::message::{Body, Header, Replicate};
use crate::{ErasureCode, ErasureLayout, LogEntry, State};
use store::Transaction;
use types::{EVersion, Epoch, OsdId, ShardId};

#[test]
fn a_new_group_becomes_active_and_confirms_writes() {
    World::new(3).run_script(
        "map 20 0 1 2
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

/// The info that it sent before it was marked down arrives afterwards; another OSD has the same log.
#[test]
fn nobody_follows_an_osd_that_is_down() {
    for gone in [2, 3] {
        let mut world = World::new(4);
        world.run_script("size 2\n map 20 2 3\n run\n write a one\n run\n map 30 0 1");
        world.finish_commits(OsdId(gone));
        world.run_script(&format!("down {gone}\n map 31 0 1\n run\n get 0 a => one"));
    }
}

#[test]
fn an_empty_copy_waits_for_those_who_have_the_data() {
    World::new(3).run_script(
        "min 1
         map 20 0 1
         run
         write a one
         run
         down 0
         down 1
         map 30 2
         run
         states => Active ReplicaActive Down
         blocked-by 2 => 0 1
         up 0
         restart 0
         map 40 2
         run
         get 2 a => one",
    );
}

#[test]
fn a_restart_waits_for_nobody_who_could_not_have_gone_on_alone() {
    World::new(3).run_script(
        "min 1
         map 20 0 1
         run
         write a one
         run
         map 30 0 1
         map 40 0 1
         down 2
         map 50 0 1
         run
         restart 0
         restart 1
         map 60 0 1
         run
         states => Active ReplicaActive Stray",
    );
}

#[test]
fn whoever_comes_back_while_copies_are_compared_is_asked_too() {
    World::new(3).run_script(
        "min 1
         map 20 0 1
         run
         down 1
         map 30 0
         run
         write a one
         run
         confirmed => 1
         down 0
         up 1
         restart 1
         map 40 1
         states => Active GetInfo Stray
         up 0
         restart 0
         map 50 1
         run
         get 1 a => one",
    );
}

#[test]
fn an_osd_that_starts_answers_the_primary_of_an_interval_that_began_before() {
    World::new(3).run_script(
        "map 20 0 1
         restart 2
         map 30 0 1
         run
         states => Active ReplicaActive Stray",
    );
}

#[test]
fn a_new_primary_waits_until_the_one_before_answers_no_reads_any_more() {
    World::new(3).run_script(
        "map 20 0 1 2
         run
         time 100
         lease 1 150
         lease 2 170
         down 0
         map 30 1 2
         run
         states => Active WaitReadable ReplicaActive
         time 150
         run
         states => Active WaitReadable ReplicaActive
         time 170
         run
         states => Active Active ReplicaActive",
    );
}

#[test]
fn a_write_whose_entries_do_not_follow_each_other_is_not_taken() {
    for (also, last) in [(2, 2), (1, 3), (2, 3)] {
        let mut world = World::new(2);
        world.run_script("size 2\n map 20 0 1\n run\n write a one\n run");
        let pg = &mut world.node(OsdId(1)).pg;
        let head = pg.log().head();
        let entry = |more| LogEntry::empty(EVersion { version: head.version + more, ..head });
        let write = Replicate {
            entry: codec::encode_to_bytes(&entry(last)),
            info: codec::encode_to_bytes(pg.info()),
            also: vec![codec::encode_to_bytes(&entry(also))],
            committed: head,
            trim: EVersion::ZERO,
            transaction: Transaction::new(),
            deltas: Vec::new(),
        };
        let header = Header::replicated(pg.id(), pg.core.placement.epoch, pg.interval());
        pg.handle_message(OsdId(0), &header, Body::Replicate(Box::new(write)));
        assert_eq!((pg.log().head(), pg.state()), (head, crate::State::Stalled));
    }
}

#[test]
fn a_replica_that_a_write_does_not_reach_for_want_of_the_last_one_catches_up_too() {
    World::new(2).run_script(
        "size 2
         map 20 0 1
         run
         write a one
         lose 0 1
         run
         map 30 1 0
         run
         states => ReplicaActive Active
         get 1 a => one
         equal 0 1",
    );
}

#[test]
fn a_write_waits_for_every_one_of_very_many_members() {
    let mut world = World::new(MEMBERS_MAX as i32);
    let all: Vec<String> = (0..MEMBERS_MAX).map(|osd| osd.to_string()).collect();
    world.run_script(&format!("size {MEMBERS_MAX}\n map 20 {}\n run\n write a one", all.join(" ")));
    // Only the primary has stored it.
    world.finish_commits(types::OsdId(0));
    world.run_script("confirmed => 0\n run\n confirmed => 1");
}

#[test]
fn a_group_with_too_many_members_is_incomplete_until_another_map() {
    let count = MEMBERS_MAX + 1;
    let mut world = World::new(count as i32);
    let all: Vec<String> = (0..count).map(|osd| osd.to_string()).collect();
    world.run_script(&format!("size {count}\n map 20 {}\n run", all.join(" ")));
    assert_eq!(world.nodes[0].pg.state(), State::Incomplete);
    assert_eq!(world.nodes[1].pg.state(), State::Replica);
    world.run_script(&format!("map 30 {}\n run\n write a one\n run", all[..MEMBERS_MAX].join(" ")));
    world.run_script("confirmed => 1\n get 63 a => one");
}

#[test]
fn a_lease_from_before_a_gap_in_the_maps_is_waited_for() {
    World::new(3).run_script(
        "map 20 0 1 2
         run
         time 100
         lease 1 150
         down 2
         gap 30 1 0
         run
         states => Replica Down ReplicaActive
         lost 2
         map 31 1 0
         run
         states => ReplicaActive WaitReadable ReplicaActive
         time 150
         run
         states => ReplicaActive Active ReplicaActive",
    );
}

#[test]
fn replicas_of_each_interval_are_waited_for() {
    World::new(4).run_script(
        "map 20 0 1 2
         run
         time 100
         lease 0 150
         down 2
         map 30 0 1
         map 40 0 1 3
         run
         states => WaitReadable ReplicaActive ReplicaActive ReplicaActive
         time 150
         run
         states => Active ReplicaActive ReplicaActive ReplicaActive",
    );
}

/// As after the monitors were made anew: no OSD knows what happened since its map, and one of them is dead.
#[test]
fn when_no_copy_has_the_maps_a_dead_osd_is_waited_for_until_it_is_lost() {
    let code = ErasureCode::IsaVandermonde;
    let shards = ErasureLayout { data: 2, parity: 1, unit: 4096, code };
    for mut world in [World::new(4), World::of_shards(shards, &[0, 1, 2, 0])] {
        world.run_script(
            "map 20 0 1 2
             run
             clean => yes
             down 3
             gap 30 0 1 2
             restart 0
             restart 1
             restart 2
             gap 40 0 1 2
             run
             blocked-by 0 => 3
             lost 3
             map 50 0 1 2
             run
             blocked-by 0 =>
             clean => yes",
        );
    }
}

#[test]
fn a_group_that_is_clean_at_once_stores_so_with_that_it_is_active() {
    let mut world = World::new(2);
    world.run_script("size 2\n map 20 0 1\n run\n clean => yes");
    // Three commits: the interval, the activation, and the clean state.
    world.run_script("commits 0 ok ok ok\n commits 1 ok ok ok\n map 30 1 0\n run\n clean => yes");
    assert!(world.nodes.iter().all(|node| !node.has_fates()));
    world.run_script(
        "commits 0 ok ok ok ok\n commits 1 ok ok ok ok\n map 40 0 1\n run\n clean => yes",
    );
    assert!(world.nodes.iter().all(|node| node.has_fates()));
}

#[test]
fn a_replicated_group_drops_messages_of_shards() {
    let mut world = World::new(3);
    world.run_script(
        "map 20 0 1 2
         states => GetInfo Replica Replica",
    );
    let primary = &mut world.nodes[0].pg;
    while primary.poll_output().is_some() {}
    let replicated = Header::replicated(PG, Epoch(20), primary.interval());
    let shard = ShardId::at(3).unwrap();
    let known = primary.peers().count();
    for header in [Header { from: shard, ..replicated }, Header { to: shard, ..replicated }] {
        primary.handle_message(OsdId(1), &header, Body::Info(None));
        assert_eq!(primary.peers().count(), known, "{header:?}");
        assert_eq!(primary.waiting_for().count(), 2, "{header:?}");
    }
    primary.handle_message(OsdId(1), &replicated, Body::Info(None));
    assert_eq!(primary.waiting_for().count(), 1, "the answer of the replica counts");
}
