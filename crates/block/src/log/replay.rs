//! Replay: finding the batches of a log again.

use super::batch::{FORMAT, HEADER_LEN, Header, Stop, batch_blocks};
use super::damage::Damage;
use super::window::{Missing, Window};
use super::{BATCH_BLOCKS_MAX, BATCH_FIELDS_MAX, LogPoint, RECORD_BYTES_MAX, RECORD_SHARE, Record};
use crate::device::{BLOCK, Extent};
use bytes::Bytes;
use codec::{Decode, Reader};
use std::collections::VecDeque;
use types::Uuid;

/// Reads the log from a point on. The driver calls [`Replay::poll`] until it returns nothing, then
/// [`Replay::next_read`] until it returns nothing, and completes these reads in any order by
/// [`Replay::supply`] or [`Replay::supply_failed`]; then it polls again.
#[derive(Debug)]
pub struct Replay {
    store: Uuid,
    window: Window,
    /// Log point of the next batch.
    at: LogPoint,
    resumed: LogPoint,
    /// Generation of the mount that resumed there.
    resumed_generation: u64,
    /// Generation of the last batch; zero before the first.
    generation: u64,
    durable_through: u64,
    /// Batches that were found and are not yet known to be durable.
    found: VecDeque<Batch>,
    last: Last,
    /// End of the log, unless a batch behind it proves otherwise.
    end: Option<Replayed>,
    /// Blocks that were searched behind the end; zero before it was found.
    beyond: u64,
    /// Failed attempts to read the next batch.
    attempts: u32,
}

#[derive(Debug)]
enum Last {
    /// There may be more batches.
    Unknown,
    Known(Replayed),
    Told,
}

/// Result of a poll. All but a batch end the replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replayed {
    /// The next batch, in order.
    Batch(Batch),
    /// The log continues here. The generation of the next mount must be greater than this one.
    End {
        /// Log point behind the last batch.
        point: LogPoint,
        /// Generation of the last batch, or of the last mount if there is none.
        generation: u64,
        /// Reason why no batch follows.
        stop: Stop,
    },
    /// A block of the log that may contain acknowledged batches is unreadable.
    Unreadable {
        /// The unreadable block of the log's device.
        block: u64,
    },
    /// Durable batches are missing.
    Damaged {
        /// Block where the missing batch should begin.
        block: u64,
        /// Contradiction that no crash causes.
        damage: Damage,
    },
}

/// A batch as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Number of the batch.
    pub seq: u64,
    /// Log point of its header.
    pub start: LogPoint,
    /// Log point of the next batch.
    pub end: LogPoint,
    /// Number of the mount that wrote it.
    pub generation: u64,
    /// Set if the batch was flushed together with its large writes. Otherwise, and only behind all
    /// durable batches, it may be that none of it was acknowledged and that data of its large
    /// writes is missing; if so, the log ends at `start`, whatever follows.
    pub durable: bool,
    /// The records, each with the data of its deferred writes as slices of the read buffer.
    pub records: Vec<(Record, Vec<Bytes>)>,
}

/// Reason why the next batch is not returned.
enum Obstacle {
    NotYet,
    Final(Replayed),
}

/// The block to be examined next was not read yet.
struct NotRead;

/// Blocks that are searched for batches behind one that is not intact, however long it was: 16 MiB.
/// More are hardly in flight at the same time.
const BEYOND_BLOCKS: u64 = 4096;
/// Attempts to read a batch: a bit that was flipped on the way from the device is no end of the
/// log.
const ATTEMPTS_MAX: u32 = 3;

impl Replay {
    /// Replays the log of `store` from `from` on. The previous mount had the given generation and
    /// appended from `resumed` on; if that lies before `from`, it wrote all batches from `from` on.
    pub fn new(
        area: Extent,
        store: Uuid,
        from: LogPoint,
        resumed: LogPoint,
        generation: u64,
    ) -> Replay {
        assert!(area.count > 0, "a ring has blocks");
        Replay {
            store,
            window: Window::new(area, from.position),
            at: from,
            resumed,
            resumed_generation: generation,
            generation: 0,
            end: None,
            beyond: 0,
            attempts: 0,
            // Before it resumed, that mount flushed what it had replayed.
            durable_through: resumed.seq.max(from.seq).saturating_sub(1),
            found: VecDeque::new(),
            last: Last::Unknown,
        }
    }

    /// Next read to submit: first block and number of blocks, at most 1 MiB, a few in flight.
    pub fn next_read(&mut self) -> Option<(u64, u64)> {
        match self.last {
            Last::Unknown => {
                let until = self.searched_until();
                match self.beyond {
                    0 => self.window.next_read(self.at.position, self.blocks_announced()),
                    beyond if beyond < until => self.window.next_read(beyond, 1),
                    _ => None,
                }
            }
            Last::Known(_) | Last::Told => None,
        }
    }

    /// Completes a read of the blocks from `block` on. Has no effect once the end was found.
    pub fn supply(&mut self, block: u64, bytes: Bytes) {
        self.window.supply(block, bytes);
    }

