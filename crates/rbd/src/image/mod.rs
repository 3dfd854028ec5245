//! An open image: requests come in, accesses to objects go out.
//!
//! Who writes watches the header: when somebody changes it, what comes in waits until it is read
//! again, so that writes know the newest snapshots and nobody writes behind the end.

mod access;
mod assemble;
mod copyup;
mod header_watch;
mod lock;
mod object_map;
mod parent;
mod request;

pub use request::{Outcome, Piece, Request, RequestId};

use crate::header::Header;
use crate::steps::{Answer, Ask, AskId, Part, Task};
use crate::{Asker, Error, Features};
use access::Access;
use copyup::Guards;
use header_watch::HeaderWatch;
use lock::Lock;
use object_map::MapKeeper;
use parent::Fetch;
use rados::Reply;
use request::Pending;
use std::collections::VecDeque;
use stdx::Slab;
use types::SnapId;

/// What happened to an image without having been asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageEvent {
    /// The image has this size now.
    Resized(u64),
    /// Requests fail from now on.
    Failed(Error),
    /// After [`Image::close`]: nothing more is to come.
    Closed,
}

/// See the crate's description.
#[derive(Debug)]
pub struct Image {
    header: Header,
    is_writable: bool,
    watch: HeaderWatch,
    lock: Lock,
    map: MapKeeper,
    /// Reads the header again.
    refresh: Option<Task<Header>>,
    /// The header has changed since `refresh` began.
    is_outdated: bool,
    /// Why nothing goes any more.
    failure: Option<Error>,
    is_closing: bool,
    /// Requests that came while the header was not known for certain, in order.
    held: VecDeque<u64>,
    requests: Slab<Pending>,
    accesses: Slab<Access>,
    fetches: Slab<Fetch>,
    guards: Guards,
    asks: VecDeque<(AskId, Ask)>,
    completions: VecDeque<(RequestId, Result<Outcome, Error>)>,
    events: VecDeque<ImageEvent>,
}

impl Image {
    /// An image whose header was read by [`crate::open`]; an error if it is to be written and
    /// cannot be.
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
            map: MapKeeper::default(),
            refresh: None,
            is_outdated: false,
            failure: None,
            is_closing: false,
            held: VecDeque::new(),
            requests: Slab::new(),
            accesses: Slab::new(),
            fetches: Slab::new(),
            guards: Guards::default(),
            asks: VecDeque::new(),
            completions: VecDeque::new(),
            events: VecDeque::new(),
        };
        if is_writable {
            image.begin_watch();
        }
        Ok(image)
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    pub fn size(&self) -> u64 {
        self.header.size
    }

    pub fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Requests that have not completed.
    pub fn in_flight(&self) -> usize {
        self.requests.len()
    }

    /// Whether requests go on at once, instead of waiting for the header or the lock.
    fn is_ready(&self) -> bool {
        self.refresh.is_none() && self.watch.is_settled() && !self.lock.is_changing()
    }

    /// May complete at once; what comes of it is told by [`Image::poll_completion`] in any case.
    pub fn submit(&mut self, request: Request) -> RequestId {
        let key = self.requests.insert(Pending::new(request));
        if self.is_ready() && self.held.is_empty() && !self.needs_lock_first(Some(key)) {
            self.start(key);
        } else {
            self.held.push_back(key);
        }
        RequestId(key)
    }

    pub fn poll_completion(&mut self) -> Option<(RequestId, Result<Outcome, Error>)> {
        self.completions.pop_front()
    }

    pub fn poll_event(&mut self) -> Option<ImageEvent> {
        self.events.pop_front()
    }

    /// Takes leave of the others who have the image open, once nothing is in flight.
    pub fn close(&mut self) {
        self.is_closing = true;
        self.go_on();
    }

    /// Lets what has waited for something go on.
    fn go_on(&mut self) {
        self.yield_lock_if_asked();
        while self.is_ready()
            && let Some(key) = self.held.front().copied()
            && !self.needs_lock_first(Some(key))
        {
            self.held.pop_front();
            self.start(key);
        }
        if self.held.is_empty() {
            self.needs_lock_first(None);
        }
        let is_over = self.is_closing && self.requests.is_empty() && self.is_ready();
        if is_over && !self.yield_lock() {
            self.end_watch();
        }
    }

    /// Everything that is asked from now on fails.
    fn fail(&mut self, error: Error) {
        if self.failure.is_none() {
            self.events.push_back(ImageEvent::Failed(error.clone()));
            self.failure = Some(error);
        }
    }

    fn ask(&mut self, part: Part, number: u64, ask: Ask) {
        self.asks.push_back((AskId { part, number }, ask));
    }

    fn read_header_again(&mut self) {
        self.is_outdated = self.refresh.is_some();
        if !self.is_outdated {
            self.refresh = Some(crate::tasks::reopen(self.header.spec.clone(), &self.header.id));
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
        self.go_on();
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
        // Somebody has found out that the map is wrong.
        if self.is_writable && !self.header.has_map() {
            self.abandon_map();
        }
    }

    fn exchange(&mut self, header: Header) {
        let old = std::mem::replace(&mut self.header, header);
        if old.ancestors == self.header.ancestors {
            // What is under way is as good as what begins now.
            self.header.ancestors = old.ancestors;
        }
        let is_changed = (old.size, &old.parent) != (self.header.size, &self.header.parent);
        // Without the lock anybody may have gone back to a snapshot, which removes objects.
        if is_changed || !self.header.features.contains(Features::EXCLUSIVE_LOCK) {
            self.guards.forget();
        }
    }
}

fn check_ancestors(header: &Header) -> Result<(), Error> {
    let has_parent = header.parent.as_ref().is_some_and(|parent| parent.overlap > 0);
    match has_parent && header.ancestors.is_empty() {
        true => Err(Error::refused(format!("the parent of {} was not looked at", header.spec))),
        false => Ok(()),
    }
}

fn check_head(header: &Header) -> Result<(), Error> {
    match header.snap {
        SnapId::HEAD => Ok(()),
        _ => Err(Error::refused(format!(
            "a snapshot of {} is not written; `image clone` makes an image of it that is",
            header.spec
        ))),
    }
}

impl Asker for Image {
    fn poll_ask(&mut self) -> Option<(AskId, Ask)> {
        let task = self.refresh.as_mut().and_then(Asker::poll_ask);
        task.or_else(|| self.poll_lock_ask()).or_else(|| self.asks.pop_front())
    }

    fn handle_answer(&mut self, id: AskId, answer: Answer) {
        match id.part {
            Part::Access => self.access_answered(id.number, answer),
            Part::Map => self.map_answered(id.number, answer),
            Part::SnapshotMaps => self.snapshot_map_answered(id.number, answer),
            Part::Lock => self.lock_answered(id, answer),
            Part::Task => {
                let Some(task) = &mut self.refresh else { return };
                task.handle_answer(id, answer);
                if let Some(outcome) = task.poll_outcome() {
                    self.refreshed(outcome);
                }
            }
            Part::Watch if id.number == header_watch::REST => self.begin_watch(),
            Part::Watch => self.watch_answered(answer.map(|reply| match reply {
                Reply::Watching(watch) => Some(watch),
                _ => None,
            })),
            Part::Unwatch => self.events.push_back(ImageEvent::Closed),
            Part::Gather | Part::Transfer | Part::Nobody => {}
        }
    }
}

#[cfg(test)]
mod crowd;
#[cfg(test)]
mod lock_tests;
#[cfg(test)]
mod map_tests;
#[cfg(test)]
mod tests;
