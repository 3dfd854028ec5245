//! Files and block devices, read, written and flushed through the ring.
//!
//! [`file`] opens and examines them, [`operation`] is one request from submission to its end, [`pool`]
//! has the memory that reads go to, and [`Disks`] ties them to a ring.
//!
//! Invariants:
//! * What the kernel reads or writes (buffers, pieces, the vector that lists them) belongs to a slot
//!   and stays where it is until the operation's last completion.
//! * An operation is answered once, when all of it is done: what the kernel did in part is continued.

mod error;
mod file;
mod operation;
mod pool;
mod probe;
mod request;

pub use error::{DiskError, DiskFault, DiskReason};
pub use file::DiskFile;
pub use probe::{DiskInfo, WriteCache};
pub use request::{DiskRequest, DiskResult, FileId};

use io_uring::{Submitter, squeue};
pub(crate) use operation::Progress;
use operation::{Operation, Vector};
use pool::BufferPool;
use std::io;
use std::os::fd::AsRawFd;

/// Files of one reactor at most: two for each OSD of a process.
const FILES_MAX: u32 = 256;

/// An operation's slot; the vector is reused by the next one.
#[derive(Default)]
struct Slot {
    operation: Option<Operation>,
    vector: Vector,
}

/// The files of one ring and the operations in flight.
pub(crate) struct Disks {
    files: Vec<DiskFile>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    pool: BufferPool,
}

impl Disks {
    /// Registers a table of files with the ring, which saves the lookup of descriptors.
    pub fn register(submitter: &Submitter<'_>) -> io::Result<Self> {
        submitter.register_files_sparse(FILES_MAX)?;
        let pool = BufferPool::default();
        Ok(Disks { files: Vec::new(), slots: Vec::new(), free: Vec::new(), pool })
    }

    /// Adds an open file to the table; fails if the table is full.
    pub fn add(&mut self, submitter: &Submitter<'_>, file: DiskFile) -> io::Result<FileId> {
        let id = self.files.len() as u32;
        if id == FILES_MAX {
            return Err(io::Error::other(format!("one thread serves at most {FILES_MAX} files")));
        }
        submitter.register_files_update(id, &[file.fd.as_raw_fd()])?;
        self.files.push(file);
        Ok(FileId(id))
    }

    /// An open file.
    pub fn file(&self, id: FileId) -> &DiskFile {
        &self.files[id.0 as usize]
    }

    /// Begins an operation; returns its slot and the entry to submit.
    pub fn begin(
        &mut self,
        file: FileId,
        token: u64,
        request: DiskRequest,
    ) -> (u32, squeue::Entry) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let Slot { operation, vector } = &mut self.slots[slot as usize];
        let new = Operation::new(file, token, request, &mut self.pool, vector);
        let entry = operation.insert(new).entry(vector);
        (slot, entry)
    }

    /// Handles a completion: either there is more to submit, or the operation is done.
    pub fn complete(&mut self, slot: u32, result: i32) -> Progress {
        let Slot { operation, vector } = &mut self.slots[slot as usize];
        let operation = operation.as_mut().expect("completes once");
        let path = self.files[operation.file().0 as usize].path();
        let progress = operation.advance(result, vector, path);
        if let Progress::Done { .. } = progress {
            self.end(slot);
        }
        progress
    }

    /// Frees the slot; no part of the operation is in flight any more.
    pub fn end(&mut self, slot: u32) {
        self.slots[slot as usize].operation = None;
        self.free.push(slot);
    }

    /// Leaks the memory of operations that the kernel has not ended, since it may still write to it.
    pub fn leak_unfinished(&mut self) {
        let slots = std::mem::take(&mut self.slots);
        slots.into_iter().filter(|slot| slot.operation.is_some()).for_each(std::mem::forget);
    }
}

#[cfg(test)]
mod tests;
