//! Replies: dentries, inodes and pages, with capabilities for the client.

use super::{Rank, asynchronous, snapshots};
use crate::caps;
use crate::pages::ShownPage;
use crate::plan::Shown;
use crate::replies::{inode_bytes, inode_stat, inode_with_cap, lease, no_lease};
use bytes::Bytes;
use fscaps::Issue;
use namespace::{Ino, PageStart, realms};
use wire::{
    CapBits, ClientOp, ClientReply, CreatedInode, DirStat, DirectoryEntry, DirectoryPage,
    FileLayout, InodeStat, ReplyCap, ReplyDentry, readdir_flags, session_features,
};

impl Rank {
    pub(super) fn reply(
        &mut self,
        client: u64,
        op: ClientOp,
        shown: &Shown,
        created: u64,
    ) -> ClientReply {
        let mut reply = ClientReply::plain(op, 0, self.map.epoch);
        reply.dentry = shown.dentry.as_ref().and_then(|entry| self.dentry(client, entry));
        reply.target = shown.target.and_then(|ino| self.inode_of(ino, client, shown));
        if let Some(snapshot) = &shown.snapshot {
            snapshots::show(self, &mut reply, snapshot, shown);
        } else if let (Some(page), Some(directory)) = (&shown.page, shown.target) {
            reply.extra = codec::encode_to_bytes(&self.page(client, directory, page));
        }
        if let Some(told) = &shown.told {
            reply.extra = told.clone();
        }
        if shown.tells_created && created != 0 {
            let delegated = asynchronous::delegate(self, client);
            reply.extra = self.created(client, created, delegated);
        }
        let object = shown.target.filter(|_| reply.target.is_some());
        let directory = shown.dentry.as_ref().filter(|_| reply.dentry.is_some());
        if let Some(ino) = object.or(directory.map(|entry| entry.0)) {
            reply.snap_trace =
                super::realms::trace_for(self, client, realms::realm_of(&self.tree, ino));
        }
        reply
    }

    /// The own part of a reply to `create`, which may delegate ranges of numbers: first and length.
    pub(super) fn created(&self, client: u64, ino: u64, delegated: Vec<(u64, u64)>) -> Bytes {
        let session = self.sessions.get(client);
        let delegates =
            session.is_some_and(|session| session.features() & session_features::DELEG_INO != 0);
        match (ino, delegates) {
            (0, _) => Bytes::new(),
            (_, true) => codec::encode_to_bytes(&CreatedInode { ino, delegated }),
            (_, false) => codec::encode_to_bytes(&ino),
        }
    }

    fn inode(&mut self, ino: Ino, client: u64, wanted: CapBits) -> Option<InodeStat> {
        self.inode_of(ino, client, &Shown { wanted, ..Shown::default() })
    }

    fn inode_of(&mut self, ino: Ino, client: u64, shown: &Shown) -> Option<InodeStat> {
        let inode = self.tree.get(ino)?;
        let issue = self.issue_of(client, inode, shown.wanted);
        let issue = Issue { is_assumed: shown.is_assumed, ..issue };
        let mut stat = inode_with_cap(&self.tree, &mut self.caps, self.now, inode, issue);
        if ino == Ino::ROOT {
            stat.layout = self.shown_layout(ino);
        }
        Some(stat)
    }

    /// The layout that an inode has itself; of the root always one.
    pub(super) fn shown_layout(&self, ino: Ino) -> FileLayout {
        let own = self.tree.get(ino).and_then(|inode| inode.layout.clone());
        let default =
            || if ino == Ino::ROOT { self.map.layout.clone() } else { FileLayout::default() };
        own.unwrap_or_else(default)
    }

    fn inode_without_cap(&self, ino: Ino, client: u64) -> Option<InodeStat> {
        let cap = ReplyCap { is_auth: true, ..ReplyCap::default() };
        Some(inode_stat(&self.tree, self.tree.get(ino)?, client, cap))
    }

    fn dentry(&mut self, client: u64, entry: &(Ino, Bytes)) -> Option<ReplyDentry> {
        let (directory, name) = entry;
        let stat = self.inode(*directory, client, CapBits::NONE)?;
        let found = self.tree.entry(*directory, name);
        let is_primary = found.as_ref().is_some_and(|entry| entry.is_primary);
        let needs_lease = found.is_some() && !stat.cap.caps.contains(CapBits::FILE_SHARED);
        let granted = needs_lease.then(|| caps::entry(*directory, name));
        let granted = granted.and_then(|entry| self.caps.grant_lease(self.now, client, entry));
        Some(ReplyDentry {
            directory: stat,
            dirfrag: DirStat::own(),
            name: name.clone(),
            lease: granted.map_or(no_lease(is_primary), |granted| lease(granted, is_primary)),
        })
    }

    fn page(&mut self, client: u64, directory: Ino, wanted: &ShownPage) -> DirectoryPage {
        let page = self.tree.page(directory, &wanted.start, wanted.max).unwrap_or_default();
        let realm = realms::realm_of(&self.tree, directory);
        let (mut bytes, mut is_last) = (0, page.is_last);
        let mut entries = Vec::with_capacity(page.entries.len());
        for (name, entry) in page.entries {
            // The client is given no capability on an entry that is not in the page.
            bytes += name.len() + self.tree.get(entry.ino).map_or(0, inode_bytes);
            if bytes > wanted.max_bytes && !entries.is_empty() {
                is_last = false;
                break;
            }
            // The reply tells the client of no other realm, in which its capability would be.
            let is_here = realms::realm_of(&self.tree, entry.ino) == realm;
            let inode = match is_here {
                true => self.inode(entry.ino, client, CapBits::NONE),
                false => self.inode_without_cap(entry.ino, client),
            };
            let Some(inode) = inode else { continue };
            entries.push(DirectoryEntry { name, lease: no_lease(entry.is_primary), inode });
        }
        let mut flags = readdir_flags::HASH_ORDER | readdir_flags::OFFSET_HASH;
        if is_last {
            flags |= readdir_flags::FRAG_END;
        }
        if is_last && wanted.start == PageStart::Begin {
            flags |= readdir_flags::FRAG_COMPLETE;
        }
        DirectoryPage { dirfrag: DirStat::own(), flags, entries }
    }
}
