//! Snapshots, parents and children, in both formats.

use super::*;
use crate::rbd::values::{MirrorNamespace, Namespace, NamespaceKind};
use codec::{Decode, Reader};
use std::collections::{BTreeMap, BTreeSet};
use types::{ChildSpec, ParentSpec, SnapId, UTime};

/// `SnapshotInfo` as clients decode it.
#[derive(Debug, PartialEq)]
struct Info {
    id: u64,
    namespace: Namespace,
    name: Bytes,
    size: u64,
    timestamp: UTime,
    children: u32,
}

impl Decode for Info {
    fn decode(r: &mut Reader<'_>) -> codec::Result<Self> {
        r.versioned("snapshot", 1, |r, _| {
            let (id, namespace, name, size, (timestamp, children)) = r.value()?;
            Ok(Info { id, namespace, name, size, timestamp, children })
        })
    }
}

fn add(object: &mut TestObject, id: u64, name: &str) -> Outcome {
    object.rbd("snapshot_add", (name, id))
}

fn context(object: &mut TestObject) -> (u64, Vec<u64>) {
    object.rbd("get_snapcontext", ()).unwrap()
}

#[test]
fn snapshots_have_growing_ids_and_different_names() {
    let mut object = image(0);
    assert_eq!(context(&mut object), (0, vec![]));
    add(&mut object, 1, "one").unwrap();
    for (id, name, errno) in
        [(0, "none", Errno::STALE), (1, "again", Errno::EXIST), (2, "one", Errno::EXIST)]
    {
        assert_eq!(add(&mut object, id, name), Err(errno), "{id} {name}");
    }
    assert_eq!(add(&mut object, u64::MAX, "huge"), Err(Errno::INVAL));
    for id in 2..9 {
        add(&mut object, id, &format!("snap{id}")).unwrap();
    }
    assert_eq!(context(&mut object), (8, (1..9).rev().collect()));
    assert_eq!(object.rbd("get_snapshot_name", 2u64), Ok(bytes("snap2")));
    assert_eq!(object.rbd::<Bytes>("get_snapshot_name", HEAD), Err(Errno::INVAL));
    object.rbd::<()>("set_size", 5u64).unwrap();
    assert_eq!(object.rbd("get_size", 1u64), Ok((22u8, 10u64 << 20)));
    object.rbd::<()>("snapshot_remove", 8u64).unwrap();
    assert_eq!(object.rbd::<()>("snapshot_remove", 8u64), Err(Errno::NOENT));
    assert_eq!(context(&mut object), (8, (1..8).rev().collect()));
}

#[test]
fn snapshots_are_renamed_by_id() {
    let mut object = image(0);
    add(&mut object, 1, "one").unwrap();
    add(&mut object, 2, "two").unwrap();
    assert_eq!(object.rbd::<()>("snapshot_rename", (1u64, "two")), Err(Errno::EXIST));
    assert_eq!(object.rbd::<()>("snapshot_rename", (3u64, "three")), Err(Errno::NOENT));
    object.rbd::<()>("snapshot_rename", (1u64, "three")).unwrap();
    assert_eq!(object.rbd("get_snapshot_name", 1u64), Ok(bytes("three")));
}

#[test]
fn the_number_of_snapshots_can_be_limited() {
    let mut object = image(0);
    assert_eq!(object.rbd("snapshot_get_limit", ()), Ok(u64::MAX));
    object.rbd::<()>("snapshot_set_limit", 2u64).unwrap();
    add(&mut object, 1, "one").unwrap();
    add(&mut object, 2, "two").unwrap();
    assert_eq!(add(&mut object, 3, "three"), Err(Errno::DQUOT));
    assert_eq!(object.rbd::<()>("snapshot_set_limit", 1u64), Err(Errno::RANGE));
    object.rbd::<()>("snapshot_set_limit", u64::MAX).unwrap();
    add(&mut object, 3, "three").unwrap();
}

