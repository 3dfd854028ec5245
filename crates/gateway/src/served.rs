//! One image as an export: translates NBD commands to requests on the image, and back.

use bytes::Bytes;
use nbd::{Command, CommandError, CommandId, Data, Export, Outcome};
use rbd::{Image, Piece, Request, RequestId};
use rt::SocketId;
use stdx::FastMap;
use types::Errno;

/// Preferred block size in bytes.
const PREFERRED_BLOCK: u32 = 4096;
/// Objects that one query for block status covers; clients ask again for the rest.
const STATUS_OBJECTS_MAX: u64 = 256;

/// Origin of a command.
pub(crate) type CommandKey = (SocketId, CommandId);

/// An image, its name as an export, and its commands in flight.
pub struct ServedImage {
    name: Bytes,
    pub(crate) image: Image,
    commands: FastMap<RequestId, CommandKey>,
}

impl ServedImage {
    /// An export of that name.
    pub fn new(name: Bytes, image: Image) -> Self {
        ServedImage { name, image, commands: FastMap::default() }
    }

    pub(crate) fn name(&self) -> &Bytes {
        &self.name
    }

    pub(crate) fn export(&self, number: usize) -> Export {
        Export {
            number,
            size: self.image.size(),
            is_read_only: !self.image.is_writable(),
            preferred_block: PREFERRED_BLOCK,
        }
    }

    /// The outcome, if the command completes at once.
    pub(crate) fn begin(
        &mut self,
        key: CommandKey,
        command: Command,
    ) -> Option<Result<Outcome, CommandError>> {
        let request = match command {
            Command::Read { offset, length } => Request::Read { offset, length: length.into() },
            // Every write is durable (FUA) anyway.
            Command::Write { offset, data, .. } => Request::Write { offset, data },
            // Completed writes are durable; others are not covered by a flush.
            Command::Flush | Command::Cache { .. } => return Some(Ok(Outcome::Done)),
            Command::Trim { offset, length, .. } => {
                Request::Discard { offset, length: length.into() }
            }
            Command::WriteZeroes { fast: true, keeps_space: true, .. } => {
                return Some(Err(CommandError::NotSupported));
            }
            Command::WriteZeroes { offset, length, .. } => {
                Request::Discard { offset, length: length.into() }
            }
            Command::BlockStatus { offset, length } => {
                let length = u64::from(length).min(self.status_max());
                Request::Map { offset, length }
            }
        };
        self.commands.insert(self.image.submit(request), key);
        None
    }

    fn status_max(&self) -> u64 {
        self.image.header().layout.object_size() * STATUS_OBJECTS_MAX
    }

    /// The next completed command.
    pub(crate) fn poll(&mut self) -> Option<(CommandKey, Result<Outcome, CommandError>)> {
        loop {
            let (id, outcome) = self.image.poll_completion()?;
            if let Some(key) = self.commands.remove(&id) {
                return Some((key, outcome.map(answer).map_err(|error| refusal(&error))));
            }
        }
    }
}

fn answer(outcome: rbd::Outcome) -> Outcome {
    match outcome {
        rbd::Outcome::Done => Outcome::Done,
        rbd::Outcome::Data(pieces) => Outcome::Data(pieces.into_iter().map(data).collect()),
        rbd::Outcome::Map(map) => Outcome::Status(map),
    }
}

fn data(piece: Piece) -> Data {
    match piece {
        Piece::Data(bytes) => Data::Bytes(bytes),
        Piece::Zeros(length) => Data::Zeros(length),
    }
}

fn refusal(error: &rbd::Error) -> CommandError {
    tracing::warn!(%error, "a command failed");
    match error.errno() {
        Errno::NOSPC | Errno::DQUOT => CommandError::NoSpace,
        Errno::ROFS | Errno::PERM | Errno::ACCES => CommandError::Permission,
        Errno::INVAL => CommandError::Invalid,
        Errno::BLOCKLISTED => CommandError::Shutdown,
        _ => CommandError::Io,
    }
}
