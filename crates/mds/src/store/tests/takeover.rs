//! Clients that come back to a successor.

use super::*;

#[test]
fn a_client_that_came_back_and_is_lost_while_others_are_awaited_opens_a_new_session() {
    let (mut world, ino) = shared_file_after_a_crash(false);
    world.claim(1);
    reconnect::connected_anew(world.rank(), &peer(2));
    world.pump();
    assert_eq!(world.clients[&2].sessions.last(), Some(&SessionOp::OPEN), "it is awaited");
    world.ask(1, mkdir("a"));
    reconnect::connected_anew(world.rank(), &peer(1));
    world.evict();
    let sessions = &world.clients[&1].sessions;
    assert_eq!(sessions.last(), Some(&SessionOp::CLOSE));
    let told = sessions.len();
    world.claim(2);
    world.activate();
    world.finish();
    assert!(world.clients[&2].caps.contains_key(&ino));
    assert_eq!(world.clients[&1].sessions.len(), told, "its messages ended with its session");
}

fn opens() -> Message {
    let features = FeatureBits(u64::MAX);
    ClientSession { features, ..ClientSession::new(SessionOp::REQUEST_OPEN, 0) }.encode(0)
}

#[test]
fn an_awaited_client_that_opens_a_session_is_awaited_no_longer() {
    let mut world = World::new(&[1]);
    world.crash(0);
    world.finish();
    let now = world.now;
    reconnect::begin(world.rank(), now);
    world.send(1, &opens());
    world.finish();
    let now = now + Duration::from_secs(1);
    assert!(reconnect::is_reconnected(world.rank(), now));
    assert_eq!(evictions::next(world.rank(), now), None, "it has nothing that it could write by");
    world.activate();
    world.finish();
    let sessions = &world.clients[&1].sessions;
    assert_eq!(sessions[..], [SessionOp::OPEN, SessionOp::CLOSE, SessionOp::OPEN]);
    let tid = world.ask(1, mkdir("a"));
    world.finish();
    assert_eq!(world.clients[&1].answers, [(tid, 0)]);
}

#[test]
fn an_awaited_client_that_may_write_is_shut_out_before_it_opens_a_session() {
    let (mut world, _) = shared_file_after_a_crash(false);
    world.send(1, &opens());
    assert_eq!(world.clients[&1].sessions, [SessionOp::OPEN]);
    assert_eq!(world.evict(), 1, "without delay: its writes may be on their way");
    assert_eq!(world.clients[&1].sessions.last(), Some(&SessionOp::CLOSE));
    world.send(1, &opens());
    world.claim(2);
    world.activate();
    world.finish();
    assert_eq!(world.clients[&1].sessions.last(), Some(&SessionOp::OPEN));
}

#[test]
fn a_successor_keeps_evicted_clients_out() {
    let (mut world, ino) = shared_file_after_a_crash(false);
    let (cap_id, issued) = world.clients[&1].caps[&ino];
    let wanted = issued | CapBits::FILE_CACHE | CapBits::FILE_BUFFER | CapBits::FILE_WRITE;
    let claim = ClaimedCap { cap_id, issued, wanted, ..ClaimedCap::default() };
    let caps = [(ino, claim)].into_iter().collect();
    world.send(1, &ClientReconnect { caps, realms: Vec::new(), more: false }.encode(0));
    world.send(2, &ClientReconnect::default().encode(0));
    world.activate();
    world.finish();
    assert!(world.clients[&1].caps[&ino].1.contains(wanted), "it was told of new rights");
    assert_eq!(world.clients[&1].barrier, NEWEST_MAP.0);
}

fn lock_request(start: u64) -> ClientRequest {
    let (rule, kind, owner, pid, length, wait) = (1, 2, 9, 77, 10, 0);
    let lock = FileLockArguments { rule, kind, owner, pid, start, length, wait };
    let arguments = RequestArguments::of(&lock);
    ClientRequest { arguments, ..request(ClientOp::SETFILELOCK, "f") }
}

