//! Records, checkpoints, and stored states that cannot be served.

use super::*;
use crate::layouts::DataPools;

#[test]
fn a_client_sees_its_own_change_early_and_another_one_when_it_is_durable() {
    let mut world = World::new(&[1, 2]);
    assert_eq!(world.clients[&1].sessions, [SessionOp::OPEN]);
    let tid = world.ask(1, mkdir("a"));
    let client = &world.clients[&1];
    assert_eq!((&client.answers[..], client.early.len()), ([(tid, 0)].as_slice(), 1));
    assert!(world.pending.is_empty(), "records collect while no client waits for them");
    world.ask(2, mkdir("a"));
    assert!(world.clients[&2].answers.is_empty(), "it would learn that there is a directory");
    let (task, _, operation) = &world.pending[0];
    assert_eq!((*task, &operation.place.object[..]), (Task::Frame, b"journal.0.1.0".as_slice()));
    assert_eq!(world.clients[&1].early.len(), 1);
    world.answer(0);
    assert!(world.clients[&1].early.is_empty());
    assert_eq!(world.clients[&2].answers[0].1, Errno::EXIST.negative());
}

#[test]
fn a_client_gets_what_another_one_had_when_the_end_of_its_session_is_durable() {
    let mut world = World::new(&[1, 2]);
    world.ask(2, mkdir("d"));
    world.finish();
    let close = ClientSession::new(SessionOp::REQUEST_CLOSE, u64::MAX);
    world.send(2, &close.encode(0));
    let mask = CapBits::PIN | CapBits::ANY_SHARED;
    let arguments = RequestArguments::of(&GetattrArguments { mask });
    world.ask(1, ClientRequest { arguments, ..request(ClientOp::GETATTR, "d") });
    assert!(world.clients[&1].answers.is_empty());
    world.finish();
    assert_eq!(world.clients[&1].answers.len(), 1);
}

#[test]
fn a_client_that_syncs_waits_for_no_further_records() {
    let mut world = World::new(&[1]);
    world.ask(1, mkdir("a"));
    let flush = ClientSession::new(SessionOp::REQUEST_FLUSH_MDLOG, 0);
    world.send(1, &flush.encode(0));
    assert_eq!(world.pending.len(), 1, "the frame is written at once");
    world.ask(1, mkdir("b"));
    let due = world.store.poll_timeout().expect("a frame is due");
    assert_eq!(due, world.now + Duration::from_millis(10));
    world.now = due;
    world.pump();
    assert_eq!(world.pending.len(), 2);
}

#[test]
fn the_right_to_write_an_old_file_is_durable_before_a_client_has_it() {
    let mut world = World::new(&[1, 2]);
    let arguments = RequestArguments::of(&MknodArguments { mode: 0o100_644, rdev: 0 });
    world.ask(1, ClientRequest { arguments, ..request(ClientOp::MKNOD, "f") });
    world.finish();
    let arguments = OpenArguments { flags: open_flags::WRITE_ONLY, ..OpenArguments::default() };
    let arguments = RequestArguments::of(&arguments);
    let tid = world.ask(1, ClientRequest { arguments, ..request(ClientOp::OPEN, "f") });
    assert_eq!(world.clients[&1].answers.len(), 1, "only the first request is answered");
    world.finish();
    let client = &world.clients[&1];
    assert_eq!((client.answers[1], client.early.len()), ((tid, 0), 0));
    let size = SetattrArguments { mask: setattr_mask::SIZE, size: 9, ..Default::default() };
    let arguments = RequestArguments::of(&size);
    world.ask(1, ClientRequest { arguments, ..request(ClientOp::SETATTR, "f") });
    assert_eq!(world.clients[&1].answers.len(), 2, "truncations, too");
}

#[test]
fn a_layout_is_durable_before_its_client_writes_by_it() {
    let mut world = World::new(&[1]);
    let arguments = RequestArguments::of(&MknodArguments { mode: 0o100_644, rdev: 0 });
    world.ask(1, ClientRequest { arguments, ..request(ClientOp::MKNOD, "f") });
    world.finish();
    let names = [(PoolId(3), "data".to_owned())].into();
    world.rank().set_data_pools(&DataPools { names, ..DataPools::default() });
    let path2 = FilePath { ino: 0, path: "ceph.file.layout.stripe_count".into() };
    let set = ClientRequest { path2, data: "2".into(), ..request(ClientOp::SETXATTR, "f") };
    let tid = world.ask(1, set);
    assert_eq!(world.clients[&1].answers.len(), 1, "only the first request is answered");
    world.finish();
    let client = &world.clients[&1];
    assert_eq!((client.answers[1], client.early.len()), ((tid, 0), 0));
}

#[test]
fn a_number_is_durably_reserved_before_a_client_has_it() {
    let mut world = World::new(&[1]);
    world.rank().leave_numbers(2);
    world.ask(1, mkdir("a"));
    assert_eq!(world.clients[&1].answers.len(), 1);
    // With the last number, further ones are reserved.
    world.ask(1, mkdir("b"));
    assert_eq!(world.clients[&1].answers.len(), 1);
    world.finish();
    assert_eq!(world.clients[&1].answers.len(), 2);
}

