//! A small cluster in one thread: three OSDs over stores that lose unflushed data, a monitor that
//! only manages up and down, and a client that resends unanswered requests.
//!
//! All events are drawn from a seed: the message that arrives next, the completions of the stores,
//! the crashes. Then the cluster heals and is compared with the replies that the client got.

mod client;
mod lost;
mod monitor;
mod ordering;
mod scrub;
mod waits;
mod world;

use client::{Client, payload};
use engine::Duration;
use store::Change;
use store::crash::CrashOptions;
use types::{Errno, OsdId};
use wire::op::{OpCode, request_flags, watch_op};
use wire::osd_op::WatchArguments;
use wire::watch::{NotifyAck, NotifyRequest, NotifyResult, WatchEvent};
use wire::{OsdOp, OsdReply};
use world::World;

fn results(reply: &OsdReply) -> (i32, Vec<i32>) {
    (reply.result, reply.ops.iter().map(|op| op.result).collect())
}

#[test]
fn what_an_osd_owed_before_it_was_marked_down_does_not_count_against_its_next_life() {
    let mut world = World::started(3);
    let (watcher, watched) = (OsdId(0), OsdId(1));
    world.settle();
    world.lose_heartbeat(watcher, watched);
    world.settle();
    assert!(world.silence(watcher, watched) >= Duration::from_secs(1));
    world.mark_down_wrongly(watched);
    world.settle();
    assert!(world.monitor.map.is_up(watched), "the same process has come up again");
    assert!(world.silence(watcher, watched) < Duration::from_secs(1));
}

#[test]
fn objects_are_written_and_read_back() {
    let mut world = World::started(1);
    let reply = world.call("a", vec![OsdOp::write_full(payload("hello"))]);
    assert_eq!(results(&reply), (0, vec![0]));
    assert_eq!(reply.user_version, reply.version.version);
    let reply = world.call("a", vec![OsdOp::read(0, 0), OsdOp::stat()]);
    assert_eq!(results(&reply), (0, vec![0, 0]));
    assert_eq!(reply.ops[0].output, "hello");
    assert_eq!(world.call("b", vec![OsdOp::stat()]).result, Errno::NOENT.negative());
    let reply = world.call("b", vec![OsdOp::create(true), OsdOp::append(payload("x"))]);
    assert_eq!(reply.result, 0);
    let reply = world.call("b", vec![OsdOp::create(true)]);
    assert_eq!(reply.result, Errno::EXIST.negative());
    assert_eq!(world.call("b", vec![OsdOp::remove()]).result, 0);
    assert_eq!(world.call("b", vec![OsdOp::stat()]).result, Errno::NOENT.negative());
    world.finish();
}

#[test]
fn the_monitor_hears_soon_that_a_group_is_clean() {
    let mut world = World::started(71);
    world.crash(OsdId(2));
    world.wait(5);
    for number in 0..150 {
        let name = format!("object{number}");
        assert_eq!(world.call(&name, vec![OsdOp::write_full(payload(&name))]).result, 0);
    }
    world.restart(OsdId(2));
    // No command requests a report, and the next periodic one would come later.
    world.finish();
    world.settle();
    let clean = wire::internal::pg_state::CLEAN;
    assert!(world.monitor.reported.values().all(|state| state & clean != 0));
}

#[test]
fn listings_page_through_all_objects_of_all_groups() {
    let mut world = World::started(2);
    for number in 0..50 {
        world.call(&format!("object{number}"), vec![OsdOp::create(true)]);
    }
    let mut names = world.list_all(7);
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 50);
}

#[test]
fn a_request_that_is_sent_again_is_answered_once_executed() {
    let mut world = World::started(3);
    let append = vec![OsdOp::append(payload("once"))];
    let first = world.call_with_tid("a", append.clone(), 77);
    let second = world.call_with_tid("a", append, 77);
    assert_eq!((first.result, first.version), (second.result, second.version));
    assert_eq!(world.call("a", vec![OsdOp::read(0, 0)]).ops[0].output, "once");
}

