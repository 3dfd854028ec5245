//! Quotas, and the realms from which clients count them.

use super::*;
use codec::Reader;

fn set(path: &'static str, name: &'static str, value: &'static str) -> ClientRequest {
    let path2 = FilePath { ino: 0, path: name.into() };
    ClientRequest { path2, data: value.into(), ..request(ClientOp::SETXATTR, path) }
}

fn get(path: &'static str, name: &'static str) -> ClientRequest {
    let path2 = FilePath { ino: 0, path: name.into() };
    ClientRequest { path2, ..request(ClientOp::GETVXATTR, path) }
}

/// Realms of a trace and those above each, in the encoding of newer clients.
fn chain(trace: &Bytes) -> Vec<(u64, u64)> {
    let mut r = Reader::new(trace);
    let mut chain = Vec::new();
    while r.remaining() > 0 {
        let realm = r.versioned("realm", 1, |r, _| {
            let realm: SnapRealmInfo = r.value()?;
            r.skip("change", 16)?;
            Ok(realm)
        });
        let realm = realm.expect("a trace of realms");
        assert!(realm.seq > 0, "clients take what is newer than nothing");
        chain.push((realm.ino, realm.parent));
    }
    chain
}

impl World {
    fn value(&mut self, path: &'static str, name: &'static str) -> Result<String, i32> {
        let reply = self.ask(1, get(path, name));
        if reply.result != 0 {
            return Err(reply.result);
        }
        let value: VirtualAttribute = codec::decode_all("value", &reply.extra).unwrap();
        Ok(String::from_utf8(value.value.to_vec()).unwrap())
    }

    fn make(&mut self, path: &'static str) -> u64 {
        self.ask(1, mkdir(path)).target.expect("it was made").ino
    }

    /// Sets a quota; client 1 gives back what stands in the way.
    fn limit(&mut self, path: &'static str, value: &'static str) -> ClientReply {
        let reply = self.ask(1, set(path, "ceph.quota", value));
        assert_eq!(reply.result, 0);
        reply
    }

    /// Messages of a kind that a client has not read.
    fn take_all<T: MessageBody>(&mut self, client: u64) -> Vec<T> {
        std::iter::from_fn(|| self.try_take::<T>(client)).map(|(_, message)| message).collect()
    }

    /// Another client looks up what client 1 has alone.
    fn share(&mut self, client: u64, path: &'static str) {
        self.submit(client, look_up(path));
        self.obey_all(1);
        assert_eq!(self.take::<ClientReply>(client).result, 0);
    }

    /// The client has none of the capabilities on files that would keep others waiting.
    fn obey_all(&mut self, client: u64) {
        while self.obey_oldest(client) {}
    }
}

#[test]
fn a_quota_is_set_shown_and_removed() {
    let mut world = World::new(&[1]);
    world.make("dir");
    world.create(1, "dir/file");
    let none = Err(Errno::NODATA.negative());
    assert_eq!(world.value("dir", "ceph.quota"), none);
    let reply = world.limit("dir", "max_bytes=1000 max_files=7");
    assert!(reply.is_safe, "it is not lost while its client writes");
    assert_eq!(reply.target.unwrap().quota, QuotaInfo { max_bytes: 1000, max_files: 7 });
    assert_eq!(world.value("dir", "ceph.quota"), Ok("max_bytes=1000 max_files=7".to_owned()));
    assert_eq!(world.ask(1, set("dir", "ceph.quota.max_bytes", "2Ki")).result, 0);
    assert_eq!(world.value("dir", "ceph.quota.max_bytes"), Ok("2048".to_owned()));
    assert_eq!(world.value("dir", "ceph.quota.max_files"), Ok("7".to_owned()));
    assert_eq!(world.ask(1, set("dir", "ceph.quota.max_files", "0")).result, 0);
    assert_eq!(world.value("dir", "ceph.quota.max_files"), none);
    let remove = ClientRequest { op: ClientOp::RMXATTR, ..get("dir", "ceph.quota.max_bytes") };
    assert_eq!(world.ask(1, remove).target.unwrap().quota, QuotaInfo::default());
    assert_eq!(world.value("dir", "ceph.quota"), none);
    for (path, name, value) in [
        ("dir", "ceph.quota.max_files", "-1"),
        ("dir", "ceph.quota.max_files", ""),
        ("dir", "ceph.quota.max_bytes", "all"),
        ("dir", "ceph.quota", "max_bytes"),
        ("dir", "ceph.quota", "max_inodes=1"),
        ("dir/file", "ceph.quota", "max_files=1"),
    ] {
        let result = world.ask(1, set(path, name, value)).result;
        assert_eq!(result, Errno::INVAL.negative(), "{path} {name} {value}");
    }
}

