//! Reading rows of shards, as they are settled, and computing those that no member can be asked for.
//!
//! ```text
//! reader    a job from its beginning to its end      local     reads of our own store, for us or a primary
//! state     jobs and requests in flight              client    reads of a client, stripe by stripe
//! plan      which rows of which shards to read       content   rows as they were read or decoded
//! ranges    sets of rows                             own       old rows of our shard for a write
//! ```
//!
//! A *job* reads rows of one object for a purpose. It asks the shards that have them, and if some of these
//! are holes or cannot be read, as many others as it takes to decode their rows: data shards first. Each
//! answer has the version of the stored object info, and shards of different versions are never combined: a
//! shard with another version is read again a few times, and then left out like one that cannot be read.
//!
//! Jobs that have ended are taken one by one ([`RowReads::take_done`]), and the role goes on with them. The
//! end of an interval drops all jobs; answers to them are ignored.

mod client;
mod content;
mod local;
mod own;
mod plan;
mod ranges;
mod reader;
mod state;

pub(crate) use client::ClientRead;
pub use client::{Read, ReadError};
pub(crate) use content::Content;
pub(crate) use local::{handle_read_rows, read_own, settled};
pub(crate) use own::{OwnRead, begin_own};
pub(crate) use ranges::RowSet;
pub(crate) use reader::{begin, forget_source, handle_local, handle_rows};
pub(crate) use state::{Done, Failed, OwnRows, Purpose, Reader, RowReads, RowRequest, Versions};