#[test]
fn a_write_that_failed_fails_again_when_it_is_sent_again() {
    let mut world = World::started(3);
    let first = world.call_with_tid("a", vec![OsdOp::remove()], 77);
    assert_eq!(first.result, Errno::NOENT.negative());
    assert_eq!(world.call("a", vec![OsdOp::append(payload("kept"))]).result, 0);
    let second = world.call_with_tid("a", vec![OsdOp::remove()], 77);
    assert_eq!((first.result, first.user_version), (second.result, second.user_version));
    let primary = world.primary_of("a");
    world.crash(primary);
    world.settle();
    let third = world.call_with_tid("a", vec![OsdOp::remove()], 77);
    assert_eq!((first.result, first.version), (third.result, third.version));
    assert_eq!(world.call("a", vec![OsdOp::read(0, 0)]).ops[0].output, "kept");
}

#[test]
fn an_object_is_copied_from_another_group() {
    let mut world = World::started(4);
    let set = OsdOp::xattr(OpCode::SETXATTR, b"name", b"value");
    world.call("source", vec![OsdOp::write_full(payload("content")), set]);
    for number in 0..8 {
        let target = format!("target{number}");
        let reply = world.call(&target, vec![world.copy_from("source")]);
        assert_eq!(reply.result, 0, "{target}");
        let get = OsdOp::xattr(OpCode::GETXATTR, b"name", b"");
        let reply = world.call(&target, vec![OsdOp::read(0, 0), get]);
        assert_eq!(
            (&reply.ops[0].output[..], &reply.ops[1].output[..]),
            (&b"content"[..], &b"value"[..])
        );
    }
    let reply = world.call("target0", vec![world.copy_from("absent")]);
    assert_eq!(reply.result, Errno::NOENT.negative());
    world.finish();
}

#[test]
fn notifications_gather_acknowledgements_and_name_who_missed_them() {
    let mut world = World::started(5);
    world.call("a", vec![OsdOp::create(true)]);
    let watch = |cookie, op| {
        OsdOp::watch(WatchArguments { cookie, op, timeout_seconds: 10, ..Default::default() })
    };
    assert_eq!(world.call("a", vec![watch(1, watch_op::WATCH)]).result, 0);
    assert_eq!(world.call("a", vec![watch(2, watch_op::WATCH)]).result, 0);
    assert_eq!(world.call("a", vec![watch(1, watch_op::PING)]).result, 0);
    assert_eq!(world.call("a", vec![watch(9, watch_op::PING)]).result, -107);

    let request = NotifyRequest { timeout_seconds: 3, payload: payload("news") };
    world.call("a", vec![OsdOp::notify(99, &request)]);
    let events = world.take_events();
    let told: Vec<u64> = events.iter().map(|event| event.cookie).collect();
    assert_eq!(told, [1, 2]);
    assert!(events.iter().all(|event| event.payload == "news"));
    let ack = NotifyAck { notify_id: events[0].notify_id, cookie: 1, reply: payload("seen") };
    world.call("a", vec![OsdOp::notify_ack(&ack)]);
    world.wait(4);
    let events = world.take_events();
    let complete = events.iter().find(|e| e.event == WatchEvent::NotifyComplete).unwrap();
    assert_eq!((complete.cookie, complete.result), (99, Errno::TIMEDOUT.negative()));
    let outcome: NotifyResult = codec::decode_all("outcome", &complete.outcome).unwrap();
    assert_eq!(outcome.replies.values().next().unwrap(), "seen");
    assert_eq!(outcome.missed.len(), 1);

    // Watches without pings time out, and their client is notified.
    world.wait(20);
    let events = world.take_events();
    assert_eq!(events.iter().filter(|e| e.event == WatchEvent::Disconnect).count(), 2);
    let reply = world.call("a", vec![OsdOp::new(OpCode::LIST_WATCHERS)]);
    let listing: wire::watch::WatcherListing =
        codec::decode_all("watchers", &reply.ops[0].output).unwrap();
    assert!(listing.entries.is_empty());
}

#[test]
fn a_watch_survives_its_osd_when_the_client_comes_back() {
    let mut world = World::started(6);
    world.call("a", vec![OsdOp::create(true)]);
    let watch = |op| OsdOp::watch(WatchArguments { cookie: 1, op, ..Default::default() });
    world.call("a", vec![watch(watch_op::WATCH)]);
    let primary = world.primary_of("a");
    world.crash(primary);
    world.restart(primary);
    world.settle();
    assert_eq!(world.call("a", vec![watch(watch_op::PING)]).result, Errno::TIMEDOUT.negative());
    assert_eq!(world.call("a", vec![watch(watch_op::RECONNECT)]).result, 0);
    world.call("a", vec![OsdOp::notify(5, &NotifyRequest::default())]);
    assert_eq!(world.take_events()[0].cookie, 1);
}

