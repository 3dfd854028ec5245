//! One operation on an object, as part of a request.

use crate::op::OpCode;
use bytes::Bytes;
use codec::{DecodeErrorKind, Reader, Result, Writer};
use types::SnapId;

/// The size of a `ceph_osd_op`: code, flags, arguments, payload length.
pub(crate) const OP_LEN: usize = 2 + 4 + ARGUMENTS_LEN + 4;
/// The size of the union in it.
pub const ARGUMENTS_LEN: usize = 28;

/// `OSDOp`: a code, arguments whose meaning depends on it, and input.
///
/// Arguments are kept in encoded form, since a reply repeats them; the methods named after them decode them,
/// and the constructors encode them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OsdOp {
    /// Code of the operation.
    pub code: OpCode,
    /// [`crate::op::op_flags`]
    pub flags: u32,
    /// Encoded arguments.
    pub arguments: [u8; ARGUMENTS_LEN],
    /// A slice of the message's data.
    pub input: Bytes,
}

/// Arguments of most operations on data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Size to which the object was truncated at `truncate_seq`; for CephFS.
    pub truncate_size: u64,
    /// Number of the truncation that the client knows; for CephFS.
    pub truncate_seq: u32,
}

/// Arguments of operations on one attribute; the input is its name, then its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct XattrArguments {
    /// Length of the attribute's name in bytes.
    pub name_len: u32,
    /// Length of the value in bytes.
    pub value_len: u32,
    /// [`crate::op::compare`]
    pub compare: u8,
    /// [`crate::op::compare::MODE_STRING`] or [`crate::op::compare::MODE_U64`].
    pub compare_mode: u8,
}

/// Arguments of `CALL`; the input is class, method and the method's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallArguments {
    /// Length of the class name in bytes.
    pub class_len: u8,
    /// Length of the method's name in bytes.
    pub method_len: u8,
    /// Length of the method's input in bytes.
    pub input_len: u32,
}

/// Arguments of `WATCH`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WatchArguments {
    /// Id that the client gives the watch.
    pub cookie: u64,
    /// [`crate::op::watch_op`]
    pub op: u8,
    /// Number of reconnects.
    pub generation: u32,
    /// 0: the OSD's default.
    pub timeout_seconds: u32,
}

/// Arguments of `COPY_FROM` and `COPY_FROM2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyFromArguments {
    /// Snapshot of the source.
    pub snap: SnapId,
    /// User version that the source must have; 0 for any.
    pub source_version: u64,
    /// [`crate::op::copy_from_flags`]
    pub flags: u8,
    /// Hints for the read of the source (`op_flags::FADVISE_*`).
    pub source_fadvise_flags: u32,
}

/// Arguments of `CHECKSUM`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChecksumArguments {
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Bytes per checksum; 0 for one checksum of all.
    pub chunk_size: u32,
    /// [`crate::op::checksum_kind`]
    pub kind: u8,
}

/// Arguments of `SETALLOCHINT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AllocHint {
    /// Bytes that the object is expected to have.
    pub expected_object_size: u64,
    /// Bytes that one write is expected to have.
    pub expected_write_size: u64,
    /// `CEPH_OSD_ALLOC_HINT_FLAG_*`
    pub flags: u32,
}

impl OsdOp {
    /// An operation without arguments.
    pub fn new(code: OpCode) -> Self {
        OsdOp { code, flags: 0, arguments: [0; ARGUMENTS_LEN], input: Bytes::new() }
    }

    /// Sets the input.
    pub fn with_input(mut self, input: Bytes) -> Self {
        self.input = input;
        self
    }

    /// Sets the flags.
    pub fn with_flags(mut self, flags: u32) -> Self {
        self.flags = flags;
        self
    }

    fn with_arguments(mut self, write: impl FnOnce(&mut Writer)) -> Self {
        let mut w = Writer::with_capacity(ARGUMENTS_LEN);
        write(&mut w);
        self.arguments[..w.len()].copy_from_slice(w.as_slice());
        self
    }

    /// An operation on a range.
    pub fn with_extent(code: OpCode, extent: Extent) -> Self {
        OsdOp::new(code).with_arguments(|w| {
            w.u64(extent.offset);
            w.u64(extent.length);
            w.u64(extent.truncate_size);
            w.u32(extent.truncate_seq);
        })
    }

    /// Reads a range; a length of 0 reads to the end of the object.
    pub fn read(offset: u64, length: u64) -> Self {
        OsdOp::with_extent(OpCode::READ, Extent { offset, length, ..Extent::default() })
    }

