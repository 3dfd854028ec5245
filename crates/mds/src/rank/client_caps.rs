//! Messages of clients about capabilities: changes that they write back, and bits that they return.

use super::{Rank, Waiting, asynchronous, evictions, quotas, realms, snapshots};
use crate::caps;
use crate::cuts::Cut;
use crate::plan::Plan;
use crate::replies::{inode_stat, max_size, written_max};
use bytes::Bytes;
use engine::Message;
use fscaps::{Notice, Output, RequestId};
use namespace::{
    AttributeChange, Context, Done, Encryption, Flush, FlushedFile, Ino, Inode, Operation,
    WriteRange,
};
use std::collections::BTreeMap;
use types::{Errno, SnapId, features};
use wire::inode_stat::{decode_xattrs, encode_xattrs};
use wire::{
    CapBits, CapOp, ClientCapRelease, ClientCaps, ClientLease, ClientRequest, ClientSession,
    MessageBody, PeerFault, ReplyCap, SessionOp, SnapContext, client_caps_flags,
};

impl Rank {
    /// # Errors
    ///
    /// Extended attributes that the client flushes do not decode. Nothing has changed.
    pub(super) fn handle_caps(
        &mut self,
        client: u64,
        tid: u64,
        message: &ClientCaps,
    ) -> Result<(), PeerFault> {
        let ino = Ino(message.ino);
        let is_known = self.caps.cap_id(caps::inode_id(ino), client) == Some(message.cap_id);
        match message.op {
            CapOp::FLUSHSNAP => {
                let xattrs = flushed_xattrs(message)?;
                // Clients do not name the capability here.
                if self.caps.cap_id(caps::inode_id(ino), client).is_some() {
                    let dirty = message.dirty & self.allowed(client, ino, CapBits::NONE);
                    self.flush_behind(dirty, ino, message, xattrs, true);
                }
                self.acknowledge(client, tid, CapOp::FLUSHSNAP_ACK, message);
                return Ok(());
            }
            CapOp::RELEASE => {
                self.caps.handle_release(self.now, &caps::release_of(client, message));
                self.tend_released(ino);
                return Ok(());
            }
            _ => {}
        }
        let xattrs = flushed_xattrs(message)?;
        if is_known && self.tree.get(ino).is_some() {
            self.flush(client, ino, message, xattrs);
        }
        if !message.dirty.is_empty() {
            self.acknowledge(client, tid, CapOp::FLUSH_ACK, message);
        }
        if message.flags & client_caps_flags::SYNC != 0 {
            let lsn = self.log.close();
            self.outbox.expect(lsn);
        }
        self.caps.handle_update(self.now, &caps::update_of(client, message));
        // The same message may say that the client wants to write at all.
        if is_known {
            self.grow(client, ino, message);
            self.refuse_to_write(client, ino, message);
        }
        self.tend_released(ino);
        Ok(())
    }

    /// Takes attributes that a client has changed and was allowed to change.
    fn flush(
        &mut self,
        client: u64,
        ino: Ino,
        message: &ClientCaps,
        xattrs: Option<BTreeMap<Bytes, Bytes>>,
    ) {
        // It may have been moved out of the client's reach.
        let allowed = self.allowed(client, ino, CapBits::NONE);
        let dirty = message.dirty & self.caps.issued(caps::inode_id(ino), client) & allowed;
        if dirty.is_empty() {
            return;
        }
        let newest = namespace::snapshots::newest(&self.tree, ino);
        if message.snap_follows != 0 && newest.is_some_and(|newest| newest.0 > message.snap_follows)
        {
            // The client does not know the newest snapshot yet, which shows what it has done before.
            return self.flush_behind(dirty, ino, message, xattrs, false);
        }
        let flush = self.flush_of(ino, message, dirty, xattrs);
        self.change(ino, AttributeChange::Flush(flush));
    }

