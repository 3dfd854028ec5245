//! Random histories of appends, flushes, checkpoints, crashes and mounts, compared with a model.

use super::ring::{Content, Ring, drive};
use super::{AREA, STORE, filled};
use crate::log::{Admission, Batch, Log, LogPoint, Replay, Replayed};
use std::collections::BTreeMap;
use stdx::Prng;

struct World {
    prng: Prng,
    ring: Ring,
    log: Log,
    /// Fields of the superblock.
    from: LogPoint,
    resumed: LogPoint,
    generation: u64,
    open: Content,
    /// Batches that count, by number.
    sealed: BTreeMap<u64, Sealed>,
    /// Number of the last acknowledged batch.
    durable: u64,
    /// A batch that the last crash undid.
    lost: Option<Content>,
}

struct Sealed {
    start: LogPoint,
    end: LogPoint,
    content: Content,
}

impl World {
    fn new(seed: u64) -> World {
        let start = LogPoint::BEGINNING;
        World {
            prng: Prng::new(seed),
            ring: Ring::new(AREA),
            log: Log::new(AREA, STORE, 1, start, start),
            from: start,
            resumed: start,
            generation: 1,
            open: Vec::new(),
            sealed: BTreeMap::new(),
            durable: 0,
            lost: None,
        }
    }

    fn step(&mut self) {
        match self.prng.below(20) {
            0..8 => self.append_one(),
            8..13 => self.seal(),
            13..16 => self.flush(),
            16..18 => self.checkpoint(),
            18 => self.write_again(),
            _ => self.crash(),
        }
        self.log.check_invariants();
    }

    fn append_one(&mut self) {
        let (blocks, fields) = (self.prng.below(5), self.prng.below(6000));
        let one = filled(&mut self.prng, blocks as usize, fields as usize);
        self.append(vec![one]);
    }

    fn append(&mut self, content: Content) {
        for (record, data) in content {
            if self.log.admit(&record) != Admission::Fits {
                self.checkpoint();
                continue;
            }
            assert_eq!(self.log.append(&record, &data), self.log.head().seq);
            self.open.push((record, data));
        }
    }

    /// Writes the batch that a crash undid again, with the same bytes but for its generation.
    fn write_again(&mut self) {
        let Some(content) = self.lost.take() else { return };
        if self.open.is_empty() {
            self.append(content);
            self.seal();
        }
    }

    fn seal(&mut self) {
        let Some(batch) = self.log.seal(self.durable) else { return };
        let content = std::mem::take(&mut self.open);
        let (start, end) = (batch.start, batch.end);
        self.sealed.insert(batch.seq, Sealed { start, end, content });
        self.ring.write(batch);
    }

    fn flush(&mut self) {
        self.ring.flush();
        self.durable = self.log.head().seq - 1;
    }

    /// Makes a checkpoint up to any durable batch.
    fn checkpoint(&mut self) {
        if self.durable < self.from.seq {
            return;
        }
        let seq = self.prng.range(self.from.seq..self.durable + 1);
        self.from = self.sealed[&seq].end;
        self.sealed = self.sealed.split_off(&(seq + 1));
        self.log.trim(self.from);
    }

    fn crash(&mut self) {
        self.ring.crash(&mut self.prng);
        self.open.clear();
        while self.prng.chance(1, 4) {
            // A mount that crashes before its superblock is written changes nothing.
            self.replay();
        }
        self.mount();
    }

    fn mount(&mut self) {
        let (batches, mut end) = self.replay();
        if self.prng.chance(1, 3) {
            // Pretends that a batch lacks data of its large writes.
            let doubtful: Vec<&Batch> = batches.iter().filter(|b| b.seq > self.durable).collect();
            if !doubtful.is_empty() {
                end = self.prng.choose(&doubtful).start;
            }
        }
        self.lost = self.sealed.split_off(&end.seq).into_values().next().map(|batch| batch.content);
        self.ring.flush();
        self.generation += 1;
        self.resumed = end;
        self.durable = end.seq - 1;
        self.log = Log::new(AREA, STORE, self.generation, self.from, end);
    }

    /// Asserts that a replay returns all acknowledged batches, in order, without gaps or foreign
    /// ones.
    fn replay(&mut self) -> (Vec<Batch>, LogPoint) {
        let replay = Replay::new(AREA, STORE, self.from, self.resumed, self.generation);
        let (batches, last) = drive(&self.ring, replay, &mut self.prng);
        let mut at = self.from;
        for batch in &batches {
            let written = self.sealed.get(&batch.seq).expect("nothing that was not written");
            assert_eq!((batch.start, batch.end), (written.start, written.end));
            assert_eq!((batch.seq, batch.start), (at.seq, at));
            assert_eq!(batch.records, written.content);
            assert!(!batch.durable || batch.seq <= self.durable, "{} is in doubt", batch.seq);
            at = batch.end;
        }
        let Replayed::End { point, generation, .. } = last else { panic!("{last:?}") };
        assert_eq!((point, generation), (at, self.generation));
        assert!(point.seq > self.durable, "{point:?} is before {}", self.durable);
        (batches, point)
    }
}

#[test]
fn after_any_history_replay_gives_what_was_acknowledged_and_a_prefix_of_the_rest() {
    for seed in 0..150 {
        let mut world = World::new(seed);
        for _ in 0..200 {
            world.step();
        }
        world.crash();
    }
}
