//! A primary and its members, each with a store in memory, and writes at chosen moments.

use crate::Member;
use crate::scrub::message::Body;
use crate::scrub::*;
use crate::{EntryKind, INFO_ATTR, LogEntry, ObjectInfo, PgLog, meta_object};
use bytes::Bytes;
use std::collections::BTreeMap;
use store::mem::MemStore;
use store::{Change, Collection, StoreError, Transaction};
use types::{EVersion, HObject, OsdId, PgId, PoolId};

pub(super) const PG: PgId = PgId { pool: PoolId(1), seed: 0 };
pub(super) const PRIMARY: Member = member(0);

pub(super) struct World {
    pub stores: BTreeMap<Member, MemStore>,
    members: BTreeMap<Member, ReplicaScan>,
    pub log: PgLog,
    /// Inconsistencies of clones that rounds found.
    pub snap_findings: Vec<SnapFinding>,
    /// Sizes of omaps that rounds found.
    omaps: Vec<(HObject, OmapSize)>,
    /// Objects whose reads fail.
    rotten: Vec<(Member, HObject)>,
    /// See [`View::recoveries`].
    recoveries: Option<u64>,
}

pub(super) fn object(number: u32) -> HObject {
    let name = Bytes::from(number.to_string());
    HObject::head(PG.pool, Bytes::new(), Bytes::new(), name, number.wrapping_mul(0x9e37_79b9))
}

fn view(log: &PgLog, committed: EVersion, recoveries: Option<u64>) -> View<'_> {
    View { log, committed, recoveries, shards: None }
}

pub(super) const fn member(osd: i32) -> Member {
    Member::replicated(OsdId(osd))
}

impl World {
    pub fn new(members: i32) -> World {
        let mut world = World {
            stores: BTreeMap::new(),
            members: BTreeMap::new(),
            log: PgLog::default(),
            snap_findings: Vec::new(),
            omaps: Vec::new(),
            rotten: Vec::new(),
            recoveries: Some(0),
        };
        for osd in (0..members).map(member) {
            let mut store = MemStore::new();
            let create = vec![(Collection::replicated(PG), Change::CreateCollection)];
            store.apply(&Transaction { changes: create }).unwrap();
            world.stores.insert(osd, store);
            world.members.insert(osd, ReplicaScan::default());
        }
        world
    }

    pub fn apply(&mut self, osd: Member, changes: Vec<Change>) {
        let changes =
            changes.into_iter().map(|change| (Collection::replicated(PG), change)).collect();
        self.stores.get_mut(&osd).unwrap().apply(&Transaction { changes }).unwrap();
    }

    fn write(&mut self, number: u32, text: &'static str) {
        let version = EVersion::new(1, self.log.head().version + 1);
        let (object, kind) = (object(number), EntryKind::Modify);
        let size = text.len() as u64;
        let info = ObjectInfo { version, size, user_version: 7, ..ObjectInfo::default() };
        let attrs = BTreeMap::from([(INFO_ATTR, codec::encode_to_bytes(&info))]);
        let changes = vec![
            Change::Write { object: object.clone(), offset: 0, data: text.into() },
            Change::SetAttrs { object: object.clone(), attrs },
            Change::OmapSet {
                object: object.clone(),
                pairs: BTreeMap::from([("key".into(), text.into())]),
            },
        ];
        let all: Vec<Member> = self.stores.keys().copied().collect();
        all.into_iter().for_each(|osd| self.apply(osd, changes.clone()));
        self.log.push(LogEntry { version, object, kind, ..LogEntry::default() });
    }

    /// Runs a round; `meanwhile` is called before each scan by a member.
    pub fn scrub(
        &mut self,
        level: Level,
        mut meanwhile: impl FnMut(&mut World),
    ) -> (End, Vec<Finding>, (u64, u64)) {
        let members: Vec<Member> = self.stores.keys().copied().collect();
        let mut round = Round::new(PG, PRIMARY, members, level, 0);
        let mut findings = Vec::new();
        while let Some(output) = round.poll_output() {
            self.carry_out(&mut round, output, &mut meanwhile);
            findings.extend(std::iter::from_fn(|| round.poll_finding()));
            self.snap_findings.extend(std::iter::from_fn(|| round.poll_snap_finding()));
            self.omaps.extend(std::iter::from_fn(|| round.poll_omap()));
        }
        (round.end().expect("nothing is left to do").clone(), findings, round.progress())
    }

