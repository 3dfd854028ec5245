//! Scrub of shards: each kind of damage is found, and `pg repair` rebuilds the shard.

use super::*;
use crate::scrub::{
    Authority, Expected, Extent, Finding, Level, Scan, ScrubMap, compare_shards,
    object as object_errors, shard as shard_errors,
};
use types::UTime;

/// Scans the shards of the members that are up.
fn maps(group: &mut Group, level: Level) -> BTreeMap<Member, ScrubMap> {
    let scan = |node: &mut super::super::world::Node| {
        let extent = Extent::Range(HObject::hash_start(object("a").pool, 0), HObject::max());
        let mut scan = Scan::new(node.pg.collection(), extent, level);
        while let Some((tag, kind)) = scan.poll_request() {
            scan.handle(tag, node.ask_store(kind));
        }
        assert!(scan.is_done());
        (node.pg.whoami(), scan.finish().unwrap())
    };
    group.world.nodes.iter_mut().filter(|node| node.pg.is_serving()).map(scan).collect()
}

fn scrub_at(group: &mut Group, level: Level, version: EVersion) -> Vec<Finding> {
    let maps = maps(group, level);
    let shards = (group.geometry, &group.code);
    let primary = group.world.nodes[0].pg.whoami();
    compare_shards(shards, &maps, primary, |_| Expected::Version(version))
}

fn scrub(group: &mut Group, version: EVersion) -> Vec<Finding> {
    scrub_at(group, Level::Deep, version)
}

fn change(group: &mut Group, position: usize, change: Change) {
    let node = &mut group.world.nodes[position];
    let changes = vec![(node.pg.collection(), change)];
    node.ask_store(RequestKind::Commit(Transaction { changes })).unwrap();
}

/// Flips a bit of a shard behind the back of its store.
fn flip(group: &mut Group, position: usize, at: usize) {
    let (shard, _) = group.shard(position, "a").unwrap();
    let data = Bytes::from(vec![shard[at] ^ 16]);
    change(group, position, Change::Write { object: object("a"), offset: at as u64, data });
}

fn repair(group: &mut Group, finding: &Finding) {
    assert!(group.world.nodes[0].pg.repair(UTime::default(), finding));
    group.world.run();
}

#[test]
fn intact_shards_are_no_finding_whatever_their_size() {
    for code in CODES {
        let mut group = Group::new(code);
        for size in sizes(group.geometry) {
            let version = group.put("a", &Group::content(1, size));
            assert_eq!(scrub(&mut group, version), [], "{size}");
            assert_eq!(scrub_at(&mut group, Level::Light, version), [], "{size}");
        }
    }
}

#[test]
fn a_flipped_bit_of_each_shard_is_found_and_repaired_if_there_are_two_parities() {
    let mut group = Group::new((4, 2));
    let content = Group::content(1, 100_000);
    for position in 0..6 {
        let version = group.put("a", &content);
        flip(&mut group, position, 5000 + position);
        let found = scrub(&mut group, version);
        let [finding] = &found[..] else { panic!("{found:?}") };
        let member = group.world.nodes[position].pg.whoami();
        assert_eq!(finding.bad, [member]);
        assert_eq!(finding.errors, object_errors::DATA_DIGEST_MISMATCH);
        assert_eq!(finding.shards[&member].errors, shard_errors::EC_HASH_MISMATCH);
        assert!(finding.is_certain(), "{:?}", finding.authority);
        repair(&mut group, finding);
        group.assert_whole("a", &content, version);
        assert_eq!(scrub(&mut group, version), []);
        assert_eq!(scrub_at(&mut group, Level::Light, version), []);
    }
}

#[test]
fn with_one_parity_a_contradiction_is_found_and_repair_rebuilds_the_parity() {
    let mut group = Group::new((2, 1));
    let content = Group::content(1, 100_000);
    for position in 0..3 {
        let version = group.put("a", &content);
        flip(&mut group, position, 5000);
        let found = scrub(&mut group, version);
        let [finding] = &found[..] else { panic!("{found:?}") };
        assert_eq!(finding.errors, object_errors::DATA_DIGEST_MISMATCH);
        assert!(!finding.is_certain(), "it is not known which shard is wrong");
        assert_eq!(finding.count().deep, 1);
        repair(&mut group, finding);
        assert_eq!(scrub(&mut group, version), []);
        if position == 2 {
            group.assert_whole("a", &content, version);
        }
    }
}

