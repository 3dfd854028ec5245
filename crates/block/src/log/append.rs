//! Appending: batches of records, and the free space of the ring.

use super::batch::{FORMAT, HEADER_LEN, Header, batch_blocks};
use super::{BATCH_BLOCKS_MAX, BATCH_FIELDS_MAX, LogPoint, RECORD_BYTES_MAX, RECORD_SHARE, Record};
use crate::device::{BLOCK, Extent};
use bytes::Bytes;
use codec::{Encode, Writer};
use smallvec::{SmallVec, smallvec};
use stdx::AlignedBuffer;
use types::Uuid;

/// Buffer size for fields that is kept between batches, in bytes.
const FIELDS_KEPT_MAX: usize = 1 << 20;

/// Size of the aligned pieces of a batch's fields in bytes. Allocators request larger ones from the
/// kernel each time (glibc: from 128 KiB on).
const PIECE_BYTES: usize = 64 << 10;

/// The end of the log where records are appended.
#[derive(Debug)]
pub struct Log {
    area: Extent,
    store: Uuid,
    generation: u64,
    /// Batches before this position are free.
    tail: u64,
    /// Log point where the open batch begins.
    head: LogPoint,
    /// Space for the header, then the fields of the open batch.
    fields: Vec<u8>,
    records: u32,
    /// Data of the deferred writes of the open batch, and their places.
    data: Vec<Bytes>,
    places: Vec<u64>,
}

/// Result of checking a record against the open batch and the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// [`Log::append`] may be called now.
    Fits,
    /// The batch is large enough and must be sealed first.
    BatchFull,
    /// The ring is full until a checkpoint has trimmed it.
    RingFull,
    /// The record exceeds [`Log::record_bytes_max`].
    RecordTooLarge,
}

/// A batch to be written to the device.
#[derive(Debug, Clone)]
pub struct SealedBatch {
    /// Number of the batch; each is greater by one than that before.
    pub seq: u64,
    /// Log point of its header.
    pub start: LogPoint,
    /// Log point of the next batch.
    pub end: LogPoint,
    /// Blocks of the log's device and their content; two entries if the batch wraps around.
    pub writes: SmallVec<[(u64, Vec<Bytes>); 2]>,
    /// Data of deferred writes, aligned. Each block has memory of its own, because some are kept
    /// for long.
    pub data: Vec<Bytes>,
    /// Place of each of these blocks.
    pub places: Vec<u64>,
}

impl Log {
    /// Creates a log in `area` whose batches from `tail` on are still needed, and which continues
    /// at `head`. The generation must be greater than that of any batch in it, and must be durably
    /// recorded together with `head` before the first batch is written.
    pub fn new(area: Extent, store: Uuid, generation: u64, tail: LogPoint, head: LogPoint) -> Log {
        assert!(area.count > 0 && tail.position <= head.position);
        assert!(head.position - tail.position <= area.count);
        Log {
            area,
            store,
            generation,
            tail: tail.position,
            head,
            fields: vec![0; HEADER_LEN],
            records: 0,
            data: Vec::new(),
            places: Vec::new(),
        }
    }

    /// Log point where the open batch begins, at which a checkpoint can freeze.
    pub fn head(&self) -> LogPoint {
        self.head
    }

    /// Set if a record was appended since the last batch was sealed.
    pub fn is_open(&self) -> bool {
        self.records > 0
    }

    /// Blocks of the ring.
    pub fn capacity(&self) -> u64 {
        self.area.count
    }

    /// Blocks of batches that were sealed and not trimmed.
    pub fn used_blocks(&self) -> u64 {
        self.head.position - self.tail
    }

    /// Blocks of the open batch so far.
    pub fn open_blocks(&self) -> u64 {
        if self.is_open() { batch_blocks(self.fields_len(), self.data.len()) } else { 0 }
    }

    /// Blocks that neither batches in use nor the open one occupy.
    pub fn free_blocks(&self) -> u64 {
        self.capacity() - self.used_blocks() - self.open_blocks()
    }

    /// Upper bound for [`Record::log_bytes`]. The engine refuses a transaction whose record could
    /// be larger before it changes anything.
    pub fn record_bytes_max(&self) -> u64 {
        let share = self.capacity() / RECORD_SHARE * BLOCK as u64;
        share.min(RECORD_BYTES_MAX).saturating_sub(HEADER_LEN as u64)
    }

    /// Blocks of the open batch with `record` in it.
    pub fn blocks_needed(&self, record: &Record) -> u64 {
        batch_blocks(self.fields_len() + record.encoded_len(), self.data.len() + record.small.len())
    }

    /// Checks whether a record can be appended now. Changes nothing.
    pub fn admit(&self, record: &Record) -> Admission {
        let full = self.fields_len() >= BATCH_FIELDS_MAX
            || self.data.len() + record.small.len() > BATCH_BLOCKS_MAX;
        if record.log_bytes() > self.record_bytes_max() {
            Admission::RecordTooLarge
        } else if self.is_open() && full {
            Admission::BatchFull
        } else if self.blocks_needed(record) > self.capacity() - self.used_blocks() {
            Admission::RingFull
        } else {
            Admission::Fits
        }
    }

