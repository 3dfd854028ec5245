//! Requests to the metadata server, its replies, and all its other messages.

use super::snapshots::is_live;
use super::{FsClient, quotas, snapshots};
use crate::call::{Answer, Call, CallId};
use crate::file_locks;
use crate::inode::Inode;
use crate::requests::{self, Purpose, Replied};
use bytes::Bytes;
use engine::{ConnId, Message};
use types::Errno;
use types::features::SUPPORTED;
use wire::{
    CapBits, ClientCaps, ClientLease, ClientOp, ClientQuota, ClientReply, ClientRequest,
    ClientSession, ClientSnap, CommandReply, DirectoryPage, FilePath, InodeStat, MessageBody,
    PeerFault, decode_from_peer, readdir_flags,
};

/// Capabilities of directories that the client keeps.
const KEPT_MAX: usize = 64;

impl FsClient {
    /// Sends a request, at once or when the session is open.
    pub(super) fn ask(&mut self, id: CallId, message: ClientRequest, purpose: Purpose) {
        let message = ClientRequest { stamp: self.now.wall(), ..message };
        let tid = self.requests.add(id, message, purpose);
        if let Some(conn) = self.session.ready() {
            self.transmit(conn, tid);
        }
    }

    /// Whether a call would make a name beyond a quota.
    pub(super) fn exceeds_quota(&self, call: &Call) -> bool {
        quotas::check(self, call).is_err()
    }

    pub(super) fn transmit(&mut self, conn: ConnId, tid: u64) {
        let map_epoch = self.monitor.map().epoch.0;
        if let Some(message) = self.requests.message(tid, map_epoch) {
            self.outputs.send(conn, message.encode(SUPPORTED).with_tid(tid));
        }
    }

    /// # Errors
    ///
    /// The message does not decode.
    pub(super) fn handle_from_server(&mut self, message: &Message) -> Result<(), PeerFault> {
        self.leaving.count(message.kind, self.session.ready(), &mut self.outputs);
        match message.kind {
            ClientSession::KIND => self.handle_session(&decode_from_peer(message)?),
            ClientReply::KIND => self.handle_reply(message.tid, &decode_from_peer(message)?),
            ClientCaps::KIND => self.handle_caps(message.tid, &decode_from_peer(message)?),
            CommandReply::KIND => {
                let ended = self.commands.answer(message.tid, decode_from_peer(message)?);
                ended.into_iter().for_each(|(id, outcome)| self.complete(id, outcome));
            }
            ClientLease::KIND => self.handle_lease(decode_from_peer(message)?),
            ClientQuota::KIND => quotas::handle(self, decode_from_peer(message)?),
            ClientSnap::KIND => snapshots::handle_snap(self, &decode_from_peer(message)?),
            _ => {}
        }
        Ok(())
    }

    /// Names are not kept, so a lease is returned at once.
    fn handle_lease(&mut self, lease: ClientLease) {
        if let (ClientLease::REVOKE, Some(conn)) = (lease.action, self.session.connection()) {
            let answer = ClientLease { action: ClientLease::REVOKE_ACK, ..lease };
            self.outputs.send(conn, answer.encode(SUPPORTED));
        }
    }

    /// An early reply answers the call; the safe one, which may be the same, makes it durable.
    fn handle_reply(&mut self, tid: u64, reply: &ClientReply) {
        let Some(replied) = self.requests.handle_reply(tid, reply) else { return };
        let id = replied.id;
        let is_change = matches!(replied.purpose, Purpose::Call(_)) && reply.result == 0;
        let shown = self.learn_from(reply, &replied);
        if replied.is_first {
            self.answer(replied, reply);
        } else if reply.result != 0 {
            tracing::warn!(tid, result = reply.result, "a request fails that was answered early");
        }
        if reply.is_safe && is_change {
            self.durable.push_back(id);
        }
        shown.into_iter().for_each(|ino| self.tend(ino));
        self.trim();
    }

    /// Takes the inodes that a reply shows; returns them.
    fn learn_from(&mut self, reply: &ClientReply, replied: &Replied) -> Vec<u64> {
        // Realms come before the capabilities in them.
        if !reply.snap_trace.is_empty() {
            snapshots::learn_trace(self, &reply.snap_trace);
        }
        quotas::learn_directory(self, &replied.path, reply);
        let directory = reply.dentry.as_ref().map(|dentry| &dentry.directory);
        let mut shown: Vec<u64> = Vec::new();
        for stat in directory.into_iter().chain(&reply.target) {
            self.learn(stat);
            shown.push(stat.ino);
        }
        if let (true, Ok(page)) = (is_page(&replied.purpose), page_of(reply)) {
            page.entries.iter().for_each(|entry| self.learn(&entry.inode));
            shown.extend(page.entries.iter().map(|entry| entry.inode.ino));
        }
        // A request that was answered early and is durable now may be awaited.
        if !replied.is_first {
            let awaiting = self.inodes.iter().filter(|(_, inode)| !inode.syncing.is_empty());
            shown.extend(awaiting.map(|(ino, _)| *ino));
        }
        shown
    }

