//! An open image: takes requests, issues accesses to objects.
//!
//! A writable image watches its header. After a notification, new requests wait until the header is read
//! again, so that writes carry the newest snapshot context and none goes behind the end of the image.

mod access;
mod assemble;
mod copyup;
mod existence;
mod header_watch;
mod lock;
mod object_map;
mod objects;
mod ownership;
mod parent;
mod request;
mod requests;

pub use request::{Outcome, Piece, Request, RequestId};

use crate::header::Header;
use crate::names::ImageSpec;
use crate::part;
use crate::task::Task;
use crate::{Error, Features, ObjectMap, header};
use access::Access;
use assemble::AccessResult;
use existence::{CopyUps, ExistenceCache};
use header_watch::HeaderWatch;
use lock::Lock;
use object_map::ObjectMapState;
use parent::ParentReads;
use rados::{ClusterRequest, ClusterRequestId, ClusterResponse, Reply, RequestSource};
use requests::{NextAccess, Requests};
use std::collections::VecDeque;
use stdx::Slab;
use types::{Errno, SnapId};

/// Events of an image that are not completions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageEvent {
    /// The new size of the image in bytes.
    Resized(u64),
    /// All requests fail from now on.
    Failed(Error),
    /// Last event after [`Image::close`].
    Closed,
}

/// See the crate's description.
#[derive(Debug)]
pub struct Image {
    header: Header,
    is_writable: bool,
    watch: HeaderWatch,
    lock: Lock,
    map: ObjectMapState,
    /// Reads the header again.
    refresh: Option<Task<Header>>,
    /// The header has changed since `refresh` began.
    is_outdated: bool,
    /// Set once the image has failed for good.
    failure: Option<Error>,
    is_closing: bool,
    requests: Requests,
    accesses: Slab<Access>,
    parent_reads: ParentReads,
    existence: ExistenceCache,
    copy_ups: CopyUps,
    outgoing: VecDeque<(ClusterRequestId, ClusterRequest)>,
    events: VecDeque<ImageEvent>,
}

impl Image {
    /// Makes an image from a header that [`crate::open`] read; fails if `is_writable` is not possible.
    pub fn new(header: Header, is_writable: bool) -> Result<Self, Error> {
        let name = header.spec.to_string();
        header.features.check_readable(&name)?;
        check_ancestors(&header)?;
        if is_writable {
            header.features.check_writable(&name)?;
            check_head(&header)?;
        }
        let mut image = Image {
            header,
            is_writable,
            watch: HeaderWatch::None,
            lock: Lock::default(),
            map: ObjectMapState::default(),
            refresh: None,
            is_outdated: false,
            failure: None,
            is_closing: false,
            requests: Requests::default(),
            accesses: Slab::new(),
            parent_reads: ParentReads::default(),
            existence: ExistenceCache::default(),
            copy_ups: CopyUps::default(),
            outgoing: VecDeque::new(),
            events: VecDeque::new(),
        };
        if is_writable {
            image.begin_watch();
        }
        Ok(image)
    }

