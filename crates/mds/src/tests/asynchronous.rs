//! Creates and unlinks on which a client has acted before it asks.

use super::*;
use fscaps::DIRECTORY_OPERATIONS;

/// A create with a number that the client was given.
fn act(path: &'static str, ino: u64) -> ClientRequest {
    ClientRequest { flags: client_flags::ASYNC, ino, ..create(path) }
}

fn unlink(path: &'static str) -> ClientRequest {
    ClientRequest { flags: client_flags::ASYNC, ..request(ClientOp::UNLINK, path) }
}

impl World {
    /// Client 1 creates asynchronously; the others may not.
    fn asynchronous(clients: &[u64]) -> Self {
        let mut world = World::new(&[]);
        world.open_with(1, u64::MAX);
        clients.iter().for_each(|client| world.open(*client));
        world
    }

    /// Client 1 creates a file; returns the numbers that it is given with the reply.
    fn numbers(&mut self, path: &'static str) -> Vec<u64> {
        let reply = self.ask(1, create(path));
        let told: CreatedInode = codec::decode_all("created inode", &reply.extra).unwrap();
        assert_eq!(Some(told.ino), reply.target.map(|target| target.ino));
        told.delegated.into_iter().flat_map(|(first, count)| first..first + count).collect()
    }

    /// Bits that client 1 has on a directory by a reply that names it.
    fn directory_bits(&mut self, path: &'static str) -> CapBits {
        self.ask(1, request(ClientOp::GETATTR, path)).target.unwrap().cap.caps
    }

    /// Client 1 sets an attribute, and gives back what stands in the way.
    fn set_and_obey(&mut self, path: &'static str, name: &'static str, value: &'static str) {
        self.submit(1, set(path, name, value));
        while self.obey_oldest(1) {}
        assert_eq!(self.take::<ClientReply>(1).result, 0);
    }

    fn may_act(&mut self, path: &'static str) -> bool {
        self.directory_bits(path).contains(DIRECTORY_OPERATIONS)
    }
}

fn set(path: &'static str, name: &'static str, value: &'static str) -> ClientRequest {
    let path2 = FilePath { ino: 0, path: name.into() };
    ClientRequest { path2, data: value.into(), ..request(ClientOp::SETXATTR, path) }
}

#[test]
fn a_file_that_was_created_before_is_what_its_client_assumes() {
    let mut world = World::asynchronous(&[]);
    let made = world.ask(1, mkdir("d")).target.unwrap();
    assert!(made.cap.caps.contains(CapBits::FILE_EXCL | DIRECTORY_OPERATIONS));
    let numbers = world.numbers("d/first");
    assert_eq!(numbers.len(), 1024);
    assert!(world.numbers("d/second").is_empty(), "it has enough");
    let reply = world.ask(1, act("d/file", numbers[7]));
    let file = reply.target.unwrap();
    assert_eq!((file.ino, file.truncate_seq, file.truncate_size), (numbers[7], 1, u64::MAX));
    assert_eq!((file.xattr_version, file.nlink, file.max_size), (1, 1, 4 << 20));
    assert_eq!(file.cap.cap_id, 1);
    let all = CapBits::PIN | CapBits::ANY_SHARED | CapBits::AUTH_EXCL | CapBits::XATTR_EXCL;
    let all = all | CapBits::FILE_EXCL | CapBits::FILE_CACHE | CapBits::FILE_READ;
    let all = all | CapBits::FILE_WRITE | CapBits::FILE_BUFFER;
    assert!(file.cap.caps.contains(all), "{}", file.cap.caps);
    let lease = reply.dentry.unwrap().lease;
    assert_ne!(lease.mask & LeaseStat::PRIMARY_LINK, 0, "it may be unlinked in the same way");
    assert_eq!(world.ask(1, unlink("d/file")).result, 0);
    assert_eq!(world.ask(1, look_up("d/file")).result, Errno::NOENT.negative());
}

#[test]
fn a_request_that_is_sent_again_is_answered_again() {
    let mut world = World::asynchronous(&[]);
    let number = world.numbers("first")[0];
    let request = act("file", number);
    let tid = world.submit(1, request.clone());
    let first = world.take::<ClientReply>(1);
    world.send(1, &request.encode(0).with_tid(tid));
    let again = world.take::<ClientReply>(1);
    assert_eq!((again.result, again.target.unwrap().ino), (0, first.target.unwrap().ino));
}