    /// Completes a failed read of the blocks from `block` on. A long one is repeated block by
    /// block.
    pub fn supply_failed(&mut self, block: u64) {
        self.window.supply_failed(block);
    }

    /// Returns the next batch, or once the end of the log; `None` if reads must be completed first.
    pub fn poll(&mut self) -> Option<Replayed> {
        loop {
            let is_known = !matches!(self.last, Last::Unknown);
            if let Some(batch) = self.next_found(is_known) {
                return Some(Replayed::Batch(batch));
            }
            if is_known {
                return match std::mem::replace(&mut self.last, Last::Told) {
                    Last::Known(last) => Some(last),
                    Last::Unknown | Last::Told => None,
                };
            }
            let end = match self.end.take() {
                Some(end) => end,
                None => match self.find() {
                    Ok(batch) => {
                        self.attempts = 0;
                        self.found.push_back(batch);
                        continue;
                    }
                    Err(Obstacle::NotYet) => return None,
                    Err(Obstacle::Final(end)) if self.reads_again(&end) => return None,
                    Err(Obstacle::Final(end)) => end,
                },
            };
            match self.look_beyond(&end) {
                Ok(None) => self.last = Last::Known(end),
                Ok(Some(damaged)) => self.last = Last::Known(damaged),
                Err(NotRead) => {
                    self.end = Some(end);
                    return None;
                }
            }
        }
    }

    /// Requests another read of a block that is not the next batch, up to [`ATTEMPTS_MAX`].
    fn reads_again(&mut self, end: &Replayed) -> bool {
        let may_be_misread = matches!(
            end,
            Replayed::End { .. } | Replayed::Damaged { damage: Damage::Lost { .. }, .. }
        );
        self.attempts += 1;
        let is_again = may_be_misread
            && self.attempts < ATTEMPTS_MAX
            && self.at.position < self.window.limit();
        if is_again {
            self.window.read_again(self.at.position, self.blocks_announced());
        }
        is_again
    }

    /// Searches behind a batch that is not intact for one that says that it was durable. If there
    /// is one the log is damaged, and acknowledged commits may be lost; otherwise the log ends
    /// here.
    fn look_beyond(&mut self, end: &Replayed) -> Result<Option<Replayed>, NotRead> {
        if !matches!(end, Replayed::End { .. }) {
            return Ok(None);
        }
        let until = self.searched_until();
        self.beyond = self.beyond.max(self.at.position + 1);
        while self.beyond < until {
            match self.window.get(self.beyond) {
                Ok(block) => {
                    if let Some(durable) = self.durable_by(&block, self.beyond) {
                        let (missing, stop) = (self.at.seq, Stop::NoBatch);
                        let damage = Damage::Lost { durable, missing, stop };
                        let block = self.window.block(self.at.position);
                        return Ok(Some(Replayed::Damaged { block, damage }));
                    }
                }
                Err(Missing::NotYet) => return Err(NotRead),
                Err(Missing::Unreadable { .. }) => {}
            }
            self.beyond += 1;
            self.window.forget(self.beyond);
        }
        Ok(None)
    }

    /// Position where the search behind the batch at `at` ends. The length in its header is not
    /// trusted, because nothing proves it while the batch is not intact.
    fn searched_until(&self) -> u64 {
        let behind = longest_batch(self.window.ring_blocks()) + BEYOND_BLOCKS;
        self.window.limit().min(self.at.position.saturating_add(behind))
    }

    /// The number up to which a later batch of this log at `position` says that batches are
    /// durable, if that includes the missing one.
    fn durable_by(&self, block: &[u8], position: u64) -> Option<u64> {
        let header = Header::read(block)?;
        let is_ours = header.store == self.store && header.start.position == position;
        let is_later = header.start.seq > self.at.seq && header.durable_through >= self.at.seq;
        // Older ones belong to batches that a mount has dropped.
        let is_old = header.generation < self.generation_least();
        (is_ours && is_later && !is_old && header.durable_through < header.start.seq)
            .then_some(header.durable_through)
    }

    /// No batch from here on has an older generation.
    fn generation_least(&self) -> u64 {
        let least = if self.at.seq >= self.resumed.seq { self.resumed_generation } else { 0 };
        least.max(self.generation)
    }

    /// Batches wait here until they are known to be durable, or until no further batch follows that
    /// could say so.
    fn next_found(&mut self, is_last_known: bool) -> Option<Batch> {
        let durable = self.found.front()?.seq <= self.durable_through;
        if !durable && !is_last_known {
            return None;
        }
        let batch = self.found.pop_front()?;
        Some(Batch { durable, ..batch })
    }

