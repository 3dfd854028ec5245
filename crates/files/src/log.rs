//! The write-ahead log: a ring of batches in one preallocated file.
//!
//! Block 0 of the file is a header (magic, format, instance, ring size). The ring follows. Positions
//! in it are bytes ever written, so that `position % size` is the place. A *batch* starts on a block
//! boundary, is contiguous, and holds the transactions that share one flush:
//!
//! | field        | size | meaning                                                       |
//! |--------------|------|---------------------------------------------------------------|
//! | magic        | 8    | `sepiolog`                                                    |
//! | instance     | 16   | the store that wrote it                                       |
//! | sequence     | 8    | the number of its first transaction                           |
//! | transactions | 4    |                                                               |
//! | length       | 4    | of the records that follow                                    |
//! | previous     | 4    | the checksum of the batch before                              |
//! | checksum     | 4    | CRC-32C of the fields above and the records                   |
//!
//! A batch that does not fit before the end of the ring begins at its start. The log ends where no
//! batch with the expected sequence and predecessor follows: a torn batch fails its checksum, one of
//! an earlier round has an earlier sequence. Nothing in a torn batch was ever acknowledged.
//!
//! A batch is written when the one before is durable. So if an intact batch with a later sequence lies
//! behind the end, that is no end: what is missing before it was acknowledged, and is damaged. Nor is a
//! place that cannot be read an end. In both cases the log is not opened.

mod header;

pub use header::{create, lock};

use crate::error::FilesError;
use crate::record::{Encoded, Record};
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Writer};
use header::{BLOCK, MAGIC, RING_START};
use rustix::fs::{Mode, OFlags};
use rustix::io::{ReadWriteFlags, pwritev2};
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const BATCH_HEADER_LEN: usize = 48;
/// Unwritten parts of the ring are zeroed ahead in steps of this many bytes, because a flush after a write
/// into unwritten space has to flush the file system's journal too.
const ZERO_STEP: u64 = 1 << 20;
/// A batch buffer larger than this (bytes) is freed after use.
const BUFFER_KEPT_MAX: usize = 1 << 20;
const READ_ATTEMPTS_MAX: u32 = 3;
/// Step in bytes of the search for batches behind the end of the log.
const SEARCH_STEP: u64 = 1 << 20;

/// Start of a batch, and the fields that identify it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogPosition {
    /// Bytes written to the ring since the log was made; grows for ever.
    pub position: u64,
    /// Number of the batch's first transaction.
    pub sequence: u64,
    /// Checksum of the previous batch.
    pub previous: u32,
}

impl Encode for LogPosition {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.position);
        w.u64(self.sequence);
        w.u32(self.previous);
    }
}

impl Decode for LogPosition {
    fn decode(r: &mut Reader<'_>) -> codec::Result<Self> {
        let (position, sequence) = (r.u64("log position")?, r.u64("log sequence")?);
        Ok(LogPosition { position, sequence, previous: r.u32("log checksum")? })
    }
}

/// A ring of batches in one file.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: File,
    instance: [u8; 16],
    size: u64,
    sync: bool,
    /// Position of the next batch.
    head: LogPosition,
    /// The log before this position is no longer needed.
    tail: LogPosition,
    /// The ring below this offset was written at least once.
    zeroed: u64,
    buffer: AlignedBuffer,
}

impl Log {
    /// Opens the log and hands every transaction from `start` on to `replay`, in order.
    pub fn open(
        path: &Path,
        instance: [u8; 16],
        start: LogPosition,
        sync: bool,
        mut replay: impl FnMut(Record) -> Result<(), FilesError>,
    ) -> Result<Log, FilesError> {
        let reader = File::open(path).map_err(FilesError::at(path))?;
        let size = header::read(&reader, path, instance)?;
        let ring = Ring { file: reader, path, size, instance };
        let mut head = start;
        while let Some(batch) = ring.find_batch(head)? {
            let mut r = Reader::new(&batch.records);
            for _ in 0..batch.transactions {
                replay(Record::decode(&mut r, &batch.records)?)?;
            }
            head = batch.next;
        }
        if let Some(found) = ring.find_later(head) {
            let missing = head.sequence;
            if sync {
                return Err(FilesError::LogDamaged { path: path.to_owned(), missing, found });
            }
            tracing::warn!(missing, found, "transactions are lost: the store does not flush");
        }
        if sync {
            // Replayed batches may have come from the page cache; batches appended behind them must not be
            // durable before them.
            ring.file.sync_all().map_err(FilesError::at(path))?;
        }
        let zeroed = if head.position >= size { size } else { head.position };
        Ok(Log {
            file: open_direct(path).map_err(FilesError::at(path))?,
            path: path.to_owned(),
            instance,
            size,
            sync,
            head,
            tail: start,
            zeroed,
            buffer: AlignedBuffer::default(),
        })
    }

    /// Position of the next batch.
    pub fn head(&self) -> LogPosition {
        self.head
    }

