//! Steps that perform many requests on an open image, some at a time.

use crate::{Error, Header, Image, ImageEvent, Request};
use rados::{
    ClusterRequest, ClusterRequestId, ClusterResponse, HostedEngine, Progress, RequestSource,
    Steps, WatchEvent,
};
use std::ops::Range;

/// Concurrent requests on the image. Further ones wait.
const REQUESTS_MAX: usize = 16;

/// An open image, and the requests still to be made.
pub(crate) struct Work {
    image: Image,
    numbers: Range<u64>,
    total: u64,
    error: Option<Error>,
    is_closing: bool,
    is_closed: bool,
}

impl Work {
    fn new(image: Image, numbers: Range<u64>) -> Self {
        let total = numbers.end.saturating_sub(numbers.start);
        Work { image, numbers, total, error: None, is_closing: false, is_closed: false }
    }

    /// Progress: requests completed, and all.
    pub fn done(&self) -> Progress {
        let left = self.numbers.end.saturating_sub(self.numbers.start);
        Progress { done: self.total - left, total: self.total }
    }

    /// True when all requests have completed.
    fn pump(&mut self, request: &impl Fn(u64, &Header) -> Option<Request>) -> bool {
        self.submit(request);
        while let Some((_, outcome)) = self.image.poll_completion() {
            if let Err(error) = outcome {
                self.error.get_or_insert(error);
            }
            self.submit(request);
        }
        if self.image.in_flight() == 0 && !self.is_closing {
            self.is_closing = true;
            self.image.close();
        }
        while let Some(event) = self.image.poll_event() {
            match event {
                ImageEvent::Closed => self.is_closed = true,
                ImageEvent::Failed(error) => drop(self.error.get_or_insert(error)),
                ImageEvent::Resized(_) => {}
            }
        }
        self.is_closed
    }

    fn submit(&mut self, request: &impl Fn(u64, &Header) -> Option<Request>) {
        while self.error.is_none() && self.image.in_flight() < REQUESTS_MAX {
            let Some(number) = self.numbers.next() else { return };
            if let Some(request) = request(number, self.image.header()) {
                self.image.submit(request);
            }
        }
    }
}

impl RequestSource for Work {
    fn poll_request(&mut self) -> Option<(ClusterRequestId, ClusterRequest)> {
        self.image.poll_request()
    }

    fn handle_response(&mut self, id: ClusterRequestId, answer: ClusterResponse) {
        self.image.handle_response(id, answer);
    }
}

impl HostedEngine for Work {
    fn handle_watch_event(&mut self, event: &WatchEvent) -> bool {
        self.image.handle_watch_event(event)
    }

    fn progress(&self) -> Option<Progress> {
        Some(self.done())
    }
}

/// Performs one request, or none, for each number on an image that is opened for this step, with watch and
/// lock.
pub(crate) async fn work(
    steps: &Steps,
    header: &Header,
    numbers: Range<u64>,
    request: impl Fn(u64, &Header) -> Option<Request>,
) -> Result<(), Error> {
    let work = Work::new(Image::new(header.clone(), true)?, numbers);
    let turn = |work: &mut Work| {
        let outcome = |error: Option<Error>| error.map_or(Ok(()), Err);
        work.pump(&request).then(|| outcome(work.error.take()))
    };
    steps.host(work, turn).await
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Work({:?} left)", self.numbers)
    }
}
