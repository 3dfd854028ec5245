//! Requests of clients to metadata servers.

mod arguments;

pub use arguments::{
    FileLockArguments, GetattrArguments, LookupInoArguments, MkdirArguments, MknodArguments,
    OpenArguments, ReaddirArguments, RequestArguments, SetattrArguments, SetlayoutArguments,
    SetxattrArguments, TypedArguments, open_flags, setattr_mask,
};

use crate::CapBits;
use bytes::Bytes;
use codec::{Decode, DecodeErrorKind, Encode, Reader, Result, Writer};
use engine::Message;
use types::UTime;

/// The oldest version that is decoded. All supported clients send it.
const OLDEST: u8 = 4;
/// Version of the head that is written.
const HEAD_VERSION: u16 = 3;
/// Bytes of a head of that version.
const HEAD_BYTES: u32 = 118;
/// The owner of a new inode if a request does not name one.
const NO_OWNER: u32 = u32::MAX;

/// `CEPH_MDS_OP_*`: operations on the name space. Those with bit `0x1000` change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ClientOp(pub u32);

macro_rules! operations {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        impl ClientOp {
            $(
                #[doc = concat!("`", $text, "`")]
                pub const $name: Self = ClientOp($value);
            )*

            /// The name as Ceph prints it; `None` for a number without meaning.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

operations! {
    LOOKUP = 0x100, "lookup";
    GETATTR = 0x101, "getattr";
    LOOKUPHASH = 0x102, "lookuphash";
    LOOKUPPARENT = 0x103, "lookupparent";
    LOOKUPINO = 0x104, "lookupino";
    LOOKUPNAME = 0x105, "lookupname";
    GETVXATTR = 0x106, "getvxattr";
    DUMMY = 0x107, "dummy";
    GETFILELOCK = 0x110, "getfilelock";
    OPEN = 0x302, "open";
    READDIR = 0x305, "readdir";
    LOOKUPSNAP = 0x400, "lookupsnap";
    LSSNAP = 0x402, "lssnap";
    READDIR_SNAPDIFF = 0x408, "readdir_snapdiff";
    SETXATTR = 0x1105, "setxattr";
    RMXATTR = 0x1106, "rmxattr";
    SETLAYOUT = 0x1107, "setlayout";
    SETATTR = 0x1108, "setattr";
    SETFILELOCK = 0x1109, "setfilelock";
    SETDIRLAYOUT = 0x110a, "setdirlayout";
    MKNOD = 0x1201, "mknod";
    LINK = 0x1202, "link";
    UNLINK = 0x1203, "unlink";
    RENAME = 0x1204, "rename";
    MKDIR = 0x1220, "mkdir";
    RMDIR = 0x1221, "rmdir";
    SYMLINK = 0x1222, "symlink";
    CREATE = 0x1301, "create";
    MKSNAP = 0x1400, "mksnap";
    RMSNAP = 0x1401, "rmsnap";
    RENAMESNAP = 0x1403, "renamesnap";
}

/// Flags of requests (`CEPH_MDS_FLAG_*`).
pub mod client_flags {
    /// An earlier server has answered, but not safely.
    pub const REPLAY: u32 = 1;
    /// The reply should have the dentry.
    pub const WANT_DENTRY: u32 = 2;
    /// The client has acted on it already.
    pub const ASYNC: u32 = 4;
}

/// `filepath`: a path from an inode.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilePath {
    /// The inode at which it begins; 0 for none.
    pub ino: u64,
    /// Names, separated by slashes. Not necessarily UTF-8.
    pub path: Bytes,
}

impl FilePath {
    /// A path below an inode.
    pub fn new(ino: u64, path: impl Into<Bytes>) -> Self {
        FilePath { ino, path: path.into() }
    }

    /// Whether an empty name in it stands for `.snap`.
    pub fn is_in_snapshots(&self) -> bool {
        self.path.starts_with(b"/") || self.path.windows(2).any(|pair| pair == b"//")
    }

    /// Names up to the one that stands for `.snap`, and those behind it.
    pub fn around_snapshots(&self) -> (Vec<&[u8]>, Vec<&[u8]>) {
        let mut names = self.path.split(|byte| *byte == b'/');
        let before = names.by_ref().take_while(|name| !name.is_empty()).collect();
        (before, names.filter(|name| !name.is_empty()).collect())
    }

    /// Whether the last name means a directory that it is in.
    pub fn ends_in_dots(&self) -> bool {
        matches!(self.names().last(), Some(b"." | b".."))
    }

    /// Its names.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.path.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
    }
}

