//! Messages of clients about capabilities: changes that they write back, and bits that they return.

use super::Rank;
use crate::caps::CapNotice;
use crate::replies::{inode_stat, max_size};
use bytes::Bytes;
use engine::{Message, Time};
use namespace::{AttributeChange, Context, Flush, FlushedFile, Ino, Operation};
use std::collections::BTreeMap;
use types::features;
use wire::inode_stat::{decode_xattrs, encode_xattrs};
use wire::{CapBits, CapOp, ClientCapRelease, ClientCaps, MessageBody, PeerFault, ReplyCap};

impl Rank {
    /// # Errors
    ///
    /// Extended attributes that the client flushes do not decode. Nothing has changed.
    pub(super) fn handle_caps(
        &mut self,
        now: Time,
        client: u64,
        tid: u64,
        message: &ClientCaps,
    ) -> Result<(), PeerFault> {
        let ino = Ino(message.ino);
        let is_known = self.caps.id(ino, client) == Some(message.cap_id);
        match message.op {
            CapOp::FLUSHSNAP => {
                self.acknowledge(client, tid, CapOp::FLUSHSNAP_ACK, message);
                return Ok(());
            }
            CapOp::RELEASE => {
                self.caps.release(ino, client, message.cap_id, message.issue_seq);
                self.tend_released(ino, client);
                return Ok(());
            }
            _ => {}
        }
        let xattrs = flushed_xattrs(message)?;
        if is_known && self.tree.get(ino).is_some() {
            self.flush(client, ino, message, xattrs);
        }
        let (seq, kept, wanted) = (message.seq, message.caps, message.wanted);
        self.caps.confirm(ino, client, message.cap_id, seq, kept, wanted);
        // The same message may say that the client wants to write at all.
        if is_known && self.tree.get(ino).is_some() {
            self.grow(now, client, ino, message);
        }
        if !message.dirty.is_empty() {
            self.acknowledge(client, tid, CapOp::FLUSH_ACK, message);
        }
        self.tend_released(ino, client);
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
        let dirty = message.dirty & self.caps.issued(ino, client);
        if dirty.is_empty() {
            return;
        }
        let inode = self.tree.get(ino).expect("the inode was checked");
        let xattrs = xattrs.map(|values| (message.xattr_version, values));
        let file = FlushedFile {
            size: message.size.min(max_size(inode).max(inode.size)),
            truncate_seq: message.truncate_seq,
            mtime: message.mtime,
            atime: message.atime,
            is_exclusive: dirty.contains(CapBits::FILE_EXCL),
            time_warp_seq: message.time_warp_seq,
        };
        let changes_file = dirty.intersects(CapBits::FILE_EXCL | CapBits::FILE_WRITE);
        let changes_auth = dirty.contains(CapBits::AUTH_EXCL);
        let flush = Flush {
            auth: changes_auth.then_some((message.mode, message.uid, message.gid)),
            xattrs: xattrs.filter(|_| dirty.contains(CapBits::XATTR_EXCL)),
            file: changes_file.then_some(file),
            ctime: message.ctime,
            change_attr: message.change_attr,
            btime: message.btime,
        };
        self.change(ino, AttributeChange::Flush(flush));
    }

    /// A change by a client's capabilities, which the tree cannot refuse.
    fn change(&mut self, ino: Ino, change: AttributeChange) {
        let operation = Operation::Change { ino, change: Box::new(change) };
        let changed = self.execute(&operation, &Context::default());
        changed.expect("the inode exists, and flushes are not refused");
    }

    /// Gives a client the right to write further.
    fn grow(&mut self, now: Time, client: u64, ino: Ino, message: &ClientCaps) {
        let inode = self.tree.get(ino).expect("the inode was checked");
        let wants_more = message.max_size > max_size(inode) && inode.is_file();
        if !wants_more || !self.caps.writes(ino, client) {
            return;
        }
        let operation = self.planner(client).grow(ino, message.max_size);
        let context = Context { now: now.wall(), ..Context::default() };
        self.execute(&operation, &context).expect("the inode exists");
        self.caps.repeat(ino, client);
    }

    pub(super) fn handle_release(&mut self, client: u64, message: &ClientCapRelease) {
        for item in &message.items {
            self.caps.release(Ino(item.ino), client, item.cap_id, item.issue_seq);
            self.tend_released(Ino(item.ino), client);
        }
    }

    /// A client may have given up its right to write, or the last use of an inode without a name.
    pub(super) fn tend_released(&mut self, ino: Ino, client: u64) {
        let Some(inode) = self.tree.get(ino) else { return };
        if inode.write_ranges.contains_key(&client) && !self.caps.writes(ino, client) {
            self.change(ino, AttributeChange::WriteRange { client, range: None });
        }
        self.forget_unused(ino);
    }

    fn acknowledge(&mut self, client: u64, tid: u64, op: CapOp, message: &ClientCaps) {
        let ino = Ino(message.ino);
        let answer = ClientCaps {
            op,
            ino: message.ino,
            cap_id: message.cap_id,
            seq: message.seq,
            caps: self.caps.issued(ino, client),
            dirty: message.dirty,
            snap_follows: message.snap_follows,
            files: -1,
            subdirs: -1,
            ..ClientCaps::default()
        };
        self.push(client, answer.encode(0).with_tid(tid));
    }

    /// Sends a message about capabilities.
    fn push(&mut self, client: u64, message: Message) {
        if let Some(session) = self.sessions.get_mut(client) {
            session.count_push();
            self.send(client, message);
        }
    }

    pub(super) fn send_notices(&mut self) {
        while let Some(notice) = self.caps.poll_notice() {
            if let Some(message) = self.notice_message(&notice) {
                self.push(notice.client, message.encode(features::SUPPORTED));
            }
        }
    }

    fn notice_message(&self, notice: &CapNotice) -> Option<ClientCaps> {
        let inode = self.tree.get(notice.ino)?;
        let stat = inode_stat(&self.tree, inode, ReplyCap::default());
        Some(ClientCaps {
            op: notice.op,
            ino: notice.ino.0,
            realm: Ino::ROOT.0,
            cap_id: notice.cap_id,
            seq: notice.seq,
            issue_seq: notice.seq,
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
            layout: stat.layout,
            time_warp_seq: stat.time_warp_seq,
            btime: stat.btime,
            change_attr: stat.change_attr,
            files: stat.files as i64,
            subdirs: stat.subdirs as i64,
            ..ClientCaps::default()
        })
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
