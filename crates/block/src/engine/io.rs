//! Operations on their way to the devices, and what each is for.

use crate::device::{Device, Io, IoId};
use bytes::Bytes;
use std::collections::VecDeque;
use stdx::FastMap;

#[derive(Debug)]
pub(crate) struct IoQueue<U> {
    next: u64,
    outputs: VecDeque<Io>,
    uses: FastMap<u64, U>,
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
        let id = self.begin(what);
        self.outputs.push_back(Io::Read { id, device, block, blocks });
    }

    pub fn write(&mut self, what: U, device: Device, block: u64, data: Vec<Bytes>, durable: bool) {
        let id = self.begin(what);
        self.outputs.push_back(Io::Write { id, device, block, data, durable });
    }

    pub fn flush(&mut self, what: U, device: Device) {
        let id = self.begin(what);
        self.outputs.push_back(Io::Flush { id, device });
    }

    pub fn discard(&mut self, what: U, device: Device, block: u64, blocks: u64) {
        let id = self.begin(what);
        self.outputs.push_back(Io::Discard { id, device, block, blocks });
    }

    pub fn poll(&mut self) -> Option<Io> {
        self.outputs.pop_front()
    }

    /// What the operation was for; nothing if it is not one of ours.
    pub fn finish(&mut self, id: IoId) -> Option<U> {
        self.uses.remove(&id.0)
    }

    pub fn in_flight(&self) -> usize {
        self.uses.len()
    }

    fn begin(&mut self, what: U) -> IoId {
        let id = IoId(self.next);
        self.next += 1;
        self.uses.insert(id.0, what);
        id
    }
}
