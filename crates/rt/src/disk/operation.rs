//! One disk operation, from its request to its completion.

use super::pool::{BufferPool, PooledBuffer};
use super::{DiskFault, DiskRequest, DiskResult, FileId};
use bytes::Bytes;
use io_uring::types::{Fixed, FsyncFlags};
use io_uring::{opcode, squeue};
use std::io;
use std::path::Path;
use stdx::DIRECT_ALIGNMENT;

/// Pieces of a vectored write at most; longer ones take several.
pub(super) const PIECES_MAX: usize = libc::UIO_MAXIOV as usize;
/// Retries without progress after transient errors.
const RETRIES_MAX: u8 = 16;
/// Bytes that the kernel transfers at once at most, in whole blocks.
const TRANSFER_MAX: usize = 0x7fff_f000;
const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;

/// The vector of what is still to be written, in memory that the kernel may read until the end.
#[derive(Default)]
pub(crate) struct Vector {
    parts: Vec<libc::iovec>,
    /// The first piece not completely written.
    next: usize,
}

/// Result of a completion.
pub(crate) enum Progress {
    /// The rest is to be submitted.
    More(squeue::Entry),
    Done {
        token: u64,
        result: DiskResult,
    },
}

pub(crate) struct Operation {
    file: FileId,
    token: u64,
    kind: Kind,
    offset: u64,
    length: u64,
    /// Bytes done, in whole blocks.
    done: u64,
    retries: u8,
}

enum Kind {
    Read {
        buffer: PooledBuffer,
    },
    Write {
        /// The memory that the vector points to.
        _pieces: Vec<Bytes>,
        /// The write is done only when durable: the kernel flushes behind it, which saves two turns and, for
        /// files, a kernel thread that waits for a flush.
        durable: bool,
    },
    Flush,
    Discard,
}

impl Operation {
    /// An operation of which nothing is done yet; fills the vector of a write.
    pub fn new(
        file: FileId,
        token: u64,
        request: DiskRequest,
        pool: &mut BufferPool,
        vector: &mut Vector,
    ) -> Self {
        let (kind, offset, length) = match request {
            DiskRequest::Read { offset, length } => {
                (Kind::Read { buffer: pool.take(length) }, offset, length as u64)
            }
            DiskRequest::Write { offset, pieces, durable } => {
                let length = vector.list(&pieces);
                (Kind::Write { _pieces: pieces, durable }, offset, length)
            }
            DiskRequest::Flush => (Kind::Flush, 0, 0),
            DiskRequest::Discard { offset, length } => (Kind::Discard, offset, length),
        };
        debug_assert!(offset.is_multiple_of(DIRECT_ALIGNMENT as u64), "offset {offset}");
        Operation { file, token, kind, offset, length, done: 0, retries: 0 }
    }

    /// The file of the operation.
    pub fn file(&self) -> FileId {
        self.file
    }

    /// The submission entry for the rest of the operation.
    pub fn entry(&mut self, vector: &Vector) -> squeue::Entry {
        let file = Fixed(self.file.0);
        let offset = self.offset + self.done;
        match &mut self.kind {
            Kind::Read { buffer } => {
                let left = buffer.len() - self.done as usize;
                let pointer = buffer.pointer_at(self.done as usize);
                let length = left.min(TRANSFER_MAX) as u32;
                opcode::Read::new(file, pointer, length).offset(offset).build()
            }
            Kind::Write { durable, .. } => vector.entry(file, offset, *durable),
            Kind::Flush => opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build(),
            Kind::Discard => {
                opcode::Fallocate::new(file, self.length).offset(offset).mode(PUNCH).build()
            }
        }
    }

    /// Handles the kernel's result.
    pub fn advance(&mut self, result: i32, vector: &mut Vector, path: &Path) -> Progress {
        let moves_data = matches!(self.kind, Kind::Read { .. } | Kind::Write { .. });
        match result {
            0.. if !moves_data => self.succeed(),
            0.. => self.moved(result as usize, vector, path),
            _ => match -result {
                libc::EINTR | libc::EAGAIN => self.again(-result, vector, path),
                errno => self.fail(io::Error::from_raw_os_error(errno), path),
            },
        }
    }