#[test]
fn replicas_answer_balanced_reads_or_send_the_client_to_the_primary() {
    let mut world = World::started(7);
    world.call("a", vec![OsdOp::write_full(payload("one"))]);
    world.call("a", vec![OsdOp::write_full(payload("two"))]);
    let flags = request_flags::BALANCE_READS | request_flags::READ;
    for replica in world.replicas_of("a") {
        let reply = world.call_at(replica, "a", vec![OsdOp::read(0, 0)], flags);
        match reply.result {
            0 => assert_eq!(reply.ops[0].output, "two"),
            code => assert_eq!(code, Errno::AGAIN.negative()),
        }
    }
}

/// A cluster whose replicas know that an object is durable, because later writes of its group have told them.
fn with_known_object() -> World {
    let mut world = World::started(7);
    world.call("a", vec![OsdOp::write_full(payload("one"))]);
    for number in 0..30 {
        world.call(&format!("object{number}"), vec![OsdOp::create(false)]);
    }
    world
}

/// Sends a request to a replica that holds a read lease.
fn ask_replica(world: &mut World, op: OsdOp) -> i32 {
    let (primary, replica) = (world.primary_of("a"), world.replicas_of("a")[0]);
    world.lend(primary, replica, 0, Duration::ZERO);
    world.call_at(replica, "a", vec![op], request_flags::BALANCE_READS | request_flags::READ).result
}

/// The primary has an intact copy.
#[test]
fn a_replica_whose_copy_is_damaged_sends_the_client_to_the_primary() {
    for is_data in [true, false] {
        let mut world = with_known_object();
        assert_eq!(ask_replica(&mut world, OsdOp::read(0, 0)), 0);
        let replica = world.replicas_of("a")[0];
        let name = pg::INFO_ATTR;
        match is_data {
            true => world.damage(replica, "a"),
            false => world.tamper("a", replica, |object| Change::RemoveAttr { object, name }),
        }
        assert_eq!(ask_replica(&mut world, OsdOp::read(0, 0)), Errno::AGAIN.negative());
        assert_eq!(world.objects_in_memory(replica, "a"), 0);
        assert_eq!(world.call("a", vec![OsdOp::read(0, 0)]).ops[0].output, "one");
    }
}

/// Notifications and pings are not writes, so a client may balance them; but only the primary knows
/// the watchers and the pending notifications.
#[test]
fn what_is_said_to_watchers_is_not_taken_by_a_replica() {
    let mut world = with_known_object();
    assert_eq!(ask_replica(&mut world, OsdOp::stat()), 0);
    let ping = WatchArguments { cookie: 1, op: watch_op::PING, ..Default::default() };
    for op in [
        OsdOp::notify(5, &NotifyRequest::default()),
        OsdOp::notify_ack(&NotifyAck::default()),
        OsdOp::watch(ping),
    ] {
        assert_eq!(ask_replica(&mut world, op), Errno::AGAIN.negative());
    }
}

