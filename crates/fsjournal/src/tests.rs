//! The writer against the reader: a store that may lose every write in flight.

use crate::{Damage, Head, Journal, Limits, RawRecord, Replay, Resume, SPANS_MAX, SegmentWrite};
use bytes::Bytes;
use proptest::prelude::*;
use std::collections::BTreeMap;

const SMALL: Limits =
    Limits { frame_bytes: 64, segment_bytes: 300, frames_in_flight: 3, bytes_in_flight: 300 };

/// Objects, and the records that were appended.
#[derive(Debug, Clone, Default)]
struct World {
    objects: BTreeMap<String, Vec<u8>>,
    in_flight: Vec<SegmentWrite>,
    appended: Vec<RawRecord>,
    head: Head,
}

impl World {
    fn store(&mut self, write: &SegmentWrite) {
        let object = self.objects.entry(write.object.clone()).or_default();
        let end = write.offset as usize + write.frame.len();
        object.resize(object.len().max(end), 0);
        object[write.offset as usize..end].copy_from_slice(&write.frame);
    }

    fn append(&mut self, journal: &mut Journal, group: &[u8]) {
        let first = self.appended.len() as u8;
        let records = group.iter().zip(first..).map(|(size, number)| RawRecord {
            kind: number,
            version: 1,
            body: Bytes::from(vec![number; usize::from(*size)]),
        });
        let records: Vec<RawRecord> = records.collect();
        self.appended.extend(records.clone());
        assert_eq!(journal.append(records), Ok(self.appended.len() as u64));
    }

    fn turn(&mut self, journal: &mut Journal) {
        journal.flush();
        self.in_flight.extend(std::iter::from_fn(|| journal.poll_write()));
        journal.check_invariants();
    }

    fn answer(&mut self, journal: &mut Journal, which: usize) {
        if !self.in_flight.is_empty() {
            let write = self.in_flight.remove(which % self.in_flight.len());
            self.store(&write);
            let before = journal.durable();
            journal.handle_written(write.id);
            assert!(journal.durable() >= before, "durable never goes back");
        }
    }

    fn checkpoint(&mut self, journal: &mut Journal, removes: bool) {
        let checkpoint = journal.durable();
        self.head.checkpoint = checkpoint;
        self.head.spans = journal.spans(checkpoint);
        if removes {
            for name in journal.trim(checkpoint) {
                assert!(self.objects.remove(&name).is_some(), "{name} was written");
            }
        }
    }

    /// Reads the journal: what is behind the checkpoint, and what a successor continues.
    fn replay(&self) -> (Vec<(u64, RawRecord)>, Resume) {
        let mut replay = Replay::new(&self.head);
        let mut found = Vec::new();
        while let Some(name) = replay.next_object() {
            let data = self.objects.get(&name).map(|data| Bytes::from(data.clone()));
            found.extend(replay.feed(data.as_ref()).expect("the journal is whole"));
        }
        (found, replay.finish())
    }
}

#[derive(Debug, Clone)]
enum Step {
    Append(Vec<u8>),
    Turn,
    Answer(usize),
    /// Whether the server lives until it has removed segments.
    Checkpoint(bool),
    /// Bits: writes in flight that are stored.
    Crash(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop::collection::vec(0u8..40, 1..4).prop_map(Step::Append),
        4 => Just(Step::Turn),
        6 => any::<usize>().prop_map(Step::Answer),
        1 => any::<bool>().prop_map(Step::Checkpoint),
        2 => any::<u8>().prop_map(Step::Crash),
    ]
}

