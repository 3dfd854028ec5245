//! Clients whose capabilities do not allow everything.

use super::*;
use auth::MdsCaps;
use std::sync::Arc;

const DENIED: i32 = -13;

impl World {
    /// Client 1 may do everything and has made a few files; client 2 has other capabilities.
    fn limited(text: &str) -> Self {
        let mut world = World::new(&[1]);
        world.rank.set_file_system("cephfs");
        for directory in ["a", "b"] {
            world.ask(1, mkdir(directory));
        }
        for file in ["a/x", "b/y"] {
            world.create(1, file);
        }
        world.release_all();
        let caps = Arc::new(MdsCaps::parse(text).unwrap());
        world.limited.insert(2, ClientPeer { caps, ..peer(2) });
        world
    }

    /// Nothing that client 1 holds stands in the way of others.
    fn release_all(&mut self) {
        self.send(1, &ClientSession::new(SessionOp::REQUEST_CLOSE, 100).encode(0));
    }

    /// A client does what it is asked for.
    fn give_back(&mut self, client: u64) {
        while let Some((_, told)) = self.try_take::<ClientCaps>(client) {
            if told.op == CapOp::REVOKE {
                self.answer(client, told, |_| ());
            }
        }
    }

    fn mounts(&mut self, root: &str) -> Result<(), String> {
        let open = ClientSession {
            features: FeatureBits(u64::MAX),
            metadata: [("root".to_owned(), root.to_owned())].into(),
            ..ClientSession::new(SessionOp::REQUEST_OPEN, 0)
        };
        self.send(2, &open.encode(0));
        let mut answer: ClientSession = self.take(2);
        match answer.op {
            SessionOp::OPEN => Ok(()),
            _ => Err(answer.metadata.remove("error_string").expect("it says why")),
        }
    }
}

fn open(path: &'static str, flags: u32) -> ClientRequest {
    let arguments = RequestArguments::of(&OpenArguments { flags, ..OpenArguments::default() });
    ClientRequest { arguments, ..request(ClientOp::OPEN, path) }
}

fn set(path: &'static str, mask: u32) -> ClientRequest {
    let arguments = SetattrArguments { mask, mode: 0o600, ..SetattrArguments::default() };
    ClientRequest {
        arguments: RequestArguments::of(&arguments),
        ..request(ClientOp::SETATTR, path)
    }
}

/// A client tells what it has by a reply.
fn told(stat: &InodeStat) -> ClientCaps {
    ClientCaps {
        op: CapOp::UPDATE,
        ino: stat.ino,
        cap_id: stat.cap.cap_id,
        seq: stat.cap.seq,
        issue_seq: stat.cap.seq,
        caps: stat.cap.caps,
        ..ClientCaps::default()
    }
}

/// It wants to write, too.
fn wanting(stat: &InodeStat) -> ClientCaps {
    let wanted = CapBits::FILE_WRITE | CapBits::FILE_BUFFER;
    ClientCaps { wanted, max_size: 1 << 40, ..told(stat) }
}

/// An operation on a name, with another one.
fn with(op: ClientOp, path: &'static str, other: &'static str) -> ClientRequest {
    ClientRequest { path2: FilePath::new(1, other), ..request(op, path) }
}

#[test]
fn a_client_mounts_what_its_capabilities_reach() {
    for (text, root, is_allowed) in [
        ("allow *", "/", true),
        ("allow r path=/a", "/a", true),
        ("allow r path=/a", "/", false),
        ("allow rw fsname=cephfs", "/", true),
        ("allow rw fsname=other", "/", false),
    ] {
        let mounted = World::limited(text).mounts(root);
        assert_eq!(mounted.is_ok(), is_allowed, "{text} {root}: {mounted:?}");
        let why = mounted.err().unwrap_or_default();
        assert!(is_allowed || why.contains(text) && why.contains("ceph auth caps"), "{why}");
    }
}

