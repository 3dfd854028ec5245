//! Objects with clones: missing, surplus or inconsistent ones.

use super::rounds::{PG, PRIMARY, World, member, object};
use crate::scrub::{End, Level, SnapFinding, snapset};
use crate::snaps::{SNAPSET_ATTR, SnapSet, index_key, index_pairs};
use crate::{EntryKind, INFO_ATTR, LogEntry, ObjectInfo, meta_object};
use std::collections::BTreeMap;
use store::{Change, Collection};
use types::{EVersion, HObject, SnapId};

const CLONES: u64 = 5;
const VERSION: EVersion = EVersion { epoch: types::Epoch(1), version: 1 };

fn set() -> SnapSet {
    let mut set = SnapSet { seq: SnapId(CLONES), ..SnapSet::default() };
    (1..=CLONES).for_each(|id| set.add(SnapId(id), &[SnapId(id)], 4, VERSION));
    set
}

fn attrs(set: Option<&SnapSet>) -> BTreeMap<bytes::Bytes, bytes::Bytes> {
    let info = ObjectInfo { version: VERSION, size: 4, ..ObjectInfo::default() };
    let info = (INFO_ATTR, codec::encode_to_bytes(&info));
    let set = set.map(|set| (SNAPSET_ATTR, codec::encode_to_bytes(set)));
    [info].into_iter().chain(set).collect()
}

fn written(object: HObject, set: Option<&SnapSet>) -> Vec<Change> {
    vec![
        Change::Write { object: object.clone(), offset: 0, data: "text".into() },
        Change::SetAttrs { object, attrs: attrs(set) },
    ]
}

/// Two copies of objects with five clones each.
fn world(objects: u32) -> World {
    let mut world = World::new(2);
    for head in (0..objects).map(object) {
        let clones = (1..=CLONES).flat_map(|id| written(head.at(SnapId(id)), None));
        let pairs = index_pairs(&head, &set());
        let index = Change::OmapSet { object: meta_object(PG), pairs };
        let changes = clones.chain(written(head.clone(), Some(&set()))).chain([index]).collect();
        apply(&mut world, changes);
    }
    world
}

fn apply(world: &mut World, changes: Vec<Change>) {
    [PRIMARY, member(1)].into_iter().for_each(|osd| world.apply(osd, changes.clone()));
}

fn remove(world: &mut World, object: HObject) {
    apply(world, vec![Change::Remove { object }]);
}

fn scrub(world: &mut World) -> Vec<SnapFinding> {
    let (end, findings, _) = world.scrub(Level::Deep, |_| {});
    assert_eq!((end, findings), (End::Complete, vec![]));
    std::mem::take(&mut world.snap_findings)
}

#[test]
fn families_are_checked_wherever_they_are_cut() {
    let mut world = world(100);
    assert_eq!(scrub(&mut world), []);
    // Some families are cut by the end of a chunk.
    (0..100).for_each(|number| remove(&mut world, object(number).at(SnapId(3))));
    let found = scrub(&mut world);
    assert_eq!(found.len(), 100);
    for finding in found {
        assert_eq!((finding.errors, finding.missing), (snapset::CLONE_MISSING, vec![SnapId(3)]));
    }
}

#[test]
fn what_is_wrong_with_clones_is_told_in_ceph_s_terms() {
    let mut world = world(8);
    remove(&mut world, object(0));
    let without = written(object(1), None);
    remove(&mut world, object(1));
    apply(&mut world, without);
    let junk = BTreeMap::from([(SNAPSET_ATTR, "junk".into())]);
    apply(&mut world, vec![Change::SetAttrs { object: object(2), attrs: junk }]);
    apply(&mut world, written(object(3).at(SnapId(9)), None));
    let mut other = set();
    other.clones[1].size = 3;
    other.clones[1].overlap = Default::default();
    apply(&mut world, vec![Change::SetAttrs { object: object(4), attrs: attrs(Some(&other)) }]);
    let mut other = set();
    other.clones[0].version = EVersion::new(1, 2);
    other.clones[1].snaps.clear();
    apply(&mut world, vec![Change::SetAttrs { object: object(5), attrs: attrs(Some(&other)) }]);
    let mut found: Vec<(HObject, u64, usize)> = scrub(&mut world)
        .into_iter()
        .map(|finding| (finding.name, finding.errors, finding.extra.len()))
        .collect();
    found.sort();
    let headless = (1..=CLONES).map(|id| (object(0).at(SnapId(id)), snapset::HEADLESS, 0));
    let mut expected: Vec<(HObject, u64, usize)> = headless
        .chain([
            (object(1), snapset::MISSING | snapset::EXTRA_CLONES, 5),
            (object(2), snapset::CORRUPTED, 0),
            (object(3), snapset::EXTRA_CLONES, 1),
            (object(4).at(SnapId(2)), snapset::SIZE_MISMATCH, 0),
            (object(5).at(SnapId(1)), snapset::ERROR, 0),
            (object(5), snapset::ERROR, 0),
        ])
        .collect();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn what_is_written_between_two_looks_is_no_error() {
    let mut world = world(20);
    let mut looks = 0;
    let (end, findings, _) = world.scrub(Level::Light, |world| {
        looks += 1;
        // The first chunk of 32 has five families and a part of the sixth; then all are removed.
        if looks == 2 {
            for head in (0..20).map(object) {
                let mut names: Vec<HObject> = (1..=CLONES).map(|id| head.at(SnapId(id))).collect();
                names.push(head);
                for object in names {
                    remove(world, object.clone());
                    let version = EVersion::new(1, world.log.head().version + 1);
                    let kind = EntryKind::Delete;
                    world.log.push(LogEntry { version, object, kind, ..LogEntry::default() });
                }
            }
        }
    });
    assert_eq!((end, findings, &world.snap_findings[..]), (End::Complete, vec![], &[][..]));
}

#[test]
fn pairs_that_the_index_lost_are_added_again() {
    let mut world = world(3);
    let key = index_key(SnapId(2), &object(1).at(SnapId(2)));
    for osd in [PRIMARY, member(1)] {
        let keys = vec![key.clone()];
        world.apply(osd, vec![Change::OmapRemove { object: meta_object(PG), keys }]);
        let index = |world: &World| {
            let meta =
                world.stores[&osd].object(Collection::replicated(PG), &meta_object(PG)).unwrap();
            meta.omap.contains_key(&key)
        };
        assert!(!index(&world));
        assert_eq!(scrub(&mut world), []);
        assert!(index(&world), "of {osd}");
    }
}
