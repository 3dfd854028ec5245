//! Layouts and other virtual attributes of files and directories.

use super::*;
use wire::client_request::{SetlayoutArguments, SetxattrArguments};

/// A client with this map sets an attribute, or removes it.
fn xattr(op: ClientOp, path: &'static str, name: &'static str, value: &str) -> ClientRequest {
    let path2 = FilePath { ino: 0, path: name.into() };
    let data = Bytes::copy_from_slice(value.as_bytes());
    ClientRequest { path2, data, ..request(op, path) }
}

impl World {
    /// Sets an attribute, for which no other client has to give anything back.
    fn set(&mut self, path: &'static str, name: &'static str, value: &str) -> i32 {
        self.submit(1, xattr(ClientOp::SETXATTR, path, name, value));
        self.answered()
    }

    fn remove(&mut self, path: &'static str, name: &'static str) -> i32 {
        self.submit(1, xattr(ClientOp::RMXATTR, path, name, ""));
        self.answered()
    }

    fn answered(&mut self) -> i32 {
        while self.obey_oldest(1) {}
        self.take::<ClientReply>(1).result
    }

    /// The value that the server tells of an attribute.
    fn told(&mut self, path: &'static str, name: &'static str) -> Result<String, i32> {
        let reply = self.ask(1, xattr(ClientOp::GETVXATTR, path, name, ""));
        let mut r = codec::Reader::new(&reply.extra);
        match reply.result {
            0 => Ok(r.versioned("value", 1, |r, _| r.value()).unwrap()),
            error => Err(error),
        }
    }
}

const SMALL: &str =
    "stripe_unit=65536 stripe_count=2 object_size=131072 pool=fast pool_namespace=n";

#[test]
fn a_file_has_the_layout_of_its_directory() {
    let mut world = World::new(&[1]);
    world.ask(1, mkdir("dir"));
    world.create(1, "dir/before");
    assert_eq!(world.set("dir", "ceph.dir.layout", SMALL), 0);
    world.ask(1, mkdir("dir/below"));
    let small = FileLayout {
        stripe_unit: 65536,
        stripe_count: 2,
        object_size: 131_072,
        pool: PoolId(5),
        namespace: "n".to_owned(),
    };
    for file in ["dir/file", "dir/below/file"] {
        let stat = world.create(1, file);
        assert_eq!((stat.layout, stat.max_size), (small.clone(), 65536), "{file}");
    }
    let before = world.ask(1, request(ClientOp::GETATTR, "dir/before")).target.unwrap();
    assert_eq!(before.layout, FileLayout::simple(PoolId(3)));
    assert_eq!(world.ask(1, request(ClientOp::GETATTR, "dir")).target.unwrap().layout, small);
    assert_eq!(world.remove("dir", "ceph.dir.layout.pool_namespace"), 0);
    assert_eq!(world.create(1, "dir/third").layout.namespace, "");
    assert_eq!(world.remove("dir", "ceph.dir.layout"), 0);
    assert_eq!(world.create(1, "dir/last").layout, FileLayout::simple(PoolId(3)));
}

#[test]
fn the_root_shows_the_default_layout() {
    let mut world = World::new(&[1]);
    let root = world.ask(1, request(ClientOp::GETATTR, "")).target.unwrap();
    assert_eq!(root.layout, FileLayout::simple(PoolId(3)));
    let dir = world.ask(1, mkdir("dir")).target.unwrap();
    assert_eq!(dir.layout, FileLayout::default(), "it has none of its own");
}

