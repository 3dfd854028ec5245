//! Executes reads, on the host's thread if that needs no waiting, else on a reader thread.

use crate::base::Snapshot;
use crate::cache::Store;
use crate::completions::Completions;
use crate::data::ReadError;
use crate::error::FilesError;
use crate::lock::lock;
use crate::object::{Body, Object};
use crate::omap::{self, PageRequest};
use bytes::Bytes;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread::JoinHandle;
use store::{
    Collection, Completion, DeviceFault, ObjectMeta, OmapPage, Outcome, Request, RequestKind,
    StoreError, Usage,
};
use thiserror::Error;
use types::HObject;

/// Bytes above which a read goes to a reader thread, since copying would delay the host.
const INLINE_READ_MAX: u64 = 64 << 10;
const READERS: usize = 2;

/// A reader thread was refused for a wait: a defect of this program.
#[derive(Debug, Error)]
#[error("a reader must not wait for itself")]
struct WaitsForItself;

/// Reason why a read has no result.
enum Failure {
    WouldWait,
    Store(StoreError),
}

type Answer<T> = Result<T, Failure>;

impl From<FilesError> for Failure {
    fn from(error: FilesError) -> Self {
        Failure::Store(StoreError::Device(error.into()))
    }
}

/// The result of a read if it needs no waiting.
pub fn answer_now(store: &Store, kind: &RequestKind) -> Option<Result<Outcome, StoreError>> {
    match answer(store, kind, false) {
        Ok(outcome) => Some(Ok(outcome)),
        Err(Failure::Store(error)) => Some(Err(error)),
        Err(Failure::WouldWait) => None,
    }
}

fn answer_waiting(store: &Store, kind: &RequestKind) -> Result<Outcome, StoreError> {
    answer(store, kind, true).map_err(|failure| match failure {
        Failure::Store(error) => error,
        Failure::WouldWait => StoreError::Device(DeviceFault::new(WaitsForItself)),
    })
}

fn answer(store: &Store, kind: &RequestKind, may_wait: bool) -> Answer<Outcome> {
    if let Some(error) = store.failure() {
        return Err(Failure::Store(error));
    }
    match kind {
        RequestKind::Commit(_) | RequestKind::Append(_) | RequestKind::Resume(_) => {
            unreachable!("commits go to the committing thread")
        }
        RequestKind::Meta { collection, object } => {
            let object = find(store, *collection, object, may_wait)?;
            let body = lock_body(&object, may_wait)?;
            let meta = body.exists.then(|| meta(store, &body, may_wait)).transpose()?;
            Ok(Outcome::Meta(meta))
        }
        RequestKind::Read { collection, object: name, offset, length } => {
            if *length > INLINE_READ_MAX && !may_wait {
                return Err(Failure::WouldWait);
            }
            let object = find(store, *collection, name, may_wait)?;
            let body = lock_existing(&object, may_wait)?;
            let read = body.data.read(&store.media, *offset, *length, may_wait);
            read.map(Outcome::Read).map_err(|error| read_failure(name, error))
        }
        RequestKind::OmapHeader { collection, object } => {
            let object = find(store, *collection, object, may_wait)?;
            let body = lock_existing(&object, may_wait)?;
            Ok(Outcome::OmapHeader(body.omap.header.clone()))
        }
        RequestKind::OmapGet { collection, object, keys } => {
            let object = find(store, *collection, object, may_wait)?;
            let body = lock_existing(&object, may_wait)?;
            omap_get(store, &body, keys, may_wait)
        }
        RequestKind::OmapList { collection, object, after, prefix, entries_max, bytes_max } => {
            let object = find(store, *collection, object, may_wait)?;
            let body = lock_existing(&object, may_wait)?;
            let (after, prefix) = (after.clone(), prefix.clone());
            let (entries_max, bytes_max) = (*entries_max, *bytes_max);
            let request = PageRequest { after, prefix, entries_max, bytes_max };
            Ok(Outcome::OmapPage(omap_page(store, &body, &request, may_wait)?))
        }
        RequestKind::List { collection, from, entries_max } => {
            check_collection(store, *collection)?;
            wait_allowed(may_wait)?;
            let (names, next) = store.names(*collection, from, *entries_max)?;
            Ok(Outcome::List(names, next))
        }
        RequestKind::Held { collection, after, entries_max } => {
            check_collection(store, *collection)?;
            let held = lock(&store.held);
            let (page, more) = held.changes().page(*collection, *after, *entries_max);
            Ok(Outcome::Held(page, more))
        }
        RequestKind::ReadHeld { collection, held: name } => {
            check_collection(store, *collection)?;
            let held = lock(&store.held);
            let changes =
                held.changes().get(*collection, *name).map(|value| value.changes.to_vec());
            Ok(Outcome::HeldRead(changes))
        }
        RequestKind::Collections => {
            Ok(Outcome::Collections(lock(&store.cache).collections.iter().copied().collect()))
        }
        RequestKind::Usage => {
            wait_allowed(may_wait)?;
            Ok(Outcome::Usage(usage(store)?))
        }
    }
}

fn find(store: &Store, at: Collection, name: &HObject, may_wait: bool) -> Answer<Arc<Object>> {
    check_collection(store, at)?;
    store.object(at, name, may_wait)?.ok_or(Failure::WouldWait)
}