#[test]
fn file_locks_that_a_client_claims_outlive_the_server() {
    let mut world = World::new(&[1, 2]);
    world.ask(1, create("f"));
    world.finish();
    world.ask(1, lock_request(5));
    world.finish();
    let ino = world.paths()["/f"];
    // One POSIX lock, no `flock`, as ceph-fuse writes them.
    let mut w = Writer::new();
    w.u32(1);
    [5, 10, 0, 9, 77].into_iter().for_each(|number| w.u64(number));
    w.u8(2);
    w.u32(0);
    world.clients.get_mut(&1).unwrap().locks.insert(ino, w.into_bytes());
    world.crash(0);
    world.finish();
    world.reconnect();
    for (start, expected) in [(0, Errno::AGAIN.negative()), (15, 0)] {
        let tid = world.ask(2, lock_request(start));
        world.finish();
        assert_eq!(world.clients[&2].answers.last(), Some(&(tid, expected)), "from {start}");
    }
}

#[test]
fn a_range_that_no_client_claims_ends() {
    let mut world = World::new(&[1, 2]);
    for (client, name) in [(1, "f"), (2, "g")] {
        world.ask(client, create(name));
        world.finish();
    }
    let inodes = world.paths();
    world.clients.get_mut(&2).unwrap().caps.remove(&inodes["/g"]);
    world.crash(0);
    world.finish();
    world.reconnect();
    world.finish();
    let ranges = ["/f", "/g"].map(|path| {
        let inode = world.rank().tree().get(Ino(inodes[path])).unwrap();
        inode.write_ranges.len()
    });
    assert_eq!(ranges, [1, 0]);
}

/// Two clients that have `f`, and a successor to which neither has come back.
fn shared_file_after_a_crash(is_unlinked: bool) -> (World, u64) {
    let mut world = World::new(&[1, 2]);
    world.ask(1, create("f"));
    world.finish();
    let ino = world.paths()["/f"];
    let mask = CapBits::PIN | CapBits::ANY_SHARED;
    let arguments = RequestArguments::of(&GetattrArguments { mask });
    world.ask(2, ClientRequest { arguments, ..request(ClientOp::GETATTR, "f") });
    world.finish();
    if is_unlinked {
        world.ask(1, request(ClientOp::UNLINK, "f"));
        world.finish();
    }
    assert!(world.clients[&1].caps.contains_key(&ino) && world.clients[&2].caps.contains_key(&ino));
    world.crash(0);
    world.finish();
    let now = world.now;
    reconnect::begin(world.rank(), now);
    (world, ino)
}

#[test]
fn an_open_file_without_a_name_outlives_a_session_that_ends_before_all_have_claimed() {
    let (mut world, ino) = shared_file_after_a_crash(true);
    world.claim(1);
    world.send(1, &ClientReconnect::default().encode(0));
    world.evict();
    assert_eq!(world.clients[&1].sessions.last(), Some(&SessionOp::CLOSE));
    world.claim(2);
    world.finish();
    assert!(world.clients[&2].caps.contains_key(&ino), "the claim of its holder is accepted");
    world.activate();
    world.finish();
    assert!(world.rank().tree().get(Ino(ino)).is_some());
}

#[test]
fn nothing_is_granted_before_all_clients_have_claimed() {
    let (mut world, ino) = shared_file_after_a_crash(false);
    let issued = CapBits::PIN | CapBits::FILE_READ | CapBits::FILE_WRITE;
    let wanted = issued | CapBits::FILE_CACHE | CapBits::FILE_BUFFER;
    for client in [1, 2] {
        let (cap_id, _) = world.clients[&client].caps[&ino];
        world.clients.get_mut(&client).unwrap().caps.insert(ino, (cap_id, issued));
        let claim = ClaimedCap { cap_id, issued, wanted, ..ClaimedCap::default() };
        let caps = [(ino, claim)].into_iter().collect();
        let claims = ClientReconnect { caps, realms: Vec::new(), more: false };
        world.send(client, &claims.encode(0));
    }
    // The first one loses its connection again, and its session.
    world.send(1, &ClientReconnect::default().encode(0));
    world.evict();
    assert_eq!(world.clients[&2].caps[&ino].1, issued, "others could have claims, too");
    world.activate();
    world.finish();
    assert!(world.clients[&2].caps[&ino].1.contains(wanted));
}