#[test]
fn more_numbers_follow_before_all_are_used() {
    let mut world = World::asynchronous(&[]);
    let mut numbers = world.numbers("first");
    let mut given = numbers.len();
    for _ in 0..1500 {
        let number = numbers.remove(0);
        let reply = world.ask(1, act("file", number));
        let told: CreatedInode = codec::decode_all("created inode", &reply.extra).unwrap();
        assert_eq!(told.ino, number);
        let more = told.delegated.into_iter().flat_map(|(first, count)| first..first + count);
        numbers.extend(more);
        given = given.max(numbers.len());
        assert_eq!(world.ask(1, unlink("file")).result, 0);
    }
    assert!(given < 2048, "{given}");
}

#[test]
fn a_client_that_uses_a_number_of_another_one_loses_its_session() {
    let mut world = World::asynchronous(&[]);
    world.open_with(2, u64::MAX);
    let number = world.numbers("first")[0];
    world.submit(2, act("file", number));
    assert_eq!(world.take::<ClientSession>(2).op, SessionOp::CLOSE);
    assert!(world.try_take::<ClientReply>(2).is_none());
    assert_eq!(world.ask(1, act("file", number)).result, 0);
    // The same of a number that it has used.
    world.submit(1, act("other", number));
    assert_eq!(world.take::<ClientSession>(1).op, SessionOp::CLOSE);
}

/// Bits on a directory that client 2 makes after it has opened a session.
fn bits_of(features: u64, metadata: &[(&str, &str)], caps: &str) -> CapBits {
    let mut world = World::asynchronous(&[]);
    let caps = std::sync::Arc::new(auth::MdsCaps::parse(caps).unwrap());
    world.limited.insert(2, ClientPeer { caps, ..peer(2) });
    let features = FeatureBits(features);
    let metadata = metadata.iter().map(|(name, fact)| (name.to_string(), fact.to_string()));
    let metadata = metadata.collect();
    let open =
        ClientSession { features, metadata, ..ClientSession::new(SessionOp::REQUEST_OPEN, 0) };
    world.send(2, &open.encode(0));
    let bits = world.ask(2, mkdir("d")).target.unwrap().cap.caps;
    assert!(bits.contains(CapBits::FILE_EXCL));
    bits & DIRECTORY_OPERATIONS
}

#[test]
fn clients_that_do_not_act_so_or_may_be_refused_are_not_given_the_rights() {
    let (all, asks) = (u64::MAX, u64::MAX - session_features::DELEG_INO);
    assert_eq!(bits_of(all, &[], "allow *"), DIRECTORY_OPERATIONS);
    assert_eq!(bits_of(asks, &[], "allow *"), CapBits::NONE);
    // Ceph's libraries have the feature and no such operations.
    assert_eq!(bits_of(all, &[("ceph_version", "18.2.7")], "allow *"), CapBits::NONE);
    assert_eq!(bits_of(all, &[], "allow rw, allow rw path=/d"), DIRECTORY_OPERATIONS);
    assert_eq!(bits_of(all, &[], "allow rw root_squash, allow rw path=/d"), CapBits::NONE);
}

#[test]
fn clients_unlink_asynchronously_only_where_they_may() {
    let mut world = World::asynchronous(&[]);
    world.rank.set_asynchronous_unlinks(false);
    let made = world.ask(1, mkdir("d")).target.unwrap();
    assert_eq!(made.cap.caps & DIRECTORY_OPERATIONS, CapBits::FILE_CACHE, "it creates so");
    let file = world.ask(1, create("d/file")).target.unwrap();
    assert!(file.cap.caps.contains(CapBits::FILE_READ), "the same bit lets it read files");
    world.rank.set_asynchronous_unlinks(true);
    world.ask(1, mkdir("e"));
    assert!(world.may_act("e"));
}

#[test]
fn another_client_looks_up_a_name_when_all_creates_before_are_known() {
    let mut world = World::asynchronous(&[2]);
    let directory = world.ask(1, mkdir("d")).target.unwrap();
    let number = world.numbers("d/first")[0];
    world.submit(2, look_up("d/file"));
    let asked = world.take_about(1, directory.ino);
    assert!(!asked.caps.intersects(DIRECTORY_OPERATIONS), "{}", asked.caps);
    assert!(world.try_take::<ClientReply>(2).is_none());
    // It was on its way.
    assert_eq!(world.ask(1, act("d/file", number)).result, 0);
    world.answer(1, asked, |_| ());
    while world.obey_oldest(1) {}
    assert_eq!(world.take::<ClientReply>(2).target.unwrap().ino, number);
    let missing = world.submit(2, look_up("d/none"));
    let (answered, reply) = world.try_take::<ClientReply>(2).unwrap();
    assert_eq!((answered, reply.result), (missing, Errno::NOENT.negative()));
}

