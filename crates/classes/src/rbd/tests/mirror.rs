//! Mirroring: the state that daemons and tools keep in a pool.

use super::*;
use crate::rbd::values::{Instance, MirrorImage, MirrorImageMap, MirrorPeer, SiteStatus, Statuses};
use std::collections::BTreeMap;
use types::{EntityAddr, EntityType, ParticipantName, UTime};

fn peer(uuid: &'static str, site: &'static str) -> MirrorPeer {
    MirrorPeer {
        uuid: bytes(uuid),
        direction: 2,
        site_name: bytes(site),
        client_name: bytes("client"),
        ..MirrorPeer::default()
    }
}

fn mirrored_pool() -> TestObject {
    let mut object = TestObject::absent();
    object.rbd::<()>("mirror_uuid_set", "mine").unwrap();
    object.rbd::<()>("mirror_mode_set", 1u32).unwrap();
    object
}

#[test]
fn a_pool_needs_an_identity_before_it_is_mirrored() {
    let mut object = TestObject::absent();
    assert_eq!(object.rbd::<u32>("mirror_mode_get", ()), Err(Errno::NOENT));
    assert_eq!(object.rbd::<()>("mirror_mode_set", 1u32), Err(Errno::INVAL));
    assert_eq!(object.rbd::<()>("mirror_uuid_set", ""), Err(Errno::INVAL));
    let mut object = mirrored_pool();
    assert_eq!(object.rbd("mirror_uuid_get", ()), Ok(bytes("mine")));
    assert_eq!(object.rbd::<()>("mirror_uuid_set", "other"), Err(Errno::INVAL));
    assert_eq!(object.rbd::<()>("mirror_mode_set", 4u32), Err(Errno::INVAL));
    assert_eq!(object.rbd::<()>("mirror_remote_namespace_set", "space"), Err(Errno::INVAL));
    object.rbd::<()>("mirror_peer_add", peer("uuid", "site")).unwrap();
    assert_eq!(object.rbd::<()>("mirror_mode_set", 0u32), Err(Errno::BUSY));
    object.rbd::<()>("mirror_peer_remove", "uuid").unwrap();
    object.rbd::<()>("mirror_mode_set", 0u32).unwrap();
    assert_eq!(object.rbd::<Bytes>("mirror_uuid_get", ()), Err(Errno::NOENT));
    object.rbd::<()>("mirror_remote_namespace_set", "space").unwrap();
    assert_eq!(object.rbd("mirror_remote_namespace_get", ()), Ok(bytes("space")));
}

#[test]
fn peers_differ_in_uuid_and_site() {
    let mut object = mirrored_pool();
    let mut add = |peer: MirrorPeer| object.rbd::<()>("mirror_peer_add", peer);
    assert_eq!(add(peer("mine", "site")), Err(Errno::INVAL));
    assert_eq!(add(peer("", "site")), Err(Errno::INVAL));
    assert_eq!(add(MirrorPeer { direction: 1, ..peer("a", "site") }), Err(Errno::INVAL));
    assert_eq!(add(peer("a", "site")), Ok(()));
    assert_eq!(add(peer("a", "other")), Err(Errno::STALE));
    assert_eq!(add(peer("b", "site")), Err(Errno::EXIST));
    assert_eq!(add(peer("b", "other")), Ok(()));
    let set_site = "mirror_peer_set_cluster";
    assert_eq!(object.rbd::<()>(set_site, ("b", "site")), Err(Errno::EXIST));
    assert_eq!(object.rbd::<()>(set_site, ("c", "new")), Err(Errno::NOENT));
    object.rbd::<()>(set_site, ("b", "new")).unwrap();
    object.rbd::<()>("mirror_peer_set_client", ("b", "me")).unwrap();
    object.rbd::<()>("mirror_peer_set_direction", ("b", 0u8)).unwrap();
    let changed = MirrorPeer { direction: 0, client_name: bytes("me"), ..peer("b", "new") };
    assert_eq!(object.rbd("mirror_peer_list", ()), Ok(vec![peer("a", "site"), changed]));
}

#[test]
fn a_ping_makes_peers_known() {
    let mut object = mirrored_pool();
    let mut ping = |site, uuid, direction: u8| {
        object.rbd::<()>("mirror_peer_ping", (site, uuid, direction))?;
        object.rbd::<Vec<MirrorPeer>>("mirror_peer_list", ())
    };
    assert_eq!(ping("site", "uuid", 0), Err(Errno::INVAL));
    assert_eq!(ping("", "uuid", 1), Err(Errno::INVAL));
    let peers = ping("site", "uuid", 1).unwrap();
    assert_eq!((peers.len(), peers[0].direction, peers[0].uuid.len()), (1, 1, 36));
    assert_eq!(peers[0].last_seen, UTime { seconds: 1000, nanoseconds: 0 });
    let renamed = ping("new name", "uuid", 1).unwrap();
    assert_eq!((renamed.len(), &renamed[0].site_name), (1, &bytes("new name")));
}

fn mirror_image(global_id: &'static str, state: u8) -> MirrorImage {
    MirrorImage { global_id: bytes(global_id), state, mode: 0 }
}

