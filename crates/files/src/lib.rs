//! The object store that keeps objects as files in a directory of any Linux file system.
//!
//! Format, invariants and the argument for recovery: `docs/internals/file-store.md`.
//!
//! A commit takes this way: [`FileStore::submit`](store::ObjectStore::submit) queues it; the
//! committing thread ([`commit`]) writes all that is queued to the log ([`log`]) with one flush,
//! applies it to the objects in memory and to their files in the page cache ([`apply`], [`data`],
//! [`media`]), and completes it. Now and then a checkpoint ([`checkpoint`]) syncs the files and
//! writes what changed in memory into the database ([`base`]), after which that part of the log is
//! free. Opening the store replays the rest of the log.
//!
//! A read is answered within `submit` if object and data are in memory, else by a reader thread
//! ([`read`]). What reads see is always durable, because a transaction is applied after its flush.
//!
//! Invariants:
//! * Only the committing thread changes objects.
//! * A request that was accepted is completed, whatever fails; a failing device stops the store.

#![warn(missing_docs)]
// An error names its object; it is rare and never on a hot path.
#![allow(clippy::result_large_err)]

mod apply;
mod base;
mod cache;
mod checkpoint;
mod clones;
mod commit;
mod completions;
mod data;
mod error;
mod held;
mod lock;
mod log;
mod media;
mod object;
mod omap;
mod read;
mod record;
mod slots;
mod verify;

#[cfg(test)]
#[path = "../tests/common/scratch.rs"]
mod scratch;

pub use completions::Waker;
pub use error::FilesError;
pub use media::OBJECTS;
pub use verify::Fault;

use apply::Applier;
use base::{Base, State, Update};
use cache::{Cache, Store};
use checkpoint::Checkpointer;
use commit::{Committer, Queue, Space, Stop, Work};
use completions::Completions;
use engine::Time;
use held::Held;
use lock::lock;
use log::Log;
use media::Media;
use read::Readers;
use slots::Slots;
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use store::{Completion, ObjectStore, Request, RequestKind};

/// Ids behind the last known one whose files a crash may have left: copies for a clone whose record
/// was not written.
const LEFTOVER_IDS: u64 = 64;

/// Entry of a directory with a store: its database.
pub const DATABASE: &str = "metadata.redb";

/// Entry of a directory where a store is being created: its instance.
const INTENDED: &str = "instance.new";

/// Options of a store, fixed while it is open.
#[derive(Debug, Clone)]
pub struct Options {
    /// Path of the log; by default `log` in the directory. May be on another device.
    pub log: Option<PathBuf>,
    /// Size in bytes of a new log.
    pub log_size: u64,
    /// Whether to flush at all. Without flushes, a crash of the machine (not of the process) loses data.
    pub sync: bool,
    /// Bytes for cached objects and database pages.
    pub cache_size: usize,
    /// Bound for open object files; beyond it one that was not used lately is closed.
    pub open_files_max: usize,
    /// Maximum time between checkpoints if there are changes.
    pub checkpoint_interval: Duration,
    /// Bound in bytes for the store's use of the file system; `None` for all of it.
    pub capacity: Option<u64>,
    /// Bytes of the file system that stay free, for metadata and for deletions.
    pub reserve: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            log: None,
            log_size: 256 << 20,
            sync: true,
            cache_size: 64 << 20,
            open_files_max: 256,
            checkpoint_interval: Duration::from_secs(10),
            capacity: None,
            reserve: 128 << 20,
        }
    }
}

/// An open store. Dropping it commits everything submitted and makes a checkpoint.
pub struct FileStore {
    store: Arc<Store>,
    queue: Arc<Queue>,
    completions: Arc<Completions>,
    /// Completions taken from the threads, or produced at once.
    ready: VecDeque<Completion>,
    readers: Readers,
    committer: Option<JoinHandle<()>>,
    /// Keeps other stores from the log.
    _log: File,
}