fn check_collection(store: &Store, at: Collection) -> Answer<()> {
    if lock(&store.cache).collections.contains(&at) {
        return Ok(());
    }
    Err(Failure::Store(StoreError::NoCollection(at)))
}

fn wait_allowed(may_wait: bool) -> Answer<()> {
    if may_wait { Ok(()) } else { Err(Failure::WouldWait) }
}

fn lock_body(object: &Object, may_wait: bool) -> Answer<MutexGuard<'_, Body>> {
    if may_wait {
        return Ok(object.lock());
    }
    match object.body.try_lock() {
        Ok(body) => Ok(body),
        Err(TryLockError::Poisoned(poison)) => Ok(poison.into_inner()),
        Err(TryLockError::WouldBlock) => Err(Failure::WouldWait),
    }
}

fn lock_existing(object: &Object, may_wait: bool) -> Answer<MutexGuard<'_, Body>> {
    let body = lock_body(object, may_wait)?;
    if body.exists {
        return Ok(body);
    }
    let (collection, object) = (object.collection, object.name.clone());
    Err(Failure::Store(StoreError::NoObject { collection, object }))
}

fn read_failure(name: &HObject, error: ReadError) -> Failure {
    match error {
        ReadError::WouldBlock => Failure::WouldWait,
        ReadError::Corrupt { offset, length } => {
            tracing::warn!("checksum mismatch in {name} at {offset}, {length} bytes");
            Failure::Store(StoreError::Corrupt { object: name.clone(), offset, length })
        }
    }
}

fn meta(store: &Store, body: &Body, may_wait: bool) -> Answer<ObjectMeta> {
    let has_omap = !body.omap.header.is_empty() || has_pairs(store, body, may_wait)?;
    Ok(ObjectMeta { size: body.data.size, attrs: body.attrs.to_map(), has_omap })
}

fn has_pairs(store: &Store, body: &Body, may_wait: bool) -> Answer<bool> {
    if !body.omap.used {
        return Ok(false);
    }
    if body.omap.current.pairs.values().take(16).any(Option::is_some) {
        return Ok(true);
    }
    let request = PageRequest { entries_max: 1, ..PageRequest::everything() };
    Ok(!omap_page(store, body, &request, may_wait)?.pairs.is_empty())
}

/// The database snapshot, if this omap needs it and waiting is allowed.
fn omap_base(store: &Store, body: &Body, may_wait: bool) -> Answer<Option<Arc<Snapshot>>> {
    let layers = body.omap.layers();
    if !body.omap.used || layers.iter().any(|layer| layer.cleared) {
        return Ok(None);
    }
    wait_allowed(may_wait)?;
    // Taken while the body is locked, so that it matches the layers.
    Ok(Some(store.base.snapshot()))
}

fn omap_get(store: &Store, body: &Body, keys: &[Bytes], may_wait: bool) -> Answer<Outcome> {
    let base = omap_base(store, body, may_wait)?;
    let layers = body.omap.layers();
    let mut pairs = std::collections::BTreeMap::new();
    for key in keys {
        let stored = |key: &Bytes| match &base {
            Some(base) => base.omap_value(body.id, key),
            None => Ok(None),
        };
        if let Some(value) = omap::lookup(&layers, key, stored)? {
            pairs.insert(key.clone(), value);
        }
    }
    Ok(Outcome::OmapPairs(pairs))
}

fn omap_page(
    store: &Store,
    body: &Body,
    request: &PageRequest,
    may_wait: bool,
) -> Answer<OmapPage> {
    let layers = body.omap.layers();
    Ok(match omap_base(store, body, may_wait)? {
        Some(base) => omap::page(&layers, base.omap_pairs(body.id, request.start())?, request)?,
        None => omap::page::<FilesError>(&layers, std::iter::empty(), request)?,
    })
}

fn usage(store: &Store) -> Result<Usage, FilesError> {
    let available = store.bytes_available();
    let bytes_available =
        available.map_err(|error| FilesError::Io { what: "asking for free space", error })?;
    let bytes_used = store.bytes_used();
    Ok(Usage {
        bytes_total: bytes_used + bytes_available,
        bytes_available,
        bytes_used,
        objects: store.counts.objects.load(Ordering::Relaxed),
        ..Usage::default()
    })
}

/// Threads for the reads that have to wait.
pub struct Readers {
    requests: Option<Sender<Request>>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    /// Starts the threads.
    pub fn start(store: &Arc<Store>, completions: &Arc<Completions>) -> std::io::Result<Readers> {
        let (requests, queue) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let start = |number: usize| {
            let (queue, store, completions) = (queue.clone(), store.clone(), completions.clone());
            let name = format!("store-reader-{number}");
            let run = move || read_all(&queue, &store, &completions);
            std::thread::Builder::new().name(name).spawn(run)
        };
        let threads = (0..READERS).map(start).collect::<std::io::Result<_>>()?;
        Ok(Readers { requests: Some(requests), threads })
    }

    /// Queues a read; its completion follows.
    pub fn push(&self, request: Request) {
        let requests = self.requests.as_ref().expect("there until it is dropped");
        requests.send(request).expect("readers live as long as their queue");
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.requests = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn read_all(queue: &Mutex<Receiver<Request>>, store: &Store, completions: &Completions) {
    loop {
        let Ok(Request { token, kind }) = lock(queue).recv() else { return };
        let outcome = answer_waiting(store, &kind);
        completions.push(std::iter::once(Completion { token, outcome }));
    }
}