/// The parity that can be read contradicts the data, one chunk of which is wrong.
#[test]
fn with_one_of_two_parities_unreadable_it_is_not_known_which_shard_is_wrong() {
    let mut group = Group::new((4, 2));
    let version = group.put("a", &Group::content(1, 100_000));
    flip(&mut group, 1, 5000);
    group.world.run_script("damage 5 a");
    let found = scrub(&mut group, version);
    let [finding] = &found[..] else { panic!("{found:?}") };
    assert_eq!(finding.authority, Authority::Unknown);
    assert!(!group.world.nodes[0].pg.repair(UTime::default(), finding));
    let unreadable = group.world.nodes[5].pg.whoami();
    assert_eq!(finding.shards[&unreadable].errors, shard_errors::READ_ERROR, "it is told");
}

#[test]
fn two_wrong_shards_are_reported_and_not_repaired() {
    let mut group = Group::new((4, 2));
    let version = group.put("a", &Group::content(1, 100_000));
    flip(&mut group, 1, 5000);
    flip(&mut group, 3, 9000);
    let found = scrub(&mut group, version);
    let [finding] = &found[..] else { panic!("{found:?}") };
    assert_eq!(finding.authority, Authority::Unknown);
    assert!(!group.world.nodes[0].pg.repair(UTime::default(), finding));
}

#[test]
fn shards_that_are_missing_unreadable_stale_or_too_long_are_rebuilt() {
    for code in CODES {
        for position in 0..usize::from(code.0 + code.1) {
            let mut group = Group::new(code);
            let content = Group::content(1, 50_000);
            let before = group.put("a", &content);
            let version = group.put("a", &content);
            let object = object("a");
            let end = group.shard(position, "a").unwrap().0.len() as u64;
            let info = ObjectInfo { version: before, size: 50_000, ..ObjectInfo::default() };
            let attrs = BTreeMap::from([(INFO_ATTR, codec::encode_to_bytes(&info))]);
            let (name, data) = (object.clone(), Bytes::from_static(b"x"));
            let damages = [
                (Change::Remove { object: object.clone() }, shard_errors::MISSING),
                (Change::SetAttrs { object: object.clone(), attrs }, 0),
                (
                    Change::RemoveAttr { object: name.clone(), name: INFO_ATTR },
                    shard_errors::INFO_MISSING,
                ),
                (Change::Write { object: name, offset: end, data }, shard_errors::EC_SIZE_MISMATCH),
            ];
            for (damage, errors) in damages {
                change(&mut group, position, damage);
                for level in [Level::Light, Level::Deep] {
                    let found = scrub_at(&mut group, level, version);
                    let [finding] = &found[..] else { panic!("{found:?}") };
                    let member = group.world.nodes[position].pg.whoami();
                    assert_eq!(
                        (&finding.bad[..], finding.shards[&member].errors),
                        (&[member][..], errors)
                    );
                    assert!(finding.is_certain());
                }
                let found = scrub(&mut group, version);
                repair(&mut group, &found[0]);
                group.assert_whole("a", &content, version);
            }
            group.world.run_script(&format!("damage {position} a"));
            let found = scrub(&mut group, version);
            let member = group.world.nodes[position].pg.whoami();
            assert_eq!(found[0].shards[&member].errors, shard_errors::READ_ERROR);
            repair(&mut group, &found[0]);
            group.assert_whole("a", &content, version);
        }
    }
}

#[test]
fn shards_of_a_removed_object_are_removed() {
    let mut group = Group::new((2, 1));
    group.put("a", &Group::content(1, 9000));
    let maps = maps(&mut group, Level::Deep);
    let shards = (group.geometry, &group.code);
    let primary = group.world.nodes[0].pg.whoami();
    let found = compare_shards(shards, &maps, primary, |_| Expected::Absent);
    assert_eq!(found[0].authority, Authority::Absence);
    assert_eq!(found[0].bad.len(), 3);
    repair(&mut group, &found[0]);
    group.world.pass_time(engine::Time(1_000_000_000));
    group.world.pass_time(engine::Time(10_000_000_000));
    group.world.run();
    assert!((0..3).all(|position| group.shard(position, "a").is_none()));
}
