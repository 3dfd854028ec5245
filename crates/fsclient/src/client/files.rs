//! Calls on open files, their data, and the capabilities that allow them.

use super::{FsClient, quotas, snapshots};
use crate::call::{Answer, Call, CallId};
use crate::inode::{Buffered, Inode, Step, Syncing, Waiting, place};
use crate::requests::{self, Purpose};
use crate::transfers::{Cut, Transfer};
use bytes::{Bytes, BytesMut};
use engine::Daemon;
use rados::Operation;
use types::Errno;
use types::features::SUPPORTED;
use wire::{
    CapBits, CapItem, CapOp, ClientCapRelease, ClientCaps, MessageBody, OsdOp, client_caps_flags,
};

/// Bytes of a file that are buffered at most.
const BUFFER_MAX: usize = 64 << 10;
/// A writer asks for so many bytes beyond the end of its write.
const AHEAD: u64 = 4 << 20;

impl FsClient {
    /// Ends a turn of the host.
    pub(super) fn end_turn(&mut self) {
        let server = self.monitor.server().filter(|_| !self.leaving.is_begun());
        self.session.tend(self.now, server, &mut self.outputs);
        while let Some((transfer, answer)) = self.transfers.poll(self.now) {
            self.transferred(transfer, answer);
        }
        self.tend_syncs();
        while let Some(output) = self.transfers.cluster.poll_output() {
            self.outputs.push(output);
        }
    }

    pub(super) fn begin_on_file(&mut self, id: CallId, call: Call) {
        let ino = match call {
            Call::Write { ino, .. } | Call::Read { ino, .. } => ino,
            Call::Fsync(ino) | Call::Close(ino) => ino,
            _ => return self.fail(id, Errno::INVAL),
        };
        let Some(inode) = self.inodes.get_mut(&ino).filter(|inode| inode.opens > 0) else {
            return self.fail(id, Errno::BADF);
        };
        if matches!(call, Call::Close(_)) {
            inode.opens -= 1;
            self.complete(id, Ok(Answer::Done));
        } else {
            inode.waiting.push_back(Waiting::new(id, call));
        }
        self.tend(ino);
    }

    /// Does what can be done about an inode.
    pub(super) fn tend(&mut self, ino: u64) {
        while self.step(ino) {}
        self.end_syncing(ino);
        let is_syncing = !self.syncs.is_empty();
        if self.inodes.get(&ino).is_some_and(|inode| is_syncing || inode.must_write()) {
            self.write_buffer(ino);
        }
        snapshots::flush(self, ino);
        self.give_back(ino);
        let Some(inode) = self.inodes.get(&ino) else { return };
        if (inode.opens == 0 || is_syncing) && inode.is_dirty && inode.is_written() {
            let flags = if is_syncing { client_caps_flags::SYNC } else { 0 };
            self.tell(ino, CapOp::FLUSH, 0, flags);
        }
        let Some(inode) = self.inodes.get(&ino) else { return };
        if !inode.is_directory() && inode.is_unused() && inode.gives_back().is_empty() {
            self.release(ino);
        }
    }

    /// Does one thing for the calls that wait for an inode, in their order; false if all must wait.
    fn step(&mut self, ino: u64) -> bool {
        let Some(inode) = self.inodes.get(&ino) else { return false };
        let Some(waiting) = inode.waiting.front() else { return false };
        let id = waiting.id;
        match inode.next(waiting) {
            Step::Waits => return false,
            Step::Write => {
                if let Some(Call::Write { offset, data, .. }) = self.take_waiting(ino, id) {
                    match quotas::check_write(self, ino, offset + data.len() as u64) {
                        Ok(()) => self.write(ino, id, offset, data),
                        Err(errno) => self.fail(id, errno),
                    }
                }
            }
            Step::Read(left, told) => {
                if let Some(Call::Read { offset, length, .. }) = self.take_waiting(ino, id) {
                    let cut = told.map(|size| Cut { offset, wanted: length, size });
                    self.read(ino, id, offset, left, cut);
                }
            }
            Step::AsksSize => {
                self.waiting(ino, id).into_iter().for_each(|waiting| waiting.asks = true);
                self.ask(id, requests::size(ino), Purpose::Size(ino));
                return false;
            }
            Step::AsksRange(end) => {
                self.waiting(ino, id).into_iter().for_each(|waiting| waiting.asked_range = true);
                self.tell(ino, CapOp::UPDATE, end + AHEAD, 0);
                return false;
            }
            Step::Flushes => return self.sync(ino, id),
            Step::Ends(outcome) => {
                self.take_waiting(ino, id);
                self.complete(id, outcome);
            }
        }
        true
    }