impl Encode for FilePath {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        w.u64(self.ino);
        w.value(&self.path);
    }
}

impl Decode for FilePath {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.u8("path version")?;
        Ok(FilePath { ino: r.u64("path inode")?, path: r.value()? })
    }
}

/// `ceph_mds_request_release`: a capability or a dentry's lease that a client returns with a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestRelease {
    /// The inode of the capability, or the directory of the dentry.
    pub ino: u64,
    /// Id of the capability.
    pub cap_id: u64,
    /// Those that the client keeps.
    pub caps: CapBits,
    /// Those that it wants.
    pub wanted: CapBits,
    /// Number of the last message about the capability that the client has seen.
    pub seq: u32,
    /// Number of the last grant that it has seen.
    pub issue_seq: u32,
    /// Number of migrations of the capability.
    pub mseq: u32,
    /// Number of the lease.
    pub name_seq: u32,
    /// The dentry whose lease is returned; empty for none.
    pub name: Bytes,
}

impl Encode for RequestRelease {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.ino);
        w.u64(self.cap_id);
        w.value(&self.caps);
        w.value(&self.wanted);
        w.u32(self.seq);
        w.u32(self.issue_seq);
        w.u32(self.mseq);
        w.u32(self.name_seq);
        w.value(&self.name);
    }
}

impl Decode for RequestRelease {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(RequestRelease {
            ino: r.u64("released inode")?,
            cap_id: r.u64("cap id")?,
            caps: r.value()?,
            wanted: r.value()?,
            seq: r.u32("seq")?,
            issue_seq: r.u32("issue seq")?,
            mseq: r.u32("mseq")?,
            name_seq: r.u32("name seq")?,
            name: r.value()?,
        })
    }
}

/// `MClientRequest`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientRequest {
    /// The client's oldest request without a safe reply.
    pub oldest_client_tid: u64,
    /// Epoch of the client's map.
    pub map_epoch: u32,
    /// `client_flags`
    pub flags: u32,
    /// How often the client has sent the request before.
    pub retries: u32,
    /// How often it was forwarded.
    pub forwards: u32,
    /// The operation.
    pub op: ClientOp,
    /// User on whose behalf.
    pub uid: u32,
    /// Its first group.
    pub gid: u32,
    /// Number of the inode to create, if the client knows it already.
    pub ino: u64,
    /// Its arguments.
    pub arguments: RequestArguments,
    /// Owner of what is created.
    pub owner_uid: u32,
    /// Group of what is created.
    pub owner_gid: u32,
    /// The object.
    pub path: FilePath,
    /// The second object, or a text: the target of a symbolic link, the name of an attribute.
    pub path2: FilePath,
    /// Capabilities and leases that the client returns.
    pub releases: Vec<RequestRelease>,
    /// Time of the request by the client's clock.
    pub stamp: UTime,
    /// Further groups of the user.
    pub groups: Vec<u64>,
    /// Alternative form of the name.
    pub alternate_name: Bytes,
    /// Encryption context of what is created.
    pub fscrypt_auth: Bytes,
    /// Encrypted size.
    pub fscrypt_file: Bytes,
    /// The data segment: the value of an attribute.
    pub data: Bytes,
}

