//! The client against a cluster in memory: targets, resends and results.

mod fake;

use bytes::Bytes;
use engine::{ConnId, Daemon, Duration};
use fake::{OSDS, POOL, World};
use maps::OsdState;
use rados::{
    CommandTarget, ListRequest, OpId, Operation, OperationReply, Place, Reply, WatchEvent,
};
use std::collections::BTreeSet;
use types::features::SUPPORTED;
use types::{Epoch, Errno, HObject, OsdId, PgId, PgShard, PoolId};
use wire::op::request_flags;
use wire::watch::NotifyRequest;
use wire::{BackoffOp, MessageBody, OsdBackoff, OsdOp};

fn operation(name: &str, op: OsdOp) -> Operation {
    Operation::new(Place::new(POOL, name.to_owned()), vec![op])
}

fn put(world: &mut World, name: &str, data: &'static [u8]) -> OpId {
    world.client.submit(world.now, operation(name, OsdOp::write_full(Bytes::from_static(data))))
}

fn reply(world: &mut World, id: OpId) -> OperationReply {
    match world.outcome(id).1 {
        Ok(Reply::Operation(reply)) => reply,
        other => panic!("unexpected {other:?}"),
    }
}

/// The OSD that serves an object.
fn osd_of(world: &World, name: &str) -> usize {
    let (pg, _) = world.map.object_to_pg(POOL, b"", b"", name.as_bytes()).unwrap();
    world.map.pg_to_osds(pg).acting_primary.unwrap().0 as usize
}

#[test]
fn what_was_written_is_read() {
    let mut world = World::new(4);
    for name in ["a", "b", "c", "d"] {
        let id = put(&mut world, name, b"hello");
        assert_eq!(reply(&mut world, id).result, 0);
        let id = world.client.submit(world.now, operation(name, OsdOp::read(0, 0)));
        assert_eq!(reply(&mut world, id).ops[0].output, "hello");
        assert_eq!(world.osds[osd_of(&world, name)].objects.len(), 1, "{name}");
        let id = world.client.submit(world.now, operation(name, OsdOp::remove()));
        assert_eq!(reply(&mut world, id).result, 0);
    }
    let id = world.client.submit(world.now, operation("a", OsdOp::read(0, 0)));
    assert_eq!(world.outcome(id).1, Err(Errno::NOENT));
    assert_eq!(world.client.in_flight(), 0);
}

#[test]
fn an_unknown_pool_is_an_error_only_if_the_newest_map_lacks_it() {
    let mut world = World::new(4);
    let place = Place::new(PoolId(9), "x");
    let id = world.client.submit(world.now, Operation::new(place, vec![OsdOp::stat()]));
    assert_eq!(world.outcome(id).1, Err(Errno::NOENT));
}

#[test]
fn the_newest_map_can_be_waited_for() {
    let mut world = World::new(4);
    let id = world.client.fetch_map();
    let epoch = world.map.epoch;
    assert_eq!(world.outcome(id).1, Ok(Reply::Map(epoch)));
    assert_eq!(world.client.pool_id("data"), Some(POOL));
    assert_eq!(world.client.osd_map().unwrap().epoch, epoch);
}

#[test]
fn a_listing_visits_every_object_once() {
    for pg_num in [1, 3, 5, 8] {
        let mut world = World::new(pg_num);
        let names: BTreeSet<String> = (0..100).map(|number| format!("object{number}")).collect();
        for name in &names {
            put(&mut world, name, b"");
        }
        world.run_for(Duration::from_secs(1));
        let (mut cursor, mut listed) = (None, Vec::new());
        loop {
            let request = ListRequest { pool: POOL, namespace: None, cursor, entries_max: 7 };
            let id = world.client.list(world.now, request);
            let Ok(Reply::Page(page)) = world.outcome(id).1 else { panic!("no page") };
            listed
                .extend(page.objects.iter().map(|o| String::from_utf8_lossy(&o.name).into_owned()));
            cursor = page.cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(listed.len(), names.len(), "{pg_num} placement groups");
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), names);
    }
}