    /// All data is on the OSDs: sends what has changed, and waits until it and the creation are durable.
    fn sync(&mut self, ino: u64, id: CallId) -> bool {
        if self.session.claimed().is_none() {
            return false;
        }
        let sent = self.tell_changes(ino);
        let request = self.requests.last_early(ino);
        let Some(inode) = self.inodes.get_mut(&ino) else { return false };
        let flush = inode.flushes.keys().next_back().copied().unwrap_or(0);
        inode.syncing.push(Syncing { id, flush, request });
        self.take_waiting(ino, id);
        if request.is_some() || (flush != 0 && !sent) {
            self.hasten_journal();
        }
        true
    }

    /// Sends what has changed, if it has, to be stored without delay.
    fn tell_changes(&mut self, ino: u64) -> bool {
        let is_dirty = self.inodes.get(&ino).is_some_and(|inode| inode.is_dirty);
        is_dirty && self.tell(ino, CapOp::FLUSH, 0, client_caps_flags::SYNC)
    }

    /// Ends each `fsync` for which everything is durable.
    fn end_syncing(&mut self, ino: u64) {
        let Some(inode) = self.inodes.get_mut(&ino) else { return };
        let requests = &self.requests;
        let all = std::mem::take(&mut inode.syncing).into_iter();
        let (done, waiting) = all.partition::<Vec<Syncing>, _>(|sync| {
            let is_durable = sync.request.is_none_or(|request| requests.is_durable(request));
            is_durable && inode.is_flushed(sync.flush)
        });
        inode.syncing = waiting;
        done.into_iter().for_each(|sync| self.complete(sync.id, Ok(Answer::Done)));
    }

    fn waiting(&mut self, ino: u64, id: CallId) -> Option<&mut Waiting> {
        self.inodes.get_mut(&ino)?.waiting.iter_mut().find(|waiting| waiting.id == id)
    }

    fn take_waiting(&mut self, ino: u64, id: CallId) -> Option<Call> {
        let waiting = &mut self.inodes.get_mut(&ino)?.waiting;
        let at = waiting.iter().position(|waiting| waiting.id == id)?;
        waiting.remove(at).map(|waiting| waiting.call)
    }

    /// The server has told the size for a read.
    pub(super) fn size_told(&mut self, id: CallId, ino: u64, size: Result<u64, Errno>) {
        match size {
            Ok(size) => {
                // Changes of this client may have been on their way to the server.
                let inode = self.inodes.get(&ino);
                let may_read =
                    inode.is_some_and(|inode| inode.usable().contains(CapBits::FILE_READ));
                let known = inode.map_or(size, |inode| inode.stat.size);
                if let Some(waiting) = self.waiting(ino, id) {
                    (waiting.asks, waiting.size) = (false, may_read.then_some(known));
                }
            }
            Err(errno) => {
                self.take_waiting(ino, id);
                self.fail(id, errno);
            }
        }
        self.tend(ino);
    }

    fn write(&mut self, ino: u64, id: CallId, offset: u64, data: Bytes) {
        let now = self.now.wall();
        let Some(inode) = self.inodes.get_mut(&ino) else { return };
        let number = inode.note_write(now, offset + data.len() as u64);
        let context = self.realms.context(inode.realm);
        inode.buffer.push(Buffered { number, offset, data, context });
        if !inode.usable().contains(CapBits::FILE_BUFFER) {
            return self.write_buffered(ino, Some(id));
        }
        let buffered: usize = inode.buffer.iter().map(|write| write.data.len()).sum();
        if buffered > BUFFER_MAX {
            self.write_buffer(ino);
        }
        self.complete(id, Ok(Answer::Done));
    }