#[test]
fn protected_snapshots_and_those_with_clones_stay() {
    let mut object = image(LAYERING);
    add(&mut object, 1, "one").unwrap();
    let protect = |object: &mut TestObject, id: u64, status: u8| {
        object.rbd::<()>("set_protection_status", (id, status))
    };
    assert_eq!(protect(&mut object, HEAD, 2), Err(Errno::INVAL));
    assert_eq!(protect(&mut object, 1, 3), Err(Errno::INVAL));
    assert_eq!(protect(&mut object, 2, 2), Err(Errno::NOENT));
    protect(&mut object, 1, 2).unwrap();
    assert_eq!(object.rbd("get_protection_status", 1u64), Ok(2u8));
    assert_eq!(object.rbd::<()>("snapshot_remove", 1u64), Err(Errno::BUSY));
    protect(&mut object, 1, 0).unwrap();

    let child = ChildSpec { pool: 4, namespace: bytes("space"), image: bytes("clone") };
    assert_eq!(object.rbd::<()>("child_attach", (2u64, child.clone())), Err(Errno::NOENT));
    object.rbd::<()>("child_attach", (1u64, child.clone())).unwrap();
    assert_eq!(object.rbd::<()>("child_attach", (1u64, child.clone())), Err(Errno::EXIST));
    assert_eq!(object.rbd("children_list", 1u64), Ok(BTreeSet::from([child.clone()])));
    assert_eq!(object.rbd("op_features_get", ()), Ok(1u64));
    assert_eq!(object.rbd::<()>("snapshot_remove", 1u64), Err(Errno::BUSY));
    assert_eq!(object.rbd::<Info>("snapshot_get", 1u64).unwrap().children, 1);
    object.rbd::<()>("child_detach", (1u64, child.clone())).unwrap();
    assert_eq!(object.rbd::<()>("child_detach", (1u64, child)), Err(Errno::NOENT));
    assert_eq!(object.rbd::<BTreeSet<ChildSpec>>("children_list", 1u64), Err(Errno::NOENT));
    assert_eq!(object.rbd("op_features_get", ()), Ok(0u64));
    object.rbd::<()>("snapshot_remove", 1u64).unwrap();

    let mut object = image(0);
    add(&mut object, 1, "one").unwrap();
    assert_eq!(protect(&mut object, 1, 2), Err(Errno::NOEXEC));
}

#[test]
fn a_snapshot_in_the_trash_keeps_its_name_aside() {
    let mut object = image(0);
    add(&mut object, 1, "one").unwrap();
    object.rbd::<()>("snapshot_trash_add", 1u64).unwrap();
    assert_eq!(object.rbd::<()>("snapshot_trash_add", 1u64), Err(Errno::EXIST));
    let info: Info = object.rbd("snapshot_get", 1u64).unwrap();
    let trash = Namespace::Trash { name: bytes("one"), kind: NamespaceKind::USER };
    assert_eq!(info.namespace, trash);
    assert_eq!(info.name.len(), 36);
    assert_eq!(object.rbd("op_features_get", ()), Ok(8u64));
    add(&mut object, 2, "one").unwrap();
    assert_eq!(object.rbd::<()>("snapshot_rename", (1u64, "x")), Err(Errno::INVAL));
    object.rbd::<()>("snapshot_remove", 1u64).unwrap();
    assert_eq!(object.rbd("op_features_get", ()), Ok(0u64));
}

#[test]
fn mirroring_notes_its_progress_at_its_snapshots() {
    let mut object = image(0);
    let mirror = MirrorNamespace {
        state: 2,
        complete: false,
        peers: BTreeSet::from([bytes("peer")]),
        primary: bytes("uuid"),
        primary_snapshot: SnapId(7),
        last_copied_object: 0,
        sequences: BTreeMap::from([(1, 2)]),
    };
    let namespace = Namespace::Mirror(mirror.clone());
    object.rbd::<()>("snapshot_add", ("mirror", 1u64, namespace)).unwrap();
    let set = "mirror_image_snapshot_set_copy_progress";
    object.rbd::<()>(set, (1u64, true, 9u64)).unwrap();
    let unlink = "mirror_image_snapshot_unlink_peer";
    object.rbd::<()>(unlink, (1u64, "peer")).unwrap();
    assert_eq!(object.rbd::<()>(unlink, (1u64, "peer")), Err(Errno::NOENT));
    let peers = BTreeSet::new();
    let done = MirrorNamespace { complete: true, last_copied_object: 9, peers, ..mirror };
    let info: Info = object.rbd("snapshot_get", 1u64).unwrap();
    assert_eq!(info.namespace, Namespace::Mirror(done));
    add(&mut object, 2, "mine").unwrap();
    assert_eq!(object.rbd::<()>(set, (2u64, true, 9u64)), Err(Errno::INVAL));
}