#[test]
fn mirrored_images_have_one_global_id_each() {
    let mut object = mirrored_pool();
    let mut set = |id, image| object.rbd::<()>("mirror_image_set", (id, image));
    assert_eq!(set("a", mirror_image("global", 0)), Err(Errno::NOENT));
    assert_eq!(set("a", mirror_image("global", 1)), Ok(()));
    assert_eq!(set("b", mirror_image("global", 1)), Err(Errno::EXIST));
    assert_eq!(set("a", mirror_image("other", 1)), Err(Errno::INVAL));
    assert_eq!(object.rbd("mirror_image_get_image_id", "global"), Ok(bytes("a")));
    let listed = BTreeMap::from([(bytes("a"), bytes("global"))]);
    assert_eq!(object.rbd("mirror_image_list", ("", 5u64)), Ok(listed));
    assert_eq!(object.rbd::<()>("mirror_image_remove", "a"), Err(Errno::BUSY));
    object.rbd::<()>("mirror_image_set", ("a", mirror_image("global", 0))).unwrap();
    object.rbd::<()>("mirror_image_remove", "a").unwrap();
    assert_eq!(object.rbd::<MirrorImage>("mirror_image_get", "a"), Err(Errno::NOENT));
    assert_eq!(object.rbd::<Bytes>("mirror_image_get_image_id", "global"), Err(Errno::NOENT));
}

fn status(site: &'static str, state: u8) -> SiteStatus {
    SiteStatus { mirror_uuid: bytes(site), state, ..SiteStatus::default() }
}

type Summary = BTreeMap<u8, i32>;

#[test]
fn reports_are_up_while_their_daemon_watches() {
    let mut object = mirrored_pool();
    object.rbd::<()>("mirror_image_set", ("a", mirror_image("global", 1))).unwrap();
    object.rbd::<()>("mirror_image_set", ("b", mirror_image("silent", 1))).unwrap();
    let daemon = ParticipantName::new(EntityType::CLIENT, 1);
    let report = |object: &mut TestObject, status| {
        object.rbd::<()>("mirror_image_status_set", ("global", status))
    };
    assert_eq!(object.rbd::<Statuses>("mirror_image_status_get", "global"), Err(Errno::NOENT));
    report(&mut object, status("", 4)).unwrap();
    report(&mut object, status("remote", 6)).unwrap();
    object.rbd::<()>("mirror_image_status_set", ("unknown", status("", 4))).unwrap();
    let Statuses(found) = object.rbd("mirror_image_status_get", "global").unwrap();
    assert!(found.iter().all(|status| !status.up));
    assert_eq!(object.rbd::<Instance>("mirror_image_instance_get", "global"), Err(Errno::STALE));

    object.watchers = vec![(daemon, EntityAddr::default())];
    let Statuses(found) = object.rbd("mirror_image_status_get", "global").unwrap();
    let states: Vec<_> = found.iter().map(|status| (status.state, status.up)).collect();
    assert_eq!(states, [(4, true), (6, true)]);
    assert_eq!(found[1].mirror_uuid, bytes("remote"));
    let instance = Instance::new(daemon, EntityAddr::default());
    assert_eq!(object.rbd("mirror_image_instance_get", "global"), Ok(instance));
    let instances = BTreeMap::from([(bytes("a"), instance)]);
    assert_eq!(object.rbd("mirror_image_instance_list", ("", 5u64)), Ok(instances));
    type Listing = (BTreeMap<Bytes, MirrorImage>, BTreeMap<Bytes, Statuses>);
    let (images, statuses): Listing = object.rbd("mirror_image_status_list", ("", 5u64)).unwrap();
    assert_eq!((images.len(), statuses.len()), (2, 1));

    let summary = "mirror_image_status_get_summary";
    assert_eq!(object.rbd(summary, ()), Ok(Summary::from([(0, 1), (4, 1)])));
    let sends = vec![MirrorPeer { mirror_uuid: bytes("remote"), direction: 1, ..peer("p", "s") }];
    assert_eq!(object.rbd(summary, sends), Ok(Summary::from([(0, 1), (6, 1)])));
    object.rbd::<()>("mirror_image_status_remove_down", ()).unwrap();
    assert_eq!(object.rbd(summary, ()), Ok(Summary::from([(0, 1), (4, 1)])));
    object.watchers.clear();
    object.rbd::<()>("mirror_image_status_remove_down", ()).unwrap();
    assert_eq!(object.rbd::<Statuses>("mirror_image_status_get", "global"), Err(Errno::NOENT));
}

#[test]
fn daemons_share_the_images() {
    let mut object = TestObject::absent();
    object.rbd::<()>("mirror_instances_add", "one").unwrap();
    object.rbd::<()>("mirror_instances_add", "two").unwrap();
    object.rbd::<()>("mirror_instances_remove", "one").unwrap();
    assert_eq!(object.rbd("mirror_instances_list", ()), Ok(vec![bytes("two")]));
    let map = MirrorImageMap { instance: bytes("two"), mapped: UTime::ZERO, data: bytes("data") };
    object.rbd::<()>("mirror_image_map_update", ("global", map.clone())).unwrap();
    let maps = BTreeMap::from([(bytes("global"), map)]);
    assert_eq!(object.rbd("mirror_image_map_list", ("", 5u64)), Ok(maps));
    object.rbd::<()>("mirror_image_map_remove", "global").unwrap();
    let none = BTreeMap::<Bytes, MirrorImageMap>::new();
    assert_eq!(object.rbd("mirror_image_map_list", ("", 5u64)), Ok(none));
}