    /// Bytes of the ring.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Length of the largest acceptable record.
    pub fn record_len_max(&self) -> u64 {
        record_len_max(self.size)
    }

    /// Releases the log before `tail`; an earlier position than the last one changes nothing.
    pub fn trim(&mut self, tail: LogPosition) {
        if tail.position > self.tail.position {
            self.tail = tail;
        }
    }

    /// Reads again everything that a crash would replay; returns the first transaction of the batch that
    /// would not be replayed, if there is one.
    pub fn check(&self) -> Result<Option<u64>, FilesError> {
        let file = File::open(&self.path).map_err(FilesError::at(&self.path))?;
        let ring = Ring { file, path: &self.path, size: self.size, instance: self.instance };
        let mut at = self.tail;
        while at.sequence < self.head.sequence {
            match ring.find_batch(at) {
                Ok(Some(batch)) => at = batch.next,
                Ok(None) | Err(_) => return Ok(Some(at.sequence)),
            }
        }
        Ok(None)
    }

    /// True if a batch of such records fits now.
    pub fn has_space(&self, records_len: usize) -> bool {
        let (start, length) = self.place(records_len);
        start + length - self.tail.position <= self.size
    }

    /// Writes a batch, which must fit, durably.
    pub fn append(&mut self, records: &[Encoded]) -> io::Result<()> {
        let records_len = records.iter().map(Encoded::len).sum();
        let (start, length) = self.place(records_len);
        self.zero_ahead(start % self.size + length)?;
        let out = self.buffer.start(length as usize);
        out.resize(out.len() + BATCH_HEADER_LEN, 0);
        records.iter().for_each(|record| record.write(out));
        let previous = self.head.previous;
        let bytes = self.buffer.finish(length as usize);
        let (header, rest) = bytes.split_at_mut(BATCH_HEADER_LEN);
        let checksum = {
            let mut w = Writer::with_capacity(BATCH_HEADER_LEN);
            w.raw(MAGIC);
            w.raw(&self.instance);
            w.u64(self.head.sequence);
            w.count(records.len());
            w.count(records_len);
            w.u32(previous);
            let checksum = batch_checksum(w.as_slice(), &rest[..records_len]);
            w.u32(checksum);
            header.copy_from_slice(w.as_slice());
            checksum
        };
        write_at(&self.file, bytes, RING_START + start % self.size, self.sync)?;
        self.buffer.shrink();
        self.head = LogPosition {
            position: start + length,
            sequence: self.head.sequence + records.len() as u64,
            previous: checksum,
        };
        Ok(())
    }

    /// Offset and length in the ring of a batch written now.
    fn place(&self, records_len: usize) -> (u64, u64) {
        let length = batch_len(records_len);
        (skip_end(self.head.position, length, self.size), length)
    }

    fn zero_ahead(&mut self, end: u64) -> io::Result<()> {
        while self.zeroed < self.size && self.zeroed < end {
            let length = ZERO_STEP.min(self.size - self.zeroed) as usize;
            self.buffer.start(length);
            let zeros = self.buffer.finish(length);
            write_at(&self.file, zeros, RING_START + self.zeroed, false)?;
            self.zeroed += length as u64;
        }
        Ok(())
    }

    /// Path of the file, for errors.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

struct Batch {
    transactions: u32,
    records: Bytes,
    next: LogPosition,
}

/// The log's ring during replay.
struct Ring<'a> {
    file: File,
    path: &'a Path,
    size: u64,
    instance: [u8; 16],
}

/// Header of a batch.
struct Header {
    sequence: u64,
    transactions: u32,
    records_len: usize,
    previous: u32,
    checksum: u32,
}

