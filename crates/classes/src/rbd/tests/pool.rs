//! The objects of a pool: directory, ids, namespaces, trash, groups.

use super::*;
use crate::rbd::values::{GroupImage, GroupImageStatus, GroupSnapshot, GroupSpec, TrashSpec};
use std::collections::BTreeMap;
use types::UTime;

#[test]
fn an_id_object_holds_one_valid_id() {
    let mut object = TestObject::absent();
    assert_eq!(object.rbd::<()>("set_id", "abc"), Err(Errno::NOENT));
    object.state.exists = true;
    assert_eq!(object.rbd::<Bytes>("get_id", ()), Err(Errno::NOENT));
    for id in ["", ".abc", "a-b", "a b"] {
        assert_eq!(object.rbd::<()>("set_id", id), Err(Errno::INVAL), "{id:?}");
    }
    object.rbd::<()>("set_id", "0123abcxyzZYXCBA").unwrap();
    assert_eq!(object.rbd::<()>("set_id", "abc"), Err(Errno::EXIST));
    assert_eq!(object.rbd("get_id", ()), Ok(bytes("0123abcxyzZYXCBA")));
}

#[test]
fn the_directory_knows_names_and_ids_both_ways() {
    let mut object = TestObject::absent();
    let add = |object: &mut TestObject, name: &'static str, id: &'static str| {
        object.rbd::<()>("dir_add_image", (name, id))
    };
    assert_eq!(add(&mut object, "", "id"), Err(Errno::INVAL));
    assert_eq!(add(&mut object, "name", "i.d"), Err(Errno::INVAL));
    add(&mut object, "one", "1").unwrap();
    assert_eq!(add(&mut object, "one", "2"), Err(Errno::EXIST));
    assert_eq!(add(&mut object, "uno", "1"), Err(Errno::BADF));
    assert_eq!(object.rbd("dir_get_id", "one"), Ok(bytes("1")));
    assert_eq!(object.rbd("dir_get_name", "1"), Ok(bytes("one")));
    assert_eq!(object.rbd::<Bytes>("dir_get_name", "2"), Err(Errno::NOENT));
    add(&mut object, "two", "2").unwrap();

    let mut rename = |from, to, id| object.rbd::<()>("dir_rename_image", (from, to, id));
    assert_eq!(rename("one", "three", "2"), Err(Errno::STALE));
    assert_eq!(rename("none", "three", "3"), Err(Errno::NOENT));
    assert_eq!(rename("one", "two", "1"), Err(Errno::EXIST));
    assert_eq!(rename("one", "three", "1"), Ok(()));
    let listed = BTreeMap::from([(bytes("three"), bytes("1")), (bytes("two"), bytes("2"))]);
    assert_eq!(object.rbd("dir_list", ("", 10u64)), Ok(listed));
    assert_eq!(object.rbd::<()>("dir_remove_image", ("two", "1")), Err(Errno::STALE));
    object.rbd::<()>("dir_remove_image", ("two", "2")).unwrap();
    let left = BTreeMap::from([(bytes("three"), bytes("1"))]);
    assert_eq!(object.rbd("dir_list", ("", 10u64)), Ok(left));
    assert_eq!(object.rbd("dir_list", ("three", 10u64)), Ok(BTreeMap::<Bytes, Bytes>::new()));
}

#[test]
fn a_directory_is_closed_when_it_is_empty() {
    let mut object = TestObject::absent();
    assert_eq!(object.rbd::<()>("dir_state_set", 1u8), Err(Errno::NOENT));
    object.rbd::<()>("dir_state_set", 0u8).unwrap();
    assert_eq!(object.rbd::<()>("dir_state_assert", 1u8), Err(Errno::NOENT));
    object.rbd::<()>("dir_state_assert", 0u8).unwrap();
    object.rbd::<()>("dir_add_image", ("one", "1")).unwrap();
    assert_eq!(object.rbd::<()>("dir_state_set", 1u8), Err(Errno::BUSY));
    object.rbd::<()>("dir_remove_image", ("one", "1")).unwrap();
    object.rbd::<()>("dir_state_set", 1u8).unwrap();
    assert_eq!(object.rbd::<()>("dir_state_set", 2u8), Err(Errno::INVAL));
}