impl Default for ClientRequest {
    fn default() -> Self {
        ClientRequest {
            oldest_client_tid: 0,
            map_epoch: 0,
            flags: 0,
            retries: 0,
            forwards: 0,
            op: ClientOp::default(),
            uid: 0,
            gid: 0,
            ino: 0,
            arguments: RequestArguments::default(),
            owner_uid: NO_OWNER,
            owner_gid: NO_OWNER,
            path: FilePath::default(),
            path2: FilePath::default(),
            releases: Vec::new(),
            stamp: UTime::ZERO,
            groups: Vec::new(),
            alternate_name: Bytes::new(),
            fscrypt_auth: Bytes::new(),
            fscrypt_file: Bytes::new(),
            data: Bytes::new(),
        }
    }
}

impl ClientRequest {
    /// Whether the client may have acted on it already, so that it comes before other requests after a
    /// fail-over.
    pub fn is_replayed(&self) -> bool {
        self.flags & (client_flags::REPLAY | client_flags::ASYNC) != 0
    }

    /// Whether the client has had an early reply to it from a predecessor of the server. It takes nothing
    /// from a second reply but that the change is durable.
    pub fn has_early_reply(&self) -> bool {
        self.flags & client_flags::REPLAY != 0
    }

    /// Whether the client has acted on it before it asked: it creates or unlinks asynchronously.
    pub fn is_asynchronous(&self) -> bool {
        let is_possible = matches!(self.op, ClientOp::CREATE | ClientOp::UNLINK);
        is_possible && self.flags & client_flags::ASYNC != 0
    }

    /// Owner and group of what it creates, before the directory's rules.
    pub fn owner(&self) -> (u32, u32) {
        match (self.owner_uid, self.owner_gid) {
            (NO_OWNER, NO_OWNER) => (self.uid, self.gid),
            owner => owner,
        }
    }

    fn encode_head(&self, w: &mut Writer) {
        w.u16(HEAD_VERSION);
        w.u64(self.oldest_client_tid);
        w.u32(self.map_epoch);
        w.u32(self.flags);
        w.u8(self.retries as u8); // for readers of version 1
        w.u8(self.forwards as u8);
        w.u16(u16::try_from(self.releases.len()).expect("a request returns few capabilities"));
        w.u32(self.op.0);
        w.u32(self.uid);
        w.u32(self.gid);
        w.u64(self.ino);
        w.raw(self.arguments.as_bytes());
        w.u32(self.retries);
        w.u32(self.forwards);
        w.u32(HEAD_BYTES);
        w.u32(self.owner_uid);
        w.u32(self.owner_gid);
    }

    /// Reads the head; also returns the number of releases.
    fn decode_head(r: &mut Reader<'_>) -> Result<(Self, u16)> {
        let begin = r.offset();
        let version = r.u16("head version")?;
        let mut request = ClientRequest {
            oldest_client_tid: r.u64("oldest client tid")?,
            map_epoch: r.u32("map epoch")?,
            flags: r.u32("flags")?,
            retries: r.u8("retries")?.into(),
            forwards: r.u8("forwards")?.into(),
            ..ClientRequest::default()
        };
        let releases = r.u16("number of releases")?;
        request.op = ClientOp(r.u32("op")?);
        request.uid = r.u32("uid")?;
        request.gid = r.u32("gid")?;
        request.ino = r.u64("ino")?;
        request.arguments = RequestArguments::from_bytes(r.array("arguments")?);
        if version >= 2 {
            request.retries = r.u32("retries")?;
            request.forwards = r.u32("forwards")?;
        }
        if version >= 3 {
            let at = *r;
            let length = r.u32("head length")?;
            request.owner_uid = r.u32("owner uid")?;
            request.owner_gid = r.u32("owner gid")?;
            let known = r.offset() - begin;
            // A newer client may append to the head.
            let unknown = (length as usize).checked_sub(known);
            let unknown = unknown.ok_or_else(|| at.invalid("head length", length.into()))?;
            r.skip("newer part of the head", unknown)?;
        }
        Ok((request, releases))
    }
}