/// Overlapping reads keep the object's context on the replica; a write, which bypasses that
/// context, must invalidate it.
#[test]
fn a_replica_answers_reads_that_overlap_with_what_was_acknowledged_before_each() {
    let flags = request_flags::BALANCE_READS | request_flags::READ;
    let (mut served, mut prng) = (0, stdx::Prng::new(5));
    for seed in 0..20 {
        // Slow reads: a write begins and becomes durable meanwhile.
        let read_delay = Duration::ZERO..=Duration::from_millis(40);
        let commit_delay = Duration::ZERO..=Duration::from_millis(1);
        let slow = CrashOptions { read_delay, commit_delay, ..CrashOptions::default() };
        let mut world = World::with_stores(seed, 3, slow);
        world.call("a", vec![OsdOp::append(payload("."))]);
        let (primary, replica) = (world.primary_of("a"), world.replicas_of("a")[0]);
        let mut appends = std::collections::BTreeSet::new();
        // Writes to this object tell the replica which earlier ones are durable.
        let neighbour = world.neighbour_of("a");
        let (mut acknowledged, mut least) = (1, std::collections::BTreeMap::new());
        for round in 0..300 {
            let tid = world.next_tid();
            let append = || vec![OsdOp::append(payload("."))];
            world.lend(primary, replica, 0, Duration::ZERO);
            match round % 30 {
                0 => world.send(None, "a", append(), request_flags::WRITE, tid),
                10 | 15 | 20 => world.send(None, &neighbour, append(), request_flags::WRITE, tid),
                _ => {
                    let read = vec![OsdOp::stat(), OsdOp::read(0, 0)];
                    world.send(Some(replica), "a", read, flags, tid);
                    least.insert(tid, acknowledged);
                }
            }
            appends.extend((round % 30 == 0).then_some(tid));
            world.steps(2 + prng.below(8));
            for (tid, reply) in std::mem::take(&mut world.replies) {
                acknowledged += usize::from(appends.contains(&tid));
                let Some(least) = least.get(&tid) else { continue };
                if reply.result == 0 {
                    let (size, data) = (&reply.ops[0].output, &reply.ops[1].output);
                    let size = u64::from_le_bytes(size[..8].try_into().unwrap()) as usize;
                    assert!(size >= *least, "seed {seed}: {size} bytes, but {least} are written");
                    assert_eq!(data.len(), size, "seed {seed}");
                    served += 1;
                }
            }
        }
    }
    assert!(served > 100, "replicas answered {served} reads");
}

/// A primary with a newer map may have other members, and one with an older map may hold leases of
/// other members: a lease for replicas counts only with the map by which it was told.
#[test]
fn a_replica_answers_no_reads_by_what_was_lent_with_other_members() {
    let flags = request_flags::BALANCE_READS | request_flags::READ;
    let (second, read) = (Duration::from_secs(1), || vec![OsdOp::read(0, 0)]);
    for (ahead, in_the_future, result) in [
        (0, Duration::ZERO, 0),
        (1, Duration::ZERO, Errno::AGAIN.negative()),
        (i32::MIN, Duration::ZERO, Errno::AGAIN.negative()),
        // A time of an earlier incarnation, on another clock.
        (0, second, Errno::AGAIN.negative()),
    ] {
        let mut world = with_known_object();
        // Longer than all leases last.
        world.wait(30);
        let (primary, replica) = (world.primary_of("a"), world.replicas_of("a")[0]);
        world.lend(primary, replica, ahead, in_the_future);
        assert_eq!(world.call_at(replica, "a", read(), flags).result, result, "{ahead}");
    }
}

/// Its clock may have gone back when it restarted.
#[test]
fn promises_for_another_life_of_the_primary_are_none() {
    for (in_the_future, holds) in [(0, true), (3600, false)] {
        let mut world = World::started(7);
        world.call("a", vec![OsdOp::write_full(payload("one"))]);
        world.wait(30);
        let (asked, soon) = (Duration::from_secs(in_the_future), Duration::from_millis(100));
        assert_eq!(world.grant_lease("a", asked, soon), holds, "{in_the_future}");
    }
}

#[test]
fn locks_are_taken_through_the_class() {
    let mut world = World::started(8);
    let mut w = codec::Writer::new();
    w.versioned(1, 1, |w| {
        w.string("name");
        w.u8(1);
        ["cookie", "", "description"].iter().for_each(|text| w.string(text));
        w.value(&types::UTime::ZERO);
        w.u8(0);
    });
    let lock = || vec![OsdOp::call("lock", "lock", w.as_slice())];
    assert_eq!(world.call("a", lock()).result, 0);
    assert_eq!(world.call("a", lock()).result, Errno::EXIST.negative());
    let unknown = vec![OsdOp::call("nonesuch", "method", b"")];
    assert_eq!(world.call("a", unknown).result, Errno::NOTSUPP.negative());
}