    /// Reads a range as a map of extents and the data in them.
    pub fn sparse_read(offset: u64, length: u64) -> Self {
        OsdOp::with_extent(OpCode::SPARSE_READ, Extent { offset, length, ..Extent::default() })
    }

    /// Reads size and time of modification.
    pub fn stat() -> Self {
        OsdOp::new(OpCode::STAT)
    }

    /// Writes a range.
    pub fn write(offset: u64, data: Bytes) -> Self {
        let extent = Extent { offset, length: data.len() as u64, ..Extent::default() };
        OsdOp::with_extent(OpCode::WRITE, extent).with_input(data)
    }

    /// Replaces all data.
    pub fn write_full(data: Bytes) -> Self {
        let extent = Extent { length: data.len() as u64, ..Extent::default() };
        OsdOp::with_extent(OpCode::WRITEFULL, extent).with_input(data)
    }

    /// Writes at the end of the object.
    pub fn append(data: Bytes) -> Self {
        let extent = Extent { length: data.len() as u64, ..Extent::default() };
        OsdOp::with_extent(OpCode::APPEND, extent).with_input(data)
    }

    /// Makes a range read as zeros, without extending the object.
    pub fn zero(offset: u64, length: u64) -> Self {
        OsdOp::with_extent(OpCode::ZERO, Extent { offset, length, ..Extent::default() })
    }

    /// Cuts off or extends the object to `size` bytes.
    pub fn truncate(size: u64) -> Self {
        OsdOp::with_extent(OpCode::TRUNCATE, Extent { offset: size, ..Extent::default() })
    }

    /// Creates the object; EEXIST if it exists and `exclusive` is set.
    pub fn create(exclusive: bool) -> Self {
        let flags = if exclusive { crate::op::op_flags::EXCL } else { 0 };
        OsdOp::new(OpCode::CREATE).with_flags(flags)
    }

    /// Removes the object.
    pub fn remove() -> Self {
        OsdOp::new(OpCode::DELETE)
    }

    /// Restores the object's version of a snapshot.
    pub fn roll_back(snap: SnapId) -> Self {
        OsdOp::new(OpCode::ROLLBACK).with_arguments(|w| w.value(&snap))
    }

    /// An operation on the attribute `name`.
    pub fn xattr(code: OpCode, name: &[u8], value: &[u8]) -> Self {
        OsdOp::new(code).with_input([name, value].concat().into()).with_arguments(|w| {
            w.count(name.len());
            w.count(value.len());
        })
    }

    /// Calls `method` of the object class `class`.
    ///
    /// # Panics
    /// If a name is longer than 255 bytes.
    pub fn call(class: &str, method: &str, input: &[u8]) -> Self {
        let name_len = |name: &str| u8::try_from(name.len()).expect("class names are short");
        let whole = [class.as_bytes(), method.as_bytes(), input].concat();
        OsdOp::new(OpCode::CALL).with_input(whole.into()).with_arguments(|w| {
            w.u8(name_len(class));
            w.u8(name_len(method));
            w.u8(0);
            w.count(input.len());
        })
    }

    /// Begins, continues or ends a watch.
    pub fn watch(arguments: WatchArguments) -> Self {
        OsdOp::new(OpCode::WATCH).with_arguments(|w| {
            w.u64(arguments.cookie);
            w.u64(0);
            w.u8(arguments.op);
            w.u32(arguments.generation);
            w.u32(arguments.timeout_seconds);
        })
    }

    /// Notifies all watchers of the object.
    pub fn notify(cookie: u64, request: &crate::watch::NotifyRequest) -> Self {
        let input = codec::encode_to_bytes(request);
        OsdOp::new(OpCode::NOTIFY).with_input(input).with_arguments(|w| w.u64(cookie))
    }

    /// Acknowledges a notification.
    pub fn notify_ack(ack: &crate::watch::NotifyAck) -> Self {
        OsdOp::new(OpCode::NOTIFY_ACK).with_input(codec::encode_to_bytes(ack))
    }

    /// Lists up to `count` objects of a placement group from `cursor` on.
    pub fn list(count: u64, start_epoch: u32, cursor: &types::HObject) -> Self {
        let input = codec::encode_to_bytes(cursor);
        OsdOp::new(OpCode::PGNLS).with_input(input).with_arguments(|w| {
            w.u64(count);
            w.u32(start_epoch);
        })
    }