#[test]
fn a_lost_session_is_opened_again_and_operations_are_executed_once() {
    let mut world = World::new(1);
    put(&mut world, "warm", b"up");
    world.run_for(Duration::from_secs(1));
    world.osds[0].is_silent = true;
    let id = put(&mut world, "a", b"x");
    world.run_for(Duration::from_secs(1));
    world.cut(0);
    world.osds[0].is_silent = false;
    assert_eq!(reply(&mut world, id).result, 0);
    let attempts: Vec<i32> =
        world.osds[0].requests.iter().filter(|(tid, _)| *tid == id.0).map(|(_, a)| *a).collect();
    assert_eq!(attempts, [0, 1]);
    assert_eq!(world.osds[0].executions, 2);
}

#[test]
fn an_unreachable_osd_is_tried_again_with_growing_pauses() {
    let mut world = World::new(1);
    world.osds[0].is_unreachable = true;
    let id = put(&mut world, "a", b"x");
    world.run_for(Duration::from_secs(60));
    let tries = world.connects;
    assert!((10..40).contains(&tries), "{tries} tries");
    world.osds[0].is_unreachable = false;
    assert_eq!(reply(&mut world, id).result, 0);
}

#[test]
fn a_new_map_moves_operations_to_the_new_primary_in_order() {
    let mut world = World::new(1);
    put(&mut world, "warm", b"up");
    world.run_for(Duration::from_secs(1));
    world.osds[0].is_silent = true;
    let ids: Vec<OpId> = (0..5).map(|_| put(&mut world, "a", b"x")).collect();
    world.settle();
    world.place(1, |_| OsdId(2));
    for id in &ids {
        assert_eq!(reply(&mut world, *id).result, 0);
    }
    let arrived: Vec<u64> = world.osds[2].requests.iter().map(|(tid, _)| *tid).collect();
    assert_eq!(arrived, ids.iter().map(|id| id.0).collect::<Vec<_>>());
}

#[test]
fn a_balanced_read_that_a_member_does_not_serve_goes_to_the_primary() {
    let mut world = World::new(1);
    put(&mut world, "a", b"x");
    world.run_for(Duration::from_secs(1));
    let pg = PgId { pool: POOL, seed: 0 };
    world.change_map(|map| {
        map.new_pg_temp.insert(pg, vec![OsdId(0), OsdId(1)]);
    });
    world.osds[1].refers = true;
    for _ in 0..4 {
        let mut read = operation("a", OsdOp::read(0, 0));
        read.flags |= request_flags::BALANCE_READS;
        let id = world.client.submit(world.now, read);
        assert_eq!(reply(&mut world, id).ops[0].output, "x");
    }
    assert_eq!(world.osds[1].requests.len(), 2);
}

#[test]
fn operations_wait_while_no_osd_serves_them() {
    let mut world = World::new(1);
    world.run_for(Duration::from_secs(1));
    world.change_map(|map| {
        map.new_state.insert(OsdId(0), OsdState::UP);
    });
    let id = put(&mut world, "a", b"x");
    world.run_for(Duration::from_secs(100));
    assert!(world.completions.is_empty());
    world.place(1, |_| OsdId(1));
    assert_eq!(reply(&mut world, id).result, 0);
    assert_eq!(world.osds[1].objects.len(), 1);
}

#[test]
fn a_backoff_holds_operations_until_it_ends() {
    let mut world = World::new(1);
    put(&mut world, "warm", b"up");
    world.run_for(Duration::from_secs(1));
    // Sessions are numbered in the order in which they are opened: the monitor's, then the OSD's.
    let conn = ConnId(2);
    let pg = PgShard::replicated(PgId { pool: POOL, seed: 0 });
    let begin = HObject::hash_start(POOL, 0);
    let backoff = |op| OsdBackoff {
        pg,
        map_epoch: Epoch(1),
        op,
        id: 1,
        begin: begin.clone(),
        end: HObject::max(),
    };
    world.deliver(vec![(conn, backoff(BackoffOp::Block).encode(SUPPORTED))]);
    let id = put(&mut world, "a", b"x");
    world.run_for(Duration::from_secs(9));
    assert!(!world.completions.contains_key(&id));
    world.deliver(vec![(conn, backoff(BackoffOp::Unblock).encode(SUPPORTED))]);
    assert_eq!(reply(&mut world, id).result, 0);
}