#[test]
fn a_file_keeps_its_layout_when_it_has_had_data() {
    let mut world = World::new(&[1]);
    world.create(1, "file");
    assert_eq!(world.set("file", "ceph.file.layout.pool", "fast"), 0);
    assert_eq!(world.set("file", "ceph.file.layout.pool", "none"), Errno::INVAL.negative());
    assert_eq!(world.set("file", "ceph.dir.layout.pool", "data"), Errno::INVAL.negative());
    assert_eq!(world.remove("file", "ceph.file.layout"), Errno::INVAL.negative());
    // Its client has written and has not told so.
    world.create(1, "written");
    world.submit(1, xattr(ClientOp::SETXATTR, "written", "ceph.file.layout.pool", "fast"));
    world.obey(1, |answer| {
        answer.size = 11;
        answer.dirty = CapBits::FILE_WRITE;
    });
    assert_eq!(world.take::<ClientReply>(1).result, Errno::NOTEMPTY.negative());
    for size in [5, 0] {
        let set = SetattrArguments { mask: setattr_mask::SIZE, size, ..Default::default() };
        let arguments = RequestArguments::of(&set);
        world.submit(1, ClientRequest { arguments, ..request(ClientOp::SETATTR, "file") });
        assert_eq!(world.answered(), 0);
        let result = world.set("file", "ceph.file.layout.pool", "data");
        assert_eq!(result, Errno::NOTEMPTY.negative(), "size {size}");
    }
}

#[test]
fn layouts_are_set_by_numbers() {
    let mut world = World::new(&[1]);
    world.ask(1, mkdir("dir"));
    world.create(1, "file");
    let numbers = |op, path, pool| {
        let arguments = SetlayoutArguments { stripe_unit: 65536, pool, ..Default::default() };
        ClientRequest { arguments: RequestArguments::of(&arguments), ..request(op, path) }
    };
    for (op, path) in [(ClientOp::SETDIRLAYOUT, "dir"), (ClientOp::SETLAYOUT, "file")] {
        world.submit(1, numbers(op, path, 5));
        assert_eq!(world.answered(), 0, "{path}");
        let layout = world.ask(1, request(ClientOp::GETATTR, path)).target.unwrap().layout;
        assert_eq!((layout.stripe_unit, layout.object_size), (65536, 4 << 20), "{path}");
        assert_eq!(layout.pool, PoolId(5), "{path}");
        assert_eq!(world.ask(1, numbers(op, path, 4)).result, Errno::INVAL.negative(), "{path}");
    }
    let wrong = world.ask(1, numbers(ClientOp::SETDIRLAYOUT, "file", 5)).result;
    assert_eq!(wrong, Errno::NOTDIR.negative());
    // By the request that creates a file.
    let flags = open_flags::CREATE | open_flags::WRITE_ONLY;
    let arguments = OpenArguments { flags, stripe_unit: 131_072, pool: 5, ..Default::default() };
    let arguments = RequestArguments::of(&arguments);
    let made = world.ask(1, ClientRequest { arguments, ..create("made") }).target.unwrap();
    assert_eq!((made.layout.stripe_unit, made.layout.pool), (131_072, PoolId(5)));
    assert_eq!(made.max_size, 131_072);
}

#[test]
fn the_server_tells_layouts_with_their_origin() {
    let mut world = World::new(&[1]);
    world.ask(1, mkdir("dir"));
    world.ask(1, mkdir("dir/below"));
    let origin = |world: &mut World, path| {
        let text = world.told(path, "ceph.dir.layout.json").unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        value["inheritance"].as_str().unwrap().to_owned()
    };
    assert_eq!(origin(&mut world, ""), "@default");
    assert_eq!(origin(&mut world, "dir"), "@default");
    assert_eq!(world.set("dir", "ceph.dir.layout", SMALL), 0);
    assert_eq!(
        (&*origin(&mut world, "dir"), &*origin(&mut world, "dir/below")),
        ("@set", "@inherited")
    );
    assert_eq!(world.told("dir/below", "ceph.dir.layout.pool_name"), Ok("fast".to_owned()));
    assert_eq!(world.told("dir/below", "ceph.dir.layout.pool_id"), Ok("5".to_owned()));
    let no_data = Err(Errno::NODATA.negative());
    for name in ["ceph.file.layout.json", "ceph.dir.layout.color", "ceph.dir.color", "user.x"] {
        assert_eq!(world.told("dir", name), no_data, "{name}");
    }
    let unknown = world.set("dir", "ceph.dir.layout.color", "1");
    assert_eq!(unknown, Errno::NODATA.negative());
    assert_eq!(world.set("dir", "ceph.color", "1"), Errno::INVAL.negative());
}

