//! The header: creation, size, features, striping, metadata, migration, and data objects.

use super::*;
use std::collections::BTreeMap;
use types::{MigrationSpec, SnapId, UTime};

#[test]
fn an_image_is_created_once_and_only_with_features_that_are_known() {
    let mut object = TestObject::absent();
    let creation = |features: u64, prefix: &'static str, pool: i64| {
        ((1u64 << 20, 22u8, features, prefix), pool)
    };
    let refused = [
        (creation(1 << 12, "prefix", NO_POOL), Errno::NOSYS),
        (creation(0, "", NO_POOL), Errno::INVAL),
        (creation(OPERATIONS, "prefix", NO_POOL), Errno::INVAL),
        (creation(1 << 7, "prefix", NO_POOL), Errno::INVAL),
        (creation(0, "prefix", 3), Errno::INVAL),
    ];
    for (input, errno) in refused {
        assert_eq!(object.rbd::<()>("create", input), Err(errno));
        assert!(!object.state.exists);
    }
    object.rbd::<()>("create", creation(1 << 7, "prefix", 3)).unwrap();
    assert_eq!(object.rbd::<i64>("get_data_pool", ()), Ok(3));
    assert_eq!(object.rbd::<()>("create", creation(0, "other", NO_POOL)), Err(Errno::EXIST));
    assert_eq!(object.rbd::<Bytes>("get_object_prefix", ()), Ok(bytes("prefix")));
    let now = UTime { seconds: 1000, nanoseconds: 0 };
    assert_eq!(object.rbd::<UTime>("get_create_timestamp", ()), Ok(now));
    object.now.seconds = 2000;
    object.rbd::<()>("set_modify_timestamp", ()).unwrap();
    assert_eq!(object.rbd::<UTime>("get_access_timestamp", ()), Ok(now));
    assert_eq!(object.rbd::<UTime>("get_modify_timestamp", ()), Ok(object.now));
}

#[test]
fn older_clients_leave_the_pool_out() {
    let mut object = TestObject::absent();
    object.rbd::<()>("create", (5u64, 22u8, 0u64, "prefix")).unwrap();
    assert_eq!(object.rbd::<i64>("get_data_pool", ()), Ok(NO_POOL));
    assert_eq!(object.rbd::<(u8, u64)>("get_size", HEAD), Ok((22, 5)));
    assert_eq!(object.rbd::<(u8, u64)>("get_size", 1u64), Err(Errno::NOENT));
}

#[test]
fn short_input_is_invalid() {
    let mut object = image(0);
    let methods = ["create", "get_size", "set_size", "snapshot_add", "dir_list", "trash_add"];
    for method in methods {
        assert_eq!(object.call("rbd", method, b"\x01"), Err(Errno::INVAL), "{method}");
    }
}

#[test]
fn features_say_what_a_client_must_know() {
    let exclusive_lock = 1 << 2;
    let mut object = image(LAYERING | exclusive_lock);
    let both = LAYERING | exclusive_lock;
    assert_eq!(object.rbd::<(u64, u64)>("get_features", HEAD), Ok((both, both)));
    assert_eq!(object.rbd::<(u64, u64)>("get_features", (HEAD, true)), Ok((both, LAYERING)));
    let mut set = |features: u64, mask: u64| object.rbd::<()>("set_features", (features, mask));
    assert_eq!(set(0, exclusive_lock), Ok(()));
    assert_eq!(set(exclusive_lock, exclusive_lock), Ok(()));
    assert_eq!(set(0, LAYERING), Err(Errno::INVAL));
    assert_eq!(set(DEEP_FLATTEN, DEEP_FLATTEN), Err(Errno::INVAL));
    assert_eq!(set(0, DEEP_FLATTEN), Ok(()));
    assert_eq!(set(OPERATIONS, OPERATIONS), Err(Errno::INVAL));
    assert_eq!(set(0, 1 << 40), Ok(()));
}

#[test]
fn operation_features_make_the_image_one_with_operations() {
    let mut object = image(LAYERING);
    assert_eq!(object.rbd::<()>("op_features_set", (1u64 << 4, 1u64 << 4)), Err(Errno::INVAL));
    object.rbd::<()>("op_features_set", (3u64, 3u64)).unwrap();
    assert_eq!(object.rbd::<u64>("op_features_get", ()), Ok(3));
    let features = |object: &mut TestObject| object.rbd::<(u64, u64)>("get_features", HEAD);
    assert_eq!(features(&mut object).unwrap().0, LAYERING | OPERATIONS);
    object.rbd::<()>("op_features_set", (0u64, 1u64)).unwrap();
    assert_eq!(object.rbd::<u64>("op_features_get", ()), Ok(2));
    object.rbd::<()>("op_features_set", (0u64, 2u64)).unwrap();
    assert_eq!(features(&mut object).unwrap().0, LAYERING);
}

