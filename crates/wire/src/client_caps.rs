//! Messages about capabilities of clients on inodes, leases of dentries, and quotas.

use crate::{CapBits, FileLayout, QuotaInfo};
use bytes::Bytes;
use codec::{DecodeErrorKind, Reader, Result, Writer};
use engine::Message;
use types::UTime;

/// The oldest version that is decoded: that of Linux 6.1.
const OLDEST: u8 = 9;
/// Data is in objects, not in the message (`CEPH_INLINE_NONE`).
const NOT_INLINE: u64 = u64::MAX;
/// Bytes of attributes behind the head of a message.
const BODY_BYTES: usize = 24 + 4 + 24 + 28 + 4;
/// Bytes of `ceph_mds_cap_peer`.
const PEER_BYTES: usize = 21;

/// `CEPH_CAP_OP_*`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CapOp(pub u32);

impl CapOp {
    /// Server: the client has more capabilities, or new attributes.
    pub const GRANT: Self = CapOp(0);
    /// Server: it must return some.
    pub const REVOKE: Self = CapOp(1);
    /// Server: the file was cut.
    pub const TRUNC: Self = CapOp(2);
    /// Server: the capability has gone to another rank, or without a rank it has ended.
    pub const EXPORT: Self = CapOp(3);
    /// Server: it has come from another rank.
    pub const IMPORT: Self = CapOp(4);
    /// Client: says what it has and wants, and attributes that it has changed.
    pub const UPDATE: Self = CapOp(5);
    /// Client: returns some.
    pub const DROP: Self = CapOp(6);
    /// Client: changed attributes that must become durable.
    pub const FLUSH: Self = CapOp(7);
    /// Server: they are durable.
    pub const FLUSH_ACK: Self = CapOp(8);
    /// Client: attributes as of a snapshot.
    pub const FLUSHSNAP: Self = CapOp(9);
    /// Server: they are durable.
    pub const FLUSHSNAP_ACK: Self = CapOp(10);
    /// Client: returns all.
    pub const RELEASE: Self = CapOp(11);
    /// Client: wants a capability that was stale.
    pub const RENEW: Self = CapOp(12);
}

/// Flags of a client's message (`CEPH_CLIENT_CAPS_*`).
pub mod client_caps_flags {
    /// The client waits for the flush.
    pub const SYNC: u32 = 1 << 0;
    /// It has no changes from before a snapshot.
    pub const NO_CAPSNAP: u32 = 1 << 1;
    /// A message with such changes follows.
    pub const PENDING_CAPSNAP: u32 = 1 << 2;
}

/// `MClientCaps`. The number of a flush is the transaction id of the message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientCaps {
    /// The purpose of the message.
    pub op: CapOp,
    /// The inode.
    pub ino: u64,
    /// Its snap realm.
    pub realm: u64,
    /// Id of the capability.
    pub cap_id: u64,
    /// Number of the last message about it.
    pub seq: u32,
    /// Number of the last grant.
    pub issue_seq: u32,
    /// Those that the client has, or keeps.
    pub caps: CapBits,
    /// Those that it wants.
    pub wanted: CapBits,
    /// Groups with changes, as their `x` bits, and `w` for size and times.
    pub dirty: CapBits,
    /// Number of migrations of the capability.
    pub mseq: u32,
    /// The snapshot after which the changes are.
    pub snap_follows: u64,
    /// Realms of the inode, if they have changed.
    pub snap_trace: Bytes,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Type and permissions.
    pub mode: u32,
    /// Number of links.
    pub nlink: u32,
    /// Version of the extended attributes.
    pub xattr_version: u64,
    /// The extended attributes, as `encode_xattrs` makes them; the middle segment.
    pub xattrs: Bytes,
    /// Size in bytes.
    pub size: u64,
    /// Size up to which the client may write, or wants to.
    pub max_size: u64,
    /// Size to which the file was last cut.
    pub truncate_size: u64,
    /// How often it was cut, from 1.
    pub truncate_seq: u32,
    /// Time of the last change of data.
    pub mtime: UTime,
    /// Time of the last read.
    pub atime: UTime,
    /// Time of the last change of the inode.
    pub ctime: UTime,
    /// Layout.
    pub layout: FileLayout,
    /// Changes when times go back.
    pub time_warp_seq: u32,
    /// The receiver must have this OSD map before it uses its capabilities.
    pub osd_epoch_barrier: u32,
    /// The oldest flush of the client without an acknowledgement.
    pub oldest_flush_tid: u64,
    /// User on whose behalf.
    pub caller_uid: u32,
    /// Its group.
    pub caller_gid: u32,
    /// Time of creation.
    pub btime: UTime,
    /// Counts changes.
    pub change_attr: u64,
    /// `client_caps_flags`
    pub flags: u32,
    /// Entries of a directory that are not directories; -1 if unknown.
    pub files: i64,
    /// Entries of a directory that are; -1 if unknown.
    pub subdirs: i64,
    /// Encryption context.
    pub fscrypt_auth: Bytes,
    /// Encrypted size.
    pub fscrypt_file: Bytes,
}