    fn carry_out(
        &mut self,
        round: &mut Round,
        output: RoundOutput,
        meanwhile: &mut impl FnMut(&mut World),
    ) {
        match output {
            RoundOutput::Storage(tag, kind) => {
                let outcome = self.execute(PRIMARY, kind);
                let view = view(&self.log, self.log.head(), self.recoveries);
                round.handle_completion(tag, outcome, view);
            }
            RoundOutput::Index(pairs) => self.add_to_index(PRIMARY, pairs),
            RoundOutput::Send(to, body) => {
                if let Body::Scan(..) = body {
                    meanwhile(self);
                }
                if let Some(answer) = self.answer(to, body) {
                    let view = view(&self.log, self.log.head(), self.recoveries);
                    round.handle_message(to, answer, view);
                }
            }
        }
    }

    fn execute(
        &mut self,
        osd: Member,
        kind: store::RequestKind,
    ) -> Result<store::Outcome, StoreError> {
        if let store::RequestKind::Read { object, offset, length, .. } = &kind
            && self.rotten.contains(&(osd, object.clone()))
        {
            let (object, offset, length) = (object.clone(), *offset, *length);
            return Err(StoreError::Corrupt { object, offset, length });
        }
        self.stores.get_mut(&osd).unwrap().execute(kind)
    }

    fn add_to_index(&mut self, osd: Member, pairs: BTreeMap<Bytes, Bytes>) {
        if !pairs.is_empty() {
            self.apply(osd, vec![Change::OmapSet { object: meta_object(PG), pairs }]);
        }
    }

    fn answer(&mut self, osd: Member, body: Body) -> Option<Body> {
        match body {
            Body::Reserve => Some(Body::Reserved(true)),
            Body::Scan(number, level, extent) => {
                let mut member = self.members.remove(&osd).unwrap();
                member.begin(Collection::replicated(PG), number, level, extent);
                while let Some((tag, kind)) = member.poll_request() {
                    let outcome = self.execute(osd, kind);
                    member.handle_completion(tag, outcome);
                }
                let (number, mut map) =
                    member.poll_answer().expect("it has answers to all it asked");
                let map_pairs = map.as_mut().map(|map| std::mem::take(&mut map.unindexed));
                self.add_to_index(osd, map_pairs.unwrap_or_default());
                self.members.insert(osd, member);
                Some(Body::Map(number, map))
            }
            _ => None,
        }
    }
}

fn names(findings: &[Finding]) -> Vec<HObject> {
    findings.iter().map(|finding| finding.name.clone()).collect()
}

#[test]
fn all_chunks_of_equal_copies_are_found_equal() {
    let mut world = World::new(3);
    (0..100).for_each(|number| world.write(number, "text"));
    for level in [Level::Light, Level::Deep] {
        assert_eq!(world.scrub(level, |_| {}), (End::Complete, vec![], (100, 0)));
    }
}

#[test]
fn a_deep_scrub_tells_the_size_of_each_omap_once_also_of_one_that_is_always_written() {
    let mut world = World::new(2);
    (0..40).for_each(|number| world.write(number, "text"));
    let pairs = |count: u64| -> BTreeMap<Bytes, Bytes> {
        (0..count).map(|n| (n.to_be_bytes().to_vec().into(), Bytes::from_static(b"0123"))).collect()
    };
    for osd in [member(0), member(1)] {
        let object = object(7);
        world.apply(osd, vec![Change::OmapSet { object, pairs: pairs(2500) }]);
    }
    world.scrub(Level::Light, |_| {});
    assert_eq!(world.omaps, []);
    let mut writes = 0;
    let (end, ..) = world.scrub(Level::Deep, |world| {
        writes += 1;
        world.write(7, "text");
    });
    assert!(end == End::Complete && writes > 5);
    world.omaps.sort_by_key(|(name, _)| name.clone());
    let mut expected: Vec<(HObject, OmapSize)> = (0..40)
        .map(|number| match number {
            7 => (object(7), OmapSize { keys: 2501, bytes: 2500 * 4 + 4 }),
            _ => (object(number), OmapSize { keys: 1, bytes: 4 }),
        })
        .collect();
    expected.sort_by_key(|(name, _)| name.clone());
    assert_eq!(world.omaps, expected);
}