    fn moved(&mut self, length: usize, vector: &mut Vector, path: &Path) -> Progress {
        // A write that ended within a block is repeated from the start of that block.
        let whole = length - length % DIRECT_ALIGNMENT;
        self.done += whole as u64;
        if self.done == self.length {
            return self.succeed();
        }
        if length == 0 {
            let kind = match self.kind {
                Kind::Read { .. } => io::ErrorKind::UnexpectedEof,
                _ => io::ErrorKind::WriteZero,
            };
            return self.fail(kind.into(), path);
        }
        if whole == 0 {
            return self.again(libc::EIO, vector, path);
        }
        vector.advance(whole);
        Progress::More(self.entry(vector))
    }

    /// Retries; fails with `errno` when retries are exhausted.
    fn again(&mut self, errno: i32, vector: &Vector, path: &Path) -> Progress {
        if self.retries == RETRIES_MAX {
            return self.fail(io::Error::from_raw_os_error(errno), path);
        }
        self.retries += 1;
        Progress::More(self.entry(vector))
    }

    fn succeed(&mut self) -> Progress {
        let bytes = match std::mem::replace(&mut self.kind, Kind::Flush) {
            Kind::Read { buffer } => buffer.into(),
            _ => Bytes::new(),
        };
        Progress::Done { token: self.token, result: Ok(bytes) }
    }

    fn fail(&self, error: io::Error, path: &Path) -> Progress {
        let what = match self.kind {
            Kind::Read { .. } => "read",
            Kind::Write { .. } => "write",
            Kind::Flush => "flush",
            Kind::Discard => "discard",
        };
        let (path, offset, length) = (path.to_owned(), self.offset, self.length);
        let fault = DiskFault { what, path, offset, length, error };
        Progress::Done { token: self.token, result: Err(fault) }
    }
}

impl Vector {
    /// Fills the vector, joining pieces that are adjacent in memory; returns their length.
    fn list(&mut self, pieces: &[Bytes]) -> u64 {
        self.parts.clear();
        self.next = 0;
        let mut length = 0;
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            debug_assert!(piece.as_ptr().addr().is_multiple_of(DIRECT_ALIGNMENT), "aligned piece");
            debug_assert!(piece.len().is_multiple_of(DIRECT_ALIGNMENT), "piece of whole blocks");
            length += piece.len() as u64;
            let start = piece.as_ptr().cast_mut().cast::<libc::c_void>();
            match self.parts.last_mut() {
                Some(last) if last.iov_base.wrapping_byte_add(last.iov_len) == start => {
                    last.iov_len += piece.len();
                }
                _ => self.parts.push(libc::iovec { iov_base: start, iov_len: piece.len() }),
            }
        }
        length
    }

    fn entry(&self, file: Fixed, offset: u64, durable: bool) -> squeue::Entry {
        let flags = if durable { libc::RWF_DSYNC } else { 0 };
        match &self.parts[self.next..] {
            [part] if part.iov_len <= TRANSFER_MAX => {
                let length = part.iov_len as u32;
                let write = opcode::Write::new(file, part.iov_base.cast(), length);
                write.offset(offset).rw_flags(flags).build()
            }
            parts => {
                let count = parts.len().min(PIECES_MAX) as u32;
                let write = opcode::Writev::new(file, parts.as_ptr(), count);
                write.offset(offset).rw_flags(flags).build()
            }
        }
    }

    /// Drops the first `length` bytes, which were written.
    fn advance(&mut self, mut length: usize) {
        while length > 0 && self.next < self.parts.len() {
            let part = &mut self.parts[self.next];
            let taken = length.min(part.iov_len);
            part.iov_base = part.iov_base.wrapping_byte_add(taken);
            part.iov_len -= taken;
            length -= taken;
            self.next += usize::from(part.iov_len == 0);
        }
    }
}

#[cfg(test)]
mod tests;
