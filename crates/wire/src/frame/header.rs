//! The first segment of a message frame.

use codec::{Decode, Encode, Reader, Result, Writer};

/// `sizeof(ceph_msg_header2)`
pub const MESSAGE_HEADER_LENGTH: usize = 41;

/// `ceph_msg_header2`. The sender's name is not in it: it is the session's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MessageHeader {
    /// Sequence number of the message in its direction of the session.
    pub seq: u64,
    /// Transaction id: a reply has that of its request.
    pub tid: u64,
    /// Kind of the message (`CEPH_MSG_*`, `MSG_*`).
    pub kind: u16,
    /// Priority; higher ones are handled first. Not used here.
    pub priority: u16,
    /// Version of the encoding of the front.
    pub version: u16,
    /// Bytes before the data that align it; always 0 here.
    pub data_pre_padding_length: u32,
    /// The offset of the data within a page at its destination: a hint that is not used here.
    pub data_offset: u16,
    /// Last message received in the other direction.
    pub ack_seq: u64,
    /// `CEPH_MSG_FLAG_*`; not used.
    pub flags: u8,
    /// Oldest version of a reader that understands the front.
    pub compat_version: u16,
    /// Always 0.
    pub reserved: u16,
}

impl MessageHeader {
    /// The header as it is sent.
    pub fn to_array(&self) -> [u8; MESSAGE_HEADER_LENGTH] {
        let mut bytes = [0; MESSAGE_HEADER_LENGTH];
        let mut rest = bytes.as_mut_slice();
        let mut put = |field: &[u8]| {
            let (head, tail) = std::mem::take(&mut rest).split_at_mut(field.len());
            head.copy_from_slice(field);
            rest = tail;
        };
        put(&self.seq.to_le_bytes());
        put(&self.tid.to_le_bytes());
        put(&self.kind.to_le_bytes());
        put(&self.priority.to_le_bytes());
        put(&self.version.to_le_bytes());
        put(&self.data_pre_padding_length.to_le_bytes());
        put(&self.data_offset.to_le_bytes());
        put(&self.ack_seq.to_le_bytes());
        put(&[self.flags]);
        put(&self.compat_version.to_le_bytes());
        put(&self.reserved.to_le_bytes());
        bytes
    }
}

impl Encode for MessageHeader {
    fn encode(&self, w: &mut Writer) {
        w.raw(&self.to_array());
    }
}

impl Decode for MessageHeader {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(MessageHeader {
            seq: r.u64("seq")?,
            tid: r.u64("tid")?,
            kind: r.u16("message type")?,
            priority: r.u16("priority")?,
            version: r.u16("version")?,
            data_pre_padding_length: r.u32("data padding")?,
            data_offset: r.u16("data offset")?,
            ack_seq: r.u64("ack seq")?,
            flags: r.u8("flags")?,
            compat_version: r.u16("compat version")?,
            reserved: r.u16("reserved")?,
        })
    }
}