fn spec(pool: i64) -> ParentSpec {
    ParentSpec { pool, namespace: bytes(""), image: bytes("parent"), snapshot: SnapId(3) }
}

#[test]
fn a_clone_shows_its_parent_up_to_its_size() {
    let mut object = image(LAYERING);
    assert_eq!(object.rbd("parent_get", ()), Ok(ParentSpec::default()));
    let attach = |object: &mut TestObject, spec: ParentSpec, overlap: u64| {
        object.rbd::<()>("parent_attach", (spec, overlap))
    };
    assert_eq!(attach(&mut object, spec(-1), 5), Err(Errno::INVAL));
    assert_eq!(attach(&mut object, spec(2), 0), Err(Errno::INVAL));
    attach(&mut object, spec(2), 40 << 20).unwrap();
    assert_eq!(attach(&mut object, spec(2), 5), Err(Errno::EXIST));
    assert_eq!(object.rbd("parent_get", ()), Ok(spec(2)));
    assert_eq!(object.rbd("parent_overlap_get", HEAD), Ok(Some(10u64 << 20)));
    add(&mut object, 1, "before").unwrap();
    object.rbd::<()>("set_size", 1u64 << 20).unwrap();
    object.rbd::<()>("set_size", 9u64 << 20).unwrap();
    assert_eq!(object.rbd("parent_overlap_get", HEAD), Ok(Some(1u64 << 20)));
    assert_eq!(object.rbd("parent_overlap_get", 1u64), Ok(Some(10u64 << 20)));
    let old: (i64, Bytes, u64, u64) = object.rbd("get_parent", HEAD).unwrap();
    assert_eq!(old, (2, bytes("parent"), 3, 1 << 20));

    // The snapshot still needs the parent, and the image may get it again.
    object.rbd::<()>("parent_detach", ()).unwrap();
    assert_eq!(object.rbd::<()>("parent_detach", ()), Err(Errno::NOENT));
    assert_eq!(object.rbd("parent_get", ()), Ok(spec(2)));
    assert_eq!(object.rbd("parent_overlap_get", HEAD), Ok(None::<u64>));
    assert_eq!(attach(&mut object, spec(5), 5), Err(Errno::EXIST));
    object.rbd::<()>("snapshot_remove", 1u64).unwrap();
    assert_eq!(object.rbd("parent_get", ()), Ok(ParentSpec::default()));
}

#[test]
fn deep_flatten_frees_snapshots_too() {
    let mut object = image(LAYERING | DEEP_FLATTEN);
    object.rbd::<()>("set_parent", (2i64, "parent", 3u64, 1u64 << 20)).unwrap();
    add(&mut object, 1, "one").unwrap();
    object.rbd::<()>("remove_parent", ()).unwrap();
    assert_eq!(object.rbd("parent_overlap_get", 1u64), Ok(None::<u64>));
    assert_eq!(object.rbd::<()>("remove_parent", ()), Err(Errno::NOENT));
    let mut object = image(0);
    assert_eq!(object.rbd::<()>("parent_attach", (spec(2), 5u64)), Err(Errno::NOEXEC));
    assert_eq!(object.rbd("parent_get", ()), Ok(ParentSpec::default()));
}

#[test]
fn older_methods_refuse_parents_in_namespaces() {
    let mut object = image(LAYERING);
    let inside = ParentSpec { namespace: bytes("space"), ..spec(2) };
    object.rbd::<()>("parent_attach", (inside, 5u64)).unwrap();
    let old = object.rbd::<(i64, Bytes, u64, u64)>("get_parent", HEAD);
    assert_eq!(old, Err(Errno::XDEV));
    assert_eq!(object.rbd::<()>("remove_parent", ()), Err(Errno::XDEV));
}

/// Version 3 of a snapshot, which names its parent, in version 1.
const OLD_SNAPSHOT: &[u8] = b"\x03\x01\x48\0\0\0\
    \x04\0\0\0\0\0\0\0\x03\0\0\0old\x00\x10\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\
    \x01\x01\x22\0\0\0\x02\0\0\0\0\0\0\0\x06\0\0\0parent\x03\0\0\0\0\0\0\0\x00\x08\0\0\0\0\0\0\
    \x02";

