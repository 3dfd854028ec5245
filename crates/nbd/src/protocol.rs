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
    /// `NBD_FLAG_FIXED_NEWSTYLE`
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// `NBD_FLAG_NO_ZEROES`
    pub const NO_ZEROES: u16 = 2;
}

pub(crate) mod option {
    /// `NBD_OPT_EXPORT_NAME`: selects an export, without an error reply.
    pub const EXPORT_NAME: u32 = 1;
    /// `NBD_OPT_ABORT`: ends the session.
    pub const ABORT: u32 = 2;
    /// `NBD_OPT_LIST`: names of all exports.
    pub const LIST: u32 = 3;
    /// `NBD_OPT_STARTTLS`
    pub const STARTTLS: u32 = 5;
    /// `NBD_OPT_INFO`: describes an export.
    pub const INFO: u32 = 6;
    /// `NBD_OPT_GO`: describes an export and selects it.
    pub const GO: u32 = 7;
    /// `NBD_OPT_STRUCTURED_REPLY`
    pub const STRUCTURED_REPLY: u32 = 8;
    /// `NBD_OPT_LIST_META_CONTEXT`
    pub const LIST_META_CONTEXT: u32 = 9;
    /// `NBD_OPT_SET_META_CONTEXT`
    pub const SET_META_CONTEXT: u32 = 10;
}

pub(crate) mod option_reply {
    /// `NBD_REP_ACK`: the last reply to an option that succeeded.
    pub const ACK: u32 = 1;
    /// `NBD_REP_SERVER`: the name of an export.
    pub const SERVER: u32 = 2;
    /// `NBD_REP_INFO`: one item of an export's description.
    pub const INFO: u32 = 3;
    /// `NBD_REP_META_CONTEXT`: id and name of a metadata context.
    pub const META_CONTEXT: u32 = 4;
    const ERROR: u32 = 1 << 31;
    /// `NBD_REP_ERR_UNSUP`
    pub const UNSUPPORTED: u32 = ERROR | 1;
    /// `NBD_REP_ERR_POLICY`
    pub const POLICY: u32 = ERROR | 2;
    /// `NBD_REP_ERR_INVALID`
    pub const INVALID: u32 = ERROR | 3;
    /// `NBD_REP_ERR_TLS_REQD`
    pub const TLS_REQUIRED: u32 = ERROR | 5;
    /// `NBD_REP_ERR_UNKNOWN`
    pub const UNKNOWN: u32 = ERROR | 6;
    /// `NBD_REP_ERR_TOO_BIG`
    pub const TOO_BIG: u32 = ERROR | 9;
}

pub(crate) mod info {
    /// `NBD_INFO_EXPORT`: size and flags.
    pub const EXPORT: u16 = 0;
    /// `NBD_INFO_NAME`
    pub const NAME: u16 = 1;
    /// `NBD_INFO_BLOCK_SIZE`: smallest, preferred and largest.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Flags that tell the capabilities of an export.
pub(crate) mod transmission_flags {
    /// `NBD_FLAG_HAS_FLAGS`, always set.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// `NBD_FLAG_READ_ONLY`
    pub const READ_ONLY: u16 = 1 << 1;
    /// `NBD_FLAG_SEND_FLUSH`
    pub const FLUSH: u16 = 1 << 2;
    /// `NBD_FLAG_SEND_FUA`
    pub const FUA: u16 = 1 << 3;
    /// `NBD_FLAG_SEND_TRIM`
    pub const TRIM: u16 = 1 << 5;
    /// `NBD_FLAG_SEND_WRITE_ZEROES`
    pub const WRITE_ZEROES: u16 = 1 << 6;
    /// `NBD_FLAG_SEND_DF`
    pub const DONT_FRAGMENT: u16 = 1 << 7;
    /// `NBD_FLAG_CAN_MULTI_CONN`: a flush on one connection covers writes of the others.
    pub const MULTI_CONN: u16 = 1 << 8;
    /// `NBD_FLAG_SEND_CACHE`
    pub const CACHE: u16 = 1 << 10;
    /// `NBD_FLAG_SEND_FAST_ZERO`
    pub const FAST_ZERO: u16 = 1 << 11;
}

pub(crate) mod command {
    /// `NBD_CMD_READ`
    pub const READ: u16 = 0;
    /// `NBD_CMD_WRITE`
    pub const WRITE: u16 = 1;
    /// `NBD_CMD_DISC`
    pub const DISCONNECT: u16 = 2;
    /// `NBD_CMD_FLUSH`
    pub const FLUSH: u16 = 3;
    /// `NBD_CMD_TRIM`
    pub const TRIM: u16 = 4;
    /// `NBD_CMD_CACHE`
    pub const CACHE: u16 = 5;
    /// `NBD_CMD_WRITE_ZEROES`
    pub const WRITE_ZEROES: u16 = 6;
    /// `NBD_CMD_BLOCK_STATUS`
    pub const BLOCK_STATUS: u16 = 7;
}

pub(crate) mod command_flags {
    /// `NBD_CMD_FLAG_FUA`: the reply waits until the change is durable.
    pub const FUA: u16 = 1 << 0;
    /// `NBD_CMD_FLAG_NO_HOLE`: a zeroed range stays allocated.
    pub const NO_HOLE: u16 = 1 << 1;
    /// `NBD_CMD_FLAG_DF`: the reply to a read is one chunk.
    pub const DONT_FRAGMENT: u16 = 1 << 2;
    /// `NBD_CMD_FLAG_REQ_ONE`: block status of the first extent is enough.
    pub const ONE_EXTENT: u16 = 1 << 3;
    /// `NBD_CMD_FLAG_FAST_ZERO`
    pub const FAST_ZERO: u16 = 1 << 4;
}

pub(crate) mod chunk {
    /// `NBD_REPLY_FLAG_DONE`: the last chunk of a reply.
    pub const DONE: u16 = 1;
    /// `NBD_REPLY_TYPE_NONE`
    pub const NONE: u16 = 0;
    /// `NBD_REPLY_TYPE_OFFSET_DATA`
    pub const DATA: u16 = 1;
    /// `NBD_REPLY_TYPE_OFFSET_HOLE`
    pub const HOLE: u16 = 2;
    /// `NBD_REPLY_TYPE_BLOCK_STATUS`
    pub const BLOCK_STATUS: u16 = 5;
    /// `NBD_REPLY_TYPE_ERROR`
    pub const ERROR: u16 = 1 << 15 | 1;
}

/// Flags of an extent in `base:allocation`.
pub(crate) mod extent {
    /// `NBD_STATE_HOLE`: no space is allocated.
    pub const HOLE: u32 = 1;
    /// `NBD_STATE_ZERO`: the range reads as zeros.
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