#[test]
fn requests_are_refused_that_capabilities_do_not_allow() {
    let reads = "allow r path=/a";
    let mixed = "allow r, allow rw path=/a";
    let user = "allow rw uid=5";
    for (text, request, code) in [
        (reads, look_up("a/x"), 0),
        (reads, look_up("b/y"), DENIED),
        (reads, look_up("b"), DENIED),
        (reads, readdir("a", 10, Bytes::new()), 0),
        (reads, readdir("b", 10, Bytes::new()), DENIED),
        (reads, readdir("", 10, Bytes::new()), DENIED),
        (reads, mkdir("a/n"), DENIED),
        (reads, create("a/n"), DENIED),
        (reads, create("a/x"), DENIED),
        (reads, open("a/x", open_flags::READ_WRITE), DENIED),
        (reads, open("a/x", open_flags::TRUNCATE), DENIED),
        (reads, open("a/x", 0), 0),
        (mixed, open("b/y", 0), 0),
        (mixed, open("b/y", open_flags::WRITE_ONLY), DENIED),
        (mixed, mkdir("a/n"), 0),
        (mixed, mkdir("n"), DENIED),
        (mixed, request(ClientOp::UNLINK, "b/y"), DENIED),
        (mixed, request(ClientOp::UNLINK, "a/x"), 0),
        (mixed, request(ClientOp::RMDIR, "b"), DENIED),
        (mixed, with(ClientOp::RENAME, "b/z", "a/x"), DENIED),
        (mixed, with(ClientOp::RENAME, "a/z", "b/y"), DENIED),
        (mixed, with(ClientOp::RENAME, "a/z", "a/x"), 0),
        (mixed, with(ClientOp::LINK, "a/l", "b/y"), DENIED),
        (mixed, set("b/y", setattr_mask::MODE), DENIED),
        (mixed, set("a/x", setattr_mask::MODE), 0),
        (mixed, with(ClientOp::SETXATTR, "b/y", "user.k"), DENIED),
        (mixed, request(ClientOp::GETFILELOCK, "b/y"), -22),
        ("allow rw path=/a", request(ClientOp::GETFILELOCK, "b/y"), DENIED),
        ("allow rw root_squash", mkdir("n"), 0),
        (user, look_up("a/x"), 0),
        (user, set("a/x", setattr_mask::MODE), 0),
        (user, mkdir("a/n"), 0),
        (user, mkdir("n"), DENIED),
        ("allow rw uid=7", look_up("a/x"), DENIED),
    ] {
        let mut world = World::limited(text);
        world.mounts("/a").unwrap();
        let told = format!("{text}: {:?} {:?}", request.op, request.path);
        assert_eq!(world.ask(2, request).result, code, "{told}");
    }
}

#[test]
fn a_reader_gets_no_bits_to_change_an_inode_without_a_request() {
    let mut world = World::limited("allow r, allow rw path=/a root_squash");
    world.mounts("/").unwrap();
    let stat = world.ask(2, open("b/y", 0)).target.unwrap();
    assert_eq!(stat.cap.caps.to_string(), "pAsLsXsFscr");
    let flushed = ClientCaps {
        op: CapOp::FLUSH,
        dirty: CapBits::AUTH_EXCL | CapBits::FILE_EXCL,
        mode: 0o100_777,
        size: 9,
        ..wanting(&stat)
    };
    world.send(2, &flushed.encode(0).with_tid(3));
    assert_eq!(world.take::<ClientCaps>(2).op, CapOp::FLUSH_ACK, "the client does not repeat it");
    let inode = world.rank.tree().get(namespace::Ino(stat.ino)).unwrap();
    assert_eq!((inode.mode & 0o777, inode.size), (0o644, 0));
    assert!(!inode.write_ranges.contains_key(&2));
    assert_eq!(world.take::<ClientCaps>(2).op, CapOp::EXPORT);
    let written = world.ask(2, open("a/x", open_flags::READ_WRITE)).target.unwrap();
    assert_eq!(written.cap.caps.to_string(), "pAsLsXsFscrwb", "its user decides");
}

