//! Interface of clients that use an image instead of single objects.

use engine::Time;
use rados::{Client, OpId, WatchEvent};
use rbd::{ClusterResponse, ImageSpec, Piece, Pool};
use types::PoolId;

/// Order of objects unless said otherwise: 4 KiB.
pub const ORDER_DEFAULT: u8 = 12;

/// Where images lie, and the size of their objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImagePlace {
    /// The pool of headers.
    pub pool: String,
    /// The pool of data objects, if it is another one.
    pub data_pool: Option<PoolId>,
    /// Objects have two to this power bytes.
    pub order: u8,
}

impl ImagePlace {
    /// Bytes of an object.
    pub fn object(&self) -> u64 {
        1 << self.order
    }

    /// The image with a name; `None` before the client knows the pool.
    pub fn spec(&self, client: &Client, name: String) -> Option<ImageSpec> {
        let id = client.pool_id(&self.pool)?;
        let pool = Pool { id, name: self.pool.clone(), namespace: String::new() };
        Some(ImageSpec { pool, name })
    }
}

/// A user of an image, driven by its client process.
pub trait ImageUser {
    /// The first violation that the user has observed.
    fn failure(&self) -> Option<&str>;
    /// Number of requests without a response.
    fn in_flight(&self) -> usize;

    /// The user's state, and the request that it waits for.
    fn describe(&self) -> String;

    /// True if the user can make a request.
    fn is_open(&self) -> bool;

    /// Makes an image, opens it, or makes a request on it.
    fn think(&mut self, client: &Client);

    /// Starts to read the whole image.
    fn look(&mut self);

    /// Sends requests to the cluster; returns true if there were any.
    fn send(&mut self, client: &mut Client, now: Time) -> bool;

    /// Handles a completion of the client; returns false if it belongs to another user.
    fn handle_completion(
        &mut self,
        client: &Client,
        operation: OpId,
        answer: &ClusterResponse,
    ) -> bool;

    /// Handles an event of a watch; returns false if the watch is another user's.
    fn handle_watch_event(&mut self, event: &WatchEvent) -> bool;
    /// Time at which [`ImageUser::handle_timeout`] is due.
    fn poll_timeout(&self) -> Option<Time>;

    /// Continues operations that wait for time to pass.
    fn handle_timeout(&mut self, client: &Client, now: Time);

    /// Panics if the state of the image contradicts itself.
    fn check_invariants(&self);

    /// True if a crash in the current state can be tolerated.
    fn may_crash(&self) -> bool {
        false
    }

    /// The process has died with all requests in flight.
    fn crash(&mut self) {}

    /// True if no request succeeds before the process restarts.
    fn is_shut_out(&self) -> bool {
        false
    }
}

/// The bytes of a read.
pub(super) fn bytes(pieces: &[Piece]) -> Vec<u8> {
    let mut all = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Data(data) => all.extend_from_slice(data),
            Piece::Zeros(length) => all.resize(all.len() + *length as usize, 0),
        }
    }
    all
}