#[test]
fn what_a_client_wrote_by_rights_that_it_gave_back_is_taken_after_a_crash() {
    let mut world = World::new(&[1]);
    world.ask(1, create("f"));
    world.finish();
    let ino = world.paths()["/f"];
    let (cap_id, _) = world.clients[&1].caps[&ino];
    let kept = CapBits::PIN | CapBits::AUTH_SHARED;
    let flush = ClientCaps {
        op: CapOp::FLUSH,
        ino,
        cap_id,
        seq: 1,
        caps: kept,
        dirty: CapBits::FILE_WRITE,
        size: 5,
        truncate_seq: 1,
        ..ClientCaps::default()
    };
    world.send(1, &flush.encode(0).with_tid(3));
    // The frame is lost; the client sends the flush again before its claims, which do not have the bit.
    world.crash(0);
    world.finish();
    world.send(1, &flush.encode(0).with_tid(3));
    world.clients.get_mut(&1).unwrap().caps.insert(ino, (cap_id, kept));
    world.reconnect();
    world.finish();
    assert_eq!(world.rank().tree().get(Ino(ino)).unwrap().size, 5);
}

#[test]
fn a_claim_of_an_inode_that_is_gone_is_dropped() {
    let mut world = World::new(&[1]);
    world.crash(0);
    world.finish();
    world.clients.get_mut(&1).unwrap().caps.insert(0x999, (5, CapBits::PIN));
    world.reconnect();
    assert!(!world.clients[&1].caps.contains_key(&0x999));
}

/// A client that has early replies to requests, none of which is stored, and the server dies.
fn lost_early_changes(requests: &[ClientRequest]) -> (World, BTreeMap<String, u64>) {
    let mut world = World::new(&[1, 2]);
    world.ask(1, mkdir("a"));
    world.finish();
    for request in requests {
        world.ask(1, request.clone());
    }
    assert_eq!(world.clients[&1].early.len(), requests.len());
    let before = world.paths();
    world.crash(0);
    world.finish();
    (world, before)
}

#[test]
fn changes_that_were_answered_early_are_made_again_with_the_same_numbers() {
    let (mut world, before) = lost_early_changes(&[mkdir("a/d"), create("a/d/f")]);
    assert_eq!(world.paths().len(), 1);
    let file = before["/a/d/f"];
    let (id, caps) = world.clients[&1].caps[&file];
    world.reconnect();
    assert_eq!(world.paths(), before);
    world.finish();
    let client = &world.clients[&1];
    assert_eq!((client.early.len(), client.caps[&file]), (0, (id, caps)), "it has what it claimed");
    let inode = world.rank().tree().get(Ino(file)).unwrap();
    assert!(inode.write_ranges.contains_key(&1), "what it writes is known");
    // Another client's numbers are others.
    world.ask(2, mkdir("b"));
    world.finish();
    assert!(!before.values().any(|ino| *ino == world.paths()["/b"]));
}

#[test]
fn a_file_that_was_made_and_removed_early_stays_open() {
    let (mut world, before) =
        lost_early_changes(&[create("a/f"), request(ClientOp::UNLINK, "a/f")]);
    assert_eq!(before.len(), 1);
    let (file, _) = world.clients[&1].caps.last_key_value().unwrap();
    let file = *file;
    world.reconnect();
    world.finish();
    assert!(world.rank().tree().get(Ino(file)).is_some(), "the client has it open");
    assert!(world.pool.data.contains_key(&format!("{file:x}.00000000")));
}

#[test]
fn a_number_is_not_taken_from_a_client_that_cannot_have_been_told_it() {
    let (mut world, before) = lost_early_changes(&[mkdir("a/d")]);
    let early = &mut world.clients.get_mut(&1).unwrap().early;
    early[0].1.ino = before["/a"];
    world.reconnect();
    world.finish();
    let paths = world.paths();
    assert!(paths["/a/d"] != paths["/a"]);
    // A client that says that it had a reply has not, as another one relies on the directory.
    world.ask(2, mkdir("a/e"));
    world.finish();
    let client = world.clients.get_mut(&1).unwrap();
    client.early.push((9_999, ClientRequest { ino: 1 << 62, ..mkdir("a/g") }));
    world.crash(0);
    world.finish();
    world.reconnect();
    world.finish();
    assert!(world.paths()["/a/g"] < 1 << 62);
}