#[test]
fn lists_come_in_pages_of_the_asked_length() {
    let mut object = TestObject::absent();
    for number in 0..20 {
        let (name, id) = (format!("name{number:02}"), format!("id{number}"));
        object.rbd::<()>("dir_add_image", (name.as_str(), id.as_str())).unwrap();
    }
    let mut after = Bytes::new();
    for length in [7, 7, 6, 0] {
        let page: BTreeMap<Bytes, Bytes> = object.rbd("dir_list", (after.clone(), 7u64)).unwrap();
        assert_eq!(page.len(), length);
        after = page.last_key_value().map_or(after, |(name, _)| name.clone());
    }
}

#[test]
fn namespaces_have_names() {
    let mut object = TestObject::absent();
    object.rbd::<()>("namespace_add", "one").unwrap();
    object.rbd::<()>("namespace_add", "two").unwrap();
    assert_eq!(object.rbd::<()>("namespace_add", "two"), Err(Errno::EXIST));
    let names = vec![bytes("one"), bytes("two")];
    assert_eq!(object.rbd("namespace_list", ("", 5u64)), Ok(names));
    object.rbd::<()>("namespace_remove", "one").unwrap();
    assert_eq!(object.rbd::<()>("namespace_remove", "one"), Err(Errno::NOENT));
    assert_eq!(object.rbd("namespace_list", ("", 5u64)), Ok(vec![bytes("two")]));
}

#[test]
fn the_trash_keeps_images_until_they_are_restored_or_removed() {
    let deleted = UTime { seconds: 5, nanoseconds: 0 };
    let deferred_until = UTime { seconds: 9, nanoseconds: 0 };
    let spec = TrashSpec { source: 0, name: bytes("name"), deleted, deferred_until, state: 0 };
    let mut object = TestObject::absent();
    assert_eq!(object.rbd::<()>("trash_add", ("i.d", spec.clone())), Err(Errno::INVAL));
    object.rbd::<()>("trash_add", ("id", spec.clone())).unwrap();
    assert_eq!(object.rbd::<()>("trash_add", ("id", spec.clone())), Err(Errno::EXIST));
    assert_eq!(object.rbd("trash_get", "id"), Ok(spec.clone()));
    object.rbd::<()>("trash_state_set", ("id", 2u8, 0u8)).unwrap();
    object.rbd::<()>("trash_state_set", ("id", 2u8, 0u8)).unwrap();
    assert_eq!(object.rbd::<()>("trash_state_set", ("id", 1u8, 0u8)), Err(Errno::STALE));
    let removing = BTreeMap::from([(bytes("id"), TrashSpec { state: 2, ..spec })]);
    assert_eq!(object.rbd("trash_list", ("", 5u64)), Ok(removing));
    object.rbd::<()>("trash_remove", "id").unwrap();
    assert_eq!(object.rbd::<()>("trash_remove", "id"), Err(Errno::NOENT));
    assert_eq!(object.rbd::<TrashSpec>("trash_get", "id"), Err(Errno::NOENT));
}

#[test]
fn groups_are_named_as_images_are() {
    let mut object = TestObject::absent();
    object.rbd::<()>("group_dir_add", ("group", "1")).unwrap();
    assert_eq!(object.rbd::<()>("group_dir_remove", ("none", "1")), Err(Errno::NOENT));
    assert_eq!(object.rbd::<()>("group_dir_remove", ("group", "2")), Err(Errno::NOENT));
    object.rbd::<()>("group_dir_rename", ("group", "renamed", "1")).unwrap();
    let groups = BTreeMap::from([(bytes("renamed"), bytes("1"))]);
    assert_eq!(object.rbd("group_dir_list", ("", 5u64)), Ok(groups));
}