    /// Replaces the object by a copy of another one.
    pub fn copy_from(arguments: CopyFromArguments, source: &crate::copy::CopySource) -> Self {
        let with_truncate = source.truncate.is_some();
        let code = if with_truncate { OpCode::COPY_FROM2 } else { OpCode::COPY_FROM };
        OsdOp::new(code).with_input(codec::encode_to_bytes(source)).with_arguments(|w| {
            w.value(&arguments.snap);
            w.u64(arguments.source_version);
            w.u8(arguments.flags);
            w.u32(arguments.source_fadvise_flags);
        })
    }

    /// Arguments of operations for which [`OpCode::uses_extent`] holds.
    pub fn extent(&self) -> Extent {
        let a = &self.arguments;
        Extent {
            offset: u64_at(a, 0),
            length: u64_at(a, 8),
            truncate_size: u64_at(a, 16),
            truncate_seq: u32_at(a, 24),
        }
    }

    /// Arguments of an attribute operation.
    pub fn xattr_arguments(&self) -> XattrArguments {
        let a = &self.arguments;
        XattrArguments {
            name_len: u32_at(a, 0),
            value_len: u32_at(a, 4),
            compare: a[8],
            compare_mode: a[9],
        }
    }

    /// Name and value of an attribute operation.
    pub fn xattr_input(&self) -> Result<(Bytes, Bytes)> {
        let arguments = self.xattr_arguments();
        let (name, value) = (arguments.name_len as usize, arguments.value_len as usize);
        let [name, value] =
            self.split_input(["attribute name", "attribute value"], [name, value])?;
        Ok((name, value))
    }

    /// Arguments of `CALL`.
    pub fn call_arguments(&self) -> CallArguments {
        let a = &self.arguments;
        CallArguments { class_len: a[0], method_len: a[1], input_len: u32_at(a, 3) }
    }

    /// Class, method and input of a `CALL`.
    pub fn call_input(&self) -> Result<(Bytes, Bytes, Bytes)> {
        let arguments = self.call_arguments();
        let lengths = [
            usize::from(arguments.class_len),
            usize::from(arguments.method_len),
            arguments.input_len as usize,
        ];
        let [class, method, input] =
            self.split_input(["class", "method", "class input"], lengths)?;
        Ok((class, method, input))
    }

    /// Arguments of `WATCH`.
    pub fn watch_arguments(&self) -> WatchArguments {
        let a = &self.arguments;
        WatchArguments {
            cookie: u64_at(a, 0),
            op: a[16],
            generation: u32_at(a, 17),
            timeout_seconds: u32_at(a, 21),
        }
    }

    /// The cookie of a `NOTIFY`.
    pub fn notify_cookie(&self) -> u64 {
        u64_at(&self.arguments, 0)
    }

    /// Maximum number of entries of a listing, and the map epoch of the client.
    pub fn list_arguments(&self) -> (u64, u32) {
        (u64_at(&self.arguments, 0), u32_at(&self.arguments, 8))
    }

    /// The snapshot of a `ROLLBACK`.
    pub fn snap(&self) -> SnapId {
        SnapId(u64_at(&self.arguments, 0))
    }

    /// The version of an `ASSERT_VER`.
    pub fn assert_version(&self) -> u64 {
        u64_at(&self.arguments, 8)
    }

    /// Maximum of bytes in the reply to `COPY_GET`.
    pub fn copy_get_max(&self) -> u64 {
        u64_at(&self.arguments, 0)
    }

    /// Arguments of `COPY_FROM` and `COPY_FROM2`.
    pub fn copy_from_arguments(&self) -> CopyFromArguments {
        let a = &self.arguments;
        CopyFromArguments {
            snap: SnapId(u64_at(a, 0)),
            source_version: u64_at(a, 8),
            flags: a[16],
            source_fadvise_flags: u32_at(a, 17),
        }
    }

    /// Offset, length and the length of the repeated data of a `WRITESAME`.
    pub fn write_same_arguments(&self) -> (u64, u64, u64) {
        let a = &self.arguments;
        (u64_at(a, 0), u64_at(a, 8), u64_at(a, 16))
    }

    /// Arguments of `CHECKSUM`.
    pub fn checksum_arguments(&self) -> ChecksumArguments {
        let a = &self.arguments;
        ChecksumArguments {
            offset: u64_at(a, 0),
            length: u64_at(a, 8),
            chunk_size: u32_at(a, 16),
            kind: a[20],
        }
    }

