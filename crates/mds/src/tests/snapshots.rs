//! Snapshots as clients see them.

use super::*;

impl World {
    /// Asks; clients give back what stands in the way.
    fn change(&mut self, client: u64, request: ClientRequest) -> ClientReply {
        self.submit(client, request);
        while [1, 2].map(|client| self.obey_oldest(client)).contains(&true) {}
        self.take(client)
    }

    /// Attributes of a path.
    fn stat(&mut self, client: u64, path: &'static str) -> Result<InodeStat, i32> {
        let reply = self.change(client, look_up(path));
        reply.target.ok_or(reply.result)
    }

    /// Changes that a client flushes with its capability of a file.
    fn flush(&mut self, file: &InodeStat, flush: ClientCaps) {
        let InodeStat { ino, cap, .. } = *file;
        let cap_id = if flush.op == CapOp::FLUSHSNAP { 0 } else { cap.cap_id };
        let (seq, wanted) = (cap.seq, cap.wanted);
        let flush = ClientCaps { ino, cap_id, seq, wanted, truncate_seq: 1, ..flush };
        self.send(1, &flush.encode(0));
    }

    fn flush_size(&mut self, file: &InodeStat, op: CapOp, size: u64, follows: u64) {
        let (caps, dirty) = (file.cap.caps, CapBits::FILE_WRITE);
        let flush =
            ClientCaps { op, caps, size, dirty, snap_follows: follows, ..Default::default() };
        self.flush(file, flush);
    }
}

#[test]
fn a_snapshot_shows_what_was_there() {
    let mut world = World::new(&[1, 2]);
    world.ask(1, mkdir("s"));
    let file = world.create(1, "s/f");
    let reply = world.change(1, request(ClientOp::MKSNAP, "s//x"));
    let root = reply.target.expect("the directory as the snapshot shows it");
    assert_eq!((reply.result, root.snap), (0, 2));
    let told: Vec<ClientSnap> =
        std::iter::from_fn(|| world.try_take(1)).map(|(_, snap)| snap).collect();
    assert_eq!(told[0].op, ClientSnap::SPLIT);
    // The client had not written back its size, and tells it with its changes since.
    world.flush_size(&file, CapOp::FLUSHSNAP, 4, 1);
    world.flush_size(&file, CapOp::FLUSH, 9, 2);
    assert_eq!(world.stat(2, "s//x/f").map(|stat| (stat.size, stat.snap)), Ok((4, 2)));
    assert_eq!(world.stat(2, "s/f").map(|stat| stat.size), Ok(9));
    assert_eq!(world.ask(1, request(ClientOp::UNLINK, "s//x/f")).result, Errno::ROFS.negative());
    assert_eq!(world.stat(2, "s//x/f").map(|stat| (stat.size, stat.snap)), Ok((4, 2)));
    assert_eq!(world.change(1, request(ClientOp::UNLINK, "s/f")).result, 0);
    assert_eq!(world.stat(2, "s/f").map(|stat| stat.size), Err(Errno::NOENT.negative()));
    assert_eq!(world.stat(2, "s//x/f").map(|stat| (stat.size, stat.snap)), Ok((4, 2)));
    // Clients find it again by the entries of the snapshot.
    let dentry = world.change(2, look_up("s//x/f")).dentry.expect("the entry that was asked for");
    assert_eq!((dentry.directory.snap, &dentry.name[..]), (2, &b"f"[..]));
}

#[test]
fn a_flush_that_names_no_possible_snapshot_changes_nothing_of_those_that_exist() {
    let mut world = World::new(&[1, 2]);
    world.ask(1, mkdir("s"));
    let file = world.create(1, "s/f");
    world.change(1, request(ClientOp::MKSNAP, "s//x"));
    world.flush_size(&file, CapOp::FLUSHSNAP, 4, 1);
    assert_eq!(world.change(1, request(ClientOp::UNLINK, "s/f")).result, 0);
    for follows in [u64::MAX, u64::MAX - 1, u64::MAX - 2] {
        world.flush_size(&file, CapOp::FLUSHSNAP, 7, follows);
    }
    assert_eq!(world.stat(2, "s//x/f").map(|stat| stat.size), Ok(4));
}

#[test]
fn a_late_flush_changes_only_what_the_client_may_change() {
    let mut world = World::new(&[1, 2]);
    world.ask(1, mkdir("s"));
    let file = world.create(1, "s/f");
    world.change(1, request(ClientOp::MKSNAP, "s//x"));
    // The client gives the right to change the mode back, and claims it with an old snapshot.
    world.change(2, create("s/f"));
    let dirty = CapBits::AUTH_EXCL | CapBits::FILE_WRITE;
    let flush = ClientCaps {
        op: CapOp::FLUSH,
        mode: 0o100_777,
        size: 3,
        dirty,
        snap_follows: 1,
        ..ClientCaps::default()
    };
    world.flush(&file, flush);
    assert_eq!(world.stat(2, "s/f").map(|stat| stat.mode), Ok(file.mode));
}