    /// Takes attributes that are those of a snapshot, or were changed before the client knew the newest one.
    fn flush_behind(
        &mut self,
        dirty: CapBits,
        ino: Ino,
        message: &ClientCaps,
        xattrs: Option<BTreeMap<Bytes, Bytes>>,
        is_of_snapshot: bool,
    ) {
        let flush = Box::new(self.flush_of(ino, message, dirty, xattrs));
        let follows = SnapId(message.snap_follows);
        let operation = Operation::FlushBehind { ino, follows, flush, is_of_snapshot };
        // An inode that is gone needs no attributes.
        let _ = self.execute(&operation, &Context::default());
    }

    /// The attributes of a client's message, as far as it may change them.
    fn flush_of(
        &self,
        ino: Ino,
        message: &ClientCaps,
        dirty: CapBits,
        xattrs: Option<BTreeMap<Bytes, Bytes>>,
    ) -> Flush {
        let none = Inode::default();
        let inode = self.tree.get(ino).unwrap_or(&none);
        let xattrs = xattrs.map(|values| (message.xattr_version, values));
        // A client that has the file alone may have enlarged it without writing; else the size is of what it
        // has written.
        let size_max = match dirty.contains(CapBits::FILE_EXCL) {
            true => self.map.max_file_size,
            false => written_max(inode),
        };
        let file = FlushedFile {
            size: message.size.min(size_max.max(inode.size)),
            truncate_seq: message.truncate_seq,
            mtime: message.mtime,
            atime: message.atime,
            is_exclusive: dirty.contains(CapBits::FILE_EXCL),
            time_warp_seq: message.time_warp_seq,
        };
        let changes_file = dirty.intersects(CapBits::FILE_EXCL | CapBits::FILE_WRITE);
        let changes_auth = dirty.contains(CapBits::AUTH_EXCL);
        let changed = |is: bool, value: &Bytes| if is { value.clone() } else { Bytes::new() };
        Flush {
            auth: changes_auth.then_some((message.mode, message.uid, message.gid)),
            xattrs: xattrs.filter(|_| dirty.contains(CapBits::XATTR_EXCL)),
            file: changes_file.then_some(file),
            ctime: message.ctime,
            change_attr: message.change_attr,
            btime: message.btime,
            encryption: Encryption {
                auth: changed(changes_auth, &message.fscrypt_auth),
                file: changed(changes_file, &message.fscrypt_file),
            },
        }
    }

    /// A change by a client's capabilities, which the tree cannot refuse.
    fn change(&mut self, ino: Ino, change: AttributeChange) {
        let operation = Operation::Change { ino, change: Box::new(change) };
        let changed = self.execute(&operation, &Context::default());
        changed.expect("the inode exists, and flushes are not refused");
    }

    /// A client wants to write by a capability, and may not, or only by a request that is checked. It loses
    /// the capability, so that it sends that request: it would wait for ever. It has no bit to change
    /// anything, so nothing of it is lost.
    fn refuse_to_write(&mut self, client: u64, ino: Ino, message: &ClientCaps) {
        let wants = message.wanted.contains(CapBits::FILE_WRITE);
        if !wants || self.allowed(client, ino, CapBits::NONE).contains(CapBits::FILE_WRITE) {
            return;
        }
        let cap_id = message.cap_id;
        if self.caps.withdraw(self.now, caps::inode_id(ino), client, cap_id) {
            let export = caps::export(ino, cap_id, message.mseq.wrapping_add(1));
            self.push(client, export.encode(features::SUPPORTED));
        }
    }

    /// A client may ask for the right to write further.
    fn grow(&mut self, client: u64, ino: Ino, message: &ClientCaps) {
        let Some(inode) = self.tree.get(ino).filter(|inode| inode.is_file()) else { return };
        if !self.allowed(client, ino, CapBits::NONE).contains(CapBits::FILE_WRITE) {
            return;
        }
        // Objects up to the end of a range are looked for when the file is removed.
        let wanted = message.max_size.min(self.map.max_file_size);
        let id = caps::inode_id(ino);
        if wanted > max_size(inode, client) {
            let layout = inode.layout.clone().unwrap_or_default();
            self.caps.handle_size(id, client, inode.size, wanted, caps::unit_of(&layout));
        } else if wanted != 0 {
            // The client may not know its range, and would wait for an answer.
            self.caps.repeat(id, client);
        }
    }

