//! Directed tests: one operation each, and what it leaves.

use super::images::image_record;
use super::*;
use crate::{Ino, Inode, Kind, PageStart, WriteRange, realms};
use bytes::Bytes;
use types::{PoolId, UTime};
use wire::FileLayout;

const FILE: u32 = Kind::FILE_MODE | 0o644;
const DIRECTORY: u32 = Kind::DIRECTORY_MODE | 0o755;

/// A tree with the records that made it.
struct World {
    tree: Tree,
    clock: u32,
    next: u64,
}

impl World {
    fn new() -> Self {
        World { tree: Tree::new(UTime::ZERO), clock: 0, next: Ino::FIRST.0 }
    }

    fn context(&mut self) -> Context {
        self.clock += 1;
        Context { now: UTime { seconds: self.clock, nanoseconds: 0 }, uid: 5, gid: 6 }
    }

    fn run(&mut self, operation: Operation) -> Result<Done, Errno> {
        let context = self.context();
        let before = self.tree.clone();
        let done = execute(&self.tree, &operation, &context);
        assert_eq!(self.tree, before, "execution changes nothing");
        if let Ok(done) = &done {
            self.tree.apply(&done.records);
        }
        self.tree.check_invariants();
        done
    }

    fn create_with(
        &mut self,
        directory: Ino,
        name: &'static str,
        new: NewInode,
    ) -> Result<Ino, Errno> {
        let ino = Ino(self.next);
        self.next += 1;
        let new = Box::new(NewInode { ino, ..new });
        self.run(Operation::Create { directory, name: name.into(), new })?;
        Ok(ino)
    }

    fn create(&mut self, directory: Ino, name: &'static str, mode: u32) -> Result<Ino, Errno> {
        self.create_with(directory, name, NewInode { mode, ..NewInode::default() })
    }

    fn file(&mut self, directory: Ino, name: &'static str) -> Ino {
        self.create(directory, name, FILE).unwrap()
    }

    fn directory(&mut self, directory: Ino, name: &'static str) -> Ino {
        self.create(directory, name, DIRECTORY).unwrap()
    }

    fn unlink(&mut self, directory: Ino, name: &'static str) -> Result<Done, Errno> {
        self.run(Operation::Unlink { directory, name: name.into() })
    }

    fn rmdir(&mut self, directory: Ino, name: &'static str) -> Result<Done, Errno> {
        self.run(Operation::RemoveDirectory { directory, name: name.into() })
    }

    fn link(&mut self, ino: Ino, directory: Ino, name: &'static str) -> Result<Done, Errno> {
        self.run(Operation::Link { ino, directory, name: name.into() })
    }

