//! Commands, as they come and as they are answered.

use crate::Export;
use crate::protocol::{CommandError, REQUEST_MAGIC, command, command_flags};
use bytes::Bytes;

/// The size of a request's head.
pub(crate) const REQUEST_LEN: usize = 28;
/// The most that one command reads or writes: what most clients assume where nothing is said.
pub(crate) const LENGTH_MAX: u32 = 32 << 20;

/// The most extents that one answer tells; clients ask again for the rest.
pub(crate) const EXTENTS_MAX: usize = 1 << 15;
/// Of an extent in an answer.
pub(crate) const EXTENT_LEN: usize = 8;

/// Names a command of one session that has not been completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub(crate) u64);

/// What is to be done with the export. Ranges lie within its size as it was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Read {
        offset: u64,
        length: u32,
    },
    Write {
        offset: u64,
        data: Bytes,
        fua: bool,
    },
    Flush,
    Trim {
        offset: u64,
        length: u32,
        fua: bool,
    },
    /// With `keeps_space` the range is to take space as if zeros had been written; `fast`: only if
    /// that takes less time than writing them ([`CommandError::NotSupported`] otherwise).
    WriteZeroes {
        offset: u64,
        length: u32,
        fua: bool,
        keeps_space: bool,
        fast: bool,
    },
    /// It may be read soon.
    Cache {
        offset: u64,
        length: u32,
    },
    BlockStatus {
        offset: u64,
        length: u32,
    },
}

impl Command {
    /// Bytes that it holds, or that its answer will.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Command::Read { length, .. } => *length as usize,
            Command::Write { data, .. } => data.len(),
            Command::BlockStatus { .. } => EXTENTS_MAX * EXTENT_LEN,
            _ => 0,
        }
    }
}

/// A part of what was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    Bytes(Bytes),
    Zeros(u64),
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// To [`Command::Read`]: the parts one behind the other, together as long as was asked for.
    Data(Vec<Data>),
    /// To [`Command::BlockStatus`]: lengths one behind the other, and whether there is data. May end
    /// early, but not before it begins.
    Status(Vec<(u64, bool)>),
}

/// The head of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    pub flags: u16,
    pub command: u16,
    pub cookie: u64,
    pub offset: u64,
    pub length: u32,
}

impl Request {
    /// `None` if it is none.
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

    /// What follows the head.
    pub fn payload_len(&self) -> u32 {
        if self.command == command::WRITE { self.length } else { 0 }
    }

    fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// The command that it asks for; `has_status` if block status was agreed upon.
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
        // A client may ask any command to be durable, which means something where it writes.
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
