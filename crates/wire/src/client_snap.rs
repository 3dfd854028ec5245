//! Messages about snap realms.

use bytes::Bytes;
use codec::{Reader, Result, Writer};
use engine::Message;

/// `MClientSnap`: realms have changed, or inodes have gone to another realm.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientSnap {
    /// [`ClientSnap::UPDATE`] and others.
    pub op: u32,
    /// Of a split: the realm to which the inodes and realms go; else 0.
    pub split: u64,
    /// Inodes that go to it, of those that the client has a capability on.
    pub inodes: Vec<u64>,
    /// Realms that are below it from now on.
    pub realms: Vec<u64>,
    /// The realm and those above: [`crate::SnapRealmInfo::trace`].
    pub trace: Bytes,
}

impl ClientSnap {
    /// Snapshots or place of a realm have changed.
    pub const UPDATE: u32 = 0;
    /// A snapshot was taken.
    pub const CREATE: u32 = 1;
    /// A snapshot was removed.
    pub const DESTROY: u32 = 2;
    /// Inodes and realms go to another realm.
    pub const SPLIT: u32 = 3;
}

impl crate::MessageBody for ClientSnap {
    const KIND: u16 = 0x312;

    fn encode(&self, _features: u64) -> Message {
        let mut w = Writer::new();
        w.u32(self.op);
        w.u64(self.split);
        w.count(self.inodes.len());
        w.count(self.realms.len());
        w.count(self.trace.len());
        self.inodes.iter().chain(&self.realms).for_each(|ino| w.u64(*ino));
        w.raw(&self.trace);
        Message::new(Self::KIND, 1, 1, w.into_bytes())
    }

    fn decode(message: &Message) -> Result<Self> {
        let mut r = Reader::new(&message.front);
        let mut snap =
            ClientSnap { op: r.u32("op")?, split: r.u64("split")?, ..ClientSnap::default() };
        let inodes = r.u32("number of inodes")?;
        let realms = r.u32("number of realms")?;
        let trace = r.u32("length of the trace")?;
        for _ in 0..inodes {
            snap.inodes.push(r.u64("inode of a split")?);
        }
        for _ in 0..realms {
            snap.realms.push(r.u64("realm of a split")?);
        }
        snap.trace = Bytes::copy_from_slice(r.take("trace", trace as usize)?);
        Ok(snap)
    }
}