impl FileStore {
    /// Opens the store in `directory`, creating it if there is none, and replays its log.
    pub fn open(
        directory: &Path,
        options: &Options,
        waker: Waker,
    ) -> Result<FileStore, FilesError> {
        media::create_private(directory).map_err(FilesError::at(directory))?;
        let media = Media::open(directory, options.open_files_max, options.sync);
        let media = media.map_err(FilesError::at(directory))?;
        let (base, state) = Base::open(&directory.join(DATABASE), options.cache_size / 4)?;
        let log_path = options.log.clone().unwrap_or_else(|| directory.join("log"));
        let state = match state {
            Some(state) => state,
            None => create(&base, directory, &log_path, options)?,
        };
        let lock = log::lock(&log_path)?;
        let store = Arc::new(new_store(base, media, options)?);
        let (applier, log) = recover(&store, &state, &log_path, options.sync)?;
        start(store, applier, (log, lock), state.log.position, options, waker)
    }

    /// Waits until everything submitted is in the database; does not take completions.
    pub fn checkpoint(&self) {
        let (done, wait) = std::sync::mpsc::sync_channel(1);
        self.queue.push(Work::Checkpoint(done));
        // If the store has failed, the sender is dropped without an answer.
        let _ = wait.recv();
    }

    /// Checks the whole store: the part of the log that a crash would replay, then everything else after a
    /// checkpoint, which makes damage in the log harmless.
    pub fn verify(&mut self) -> Result<Vec<Fault>, FilesError> {
        let (done, wait) = std::sync::mpsc::sync_channel(1);
        self.queue.push(Work::CheckLog(done));
        let lost = wait.recv().ok().flatten().map(|missing| Fault::Log { missing });
        self.checkpoint();
        let faults = verify::verify(&self.store)?;
        Ok(lost.into_iter().chain(faults).collect())
    }

    /// Stops like a killed process: without a checkpoint, and without logging what is queued.
    pub fn abandon(mut self) {
        self.stop(Stop::Abandon);
    }

    fn stop(&mut self, stop: Stop) {
        self.queue.stop(stop);
        if let Some(committer) = self.committer.take() {
            let _ = committer.join();
        }
    }
}

/// Closes the store: commits everything submitted and makes a checkpoint.
impl Drop for FileStore {
    fn drop(&mut self) {
        self.stop(Stop::Close);
    }
}

impl ObjectStore for FileStore {
    /// Reads may be complete when this returns; the waker is not called for them.
    fn submit(&mut self, _now: Time, request: Request) {
        let Request { token, kind } = request;
        match kind {
            RequestKind::Commit(transaction) => {
                self.queue.push(Work::Commit { token, transaction, is_append: false });
            }
            RequestKind::Append(transaction) => {
                self.queue.push(Work::Commit { token, transaction, is_append: true });
            }
            RequestKind::Resume(collection) => self.queue.push(Work::Resume { token, collection }),
            kind => match read::answer_now(&self.store, &kind) {
                Some(outcome) => self.ready.push_back(Completion { token, outcome }),
                None => self.readers.push(Request { token, kind }),
            },
        }
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        if self.ready.is_empty() {
            self.ready = self.completions.take();
        }
        self.ready.pop_front()
    }
}

/// Creates a store: the log first, then the database state that makes the store exist.
fn create(
    base: &Base,
    directory: &Path,
    log_path: &Path,
    options: &Options,
) -> Result<State, FilesError> {
    let intended = directory.join(INTENDED);
    let instance = intended_instance(&intended).map_err(FilesError::at(&intended))?;
    if options.sync {
        sync_directory(directory)?;
    }
    log::create(log_path, instance, options.log_size, options.sync)?;
    if options.sync {
        let parents = [Some(directory), Some(&directory.join(OBJECTS)), log_path.parent()];
        parents.into_iter().flatten().try_for_each(sync_directory)?;
    }
    let state = State { instance, next_id: 1, ..State::default() };
    base.write(&Update { state: state.clone(), ..Update::default() })?;
    std::fs::remove_file(&intended).map_err(FilesError::at(&intended))?;
    Ok(state)
}

