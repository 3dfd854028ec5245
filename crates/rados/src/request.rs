//! Requests of engines to the cluster: the vocabulary between the sources of requests and the client that
//! performs them.

use crate::{Operation, Place, PoolRequest, Reply, WatchId};
use bytes::Bytes;
use engine::Duration;
use types::Errno;

/// A request of an engine to the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterRequest {
    /// Performs operations on one object ([`Reply::Operation`]).
    Operate(Operation),
    /// Watches an object ([`Reply::Watching`]).
    Watch(Place),
    /// Ends a watch ([`Reply::Operation`]).
    Unwatch(WatchId),
    /// Notifies the watchers of an object and awaits their replies ([`Reply::Notified`]).
    Notify {
        /// The object.
        place: Place,
        /// Passed to the watchers as it is.
        payload: Bytes,
    },
    /// Has no response.
    Acknowledge {
        /// The watch that was notified.
        watch: WatchId,
        /// As in [`crate::WatchEvent::Notified`].
        notify_id: u64,
        /// Passed to the notifier as it is.
        reply: Bytes,
    },
    /// Asks for the identity of this client in watches and locks ([`Reply::Identity`]).
    Identify,
    /// Waits for the newest OSD map; later requests are sent with its epoch.
    NewestMap,
    /// Allocates or deletes a self-managed snapshot id of a pool.
    Pool(PoolRequest),
    /// Sends a command to the monitor.
    Command(String),
    /// Completes after the delay with an empty operation reply.
    Wait(Duration),
}

/// The result of a request.
pub type ClusterResponse = Result<Reply, Errno>;

/// Id of a request: the component of the source that sent it, and that component's own number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterRequestId {
    /// Component of the source.
    pub part: Part,
    /// The component's own number.
    pub number: u64,
}

impl ClusterRequestId {
    /// Id of a request whose response is dropped.
    pub const DROPPED: ClusterRequestId = ClusterRequestId { part: Part::DROPPED, number: 0 };
}

/// Component of a source. Each source gives its own meaning to the values from [`Part::FIRST_OWN`] on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part(pub u8);

impl Part {
    /// A step of a procedure.
    pub const STEP: Part = Part(0);
    /// The response is dropped.
    pub const DROPPED: Part = Part(1);
    /// The first value that a source may use for its own components.
    pub const FIRST_OWN: u8 = 2;
}

/// Progress of an operation that takes long, in steps of its own kind, such as objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Steps done.
    pub done: u64,
    /// All steps.
    pub total: u64,
}

/// An engine that sends requests to the cluster.
pub trait RequestSource {
    /// The next request; its response carries the same id.
    fn poll_request(&mut self) -> Option<(ClusterRequestId, ClusterRequest)>;
    /// Handles the response to one of its requests. A response that no component waits for is dropped.
    fn handle_response(&mut self, id: ClusterRequestId, answer: ClusterResponse);
}