impl Ring<'_> {
    /// The batch that continues the log at `head`: in place or, if it did not fit there, at the ring's start.
    /// An error if one of the two places cannot be read.
    fn find_batch(&self, head: LogPosition) -> Result<Option<Batch>, FilesError> {
        let rounded = head.position.next_multiple_of(self.size);
        for start in [head.position, rounded] {
            let follows = |header: &Header| {
                header.sequence == head.sequence && header.previous == head.previous
            };
            let found = self.read_batch(start, follows).map_err(|error| {
                let (path, missing) = (self.path.to_owned(), head.sequence);
                FilesError::LogUnreadable { path, missing, error }
            })?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The sequence of an intact batch that was written after one that is missing at `head`. It begins at
    /// most the maximum batch length behind `head`.
    fn find_later(&self, head: LogPosition) -> Option<u64> {
        let until =
            head.position + BLOCK + batch_len(record_len_max(self.size) as usize) + self.size / 3;
        let mut step = vec![0; SEARCH_STEP as usize];
        let mut at = head.position;
        while at < until.min(head.position + self.size) {
            let place = at % self.size;
            let length = SEARCH_STEP.min(self.size - place) as usize;
            // Unreadable parts are skipped.
            let is_read = self.file.read_exact_at(&mut step[..length], RING_START + place).is_ok();
            for (index, block) in step[..length].chunks(BLOCK as usize).enumerate() {
                if !is_read || self.decode(block).is_none_or(|it| it.sequence <= head.sequence) {
                    continue;
                }
                let start = at + index as u64 * BLOCK;
                let is_later = |header: &Header| header.sequence > head.sequence;
                if let Ok(Some(batch)) = self.read_batch(start, is_later) {
                    return Some(batch.next.sequence - u64::from(batch.transactions));
                }
            }
            at += length as u64;
        }
        None
    }

    /// The intact batch at a position, if it is the wanted one.
    fn read_batch(
        &self,
        start: u64,
        is_wanted: impl Fn(&Header) -> bool,
    ) -> io::Result<Option<Batch>> {
        let place = start % self.size;
        let mut raw = [0; BATCH_HEADER_LEN];
        self.read(&mut raw, place)?;
        let Some(header) = self.decode(&raw).filter(is_wanted) else { return Ok(None) };
        let Header { sequence, transactions, records_len, checksum, .. } = header;
        if place + batch_len(records_len) > self.size {
            return Ok(None);
        }
        let mut records = vec![0; records_len];
        self.read(&mut records, place + BATCH_HEADER_LEN as u64)?;
        if batch_checksum(&raw[..BATCH_HEADER_LEN - 4], &records) != checksum {
            return Ok(None);
        }
        let next = LogPosition {
            position: start + batch_len(records_len),
            sequence: sequence + u64::from(transactions),
            previous: checksum,
        };
        Ok(Some(Batch { transactions, records: records.into(), next }))
    }

    /// Reads; a failure is retried once.
    fn read(&self, buffer: &mut [u8], place: u64) -> io::Result<()> {
        let mut attempts = 1;
        loop {
            match self.file.read_exact_at(buffer, RING_START + place) {
                Err(error) if attempts < READ_ATTEMPTS_MAX => {
                    tracing::warn!(%error, place, "reading the log failed and is done again");
                    attempts += 1;
                }
                result => return result,
            }
        }
    }

    fn decode(&self, raw: &[u8]) -> Option<Header> {
        let mut r = Reader::new(raw);
        let magic: [u8; 8] = r.array("magic").ok()?;
        let found: [u8; 16] = r.array("instance").ok()?;
        let header = Header {
            sequence: r.u64("sequence").ok()?,
            transactions: r.u32("transactions").ok()?,
            records_len: r.u32("length").ok()? as usize,
            previous: r.u32("previous").ok()?,
            checksum: r.u32("checksum").ok()?,
        };
        (magic == *MAGIC && found == self.instance).then_some(header)
    }
}

/// Length of the largest acceptable record in a ring of that size: two of them fit, wherever the ring's end
/// falls.
fn record_len_max(size: u64) -> u64 {
    (size / 3).min(u64::from(u32::MAX)) - BLOCK
}

fn batch_len(records_len: usize) -> u64 {
    (BATCH_HEADER_LEN as u64 + records_len as u64).next_multiple_of(BLOCK)
}

fn batch_checksum(header: &[u8], records: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(header);
    digest.update(records);
    digest.finalize() as u32
}

/// The first position from `position` on at which `length` bytes are contiguous.
fn skip_end(position: u64, length: u64, size: u64) -> u64 {
    let left = size - position % size;
    if length <= left { position } else { position + left }
}

/// Opens with O_DIRECT where the file system allows it.
fn open_direct(path: &Path) -> io::Result<File> {
    let open =
        |flags| rustix::fs::open(path, flags | OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let fd = open(OFlags::DIRECT).or_else(|_| open(OFlags::empty()))?;
    Ok(File::from(fd))
}

fn write_at(file: &File, mut bytes: &[u8], mut offset: u64, sync: bool) -> io::Result<()> {
    let flags = if sync { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
    while !bytes.is_empty() {
        match pwritev2(file, &[IoSlice::new(bytes)], offset, flags) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                bytes = &bytes[count..];
                offset += count as u64;
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// A buffer whose content is block-aligned for direct I/O.
#[derive(Debug, Default)]
struct AlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
}

impl AlignedBuffer {
    /// An empty buffer with room for `length` bytes, to append to.
    fn start(&mut self, length: usize) -> &mut Vec<u8> {
        self.bytes.clear();
        self.bytes.reserve(length + BLOCK as usize);
        self.start = self.bytes.as_ptr().align_offset(BLOCK as usize);
        self.bytes.resize(self.start, 0);
        &mut self.bytes
    }

    /// The appended bytes, padded with zeros to `length`.
    fn finish(&mut self, length: usize) -> &mut [u8] {
        self.bytes.resize(self.start + length, 0);
        &mut self.bytes[self.start..]
    }

    fn shrink(&mut self) {
        if self.bytes.capacity() > BUFFER_KEPT_MAX + BLOCK as usize {
            self.bytes = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests;
