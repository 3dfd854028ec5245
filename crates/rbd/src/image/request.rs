//! Requests on an open image, and their assembly from accesses.

use super::Image;
use super::access::{Action, Waiter};
use super::assemble::{AccessResult, map, pieces};
use crate::{Error, Extent};
use bytes::Bytes;
use std::ops::Range;
use types::Errno;

/// Concurrent accesses of one request. Further ones wait.
const ACCESSES_MAX: usize = 64;

/// Id of a request, unique within one image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    Read {
        offset: u64,
        length: u64,
    },
    Write {
        offset: u64,
        data: Bytes,
    },
    /// The range reads as zeros afterwards, and its space is freed where whole objects allow it.
    Discard {
        offset: u64,
        length: u64,
    },
    /// Asks which parts of a range hold data.
    Map {
        offset: u64,
        length: u64,
    },
    /// Copies the parent's data in the range into the image.
    CopyUp {
        offset: u64,
        length: u64,
    },
    /// Completes at once: everything that has completed is durable already.
    Flush,
}

impl Request {
    fn range(&self) -> (u64, u64) {
        match self {
            Request::Read { offset, length }
            | Request::Discard { offset, length }
            | Request::Map { offset, length }
            | Request::CopyUp { offset, length } => (*offset, *length),
            Request::Write { offset, data } => (*offset, data.len() as u64),
            Request::Flush => (0, 0),
        }
    }

    fn writes(&self) -> bool {
        matches!(self, Request::Write { .. } | Request::Discard { .. } | Request::CopyUp { .. })
    }
}

/// A part of a range that was read; parts are consecutive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Data(Bytes),
    Zeros(u64),
}

impl Piece {
    pub fn len(&self) -> u64 {
        match self {
            Piece::Data(data) => data.len() as u64,
            Piece::Zeros(length) => *length,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// Outcome of [`Request::Read`].
    Data(Vec<Piece>),
    /// Outcome of [`Request::Map`]: consecutive lengths, each with whether it holds data.
    Map(Vec<(u64, bool)>),
}

/// A request that has not completed.
#[derive(Debug)]
pub(super) struct Pending {
    /// Accesses not yet begun.
    work: Option<Work>,
    kind: Kind,
    is_write: bool,
    has_begun: bool,
    /// Accesses in flight.
    in_flight: usize,
    /// In the order of the image; only for requests that return data.
    extents: Vec<Extent>,
    found: Vec<AccessResult>,
    error: Option<Error>,
}

#[derive(Debug)]
struct Work {
    request: Request,
    /// The part of the range for which no access was begun yet.
    rest: Range<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Map,
    Other,
}

impl Pending {
    pub fn new(request: Request) -> Self {
        let kind = match request {
            Request::Read { .. } => Kind::Read,
            Request::Map { .. } => Kind::Map,
            _ => Kind::Other,
        };
        let (offset, length) = request.range();
        let rest = offset..offset.saturating_add(length);
        let (extents, found) = (Vec::new(), Vec::new());
        let (is_write, has_begun) = (request.writes(), false);
        let work = Some(Work { request, rest });
        Pending { work, kind, is_write, has_begun, in_flight: 0, extents, found, error: None }
    }

    pub fn writes(&self) -> bool {
        self.is_write
    }

    fn outcome(self) -> Result<Outcome, Error> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let parts = self.extents.into_iter().zip(self.found);
        Ok(match self.kind {
            Kind::Other => Outcome::Done,
            Kind::Read => Outcome::Data(pieces(parts)),
            Kind::Map => Outcome::Map(map(parts)),
        })
    }
}

impl Image {
    pub(super) fn start(&mut self, key: u64) {
        let Some(pending) = self.requests.get_mut(key) else { return };
        pending.has_begun = true;
        if pending.is_write {
            self.write_begun();
        }
        let Some(work) = self.requests.get(key).and_then(|pending| pending.work.as_ref()) else {
            return;
        };
        if let Err(error) = self.check(&work.request) {
            self.fail_request(key, error);
        }
        self.clip(key);
        self.continue_request(key);
    }

