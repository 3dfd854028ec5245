//! Several clients on the same files: each sees the others' changes.

use super::*;

#[test]
fn a_truncation_by_another_client_leaves_the_writer_buffers_that_it_must_cut() {
    let mut world = World::new(&[1, 2]);
    let file = world.create(1, "file");
    let arguments = SetattrArguments { size: 7, mask: setattr_mask::SIZE, ..Default::default() };
    let arguments = RequestArguments::of(&arguments);
    world.submit(2, ClientRequest { arguments, ..request(ClientOp::SETATTR, "file") });
    let asked = world.obey(1, |answer| {
        answer.size = 100;
        answer.dirty = CapBits::FILE_WRITE;
        answer.wanted = file.cap.wanted;
    });
    assert_eq!(asked.caps.to_string(), "pAsxLsXsxFcb");
    let stat = world.take::<ClientReply>(2).target.unwrap();
    assert_eq!((stat.size, stat.truncate_seq, stat.truncate_size), (7, 2, 7));
    assert_eq!(world.take::<ClientCaps>(1).op, CapOp::FLUSH_ACK);
    let told: ClientCaps = world.take(1);
    assert_eq!(
        (told.op, told.size, told.truncate_seq, told.truncate_size),
        (CapOp::GRANT, 7, 2, 7)
    );
    assert!(told.caps.contains(CapBits::FILE_BUFFER));
    let granted: ClientCaps = world.take(1);
    assert!(granted.caps.contains(CapBits::FILE_WRITE), "the writer goes on");
}

#[test]
fn a_mode_that_a_client_has_changed_by_itself_is_seen_by_another_one() {
    let mut world = World::new(&[1, 2]);
    let file = world.create(1, "file");
    assert!(file.cap.caps.contains(CapBits::AUTH_EXCL));
    world.submit(2, look_up("file"));
    world.obey(1, |answer| {
        answer.mode = 0o100_600;
        answer.ctime = UTime { seconds: 500, nanoseconds: 0 };
        answer.dirty = CapBits::AUTH_EXCL;
        answer.wanted = file.cap.wanted;
    });
    let seen = world.take::<ClientReply>(2).target.unwrap();
    assert_eq!((seen.mode, seen.ctime.seconds), (0o100_600, 500));
}

#[test]
fn two_writers_read_and_write_without_caches_and_a_stat_sees_the_size_of_both() {
    let mut world = World::new(&[1, 2, 3]);
    let one = world.create(1, "file");
    let two = world.create(2, "file");
    assert_eq!(two.cap.caps, CapBits::PIN | CapBits::LINK_SHARED, "the first one is asked");
    let asked = world.take_about(1, one.ino);
    world.answer(1, asked, |answer| answer.wanted = one.cap.wanted);
    let mixed = "pAsLsXsFrw";
    let granted = world.take_about(2, one.ino);
    assert_eq!((granted.op, granted.caps.to_string()), (CapOp::GRANT, mixed.to_owned()));
    world.submit(3, look_up("file"));
    for (client, size, wanted) in [(1, 50, one.cap.wanted), (2, 70, two.cap.wanted)] {
        assert!(world.try_take::<ClientReply>(3).is_none(), "it waits for both");
        let asked = world.take_about(client, one.ino);
        world.answer(client, asked, |answer| {
            answer.size = size;
            answer.dirty = CapBits::FILE_WRITE;
            answer.wanted = wanted;
        });
    }
    assert_eq!(world.take::<ClientReply>(3).target.unwrap().size, 70);
    for client in [1, 2] {
        assert_eq!(world.take_about(client, one.ino).op, CapOp::FLUSH_ACK);
        let granted = world.take_about(client, one.ino);
        assert_eq!(granted.caps.to_string(), mixed, "client {client} goes on");
    }
}

