//! The engine: turns requests into operations on devices.
//!
//! ```text
//! commit ─ queue ─ execute ─ record ─ batch ─ log ─ flush ─ completion
//!                     │                 └─ deferred writes: to their place, later
//!                     └─ large writes: to their place, beside the log
//! query ─ memory, tree, data ─ completion
//! ```
//!
//! The host calls [`BlockStore::poll_io`] until it returns nothing, passes completions of devices
//! to [`BlockStore::handle_io`], and takes completions of requests. Commits submitted between two
//! polls share one batch of the log.
//!
//! Each part of the state has one owner; a file uses only those of the lines below it.
//!
//! ```text
//! mod        the stages of a store: opening, replay in parts, open
//! opening    superblocks, replay
//! windows    replay within the granted memory
//! found      state that opening has found
//! mounted    routes requests, completions and timers
//! commits    queue, cleanups                checkpoint           queries  requests that read
//! dry_run    pages of a transaction         answer  from memory and tree
//! volume     the owners that these share    read  data of a read
//! admission  pages that checkpoints need   journal  batches of the log  data  changes of data
//! execute    transactions                   turn  work per turn          listing  of objects
//! working    objects of a transaction       tail  batches in doubt
//! meta       changed metadata and tree      contents  data in memory     devices  operations
//! held       changes that wait              pages  metadata space        waits  reads of pages
//! effects    of a transaction
//! deferred, inflight  writes to come        block_cache, empty_ranges    io, failure
//! ```

mod admission;
mod answer;
mod block_cache;
mod checkpoint;
mod commits;
mod contents;
mod data;
mod deferred;
mod devices;
mod dry_run;
mod effects;
mod empty_ranges;
mod execute;
mod failure;
mod found;
mod held;
mod held_index;
mod inflight;
mod io;
mod journal;
mod listing;
mod meta;
mod mounted;
mod opening;
mod pages;
mod queries;
mod read;
mod tail;
mod turn;
mod volume;
mod waits;
mod windows;
mod working;

pub use failure::StoreFailure;
pub use turn::Work;

use crate::device::{Io, IoDone};
use crate::fsck::Repairs;
use crate::options::Options;
use engine::{RequestToken, Time};
use mounted::Mounted;
use opening::{Opened, Opening};
use std::collections::VecDeque;
use store::{Completion, DeviceFault, ObjectStore, Request, RequestKind, StoreError};

enum Stage {
    Opening(Box<Opening>),
    /// A prefix of the log becomes a checkpoint; then the store is opened again from there.
    Window(Box<Mounted>),
    Mounted(Box<Mounted>),
}

/// The object store of one OSD on its devices: an engine without I/O or clock of its own.
pub struct BlockStore {
    options: Options,
    stage: Stage,
    /// Requests submitted before the store was open.
    waiting: Vec<(RequestToken, RequestKind)>,
    refused: VecDeque<Completion>,
    failure: Option<StoreFailure>,
    /// Repairs to be made before any request.
    repairs: Option<Repairs>,
}

impl BlockStore {
    /// Begins to open the store on the devices. Requests may be submitted at once; they wait.
    pub fn open(options: Options) -> Self {
        BlockStore::open_with(options, None)
    }

    /// As [`BlockStore::open`], and makes the repairs of a check before it executes any request.
    pub fn open_for_repair(options: Options, repairs: Repairs) -> Self {
        BlockStore::open_with(options, Some(repairs))
    }

    fn open_with(options: Options, repairs: Option<Repairs>) -> Self {
        let opening = Opening::new(options.clone(), 0, repairs.is_some());
        let mut store = BlockStore {
            stage: Stage::Opening(Box::new(opening)),
            options,
            waiting: Vec::new(),
            refused: VecDeque::new(),
            failure: None,
            repairs,
        };
        store.note_failure();
        store
    }