#[test]
fn commands_reach_the_monitor_and_single_osds() {
    let mut world = World::new(1);
    let text = r#"{"prefix": "status"}"#;
    for target in [CommandTarget::Monitor, CommandTarget::Osd(OsdId(1))] {
        let id = world.client.command(world.now, target, text, Bytes::new());
        let Ok(Reply::Command(output)) = world.outcome(id).1 else { panic!("no output") };
        assert_eq!((output.result, output.text.as_str()), (0, text));
    }
    let target = CommandTarget::Osd(OsdId(OSDS));
    let id = world.client.command(world.now, target, text, Bytes::new());
    assert_eq!(world.outcome(id).1, Err(Errno::NXIO));
}

#[test]
fn everything_completes_in_the_time_that_is_set() {
    let mut world = World::with_timeout(1, Some(Duration::from_secs(5)));
    world.osds[0].is_silent = true;
    let id = put(&mut world, "a", b"x");
    world.run_for(Duration::from_secs(4));
    assert!(world.completions.is_empty());
    assert_eq!(world.outcome(id).1, Err(Errno::TIMEDOUT));
    assert_eq!(world.client.in_flight(), 0);
}

fn watched(world: &mut World) -> rados::WatchId {
    let id = world.client.watch(world.now, Place::new(POOL, "a"), None);
    match world.outcome(id).1 {
        Ok(Reply::Watching(watch)) => watch,
        other => panic!("unexpected {other:?}"),
    }
}

fn notify_and_answer(world: &mut World) {
    let request = NotifyRequest { timeout_seconds: 9, payload: "hello".into() };
    let id = world.client.notify(world.now, Place::new(POOL, "a"), &request);
    world.run_for(Duration::from_secs(1));
    let Some(WatchEvent::Notified { watch, notify_id, payload, .. }) =
        world.client.poll_watch_event()
    else {
        panic!("not notified")
    };
    assert_eq!(payload, "hello");
    assert!(!world.completions.contains_key(&id));
    world.client.acknowledge(world.now, watch, notify_id, "yes".into());
    let Ok(Reply::Notified(result)) = world.outcome(id).1 else { panic!("no outcome") };
    assert_eq!(result.replies[&(0, watch.0)], "yes");
}

#[test]
fn notifications_reach_watchers_and_replies_come_back() {
    let mut world = World::new(1);
    let watch = watched(&mut world);
    notify_and_answer(&mut world);
    let id = world.client.unwatch(world.now, watch);
    assert_eq!(reply(&mut world, id).result, 0);
    assert!(world.osds[0].watchers.is_empty());
}

#[test]
fn a_watch_is_registered_again_after_a_lost_session_and_a_move() {
    let mut world = World::new(1);
    watched(&mut world);
    world.cut(0);
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.osds[0].registrations, [(3, 0), (5, 1)]);
    notify_and_answer(&mut world);
    world.place(1, |_| OsdId(2));
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.osds[2].registrations, [(5, 2)]);
    notify_and_answer(&mut world);
}

/// Each change begins a new interval of the group, in which its primary drops notifications.
#[test]
fn a_notification_is_sent_again_when_a_size_of_its_pool_changes() {
    let mut world = World::new(1);
    watched(&mut world);
    let request = NotifyRequest { timeout_seconds: 9, payload: "hello".into() };
    let id = world.client.notify(world.now, Place::new(POOL, "a"), &request);
    world.settle();
    let changes: [fn(&mut maps::Pool); 2] = [|pool| pool.min_size += 1, |pool| pool.size += 1];
    for change in changes {
        let mut pool = world.map.pools[&POOL].clone();
        change(&mut pool);
        world.change_map(|map| drop(map.new_pools.insert(POOL, pool)));
        world.settle();
    }
    let sent = world.osds[0].requests.iter().filter(|(tid, _)| *tid == id.0);
    assert_eq!(sent.map(|(_, attempt)| *attempt).collect::<Vec<_>>(), [0, 1, 2]);
}