#[test]
fn a_layout_changes_when_no_client_creates_by_the_old_one() {
    let mut world = World::asynchronous(&[]);
    world.ask(1, mkdir("d"));
    let below = world.ask(1, mkdir("d/below")).target.unwrap();
    let aside = world.ask(1, mkdir("aside")).target.unwrap();
    let number = world.numbers("d/below/first")[0];
    world.submit(1, set("d", "ceph.dir.layout.pool", "fast"));
    assert!(world.try_take::<ClientReply>(1).is_none(), "its own client, too, must stop");
    let asked = world.take_about(1, below.ino);
    assert!(!asked.caps.intersects(DIRECTORY_OPERATIONS), "{}", asked.caps);
    // It was on its way, with data in the old pool.
    world.submit(1, act("d/below/file", number));
    let reply = world.take::<ClientReply>(1);
    assert_eq!(reply.target.unwrap().layout.pool, PoolId(3));
    world.answer(1, asked, |_| ());
    while world.obey_oldest(1) {}
    assert_eq!(world.take::<ClientReply>(1).result, 0);
    let file = world.ask(1, create("d/below/next")).target.unwrap();
    assert_eq!(file.layout.pool, PoolId(5));
    let notices = world.inboxes.entry(1).or_default().iter();
    let mut notices = notices.filter(|message| message.kind == ClientCaps::KIND);
    let is_aside = |message: &Message| ClientCaps::decode(message).unwrap().ino == aside.ino;
    assert!(!notices.any(is_aside), "elsewhere it goes on");
}

#[test]
fn a_directory_does_not_move_to_another_layout_while_a_client_creates_in_it() {
    let mut world = World::asynchronous(&[]);
    world.ask(1, mkdir("a"));
    world.set_and_obey("a", "ceph.dir.layout.pool", "fast");
    let moved = world.ask(1, mkdir("d")).target.unwrap();
    let path2 = FilePath::new(1, "d");
    world.submit(1, ClientRequest { path2, ..request(ClientOp::RENAME, "a/d") });
    assert!(world.try_take::<ClientReply>(1).is_none());
    let asked = world.take_about(1, moved.ino);
    assert!(!asked.caps.intersects(DIRECTORY_OPERATIONS));
    world.answer(1, asked, |_| ());
    while world.obey_oldest(1) {}
    assert_eq!(world.take::<ClientReply>(1).result, 0);
}

#[test]
fn little_room_takes_the_rights_away() {
    let mut world = World::asynchronous(&[]);
    world.ask(1, mkdir("d"));
    world.ask(1, mkdir("d/below"));
    assert!(world.may_act("d") && world.may_act("d/below"));
    world.set_and_obey("d", "ceph.quota", "max_files=2000");
    assert!(world.may_act("d/below"), "there is room");
    world.set_and_obey("d", "ceph.quota", "max_files=1000");
    assert!(!world.may_act("d/below"));
    assert!(world.may_act(""), "another directory");
    let short = DataPools { is_short: true, ..pools(2) };
    world.rank.set_data_pools(&short);
    world.take_outputs();
    while world.obey_oldest(1) {}
    assert!(!world.may_act(""), "the metadata pool is nearly full");
    world.rank.set_data_pools(&pools(3));
    assert!(world.may_act(""));
}

#[test]
fn a_directory_is_removed_after_the_files_that_its_client_has_unlinked() {
    let mut world = World::asynchronous(&[2]);
    world.ask(1, mkdir("d"));
    world.create(1, "d/file");
    // Another client has it, so its name goes when that client has answered.
    world.submit(2, look_up("d/file"));
    while world.obey_oldest(1) {}
    world.take::<ClientReply>(2);
    let unlinked = world.submit(1, unlink("d/file"));
    let removed = world.submit(1, request(ClientOp::RMDIR, "d"));
    assert!(world.try_take::<ClientReply>(1).is_none());
    while world.obey_oldest(2) {}
    for (tid, op) in [(unlinked, ClientOp::UNLINK), (removed, ClientOp::RMDIR)] {
        while world.obey_oldest(2) || world.obey_oldest(1) {}
        let (answered, reply) = world.try_take::<ClientReply>(1).unwrap();
        assert_eq!((answered, reply.op, reply.result), (tid, op, 0));
    }
}

#[test]
fn a_directory_is_replaced_when_no_client_creates_in_it_any_more() {
    let mut world = World::asynchronous(&[2]);
    world.ask(1, mkdir("a"));
    let replaced = world.ask(1, mkdir("b")).target.unwrap();
    assert!(world.may_act("b"));
    let path2 = FilePath { ino: 1, path: "a".into() };
    world.submit(2, ClientRequest { path2, ..request(ClientOp::RENAME, "b") });
    let asked = world.take_about(1, replaced.ino);
    assert!(!asked.caps.intersects(DIRECTORY_OPERATIONS), "{}", asked.caps);
    world.answer(1, asked, |_| ());
    while world.obey_oldest(1) {}
    assert_eq!(world.take::<ClientReply>(2).result, 0);
}