#[test]
fn a_quota_and_its_realm_outlive_the_server_and_clients_are_told_what_they_missed() {
    let mut world = World::new(&[1]);
    world.ask(1, mkdir("q"));
    world.ask(1, create("q/f"));
    world.finish();
    let path2 = FilePath { ino: 0, path: "ceph.quota.max_files".into() };
    let set = ClientRequest { path2, data: "7".into(), ..request(ClientOp::SETXATTR, "q") };
    world.ask(1, set);
    world.finish();
    let inodes = world.paths();
    let (directory, file) = (inodes["/q"], inodes["/q/f"]);
    // As the row of a checkpoint, then.
    world.now = world.now + Duration::from_secs(31);
    world.finish();
    world.crash(0);
    world.finish();
    let quota = world.rank().tree().get(Ino(directory)).unwrap().policy.quota.clone();
    assert_eq!(quota.max_files, 7);
    // The client did not hear that the file is in another realm now.
    world.clients.get_mut(&1).unwrap().realms.clear();
    let now = world.now;
    reconnect::begin(world.rank(), now);
    let claim = |(ino, (cap_id, issued)): (&u64, &(u64, CapBits))| {
        let realm = if *ino == file { 1 } else { directory };
        let (cap_id, issued) = (*cap_id, *issued);
        (*ino, ClaimedCap { cap_id, issued, wanted: issued, realm, ..ClaimedCap::default() })
    };
    let caps = world.clients[&1].caps.iter().map(claim).collect();
    let realms = vec![ClaimedRealm { ino: directory, seq: 1, parent: 7 }];
    world.send(1, &ClientReconnect { caps, realms, more: false }.encode(0));
    world.activate();
    world.finish();
    let told = &world.clients[&1].realms;
    let split = told.iter().find(|snap| snap.split == directory).expect("it is told where it is");
    assert_eq!(split.inodes, [file]);
    assert!(told.iter().any(|snap| snap.op == ClientSnap::UPDATE), "and what is above its realm");
}

#[test]
fn snapshots_outlive_the_server_and_the_monitor_hears_of_their_end() {
    let mut world = World::new(&[1]);
    for path in ["c", "c/d"] {
        world.ask(1, mkdir(path));
        world.finish();
    }
    world.ask(1, request(ClientOp::MKSNAP, "c//s"));
    world.finish();
    world.ask(1, request(ClientOp::RMDIR, "c/d"));
    world.finish();
    let expected = BTreeMap::from([("/c/s".to_owned(), vec![String::new(), "/d".to_owned()])]);
    // From the journal, then from rows.
    for _ in 0..2 {
        world.crash(0);
        world.finish();
        world.reconnect();
        assert_eq!(world.snapshots(), expected);
        world.now = world.now + Duration::from_secs(31);
        world.finish();
    }
    world.ask(1, request(ClientOp::RMSNAP, "c//s"));
    assert!(world.removed.is_empty(), "the removal is not durable");
    world.crash(u64::MAX);
    world.finish();
    assert_eq!((world.snapshots(), world.removed_snapshots()), (BTreeMap::new(), 1));
    world.reconnect();
    world.finish();
    assert_eq!(snapshots::kept(world.rank().tree()), 0, "nothing is kept for it");
}

#[test]
fn an_idle_server_goes_on_to_forget_what_removed_snapshots_showed() {
    let mut world = World::new(&[1]);
    world.ask(1, mkdir("c"));
    for number in 0..130 {
        world.ask(1, create(&format!("c/{number}")));
    }
    world.ask(1, request(ClientOp::MKSNAP, "c//stays"));
    world.ask(1, request(ClientOp::MKSNAP, "c//goes"));
    for number in 0..130 {
        world.ask(1, request(ClientOp::UNLINK, &format!("c/{number}")));
    }
    world.finish();
    world.ask(1, request(ClientOp::RMSNAP, "c//goes"));
    // One turn looks at a part, which stays.
    let due = world.store.poll_timeout().expect("there is more");
    assert!(due <= world.now + Duration::from_millis(1), "{due:?}");
}
