//! A window of requests on an image, completed in order of submission.

use access::BlockingClient;
use anyhow::{Context, Result};
use rbd::{Error, Image, Outcome, Request, RequestId};
use std::collections::VecDeque;

/// Requests in flight, each of up to one object. Further ones wait.
const IN_FLIGHT_MAX: usize = 16;

/// Requests in flight, the oldest first.
pub struct Window {
    requests: VecDeque<(u64, RequestId, Option<Result<Outcome, Error>>)>,
}

impl Window {
    /// A window without requests.
    pub fn new() -> Self {
        Window { requests: VecDeque::with_capacity(IN_FLIGHT_MAX) }
    }

    /// True if no request is in flight.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// True if the next request has to wait.
    pub fn is_full(&self) -> bool {
        self.requests.len() >= IN_FLIGHT_MAX
    }

    /// `offset` is named in the error if the request fails.
    pub fn submit(&mut self, image: &mut Image, offset: u64, request: Request) {
        self.requests.push_back((offset, image.submit(request), None));
    }

    /// Waits for the oldest request.
    pub fn next(&mut self, client: &mut BlockingClient, image: &mut Image) -> Result<Outcome> {
        loop {
            while let Some((id, outcome)) = image.poll_completion() {
                let place = self.requests.iter_mut().find(|(_, request, _)| *request == id);
                place.expect("what completes was submitted").2 = Some(outcome);
            }
            if let Some((_, _, Some(_))) = self.requests.front() {
                let (offset, _, outcome) = self.requests.pop_front().expect("it was looked at");
                let outcome = outcome.expect("it was looked at");
                return outcome.with_context(|| format!("at offset {offset}"));
            }
            client.turn(image)?;
        }
    }
}
