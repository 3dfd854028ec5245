//! Interface of clients that use an image instead of single objects.

use engine::Time;
use rados::{Client, OpId, WatchEvent};
use rbd::ClusterResponse;

pub trait ImageUser {
    /// The first violation that the user has observed.
    fn failure(&self) -> Option<&str>;
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

    fn handle_watch_event(&mut self, event: &WatchEvent) -> bool;
    fn poll_timeout(&self) -> Option<Time>;

    /// Continues operations that wait for time to pass.
    fn handle_timeout(&mut self, client: &Client, now: Time);

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
