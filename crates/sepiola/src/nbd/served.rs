//! One image as an export: NBD's commands as requests on the image, and the way back.

use bytes::Bytes;
use nbd::{Command, CommandError, CommandId, Data, Export, Outcome};
use rbd::{Image, Piece, Request, RequestId};
use rt::SocketId;
use stdx::FastMap;
use types::Errno;

/// What clients write best in multiples of.
const PREFERRED_BLOCK: u32 = 4096;
/// Objects that one question for block status is answered about; the rest may be asked for again.
const STATUS_OBJECTS_MAX: u64 = 256;

/// Who asked for something.
pub type Asker = (SocketId, CommandId);

pub struct Served {
    name: Bytes,
    pub image: Image,
    askers: FastMap<RequestId, Asker>,
}

impl Served {
    pub fn new(name: Bytes, image: Image) -> Self {
        Served { name, image, askers: FastMap::default() }
    }

    pub fn name(&self) -> &Bytes {
        &self.name
    }

    pub fn export(&self, number: usize) -> Export {
        Export {
            number,
            size: self.image.size(),
            is_read_only: !self.image.is_writable(),
            preferred_block: PREFERRED_BLOCK,
        }
    }

    /// An outcome if there is nothing to do.
    pub fn begin(
        &mut self,
        asker: Asker,
        command: Command,
    ) -> Option<Result<Outcome, CommandError>> {
        let request = match command {
            Command::Read { offset, length } => Request::Read { offset, length: length.into() },
            // Durable it is in any case.
            Command::Write { offset, data, .. } => Request::Write { offset, data },
            // What was answered is durable; the rest nobody may rely on.
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
        self.askers.insert(self.image.submit(request), asker);
        None
    }

    fn status_max(&self) -> u64 {
        self.image.header().layout.object_size() * STATUS_OBJECTS_MAX
    }

    /// A command that has been executed.
    pub fn poll(&mut self) -> Option<(Asker, Result<Outcome, CommandError>)> {
        loop {
            let (id, outcome) = self.image.poll_completion()?;
            if let Some(asker) = self.askers.remove(&id) {
                return Some((asker, outcome.map(answer).map_err(|error| refusal(&error))));
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