#[test]
fn a_snapshot_that_goes_under_a_waiting_look_leaves_the_file_to_its_writer() {
    let mut world = World::new(&[1, 2, 3]);
    world.ask(1, mkdir("s"));
    world.create(1, "s/f");
    world.change(1, request(ClientOp::MKSNAP, "s//x"));
    world.submit(3, request(ClientOp::RMSNAP, "s//x"));
    world.submit(2, look_up("s//x/f"));
    while world.try_take::<ClientReply>(3).is_none() {
        assert!(
            world.obey_oldest(1),
            "it gives back what stands in the way, of the directory first"
        );
    }
    assert_eq!(world.try_take::<ClientReply>(2), None, "the writer has not given back the file");
    while world.obey_oldest(1) {}
    assert_eq!(world.take::<ClientReply>(2).result, Errno::NOENT.negative());
    world.change(3, create("s/f"));
    while world.obey_oldest(1) {}
    let mut told = std::iter::from_fn(|| world.try_take::<ClientCaps>(3));
    assert!(told.any(|(_, told)| told.caps.contains(CapBits::FILE_WRITE)), "another one writes");
}

#[test]
fn a_flush_between_two_snapshots_changes_what_the_later_one_shows() {
    let mut world = World::new(&[1, 2]);
    world.ask(1, mkdir("s"));
    let file = world.create(1, "s/f");
    world.change(1, request(ClientOp::MKSNAP, "s//x"));
    world.change(1, request(ClientOp::MKSNAP, "s//y"));
    world.flush_size(&file, CapOp::FLUSHSNAP, 4, 1);
    world.flush_size(&file, CapOp::FLUSHSNAP, 9, 2);
    world.flush_size(&file, CapOp::FLUSH, 12, 3);
    for (path, size) in [("s//x/f", 4), ("s//y/f", 9), ("s/f", 12)] {
        assert_eq!(world.stat(2, path).map(|stat| stat.size), Ok(size), "{path}");
    }
}

#[test]
fn a_flush_of_a_snapshot_that_is_gone_is_acknowledged_and_changes_nothing() {
    let mut world = World::new(&[1, 2]);
    world.ask(1, mkdir("s"));
    let file = world.create(1, "s/f");
    world.change(1, request(ClientOp::MKSNAP, "s//x"));
    world.flush_size(&file, CapOp::FLUSHSNAP, 4, 1);
    world.change(1, request(ClientOp::MKSNAP, "s//y"));
    world.change(1, request(ClientOp::UNLINK, "s/f"));
    world.change(1, request(ClientOp::RMSNAP, "s//y"));
    let before = world.rank.tree().clone();
    while world.try_take::<ClientCaps>(1).is_some() {}
    world.flush_size(&file, CapOp::FLUSHSNAP, 9, 2);
    assert_eq!(world.take::<ClientCaps>(1).op, CapOp::FLUSHSNAP_ACK);
    assert!(*world.rank.tree() == before, "no snapshot shows it");
    assert_eq!(world.stat(2, "s//x/f").map(|stat| stat.size), Ok(4));
}

#[test]
fn changes_of_snapshots_are_changes_of_the_directory_that_shows_them() {
    let mut world = World::new(&[1, 2]);
    world.ask(1, mkdir("s"));
    let ino = world.ask(1, mkdir("s/d")).target.expect("it was made").ino;
    let mut seen = Vec::new();
    for request in [
        request(ClientOp::MKSNAP, "s//x"),
        ClientRequest { path2: FilePath::new(1, "s//x"), ..request(ClientOp::RENAMESNAP, "s//y") },
        request(ClientOp::RMSNAP, "s//y"),
        request(ClientOp::MKSNAP, "s/d//z"),
    ] {
        world.change(1, request);
        let mut told = std::iter::from_fn(|| world.try_take::<ClientSnap>(2)).map(|(_, it)| it);
        let snap = told.find(|snap| snap.op != ClientSnap::SPLIT).expect("all hear of it");
        let realms = SnapRealmInfo::decode_trace(&snap.trace, u64::MAX).unwrap();
        seen.push((realms[0].change_attr, realms[0].last_modified.seconds));
        drop(told);
        while world.try_take::<ClientSnap>(2).is_some() {}
    }
    assert_eq!(seen.iter().map(|(count, _)| *count).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(seen.is_sorted() && seen[0].1 > 100, "{seen:?}");
    assert_eq!(
        world
            .rank
            .tree()
            .get(namespace::Ino(ino))
            .unwrap()
            .policy
            .realm
            .as_ref()
            .unwrap()
            .change_attr,
        4
    );
}
