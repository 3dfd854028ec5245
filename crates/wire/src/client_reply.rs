//! Replies of metadata servers to clients.

use crate::{ClientOp, DirStat, InodeStat, LeaseStat};
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use engine::Message;
use std::collections::BTreeMap;

/// Flags of a page of a directory (`CEPH_READDIR_*`).
pub mod readdir_flags {
    /// It is the last page of the fragment.
    pub const FRAG_END: u16 = 1 << 0;
    /// It has all entries of the fragment.
    pub const FRAG_COMPLETE: u16 = 1 << 8;
    /// Entries are ordered by the hashes of their names.
    pub const HASH_ORDER: u16 = 1 << 9;
    /// The request's hash was understood.
    pub const OFFSET_HASH: u16 = 1 << 10;
}

/// A directory and one of its entries, as they lead to the object of a reply.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReplyDentry {
    /// The directory.
    pub directory: InodeStat,
    /// Its fragment.
    pub dirfrag: DirStat,
    /// The entry.
    pub name: Bytes,
    /// How long the client may use it.
    pub lease: LeaseStat,
}

impl Encode for ReplyDentry {
    fn encode(&self, w: &mut Writer) {
        w.value(&self.directory);
        w.value(&self.dirfrag);
        w.value(&self.name);
        w.value(&self.lease);
    }
}

impl Decode for ReplyDentry {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let (directory, dirfrag) = (r.value()?, r.value()?);
        Ok(ReplyDentry { directory, dirfrag, name: r.value()?, lease: r.value()? })
    }
}

/// `MClientReply`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientReply {
    /// The operation.
    pub op: ClientOp,
    /// 0, or a negative errno.
    pub result: i32,
    /// Epoch of the server's map.
    pub map_epoch: u32,
    /// Whether what it tells is durable.
    pub is_safe: bool,
    /// The entry that leads to the object.
    pub dentry: Option<ReplyDentry>,
    /// The object.
    pub target: Option<InodeStat>,
    /// The operation's own part: a page of a directory, the number of a new inode.
    pub extra: Bytes,
    /// The realms of the object: [`crate::SnapRealmInfo::trace`].
    pub snap_trace: Bytes,
}

impl ClientReply {
    /// A reply without objects.
    pub fn plain(op: ClientOp, result: i32, map_epoch: u32) -> Self {
        ClientReply { op, result, map_epoch, is_safe: true, ..ClientReply::default() }
    }
}

impl crate::MessageBody for ClientReply {
    const KIND: u16 = 26;

    fn encode(&self, _features: u64) -> Message {
        let mut w = Writer::with_capacity(1024);
        w.u32(self.op.0);
        w.i32(self.result);
        w.u32(self.map_epoch);
        w.bool(self.is_safe);
        w.bool(self.dentry.is_some());
        w.bool(self.target.is_some());
        w.sized(|w| {
            self.dentry.iter().for_each(|dentry| w.value(dentry));
            self.target.iter().for_each(|target| w.value(target));
        });
        w.value(&self.extra);
        w.value(&self.snap_trace);
        Message::new(Self::KIND, 1, 1, w.into_bytes())
    }

    fn decode(message: &Message) -> Result<Self> {
        let mut r = Reader::new(&message.front);
        let mut reply = ClientReply {
            op: ClientOp(r.u32("op")?),
            result: r.i32("result")?,
            map_epoch: r.u32("map epoch")?,
            is_safe: r.bool("is safe")?,
            ..ClientReply::default()
        };
        let [has_dentry, has_target] = [r.bool("has dentry")?, r.bool("has target")?];
        let mut trace = Reader::new(r.blob("trace")?);
        if has_dentry {
            reply.dentry = Some(trace.value()?);
        }
        if has_target {
            reply.target = Some(trace.value()?);
        }
        trace.finish("trace")?;
        reply.extra = r.value()?;
        reply.snap_trace = r.value()?;
        Ok(reply)
    }
}

/// An entry in a page of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DirectoryEntry {
    /// Its name.
    pub name: Bytes,
    /// How long the client may use it.
    pub lease: LeaseStat,
    /// Its inode.
    pub inode: InodeStat,
}

impl Encode for DirectoryEntry {
    fn encode(&self, w: &mut Writer) {
        w.value(&self.name);
        w.value(&self.lease);
        w.value(&self.inode);
    }
}

impl Decode for DirectoryEntry {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(DirectoryEntry { name: r.value()?, lease: r.value()?, inode: r.value()? })
    }
}

/// The own part of a reply to `readdir`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DirectoryPage {
    /// The fragment.
    pub dirfrag: DirStat,
    /// `readdir_flags`
    pub flags: u16,
    /// Entries in the order of [`readdir_flags::HASH_ORDER`].
    pub entries: Vec<DirectoryEntry>,
}

impl Encode for DirectoryPage {
    fn encode(&self, w: &mut Writer) {
        w.value(&self.dirfrag);
        w.count(self.entries.len());
        w.u16(self.flags);
        self.entries.iter().for_each(|entry| w.value(entry));
    }
}

impl Decode for DirectoryPage {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let dirfrag = r.value()?;
        let count = r.count("entries")?;
        let mut page = DirectoryPage { dirfrag, flags: r.u16("flags")?, entries: Vec::new() };
        for _ in 0..count {
            page.entries.push(r.value()?);
        }
        Ok(page)
    }
}

structure! {
    /// `openc_response_t`: the own part of a reply to `create`, for a client that is delegated inode numbers.
    CreatedInode, version 1, compat 1 {
        /// The number of the file, or 0 if it was there.
        ino: u64;
        /// Ranges of numbers that are delegated: first and length.
        delegated: Vec<(u64, u64)>;
    }
}

structure! {
    /// `SnapPayload`: metadata that a client adds to a snapshot, as the data of `mksnap`.
    SnapshotMetadata, version 1, compat 1 {
        /// Names and texts.
        metadata: BTreeMap<String, String>;
    }
}

structure! {
    /// The own part of a reply to `getvxattr`.
    VirtualAttribute, version 1, compat 1 {
        /// The value.
        value: Bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MessageBody;

    #[test]
    fn a_trace_must_end_where_its_objects_end() {
        let reply = ClientReply { target: Some(InodeStat::default()), ..Default::default() };
        let message = reply.encode(0);
        let mut bytes = message.front.to_vec();
        bytes[14] = 0; // no target
        let message = Message { front: bytes.into(), ..message };
        assert_eq!(ClientReply::decode(&message).unwrap_err().field, "trace");
    }

    #[test]
    fn a_page_round_trips() {
        let entry = |name: &'static str| DirectoryEntry { name: name.into(), ..Default::default() };
        let mut page = DirectoryPage { dirfrag: DirStat::own(), flags: 1, ..Default::default() };
        page.entries = vec![entry("a"), entry("b")];
        // Decoding gives the pin that stands for none.
        page.entries.iter_mut().for_each(|entry| entry.inode.pin = crate::inode_stat::NO_PIN);
        let bytes = codec::encode_to_bytes(&page);
        assert_eq!(codec::decode_all::<DirectoryPage>("page", &bytes).unwrap(), page);
    }
}
