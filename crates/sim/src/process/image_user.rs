//! Those who work with an image instead of single objects.

use engine::Time;
use rados::{Client, OpId, WatchEvent};
use rbd::ClusterResponse;

pub trait ImageUser {
    /// What he was told and must not have been told.
    fn failure(&self) -> Option<&str>;
    fn in_flight(&self) -> usize;

    /// How it stands with what he waits for.
    fn describe(&self) -> String;

    /// Whether he can make a request.
    fn is_open(&self) -> bool;

    /// Makes an image, opens it, or makes a request on it.
    fn think(&mut self, client: &Client);

    /// Reads all there is.
    fn look(&mut self);

    /// Passes on what is asked of the cluster; whether there was anything.
    fn send(&mut self, client: &mut Client, now: Time) -> bool;

    /// An answer to the client; false if it is for somebody else.
    fn handle_completion(
        &mut self,
        client: &Client,
        operation: OpId,
        answer: &ClusterResponse,
    ) -> bool;

    fn handle_watch_event(&mut self, event: &WatchEvent) -> bool;
    fn poll_timeout(&self) -> Option<Time>;

    /// What has waited for time to pass goes on.
    fn handle_timeout(&mut self, client: &Client, now: Time);

    /// Whether he can live with that.
    fn may_crash(&self) -> bool {
        false
    }

    /// The process is gone, with all that was under way.
    fn crash(&mut self) {}

    /// Nothing works any more before the process starts again.
    fn is_shut_out(&self) -> bool {
        false
    }
}