/// An OSD answers a resent registration from its log, which does not connect the watch.
#[test]
fn what_registers_a_watch_is_another_request_on_another_session() {
    let mut world = World::new(1);
    world.osds[0].is_mute = true;
    let id = world.client.watch(world.now, Place::new(POOL, "a"), None);
    world.run_for(Duration::from_secs(1));
    world.osds[0].is_mute = false;
    world.cut(0);
    assert!(world.outcome(id).1.is_ok());
    world.run_for(Duration::from_secs(60));
    assert_eq!(world.osds[0].registrations, [(3, 0), (3, 0)]);
    assert_eq!(world.client.poll_watch_event(), None);
    notify_and_answer(&mut world);
}

#[test]
fn a_ping_whose_session_ends_makes_its_watch_be_registered_again() {
    let mut world = World::new(1);
    let watch = watched(&mut world);
    world.osds[0].is_silent = true;
    world.run_for(Duration::from_secs(11));
    world.osds[0].is_silent = false;
    world.cut(0);
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.osds[0].registrations, [(3, 0), (5, 1)]);
    assert_eq!(world.client.poll_watch_event(), None);
    assert!(world.osds[0].watchers.contains_key(&watch.0));
}

#[test]
fn a_watch_is_confirmed_as_of_when_that_was_asked_for() {
    let mut world = World::new(1);
    let (begun, watch) = (world.now, watched(&mut world));
    assert_eq!(world.client.watch_confirmed(watch), Some(begun + Duration::from_secs(20)));
    world.osds[0].is_silent = true;
    world.run_for(Duration::from_secs(60));
    assert_eq!(world.client.watch_confirmed(watch), Some(begun + Duration::from_secs(20)));
    world.client.unwatch(world.now, watch);
    assert_eq!(world.client.watch_confirmed(watch), None);
}

#[test]
fn a_ping_that_is_on_its_way_asks_for_no_time() {
    let mut world = World::new(1);
    watched(&mut world);
    world.now = world.now + Duration::from_secs(11);
    world.client.handle_timeout(world.now);
    assert!(world.client.poll_timeout().is_none_or(|due| due > world.now));
}

#[test]
fn a_watch_that_the_osd_forgot_is_lost() {
    let mut world = World::new(1);
    let watch = watched(&mut world);
    world.osds[0].watchers.clear();
    world.run_for(Duration::from_secs(31));
    let lost = WatchEvent::Lost { watch, error: Errno::NOTCONN };
    assert_eq!(world.client.poll_watch_event(), Some(lost));
}

#[test]
fn a_watch_that_ends_before_its_registration_is_answered_has_failed() {
    let mut world = World::new(1);
    world.osds[0].is_mute = true;
    let id = world.client.watch(world.now, Place::new(POOL, "a"), None);
    world.run_for(Duration::from_secs(1));
    let (cookie, conn) = world.osds[0].watchers.pop_first().expect("it watches");
    let event = wire::watch::WatchEvent::Disconnect;
    let ended = wire::WatchNotify { event, cookie, ..Default::default() };
    world.deliver(vec![(conn, ended.encode(types::features::SUPPORTED))]);
    // The reply comes late.
    world.osds[0].is_mute = false;
    world.cut(0);
    assert_eq!(world.outcome(id).1, Err(Errno::NOTCONN));
    assert_eq!(world.client.poll_watch_event(), None);
}

#[test]
fn a_closed_monitor_session_is_replaced_and_questions_are_asked_again() {
    let mut world = World::new(1);
    world.run_for(Duration::from_secs(1));
    world.client.handle_closed(world.now, ConnId(1));
    let id = world.client.fetch_map();
    let epoch = world.map.epoch;
    assert_eq!(world.outcome(id).1, Ok(Reply::Map(epoch)));
}
