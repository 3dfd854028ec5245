//! Constants of the protocol (`doc/proto.md` of the reference implementation).

/// The first word of the server.
pub(crate) const GREETING_MAGIC: u64 = 0x4e42_444d_4147_4943;
pub(crate) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
pub(crate) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
pub(crate) const REQUEST_MAGIC: u32 = 0x2560_9513;
pub(crate) const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
pub(crate) const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Handshake flags of both sides.
pub(crate) mod handshake {
    pub const FIXED_NEWSTYLE: u16 = 1;
    pub const NO_ZEROES: u16 = 2;
}

pub(crate) mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const STARTTLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
}

pub(crate) mod option_reply {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    const ERROR: u32 = 1 << 31;
    pub const UNSUPPORTED: u32 = ERROR | 1;
    pub const POLICY: u32 = ERROR | 2;
    pub const INVALID: u32 = ERROR | 3;
    pub const TLS_REQUIRED: u32 = ERROR | 5;
    pub const UNKNOWN: u32 = ERROR | 6;
    pub const TOO_BIG: u32 = ERROR | 9;
}

pub(crate) mod info {
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const BLOCK_SIZE: u16 = 3;
}

/// Flags that tell the capabilities of an export.
pub(crate) mod transmission_flags {
    pub const HAS_FLAGS: u16 = 1 << 0;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const FLUSH: u16 = 1 << 2;
    pub const FUA: u16 = 1 << 3;
    pub const TRIM: u16 = 1 << 5;
    pub const WRITE_ZEROES: u16 = 1 << 6;
    pub const DONT_FRAGMENT: u16 = 1 << 7;
    pub const MULTI_CONN: u16 = 1 << 8;
    pub const CACHE: u16 = 1 << 10;
    pub const FAST_ZERO: u16 = 1 << 11;
}

pub(crate) mod command {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISCONNECT: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const CACHE: u16 = 5;
    pub const WRITE_ZEROES: u16 = 6;
    pub const BLOCK_STATUS: u16 = 7;
}

pub(crate) mod command_flags {
    pub const FUA: u16 = 1 << 0;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DONT_FRAGMENT: u16 = 1 << 2;
    pub const ONE_EXTENT: u16 = 1 << 3;
    pub const FAST_ZERO: u16 = 1 << 4;
}

pub(crate) mod chunk {
    pub const DONE: u16 = 1;
    pub const NONE: u16 = 0;
    pub const DATA: u16 = 1;
    pub const HOLE: u16 = 2;
    pub const BLOCK_STATUS: u16 = 5;
    pub const ERROR: u16 = 1 << 15 | 1;
}

/// Flags of an extent in `base:allocation`.
pub(crate) mod extent {
    pub const HOLE: u32 = 1;
    pub const ZERO: u32 = 2;
}

/// The only metadata context, and its id.
pub(crate) const ALLOCATION: &[u8] = b"base:allocation";
pub(crate) const ALLOCATION_ID: u32 = 1;

/// Errors of commands. The numbers are the protocol's, which may differ from the system's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[repr(u32)]
pub enum CommandError {
    /// `NBD_EPERM`: the export is read-only.
    #[error("not permitted")]
    Permission = 1,
    /// `NBD_EIO`: the image could not be read or written.
    #[error("input/output error")]
    Io = 5,
    /// `NBD_EINVAL`: the command or its range makes no sense.
    #[error("invalid argument")]
    Invalid = 22,
    /// `NBD_ENOSPC`: the range lies behind the end of the export, or the cluster is full.
    #[error("no space left")]
    NoSpace = 28,
    /// `NBD_EOVERFLOW`: the command is larger than the server accepts.
    #[error("value too large")]
    Overflow = 75,
    /// `NBD_ENOTSUP`: the server does not have this command or flag, or it would not be fast.
    #[error("not supported")]
    NotSupported = 95,
    /// `NBD_ESHUTDOWN`: the server is about to end the session.
    #[error("the server is shutting down")]
    Shutdown = 108,
}