#[test]
fn an_entry_that_a_client_may_trust_is_taken_from_it_before_it_changes() {
    let mut world = World::new(&[1, 2]);
    world.create(1, "file");
    // Client 1 has the root for itself, so client 2 gets only a lease.
    let lease = world.ask(2, request(ClientOp::LOOKUP, "file")).dentry.unwrap().lease;
    assert_eq!((lease.mask & LeaseStat::VALID != 0, lease.duration_ms), (true, 30_000));
    world.submit(1, request(ClientOp::UNLINK, "file"));
    let (_, revoked) = world.try_take::<ClientLease>(2).expect("the lease is revoked");
    assert_eq!((revoked.action, &revoked.name[..]), (ClientLease::REVOKE, &b"file"[..]));
    while world.obey_oldest(1) || world.obey_oldest(2) {}
    assert!(world.try_take::<ClientReply>(1).is_none(), "the lease is not given back");
    let answer = ClientLease { action: ClientLease::REVOKE_ACK, ..revoked };
    world.send(2, &answer.encode(0));
    assert_eq!(world.take::<ClientReply>(1).result, 0);
    assert_eq!(world.ask(2, request(ClientOp::LOOKUP, "file")).result, Errno::NOENT.negative());
}

#[test]
fn a_lease_that_is_not_given_back_is_waited_for_until_it_ends() {
    let mut world = World::new(&[1, 2]);
    world.create(1, "file");
    world.ask(2, request(ClientOp::LOOKUP, "file"));
    world.submit(1, request(ClientOp::UNLINK, "file"));
    let _: ClientLease = world.take(2);
    while world.obey_oldest(1) || world.obey_oldest(2) {}
    assert!(world.try_take::<ClientReply>(1).is_none());
    world.pass(Duration::from_secs(31));
    assert_eq!(world.take::<ClientReply>(1).result, 0);
}

#[test]
fn attributes_of_a_writer_are_written_back_before_another_client_sees_them() {
    let mut world = World::new(&[1, 2]);
    world.create(1, "file");
    world.submit(2, look_up("file"));
    assert!(world.try_take::<ClientReply>(2).is_none(), "the writer is asked first");
    world.obey(1, |answer| {
        answer.size = 1000;
        answer.dirty = CapBits::FILE_WRITE;
    });
    let reply: ClientReply = world.take(2);
    assert_eq!(reply.target.unwrap().size, 1000);
    let (tid, acknowledged) = world.try_take::<ClientCaps>(1).unwrap();
    assert_eq!(
        (tid, acknowledged.op, acknowledged.dirty),
        (77, CapOp::FLUSH_ACK, CapBits::FILE_WRITE)
    );
    let granted: ClientCaps = world.take(1);
    assert_eq!(granted.op, CapOp::GRANT);
    assert!(granted.caps.contains(CapBits::FILE_WRITE), "the writer goes on");
}

#[test]
fn an_entry_changes_only_when_no_other_client_relies_on_the_directory() {
    let mut world = World::new(&[1, 2]);
    world.ask(1, readdir("", 0, Bytes::new()));
    world.submit(2, mkdir("dir"));
    assert!(world.try_take::<ClientReply>(2).is_none());
    let asked = world.obey(1, |_| ());
    assert_eq!((asked.ino, asked.caps.to_string()), (1, "pAsxLsXs".to_owned()));
    assert_eq!(world.take::<ClientReply>(2).result, 0);
    // The new directory belongs to its creator, which gives it back in turn.
    world.submit(1, look_up("dir"));
    world.obey(2, |_| ());
    assert_eq!(world.take::<ClientReply>(1).result, 0);
}

fn lock(rule: u8, kind: u8, start: u64, wait: bool) -> ClientRequest {
    let wait = u8::from(wait);
    let arguments = wire::client_request::FileLockArguments {
        rule,
        kind,
        owner: 9,
        pid: 77,
        start,
        length: 10,
        wait,
    };
    let arguments = RequestArguments::of(&arguments);
    ClientRequest { arguments, ..request(ClientOp::SETFILELOCK, "file") }
}