    /// Arguments of `SETALLOCHINT`.
    pub fn alloc_hint(&self) -> AllocHint {
        let a = &self.arguments;
        AllocHint {
            expected_object_size: u64_at(a, 0),
            expected_write_size: u64_at(a, 8),
            flags: u32_at(a, 16),
        }
    }

    /// Splits the input into pieces of the given lengths.
    fn split_input<const N: usize>(
        &self,
        fields: [&'static str; N],
        lengths: [usize; N],
    ) -> Result<[Bytes; N]> {
        let mut r = Reader::new(&self.input);
        let mut pieces = std::array::from_fn(|_| Bytes::new());
        for ((piece, field), length) in pieces.iter_mut().zip(fields).zip(lengths) {
            *piece = self.input.slice_ref(r.take(field, length)?);
        }
        Ok(pieces)
    }

    /// Encodes all but the payload, whose length is given.
    pub(crate) fn encode_head(&self, w: &mut Writer, payload_len: usize) {
        w.u16(self.code.0);
        w.u32(self.flags);
        w.raw(&self.arguments);
        w.count(payload_len);
    }

    /// Decodes all but the payload; returns the payload's length as well.
    pub(crate) fn decode_head(r: &mut Reader<'_>) -> Result<(OsdOp, usize)> {
        let code = OpCode(r.u16("operation code")?);
        let flags = r.u32("operation flags")?;
        let arguments = r.array("operation arguments")?;
        let payload_len = r.u32("payload length")? as usize;
        Ok((OsdOp { code, flags, arguments, input: Bytes::new() }, payload_len))
    }
}

fn u32_at(arguments: &[u8; ARGUMENTS_LEN], at: usize) -> u32 {
    u32::from_le_bytes(arguments[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(arguments: &[u8; ARGUMENTS_LEN], at: usize) -> u64 {
    u64::from_le_bytes(arguments[at..at + 8].try_into().expect("eight bytes"))
}

/// The next `length` bytes of a data segment of which `taken` bytes are consumed.
pub(crate) fn take_payload(data: &Bytes, taken: &mut usize, length: usize) -> Result<Bytes> {
    let available = data.len() - *taken;
    if length > available {
        let kind = DecodeErrorKind::Truncated { needed: length, available };
        return Err(codec::DecodeError { field: "operation data", offset: *taken, kind });
    }
    let start = *taken;
    *taken += length;
    Ok(data.slice(start..*taken))
}

/// One data segment of many payloads; a single one is passed on without a copy.
pub(crate) fn join_payloads<'a>(payloads: impl Iterator<Item = &'a Bytes> + Clone) -> Bytes {
    let mut filled = payloads.filter(|payload| !payload.is_empty());
    let Some(first) = filled.next() else { return Bytes::new() };
    let Some(second) = filled.next() else { return first.clone() };
    let mut joined = Vec::with_capacity(first.len() + second.len());
    joined.extend_from_slice(first);
    joined.extend_from_slice(second);
    filled.for_each(|payload| joined.extend_from_slice(payload));
    joined.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_read_back_as_written() {
        let write = OsdOp::write(7, Bytes::from_static(b"abc"));
        assert_eq!((write.extent().offset, write.extent().length), (7, 3));

        let set = OsdOp::xattr(OpCode::SETXATTR, b"name", b"value");
        assert_eq!(set.xattr_input().unwrap(), ("name".into(), "value".into()));

        let call = OsdOp::call("lock", "lock", b"input");
        assert_eq!(call.call_input().unwrap(), ("lock".into(), "lock".into(), "input".into()));

        let watch = WatchArguments { cookie: 9, op: 3, generation: 1, timeout_seconds: 30 };
        assert_eq!(OsdOp::watch(watch).watch_arguments(), watch);
    }

    #[test]
    fn lengths_beyond_the_input_are_refused() {
        let mut set = OsdOp::xattr(OpCode::SETXATTR, b"name", b"value");
        set.input.truncate(8);
        assert_eq!(set.xattr_input().unwrap_err().field, "attribute value");
        let mut call = OsdOp::call("lock", "lock", b"");
        call.arguments[0] = 255;
        assert_eq!(call.call_input().unwrap_err().field, "class");
    }

    #[test]
    fn a_single_payload_is_not_copied() {
        let payload = Bytes::from(vec![1; 100]);
        let empty = Bytes::new();
        let joined = join_payloads([&empty, &payload, &empty].into_iter());
        assert_eq!(joined.as_ptr(), payload.as_ptr());
        assert_eq!(join_payloads([&payload, &payload, &payload].into_iter()).len(), 300);
    }
}