    /// Records the range up to which a client may write, or that it writes no more. The message that tells
    /// the client waits until the record is durable, as all that follow it do.
    fn record_range(&mut self, ino: Ino, client: u64, end: Option<u64>) {
        let Some(inode) = self.tree.get(ino) else { return };
        if end.is_none() && !inode.write_ranges.contains_key(&client) {
            return;
        }
        let range = end.map(|end| WriteRange { end });
        self.change(ino, AttributeChange::WriteRange { client, range });
        if let Some(end) = end {
            let lsn = self.log.close();
            self.outbox.hold_back(client, lsn);
            self.caps.handle_range_durable(caps::inode_id(ino), client, end);
        }
    }

    /// Notes that the objects of a file are to be cut, and tells clients that still have data of it.
    pub(super) fn tend_truncation(&mut self, operation: &Operation, client: u64) {
        let Operation::Change { ino, change } = operation else { return };
        if !matches!(&**change, AttributeChange::Set(set) if set.size.is_some()) {
            return;
        }
        let inode = self.tree.get(*ino);
        let is_cut = inode.is_some_and(|inode| Cut::of(inode, SnapContext::default()).is_some());
        if is_cut && self.log.is_stored() && !self.cuts.is_pending(ino.0) {
            self.cuts.add(ino.0);
        }
        let cached = CapBits::FILE_CACHE | CapBits::FILE_BUFFER;
        self.caps.repeat_to_others(caps::inode_id(*ino), client, cached);
    }

    pub(super) fn handle_release(&mut self, client: u64, message: &ClientCapRelease) {
        for item in &message.items {
            self.caps.handle_release(self.now, &caps::released_item(client, item));
            self.tend_released(Ino(item.ino));
            // Items do not belong together: the ends of many files may fit into no frame.
            self.log.close();
        }
    }

    /// A client may have given up the last use of an inode without a name.
    fn tend_released(&mut self, ino: Ino) {
        self.take_cap_outputs();
        self.forget_unused(ino);
    }

    /// A client has forgotten the lease of an entry, or asks for more time.
    pub(super) fn handle_lease(&mut self, client: u64, message: ClientLease) {
        let entry = caps::entry(Ino(message.ino), &message.name);
        if message.action != ClientLease::RENEW {
            return self.caps.handle_lease_released(client, &entry, Some(message.seq));
        }
        if let Some(lease) = self.caps.handle_lease_renewal(self.now, client, entry) {
            let duration_ms = u32::try_from(lease.duration.as_millis()).unwrap_or(u32::MAX);
            let answer = ClientLease { seq: lease.seq, duration_ms, ..message };
            self.push(client, answer.encode(0));
        }
    }

    fn acknowledge(&mut self, client: u64, tid: u64, op: CapOp, message: &ClientCaps) {
        let ino = Ino(message.ino);
        let answer = ClientCaps {
            op,
            ino: message.ino,
            cap_id: message.cap_id,
            seq: message.seq,
            caps: self.caps.issued(caps::inode_id(ino), client),
            dirty: message.dirty,
            snap_follows: message.snap_follows,
            files: -1,
            subdirs: -1,
            ..ClientCaps::default()
        };
        if let Some(session) = self.sessions.get_mut(client) {
            session.count_push();
            self.send_late(client, answer.encode(0).with_tid(tid));
        }
    }

    /// Tells a client the OSD map without which it may not use the capabilities that it gets from now on.
    /// Replies have no field for it: before the next one the client gets a message about no inode, of which
    /// clients take the map before they look for the inode.
    pub(super) fn show_barrier(&mut self, client: u64) {
        let barrier = self.barrier;
        let session = self.sessions.get_mut(client);
        if session.is_some_and(|session| session.raise_barrier(barrier)) {
            let osd_epoch_barrier = barrier.0;
            // Of an inode that it does not know, Linux drops this one silently.
            let op = CapOp::TRUNC;
            let message = ClientCaps { op, osd_epoch_barrier, ..ClientCaps::default() };
            self.push(client, message.encode(features::SUPPORTED));
        }
    }

