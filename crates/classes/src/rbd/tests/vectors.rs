//! Stored bytes of Ceph 18.2.7, from work of the `rbd` tool on images.

use crate::rbd::values::{
    GroupSnapshot, GroupSpec, MirrorImage, MirrorPeer, Namespace, NamespaceKind, Parent, Snapshot,
    TrashSpec,
};
use bytes::Bytes;
use codec::{Decode, Encode};
use std::collections::BTreeSet;
use std::fmt::Debug;
use types::{ChildSpec, MigrationSpec, SnapId};

const VECTORS: &str = include_str!("vectors.txt");

fn unhex(hex: &str) -> Vec<u8> {
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    hex.as_bytes().chunks(2).map(byte).collect()
}

/// Decodes all of a vector, and encodes it to the same bytes; no truncation of it decodes.
fn exact<T: Decode + Encode + Debug>(name: &str) -> T {
    let mut lines = VECTORS.lines().filter_map(|line| line.split_once(' '));
    let (_, hex) = lines.find(|(known, _)| *known == name).unwrap();
    let bytes = unhex(hex);
    let value: T = codec::decode_all("vector", &bytes).unwrap();
    assert_eq!(codec::encode_to_bytes(&value), bytes, "{value:?}");
    for end in 0..bytes.len() {
        assert!(codec::decode_all::<T>("vector", &bytes[..end]).is_err(), "{end} bytes");
    }
    value
}

#[test]
fn snapshots_of_all_kinds() {
    let trash: Snapshot = exact("snapshot-trash");
    assert_eq!((trash.id, trash.children, trash.image_size), (SnapId(4), 1, 40 << 20));
    let name = Bytes::from_static(b"one");
    assert_eq!(trash.namespace, Namespace::Trash { name, kind: NamespaceKind::USER });
    let group: Snapshot = exact("snapshot-group");
    assert_eq!(group.namespace.kind(), NamespaceKind::GROUP);
    let mirror: Snapshot = exact("snapshot-mirror");
    let Namespace::Mirror(namespace) = mirror.namespace else { panic!("a mirror snapshot") };
    assert_eq!((namespace.peers.len(), namespace.primary_snapshot), (1, SnapId::HEAD));
    let of_clone: Snapshot = exact("snapshot-of-clone");
    assert_eq!((of_clone.namespace, of_clone.overlap), (Namespace::User, Some(40 << 20)));
}

#[test]
fn links_of_clones() {
    let parent: Parent = exact("parent");
    assert_eq!((parent.spec.snapshot, parent.overlap), (SnapId(4), Some(40 << 20)));
    let children: BTreeSet<ChildSpec> = exact("children");
    assert_eq!(children.first().unwrap().namespace, "ns");
}

#[test]
fn objects_of_the_pool() {
    assert_eq!(exact::<GroupSpec>("group").pool, 1);
    let snapshot: GroupSnapshot = exact("group-snapshot");
    assert_eq!((&snapshot.name[..], snapshot.images.len()), (&b"gs"[..], 1));
    assert_eq!(exact::<TrashSpec>("trash").name, "t");
    let source: MigrationSpec = exact("migration-source");
    assert_eq!((source.header_type, source.state), (MigrationSpec::SOURCE, 2));
    let destination: MigrationSpec = exact("migration-destination");
    assert_eq!((destination.header_type, destination.overlap), (2, 8 << 20));
    let image: MirrorImage = exact("mirror-image");
    assert_eq!((image.state, image.mode), (1, 1));
    let peer: MirrorPeer = exact("mirror-peer");
    assert_eq!((&peer.site_name[..], peer.direction), (&b"site"[..], 2));
}

/// Maps of an image of ten objects, of which the first exists, clean or not; and of an image of two objects
/// that do not exist.
const OBJECT_MAPS: [(&str, u64, u8); 3] = [
    ("0e0000000101080000000a00000000000000c000000c000000c644f43a010000009af7424c", 10, 3),
    ("0e0000000101080000000a000000000000004000000c000000c644f43a01000000d98065c7", 10, 1),
    ("0e0000000101080000000200000000000000000c0000001c40cf780100000000000000", 2, 0),
];

#[test]
fn object_maps() {
    for (hex, len, first) in OBJECT_MAPS {
        let mut object = super::TestObject::absent();
        object.rbd::<()>("object_map_resize", (len, 0u8)).unwrap();
        object.rbd::<()>("object_map_update", (0u64, 1u64, first, None::<u8>)).unwrap();
        assert_eq!(object.state.data, unhex(hex));
    }
}