    /// Limits a copy-up to the part of the image that has a parent.
    fn clip(&mut self, key: u64) {
        let overlap = self.header.parent.as_ref().map_or(0, |parent| parent.overlap);
        let work = self.requests.get_mut(key).and_then(|pending| pending.work.as_mut());
        if let Some(Work { request: Request::CopyUp { .. }, rest }) = work {
            rest.end = rest.end.min(overlap).max(rest.start);
        }
    }

    /// Fails a request that has not begun.
    pub(super) fn refuse(&mut self, key: u64, error: Error) {
        self.fail_request(key, error);
        self.complete(key);
    }

    /// Begins further accesses up to the bound; completes the request when all are done.
    fn continue_request(&mut self, key: u64) {
        let (layout, object_size) = (self.header.layout, self.header.layout.object_size());
        loop {
            let Some(pending) = self.requests.get_mut(key) else { return };
            if pending.in_flight >= ACCESSES_MAX {
                return;
            }
            let Some(Work { request, rest }) = &mut pending.work else { break };
            let Some(extent) = layout.extents(rest.start, rest.end - rest.start).next() else {
                pending.work = None;
                break;
            };
            let buffer_offset = rest.start - request.range().0;
            rest.start += extent.length;
            let extent = Extent { buffer_offset, ..extent };
            let action = action(request, &extent, object_size);
            let index = pending.extents.len();
            if pending.kind != Kind::Other {
                pending.extents.push(extent);
                pending.found.push(AccessResult::Nothing);
            }
            if self.is_needless(extent.object, &action) {
                continue;
            }
            if let Some(pending) = self.requests.get_mut(key) {
                pending.in_flight += 1;
            }
            self.access(Waiter::Request { key, index }, extent.object, action);
        }
        if self.requests.get(key).is_some_and(|pending| pending.in_flight == 0) {
            self.complete(key);
        }
    }

    /// Stops beginning accesses; the request fails when those in flight end.
    fn fail_request(&mut self, key: u64, error: Error) {
        if let Some(pending) = self.requests.get_mut(key) {
            pending.work = None;
            pending.error = Some(error);
        }
    }

    fn check(&self, request: &Request) -> Result<(), Error> {
        if let Some(error) = &self.failure {
            return Err(error.clone());
        }
        let image = &self.header.spec;
        if request.writes() && !self.is_writable {
            return Err(Error::cluster(format!("{image} was opened to be read only"), Errno::ROFS));
        }
        let (offset, length) = request.range();
        match offset.checked_add(length) {
            Some(end) if end <= self.header.size => Ok(()),
            _ => Err(Error::refused(format!(
                "{length} bytes at {offset} are not within the {} bytes of {image}",
                self.header.size
            ))),
        }
    }

    /// One access of a request has completed.
    pub(super) fn access_completed(
        &mut self,
        key: u64,
        index: usize,
        found: Result<AccessResult, Error>,
    ) {
        let Some(pending) = self.requests.get_mut(key) else { return };
        pending.in_flight -= 1;
        match found {
            Ok(AccessResult::Nothing) => {}
            Ok(found) => pending.found[index] = found,
            Err(error) => self.fail_request(key, error),
        }
        self.continue_request(key);
    }

    fn complete(&mut self, key: u64) {
        let Some(pending) = self.requests.remove(key) else { return };
        let is_write = pending.is_write && pending.has_begun;
        self.completions.push_back((RequestId(key), pending.outcome()));
        if is_write {
            self.write_ended();
        }
        if self.is_closing {
            self.resume();
        }
    }
}

fn action(request: &Request, extent: &Extent, object_size: u64) -> Action {
    let Extent { offset, length, buffer_offset, .. } = *extent;
    match request {
        Request::Read { .. } => Action::Read { offset, length },
        Request::Map { .. } => Action::Map { offset, length },
        Request::Write { data, .. } => {
            let (start, end) = (buffer_offset as usize, (buffer_offset + length) as usize);
            Action::Write { offset, data: data.slice(start..end) }
        }
        Request::CopyUp { .. } => Action::CopyUp,
        _ if length == object_size => Action::Remove,
        _ if offset + length == object_size => Action::Truncate { size: offset },
        _ => Action::Zero { offset, length },
    }
}