#[test]
fn a_right_to_write_that_depends_on_the_user_comes_with_an_open_only() {
    let mut world = World::limited("allow rw uid=5");
    world.mounts("/").unwrap();
    let mode = ClientRequest { path: FilePath::new(1, "a/x"), ..set("a/x", setattr_mask::MODE) };
    assert_eq!(world.ask(2, mode).result, 0);
    let stat = world.ask(2, look_up("a/x")).target.unwrap();
    assert_eq!(stat.cap.caps.to_string(), "pAsLsXsFscr");
    world.send(2, &wanting(&stat).encode(0));
    let refusal: ClientCaps = world.take(2);
    let expected = (CapOp::EXPORT, stat.cap.cap_id);
    assert_eq!((refusal.op, refusal.cap_id), expected, "it must ask by a request");
    let opened = world.ask(2, open("a/x", open_flags::WRITE_ONLY)).target.unwrap();
    assert_eq!(opened.cap.caps.to_string(), "pAsLsXsFscrwb");
    world.send(2, &wanting(&opened).encode(0));
    assert!(world.rank.tree().get(namespace::Ino(stat.ino)).unwrap().write_ranges.contains_key(&2));
}

#[test]
fn a_client_that_may_not_write_is_told_although_a_reply_is_on_its_way() {
    let mut world = World::limited("allow rw uid=5");
    world.mounts("/").unwrap();
    let stat = world.ask(2, look_up("a/x")).target.unwrap();
    let again = world.ask(2, look_up("a/x")).target.unwrap();
    assert!(again.cap.seq > stat.cap.seq);
    // The client had not seen the second reply when it asked.
    world.send(2, &wanting(&stat).encode(0));
    let refusal: ClientCaps = world.take(2);
    assert_eq!((refusal.op, refusal.cap_id), (CapOp::EXPORT, stat.cap.cap_id));
}

#[test]
fn an_inode_that_was_moved_out_of_reach_is_not_changed_by_what_was_held() {
    let mut world = World::limited("allow r, allow rw path=/a");
    world.mounts("/").unwrap();
    let stat = world.ask(2, open("a/x", open_flags::READ_WRITE)).target.unwrap();
    assert!(stat.cap.caps.contains(CapBits::AUTH_EXCL));
    world.open(3);
    world.submit(3, with(ClientOp::RENAME, "b/moved", "a/x"));
    world.give_back(2);
    let flush = ClientCaps {
        op: CapOp::FLUSH,
        dirty: CapBits::AUTH_EXCL,
        mode: 0o100_777,
        seq: 100,
        ..told(&stat)
    };
    world.send(2, &flush.encode(0));
    assert_eq!(world.rank.tree().get(namespace::Ino(stat.ino)).unwrap().mode & 0o777, 0o644);
}

#[test]
fn an_open_file_without_a_name_is_used_as_before() {
    let mut world = World::limited("allow r, allow rw path=/a");
    world.mounts("/").unwrap();
    world.ask(2, open("b/y", 0));
    let opened = world.ask(2, open("a/x", open_flags::READ_WRITE)).target.unwrap();
    world.open(3);
    world.submit(3, request(ClientOp::UNLINK, "a/x"));
    world.give_back(2);
    assert_eq!(world.take::<ClientReply>(3).result, 0);
    let by_number = |ino| FilePath { ino, path: Bytes::new() };
    let cut = ClientRequest { path: by_number(opened.ino), ..set("", setattr_mask::SIZE) };
    world.submit(2, cut);
    world.give_back(2);
    assert_eq!(world.take::<ClientReply>(2).result, 0);
    let other = ClientRequest { path: by_number(opened.ino), ..set("", setattr_mask::MODE) };
    world.limited.insert(4, ClientPeer { client: 4, ..world.limited[&2].clone() });
    world.open(4);
    assert_eq!(world.ask(4, other).result, DENIED, "it has never opened it");
}