#[test]
fn an_asynchronous_request_waits_when_its_client_has_too_many_in_progress() {
    let mut world = World::asynchronous(&[2]);
    world.ask(1, mkdir("d"));
    let number = world.numbers("d/first")[0];
    world.submit(2, create("file"));
    while world.obey_oldest(1) {}
    world.take::<ClientReply>(2);
    for _ in 0..1024 {
        world.submit(1, look_up("file"));
    }
    let made = world.submit(1, act("d/second", number));
    let unlinked = world.submit(1, unlink("d/first"));
    assert!(world.try_take::<ClientReply>(1).is_none(), "none is refused");
    while world.obey_oldest(2) {}
    let answers: Vec<(u64, i32)> = std::iter::from_fn(|| world.try_take::<ClientReply>(1))
        .map(|(tid, reply)| (tid, reply.result))
        .filter(|(tid, _)| *tid >= made)
        .collect();
    assert_eq!(answers, [(made, 0), (unlinked, 0)]);
}

#[test]
fn requests_about_other_directories_do_not_wait_for_an_unlink() {
    let mut world = World::asynchronous(&[2]);
    world.ask(1, mkdir("d"));
    world.create(1, "d/file");
    world.submit(2, look_up("d/file"));
    while world.obey_oldest(1) {}
    world.take::<ClientReply>(2);
    world.submit(1, unlink("d/file"));
    assert_eq!(world.ask(1, mkdir("other")).result, 0);
    for waiting in [request(ClientOp::RMDIR, "d"), mkdir("d/below"), look_up("d/file")] {
        world.submit(1, waiting);
        assert!(world.try_take::<ClientReply>(1).is_none());
    }
    while world.obey_oldest(2) || world.obey_oldest(1) {}
    assert_eq!(std::iter::from_fn(|| world.try_take::<ClientReply>(1)).count(), 4);
}

#[test]
fn a_late_unlink_removes_no_file_that_another_client_has_put_in_its_place() {
    const LATE: u64 = 5;
    let mut world = World::new(&[2, 3]);
    world.open_with(LATE, u64::MAX);
    world.ask(LATE, mkdir("d"));
    world.create(LATE, "d/file");
    for (client, request) in [(2, create("d/other")), (3, look_up("d/file"))] {
        world.submit(client, request);
        while [2, LATE].into_iter().any(|client| world.obey_oldest(client)) {}
    }
    world.take::<ClientReply>(3);
    let other = world.take::<ClientReply>(2).target.unwrap().ino;
    // Both wait for the third client. As after a take-over, nothing hinders the second one.
    let path2 = FilePath::new(1, "d/other");
    world.submit(2, ClientRequest { path2, ..request(ClientOp::RENAME, "d/file") });
    let unlinked = world.submit(LATE, unlink("d/file"));
    while [2, LATE].into_iter().any(|client| world.obey_oldest(client)) {}
    assert!([2, LATE].into_iter().all(|client| world.try_take::<ClientReply>(client).is_none()));
    while [2, 3, LATE].into_iter().any(|client| world.obey_oldest(client)) {}
    let (answered, reply) = world.try_take::<ClientReply>(LATE).unwrap();
    assert_eq!((answered, reply.result), (unlinked, Errno::NOENT.negative()));
    assert_eq!(world.take::<ClientReply>(2).result, 0);
    world.submit(2, look_up("d/file"));
    assert_eq!(world.take::<ClientReply>(2).target.unwrap().ino, other);
}

#[test]
fn a_directory_that_comes_to_where_little_room_is_left_loses_the_rights() {
    let mut world = World::asynchronous(&[]);
    world.ask(1, mkdir("full"));
    world.set_and_obey("full", "ceph.quota", "max_files=1000");
    let moved = world.ask(1, mkdir("d")).target.unwrap();
    let below = world.ask(1, mkdir("d/below")).target.unwrap();
    assert!(world.may_act("d/below"));
    let path2 = FilePath::new(1, "d");
    world.submit(1, ClientRequest { path2, ..request(ClientOp::RENAME, "full/d") });
    assert_eq!(world.take::<ClientReply>(1).result, 0);
    for ino in [moved.ino, below.ino] {
        let asked = world.take_about(1, ino);
        assert!(!asked.caps.intersects(DIRECTORY_OPERATIONS), "{}", asked.caps);
    }
}