    /// Sends a message about capabilities.
    pub(super) fn push(&mut self, client: u64, message: Message) {
        if let Some(session) = self.sessions.get_mut(client) {
            session.count_push();
            self.send_early(client, message);
        }
    }

    /// Executes one operation; returns its result, of which the records are noted.
    pub(super) fn execute(
        &mut self,
        operation: &Operation,
        context: &Context,
    ) -> Result<Done, Errno> {
        let done = namespace::execute(&self.tree, operation, context)?;
        let places = realms::before(self, operation);
        self.log.change_tree(&self.tree, &done.records);
        self.tree.apply(&done.records);
        realms::tell_moved(self, &places);
        quotas::note(self, operation, &done.records);
        snapshots::tell(self, operation, &done);
        Ok(done)
    }

    /// See [`asynchronous::has_foreign_number`].
    pub(super) fn has_foreign_number(&self, client: u64, request: &ClientRequest) -> bool {
        asynchronous::has_foreign_number(self, client, request)
    }

    /// See [`asynchronous::has_number`].
    pub(super) fn has_number(&self, client: u64, ino: Ino) -> bool {
        asynchronous::has_number(self, client, ino)
    }

    /// See [`asynchronous::is_number_delegated`].
    pub(super) fn is_number_delegated(&self, ino: Ino) -> bool {
        asynchronous::is_number_delegated(self, ino)
    }

    /// See [`asynchronous::refuse_number`].
    pub(super) fn refuse_number(&mut self, client: u64, ino: u64) {
        asynchronous::refuse_number(self, client, ino);
    }

    /// See [`asynchronous::may_delegate`].
    pub(super) fn may_delegate(&self, client: u64, inode: &Inode) -> bool {
        asynchronous::may_delegate(self, client, inode)
    }

    /// See [`asynchronous::stop_acting`].
    pub(super) fn stop_acting(&mut self) {
        asynchronous::stop_acting(self);
    }

    /// See [`asynchronous::demand_stop`].
    pub(super) fn demand_stop(&self, plan: &mut Plan) -> bool {
        asynchronous::demand_stop(self, plan)
    }

    /// See [`asynchronous::waits_for_names`].
    pub(super) fn waits_for_names(&mut self, id: RequestId, request: &ClientRequest) -> bool {
        asynchronous::waits_for_names(self, id, request)
    }

    /// See [`asynchronous::admit`].
    pub(super) fn admit(&mut self, id: RequestId, waiting: Waiting) -> Option<Waiting> {
        asynchronous::admit(self, id, waiting)
    }

    /// See [`asynchronous::note_failed`].
    pub(super) fn note_failed(&mut self, id: RequestId, request: &ClientRequest, error: Errno) {
        asynchronous::note_failed(self, id, request, error);
    }

    /// See [`asynchronous::answer_failed`].
    pub(super) fn answer_failed(&mut self, id: RequestId, request: &ClientRequest, error: Errno) {
        asynchronous::answer_failed(self, id, request, error);
    }

    /// See [`asynchronous::keep_order`].
    pub(super) fn keep_order(&mut self, id: RequestId, waiting: Waiting) -> Option<Waiting> {
        asynchronous::keep_order(self, id, waiting)
    }

    /// See [`asynchronous::let_next_go`].
    pub(super) fn let_next_go(&mut self, client: u64, request: &ClientRequest) {
        asynchronous::let_next_go(self, client, request);
    }

    /// Tells clients how much of their quotas is used.
    pub(super) fn tell_quotas(&mut self) {
        quotas::tell(self);
    }

    /// The same, when all changes so far are durable.
    pub(super) fn push_safe(&mut self, client: u64, message: Message) {
        if let Some(session) = self.sessions.get_mut(client) {
            session.count_push();
            self.send(client, message);
        }
    }