#[test]
fn striping_must_divide_objects() {
    let mut object = image(0);
    assert_eq!(object.rbd::<(u64, u64)>("get_stripe_unit_count", ()), Err(Errno::NOEXEC));
    let mut object = image(STRIPING);
    assert_eq!(object.rbd("get_stripe_unit_count", ()), Ok((4u64 << 20, 1u64)));
    let mut set = |unit: u64, count: u64| object.rbd::<()>("set_stripe_unit_count", (unit, count));
    assert_eq!(set(0, 1), Err(Errno::INVAL));
    assert_eq!(set(1, 0), Err(Errno::INVAL));
    assert_eq!(set(5 << 20, 1), Err(Errno::INVAL));
    assert_eq!(set(3, 1), Err(Errno::INVAL));
    assert_eq!(set(1 << 16, 8), Ok(()));
    assert_eq!(object.rbd("get_stripe_unit_count", ()), Ok((1u64 << 16, 8u64)));
}

#[test]
fn flags_are_the_images_and_each_snapshots() {
    let mut object = image(0);
    assert_eq!(object.rbd("get_flags", HEAD), Ok(0u64));
    object.rbd::<()>("set_flags", (3u64, 1u64)).unwrap();
    assert_eq!(object.rbd("get_flags", HEAD), Ok(1u64));
    object.rbd::<()>("snapshot_add", ("snap", 1u64)).unwrap();
    assert_eq!(object.rbd("get_flags", 1u64), Ok(1u64));
    object.rbd::<()>("set_flags", (2u64, 3u64, 1u64)).unwrap();
    assert_eq!(object.rbd("get_flags", 1u64), Ok(2u64));
    assert_eq!(object.rbd::<()>("set_flags", (2u64, 3u64, 9u64)), Err(Errno::NOENT));
}

#[test]
fn metadata_comes_in_pages() {
    let mut object = image(0);
    let pairs: BTreeMap<Bytes, Bytes> =
        (10..20).map(|n| (format!("key{n}").into(), format!("value{n}").into())).collect();
    object.rbd::<()>("metadata_set", pairs.clone()).unwrap();
    let list = |object: &mut TestObject, after: &'static str, max: u64| {
        object.rbd::<BTreeMap<Bytes, Bytes>>("metadata_list", (after, max)).unwrap()
    };
    assert_eq!(list(&mut object, "", 0), pairs);
    let page = list(&mut object, "key13", 4);
    assert_eq!(page.keys().next(), Some(&bytes("key14")));
    assert_eq!(page.len(), 4);
    assert_eq!(object.rbd("metadata_get", "key10"), Ok(bytes("value10")));
    object.rbd::<()>("metadata_remove", "key10").unwrap();
    assert_eq!(object.rbd::<Bytes>("metadata_get", "key10"), Err(Errno::NOENT));
}

fn migration(header_type: u8) -> MigrationSpec {
    MigrationSpec {
        header_type,
        pool: 3,
        namespace: bytes("space"),
        image_name: bytes("name"),
        image: bytes("id"),
        sequences: BTreeMap::from([(1, 2)]),
        overlap: 4,
        flatten: false,
        mirroring: true,
        state: 1,
        state_description: bytes(""),
        mirror_mode: 1,
        source: bytes(""),
    }
}

#[test]
fn a_migration_marks_source_and_destination() {
    let mut source = image(0);
    assert_eq!(source.rbd::<MigrationSpec>("migration_get", ()), Err(Errno::INVAL));
    source.rbd::<()>("migration_set", migration(1)).unwrap();
    assert_eq!(source.rbd::<()>("migration_set", migration(1)), Err(Errno::EXIST));
    source.rbd::<()>("migration_set_state", (2u8, "halfway")).unwrap();
    let stored: MigrationSpec = source.rbd("migration_get", ()).unwrap();
    assert_eq!((stored.state, stored.state_description), (2, bytes("halfway")));
    assert_eq!(source.rbd::<(u64, u64)>("get_features", HEAD).unwrap().0, MIGRATING);
    source.rbd::<()>("migration_remove", ()).unwrap();
    assert_eq!(source.rbd::<(u64, u64)>("get_features", HEAD).unwrap().0, 0);

    let mut destination = image(MIGRATING);
    assert_eq!(destination.rbd::<()>("migration_set", migration(1)), Err(Errno::EXIST));
    destination.rbd::<()>("migration_set", migration(2)).unwrap();
}