#[test]
fn a_directory_with_a_quota_is_a_realm() {
    let mut world = World::new(&[1, 2]);
    let (dir, sub) = (world.make("dir"), world.make("dir/sub"));
    let file = world.create(1, "dir/sub/file");
    world.create(1, "other");
    world.share(2, "dir");
    let reply = world.limit("dir", "max_files=9");
    assert_eq!(chain(&reply.snap_trace), [(dir, 1), (1, 0)]);
    assert_eq!(reply.target.unwrap().cap.realm, dir);
    // Both hear which of the inodes that they have are in it now.
    for (client, expected) in [(1, vec![dir, sub, file.ino]), (2, vec![dir])] {
        let mut split: ClientSnap = world.take(client);
        split.inodes.sort_unstable();
        assert_eq!((split.op, split.split, split.inodes), (ClientSnap::SPLIT, dir, expected));
        assert_eq!(chain(&split.trace), [(dir, 1), (1, 0)]);
    }
    // The other client hears of the bounds.
    assert_eq!(world.take::<ClientQuota>(2).quota.max_files, 9);
    assert_eq!(world.try_take::<ClientQuota>(1), None);
    // A quota below it.
    let reply = world.limit("dir/sub", "max_files=3");
    assert_eq!(chain(&reply.snap_trace), [(sub, dir), (dir, 1), (1, 0)]);
    let created = world.ask(1, create("dir/sub/new"));
    assert_eq!(created.target.unwrap().cap.realm, sub);
    assert_eq!(chain(&created.snap_trace).len(), 3);
    // A quota in between takes the realm below along.
    world.take_all::<ClientSnap>(1);
    let mid = world.make("mid");
    world.make("mid/in");
    world.limit("mid/in", "max_files=3");
    world.take_all::<ClientSnap>(1);
    world.limit("mid", "max_files=3");
    let split: ClientSnap = world.take(1);
    assert_eq!((split.split, split.inodes.len(), split.realms.len()), (mid, 1, 1));
}

#[test]
fn a_client_of_the_older_encoding_gets_realms_in_it() {
    let mut world = World::new(&[1]);
    let features = FeatureBits(!session_features::NEW_SNAPREALM_INFO);
    let open = ClientSession { features, ..ClientSession::new(SessionOp::REQUEST_OPEN, 0) };
    world.send(3, &open.encode(0));
    let dir = world.make("dir");
    world.share(3, "dir");
    world.limit("dir", "max_files=9");
    let split: ClientSnap = world.take(3);
    let mut r = Reader::new(&split.trace);
    let chain: [SnapRealmInfo; 2] = [r.value().unwrap(), r.value().unwrap()];
    r.finish("trace").unwrap();
    assert_eq!(chain.map(|realm| (realm.ino, realm.parent)), [(dir, 1), (1, 0)]);
}

#[test]
fn an_entry_in_another_realm_is_listed_without_a_capability() {
    let mut world = World::new(&[1, 2]);
    world.make("dir");
    world.make("plain");
    world.limit("dir", "max_files=9");
    world.obey_all(1);
    world.submit(2, readdir("", 0, Bytes::new()));
    world.obey_all(1);
    let extra = world.take::<ClientReply>(2).extra;
    let page: DirectoryPage = codec::decode_all("page", &extra).unwrap();
    for entry in page.entries {
        let (cap, is_realm) = (entry.inode.cap, entry.name == "dir");
        assert_eq!((cap.cap_id == 0, cap.is_auth), (is_realm, true), "{:?}", entry.name);
        assert_eq!(entry.inode.quota.max_files, if is_realm { 9 } else { 0 });
    }
}