#[test]
fn a_pool_of_a_newer_map_is_waited_for() {
    let mut world = World::new(&[1]);
    world.ask(1, mkdir("dir"));
    let set = xattr(ClientOp::SETXATTR, "dir", "ceph.dir.layout.pool", "new");
    assert_eq!(world.ask(1, set.clone()).result, Errno::INVAL.negative());
    let arguments = SetxattrArguments { flags: 0, osdmap_epoch: 2 };
    let newer = ClientRequest { arguments: RequestArguments::of(&arguments), ..set.clone() };
    for request in [newer, ClientRequest { map_epoch: 3, ..set }] {
        world.submit(1, request);
    }
    assert!(world.try_take::<ClientReply>(1).is_none());
    let mut next = pools(2);
    world.rank.set_data_pools(&next);
    world.take_outputs();
    assert_eq!(world.take::<ClientReply>(1).result, Errno::INVAL.negative());
    assert!(world.try_take::<ClientReply>(1).is_none());
    next = pools(3);
    next.names.insert(PoolId(9), "new".to_owned());
    world.rank.set_data_pools(&next);
    world.take_outputs();
    assert_eq!(world.take::<ClientReply>(1).result, 0);
    assert_eq!(world.create(1, "dir/file").layout.pool, PoolId(9));
}

#[test]
fn pins_of_directories_are_kept_and_shown() {
    let mut world = World::new(&[1]);
    assert_eq!(world.ask(1, mkdir("dir")).target.unwrap().pin, -1);
    for (name, value) in [
        ("ceph.dir.pin", "1"),
        ("ceph.dir.pin.distributed", "1"),
        ("ceph.dir.pin.random", "0.0078125"),
    ] {
        assert_ne!(world.told("dir", name).as_deref(), Ok(value), "{name}");
        assert_eq!(world.set("dir", name, value), 0, "{name}");
        assert_eq!(world.told("dir", name).as_deref(), Ok(value), "{name}");
    }
    assert_eq!(world.ask(1, request(ClientOp::GETATTR, "dir")).target.unwrap().pin, 1);
    assert_eq!(world.remove("dir", "ceph.dir.pin"), 0);
    assert_eq!(world.told("dir", "ceph.dir.pin").as_deref(), Ok("-1"));
    for (path, name, value, error) in [
        ("", "ceph.dir.pin", "1", Errno::INVAL),
        ("dir", "ceph.dir.pin", "256", Errno::DOM),
        ("dir", "ceph.dir.pin", "one", Errno::INVAL),
        ("dir", "ceph.dir.pin.distributed", "maybe", Errno::INVAL),
        ("dir", "ceph.dir.pin.random", "2", Errno::DOM),
        ("dir", "ceph.dir.pin.random", "NaN", Errno::DOM),
        ("dir", "ceph.dir.pin.random", "0.5", Errno::INVAL),
    ] {
        assert_eq!(world.set(path, name, value), error.negative(), "{name} {value}");
    }
}

#[test]
fn the_root_says_where_its_mirror_is() {
    const PLACE: &str = "cluster_id=a2dc7784-e7a1-4723-b103-03ee8d8768f8 fs_id=3";
    let mut world = World::new(&[1]);
    world.ask(1, mkdir("dir"));
    assert_eq!(world.set("dir", "ceph.mirror.info", PLACE), Errno::INVAL.negative());
    for wrong in ["", "cluster_id=a fs_id=3", &format!("{PLACE}x")] {
        assert_eq!(world.set("", "ceph.mirror.info", wrong), Errno::INVAL.negative(), "{wrong}");
    }
    assert_eq!(world.remove("", "ceph.mirror.info"), Errno::NODATA.negative());
    assert_eq!(world.set("", "ceph.mirror.info", PLACE), 0);
    let root = world.ask(1, request(ClientOp::GETATTR, "")).target.unwrap();
    let xattrs = wire::inode_stat::decode_xattrs(&root.xattrs).unwrap();
    assert_eq!(xattrs["ceph.mirror.info.fs_id".as_bytes()], "3");
    assert_eq!(xattrs["ceph.mirror.info.cluster_id".as_bytes()].len(), 36);
    assert_eq!(world.remove("", "ceph.mirror.info"), 0);
}