#[test]
fn a_source_of_the_old_format_is_marked_by_its_text() {
    let mut object = TestObject::existing();
    assert_eq!(object.rbd::<()>("migration_set", migration(1)), Err(Errno::NXIO));
    object.state.data = b"<<< Rados Block Device Image >>>\n\0\0\0".to_vec();
    assert_eq!(object.rbd::<()>("migration_set", migration(2)), Err(Errno::INVAL));
    object.rbd::<()>("migration_set", migration(1)).unwrap();
    assert!(object.state.data.starts_with(b"<<< Migrating RBD Image      >>>\n\0"));
    object.rbd::<MigrationSpec>("migration_get", ()).unwrap();
    object.rbd::<()>("migration_remove", ()).unwrap();
    assert!(object.state.data.starts_with(b"<<< Rados Block Device Image >>>\n\0"));
}

#[test]
fn a_copy_up_does_not_overwrite() {
    let mut object = TestObject::absent();
    object.call("rbd", "copyup", b"parent").unwrap();
    object.call("rbd", "copyup", b"other!").unwrap();
    assert_eq!(object.state.data, b"parent");
    let sparse = (BTreeMap::from([(2u64, 2u64), (6, 1)]), bytes("abc"));
    object.rbd::<()>("sparse_copyup", sparse.clone()).unwrap();
    assert_eq!(object.state.data, b"parent");
    let mut object = TestObject::absent();
    object.rbd::<()>("sparse_copyup", sparse).unwrap();
    assert_eq!(object.state.data, b"\0\0ab\0\0c");
    let mut object = TestObject::absent();
    object.rbd::<()>("sparse_copyup", (BTreeMap::<u64, u64>::new(), bytes(""))).unwrap();
    assert!(object.state.exists && object.state.data.is_empty());
    let mut object = TestObject::absent();
    let too_short = (BTreeMap::from([(0u64, 9u64)]), bytes("abc"));
    assert_eq!(object.rbd::<()>("sparse_copyup", too_short), Err(Errno::INVAL));
    assert!(!object.state.exists);
}

#[test]
fn sparsify_leaves_what_is_not_zero() {
    for (before, piece, after) in [
        ("ab\0\0\0\0cd\0\0", 2, "ab\0\0\0\0cd"),
        ("ab\0\0\0\0cd\0\0", 8, "ab\0\0\0\0cd"),
        ("\0\0\0\0", 2, ""),
        ("abcd", 3, "abcd"),
    ] {
        let mut object = TestObject::existing();
        object.state.data = before.into();
        object.rbd::<()>("sparsify", (piece as u64, false)).unwrap();
        assert_eq!(object.state.data, after.as_bytes(), "{before:?} in pieces of {piece}");
    }
    let mut object = TestObject::existing();
    object.state.data = vec![0; 8];
    assert_eq!(object.rbd::<()>("sparsify", (0u64, true)), Err(Errno::INVAL));
    object.rbd::<()>("sparsify", (4u64, true)).unwrap();
    assert!(!object.state.exists);
}

#[test]
fn a_write_can_depend_on_the_objects_snapshots() {
    let mut object = TestObject::existing();
    object.snapshot_sequence = SnapId(5);
    let mut assert =
        |sequence: u64, relation: u8| object.rbd::<()>("assert_snapc_seq", (sequence, relation));
    assert_eq!(assert(6, 0), Ok(()));
    assert_eq!(assert(5, 0), Err(Errno::RANGE));
    assert_eq!(assert(5, 1), Ok(()));
    assert_eq!(assert(6, 1), Err(Errno::RANGE));
    assert_eq!(assert(6, 2), Err(Errno::NOTSUPP));
    let mut absent = TestObject::absent();
    assert_eq!(absent.rbd::<()>("assert_snapc_seq", (0u64, 0u8)), Ok(()));
    assert_eq!(absent.rbd::<()>("assert_snapc_seq", (0u64, 1u8)), Err(Errno::RANGE));
}