    /// Set once requests are executed; false again after a failure.
    pub fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Mounted(_)) && self.failure.is_none()
    }

    /// Reason why the store could not be opened or has stopped.
    pub fn failure(&self) -> Option<&StoreFailure> {
        self.failure.as_ref()
    }

    /// Next operation to submit to the devices; `None` if there is none for now.
    pub fn poll_io(&mut self) -> Option<Io> {
        let io = match &mut self.stage {
            Stage::Opening(opening) => opening.poll_io(),
            Stage::Window(mounted) => mounted.poll_io().or_else(|| self.end_window()),
            Stage::Mounted(mounted) => mounted.poll_io(),
        };
        self.note_failure();
        io
    }

    /// Handles a completed operation, in any order of completion.
    pub fn handle_io(&mut self, now: Time, done: IoDone) {
        match &mut self.stage {
            Stage::Opening(opening) => match opening.handle_io(done) {
                Some(Opened::Store(mounted)) => self.begin(now, mounted),
                Some(Opened::Window(mounted)) => self.stage = Stage::Window(mounted),
                None => {}
            },
            Stage::Window(mounted) | Stage::Mounted(mounted) => mounted.handle_io(now, done),
        }
        self.note_failure();
    }

    /// Time at which [`BlockStore::handle_timeout`] must be called; operations may follow from it.
    pub fn poll_timeout(&self) -> Option<Time> {
        match &self.stage {
            Stage::Opening(_) => None,
            Stage::Window(mounted) | Stage::Mounted(mounted) => mounted.poll_timeout(),
        }
    }

    /// Runs timers that are due, and continues unfinished work.
    pub fn handle_timeout(&mut self, now: Time) {
        match &mut self.stage {
            Stage::Opening(_) => {}
            Stage::Window(mounted) | Stage::Mounted(mounted) => mounted.handle_timeout(now),
        }
        self.note_failure();
    }

    /// Prepares the end of the host, which is optional: the store marks at once in its log, and not
    /// after a second of idleness, that all acknowledged commits are durable.
    /// [`BlockStore::is_closed`] tells when that is done.
    pub fn close(&mut self) {
        if let Stage::Mounted(mounted) = &mut self.stage {
            mounted.close();
        }
    }

    /// Set if no commit is in flight and all of them are marked as durable.
    pub fn is_closed(&self) -> bool {
        match &self.stage {
            Stage::Opening(_) | Stage::Window(_) => true,
            Stage::Mounted(mounted) => mounted.is_closed(),
        }
    }

    /// Work done since the store was opened.
    pub fn work(&self) -> Work {
        match &self.stage {
            Stage::Opening(_) => Work::default(),
            Stage::Window(mounted) | Stage::Mounted(mounted) => mounted.work(),
        }
    }

    /// Maximum of each kind of work in a single turn since the store was opened.
    pub fn most_work(&self) -> Work {
        match &self.stage {
            Stage::Opening(_) => Work::default(),
            Stage::Window(mounted) | Stage::Mounted(mounted) => mounted.most_work(),
        }
    }

    /// Requests a checkpoint, so that the next start has little to replay.
    pub fn request_checkpoint(&mut self) {
        if let Stage::Mounted(mounted) = &mut self.stage {
            mounted.request_checkpoint();
        }
    }

    /// Set if no operation, request or checkpoint is in progress.
    pub fn is_idle(&self) -> bool {
        match &self.stage {
            Stage::Opening(_) | Stage::Window(_) => self.failure.is_some(),
            Stage::Mounted(mounted) => mounted.is_idle(),
        }
    }

    /// Panics if parts of the state contradict each other. Examines everything.
    pub fn check_invariants(&self) {
        if let Stage::Mounted(mounted) | Stage::Window(mounted) = &self.stage {
            mounted.check_invariants();
        }
    }

    /// Bytes of changed metadata, and of deferred writes, that are in memory.
    pub fn buffered(&self) -> (usize, usize) {
        match &self.stage {
            Stage::Opening(opening) => opening.buffered(),
            Stage::Window(mounted) | Stage::Mounted(mounted) => mounted.buffered(),
        }
    }

    /// Opens the rest of the log once the checkpoint of a window is done.
    fn end_window(&mut self) -> Option<Io> {
        let Stage::Window(mounted) = &self.stage else { return None };
        if !mounted.is_idle() || mounted.failure().is_some() {
            return None;
        }
        let mut opening =
            Opening::new(self.options.clone(), mounted.next_io(), self.repairs.is_some());
        let io = opening.poll_io();
        self.stage = Stage::Opening(Box::new(opening));
        io
    }

    fn begin(&mut self, now: Time, mut mounted: Box<Mounted>) {
        mounted.set_time(now);
        if let Some(repairs) = self.repairs.take() {
            mounted.repair(repairs);
        }
        mounted.reserve_pages_ahead();
        mounted.begin();
        for (token, kind) in self.waiting.drain(..) {
            mounted.submit(token, kind);
        }
        self.stage = Stage::Mounted(mounted);
    }

    fn note_failure(&mut self) {
        if self.failure.is_some() {
            return;
        }
        self.failure = match &self.stage {
            Stage::Opening(opening) => opening.failure().cloned(),
            Stage::Window(mounted) | Stage::Mounted(mounted) => {
                mounted.failure().cloned().map(StoreFailure::Stopped)
            }
        };
        if let Some(failure) = &self.failure {
            let error = StoreError::Device(DeviceFault::new(failure.clone()));
            let waiting = self.waiting.drain(..);
            let refused =
                waiting.map(|(token, _)| Completion { token, outcome: Err(error.clone()) });
            self.refused.extend(refused);
        }
    }
}

impl ObjectStore for BlockStore {
    fn submit(&mut self, now: Time, request: Request) {
        let Request { token, kind } = request;
        match (&mut self.stage, &self.failure) {
            (Stage::Mounted(mounted), _) => {
                mounted.set_time(now);
                mounted.submit(token, kind);
            }
            (Stage::Opening(_) | Stage::Window(_), None) => self.waiting.push((token, kind)),
            (Stage::Opening(_) | Stage::Window(_), Some(failure)) => {
                let outcome = Err(StoreError::Device(DeviceFault::new(failure.clone())));
                self.refused.push_back(Completion { token, outcome });
            }
        }
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        if let Some(refused) = self.refused.pop_front() {
            return Some(refused);
        }
        match &mut self.stage {
            Stage::Opening(_) | Stage::Window(_) => None,
            Stage::Mounted(mounted) => mounted.poll_completion(),
        }
    }
}