#[test]
fn a_group_of_one_copy_is_scrubbed_too() {
    let mut world = World::new(1);
    (0..3).for_each(|number| world.write(number, "text"));
    world.rotten.push((PRIMARY, object(1)));
    let (end, findings, _) = world.scrub(Level::Deep, |_| {});
    assert_eq!((end, names(&findings)), (End::Complete, vec![object(1)]));
    assert_eq!(findings[0].authority, Authority::Unknown);
}

#[test]
fn a_light_scrub_sees_what_is_missing_and_a_deep_one_what_cannot_be_read() {
    let mut world = World::new(3);
    (0..50).for_each(|number| world.write(number, "text"));
    world.apply(member(2), vec![Change::Remove { object: object(7) }]);
    world.rotten.push((PRIMARY, object(9)));
    let data = Change::Write { object: object(11), offset: 0, data: "tent".into() };
    world.apply(member(1), vec![data]);
    let (_, findings, _) = world.scrub(Level::Light, |_| {});
    assert_eq!(names(&findings), [object(7)]);
    assert_eq!(
        (findings[0].authority, &findings[0].bad[..]),
        (Authority::Copy(PRIMARY), &[member(2)][..])
    );
    let (_, mut findings, _) = world.scrub(Level::Deep, |_| {});
    findings.sort_by_key(|finding| finding.bad.clone());
    assert_eq!(names(&findings), [object(9), object(11), object(7)]);
    assert_eq!(findings[0].authority, Authority::Copy(member(1)));
}

#[test]
fn an_object_that_only_a_member_has_is_seen() {
    let mut world = World::new(3);
    world.write(1, "text");
    let extra: Vec<Change> = (1000..1400).map(|n| Change::Touch { object: object(n) }).collect();
    world.apply(member(1), extra);
    let (end, findings, _) = world.scrub(Level::Light, |_| {});
    assert_eq!((end, findings.len()), (End::Complete, 400));
    assert_eq!(world.scrub(Level::Deep, |_| {}).1.len(), 400);
    assert!(findings.iter().all(|finding| finding.authority == Authority::Unknown));
}

#[test]
fn what_is_written_meanwhile_is_looked_at_again() {
    let mut world = World::new(2);
    (0..10).for_each(|number| world.write(number, "text"));
    world.apply(member(1), vec![Change::Remove { object: object(4) }]);
    let mut writes = 2;
    let (end, findings, progress) = world.scrub(Level::Deep, |world| {
        if writes > 0 {
            writes -= 1;
            (0..3).for_each(|number| world.write(number, "more"));
        }
    });
    assert_eq!((end, names(&findings)), (End::Complete, vec![object(4)]));
    assert_eq!(progress, (10, 0));
}

#[test]
fn what_was_being_recovered_when_its_chunk_was_asked_for_is_looked_at_again() {
    let mut world = World::new(2);
    (0..10).for_each(|number| world.write(number, "text"));
    let stored = |world: &World, osd| {
        let stored = world.stores[&osd].object(Collection::replicated(PG), &object(4));
        let stored = stored.expect("it was written");
        (stored.data.read(0, stored.data.size()).data, stored.attrs.clone())
    };
    let (data, attrs) = stored(&world, PRIMARY);
    world.apply(member(1), vec![Change::Truncate { object: object(4), size: 1 }]);
    world.recoveries = None;
    let mut scans = 0;
    let (end, findings, progress) = world.scrub(Level::Deep, |world| {
        scans += 1;
        if scans == 2 {
            let write = Change::Write { object: object(4), offset: 0, data: data.clone() };
            let set = Change::SetAttrs { object: object(4), attrs: attrs.clone() };
            world.apply(member(1), vec![write, set]);
            world.recoveries = Some(1);
        }
    });
    assert_eq!((end, findings, progress), (End::Complete, vec![], (10, 0)));
    assert_eq!(scans, 3);
}

/// Repairs of what a round has found must not end it as if the rest were sound.
#[test]
fn a_round_beside_a_recovery_that_does_not_end_is_not_complete() {
    let mut world = World::new(2);
    (0..10).for_each(|number| world.write(number, "text"));
    world.apply(member(1), vec![Change::Truncate { object: object(4), size: 1 }]);
    world.recoveries = None;
    let (end, findings, _) = world.scrub(Level::Deep, |_| ());
    assert_eq!((end, findings), (End::Recovering, vec![]));
}