#[test]
fn clients_hear_when_a_quota_is_used_up() {
    let mut world = World::new(&[1, 2]);
    let dir = world.make("dir");
    world.make("dir/sub");
    world.limit("dir", "max_files=4");
    world.share(2, "dir");
    world.pass(Duration::from_secs(2));
    world.take_all::<ClientQuota>(1);
    world.take_all::<ClientQuota>(2);
    for name in ["dir/sub/a", "dir/sub/b"] {
        world.create(1, name);
    }
    // Its own message comes before its reply, so that the next create fails.
    let entries = |quota: &ClientQuota| quota.rfiles + quota.rsubdirs;
    let told = world.take_all::<ClientQuota>(1);
    assert_eq!(told.iter().map(entries).collect::<Vec<_>>(), [3, 4]);
    assert!(told.iter().all(|quota| quota.ino == dir && quota.quota.max_files == 4));
    world.pass(Duration::from_secs(1));
    let told = world.take_all::<ClientQuota>(2);
    assert_eq!(told.last().map(entries), Some(4), "the others hear within a second");
    world.pass(Duration::from_secs(5));
    assert_eq!(world.try_take::<ClientQuota>(2), None, "nothing has changed");
    // A removal is told, too.
    world.ask(1, request(ClientOp::UNLINK, "dir/sub/a"));
    world.obey_all(2);
    assert_eq!(world.take_all::<ClientQuota>(1).iter().map(entries).collect::<Vec<_>>(), [3]);
}

#[test]
fn bytes_that_clients_write_back_count() {
    let mut world = World::new(&[1]);
    world.make("dir");
    let file = world.create(1, "dir/file");
    world.limit("dir", "max_bytes=1000000");
    let flush = ClientCaps {
        op: CapOp::FLUSH,
        ino: file.ino,
        cap_id: file.cap.cap_id,
        seq: file.cap.seq,
        caps: file.cap.caps,
        wanted: file.cap.wanted,
        truncate_seq: 1,
        size: 900_000,
        dirty: CapBits::FILE_WRITE,
        ..ClientCaps::default()
    };
    world.send(1, &flush.encode(0));
    assert_eq!(world.take_all::<ClientQuota>(1).last().map(|quota| quota.rbytes), Some(900_000));
}

#[test]
fn what_moves_between_realms_is_told() {
    let mut world = World::new(&[1]);
    let (a, b) = (world.make("a"), world.make("b"));
    world.limit("a", "max_files=9");
    world.limit("b", "max_files=9");
    let sub = world.make("a/sub");
    let file = world.create(1, "a/sub/file").ino;
    world.make("a/own");
    let own = world.limit("a/own", "max_files=2").target.unwrap().ino;
    world.take_all::<ClientSnap>(1);
    let mut rename = |from: &'static str, to: &'static str| {
        let rename =
            ClientRequest { path2: FilePath::new(1, from), ..request(ClientOp::RENAME, to) };
        let reply = world.ask(1, rename);
        let mut told = world.take_all::<ClientSnap>(1);
        told.iter_mut().for_each(|snap| snap.inodes.sort_unstable());
        (reply, told)
    };
    let (reply, told) = rename("a/sub", "b/sub");
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].split, &told[0].inodes), (b, &vec![sub, file]));
    assert_eq!(chain(&told[0].trace), [(b, 1), (1, 0)]);
    assert_eq!(reply.target.unwrap().cap.realm, b);
    // A realm keeps its inodes, and is below another one.
    let (_, told) = rename("a/own", "b/own");
    assert_eq!((told.len(), told[0].op), (1, ClientSnap::UPDATE));
    assert_eq!(chain(&told[0].trace), [(own, b), (b, 1), (1, 0)]);
    // Within a realm nothing is to be told.
    assert_eq!(rename("b/sub/file", "b/file").1, []);
    let (_, told) = rename("b/file", "file");
    assert_eq!((told[0].split, &told[0].inodes), (1, &vec![file]));
    assert_ne!(a, b);
}
