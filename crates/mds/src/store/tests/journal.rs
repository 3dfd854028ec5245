//! Records, checkpoints, and stored states that cannot be served.

use super::*;

#[test]
fn no_reply_is_sent_before_its_change_is_durable() {
    let mut world = World::new(&[1]);
    assert_eq!(world.clients[&1].sessions, [SessionOp::OPEN]);
    let tid = world.ask(1, mkdir("a"));
    assert!(world.clients[&1].answers.is_empty());
    let (task, _, operation) = &world.pending[0];
    assert_eq!((*task, &operation.place.object[..]), (Task::Frame, b"journal.0.1.0".as_slice()));
    world.finish();
    assert_eq!(world.clients[&1].answers, [(tid, 0)]);
}

#[test]
fn a_successor_has_all_that_was_answered_and_answers_it_again() {
    let mut world = World::new(&[1]);
    world.ask(1, mkdir("a"));
    world.finish();
    let tid = world.ask(1, create("a/f"));
    let before = world.paths();
    // The frame is stored, but neither its answer nor the reply has arrived.
    world.crash(u64::MAX);
    world.finish();
    assert_eq!(world.paths(), before);
    world.reconnect();
    world.finish();
    assert_eq!(world.clients[&1].answers.last(), Some(&(tid, 0)), "it was not created twice");
    assert_eq!(world.clients[&1].sessions, [SessionOp::OPEN, SessionOp::OPEN]);
    assert_eq!(world.paths(), before);
    let ino = before["/a/f"];
    let (_, caps) = world.clients[&1].caps[&ino];
    assert!(caps.contains(CapBits::FILE_WRITE), "the client may write, as after a create: {caps}");
}

#[test]
fn a_number_is_not_given_twice_although_its_inode_is_gone() {
    let mut world = World::new(&[1]);
    world.ask(1, mkdir("a"));
    world.finish();
    let first = world.paths()["/a"];
    world.ask(1, request(ClientOp::RMDIR, "a"));
    world.finish();
    world.clients.get_mut(&1).unwrap().caps.clear();
    world.crash(0);
    world.finish();
    world.reconnect();
    world.now = world.now + Duration::from_secs(31);
    world.finish();
    world.crash(0);
    world.finish();
    world.reconnect();
    world.ask(1, mkdir("b"));
    world.finish();
    assert!(world.paths()["/b"] > first, "{:x} was {first:x}", world.paths()["/b"]);
}

#[test]
fn checkpoints_bound_the_journal_and_rows_are_all_that_is_left() {
    let mut world = World::new(&[1]);
    for number in 0..20 {
        world.ask(1, mkdir(&format!("d{number}")));
        world.finish();
    }
    assert!(world.pool.names("journal").len() > 2);
    let before = world.paths();
    world.now = world.now + Duration::from_secs(31);
    world.finish();
    assert_eq!(world.pool.names("journal").len(), 1);
    assert_eq!(world.pool.names("dir."), ["dir.1.0.0"]);
    world.crash(0);
    world.finish();
    assert_eq!(world.paths(), before);
    world.reconnect();
    assert_eq!(world.clients[&1].sessions.len(), 2, "the session is in its row");
}

#[test]
fn a_session_with_large_inodes_ends_by_records_that_fit_into_frames() {
    let mut world = World::new(&[1]);
    for number in 0..80 {
        let name = format!("f{number}");
        world.ask(1, create(&name));
        world.finish();
        let path2 = FilePath::new(0, "user.x");
        let data = Bytes::from(vec![7; 60_000]);
        world.ask(1, ClientRequest { path2, data, ..request(ClientOp::SETXATTR, &name) });
        world.finish();
    }
    reconnect::connected_anew(world.rank(), &peer(1));
    world.evict();
    assert_eq!(world.clients[&1].sessions.last(), Some(&SessionOp::CLOSE));
}

#[test]
fn a_failed_write_ends_the_server_without_a_reply() {
    for (error, told) in [(Errno::IO, "journal"), (Errno::BLOCKLISTED, "shut out")] {
        let mut world = World::new(&[1]);
        world.ask(1, mkdir("a"));
        let (task, id, _) = world.pending.remove(0);
        world.store.handle_response(world.rank.as_mut(), task, id, Err(error));
        world.pump();
        assert!(world.reason().contains(told), "{}", world.reason());
        assert!(world.clients[&1].answers.is_empty());
    }
}

/// Why a successor does not open a journal with this record.
fn opened_with(record: fsjournal::RawRecord) -> Failure {
    let mut world = World::new(&[1]);
    world.ask(1, mkdir("a"));
    world.finish();
    let start = fsjournal::Chain { generation: 1, lsn: 1, crc: 0 };
    let (frame, _) = fsjournal::encode_frame(&start, fsjournal::Sealed::No, &[record]);
    let name = Bytes::from_static(b"journal.0.1.0");
    world.pool.objects.get_mut(&name).expect("it was written").data = frame.to_vec();
    world.crash(0);
    while !world.pending.is_empty() {
        world.answer(0);
    }
    assert!(world.reason().contains("journal.0.1.0"), "{}", world.reason());
    world.store.failure().expect("it is not opened").clone()
}

#[test]
fn a_journal_that_does_not_decode_is_damage() {
    let torn = fsjournal::RawRecord { kind: 1, version: 1, body: Bytes::from_static(b"\x05") };
    let failure = opened_with(torn);
    assert!(matches!(failure, Failure::Damage(_)), "{failure:?}");
}

#[test]
fn a_journal_of_a_newer_version_waits_for_a_newer_server() {
    for (kind, version) in [(99, 1), (1, 2)] {
        let failure = opened_with(fsjournal::RawRecord { kind, version, body: Bytes::new() });
        let Failure::Passing(reason) = failure else { panic!("{failure:?}") };
        assert!(reason.contains("too old"), "{reason}");
    }
}

#[test]
fn a_pool_of_another_file_system_is_refused() {
    let world = World::new(&[]);
    let mut other =
        World { store: Store::open(START, Setup { id: [8; 16], ..setup(true) }), ..world };
    other.rank = None;
    other.pump();
    while !other.pending.is_empty() {
        other.answer(0);
    }
    let failure = other.store.failure().expect("it is not opened");
    // The same rank can be made in another pool.
    assert!(matches!(failure, Failure::Passing(reason) if reason.contains("another file system")));
}