    fn write_buffer(&mut self, ino: u64) {
        self.write_buffered(ino, None);
    }

    /// Sends all writes to the OSDs; `last` waits for the last of them.
    fn write_buffered(&mut self, ino: u64, last: Option<CallId>) {
        let Some(inode) = self.inodes.get_mut(&ino) else { return };
        let writes = std::mem::take(&mut inode.buffer);
        let newest = writes.last().map(|write| write.number);
        for Buffered { number, offset, data, context } in writes {
            inode.writes.insert(number);
            let (place, within) = place(&inode.stat, offset);
            let operation = Operation::write(place, vec![OsdOp::write(within, data)]);
            let operation = Operation { snap_context: context, ..operation };
            let call = last.filter(|_| Some(number) == newest);
            self.transfers.submit(self.now, operation, Transfer::Write { ino, call, number });
        }
    }

    fn read(&mut self, ino: u64, id: CallId, offset: u64, length: u64, cut: Option<Cut>) {
        let Some(inode) = self.inodes.get_mut(&ino) else { return };
        inode.reads += 1;
        let (place, within) = place(&inode.stat, offset);
        let operation = Operation::new(place, vec![OsdOp::read(within, length)]);
        let transfer = Transfer::Read { ino, call: id, length, cut };
        self.transfers.submit(self.now, operation, transfer);
    }

    fn transferred(&mut self, transfer: Transfer, answer: Result<Bytes, Errno>) {
        self.is_shut_out |= answer == Err(Errno::BLOCKLISTED);
        if let Transfer::Part { call, at, length } = transfer {
            let over = self.snapshot_reads.take(call, at, length, answer);
            return over.into_iter().for_each(|outcome| self.complete(call, outcome));
        }
        let ino = transfer.ino();
        let inode = ino.and_then(|ino| self.inodes.get_mut(&ino));
        match transfer {
            Transfer::Write { ino, call, number } => {
                if let Some(inode) = inode {
                    inode.writes.remove(&number);
                }
                if let Err(error) = &answer {
                    tracing::warn!(ino, %error, "data is not written");
                    self.write_failed(ino);
                }
                let outcome = answer.map(|_| Answer::Done).map_err(|_| Errno::IO);
                call.into_iter().for_each(|id| self.complete(id, outcome.clone()));
            }
            Transfer::Read { call, length, cut, .. } => {
                let answer = read_answer(answer, length);
                match (inode, cut, answer) {
                    // One that was closed meanwhile gets no capability any more.
                    (Some(inode), Some(cut), Ok(data)) if inode.opens > 0 => {
                        inode.reads -= 1;
                        inode.waiting.push_front(cut.checked(call, inode.stat.ino, data));
                    }
                    (inode, _, answer) => {
                        inode.into_iter().for_each(|inode| inode.reads -= 1);
                        self.complete(call, answer.map(Answer::Data));
                    }
                }
            }
            Transfer::Part { .. } => {}
        }
        ino.into_iter().for_each(|ino| self.tend(ino));
    }