#[test]
fn snapshots_of_old_versions_know_their_parents() {
    let mut object = image(LAYERING);
    let key = bytes("snapshot_0000000000000004");
    object.state.omap.insert(key.clone(), Bytes::from_static(OLD_SNAPSHOT));
    assert_eq!(object.rbd("get_protection_status", 4u64), Ok(2u8));
    assert_eq!(object.rbd("parent_overlap_get", 4u64), Ok(Some(2048u64)));
    assert_eq!(object.rbd("parent_get", ()), Ok(spec(2)));
    // Storing it again moves the parent to the header.
    object.rbd::<()>("set_protection_status", (4u64, 0u8)).unwrap();
    assert_eq!(object.state.omap[&key][..2], [8, 8]);
    assert_eq!(object.rbd("parent_get", ()), Ok(spec(2)));
    assert_eq!(object.rbd("parent_overlap_get", 4u64), Ok(Some(2048u64)));
    assert_eq!(object.rbd("parent_overlap_get", HEAD), Ok(None::<u64>));
}

#[test]
fn children_of_older_clients_are_listed_in_their_pool() {
    let mut object = TestObject::absent();
    let parent = || (1u64, "parent", 3u64);
    assert_eq!(object.rbd::<BTreeSet<Bytes>>("get_children", parent()), Err(Errno::NOENT));
    object.rbd::<()>("add_child", (parent(), "one")).unwrap();
    object.rbd::<()>("add_child", (parent(), "two")).unwrap();
    assert_eq!(object.rbd::<()>("add_child", (parent(), "two")), Err(Errno::EXIST));
    let both = BTreeSet::from([bytes("one"), bytes("two")]);
    assert_eq!(object.rbd("get_children", parent()), Ok(both));
    object.rbd::<()>("remove_child", (parent(), "one")).unwrap();
    assert_eq!(object.rbd::<()>("remove_child", (parent(), "one")), Err(Errno::NOENT));
    object.rbd::<()>("remove_child", (parent(), "two")).unwrap();
    assert_eq!(object.rbd::<BTreeSet<Bytes>>("get_children", parent()), Err(Errno::NOENT));
}

type OldSnapshots = (u64, Vec<(u64, u64, Bytes)>);

#[test]
fn images_of_the_old_format_keep_snapshots_in_their_data() {
    let mut object = TestObject::existing();
    assert_eq!(object.rbd::<OldSnapshots>("snap_list", ()), Err(Errno::INVAL));
    object.state.data = [&[b'x'; 80][..], &(7u64 << 20).to_le_bytes(), &[0; 24]].concat();
    object.rbd::<()>("snap_add", ("one", 1u64)).unwrap();
    object.rbd::<()>("snap_add", ("two", 2u64)).unwrap();
    assert_eq!(object.rbd::<()>("snap_add", ("two", 3u64)), Err(Errno::EXIST));
    assert_eq!(object.rbd::<()>("snap_add", ("zero", 0u64)), Err(Errno::STALE));
    let snapshots = vec![(2, 7 << 20, bytes("two")), (1, 7 << 20, bytes("one"))];
    assert_eq!(object.rbd::<OldSnapshots>("snap_list", ()), Ok((2, snapshots)));
    assert_eq!(object.state.data[144..], *b"two\0one\0");
    object.rbd::<()>("snapshot_set_limit", 2u64).unwrap();
    assert_eq!(object.rbd::<()>("snapshot_set_limit", 1u64), Err(Errno::RANGE));
    assert_eq!(object.rbd::<()>("snap_add", ("three", 3u64)), Err(Errno::DQUOT));
    assert_eq!(object.rbd::<()>("snap_rename", (1u64, "two")), Err(Errno::EXIST));
    object.rbd::<()>("snap_rename", (1u64, "uno")).unwrap();
    object.rbd::<()>("snap_remove", "two").unwrap();
    assert_eq!(object.rbd::<()>("snap_remove", "two"), Err(Errno::NOENT));
    let left = vec![(1, 7 << 20, bytes("uno"))];
    assert_eq!(object.rbd::<OldSnapshots>("snap_list", ()), Ok((2, left)));
    object.state.data.truncate(115);
    assert_eq!(object.rbd::<OldSnapshots>("snap_list", ()), Err(Errno::IO));
}