impl ClientCaps {
    fn encode_head(&self, w: &mut Writer) {
        w.u32(self.op.0);
        [self.ino, self.realm, self.cap_id].iter().for_each(|id| w.u64(*id));
        w.u32(self.seq);
        w.u32(self.issue_seq);
        [self.caps, self.wanted, self.dirty].iter().for_each(|caps| w.value(caps));
        w.u32(self.mseq);
        w.u64(self.snap_follows);
        w.count(self.snap_trace.len());
        [self.uid, self.gid, self.mode, self.nlink].iter().for_each(|number| w.u32(*number));
        w.count(self.xattrs.len());
        w.u64(self.xattr_version);
    }

    /// Reads the head; also returns the lengths of the snap trace and of the extended attributes.
    fn decode_head(r: &mut Reader<'_>) -> Result<(Self, [u32; 2])> {
        let mut caps = ClientCaps {
            op: CapOp(r.u32("op")?),
            ino: r.u64("ino")?,
            realm: r.u64("realm")?,
            cap_id: r.u64("cap id")?,
            seq: r.u32("seq")?,
            issue_seq: r.u32("issue seq")?,
            caps: r.value()?,
            wanted: r.value()?,
            dirty: r.value()?,
            mseq: r.u32("mseq")?,
            snap_follows: r.u64("snap follows")?,
            ..ClientCaps::default()
        };
        let trace = r.u32("snap trace length")?;
        caps.uid = r.u32("uid")?;
        caps.gid = r.u32("gid")?;
        caps.mode = r.u32("mode")?;
        caps.nlink = r.u32("nlink")?;
        let xattrs = r.u32("xattr length")?;
        caps.xattr_version = r.u64("xattr version")?;
        Ok((caps, [trace, xattrs]))
    }

    fn encode_attributes(&self, w: &mut Writer) {
        if self.op == CapOp::EXPORT {
            // Here another rank would be named.
            return w.zeros(BODY_BYTES);
        }
        [self.size, self.max_size, self.truncate_size].iter().for_each(|size| w.u64(*size));
        w.u32(self.truncate_seq);
        [self.mtime, self.atime, self.ctime].iter().for_each(|time| w.value(time));
        self.layout.encode_legacy(w);
        w.u32(self.time_warp_seq);
    }

    fn decode_attributes(&mut self, r: &mut Reader<'_>) -> Result<()> {
        if self.op == CapOp::EXPORT {
            return r.skip("peer", BODY_BYTES);
        }
        self.size = r.u64("size")?;
        self.max_size = r.u64("max size")?;
        self.truncate_size = r.u64("truncate size")?;
        self.truncate_seq = r.u32("truncate seq")?;
        self.mtime = r.value()?;
        self.atime = r.value()?;
        self.ctime = r.value()?;
        self.layout = FileLayout::decode_legacy(r)?;
        self.time_warp_seq = r.u32("time warp seq")?;
        Ok(())
    }

    fn encode_newer(&self, w: &mut Writer) {
        w.count(0); // file locks
        if self.op == CapOp::IMPORT {
            w.zeros(PEER_BYTES);
        }
        w.u64(NOT_INLINE);
        w.count(0);
        w.u32(self.osd_epoch_barrier);
        w.u64(self.oldest_flush_tid);
        w.u32(self.caller_uid);
        w.u32(self.caller_gid);
        w.value(&self.layout.namespace);
        w.value(&self.btime);
        w.u64(self.change_attr);
        w.u32(self.flags);
        w.i64(self.files);
        w.i64(self.subdirs);
        w.value(&self.fscrypt_auth);
        w.value(&self.fscrypt_file);
    }

    fn decode_newer(&mut self, r: &mut Reader<'_>, version: u8) -> Result<()> {
        r.blob("file locks")?;
        if self.op == CapOp::IMPORT {
            r.skip("peer", PEER_BYTES)?;
        }
        r.u64("inline version")?;
        r.blob("inline data")?;
        self.osd_epoch_barrier = r.u32("osd epoch barrier")?;
        self.oldest_flush_tid = r.u64("oldest flush tid")?;
        self.caller_uid = r.u32("caller uid")?;
        self.caller_gid = r.u32("caller gid")?;
        self.layout.namespace = r.value()?;
        self.btime = r.value()?;
        self.change_attr = r.u64("change attribute")?;
        if version >= 10 {
            self.flags = r.u32("flags")?;
        }
        [self.files, self.subdirs] = match version >= 11 {
            true => [r.i64("files")?, r.i64("subdirs")?],
            false => [-1, -1],
        };
        if version >= 12 {
            self.fscrypt_auth = r.value()?;
            self.fscrypt_file = r.value()?;
        }
        Ok(())
    }
}

impl crate::MessageBody for ClientCaps {
    const KIND: u16 = 0x310;