    /// A write that the OSDs refuse is lost; all who wait for it learn so.
    fn write_failed(&mut self, ino: u64) {
        let syncs = std::mem::take(&mut self.syncs);
        let mut failed: Vec<CallId> = syncs.into_iter().map(|(id, _)| id).collect();
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.waiting.retain(|waiting| {
                let is_sync = matches!(waiting.call, Call::Fsync(_));
                failed.extend(is_sync.then_some(waiting.id));
                !is_sync
            });
        }
        self.fail_all(failed);
    }

    pub(super) fn handle_caps(&mut self, tid: u64, message: &ClientCaps) {
        self.transfers.raise_barrier(message.osd_epoch_barrier);
        match message.op {
            CapOp::FLUSH_ACK | CapOp::FLUSHSNAP_ACK => {
                if let Some(inode) = self.inodes.get_mut(&message.ino) {
                    inode.flushes.remove(&tid);
                }
            }
            CapOp::GRANT | CapOp::REVOKE | CapOp::TRUNC => self.changed(message),
            CapOp::EXPORT => self.exported(message),
            _ => {}
        }
        self.tend(message.ino);
    }

    fn changed(&mut self, message: &ClientCaps) {
        let known = self.inodes.get_mut(&message.ino);
        match known.filter(|inode| inode.cap_id == message.cap_id) {
            Some(inode) => inode.learn_message(message),
            None => self.return_unknown(message),
        }
    }

    /// A capability that was returned while the server sent a message about it.
    fn return_unknown(&mut self, message: &ClientCaps) {
        let ClientCaps { ino, cap_id, mseq, issue_seq, .. } = *message;
        if ino != 0 {
            self.send_release(CapItem { ino, cap_id, mseq, issue_seq });
        }
    }

    fn send_release(&mut self, item: CapItem) {
        let Some(conn) = self.session.claimed() else { return };
        let barrier = self.transfers.barrier();
        let release = ClientCapRelease { items: vec![item], osd_epoch_barrier: barrier };
        self.outputs.send(conn, release.encode(SUPPORTED));
    }

    /// The capability has ended: the inode is gone, or the client may not have it any more.
    fn exported(&mut self, message: &ClientCaps) {
        let ino = message.ino;
        if self.inodes.get(&ino).is_none_or(|inode| inode.cap_id != message.cap_id) {
            return;
        }
        if let Some(inode) = self.inodes.remove(&ino) {
            self.is_shut_out |= self.ends_with_session && !inode.locks.is_empty();
            self.fail_calls(inode);
        }
        let dropped = self.transfers.forget(Some(ino));
        self.fail_all(dropped);
    }

    /// Calls on an inode fail that the client has no more.
    pub(super) fn fail_calls(&mut self, inode: Inode) {
        let waiting = inode.waiting.into_iter().map(|waiting| waiting.id);
        self.fail_all(waiting.chain(inode.syncing.into_iter().map(|sync| sync.id)));
    }

    /// Sends a message about an inode, with changes if there are any; returns whether it was sent.
    fn tell(&mut self, ino: u64, op: CapOp, max_size: u64, flags: u32) -> bool {
        // Attributes as of a snapshot go first: a message may give back what the server waits for to show it.
        snapshots::flush(self, ino);
        let (Some(conn), Some(inode)) = (self.session.claimed(), self.inodes.get_mut(&ino)) else {
            return false;
        };
        let snap_follows = self.realms.context(inode.realm).seq.0;
        let mut message = ClientCaps { max_size, flags, snap_follows, ..inode.message(op) };
        let mut tid = 0;
        // A size that others see before the data would show them zeros.
        if inode.is_dirty && inode.is_written() {
            inode.is_dirty = false;
            tid = self.requests.next_tid();
            message.dirty = CapBits::FILE_WRITE;
            inode.flushes.insert(tid, message.clone());
        }
        self.outputs.send(conn, message.encode(SUPPORTED).with_tid(tid));
        true
    }

    /// Gives back what the server wants back, as soon as nothing depends on it.
    fn give_back(&mut self, ino: u64) {
        let can_send = self.session.claimed().is_some();
        let Some(inode) = self.inodes.get_mut(&ino) else { return };
        if can_send && inode.can_give_back() {
            inode.held = inode.issued;
            self.tell(ino, CapOp::UPDATE, 0, 0);
        }
    }

    /// Returns a capability for which the client has no use.
    pub(super) fn release(&mut self, ino: u64) {
        if self.session.ready().is_none() {
            return;
        }
        if let Some(inode) = self.inodes.remove(&ino) {
            self.send_release(inode.item());
        }
    }
}

/// Bytes that were read, up to the length that the file has. An object that is not there has zeros.
fn read_answer(answer: Result<Bytes, Errno>, length: u64) -> Result<Bytes, Errno> {
    match answer {
        Err(Errno::NOENT) => Ok(padded(b"", length)),
        Err(error) => {
            tracing::warn!(%error, "data is not read");
            Err(Errno::IO)
        }
        Ok(bytes) => Ok(padded(&bytes, length)),
    }
}

/// Bytes that were read, with zeros up to the length that the file has.
fn padded(bytes: &[u8], length: u64) -> Bytes {
    let mut all = BytesMut::from(bytes);
    all.resize(length as usize, 0);
    all.freeze()
}