    /// Appends a record, which [`Log::admit`] must have admitted, and returns the number of its
    /// batch. `data` contains a block for each of its deferred writes.
    pub fn append(&mut self, record: &Record, data: &[Bytes]) -> u64 {
        assert_eq!(data.len(), record.small.len(), "a block for each small write");
        assert!(data.iter().all(|block| block.len() == BLOCK));
        debug_assert_eq!(self.admit(record), Admission::Fits);
        let mut w = Writer::append_to(std::mem::take(&mut self.fields));
        record.encode(&mut w);
        self.fields = w.into_vec();
        self.records += 1;
        self.data.extend_from_slice(data);
        self.places.extend(record.small.iter().map(|write| write.block));
        self.head.seq
    }

    /// Closes the open batch, if anything was appended. `durable_through` is the last batch that is
    /// known to be durable together with its large writes and all batches before it.
    pub fn seal(&mut self, durable_through: u64) -> Option<SealedBatch> {
        self.is_open().then(|| self.close(durable_through))
    }

    /// Seals a mark: a batch without records that only says what is durable. `None` if a batch is
    /// open, which will say the same, or if the ring is full.
    pub fn seal_mark(&mut self, durable_through: u64) -> Option<SealedBatch> {
        let has_space = self.used_blocks() + batch_blocks(0, 0) <= self.capacity();
        (!self.is_open() && has_space).then(|| self.close(durable_through))
    }

    fn close(&mut self, durable_through: u64) -> SealedBatch {
        let start = self.head;
        let blocks = batch_blocks(self.fields_len(), self.data.len());
        assert!(durable_through < start.seq, "{durable_through} is not written yet");
        assert!(blocks <= self.capacity() - self.used_blocks(), "the caller checked admission");
        let previous = self.write_header(durable_through);
        let fields = self.fields.chunks(PIECE_BYTES);
        let mut pieces: Vec<Bytes> =
            fields.map(|part| AlignedBuffer::gathered([part], part.len()).into()).collect();
        let alone = |block: &Bytes| Bytes::from(AlignedBuffer::gathered([block], BLOCK));
        let data: Vec<Bytes> = self.data.iter().map(alone).collect();
        pieces.extend(data.iter().cloned());
        self.head = LogPoint { position: start.position + blocks, seq: start.seq + 1, previous };
        let batch = SealedBatch {
            seq: start.seq,
            start,
            end: self.head,
            writes: self.place(start.position, pieces),
            data,
            places: std::mem::take(&mut self.places),
        };
        self.reset();
        batch
    }

    /// Frees the batches before `point`. A durable superblock must say that replay starts there or
    /// later.
    pub fn trim(&mut self, point: LogPoint) {
        assert!(point.position <= self.head.position, "only what was sealed can be trimmed");
        self.tail = self.tail.max(point.position);
    }

    /// Panics if the counts contradict each other.
    pub fn check_invariants(&self) {
        assert!(self.tail <= self.head.position);
        assert!(self.used_blocks() + self.open_blocks() <= self.capacity());
        assert_eq!(self.data.len(), self.places.len());
        assert_eq!(self.is_open(), self.fields.len() > HEADER_LEN);
    }

    fn fields_len(&self) -> usize {
        self.fields.len() - HEADER_LEN
    }

    fn write_header(&mut self, durable_through: u64) -> u32 {
        let header = Header {
            checksum: 0,
            format: FORMAT,
            store: self.store,
            generation: self.generation,
            start: self.head,
            durable_through,
            fields_len: u32::try_from(self.fields_len()).expect("bounded by record_bytes_max"),
            records: self.records,
            data_blocks: u32::try_from(self.data.len()).expect("bounded by the ring"),
        };
        header.write(&mut self.fields)
    }

    /// Places of the pieces of a batch, cut at the end of the ring.
    fn place(&self, position: u64, pieces: Vec<Bytes>) -> SmallVec<[(u64, Vec<Bytes>); 2]> {
        let offset = position % self.area.count;
        let length: usize = pieces.iter().map(Bytes::len).sum();
        let mut before_end = (self.area.count - offset) as usize * BLOCK;
        if length <= before_end {
            return smallvec![(self.area.start + offset, pieces)];
        }
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for mut piece in pieces {
            let front = piece.split_to(piece.len().min(before_end));
            before_end -= front.len();
            first.extend((!front.is_empty()).then_some(front));
            second.extend((!piece.is_empty()).then_some(piece));
        }
        smallvec![(self.area.start + offset, first), (self.area.start, second)]
    }

    fn reset(&mut self) {
        self.records = 0;
        self.data.clear();
        self.fields.truncate(HEADER_LEN);
        self.fields.shrink_to(FIELDS_KEPT_MAX);
    }
}
