//! Commands and their outcomes.

use crate::Export;
use crate::protocol::{CommandError, REQUEST_MAGIC, command, command_flags};
use bytes::Bytes;

/// Length of a request header in bytes.
pub(crate) const REQUEST_LEN: usize = 28;
/// Bytes that one command reads or writes at most; most clients assume this bound by default.
pub(crate) const LENGTH_MAX: u32 = 32 << 20;

/// Extents in one reply at most; clients ask again for the rest.
pub(crate) const EXTENTS_MAX: usize = 1 << 15;
/// Length of an extent in a reply, in bytes.
pub(crate) const EXTENT_LEN: usize = 8;

/// Id of a command that has not completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub(crate) u64);

/// A command on the export. Ranges lie within the export's current size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Read a range; answered by [`Outcome::Data`].
    Read {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
    },
    /// Overwrite a range.
    Write {
        /// First byte.
        offset: u64,
        /// The new bytes, in the buffer in which they were received.
        data: Bytes,
        /// The reply waits until the data is durable (`NBD_CMD_FLAG_FUA`).
        fua: bool,
    },
    /// Make everything durable that was acknowledged before.
    Flush,
    /// The range is not needed any more; it may read as zeros or as before.
    Trim {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
        /// As in [`Command::Write`].
        fua: bool,
    },
    /// `keeps_space`: the range stays allocated. `fast`: the command fails with
    /// [`CommandError::NotSupported`] unless it is faster than writing zeros.
    WriteZeroes {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
        /// As in [`Command::Write`].
        fua: bool,
        /// `NBD_CMD_FLAG_NO_HOLE`
        keeps_space: bool,
        /// `NBD_CMD_FLAG_FAST_ZERO`
        fast: bool,
    },
    /// Hint that the range may be read soon.
    Cache {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
    },
    /// Ask which parts of a range hold data; answered by [`Outcome::Status`].
    BlockStatus {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
    },
}

impl Command {
    /// Bytes that the command or its reply holds.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Command::Read { length, .. } => *length as usize,
            Command::Write { data, .. } => data.len(),
            Command::BlockStatus { .. } => EXTENTS_MAX * EXTENT_LEN,
            _ => 0,
        }
    }
}

/// A part of the data that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    /// Bytes as stored.
    Bytes(Bytes),
    /// This many zeros, for which no memory is held.
    Zeros(u64),
}

/// Outcome of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The command has no result.
    Done,
    /// Outcome of [`Command::Read`]: consecutive parts that cover the range.
    Data(Vec<Data>),
    /// Outcome of [`Command::BlockStatus`]: consecutive lengths, each with whether it holds data. They may
    /// cover a non-empty beginning of the range only.
    Status(Vec<(u64, bool)>),
}

/// A request header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    /// Flags of the command (`NBD_CMD_FLAG_*`).
    pub flags: u16,
    /// Kind of the command (`NBD_CMD_*`).
    pub command: u16,
    /// Number that the client gives; the reply repeats it.
    pub cookie: u64,
    /// First byte of the range.
    pub offset: u64,
    /// Length of the range in bytes.
    pub length: u32,
}

impl Request {
    /// `None` if the magic is wrong.
    pub fn decode(head: &[u8; REQUEST_LEN]) -> Option<Self> {
        let u16_at = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let u32_at = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four"));
        let u64_at = |at: usize| u64::from_be_bytes(head[at..at + 8].try_into().expect("eight"));
        (u32_at(0) == REQUEST_MAGIC).then(|| Request {
            flags: u16_at(4),
            command: u16_at(6),
            cookie: u64_at(8),
            offset: u64_at(16),
            length: u32_at(24),
        })
    }

    /// Length in bytes of the payload behind the header.
    pub fn payload_len(&self) -> u32 {
        if self.command == command::WRITE { self.length } else { 0 }
    }

    fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// The command of the request; `has_status` tells whether block status was negotiated.
    pub fn command(
        &self,
        data: Bytes,
        export: &Export,
        has_status: bool,
    ) -> Result<Command, CommandError> {
        self.check_flags()?;
        let (offset, length) = (self.offset, self.length);
        let fua = self.has(command_flags::FUA);
        let command = match self.command {
            command::READ => Command::Read { offset, length },
            command::WRITE => Command::Write { offset, data, fua },
            command::FLUSH => return Ok(Command::Flush),
            command::TRIM => Command::Trim { offset, length, fua },
            command::CACHE => Command::Cache { offset, length },
            command::WRITE_ZEROES => Command::WriteZeroes {
                offset,
                length,
                fua,
                keeps_space: self.has(command_flags::NO_HOLE),
                fast: self.has(command_flags::FAST_ZERO),
            },
            command::BLOCK_STATUS if has_status && length > 0 => {
                Command::BlockStatus { offset, length }
            }
            _ => return Err(CommandError::Invalid),
        };
        self.check_range(export)?;
        Ok(command)
    }

    fn writes(&self) -> bool {
        matches!(self.command, command::WRITE | command::TRIM | command::WRITE_ZEROES)
    }

    fn check_flags(&self) -> Result<(), CommandError> {
        let own = match self.command {
            command::READ => command_flags::DONT_FRAGMENT,
            command::WRITE_ZEROES => command_flags::NO_HOLE | command_flags::FAST_ZERO,
            command::BLOCK_STATUS => command_flags::ONE_EXTENT,
            _ => 0,
        };
        // FUA is allowed on every command; it has an effect on writes.
        let known = own | command_flags::FUA;
        if self.flags & !known == 0 { Ok(()) } else { Err(CommandError::Invalid) }
    }

    fn check_range(&self, export: &Export) -> Result<(), CommandError> {
        if self.writes() && export.is_read_only {
            return Err(CommandError::Permission);
        }
        let end = self.offset.checked_add(self.length.into());
        if end.is_none_or(|end| end > export.size) {
            let is_write = matches!(self.command, command::WRITE | command::WRITE_ZEROES);
            return Err(if is_write { CommandError::NoSpace } else { CommandError::Invalid });
        }
        let is_long = self.command == command::READ && self.length > LENGTH_MAX;
        if is_long { Err(CommandError::Overflow) } else { Ok(()) }
    }
}
