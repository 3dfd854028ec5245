//! Requests of clients, and our own: from admission to the reply.

pub(crate) mod admission;
pub(crate) mod copying;
pub(crate) mod healing;
pub(crate) mod listing;
pub(crate) mod memory;
pub(crate) mod object;
pub(crate) mod objects;
pub(crate) mod queues;
pub(crate) mod replies;
pub(crate) mod request;
pub(crate) mod requests;
pub(crate) mod snapshots;
pub(crate) mod turns;

use copying::Copies;
use memory::Memory;
use requests::Requests;

/// All requests of the OSD.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    /// Requests in progress; the key of one is the ticket of its write.
    pub requests: Requests,
    /// Memory that requests have reserved.
    pub memory: Memory,
    pub copies: Copies,
}