/// The instance of a store that is being created. It is durable before the log is made, so that the log of an
/// interrupted creation is known again.
fn intended_instance(path: &Path) -> std::io::Result<[u8; 16]> {
    if let Some(known) = std::fs::read(path).ok().and_then(|bytes| bytes.try_into().ok()) {
        return Ok(known);
    }
    let mut instance = [0; 16];
    rustix::rand::getrandom(&mut instance, rustix::rand::GetRandomFlags::empty())?;
    let mut options = File::options();
    let options = options.write(true).create(true).truncate(true).mode(media::FILE_MODE);
    let mut file = options.open(path)?;
    file.write_all(&instance)?;
    file.sync_all()?;
    Ok(instance)
}

/// Makes the directory's entries durable.
fn sync_directory(path: &Path) -> Result<(), FilesError> {
    // The parent of a bare file name is empty.
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let synced = File::open(path).and_then(|directory| directory.sync_all());
    synced.map_err(FilesError::at(path))
}

fn new_store(base: Base, media: Media, options: &Options) -> Result<Store, FilesError> {
    let snapshot = base.snapshot();
    let io = |error| FilesError::Io { what: "removing a dead file", error };
    for id in snapshot.dead_files()? {
        media.remove(id).map_err(io)?;
    }
    let cache = Cache::new(snapshot.collections()?, options.cache_size / 4 * 3);
    let mut held = Held::default();
    for (at, name, value) in snapshot.held()? {
        held.load(at, name, value);
    }
    Ok(Store::new(base, media, cache, held, options.capacity, options.reserve))
}

/// Replays the log to its end.
fn recover(
    store: &Arc<Store>,
    state: &State,
    log_path: &Path,
    sync: bool,
) -> Result<(Applier, Log), FilesError> {
    let mut slots = Slots::default();
    store.base.snapshot().slots()?.iter().for_each(|chunk| slots.load(chunk));
    let mut applier = Applier::new(store.clone(), state, slots);
    let replay = |record| applier.replay(&record);
    let log = Log::open(log_path, state.instance, state.log, sync, replay)?;
    let io = |error| FilesError::Io { what: "removing a leftover file", error };
    for id in applier.next_id()..applier.next_id() + LEFTOVER_IDS {
        store.media.remove(id).map_err(io)?;
    }
    let replayed = log.head().sequence - state.log.sequence;
    tracing::debug!("replayed {replayed} transactions");
    Ok((applier, log))
}

fn start(
    store: Arc<Store>,
    applier: Applier,
    (log, log_lock): (Log, File),
    frozen_position: u64,
    options: &Options,
    waker: Waker,
) -> Result<FileStore, FilesError> {
    let io = |error| FilesError::Io { what: "starting a thread", error };
    let queue = Arc::new(Queue::default());
    let completions = Arc::new(Completions::new(waker));
    let committer = Committer {
        store: store.clone(),
        queue: queue.clone(),
        completions: completions.clone(),
        applier,
        log,
        checkpointer: Checkpointer::start(store.clone()).map_err(io)?,
        checkpoint_interval: options.checkpoint_interval,
        collections: lock(&store.cache).collections.clone(),
        held: lock(&store.held).changes().clone(),
        fence: store::Fence::default(),
        space: Space::new(),
        pending: VecDeque::new(),
        frozen_at: Instant::now(),
        frozen_position,
    };
    let thread = std::thread::Builder::new().name("store-commit".into());
    let committer = Some(thread.spawn(move || committer.run()).map_err(io)?);
    let readers = Readers::start(&store, &completions).map_err(io)?;
    let ready = VecDeque::new();
    Ok(FileStore { store, queue, completions, ready, readers, committer, _log: log_lock })
}
