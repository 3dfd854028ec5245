//! Location and names of the objects, and the note about a pool's aging.

use super::mix::Mix;
use access::Connection;
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use rados::{Operation, Place, Reply};
use serde::{Deserialize, Serialize};
use types::{Errno, PoolId};
use wire::OsdOp;

const NOTE_OBJECT: &str = "sepiola_age";

/// Pool and namespace to age.
#[derive(Debug, Clone)]
pub struct Target {
    /// The pool.
    pub pool: PoolId,
    /// Namespace of the objects; empty by default.
    pub namespace: Bytes,
}

/// Parameters of a pool's aging, sufficient to compute the content of every object. Stored in the pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Seed of the sequence and of the bytes.
    pub seed: u64,
    /// Sizes of new objects, as [`Mix`] parses them.
    pub sizes: String,
    /// Target for the space of one copy, in bytes.
    pub target_bytes: u64,
    /// Number of passes after the fill.
    pub passes: u32,
    /// True if the sequence was completed without refusals.
    pub is_complete: bool,
}

impl Target {
    /// An object of this name in pool and namespace.
    pub fn place(&self, name: impl Into<Bytes>) -> Place {
        let mut place = Place::new(self.pool, name);
        place.namespace = self.namespace.clone();
        place
    }

    /// Object `number` of the sequence of `seed`.
    pub fn object(&self, seed: u64, number: u32) -> Place {
        self.place(format!("{NOTE_OBJECT}_{seed}_{number}"))
    }

    /// `None` if the pool was never aged.
    pub fn note(&self, connection: &mut Connection) -> Result<Option<Note>> {
        let read = Operation::new(self.place(NOTE_OBJECT), vec![OsdOp::read(0, 0)]);
        let reply = match answer_to(connection, read)? {
            Ok(Reply::Operation(reply)) => reply,
            Ok(other) => bail!("unexpected answer {other:?}"),
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno).context("reading how the pool was aged"),
        };
        let text = reply.ops.into_iter().next().map(|op| op.output).unwrap_or_default();
        serde_json::from_slice(&text).map(Some).context("reading how the pool was aged")
    }

    /// Stores the parameters in the pool, in place of earlier ones.
    pub fn set_note(&self, connection: &mut Connection, note: &Note) -> Result<()> {
        let text = serde_json::to_vec(note)?;
        let write = vec![OsdOp::write_full(text.into())];
        connection
            .operate(Operation::new(self.place(NOTE_OBJECT), write))
            .context("noting how the pool is aged")?;
        Ok(())
    }
}

impl Note {
    /// `sizes`, parsed.
    pub fn mix(&self) -> Result<Mix> {
        self.sizes.parse().map_err(anyhow::Error::msg)
    }
}

/// The reply to the only operation in flight.
fn answer_to(connection: &mut Connection, operation: Operation) -> Result<Result<Reply, Errno>> {
    let now = connection.now();
    let id = connection.client().submit(now, operation);
    loop {
        while let Some((done, answer)) = connection.client().poll_completion() {
            if done == id {
                return Ok(answer);
            }
        }
        connection.turn()?;
    }
}