#[test]
fn a_successor_has_all_that_was_answered_and_answers_it_again() {
    let mut world = World::new(&[1]);
    world.ask(1, mkdir("a"));
    world.finish();
    let tid = world.ask(1, create("a/f"));
    let before = world.paths();
    // The frame is stored, but neither its answer nor the reply has arrived.
    world.collect();
    world.clients.get_mut(&1).unwrap().lose_reply();
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
fn files_that_one_message_releases_end_by_records_that_fit_into_frames() {
    let mut world = World::new(&[1]);
    for number in 0..20 {
        let name = format!("f{number}");
        world.ask(1, create(&name));
        world.ask(1, request(ClientOp::UNLINK, &name));
        world.finish();
    }
    world.release(1);
    world.collect();
    let frames = world.pending.iter().filter(|(task, ..)| *task == Task::Frame);
    let longest = frames.map(|(_, _, operation)| operation.ops[0].input.len()).max();
    // A frame takes groups of records up to 600 bytes.
    assert!(longest.is_some_and(|bytes| bytes < 1000), "{longest:?}");
}

#[test]
fn a_failed_write_ends_the_server_and_does_not_count_as_durable() {
    for (error, told) in [(Errno::IO, "journal"), (Errno::BLOCKLISTED, "shut out")] {
        let mut world = World::new(&[1]);
        world.ask(1, mkdir("a"));
        world.collect();
        let (task, id, _) = world.pending.remove(0);
        world.store.handle_response(world.rank.as_mut(), task, id, Err(error));
        world.pump();
        assert!(world.reason().contains(told), "{}", world.reason());
        assert_eq!(world.clients[&1].early.len(), 1);
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

#[test]
fn a_file_system_that_is_made_again_on_its_pool_is_opened() {
    let id = |pool: u8, created: u8| [pool, 0, 0, 0, 0, 0, 0, 0, created, 0, 0, 0, 0, 0, 0, 0];
    let mut world = World::new(&[]);
    let opened = |world: World, id: [u8; 16]| {
        let store = Store::open(START, Setup { id, ..setup(false) });
        let mut next = World { store, ..world };
        next.rank = None;
        next.pump();
        while !next.pending.is_empty() {
            next.answer(0);
        }
        next
    };
    world = opened(world, [7, 7, 7, 7, 7, 7, 7, 7, 1, 1, 1, 1, 1, 1, 1, 1]);
    assert!(world.store.failure().is_none() && world.rank.is_some());
    world = opened(world, id(7, 1));
    let failure = world.store.failure().expect("the pool is another one's");
    assert!(matches!(failure, Failure::Damage(reason) if reason.contains("another file system")));
}

#[test]
fn a_checkpoint_that_is_asked_for_covers_all_records_before_it() {
    let mut world = World::new(&[1]);
    let stored = |world: &mut World| world.rank().log_mut().checkpoint().unwrap();
    for name in ["a", "b"] {
        world.ask(1, mkdir(name));
        let lsn = world.rank().log_mut().close();
        assert!(stored(&mut world) < lsn);
        // The second one is asked for while the first may be under way.
        world.store.ask_checkpoint();
        world.pump();
        if name == "b" {
            world.finish();
            assert!(stored(&mut world) >= lsn);
        }
    }
}

#[test]
fn a_full_pool_takes_the_journal_and_checkpoints_and_a_successor_opens_it() {
    let mut world = World::new(&[1]);
    world.ask(1, create("f"));
    world.finish();
    world.pool.is_full = true;
    world.ask(1, request(ClientOp::UNLINK, "f"));
    world.finish();
    world.release(1);
    world.finish();
    assert!(world.pool.data.is_empty(), "the data of the file is gone");
    world.now = world.now + Duration::from_secs(31);
    world.finish();
    world.crash(0);
    world.finish();
    world.reconnect();
    world.finish();
    assert!(world.paths().is_empty());
}

#[test]
fn a_head_names_no_checkpoint_without_rows_that_a_lost_record_has_removed() {
    let mut world = World::new(&[1]);
    // More directories than requests of a checkpoint in flight.
    for number in 0..24 {
        world.ask(1, mkdir(&format!("d{number}")));
        world.ask(1, mkdir(&format!("d{number}/x")));
        world.finish();
    }
    let before = world.paths();
    world.now = world.now + Duration::from_secs(31);
    world.pump();
    assert!(world.pending.iter().all(|(task, ..)| *task == Task::Checkpoint));
    world.ask(1, request(ClientOp::RMDIR, "d23/x"));
    world.ask(1, request(ClientOp::RMDIR, "d23"));
    while let Some(at) = world.pending.iter().position(|(task, ..)| *task == Task::Checkpoint) {
        world.answer(at);
    }
    // The client dies with the server.
    world.crash(0);
    world.finish();
    assert_eq!(world.paths(), before);
}