    fn answer(&mut self, replied: Replied, reply: &ClientReply) {
        let Replied { id, purpose, path, .. } = replied;
        let error = (reply.result < 0).then_some(Errno(-reply.result));
        match (purpose, error) {
            (Purpose::Size(ino), _) => {
                let size = reply.target.as_ref().map(|stat| stat.size);
                self.size_told(id, ino, size.ok_or(error.unwrap_or(Errno::IO)));
            }
            (_, Some(errno)) => self.fail(id, errno),
            (Purpose::Page(names), None) => self.page_told(id, names, path, reply),
            (Purpose::Snapshot, None) => snapshots::opened(self, id, reply),
            (Purpose::Call(Call::Request(request)), None) => {
                if [ClientOp::OPEN, ClientOp::CREATE].contains(&request.op) {
                    let opened = reply.target.as_ref().map(|stat| stat.ino);
                    match opened.and_then(|ino| self.inodes.get_mut(&ino)) {
                        Some(inode) => inode.opens += 1,
                        None => return self.fail(id, Errno::IO),
                    }
                }
                self.complete(id, Ok(Answer::Reply(Box::new(reply.clone()))));
            }
            (Purpose::Call(call), None) => {
                if let Call::Lock { ino, .. } | Call::Unlock { ino, .. } = &call
                    && let Some(inode) = self.inodes.get_mut(ino)
                {
                    file_locks::note(&mut inode.locks, &call);
                }
                let Some(stat) = &reply.target else { return self.complete(id, Ok(Answer::Done)) };
                if matches!(call, Call::Create(_) | Call::Open(_)) {
                    match self.inodes.get_mut(&stat.ino) {
                        Some(inode) => inode.opens += 1,
                        None => return self.fail(id, Errno::IO),
                    }
                }
                self.complete(id, Ok(Answer::Inode(Box::new(stat.clone()))));
            }
        }
    }

    fn page_told(
        &mut self,
        id: CallId,
        mut names: Vec<Bytes>,
        path: FilePath,
        reply: &ClientReply,
    ) {
        let page = match page_of(reply) {
            Ok(page) => page,
            Err(error) => {
                tracing::warn!(%error, "a page of a directory does not decode");
                return self.fail(id, Errno::IO);
            }
        };
        names.extend(page.entries.into_iter().map(|entry| entry.name));
        if page.flags & readdir_flags::FRAG_END != 0 {
            return self.complete(id, Ok(Answer::Names(names)));
        }
        let after = names.last().cloned().unwrap_or_default();
        self.ask(id, requests::page(path, after), Purpose::Page(names));
    }

    /// Takes an inode with its capability. What a snapshot shows is not kept.
    fn learn(&mut self, stat: &InodeStat) {
        let cap = stat.cap;
        if !is_live(stat) {
            return;
        }
        if cap.cap_id == 0 {
            if let Some(inode) = self.inodes.get_mut(&stat.ino) {
                inode.learn(stat.clone());
            }
            return;
        }
        let made = || Inode { stat: stat.clone(), realm: cap.realm, ..Inode::default() };
        let inode = self.inodes.entry(stat.ino).or_insert_with(made);
        if inode.cap_id != cap.cap_id {
            (inode.cap_id, inode.held) = (cap.cap_id, CapBits::NONE);
        }
        (inode.seq, inode.issue_seq, inode.mseq) = (cap.seq, cap.seq, cap.mseq);
        inode.issued = cap.caps;
        inode.held |= cap.caps;
        inode.forget_sizes();
        inode.learn(stat.clone());
    }

    /// Returns what is not needed beyond a bound.
    fn trim(&mut self) {
        if self.inodes.len() > KEPT_MAX {
            self.release_unused(usize::MAX);
        }
    }

    /// The server wants the client to keep only so many capabilities.
    pub(super) fn recall(&mut self, kept: usize) {
        self.release_unused(self.inodes.len().saturating_sub(kept));
    }

    fn release_unused(&mut self, most: usize) {
        let unused = self.inodes.iter().filter(|(_, inode)| inode.is_unused());
        let unused: Vec<u64> = unused.map(|(ino, _)| *ino).take(most).collect();
        unused.into_iter().for_each(|ino| self.release(ino));
    }
}

/// Whether the reply has a page of a directory.
fn is_page(purpose: &Purpose) -> bool {
    match purpose {
        Purpose::Page(_) => true,
        Purpose::Call(Call::Request(request)) => request.op == ClientOp::READDIR,
        _ => false,
    }
}

fn page_of(reply: &ClientReply) -> codec::Result<DirectoryPage> {
    codec::decode_all("page", &reply.extra)
}
