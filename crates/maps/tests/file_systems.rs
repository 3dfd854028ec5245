//! File system maps made by Ceph 18.2.7's monitor: an empty map, a standby, a rank that is created, becomes
//! active, fails, and is taken again.

use bytes::Bytes;
use codec::{Encode, decode_all, encode_to_bytes};
use maps::{CompatSet, FsMap, FsMapUser, MdsState, NO_FILE_SYSTEM};
use types::PoolId;

const REEF: &[u8] = include_bytes!("golden/reef.fsmaps");

fn series() -> Vec<Bytes> {
    decode_all("series", REEF).unwrap()
}

fn maps() -> Vec<FsMap> {
    series().iter().map(|raw| decode_all("fsmap", raw).unwrap()).collect()
}

fn again<T: Encode + codec::Decode>(value: &T) -> T {
    decode_all("again", &encode_to_bytes(value)).unwrap()
}

#[test]
fn maps_encode_as_ceph_did() {
    for raw in series() {
        let map: FsMap = decode_all("fsmap", &raw).unwrap();
        map.check_invariants();
        let ours = encode_to_bytes(&map);
        // Reef's version 7 lacks the time of birth, which is last.
        assert_eq!(ours[6..ours.len() - 8], raw[6..], "epoch {}", map.epoch);
    }
}

#[test]
fn a_decoded_map_shows_the_life_of_a_rank() {
    let all = maps();
    let states: Vec<Vec<&str>> =
        all.iter().map(|map| map.servers().map(|info| info.state.name()).collect()).collect();
    assert_eq!(states[0], [] as [&str; 0]);
    assert!(states.iter().flatten().any(|state| *state == "up:standby"));
    assert!(states.iter().flatten().any(|state| *state == "up:active"));
    let first = &all[0];
    assert_eq!((first.epoch.0, first.default_fscid, first.next_fscid), (1, NO_FILE_SYSTEM, 1));
    let last = all.last().unwrap();
    let fs = last.named("cephfs").unwrap();
    assert_eq!(
        (fs.fscid, fs.map.metadata_pool, &fs.map.data_pools[..]),
        (1, PoolId(3), &[PoolId(4)][..])
    );
    assert_eq!((fs.map.max_xattr_size, fs.map.max_file_size), (1 << 16, 1 << 41));
    assert!(fs.map.enabled && last.default_fscid == 1);
    assert_eq!(last.for_clients().names[&1], "cephfs");
}

#[test]
fn a_new_file_system_is_like_cephs() {
    let theirs = &maps()[2];
    let made = theirs.file_systems.values().next().unwrap();
    let ours = maps::MdsMap::default();
    assert_eq!(ours.flags, made.map.flags);
    assert_eq!(ours.session_autoclose, made.map.session_autoclose);
    assert_eq!(ours.standby_count_wanted, made.map.standby_count_wanted);
    assert_eq!(ours.old_max_mds, made.map.old_max_mds);
    assert_eq!(ours.cas_pool, made.map.cas_pool);
    assert_eq!(CompatSet::of_file_systems().incompat.names, theirs.default_compat.incompat.names);
}

#[test]
fn names_for_clients_round_trip() {
    let user: FsMapUser = maps().last().unwrap().for_clients();
    assert_eq!(again(&user), user);
}

#[test]
fn a_daemon_may_serve_what_it_has_all_features_of() {
    let mut newer = CompatSet::of_file_systems();
    newer.incompat.insert(11, "minor log segments");
    assert!(newer.can_write(&CompatSet::of_file_systems()));
    assert!(!CompatSet::of_file_systems().can_write(&newer));
    assert_eq!(MdsState::ACTIVE.name(), "up:active");
}

/// A peer may name such bits.
#[test]
fn features_beyond_the_mask_have_a_name_only() {
    let mut set = CompatSet::default();
    for bit in [64, (1 << 32) + 5] {
        set.incompat.insert(bit, "far");
    }
    assert_eq!((set.incompat.mask, set.incompat.names.len()), (1, 2));
}