#[test]
fn full_disks_refuse_writes_on_all_members_and_recover_by_deletions() {
    let options = CrashOptions { capacity: Some(4 << 20), ..CrashOptions::default() };
    let mut world = World::with_stores(9, 3, options);
    let mut written = Vec::new();
    for round in 0..30 {
        let names = (0..8).map(|number| format!("object{round}.{number}"));
        let sent: Vec<(u64, String)> = names.map(|name| (world.next_tid(), name)).collect();
        for (tid, name) in &sent {
            let ops = vec![OsdOp::append(vec![1; 20_000].into())];
            world.send(None, name, ops, request_flags::WRITE, *tid);
        }
        for (tid, name) in sent {
            match world.await_reply(tid).result {
                0 => written.push(name),
                code => assert_eq!(code, Errno::NOSPC.negative()),
            }
        }
    }
    assert!((150..210).contains(&written.len()), "{}", written.len());
    for name in &written {
        assert_eq!(world.call(name, vec![OsdOp::remove()]).result, 0);
    }
    world.wait(6);
    assert_eq!(world.call("a", vec![OsdOp::append(payload("again"))]).result, 0);
    world.finish();
}

/// A copy beyond the log's reach is backfilled while such writes arrive.
#[test]
fn a_write_that_reads_first_is_not_lost_by_a_recovery_that_begins_meanwhile() {
    for seed in 80..100 {
        let mut world = World::with_size(seed, 2);
        let append = || OsdOp::append(payload("a"));
        world.call("a", vec![append()]);
        let replica = world.replicas_of("a")[0];
        world.crash(replica);
        world.wait(5);
        for _ in 0..pg::LOG_ENTRIES_MAX {
            world.call("a", vec![append()]);
        }
        world.restart(replica);
        world.wait_until(World::is_filling_in);
        for _ in 0..40 {
            let plain = world.next_tid();
            world.send(None, "a", vec![append()], request_flags::WRITE, plain);
            let (reading, flags) = (world.next_tid(), request_flags::READ | request_flags::WRITE);
            world.send(None, "a", vec![OsdOp::read(0, 1), append()], flags, reading);
            world.await_reply(reading);
        }
        world.finish();
    }
}

/// Writes from a client while OSDs crash and restart, with all events in random order.
fn chaos(seed: u64, size: u8, refusals_per_million: u64) {
    chaos_with(seed, size, refusals_per_million, |_| {});
}

/// Likewise; `happens` is called after each step.
fn chaos_with(seed: u64, size: u8, refusals_per_million: u64, happens: impl Fn(&mut World)) {
    let options = CrashOptions { refusals_per_million, ..CrashOptions::default() };
    let mut world = World::with_stores(seed, size, options);
    let mut client = Client::new(seed, refusals_per_million > 0);
    for _ in 0..800 {
        world.random_step();
        happens(&mut world);
        client.act(&mut world);
    }
    world.heal();
    client.finish(&mut world);
    world.finish();
    client.check(&mut world);
}

#[test]
fn nothing_acknowledged_is_lost_and_replicas_are_equal() {
    for seed in 0..40 {
        chaos(seed, 3, 0);
    }
}

#[test]
fn a_pool_of_two_copies_that_serves_with_one_loses_nothing_either() {
    for seed in 0..40 {
        chaos(seed, 2, 0);
    }
}

#[test]
fn groups_that_are_divided_meanwhile_lose_nothing() {
    for seed in 0..60 {
        chaos_with(seed, 2 + (seed % 2) as u8, 0, World::divide_groups_sometimes);
    }
}

#[test]
fn groups_are_divided_although_stores_refuse_writes_now_and_then() {
    for seed in 0..40 {
        chaos_with(seed, 3, 3000, World::divide_groups_sometimes);
    }
}

#[test]
fn a_request_is_found_where_its_object_went() {
    let mut world = World::started(10);
    let names: Vec<String> = (0..16).map(|number| format!("object{number}")).collect();
    let append = || vec![OsdOp::append(payload("once"))];
    for (tid, name) in (77..).zip(&names) {
        assert_eq!(world.call_with_tid(name, append(), tid).result, 0);
    }
    world.divide_groups();
    world.finish();
    for (tid, name) in (77..).zip(&names) {
        assert_eq!(world.call_with_tid(name, append(), tid).result, 0);
        assert_eq!(world.call(name, vec![OsdOp::read(0, 0)]).ops[0].output, "once");
    }
    world.finish();
    assert_eq!(world.list_all(3).len(), names.len());
}

#[test]
fn stores_that_refuse_writes_now_and_then_lose_nothing() {
    for seed in 0..40 {
        chaos(seed, 3, 3000);
    }
}
