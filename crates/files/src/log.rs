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

use crate::FilesError;
use crate::media::FILE_MODE;
use crate::record::{Encoded, Record};
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Writer};
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate};
use rustix::io::{ReadWriteFlags, pwritev2};
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const BLOCK: u64 = 4096;
const RING_START: u64 = BLOCK;
const BATCH_HEADER_LEN: usize = 48;
const MAGIC: &[u8; 8] = b"sepiolog";
const FORMAT: u32 = 1;
/// Places that were never written are zeroed ahead in steps of this, for a flush after a write into
/// unwritten space has to flush the file system's journal too.
const ZERO_STEP: u64 = 1 << 20;
/// A batch buffer larger than this is given back after use.
const BUFFER_KEPT_MAX: usize = 1 << 20;
pub const LOG_SIZE_MIN: u64 = 1 << 20;

/// Where a batch begins and what must be found there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogPosition {
    pub position: u64,
    pub sequence: u64,
    /// The checksum of the batch before.
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

#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: File,
    instance: [u8; 16],
    size: u64,
    sync: bool,
    /// Where the next batch goes.
    head: LogPosition,
    /// Up to here the log is no longer needed.
    tail: u64,
    /// Below this place in the ring everything was written at least once.
    zeroed: u64,
    buffer: AlignedBuffer,
}

impl Log {
    /// Makes a new log of about `size` bytes, replacing a file of that name.
    pub fn create(
        path: &Path,
        instance: [u8; 16],
        size: u64,
        sync: bool,
    ) -> Result<(), FilesError> {
        let ring = (size.max(LOG_SIZE_MIN) - RING_START) / BLOCK * BLOCK;
        let mut options = File::options();
        let options = options.write(true).create(true).truncate(true).mode(FILE_MODE);
        let file = options.open(path).map_err(FilesError::at(path))?;
        if fallocate(&file, FallocateFlags::empty(), 0, RING_START + ring).is_err() {
            // Not everywhere; then space is taken as the log is written.
            file.set_len(RING_START + ring).map_err(FilesError::at(path))?;
        }
        let mut w = Writer::new();
        w.raw(MAGIC);
        w.u32(FORMAT);
        w.raw(&instance);
        w.u64(ring);
        w.u32(crc_fast::crc32_iscsi(w.as_slice()));
        file.write_all_at(w.as_slice(), 0).map_err(FilesError::at(path))?;
        if sync {
            file.sync_all().map_err(FilesError::at(path))?;
        }
        Ok(())
    }

    /// Opens the log and hands every transaction from `start` on to `replay`, in order.
    pub fn open(
        path: &Path,
        instance: [u8; 16],
        start: LogPosition,
        sync: bool,
        mut replay: impl FnMut(Record) -> Result<(), FilesError>,
    ) -> Result<Log, FilesError> {
        let reader = File::open(path).map_err(FilesError::at(path))?;
        let size = read_header(&reader, path, instance)?;
        let mut head = start;
        while let Some(batch) = find_batch(&reader, size, instance, head) {
            let mut r = Reader::new(&batch.records);
            for _ in 0..batch.transactions {
                replay(Record::decode(&mut r, &batch.records)?)?;
            }
            head = batch.next;
        }
        let zeroed = if head.position >= size { size } else { head.position };
        Ok(Log {
            file: open_direct(path).map_err(FilesError::at(path))?,
            path: path.to_owned(),
            instance,
            size,
            sync,
            head,
            tail: start.position,
            zeroed,
            buffer: AlignedBuffer::default(),
        })
    }

    pub fn head(&self) -> LogPosition {
        self.head
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// The largest record that is accepted: two of them fit, wherever the ring's end falls.
    pub fn record_len_max(&self) -> u64 {
        (self.size / 3).min(u64::from(u32::MAX)) - BLOCK
    }

    pub fn trim(&mut self, tail: u64) {
        self.tail = self.tail.max(tail);
    }

    /// Whether a batch of such records fits now.
    pub fn has_room(&self, records_len: usize) -> bool {
        let (start, length) = self.place(records_len);
        start + length - self.tail <= self.size
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

    /// Position and length in the ring of a batch written now.
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

    pub fn path(&self) -> &Path {
        &self.path
    }
}

struct Batch {
    transactions: u32,
    records: Bytes,
    next: LogPosition,
}

/// The batch that continues the log at `head`: in place or, if it did not fit there, at the ring's start.
fn find_batch(file: &File, size: u64, instance: [u8; 16], head: LogPosition) -> Option<Batch> {
    let rounded = head.position.next_multiple_of(size);
    let places = [head.position, rounded];
    places.into_iter().find_map(|start| read_batch(file, size, instance, head, start))
}

fn read_batch(
    file: &File,
    size: u64,
    instance: [u8; 16],
    head: LogPosition,
    start: u64,
) -> Option<Batch> {
    let place = start % size;
    let mut header = [0; BATCH_HEADER_LEN];
    file.read_exact_at(&mut header, RING_START + place).ok()?;
    let mut r = Reader::new(&header);
    let magic: [u8; 8] = r.array("magic").ok()?;
    let found: [u8; 16] = r.array("instance").ok()?;
    let sequence = r.u64("sequence").ok()?;
    let transactions = r.u32("transactions").ok()?;
    let records_len = r.u32("length").ok()? as usize;
    let previous = r.u32("previous").ok()?;
    let checksum = r.u32("checksum").ok()?;
    let expected = magic == *MAGIC && found == instance;
    let follows = sequence == head.sequence && previous == head.previous;
    if !expected || !follows || place + batch_len(records_len) > size {
        return None;
    }
    let mut records = vec![0; records_len];
    file.read_exact_at(&mut records, RING_START + place + BATCH_HEADER_LEN as u64).ok()?;
    if batch_checksum(&header[..BATCH_HEADER_LEN - 4], &records) != checksum {
        return None;
    }
    let next = LogPosition {
        position: start + batch_len(records_len),
        sequence: sequence + u64::from(transactions),
        previous: checksum,
    };
    Some(Batch { transactions, records: records.into(), next })
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

/// The first position from `position` on at which `length` bytes lie in one piece.
fn skip_end(position: u64, length: u64, size: u64) -> u64 {
    let left = size - position % size;
    if length <= left { position } else { position + left }
}

fn read_header(file: &File, path: &Path, instance: [u8; 16]) -> Result<u64, FilesError> {
    let mut raw = [0; 40];
    file.read_exact_at(&mut raw, 0).map_err(FilesError::at(path))?;
    let not_ours = || FilesError::WrongLog { path: path.to_owned() };
    let mut r = Reader::new(&raw);
    let magic: [u8; 8] = r.array("magic")?;
    let format = r.u32("format")?;
    let found: [u8; 16] = r.array("instance")?;
    let ring = r.u64("ring")?;
    let intact = r.u32("checksum")? == crc_fast::crc32_iscsi(&raw[..36]);
    let plausible = ring > 0 && ring.is_multiple_of(BLOCK);
    if magic != *MAGIC || format != FORMAT || found != instance || !intact || !plausible {
        return Err(not_ours());
    }
    Ok(ring)
}

/// Past the page cache where the file system allows it.
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

/// A buffer whose content starts on a block boundary, as direct I/O demands.
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

    /// What was appended, filled up with zeros to `length`.
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