#[test]
fn a_group_lists_its_images_by_pool_and_id() {
    let image = |image: &'static str, pool| GroupImage { image: bytes(image), pool };
    let mut object = TestObject::absent();
    let images = [image("b", 1), image("a", 2), image("c", 17)];
    for image in images.iter().rev() {
        let status = GroupImageStatus { image: image.clone(), state: 1 };
        object.rbd::<()>("group_image_set", status).unwrap();
    }
    assert!(object.state.omap.contains_key(&bytes("image_0000000000000011_c")));
    let list = |object: &mut TestObject, after: GroupImage, max: u64| {
        let listed = object.rbd::<Vec<GroupImageStatus>>("group_image_list", (after, max));
        listed.unwrap().into_iter().map(|status| status.image).collect::<Vec<_>>()
    };
    assert_eq!(list(&mut object, image("", NO_POOL), 9), images);
    assert_eq!(list(&mut object, images[0].clone(), 1), images[1..2]);
    object.rbd::<()>("group_image_remove", images[0].clone()).unwrap();
    assert_eq!(list(&mut object, image("", NO_POOL), 9), images[1..]);
}

#[test]
fn an_image_is_in_one_group() {
    let group = |group: &'static str| GroupSpec { pool: 1, group: bytes(group) };
    let mut object = image(0);
    assert_eq!(object.rbd("image_group_get", ()), Ok(GroupSpec::default()));
    assert_eq!(object.rbd::<()>("image_group_remove", group("one")), Err(Errno::NOENT));
    object.rbd::<()>("image_group_add", group("one")).unwrap();
    object.rbd::<()>("image_group_add", group("one")).unwrap();
    assert_eq!(object.rbd::<()>("image_group_add", group("two")), Err(Errno::EXIST));
    assert_eq!(object.rbd("image_group_get", ()), Ok(group("one")));
    assert_eq!(object.rbd("op_features_get", ()), Ok(4u64));
    assert_eq!(object.rbd::<()>("image_group_remove", group("two")), Err(Errno::BADF));
    object.rbd::<()>("image_group_remove", group("one")).unwrap();
    assert_eq!(object.rbd("op_features_get", ()), Ok(0u64));
}

#[test]
fn snapshots_of_a_group_are_numbered() {
    let snapshot = |id: &'static str, name: &'static str, state| GroupSnapshot {
        id: bytes(id),
        name: bytes(name),
        state,
        images: Vec::new(),
    };
    let mut object = TestObject::absent();
    let mut set = |id, name, state| object.rbd::<()>("group_snap_set", snapshot(id, name, state));
    assert_eq!(set("", "name", 0), Err(Errno::INVAL));
    assert_eq!(set("id", "", 0), Err(Errno::INVAL));
    assert_eq!(set("b", "one", 0), Ok(()));
    assert_eq!(set("b", "one", 0), Err(Errno::EXIST));
    assert_eq!(set("b", "one", 1), Ok(()));
    assert_eq!(set("a", "one", 0), Err(Errno::EXIST));
    assert_eq!(set("a", "two", 0), Ok(()));
    assert_eq!(object.rbd("group_snap_get_by_id", "b"), Ok(snapshot("b", "one", 1)));
    let all = vec![snapshot("a", "two", 0), snapshot("b", "one", 1)];
    assert_eq!(object.rbd("group_snap_list", (snapshot("", "", 0), 9u64)), Ok(all));
    let order = BTreeMap::from([(bytes("a"), 2u64), (bytes("b"), 1)]);
    assert_eq!(object.rbd("group_snap_list_order", ("", 9u64)), Ok(order));
    object.rbd::<()>("group_snap_remove", "b").unwrap();
    assert_eq!(object.rbd::<GroupSnapshot>("group_snap_get_by_id", "b"), Err(Errno::NOENT));
    let order = BTreeMap::from([(bytes("a"), 2u64)]);
    assert_eq!(object.rbd("group_snap_list_order", ("", 9u64)), Ok(order));
}