#[test]
fn file_locks_of_two_clients_wait_for_each_other() {
    const FCNTL: u8 = 1;
    const FCNTL_INTERRUPTED: u8 = 3;
    const EXCLUSIVE: u8 = 2;
    const UNLOCK: u8 = 4;
    let mut world = World::new(&[1, 2, 3]);
    world.create(1, "file");
    assert_eq!(world.ask(1, lock(FCNTL, EXCLUSIVE, 0, true)).result, 0);
    let refused = world.ask(2, lock(FCNTL, EXCLUSIVE, 5, false));
    assert_eq!(refused.result, Errno::AGAIN.negative());
    let question = ClientRequest { op: ClientOp::GETFILELOCK, ..lock(FCNTL, EXCLUSIVE, 5, false) };
    let found = world.ask(2, question).extra;
    let mut r = codec::Reader::new(&found);
    let values: Vec<u64> = (0..5).map(|_| r.u64("value").unwrap()).collect();
    assert_eq!((values, r.u8("kind").unwrap()), (vec![0, 10, 1, 9, 77], EXCLUSIVE));
    let waits = world.submit(2, lock(FCNTL, EXCLUSIVE, 5, true));
    world.submit(3, lock(FCNTL, EXCLUSIVE, 0, true));
    assert!(world.try_take::<ClientReply>(2).is_none());
    // The second owner would wait for itself.
    assert_eq!(world.ask(2, lock(FCNTL, EXCLUSIVE, 30, true)).result, 0);
    let circle = world.ask(1, lock(FCNTL, EXCLUSIVE, 30, true));
    assert_eq!(circle.result, Errno::DEADLK.negative());
    assert_eq!(world.ask(1, lock(FCNTL, UNLOCK, 0, false)).result, 0);
    let (tid, reply) = world.try_take::<ClientReply>(2).expect("it has the lock");
    assert_eq!((tid, reply.result), (waits, 0));
    // An interrupted request is answered, and one waits no more when the client that holds the lock goes.
    world.submit(1, lock(FCNTL, EXCLUSIVE, 5, true));
    let interrupted = lock(FCNTL_INTERRUPTED, UNLOCK, 5, false);
    world.submit(1, interrupted);
    let answers = [(); 2].map(|()| world.take::<ClientReply>(1).result);
    assert_eq!(answers, [Errno::INTR.negative(), 0]);
    assert!(world.try_take::<ClientReply>(3).is_none());
    world.send(2, &ClientSession::new(SessionOp::REQUEST_CLOSE, 99).encode(0));
    assert_eq!(world.take::<ClientReply>(3).result, 0);
}

/// The client may still write to it. Its next session does not have the capability.
#[test]
fn an_open_file_without_a_name_outlives_a_session_whose_connection_is_lost() {
    let mut world = World::new(&[1, 2]);
    let lost = world.create(1, "lost");
    let ended = world.create(1, "ended");
    for name in ["lost", "ended"] {
        world.submit(2, request(ClientOp::UNLINK, name));
        while let Some((_, told)) = world.try_take::<ClientCaps>(1) {
            if told.op == CapOp::REVOKE {
                world.answer(1, told, |_| ());
            }
        }
        assert_eq!(world.take::<ClientReply>(2).result, 0);
    }
    let has = |world: &World, ino| world.rank.tree().get(namespace::Ino(ino)).is_some();
    assert!(has(&world, lost.ino) && has(&world, ended.ino));
    let release = ClientCapRelease {
        items: vec![CapItem { ino: ended.ino, cap_id: ended.cap.cap_id, mseq: 0, issue_seq: 99 }],
        ..ClientCapRelease::default()
    };
    world.send(1, &release.encode(0));
    assert!(!has(&world, ended.ino), "no client has it open");
    crate::rank::reconnect::connected_anew(&mut world.rank, &peer(1));
    world.take_outputs();
    assert!(has(&world, lost.ino));
}