    /// The header in use; it changes when a notification is handled.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.header.size
    }

    /// True if the image was opened for writing.
    pub fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Number of requests that have not completed.
    pub fn in_flight(&self) -> usize {
        self.requests.len()
    }

    /// True if requests need not wait for the header or the lock.
    fn is_ready(&self) -> bool {
        self.refresh.is_none() && self.watch.is_settled() && !self.lock.is_changing()
    }

    /// Submits a request. It may complete at once; [`Image::poll_completion`] returns the outcome in any
    /// case.
    pub fn submit(&mut self, request: Request) -> RequestId {
        let key = self.requests.submit(request);
        if self.is_ready()
            && self.requests.first_held().is_none()
            && !self.needs_lock_first(Some(key))
        {
            self.start(key);
        } else {
            self.requests.hold(key);
        }
        RequestId(key)
    }

    /// The next outcome; requests complete in any order.
    pub fn poll_completion(&mut self) -> Option<(RequestId, Result<Outcome, Error>)> {
        self.requests.poll_completion()
    }

    /// The next event. Polled after every input, as completions are.
    pub fn poll_event(&mut self) -> Option<ImageEvent> {
        self.events.pop_front()
    }

    /// Releases the lock and the watch once no request is in flight.
    pub fn close(&mut self) {
        self.is_closing = true;
        self.resume();
    }

    /// Resumes requests and changes that waited.
    fn resume(&mut self) {
        self.yield_lock_if_requested();
        while self.is_ready()
            && let Some(key) = self.requests.first_held()
            && !self.needs_lock_first(Some(key))
        {
            self.requests.release_first();
            self.start(key);
        }
        if self.requests.first_held().is_none() {
            self.needs_lock_first(None);
        }
        let is_over = self.is_closing && self.requests.is_empty() && self.is_ready();
        if is_over && !self.yield_lock() {
            self.end_watch();
        }
    }

    /// Fails all requests from now on.
    fn fail(&mut self, error: Error) {
        if self.failure.is_none() {
            self.events.push_back(ImageEvent::Failed(error.clone()));
            self.failure = Some(error);
        }
    }

    fn request(&mut self, part: rados::Part, number: u64, request: ClusterRequest) {
        self.outgoing.push_back((ClusterRequestId { part, number }, request));
    }

    fn read_header_again(&mut self) {
        self.is_outdated = self.refresh.is_some();
        if !self.is_outdated {
            self.refresh = Some(reopen(self.header.spec.clone(), &self.header.id));
        }
    }

    fn refreshed(&mut self, outcome: Result<Header, Error>) {
        self.refresh = None;
        match outcome {
            Ok(header) => self.take_header(header),
            Err(error) => self.fail(error),
        }
        if std::mem::take(&mut self.is_outdated) {
            self.read_header_again();
        }
        self.resume();
    }

    fn take_header(&mut self, header: Header) {
        let name = header.spec.to_string();
        if self.is_writable
            && let Err(error) = header.features.check_writable(&name)
        {
            self.fail(error);
        }
        if header.size != self.header.size {
            self.events.push_back(ImageEvent::Resized(header.size));
        }
        self.exchange(header);
        // Another client has found the map to be wrong.
        if self.is_writable && !self.header.has_map() {
            self.abandon_map();
        }
    }

    fn exchange(&mut self, header: Header) {
        let old = std::mem::replace(&mut self.header, header);
        if old.ancestors == self.header.ancestors {
            // Accesses in flight use the same ancestors as those that begin now.
            self.header.ancestors = old.ancestors;
        }
        let is_changed = (old.size, &old.parent) != (self.header.size, &self.header.parent);
        // Without the lock, another client may have rolled back to a snapshot, which removes objects.
        if is_changed || !self.header.features.contains(Features::EXCLUSIVE_LOCK) {
            self.existence.forget();
        }
    }

    fn start(&mut self, key: u64) {
        let overlap = self.header.parent.as_ref().map_or(0, |parent| parent.overlap);
        let refusal = self.requests.get(key).and_then(|request| self.check(request).err());
        self.requests.begin(key, overlap);
        if let Some(error) = refusal {
            self.requests.fail(key, error);
        }
        self.continue_request(key);
    }

    /// Fails a request that has not begun.
    fn refuse(&mut self, key: u64, error: Error) {
        self.requests.fail(key, error);
        self.complete(key);
    }

    /// Begins further accesses up to the bound; completes the request when all are done.
    fn continue_request(&mut self, key: u64) {
        let layout = self.header.layout;
        while let Some(NextAccess { waiter, object, action }) =
            self.requests.next_access(key, layout)
        {
            if !self.is_needless(object, &action) {
                self.requests.access_begins(key);
                self.access(waiter, object, action);
            }
        }
        if self.requests.is_idle(key) {
            self.complete(key);
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
    fn access_completed(&mut self, key: u64, index: usize, found: Result<AccessResult, Error>) {
        if self.requests.access_completed(key, index, found) {
            self.continue_request(key);
        }
    }

    fn complete(&mut self, key: u64) {
        if self.requests.complete(key) {
            self.drain();
        }
        if self.is_closing {
            self.resume();
        }
    }

    /// Lets a read-only image skip reads of objects that do not exist. A writable image uses the map that
    /// comes with the lock.
    pub fn use_map(&mut self, map: ObjectMap) {
        if !self.is_writable {
            self.map.set(Some(map));
        }
    }

    /// Panics if the state contradicts itself. Called between events.
    pub fn check_invariants(&self) {
        self.requests.check_invariants();
        self.parent_reads.check_invariants();
        self.copy_ups.check_invariants();
        self.map.check_invariants(|key| self.accesses.get(key).is_some());
        self.lock.check_invariants(self.requests.has_writes());
        assert!(!self.lock.is_held() || self.is_writable, "a reader has the exclusive lock");
        if self.requests.is_empty() {
            assert!(self.accesses.is_empty(), "accesses of requests that have completed");
            assert!(self.parent_reads.is_empty() && self.copy_ups.is_empty());
        }
    }
}

/// Reads the header of an open image again by its id, since it may have been renamed.
fn reopen(spec: ImageSpec, id: &str) -> Task<Header> {
    let id = id.to_owned();
    Task::new(async move |steps| {
        header::with_ancestors(&steps, async || {
            header::read_with_id(&steps, &spec, id.clone()).await
        })
        .await
    })
}

fn check_ancestors(header: &Header) -> Result<(), Error> {
    let has_parent = header.parent.as_ref().is_some_and(|parent| parent.overlap > 0);
    match has_parent && header.ancestors.is_empty() {
        true => Err(Error::refused(format!("the ancestors of {} were not read", header.spec))),
        false => Ok(()),
    }
}

fn check_head(header: &Header) -> Result<(), Error> {
    match header.snap {
        SnapId::HEAD => Ok(()),
        _ => Err(Error::refused(format!(
            "a snapshot of {} cannot be written; `image clone` creates an image from it that can",
            header.spec
        ))),
    }
}

impl RequestSource for Image {
    fn poll_request(&mut self) -> Option<(ClusterRequestId, ClusterRequest)> {
        let task = self.refresh.as_mut().and_then(RequestSource::poll_request);
        task.or_else(|| self.lock.poll_request()).or_else(|| self.outgoing.pop_front())
    }

    fn handle_response(&mut self, id: ClusterRequestId, answer: ClusterResponse) {
        match id.part {
            part::ACCESS => self.access_answered(id.number, answer),
            part::MAP => self.map_answered(id.number, answer),
            part::SNAPSHOT_MAPS => self.snapshot_map_answered(id.number, answer),
            part::LOCK => self.lock_answered(id, answer),
            part::TASK => {
                let Some(task) = &mut self.refresh else { return };
                task.handle_response(id, answer);
                if let Some(outcome) = task.poll_outcome() {
                    self.refreshed(outcome);
                }
            }
            part::WATCH if id.number == header_watch::DELAY => self.begin_watch(),
            part::WATCH => self.watch_answered(answer.map(|reply| match reply {
                Reply::Watching(watch) => Some(watch),
                _ => None,
            })),
            part::UNWATCH => self.events.push_back(ImageEvent::Closed),
            _ => {}
        }
    }
}

#[cfg(test)]
mod lock_tests;
#[cfg(test)]
mod map_tests;
#[cfg(test)]
mod test_cluster;
#[cfg(test)]
mod tests;