impl crate::MessageBody for ClientRequest {
    const KIND: u16 = 24;

    fn encode(&self, _features: u64) -> Message {
        let mut w = Writer::with_capacity(256);
        self.encode_head(&mut w);
        w.value(&self.path);
        w.value(&self.path2);
        self.releases.iter().for_each(|release| w.value(release));
        w.value(&self.stamp);
        w.value(&self.groups);
        w.value(&self.alternate_name);
        w.value(&self.fscrypt_auth);
        w.value(&self.fscrypt_file);
        Message::new(Self::KIND, 6, 1, w.into_bytes()).with_data(self.data.clone())
    }

    fn decode(message: &Message) -> Result<Self> {
        let mut r = Reader::new(&message.front);
        let version = u8::try_from(message.version).unwrap_or(u8::MAX);
        if version < OLDEST {
            return Err(r.error("request", DecodeErrorKind::TooOld { version, oldest: OLDEST }));
        }
        let (mut request, releases) = ClientRequest::decode_head(&mut r)?;
        request.path = r.value()?;
        request.path2 = r.value()?;
        for _ in 0..releases {
            request.releases.push(r.value()?);
        }
        request.stamp = r.value()?;
        request.groups = r.value()?;
        if version >= 5 {
            request.alternate_name = r.value()?;
        }
        if version >= 6 {
            request.fscrypt_auth = r.value()?;
            request.fscrypt_file = r.value()?;
        }
        request.data = message.data.clone();
        Ok(request)
    }
}

message! {
    /// `MClientRequestForward`: another rank serves the object of a request.
    ClientRequestForward = 25, version 1, compat 1 {
        /// The rank.
        rank: u32;
        /// How often the request was forwarded, with this time.
        forwards: u32;
        /// Whether the client sends it there itself; always.
        must_resend: bool;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MessageBody;

    #[test]
    fn a_longer_head_of_a_newer_client_is_skipped() {
        let request = ClientRequest {
            op: ClientOp::MKDIR,
            path: FilePath::new(1, "a"),
            owner_uid: 7,
            owner_gid: 8,
            ..ClientRequest::default()
        };
        let message = request.encode(0);
        let mut bytes = message.front.to_vec();
        bytes[106..110].copy_from_slice(&(HEAD_BYTES + 4).to_le_bytes());
        bytes.splice(HEAD_BYTES as usize..HEAD_BYTES as usize, [1, 2, 3, 4]);
        let longer = Message { front: bytes.clone().into(), ..message.clone() };
        assert_eq!(ClientRequest::decode(&longer).unwrap(), request);
        bytes[106..110].copy_from_slice(&9u32.to_le_bytes());
        let shorter = Message { front: bytes.into(), ..message };
        assert_eq!(ClientRequest::decode(&shorter).unwrap_err().field, "head length");
    }

    #[test]
    fn heads_without_an_owner_are_those_of_older_clients() {
        let request =
            ClientRequest { op: ClientOp::GETATTR, retries: 3, uid: 5, ..Default::default() };
        let message = request.encode(0);
        for (version, bytes) in [(1u16, 98), (2, 106)] {
            let mut front = message.front.to_vec();
            front.drain(bytes..HEAD_BYTES as usize);
            front[..2].copy_from_slice(&version.to_le_bytes());
            let decoded =
                ClientRequest::decode(&Message { front: front.into(), ..message.clone() });
            assert_eq!(decoded.unwrap(), request);
        }
        assert_eq!(request.owner(), (5, 0));
        assert!(ClientRequest::decode(&Message { version: 3, ..message }).is_err());
    }

    #[test]
    fn a_path_has_names() {
        let path = FilePath::new(1, "a//b/");
        assert_eq!(path.names().collect::<Vec<_>>(), [b"a", b"b"]);
        assert_eq!(FilePath::default().names().count(), 0);
    }
}