    fn find(&mut self) -> Result<Batch, Obstacle> {
        if self.at.seq == self.resumed.seq && self.at != self.resumed {
            let (expected, found) = (self.resumed, self.at);
            return Err(self.damaged(Damage::OtherHistory { expected, found }));
        }
        let header = self.header()?;
        if !self.window.is_settled(self.at.position, header.blocks()) {
            return Err(Obstacle::NotYet);
        }
        let records = self.records(&header)?;
        let start = self.at;
        self.at = LogPoint {
            position: start.position + header.blocks(),
            seq: start.seq + 1,
            previous: header.checksum,
        };
        self.window.forget(self.at.position);
        self.learn(&header);
        let (end, generation) = (self.at, header.generation);
        Ok(Batch { seq: start.seq, start, end, generation, durable: false, records })
    }

    /// Derives from an intact header which batches are durable: those that it names, and all before
    /// the first batch of a mount, because a mount flushes what it has replayed before it appends.
    fn learn(&mut self, header: &Header) {
        let before = header.start.seq - 1;
        let is_new_mount = header.generation > self.generation;
        let durable = if is_new_mount { before } else { header.durable_through.min(before) };
        self.durable_through = self.durable_through.max(durable);
        self.generation = header.generation;
    }

    /// Validated header of the batch at `at`.
    fn header(&self) -> Result<Header, Obstacle> {
        if self.at.position >= self.window.limit() {
            return Err(self.ends(Stop::RingFull));
        }
        let block = self.window.get(self.at.position).map_err(missing)?;
        let header = Header::read(&block).ok_or_else(|| self.ends(Stop::NoBatch))?;
        header
            .follows(self.store, self.at, self.generation_least(), self.window.limit())
            .map_err(|stop| self.ends(stop))?;
        Ok(header)
    }

    /// Blocks of the batch at `at` by its header.
    fn blocks_announced(&self) -> u64 {
        self.header().map_or(1, |header| header.blocks())
    }

    /// Records of a batch whose blocks have all been read.
    fn records(&self, header: &Header) -> Result<Vec<(Record, Vec<Bytes>)>, Obstacle> {
        let seq = header.start.seq;
        let length = HEADER_LEN + header.fields_len as usize;
        let fields_blocks = batch_blocks(header.fields_len as usize, 0);
        let bytes = self.window.get_all(self.at.position, fields_blocks).map_err(missing)?;
        if !header.is_intact(&bytes[..length]) {
            return Err(self.ends(Stop::Checksum));
        }
        if header.format != FORMAT {
            return Err(self.damaged(Damage::Format { seq, format: header.format }));
        }
        let records = decode_records(header, &bytes[HEADER_LEN..length])
            .map_err(|error| self.damaged(Damage::Fields { seq, error }))?;
        let mut index = 0;
        let first = self.at.position + fields_blocks;
        let with_data = records.into_iter().map(|record| {
            let data = record.small.iter().map(|write| {
                let block = self.window.get(first + index as u64).map_err(missing)?;
                index += 1;
                match is_intact(&block, write.crc) {
                    true => Ok(block),
                    false => Err(self.ends(Stop::Data(index - 1))),
                }
            });
            let data = data.collect::<Result<_, _>>()?;
            Ok((record, data))
        });
        with_data.collect()
    }

    /// Ends the log at `at`, unless more of it was durable.
    fn ends(&self, stop: Stop) -> Obstacle {
        let (missing, durable) = (self.at.seq, self.durable_through);
        if missing <= durable {
            return self.damaged(Damage::Lost { durable, missing, stop });
        }
        let generation = self.generation.max(self.resumed_generation);
        Obstacle::Final(Replayed::End { point: self.at, generation, stop })
    }

    fn damaged(&self, damage: Damage) -> Obstacle {
        Obstacle::Final(Replayed::Damaged { block: self.window.block(self.at.position), damage })
    }
}

/// Upper bound for the blocks of a batch in a ring of this number of blocks: a batch that may take
/// another record, and the largest record.
fn longest_batch(ring_blocks: u64) -> u64 {
    let record = (ring_blocks / RECORD_SHARE).min(RECORD_BYTES_MAX / BLOCK as u64);
    batch_blocks(BATCH_FIELDS_MAX, BATCH_BLOCKS_MAX) + record
}

fn missing(missing: Missing) -> Obstacle {
    match missing {
        Missing::NotYet => Obstacle::NotYet,
        Missing::Unreadable { block } => Obstacle::Final(Replayed::Unreadable { block }),
    }
}

fn decode_records(header: &Header, fields: &[u8]) -> codec::Result<Vec<Record>> {
    let mut r = Reader::new(fields);
    let mut records = Vec::new();
    for _ in 0..header.records {
        records.push(Record::decode(&mut r)?);
    }
    r.finish("fields of a batch")?;
    let data_blocks: usize = records.iter().map(|record| record.small.len()).sum();
    if data_blocks != header.data_blocks as usize {
        return Err(r.invalid("blocks of data", data_blocks as u64));
    }
    Ok(records)
}

/// Set if the block has this checksum. Zero and one are equivalent, because a checksum of zero
/// denotes a hole and a real zero is stored as one.
fn is_intact(block: &[u8], crc: u32) -> bool {
    debug_assert_eq!(block.len(), BLOCK);
    crc_fast::crc32_iscsi(block).max(1) == crc.max(1)
}