#[test]
fn a_request_that_waits_for_another_client_is_shown_to_administrators() {
    use crate::rank::shown;
    let mut world = World::new(&[1, 2]);
    let file = world.create(1, "file");
    world.submit(2, look_up("file"));
    let ops = shown::operations(&world.rank, world.now, false);
    let description = ops["ops"][0]["description"].as_str().unwrap();
    assert_eq!((&ops["num_ops"], description.contains("lookup #0x1/file")), (&1.into(), true));
    assert_eq!(shown::operations(&world.rank, world.now, true)["num_blocked_ops"], 0);
    let later = world.now + Duration::from_secs(30);
    assert_eq!(shown::operations(&world.rank, later, true)["num_blocked_ops"], 1);
    let shown_of = |world: &World, client: u64| {
        let filter = crate::commands::filter::Filter::parse(&[client.to_string()]).unwrap();
        shown::sessions(&world.rank, world.now, &filter).unwrap().remove(0)
    };
    assert_eq!(shown_of(&world, 2)["requests_in_flight"], 1);
    assert_eq!(shown_of(&world, 1)["requests_in_flight"], 0);
    assert_ne!(shown_of(&world, 1)["num_caps"], 0);
    let holders = &shown::inode(&world.rank, file.ino).unwrap()["client_caps"];
    assert_eq!(holders[0]["client_id"], 1);
    world.obey(1, |answer| answer.wanted = file.cap.wanted);
    assert_eq!(shown::operations(&world.rank, world.now, false)["num_ops"], 0);
    assert_eq!(shown::counters(&world.rank)["mds"]["reply"], 2);
}

/// Two clients write a file of which the first may write 200 MB; returns what the second one knows of it.
fn two_writers_with_a_far_range(world: &mut World) -> (InodeStat, InodeStat) {
    let one = world.create(1, "file");
    let two = world.create(2, "file");
    let asked = world.take_about(1, one.ino);
    world.answer(1, asked, |answer| {
        answer.wanted = one.cap.wanted;
        answer.max_size = 100 << 20;
    });
    let ranges = &world.rank.tree().get(namespace::Ino(one.ino)).unwrap().write_ranges;
    assert!(ranges[&1].end >= 100 << 20 && ranges[&2].end == 4 << 20, "{ranges:?}");
    (one, two)
}

/// A message of a client that gives nothing back.
fn update_of(stat: &InodeStat, asked: &ClientCaps) -> ClientCaps {
    ClientCaps {
        op: CapOp::UPDATE,
        ino: stat.ino,
        cap_id: asked.cap_id,
        seq: asked.seq,
        issue_seq: asked.issue_seq,
        caps: asked.caps,
        wanted: stat.cap.wanted,
        truncate_seq: 1,
        ..ClientCaps::default()
    }
}

#[test]
fn a_writer_knows_its_own_range_and_is_answered_when_it_asks_for_more() {
    let mut world = World::new(&[1, 2]);
    let (_, two) = two_writers_with_a_far_range(&mut world);
    let known = world.take_about(2, two.ino);
    assert!(known.caps.contains(CapBits::FILE_WRITE));
    assert_eq!(known.max_size, 4 << 20, "the range of the other one ends with its writer");
    let asks = ClientCaps { max_size: 10 << 20, ..update_of(&two, &known) };
    for time in ["first", "second"] {
        world.send(2, &asks.encode(0));
        let granted = world.take_about(2, two.ino);
        assert_eq!((granted.op, granted.max_size), (CapOp::GRANT, 24 << 20), "{time}");
    }
}

#[test]
fn a_size_that_was_written_within_a_range_stays_when_the_range_has_ended() {
    let mut world = World::new(&[1, 2]);
    let (one, two) = two_writers_with_a_far_range(&mut world);
    let known = world.take_about(2, two.ino);
    let told = std::iter::from_fn(|| world.try_take::<ClientCaps>(1)).map(|(_, told)| told);
    let told = told.max_by_key(|told| told.seq).expect("it is told its range");
    let closed = ClientCaps { caps: CapBits::PIN, wanted: CapBits::NONE, ..update_of(&one, &told) };
    world.send(1, &closed.encode(0));
    let ranges = |world: &World| {
        world.rank.tree().get(namespace::Ino(one.ino)).unwrap().write_ranges.clone()
    };
    assert!(!ranges(&world).contains_key(&1));
    let flush =
        ClientCaps { size: 90 << 20, dirty: CapBits::FILE_WRITE, ..update_of(&two, &known) };
    world.send(2, &flush.encode(0));
    let inode = world.rank.tree().get(namespace::Ino(two.ino)).unwrap();
    assert_eq!(inode.size, 90 << 20);
}
