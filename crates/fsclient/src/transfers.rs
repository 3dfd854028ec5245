//! Reads and writes of objects on their way to the OSDs.

use crate::call::{Call, CallId};
use crate::inode::Waiting;
use bytes::Bytes;
use engine::Time;
use rados::{Client, OpId, Operation, Reply};
use std::collections::{BTreeMap, VecDeque};
use types::Errno;

/// A read that ends at a size which the server has told, and which may grow before the bytes are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) offset: u64,
    /// Bytes that the call asks for.
    pub(crate) wanted: u64,
    pub(crate) size: u64,
}

impl Cut {
    /// The call goes on with a look at the size: the bytes are its answer if that has not changed.
    pub(crate) fn checked(self, id: CallId, ino: u64, data: Bytes) -> Waiting {
        let Cut { offset, wanted: length, size } = self;
        let call = Call::Read { ino, offset, length };
        Waiting { read: Some((size, data)), ..Waiting::new(id, call) }
    }
}

/// A read or a write of one object.
#[derive(Debug)]
pub(crate) enum Transfer {
    /// `number` is its place among the writes to the inode.
    Write {
        ino: u64,
        call: Option<CallId>,
        number: u64,
    },
    Read {
        ino: u64,
        call: CallId,
        length: u64,
        cut: Option<Cut>,
    },
    /// A part of a read of a snapshot: where its bytes stand in the answer, and how many they are.
    Part {
        call: CallId,
        at: usize,
        length: usize,
    },
}

impl Transfer {
    /// The inode of today that it is about.
    pub(crate) fn ino(&self) -> Option<u64> {
        match self {
            Transfer::Write { ino, .. } | Transfer::Read { ino, .. } => Some(*ino),
            Transfer::Part { .. } => None,
        }
    }

    fn call(self) -> Option<CallId> {
        match self {
            Transfer::Write { call, .. } => call,
            Transfer::Read { call, .. } => Some(call),
            // Its call goes on without the metadata server.
            Transfer::Part { .. } => None,
        }
    }
}

/// The client of the OSDs with all transfers.
#[derive(Debug)]
pub(crate) struct Transfers {
    pub(crate) cluster: Client,
    sent: BTreeMap<OpId, Transfer>,
    /// Transfers that wait for an OSD map.
    held: VecDeque<(Operation, Transfer)>,
    /// The OSD map that the client needs before it uses its capabilities.
    barrier: u32,
    fetch: Option<OpId>,
}

impl Transfers {
    pub(crate) fn new(cluster: Client) -> Self {
        Transfers { cluster, sent: BTreeMap::new(), held: VecDeque::new(), barrier: 0, fetch: None }
    }

    /// Nothing is sent before the client has this map.
    pub(crate) fn raise_barrier(&mut self, epoch: u32) {
        self.barrier = self.barrier.max(epoch);
    }

    pub(crate) fn barrier(&self) -> u32 {
        self.barrier
    }

    pub(crate) fn submit(&mut self, now: Time, operation: Operation, transfer: Transfer) {
        self.held.push_back((operation, transfer));
        self.send_held(now);
    }

    fn send_held(&mut self, now: Time) {
        let epoch = self.cluster.osd_map().map_or(0, |map| map.epoch.0);
        if epoch >= self.barrier {
            while let Some((operation, transfer)) = self.held.pop_front() {
                let id = self.cluster.submit(now, operation);
                self.sent.insert(id, transfer);
            }
        } else if !self.held.is_empty() && self.fetch.is_none() {
            self.fetch = Some(self.cluster.fetch_map());
        }
    }

    /// The next transfer that has ended, with the bytes that were read.
    pub(crate) fn poll(&mut self, now: Time) -> Option<(Transfer, Result<Bytes, Errno>)> {
        while let Some((operation, answer)) = self.cluster.poll_completion() {
            if self.fetch == Some(operation) {
                self.fetch = None;
            } else if let Some(transfer) = self.sent.remove(&operation) {
                let reply = answer.and_then(Reply::into_operation);
                let output = |reply: rados::OperationReply| {
                    reply.ops.first().map(|op| op.output.clone()).unwrap_or_default()
                };
                return Some((transfer, reply.map(output)));
            }
        }
        self.send_held(now);
        None
    }

    /// Forgets the transfers of a file, or of all; returns the calls that they were for.
    pub(crate) fn forget(&mut self, ino: Option<u64>) -> Vec<CallId> {
        let is_part = |transfer: &Transfer| matches!(transfer, Transfer::Part { .. });
        let is_of =
            |transfer: &Transfer| !is_part(transfer) && (ino.is_none() || transfer.ino() == ino);
        let sent = std::mem::take(&mut self.sent).into_iter();
        let (gone, kept) = sent.partition::<BTreeMap<_, _>, _>(|(_, transfer)| is_of(transfer));
        self.sent = kept;
        let held = std::mem::take(&mut self.held).into_iter();
        let (dropped, kept) = held.partition::<Vec<_>, _>(|(_, transfer)| is_of(transfer));
        self.held = kept.into();
        let all = gone.into_values().chain(dropped.into_iter().map(|(_, transfer)| transfer));
        all.filter_map(Transfer::call).collect()
    }
}
