//! Operations on their way to the devices, and what each is for.
//!
//! A read that fails is made again before it counts as failed: a path that was lost for a moment, or a
//! sector that a disk reads at the second attempt, is no damage.

use crate::device::{Device, Io, IoDone, IoId};
use bytes::Bytes;
use std::collections::VecDeque;
use stdx::FastMap;

/// Attempts at reading something, whether the device fails or what it gives has another checksum.
pub(crate) const READ_ATTEMPTS_MAX: u32 = 3;

#[derive(Debug)]
pub(crate) struct IoQueue<U> {
    next: u64,
    outputs: VecDeque<Io>,
    uses: FastMap<u64, Pending<U>>,
}

#[derive(Debug)]
struct Pending<U> {
    what: U,
    /// Of a read: how to make it again.
    read: Option<Read>,
}

#[derive(Debug, Clone, Copy)]
struct Read {
    device: Device,
    block: u64,
    blocks: u32,
    /// Attempts before this one.
    failures: u32,
}

impl<U> IoQueue<U> {
    /// Ids begin at `next`.
    pub fn new(next: u64) -> Self {
        IoQueue { next, outputs: VecDeque::new(), uses: FastMap::default() }
    }

    /// The first id that was not given out.
    pub fn next(&self) -> u64 {
        self.next
    }

    pub fn read(&mut self, what: U, device: Device, block: u64, blocks: u32) {
        self.begin_read(what, Read { device, block, blocks, failures: 0 });
    }

    fn begin_read(&mut self, what: U, read: Read) {
        let Read { device, block, blocks, .. } = read;
        let id = self.begin(what, Some(read));
        self.outputs.push_back(Io::Read { id, device, block, blocks });
    }

    pub fn write(&mut self, what: U, device: Device, block: u64, data: Vec<Bytes>, durable: bool) {
        let id = self.begin(what, None);
        self.outputs.push_back(Io::Write { id, device, block, data, durable });
    }

    pub fn flush(&mut self, what: U, device: Device) {
        let id = self.begin(what, None);
        self.outputs.push_back(Io::Flush { id, device });
    }

    pub fn discard(&mut self, what: U, device: Device, block: u64, blocks: u64) {
        let id = self.begin(what, None);
        self.outputs.push_back(Io::Discard { id, device, block, blocks });
    }

    pub fn poll(&mut self) -> Option<Io> {
        self.outputs.pop_front()
    }

    /// What the operation was for; nothing if it is not one of ours, or a failed read that is made again.
    pub fn finish(&mut self, done: &IoDone) -> Option<U> {
        let Pending { what, read } = self.uses.remove(&done.id.0)?;
        match (read, &done.result) {
            (Some(read), Err(error)) if read.failures + 1 < READ_ATTEMPTS_MAX => {
                let Read { device, block, blocks, failures } = read;
                tracing::warn!(?device, block, blocks, %error, "a read failed and is made again");
                self.begin_read(what, Read { failures: failures + 1, ..read });
                None
            }
            _ => Some(what),
        }
    }

    pub fn in_flight(&self) -> usize {
        self.uses.len()
    }

    fn begin(&mut self, what: U, read: Option<Read>) -> IoId {
        let id = IoId(self.next);
        self.next += 1;
        self.uses.insert(id.0, Pending { what, read });
        id
    }
}
