//! Steps that are requests on an open image: many, one after the other, some at a time.

use crate::steps::{Answer, Ask, AskId, Progress, Steps, Stop};
use crate::{Asker, Error, Header, Image, ImageEvent, Request};
use rados::{OperationReply, Reply, WatchEvent};
use std::ops::Range;

/// Requests under way at the same time.
const REQUESTS_MAX: usize = 16;

/// An open image, and what is still to be asked of it.
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

    pub fn progress(&self) -> Progress {
        let left = self.numbers.end.saturating_sub(self.numbers.start);
        Progress { done: self.total - left, total: self.total }
    }

    pub fn poll_ask(&mut self) -> Option<(AskId, Ask)> {
        self.image.poll_ask()
    }

    pub fn handle_answer(&mut self, id: AskId, answer: Answer) {
        self.image.handle_answer(id, answer);
    }

    pub fn handle_watch_event(&mut self, event: &WatchEvent) -> bool {
        self.image.handle_watch_event(event)
    }

    /// Whether all is over.
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

impl Steps {
    /// A request for each number on an image that is opened for that, watched and locked as others are.
    pub fn work(
        &mut self,
        step: &str,
        header: &Header,
        numbers: Range<u64>,
        request: impl Fn(u64, &Header) -> Option<Request>,
    ) -> Result<(), Stop> {
        if let Some(answer) = self.remembered() {
            return answer.map(|_| ()).map_err(|errno| Error::cluster(step, errno).into());
        }
        let mut work = match self.work.take() {
            Some(work) => work,
            None => Box::new(Work::new(Image::new(header.clone(), true)?, numbers)),
        };
        if !work.pump(&request) {
            self.work = Some(work);
            return Err(Stop::Waiting);
        }
        let outcome = match &work.error {
            None => Ok(Reply::Operation(OperationReply::default())),
            Some(error) => Err(error.errno()),
        };
        self.remember(outcome);
        let _ = self.remembered();
        work.error.map_or(Ok(()), |error| Err(error.into()))
    }
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Work({:?} left)", self.numbers)
    }
}