    fn rename(
        &mut self,
        from: (Ino, &'static str),
        to: (Ino, &'static str),
    ) -> Result<Done, Errno> {
        let place = |(ino, name): (Ino, &'static str)| (ino, name.into());
        self.run(Operation::Rename { from: place(from), to: place(to) })
    }

    fn change(&mut self, ino: Ino, change: AttributeChange) -> Result<Done, Errno> {
        self.run(Operation::Change { ino, change: Box::new(change) })
    }

    fn get(&self, ino: Ino) -> &Inode {
        self.tree.get(ino).unwrap()
    }

    fn entry(&self, directory: Ino, name: &'static str) -> Option<Ino> {
        self.tree.entry(directory, &name.into()).map(|entry| entry.ino)
    }
}

#[test]
fn a_created_file_has_owner_times_and_the_layout_of_the_nearest_directory() {
    let mut world = World::new();
    let default_layout = FileLayout::simple(PoolId(3));
    let new = NewInode { mode: FILE, default_layout: default_layout.clone(), ..Default::default() };
    let plain = world.create_with(Ino::ROOT, "plain", new.clone()).unwrap();
    assert_eq!(world.get(plain).layout, Some(default_layout));
    assert_eq!((world.get(plain).owner.uid, world.get(plain).owner.gid), (5, 6));
    assert_eq!(world.get(plain).btime, UTime { seconds: 1, nanoseconds: 0 });
    assert_eq!((world.get(plain).truncation.seq, world.get(plain).xattrs.version), (1, 1));
    assert_eq!(world.get(Ino::ROOT).mtime, UTime { seconds: 1, nanoseconds: 0 });

    let outer = world.directory(Ino::ROOT, "outer");
    let inner = world.directory(outer, "inner");
    let mut root = world.get(outer).clone();
    root.layout = Some(FileLayout::simple(PoolId(9)));
    world.tree.apply(&[image_record(&world.tree, root)]);
    let below = world.create_with(inner, "below", new).unwrap();
    assert_eq!(world.get(below).layout.as_ref().unwrap().pool, PoolId(9));
}

#[test]
fn a_directory_with_its_group_bit_gives_group_and_bit() {
    let mut world = World::new();
    let shared = world.create(Ino::ROOT, "shared", DIRECTORY | 0o2000).unwrap();
    let change = SetAttributes { gid: Some(77), ..SetAttributes::default() };
    world.change(shared, AttributeChange::Set(change)).unwrap();
    let file = world.file(shared, "file");
    let directory = world.directory(shared, "directory");
    assert_eq!((world.get(file).owner.gid, world.get(directory).owner.gid), (77, 77));
    assert_eq!((world.get(file).mode & 0o2000, world.get(directory).mode & 0o2000), (0, 0o2000));
}

#[test]
fn names_are_checked() {
    let mut world = World::new();
    let file = world.file(Ino::ROOT, "file");
    assert_eq!(world.create(Ino::ROOT, "file", FILE), Err(Errno::EXIST));
    assert_eq!(world.create(Ino::ROOT, "", FILE), Err(Errno::INVAL));
    assert_eq!(world.create(Ino::ROOT, "..", FILE), Err(Errno::INVAL));
    assert_eq!(world.create(Ino::ROOT, "a/b", FILE), Err(Errno::INVAL));
    assert_eq!(world.create(file, "below", FILE), Err(Errno::NOTDIR));
    assert_eq!(world.create(Ino(99), "below", FILE), Err(Errno::STALE));
    let long: &'static str = Box::leak("x".repeat(256).into_boxed_str());
    assert_eq!(world.create(Ino::ROOT, long, FILE), Err(Errno::NAMETOOLONG));
    assert_eq!(world.unlink(Ino::ROOT, "absent").unwrap_err(), Errno::NOENT);
}

#[test]
fn an_unlinked_file_is_an_orphan_until_it_is_forgotten() {
    let mut world = World::new();
    let file = world.file(Ino::ROOT, "file");
    assert_eq!(world.run(Operation::Forget { ino: file }).unwrap_err(), Errno::BUSY);
    let done = world.unlink(Ino::ROOT, "file").unwrap();
    assert_eq!(done.orphan, Some(file));
    assert_eq!((world.get(file).nlink, world.tree.orphans()), (0, vec![file]));
    // Clients that have it open still change it.
    let change = SetAttributes { size: Some(9), ..SetAttributes::default() };
    world.change(file, AttributeChange::Set(change)).unwrap();
    assert_eq!(world.get(file).size, 9);
    assert_eq!(world.link(file, Ino::ROOT, "again").unwrap_err(), Errno::NOENT);
    world.run(Operation::Forget { ino: file }).unwrap();
    assert_eq!(world.tree.inodes(), 1);
}

#[test]
fn directories_are_removed_when_empty_and_files_are_not_directories() {
    let mut world = World::new();
    let directory = world.directory(Ino::ROOT, "directory");
    world.file(directory, "file");
    assert_eq!(world.unlink(Ino::ROOT, "directory").unwrap_err(), Errno::ISDIR);
    assert_eq!(world.rmdir(directory, "file").unwrap_err(), Errno::NOTDIR);
    assert_eq!(world.rmdir(Ino::ROOT, "directory").unwrap_err(), Errno::NOTEMPTY);
    world.unlink(directory, "file").unwrap();
    world.rmdir(Ino::ROOT, "directory").unwrap();
    assert_eq!(world.create(directory, "late", FILE), Err(Errno::NOENT));
}

#[test]
fn counts_and_recursive_statistics_follow_changes() {
    let mut world = World::new();
    let outer = world.directory(Ino::ROOT, "outer");
    let inner = world.directory(outer, "inner");
    let file = world.file(inner, "file");
    let size = SetAttributes { size: Some(100), ..SetAttributes::default() };
    world.change(file, AttributeChange::Set(size)).unwrap();
    let sum = |world: &World, ino| {
        let sum = world.tree.statistics(ino);
        (sum.bytes, sum.files, sum.directories)
    };
    assert_eq!((sum(&world, Ino::ROOT), sum(&world, inner)), ((100, 1, 3), (100, 1, 1)));
    let other = world.directory(Ino::ROOT, "other");
    world.rename((outer, "inner"), (other, "moved")).unwrap();
    assert_eq!((sum(&world, outer), sum(&world, other)), ((0, 0, 1), (100, 1, 2)));
    assert_eq!((world.tree.counts(outer), world.tree.counts(other)), ([0, 0], [0, 1]));
    world.unlink(inner, "file").unwrap();
    assert_eq!(sum(&world, Ino::ROOT), (0, 0, 4));
}

#[test]
fn an_inode_with_several_links_has_a_home_until_its_name_goes() {
    let mut world = World::new();
    let [first, second] = ["first", "second"].map(|name| world.directory(Ino::ROOT, name));
    let file = world.file(first, "file");
    assert_eq!(world.link(first, second, "directory").unwrap_err(), Errno::INVAL);
    world.link(file, second, "link").unwrap();
    assert_eq!(world.link(file, second, "link").unwrap_err(), Errno::EXIST);
    assert_eq!((world.get(file).nlink, world.tree.statistics(second).files), (2, 0));
    assert!(!world.tree.entry(first, &"file".into()).unwrap().is_primary);
    assert_eq!(world.unlink(first, "file").unwrap().orphan, None);
    assert_eq!((world.get(file).nlink, world.tree.statistics(second).files), (1, 1));
    // It stays apart from its name: no reintegration.
    assert!(!world.tree.entry(second, &"link".into()).unwrap().is_primary);
    world.rename((second, "link"), (first, "back")).unwrap();
    assert_eq!(world.entry(first, "back"), Some(file));
    assert_eq!(world.unlink(first, "back").unwrap().orphan, Some(file));
}

#[test]
fn a_rename_replaces_what_is_of_the_same_kind() {
    let mut world = World::new();
    let [a, b] = ["a", "b"].map(|name| world.directory(Ino::ROOT, name));
    let [x, y] = ["x", "y"].map(|name| world.file(Ino::ROOT, name));
    assert_eq!(world.rename((Ino::ROOT, "a"), (Ino::ROOT, "x")).unwrap_err(), Errno::NOTDIR);
    assert_eq!(world.rename((Ino::ROOT, "x"), (Ino::ROOT, "a")).unwrap_err(), Errno::ISDIR);
    assert_eq!(world.rename((Ino::ROOT, "none"), (Ino::ROOT, "x")).unwrap_err(), Errno::NOENT);
    let done = world.rename((Ino::ROOT, "x"), (Ino::ROOT, "y")).unwrap();
    assert_eq!((done.orphan, world.entry(Ino::ROOT, "y")), (Some(y), Some(x)));
    world.file(b, "inside");
    assert_eq!(world.rename((Ino::ROOT, "a"), (Ino::ROOT, "b")).unwrap_err(), Errno::NOTEMPTY);
    world.rename((Ino::ROOT, "b"), (Ino::ROOT, "a")).unwrap();
    assert_eq!((world.entry(Ino::ROOT, "a"), world.tree.orphans()), (Some(b), vec![a, y]));
}

#[test]
fn a_rename_of_two_names_of_an_inode_does_nothing() {
    let mut world = World::new();
    let file = world.file(Ino::ROOT, "file");
    world.link(file, Ino::ROOT, "link").unwrap();
    let done = world.rename((Ino::ROOT, "file"), (Ino::ROOT, "link")).unwrap();
    assert!(done.records.is_empty());
    assert!(world.rename((Ino::ROOT, "file"), (Ino::ROOT, "file")).unwrap().records.is_empty());
    assert_eq!(world.entry(Ino::ROOT, "file"), Some(file));
}

#[test]
fn a_directory_does_not_move_below_itself() {
    let mut world = World::new();
    let outer = world.directory(Ino::ROOT, "outer");
    let inner = world.directory(outer, "inner");
    assert_eq!(world.rename((Ino::ROOT, "outer"), (inner, "x")).unwrap_err(), Errno::INVAL);
    assert_eq!(world.rename((Ino::ROOT, "outer"), (outer, "x")).unwrap_err(), Errno::INVAL);
    assert_eq!(world.tree.path(inner), "/outer/inner");
}

#[test]
fn a_shorter_size_counts_truncations_and_a_flush_from_before_does_not_undo_it() {
    let mut world = World::new();
    let file = world.file(Ino::ROOT, "file");
    let flush = |size, truncate_seq| {
        let file = FlushedFile { size, truncate_seq, ..FlushedFile::default() };
        AttributeChange::Flush(Flush { file: Some(file), ..Flush::default() })
    };
    world.change(file, flush(4096, 1)).unwrap();
    assert_eq!(world.get(file).size, 4096);
    world.change(file, flush(10, 1)).unwrap();
    assert_eq!(world.get(file).size, 4096, "a flush makes a file only longer");
    let cut = SetAttributes { size: Some(5), ..SetAttributes::default() };
    world.change(file, AttributeChange::Set(cut)).unwrap();
    assert_eq!((world.get(file).truncation.seq, world.get(file).truncation.size), (2, 5));
    world.change(file, flush(4096, 1)).unwrap();
    assert_eq!(world.get(file).size, 5, "this size is from before the cut");
    world.change(file, flush(6, 2)).unwrap();
    assert_eq!(world.get(file).size, 6);
    world.change(file, flush(7, 0)).unwrap();
    assert_eq!(world.get(file).size, 7, "kernels do not tell the number");
    let directory = SetAttributes { size: Some(5), ..SetAttributes::default() };
    let error = world.change(Ino::ROOT, AttributeChange::Set(directory)).unwrap_err();
    assert_eq!(error, Errno::ISDIR);
}

#[test]
fn times_go_back_only_by_the_holder_of_a_newer_time_warp() {
    let mut world = World::new();
    let file = world.file(Ino::ROOT, "file");
    let at = |seconds| UTime { seconds, nanoseconds: 0 };
    let flush = |mtime, is_exclusive, time_warp_seq| {
        let file = FlushedFile { mtime, is_exclusive, time_warp_seq, ..FlushedFile::default() };
        AttributeChange::Flush(Flush { file: Some(file), ..Flush::default() })
    };
    world.change(file, flush(at(50), false, 0)).unwrap();
    world.change(file, flush(at(40), false, 0)).unwrap();
    assert_eq!(world.get(file).mtime, at(50));
    let set = SetAttributes { mtime: Some(at(10)), ..SetAttributes::default() };
    world.change(file, AttributeChange::Set(set)).unwrap();
    assert_eq!((world.get(file).mtime, world.get(file).time_warp_seq), (at(10), 1));
    world.change(file, flush(at(5), true, 0)).unwrap();
    assert_eq!(world.get(file).mtime, at(10), "this holder has not seen the change");
    world.change(file, flush(at(5), true, 2)).unwrap();
    assert_eq!(world.get(file).mtime, at(5));
}

#[test]
fn extended_attributes_are_created_replaced_removed_and_bounded() {
    let mut world = World::new();
    let file = world.file(Ino::ROOT, "file");
    let set = |value: &'static str, must_create, must_replace| {
        let value = Bytes::from(value);
        AttributeChange::SetXattr { name: "user.a".into(), value, must_create, must_replace }
    };
    assert_eq!(world.change(file, set("1", false, true)).unwrap_err(), Errno::NODATA);
    world.change(file, set("1", true, false)).unwrap();
    assert_eq!(world.change(file, set("2", true, false)).unwrap_err(), Errno::EXIST);
    world.change(file, set("2", false, true)).unwrap();
    assert_eq!(
        (world.get(file).xattrs.version, &world.get(file).xattrs.values[&b"user.a"[..]][..]),
        (3, &b"2"[..])
    );
    let large: &'static str = Box::leak("x".repeat(64 << 10).into_boxed_str());
    assert_eq!(world.change(file, set(large, false, false)).unwrap_err(), Errno::NOSPC);
    let remove = AttributeChange::RemoveXattr { name: "user.a".into() };
    world.change(file, remove.clone()).unwrap();
    assert_eq!(world.change(file, remove).unwrap_err(), Errno::NODATA);
}

#[test]
fn a_range_is_recorded_once() {
    let mut world = World::new();
    let file = world.file(Ino::ROOT, "file");
    let range = |range| AttributeChange::WriteRange { client: 7, range };
    let end = Some(WriteRange { end: 4096 });
    assert_eq!(world.change(file, range(end)).unwrap().records.len(), 1);
    assert!(world.change(file, range(end)).unwrap().records.is_empty());
    world.change(file, range(None)).unwrap();
    assert!(world.get(file).write_ranges.is_empty());
    assert_eq!(world.get(file).truncation.data_end, 0, "the first object is known to be there");
}

#[test]
fn objects_that_a_writer_may_have_made_are_known_after_its_range() {
    let mut world = World::new();
    let default_layout = FileLayout::simple(PoolId(3));
    let new = NewInode { mode: FILE, default_layout, ..NewInode::default() };
    let file = world.create_with(Ino::ROOT, "file", new).unwrap();
    let range = |range| AttributeChange::WriteRange { client: 7, range };
    for end in [24 << 20, 4 << 20] {
        world.change(file, range(Some(WriteRange { end }))).unwrap();
        world.change(file, range(None)).unwrap();
        assert_eq!(world.get(file).truncation.data_end, 24 << 20);
    }
}

#[test]
fn further_objects_of_the_same_stripe_are_known_too() {
    let mut world = World::new();
    let layout = FileLayout {
        stripe_unit: 65536,
        stripe_count: 3,
        object_size: 131_072,
        ..FileLayout::simple(PoolId(3))
    };
    let new = NewInode { mode: FILE, layout: Some(layout), ..NewInode::default() };
    let file = world.create_with(Ino::ROOT, "file", new).unwrap();
    let range = |range| AttributeChange::WriteRange { client: 7, range };
    for (end, data_end) in [(65536, 0), (65536 * 3, 65536 * 3), (65536 * 2, 65536 * 3)] {
        world.change(file, range(Some(WriteRange { end }))).unwrap();
        world.change(file, range(None)).unwrap();
        assert_eq!(world.get(file).truncation.data_end, data_end);
    }
}

#[test]
fn a_walk_ends_with_a_name_that_need_not_exist() {
    let mut world = World::new();
    let directory = world.directory(Ino::ROOT, "directory");
    let file = world.file(directory, "file");
    let walk = |names: &[&'static str]| {
        world.tree.walk(Ino::ROOT, names.iter().map(|name| name.as_bytes()))
    };
    assert_eq!(walk(&[]).unwrap().target, Some(Ino::ROOT));
    assert_eq!(walk(&["directory", "file"]).unwrap().target, Some(file));
    let absent = walk(&["directory", "absent"]).unwrap();
    assert_eq!(absent.entry, Some((directory, "absent".into())));
    assert_eq!(absent.existing(), Err(Errno::NOENT));
    assert_eq!(walk(&["absent", "file"]), Err(Errno::NOENT));
    assert_eq!(walk(&["directory", "file", "x"]), Err(Errno::NOTDIR));
    assert_eq!(world.tree.walk(Ino(99), []), Err(Errno::STALE));
    let page = world.tree.page(directory, &PageStart::Begin, 10).unwrap();
    assert_eq!((page.entries.len(), page.is_last), (1, true));
}

#[test]
fn sums_of_any_sizes_come_out_when_the_files_go() {
    let mut world = World::new();
    let set =
        |size| AttributeChange::Set(SetAttributes { size: Some(size), ..SetAttributes::default() });
    for (name, size) in [("a", u64::MAX), ("b", 2)] {
        let file = world.file(Ino::ROOT, name);
        world.change(file, set(size)).unwrap();
    }
    world.unlink(Ino::ROOT, "a").unwrap();
    assert_eq!(world.tree.statistics(Ino::ROOT).bytes, 2);
}

#[test]
fn counts_of_a_client_may_be_the_greatest_ones() {
    let mut world = World::new();
    let file = world.file(Ino::ROOT, "file");
    let times = FlushedFile {
        truncate_seq: 1,
        is_exclusive: true,
        time_warp_seq: u32::MAX,
        ..FlushedFile::default()
    };
    let flush = Flush {
        file: Some(times),
        xattrs: Some((u64::MAX, [("user.a".into(), "1".into())].into())),
        change_attr: u64::MAX,
        ..Flush::default()
    };
    world.change(file, AttributeChange::Flush(flush)).unwrap();
    let set = SetAttributes { mtime: Some(UTime::ZERO), ..SetAttributes::default() };
    world.change(file, AttributeChange::Set(set)).unwrap();
    world.change(file, AttributeChange::RemoveXattr { name: "user.a".into() }).unwrap();
    assert_eq!(world.get(file).change_attr, u64::MAX);
}

#[test]
fn a_flush_and_a_creation_are_bounded_as_requests_are() {
    let mut world = World::new();
    let file = world.file(Ino::ROOT, "file");
    let value = Bytes::from(vec![0; 70_000]);
    let flush =
        Flush { xattrs: Some((9, [("user.a".into(), value.clone())].into())), ..Flush::default() };
    world.change(file, AttributeChange::Flush(flush)).unwrap();
    assert!(world.get(file).xattrs.values.is_empty());
    let encryption = crate::Encryption { auth: value, file: Bytes::new() };
    let new = NewInode { mode: FILE, encryption, ..NewInode::default() };
    assert_eq!(world.create_with(Ino::ROOT, "other", new), Err(Errno::INVAL));
}

#[test]
fn metadata_of_a_snapshot_is_bounded() {
    let mut world = World::new();
    let directory = world.create(Ino::ROOT, "d", DIRECTORY).unwrap();
    let mut take = |name: &'static str, bytes| {
        let metadata = [("k".to_owned(), "v".repeat(bytes))].into();
        world.run(Operation::TakeSnapshot { directory, name: name.into(), metadata }).map(drop)
    };
    assert_eq!((take("a", 4095), take("b", 4096)), (Ok(()), Err(Errno::INVAL)));
}

#[test]
fn a_flush_of_a_client_that_is_far_behind_makes_records_of_few_bytes() {
    let mut world = World::new();
    let file = world.file(Ino::ROOT, "f");
    let value = |byte: u8| Bytes::from(vec![byte; 60_000]);
    for number in 0..40 {
        let (name, value) = ("user.x".into(), value(number));
        let (must_create, must_replace) = (false, false);
        let set = AttributeChange::SetXattr { name, value, must_create, must_replace };
        world.change(file, set).unwrap();
        let (directory, name, metadata) = (Ino::ROOT, format!("s{number}").into(), [].into());
        world.run(Operation::TakeSnapshot { directory, name, metadata }).unwrap();
    }
    let flush = Box::new(Flush { auth: Some((0o600, 1, 1)), ..Flush::default() });
    let follows = types::SnapId(1);
    let flush = Operation::FlushBehind { ino: file, follows, flush, is_of_snapshot: false };
    let records = world.run(flush).unwrap().records;
    let bytes: usize = records.iter().map(|record| codec::encode_to_bytes(record).len()).sum();
    assert!(bytes < 1 << 20, "{bytes}");
    assert_eq!(world.get(file).mode & 0o777, 0o600);
}

#[test]
fn a_directory_with_a_quota_is_a_realm_also_when_the_quota_is_gone() {
    let mut world = World::new();
    let directory = world.create(Ino::ROOT, "d", DIRECTORY).unwrap();
    let below = world.create(directory, "e", DIRECTORY).unwrap();
    let file = world.file(below, "f");
    let set = |ino, max_files| {
        let quota = wire::QuotaInfo { max_bytes: 0, max_files };
        Operation::Change { ino, change: Box::new(AttributeChange::SetQuota(quota)) }
    };
    assert_eq!(world.run(set(file, 1)), Err(Errno::INVAL));
    assert_eq!(world.run(set(directory, 0)).unwrap().records, [], "it had none");
    assert_eq!(realms::realm_of(&world.tree, file), Ino::ROOT);
    world.run(set(directory, 5)).unwrap();
    assert_eq!(realms::realm_of(&world.tree, file), directory);
    assert_eq!(realms::quotas_above(&world.tree, below), [directory]);
    world.run(set(below, 5)).unwrap();
    assert_eq!(
        realms::realm_chain(&world.tree, realms::realm_of(&world.tree, file)),
        [below, directory, Ino::ROOT]
    );
    assert_eq!(realms::quotas_above(&world.tree, below), [below, directory]);
    world.run(set(below, 0)).unwrap();
    assert_eq!(realms::realm_of(&world.tree, file), below, "clients would not take it back");
    assert_eq!(realms::quotas_above(&world.tree, below), [directory]);
    let within = realms::all_within(&world.tree, directory, 3).unwrap();
    assert_eq!(within, [directory, below, file]);
    assert_eq!(realms::all_within(&world.tree, directory, 2), None);
}

#[test]
fn a_file_that_changes_hands_is_not_executed_as_its_old_owner() {
    let mut world = World::new();
    let set = SetAttributes::default();
    let (owner, ids) = (
        SetAttributes { uid: Some(7), ..set.clone() },
        SetAttributes { kill_set_ids: true, ..set.clone() },
    );
    let user = SetAttributes { kill_set_user_id: true, ..set.clone() };
    let group = SetAttributes { kill_set_group_id: true, ..set };
    let with_mode = SetAttributes { mode: Some(0o6755), ..owner.clone() };
    for (number, (mode, set, expected)) in [
        (0o6700, &owner, 0o700),
        (0o6666, &owner, 0o6666),
        (0o6710, &ids, 0o710),
        (0o6666, &ids, 0o6666),
        (0o6666, &user, 0o2666),
        (0o6666, &group, 0o4666),
        (0o644, &with_mode, 0o6755),
    ]
    .into_iter()
    .enumerate()
    {
        let name = Box::leak(number.to_string().into_boxed_str());
        let file = world.create(Ino::ROOT, name, Kind::FILE_MODE | mode).unwrap();
        world.change(file, AttributeChange::Set(set.clone())).unwrap();
        assert_eq!(world.get(file).mode & 0o7777, expected, "{mode:o} {set:?}");
    }
    let directory = world.create(Ino::ROOT, "directory", Kind::DIRECTORY_MODE | 0o6755).unwrap();
    world.change(directory, AttributeChange::Set(owner)).unwrap();
    assert_eq!(world.get(directory).mode & 0o7777, 0o6755);
}

#[test]
fn values_of_encrypting_clients_are_set_and_flushed() {
    let mut world = World::new();
    let file = world.file(Ino::ROOT, "file");
    let encryption = |auth: &'static str, file: &'static str| crate::Encryption {
        auth: auth.into(),
        file: file.into(),
    };
    let set = SetAttributes { fscrypt_auth: Some("a".into()), ..SetAttributes::default() };
    world.change(file, AttributeChange::Set(set.clone())).unwrap();
    assert_eq!(world.get(file).encryption, encryption("a", ""));
    let flush = Flush { encryption: encryption("", "f"), ..Flush::default() };
    world.change(file, AttributeChange::Flush(flush)).unwrap();
    assert_eq!(world.get(file).encryption, encryption("a", "f"));
    let flush = |size, value| Flush {
        file: Some(FlushedFile { size, ..FlushedFile::default() }),
        encryption: encryption("", value),
        ..Flush::default()
    };
    world.change(file, AttributeChange::Flush(flush(8192, "g"))).unwrap();
    world.change(file, AttributeChange::Flush(flush(4096, "of before"))).unwrap();
    assert_eq!(world.get(file).encryption, encryption("a", "g"), "as the size");
    let large = SetAttributes { fscrypt_auth: Some(vec![0; 2000].into()), ..set };
    assert_eq!(world.change(file, AttributeChange::Set(large)).unwrap_err(), Errno::INVAL);
    let layout = AttributeChange::Layout(Some(FileLayout::simple(PoolId(3))));
    assert_eq!(world.change(file, layout).unwrap_err(), Errno::INVAL, "blocks have their places");
}