/// A crash: some writes in flight are stored, the successor reads, and writes its head.
fn crash(world: &mut World, journal: &Journal, stored: u8) -> Journal {
    for (at, write) in std::mem::take(&mut world.in_flight).iter().enumerate() {
        if stored & (1 << (at % 8)) != 0 {
            world.store(write);
        }
    }
    let (found, resume) = world.replay();
    let first = world.head.checkpoint;
    let end = first + found.len() as u64;
    assert!(end >= journal.durable(), "{end} is the end, {} was durable", journal.durable());
    for (expected, (lsn, record)) in (first + 1..).zip(&found) {
        assert_eq!(*lsn, expected);
        assert_eq!(*record, world.appended[*lsn as usize - 1]);
    }
    assert_eq!(world.replay(), (found, resume.clone()), "a second replay finds the same");
    world.appended.truncate(end as usize);
    let next = Journal::resume(0, SMALL, resume);
    world.head.spans = next.spans(first);
    next.check_invariants();
    next
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_crash_keeps_a_prefix_with_all_that_was_durable(
        steps in prop::collection::vec(step(), 1..120)
    ) {
        let mut journal = Journal::create(0, SMALL);
        let mut world = World::default();
        world.head.spans = journal.spans(0);
        for step in &steps {
            match step {
                Step::Append(_) if world.appended.len() > 200 => {}
                Step::Append(group) => world.append(&mut journal, group),
                Step::Turn => world.turn(&mut journal),
                Step::Answer(which) => world.answer(&mut journal, *which),
                Step::Checkpoint(removes) => world.checkpoint(&mut journal, *removes),
                Step::Crash(stored) => journal = crash(&mut world, &journal, *stored),
            }
            prop_assert!(world.head.spans.len() <= SPANS_MAX);
        }
        crash(&mut world, &journal, 0);
    }
}

#[test]
fn a_turn_is_one_frame_and_few_are_in_flight() {
    let mut journal = Journal::create(0, Limits::default());
    let mut world = World::default();
    for _ in 0..12 {
        world.append(&mut journal, &[10, 10]);
        world.append(&mut journal, &[5]);
        world.turn(&mut journal);
    }
    assert_eq!(world.in_flight.len(), 8);
    assert_eq!(world.in_flight[1].offset, world.in_flight[0].frame.len() as u64);
    world.answer(&mut journal, 1);
    assert_eq!(journal.durable(), 0, "the frame before is not stored");
    world.answer(&mut journal, 0);
    assert_eq!(journal.durable(), 6);
    world.turn(&mut journal);
    assert_eq!(world.in_flight.len(), 7, "the four turns that waited are one frame");
}

#[test]
fn a_lost_frame_of_an_ended_generation_is_damage() {
    let mut journal = Journal::create(0, SMALL);
    let mut world = World::default();
    world.head.spans = journal.spans(0);
    world.append(&mut journal, &[1]);
    world.turn(&mut journal);
    world.answer(&mut journal, 0);
    crash(&mut world, &journal, 0);
    world.objects.clear();
    let mut replay = Replay::new(&world.head);
    let damage = replay.feed(None).unwrap_err();
    assert!(damage.to_string().contains("journal.0.1.0"), "{damage}");
}

#[test]
fn a_journal_that_ends_before_its_checkpoint_is_damage() {
    let mut journal = Journal::create(0, SMALL);
    let mut world = World::default();
    world.append(&mut journal, &[1]);
    world.turn(&mut journal);
    world.answer(&mut journal, 0);
    world.checkpoint(&mut journal, false);
    assert_eq!(world.head.checkpoint, 1);
    world.replay();
    // The segment is still named, and its frame is lost.
    world.head.spans = Journal::create(0, SMALL).spans(0);
    world.objects.clear();
    let mut replay = Replay::new(&world.head);
    let damage = replay.feed(None).unwrap_err();
    assert!(matches!(damage, Damage::Ends { expected: 1, .. }), "{damage}");
}

#[test]
fn records_that_fit_into_no_frame_are_refused() {
    let mut journal = Journal::create(0, Limits::default());
    let record = RawRecord { kind: 1, version: 1, body: Bytes::from(vec![0; 5 << 20]) };
    assert!(journal.append(vec![record]).is_err());
    assert_eq!(journal.last(), 0);
}
