//! The reads of a group whose members keep shards: those in progress in the present interval.

use crate::execute::Need;
use crate::tokens::Token;
use stdx::Slab;
use store::RequestKind;
use types::EVersion;

/// A part of an object that an attempt of a request waits for.
#[derive(Debug)]
pub(super) struct NeedOf {
    pub request: u64,
    pub attempt: u32,
    pub need: Need,
}

/// The reads in progress of one group in the present interval, which drops them when it ends.
#[derive(Debug, Default)]
pub(crate) struct ShardReads {
    /// Reads of data, by ticket.
    pub(super) data: Slab<NeedOf>,
    /// Reads of the own store that wait until it shows what is committed, oldest first.
    pub(super) unsettled: Vec<Unsettled>,
}

/// A read of one object, or of several once the store shows all changes up to a version.
#[derive(Debug)]
pub(super) struct Unsettled {
    pub through: EVersion,
    pub token: Token,
    pub kind: RequestKind,
}

impl ShardReads {
    /// The interval is over.
    pub fn clear(&mut self) {
        *self = ShardReads::default();
    }
}