#[test]
fn what_is_written_all_the_time_is_left_alone() {
    let mut world = World::new(2);
    (0..10).for_each(|number| world.write(number, "text"));
    let (end, findings, progress) = world.scrub(Level::Deep, |world| world.write(3, "more"));
    assert_eq!((end, findings, progress), (End::Complete, vec![], (9, 1)));
}

#[test]
fn a_member_that_has_too_much_to_do_ends_the_round() {
    let mut round = Round::new(PG, PRIMARY, vec![PRIMARY, member(1)], Level::Light, 0);
    assert!(
        matches!(round.poll_output(), Some(RoundOutput::Send(to, Body::Reserve)) if to == member(1))
    );
    let log = PgLog::default();
    let view = view(&log, EVersion::ZERO, Some(0));
    round.handle_message(member(1), Body::Reserved(false), view);
    assert_eq!(round.end(), Some(&End::Refused(member(1))));
}

#[test]
fn groups_are_due_at_times_of_their_own_and_deep_scrubs_do_for_both() {
    use types::UTime;
    let day = |days: u64| UTime::from_nanos(days * 86_400_000_000_000);
    let intervals = Intervals::default();
    let mut stamps = Stamps::default();
    let due = |stamps: &Stamps, seed, forbidden| {
        stamps.due(PgId { pool: PoolId(1), seed }, day(100), &intervals, forbidden)
    };
    let free = Forbidden::default();
    for seed in 0..50 {
        let (at, level) = due(&stamps, seed, free).unwrap();
        assert!(level == Level::Light && at >= day(101) && at <= day(102));
    }
    assert_ne!(due(&stamps, 1, free), due(&stamps, 2, free));
    let omaps = OmapTotals { size: OmapSize { keys: 7, bytes: 70 }, large_objects: 1 };
    stamps.note(Level::Light, day(120), Count { shallow: 2, deep: 0 }, omaps);
    assert_eq!(stamps.omaps, OmapTotals::default(), "a light one has read none");
    assert_eq!(due(&stamps, 1, free).unwrap().1, Level::Deep);
    assert_eq!(due(&stamps, 1, Forbidden { deep: true, ..free }).unwrap().1, Level::Light);
    assert_eq!(due(&stamps, 1, Forbidden { light: true, ..free }), None);
    stamps.note(Level::Deep, day(121), Count { shallow: 0, deep: 1 }, omaps);
    assert_eq!(stamps.omaps, omaps);
    assert_eq!(stamps.errors.total(), 1);
    assert_eq!(due(&stamps, 1, free).unwrap().1, Level::Light);
}

/// A truncated object, as earlier builds left it after an interrupted backfill.
#[test]
fn a_copy_that_got_only_the_first_pieces_is_not_taken_for_the_right_one() {
    const MIB: u64 = 1 << 20;
    let (size, pairs) = (2 * MIB + 100, 1500u64);
    for (has_data, has_pairs) in [(MIB, 0), (2 * MIB, 0), (size, 0), (size, 1024)] {
        let mut world = World::new(2);
        let name = object(1);
        let info = ObjectInfo {
            version: EVersion::new(1, 1),
            size,
            has_omap: true,
            ..ObjectInfo::default()
        };
        let attrs = BTreeMap::from([(INFO_ATTR, codec::encode_to_bytes(&info))]);
        for (osd, data, pairs) in [(0, has_data, has_pairs), (1, size, pairs)] {
            let object = || name.clone();
            let data = vec![7; data as usize].into();
            let pair = |n: u64| (n.to_be_bytes().to_vec().into(), Bytes::new());
            let mut changes = vec![
                Change::SetAttrs { object: object(), attrs: attrs.clone() },
                Change::Write { object: object(), offset: 0, data },
                Change::Truncate { object: object(), size },
            ];
            if pairs > 0 {
                let pairs = (0..pairs).map(pair).collect();
                changes.push(Change::OmapSet { object: object(), pairs });
            }
            world.apply(member(osd), changes);
        }
        let (end, findings, _) = world.scrub(Level::Deep, |_| {});
        assert_eq!((end, findings.len()), (End::Complete, 1));
        assert_eq!(findings[0].authority, Authority::Presumed(member(1)), "{has_data} {has_pairs}");
    }
}