    /// Carries out what follows from the capabilities.
    pub(super) fn take_cap_outputs(&mut self) {
        while let Some(output) = self.caps.poll_output() {
            match output {
                Output::Notice(notice) => {
                    if let Some(inode) = self.tree.get(Ino(notice.ino.0)) {
                        let message = self.notice_message(&notice, inode);
                        self.push(notice.client, message.encode(features::SUPPORTED));
                    }
                }
                Output::Ready(id) => self.request_ready(id),
                Output::RecordRange { ino, client, end } => {
                    self.record_range(Ino(ino.0), client, end);
                    // Ranges do not belong together: those of a session that ends may fit into no frame.
                    self.log.close();
                }
                Output::RevokeLease { client, entry, seq } => {
                    let revoke = ClientLease {
                        action: ClientLease::REVOKE,
                        mask: 1,
                        ino: entry.directory.0,
                        first: SnapId::HEAD.0,
                        last: SnapId::HEAD.0,
                        seq,
                        duration_ms: 0,
                        name: entry.name,
                    };
                    self.push(client, revoke.encode(0));
                }
                Output::Recall { client, caps_max } => self.recall(client, caps_max),
                Output::LateRelease { client, ino, since } => {
                    tracing::warn!(client, ino = ino.0, %since,
                        "a client does not give back a capability for which another one waits");
                }
                Output::Evict { client, reason } => evictions::begin(self, client, reason),
            }
        }
    }

    /// A request can go on. One that was demanded as a task may have ended with its client's session.
    fn request_ready(&mut self, id: RequestId) {
        if id.client != 0 {
            return self.ready.push_back(id);
        }
        let mut waiting = self.waiting.iter();
        match waiting.find(|(_, waiting)| waiting.task == id.tid).map(|(own, _)| *own) {
            Some(own) => self.ready.push_back(own),
            None => self.caps.end_request(self.now, id, &[]),
        }
    }

    fn recall(&mut self, client: u64, caps_max: usize) {
        let max_caps = u32::try_from(caps_max).unwrap_or(u32::MAX);
        let recall = ClientSession { max_caps, ..ClientSession::new(SessionOp::RECALL_STATE, 0) };
        self.send(client, recall.encode(0));
    }

    fn notice_message(&self, notice: &Notice, inode: &Inode) -> ClientCaps {
        let stat = inode_stat(&self.tree, inode, notice.client, ReplyCap::default());
        ClientCaps {
            op: notice.op,
            ino: notice.ino.0,
            realm: namespace::realms::realm_of(&self.tree, inode.ino).0,
            cap_id: notice.cap_id,
            seq: notice.seq,
            issue_seq: notice.issue_seq,
            mseq: notice.mseq,
            caps: notice.caps,
            wanted: notice.wanted,
            uid: stat.uid,
            gid: stat.gid,
            mode: stat.mode,
            nlink: stat.nlink,
            xattr_version: stat.xattr_version,
            xattrs: encode_xattrs(&inode.xattrs.values),
            size: stat.size,
            max_size: stat.max_size,
            truncate_size: stat.truncate_size,
            truncate_seq: stat.truncate_seq,
            mtime: stat.mtime,
            atime: stat.atime,
            ctime: stat.ctime,
            layout: self.shown_layout(Ino(notice.ino.0)),
            time_warp_seq: stat.time_warp_seq,
            btime: stat.btime,
            fscrypt_auth: stat.fscrypt_auth,
            fscrypt_file: stat.fscrypt_file,
            change_attr: stat.change_attr,
            files: stat.files as i64,
            subdirs: stat.subdirs as i64,
            osd_epoch_barrier: self.barrier.0,
            ..ClientCaps::default()
        }
    }
}

/// The extended attributes that a message flushes; `None` if it has none.
fn flushed_xattrs(message: &ClientCaps) -> Result<Option<BTreeMap<Bytes, Bytes>>, PeerFault> {
    if !message.dirty.contains(CapBits::XATTR_EXCL) || message.xattrs.is_empty() {
        return Ok(None);
    }
    let xattrs = decode_xattrs(&message.xattrs);
    xattrs.map(Some).map_err(|error| PeerFault::Undecodable { kind: ClientCaps::KIND, error })
}