    fn encode(&self, _features: u64) -> Message {
        let mut w = Writer::with_capacity(320);
        self.encode_head(&mut w);
        self.encode_attributes(&mut w);
        w.raw(&self.snap_trace);
        self.encode_newer(&mut w);
        let message = Message::new(Self::KIND, 12, 1, w.into_bytes());
        Message { middle: self.xattrs.clone(), ..message }
    }

    fn decode(message: &Message) -> Result<Self> {
        let mut r = Reader::new(&message.front);
        let version = u8::try_from(message.version).unwrap_or(u8::MAX);
        if version < OLDEST {
            return Err(r.error("caps", DecodeErrorKind::TooOld { version, oldest: OLDEST }));
        }
        let (mut caps, [trace, xattrs]) = ClientCaps::decode_head(&mut r)?;
        caps.decode_attributes(&mut r)?;
        caps.snap_trace = Bytes::copy_from_slice(r.take("snap trace", trace as usize)?);
        if message.middle.len() != xattrs as usize {
            return Err(r.invalid("xattr length", xattrs.into()));
        }
        caps.xattrs = message.middle.clone();
        caps.decode_newer(&mut r, version)?;
        Ok(caps)
    }
}

/// `ceph_mds_cap_item`: a capability that a client returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CapItem {
    /// The inode.
    pub ino: u64,
    /// Id of the capability.
    pub cap_id: u64,
    /// Number of its migrations.
    pub mseq: u32,
    /// Number of the last grant that the client has seen.
    pub issue_seq: u32,
}

impl codec::Encode for CapItem {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.ino);
        w.u64(self.cap_id);
        w.u32(self.mseq);
        w.u32(self.issue_seq);
    }
}

impl codec::Decode for CapItem {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(CapItem {
            ino: r.u64("ino")?,
            cap_id: r.u64("cap id")?,
            mseq: r.u32("mseq")?,
            issue_seq: r.u32("issue seq")?,
        })
    }
}

message! {
    /// `MClientCapRelease`: a client has dropped inodes from its cache.
    ClientCapRelease = 0x313, version 2, compat 1 {
        /// The capabilities.
        items: Vec<CapItem>;
        /// The server must have this OSD map before it grants them to others.
        osd_epoch_barrier: u32, since 2;
    }
}

message! {
    /// `MClientLease`: about the lease of a dentry.
    ClientLease = 0x311, version 1, compat 1 {
        /// [`ClientLease::REVOKE`] and others.
        action: u8;
        /// Not used; 1.
        mask: u16;
        /// The directory.
        ino: u64;
        /// First snapshot of the dentry.
        first: u64;
        /// Last snapshot of it.
        last: u64;
        /// Number of the lease.
        seq: u32;
        /// Milliseconds of a renewed lease.
        duration_ms: u32;
        /// The name.
        name: Bytes;
    }
}

impl ClientLease {
    /// Server: the client must forget it.
    pub const REVOKE: u8 = 1;
    /// Client: has forgotten it by itself.
    pub const RELEASE: u8 = 2;
    /// Asks for more time, or answers that.
    pub const RENEW: u8 = 3;
    /// Client: has forgotten it.
    pub const REVOKE_ACK: u8 = 4;
}

message! {
    /// `MClientQuota`: a quota and its use.
    ClientQuota = 0x314, version 1, compat 1 {
        /// The directory.
        ino: u64;
        /// Latest change below it.
        rctime: UTime;
        /// Bytes below it.
        rbytes: u64;
        /// Files below it.
        rfiles: u64;
        /// Directories below it.
        rsubdirs: u64;
        /// The bounds.
        quota: QuotaInfo;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MessageBody;

    #[test]
    fn a_message_has_the_length_of_its_structure() {
        let message = ClientCaps::default().encode(0);
        // `ceph_mds_caps` of Linux, packed, and what version 12 adds.
        let newer = 4 + 12 + 4 + 8 + 8 + 4 + 16 + 4 + 16 + 8;
        assert_eq!(message.front.len(), 4 + 24 + 8 + 12 + 4 + 8 + 4 + 16 + 12 + BODY_BYTES + newer);
    }

    #[test]
    fn extended_attributes_are_the_middle_segment() {
        let caps = ClientCaps { xattrs: "opaque".into(), ..ClientCaps::default() };
        let message = caps.encode(0);
        assert_eq!(ClientCaps::decode(&message).unwrap(), caps);
        let without = Message { middle: Bytes::new(), ..message };
        assert_eq!(ClientCaps::decode(&without).unwrap_err().field, "xattr length");
    }

    #[test]
    fn an_exported_capability_has_no_attributes() {
        let caps = ClientCaps { op: CapOp::EXPORT, ino: 7, size: 9, ..ClientCaps::default() };
        let decoded = ClientCaps::decode(&caps.encode(0)).unwrap();
        assert_eq!((decoded.ino, decoded.size), (7, 0));
    }
}