#[test]
fn a_quota_needs_its_flag() {
    for (text, expected) in
        [("allow rw", DENIED), ("allow rwp", 0), ("allow rw, allow rwp path=/b", DENIED)]
    {
        let mut world = World::limited(text);
        world.mounts("/").unwrap();
        let path2 = FilePath { ino: 0, path: "ceph.quota".into() };
        let data = "max_files=7".into();
        let set = ClientRequest { path2, data, ..request(ClientOp::SETXATTR, "a") };
        assert_eq!(world.ask(2, set).result, expected, "{text}");
    }
}

#[test]
fn a_snapshot_needs_its_flag() {
    for (text, expected) in [("allow rwp", DENIED), ("allow rws", 0)] {
        let mut world = World::limited(text);
        world.mounts("/").unwrap();
        assert_eq!(world.ask(2, request(ClientOp::MKSNAP, "a//x")).result, expected, "{text}");
    }
}

#[test]
fn a_snapshot_is_read_by_the_mode_that_it_shows() {
    for (shown, now, expected) in [(0o600, 0o200, 0), (0o200, 0o600, DENIED)] {
        let mut world = World::limited("allow rws uid=5");
        world.mounts("/").unwrap();
        let ask = |world: &mut World, request| {
            world.submit(2, request);
            world.give_back(2);
            world.take::<ClientReply>(2).result
        };
        for (mode, snapshot) in [(shown, true), (now, false)] {
            let arguments =
                SetattrArguments { mask: setattr_mask::MODE, mode, ..SetattrArguments::default() };
            let arguments = RequestArguments::of(&arguments);
            let set = ClientRequest { arguments, ..request(ClientOp::SETATTR, "a/x") };
            assert_eq!(ask(&mut world, set), 0);
            if snapshot {
                assert_eq!(ask(&mut world, request(ClientOp::MKSNAP, "a//s")), 0);
            }
        }
        assert_eq!(ask(&mut world, open("a//s/x", 0)), expected, "{shown:o}");
        assert_eq!(ask(&mut world, look_up("a//s/x")), 0, "nothing is read");
    }
    let mut world = World::limited("allow rws path=/a");
    world.mounts("/a").unwrap();
    world.open(3);
    assert_eq!(world.ask(3, request(ClientOp::MKSNAP, "/s")).result, 0);
    assert_eq!(world.ask(2, look_up("/s/a/x")).result, 0, "the path is the one that it had");
    assert_eq!(world.ask(2, look_up("/s/b/y")).result, DENIED);
}

#[test]
fn layouts_need_a_right_of_their_own() {
    for (text, expected) in [("allow rw", DENIED), ("allow rwp", 0), ("allow *", 0)] {
        let mut world = World::limited(text);
        world.mounts("/").unwrap();
        let path2 = FilePath { ino: 0, path: "ceph.dir.layout.pool".into() };
        let set = ClientRequest { path2, data: "fast".into(), ..request(ClientOp::SETXATTR, "a") };
        assert_eq!(world.ask(2, set).result, expected, "{text}");
        let mut make = |pool, name| {
            let flags = open_flags::CREATE;
            let arguments = OpenArguments { flags, pool, ..Default::default() };
            let arguments = RequestArguments::of(&arguments);
            world.ask(2, ClientRequest { arguments, ..create(name) }).result
        };
        assert_eq!(make(5, "b/own"), expected, "{text}");
        assert_eq!(make(3, "b/as-it-would-be"), 0, "{text}");
    }
    // Attributes out of its reach are not told either.
    let mut world = World::limited("allow rwp path=/a");
    world.mounts("/a").unwrap();
    let path2 = FilePath { ino: 0, path: "ceph.dir.layout.json".into() };
    for (path, expected) in [("a", 0), ("b", DENIED)] {
        let get = ClientRequest { path2: path2.clone(), ..request(ClientOp::GETVXATTR, path) };
        assert_eq!(world.ask(2, get).result, expected, "{path}");
    }
}
