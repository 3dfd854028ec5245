//! The embedded control store: one redb file, on a thread of its own.
//!
//! Each key's value is preceded by the revision of the transaction that wrote it. A commit is answered after
//! redb has made it durable.
//!
//! The file belongs to one process. Leases last as long as that does: their keys go when the next one opens
//! the file.
//!
//! After an error of the disk, or when there is no room, redb refuses everything until the file is opened
//! anew. That is done with the next request, and again with each one until it succeeds: what is then there
//! was read from the disk.

#![warn(missing_docs)]

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use control::{
    CommitError, Completion, Entry, LeaseError, LeaseId, Observer, Request, Revision, Transaction,
};
use engine::{Storage, Time};
use machine::private_file;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::cell::{Cell, RefCell};
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

const ENTRIES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("entries");
const COUNTERS: TableDefinition<'_, &str, u64> = TableDefinition::new("counters");
/// Keys that were written with a lease.
const LEASED: TableDefinition<'_, &str, LeaseId> = TableDefinition::new("leased");
const REVISION: &str = "revision";
/// The only lease: no other monitor can take over from this one.
const LEASE: LeaseId = 1;
/// There if the state lies elsewhere now.
const MOVED: &str = "moved";
const REVISION_LEN: usize = 8;
/// Memory for redb's cache: the control state is a few megabytes.
const CACHE_LEN: usize = 4 << 20;
/// Requests under way; the monitor has a handful.
const QUEUE_CAPACITY: usize = 1024;

/// How long a load waits that found the store unreadable.
const RETRY: Duration = Duration::from_millis(500);

/// Opens the database on its medium.
type Opener = Box<dyn Fn(&Path) -> Result<Database> + Send>;

/// The store itself.
pub struct ControlStore {
    path: PathBuf,
    opener: Opener,
    /// None after it failed, until it is opened anew.
    database: RefCell<Option<Rc<Database>>>,
    /// The newest transaction that was acknowledged.
    newest: Cell<Revision>,
}

fn open_database(path: &Path) -> Result<Database> {
    // The file holds all keys, so only its owner may read it.
    let file = private_file(OpenOptions::new().read(true).write(true).create(true), path)?;
    Ok(Database::builder().set_cache_size(CACHE_LEN).create_file(file)?)
}

impl ControlStore {
    /// Opens or creates the file, and ends the leases of the process before.
    ///
    /// # Errors
    ///
    /// If it cannot be opened, or was moved to an etcd.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_on(path, Box::new(open_database))
    }

    fn open_on(path: &Path, opener: Opener) -> Result<Self> {
        let store = ControlStore {
            path: path.to_owned(),
            opener,
            database: RefCell::default(),
            newest: Cell::new(0),
        };
        let database = store.database()?;
        let transaction = database.begin_write()?;
        transaction.open_table(ENTRIES)?;
        transaction.open_table(COUNTERS)?;
        transaction.open_table(LEASED)?;
        transaction.commit()?;
        drop(database);
        if store.is_moved()? {
            bail!(
                "the control store {} was moved to an etcd and is no longer valid; \
                 etcd.json in the same directory says where it is",
                path.display()
            );
        }
        store.end_leases().context("ending the leases of the process before")?;
        Ok(store)
    }

    /// Opens it anew if it failed.
    fn database(&self) -> Result<Rc<Database>> {
        if let Some(database) = &*self.database.borrow() {
            return Ok(database.clone());
        }
        let opened = (self.opener)(&self.path);
        let database =
            opened.with_context(|| format!("opening the control store {}", self.path.display()))?;
        let newest = self.newest.get();
        if newest > 0 {
            let found = revision(&database)?;
            if found < newest {
                bail!(
                    "{} has lost acknowledged changes: it is at revision {found}, and was at {newest}",
                    self.path.display()
                );
            }
            tracing::warn!(path = %self.path.display(), "the control store is open again");
        }
        let database = Rc::new(database);
        self.database.replace(Some(database.clone()));
        Ok(database)
    }

    /// After any failure, the state that redb has in memory is not to be trusted.
    fn give_up_database<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|_| drop(self.database.take()))
    }

    fn is_moved(&self) -> Result<bool> {
        let counters = self.database()?.begin_read()?.open_table(COUNTERS)?;
        Ok(counters.get(MOVED)?.is_some())
    }

    /// The store cannot be opened again.
    pub fn mark_moved(&self) -> Result<()> {
        let transaction = self.database()?.begin_write()?;
        transaction.open_table(COUNTERS)?.insert(MOVED, 1)?;
        Ok(transaction.commit()?)
    }

    fn end_leases(&self) -> Result<()> {
        let mut ends = Transaction::default();
        let table = self.database()?.begin_read()?.open_table(LEASED)?;
        for item in table.iter()? {
            ends.delete(item?.0.value());
        }
        if !ends.is_empty() {
            self.commit(&ends)??;
        }
        Ok(())
    }

    fn handle(&self, request: &Request) -> Completion {
        let reason = |error: anyhow::Error| format!("{}: {error:#}", self.path.display());
        match request {
            Request::Range { token, prefix } => match self.range(prefix) {
                Ok((entries, revision)) => Completion::Loaded { token: *token, entries, revision },
                Err(error) => Completion::Unread { token: *token, reason: reason(error) },
            },
            Request::Commit { token, transaction } => {
                let outcome = self.commit(transaction);
                let failed = |error| Err(CommitError::Failed { reason: reason(error) });
                Completion::Committed { token: *token, outcome: outcome.unwrap_or_else(failed) }
            }
            Request::Grant { token, .. } | Request::Renew { token, .. } => {
                let outcome = self.database().map(|_| LEASE);
                let failed = |error| LeaseError::Failed { reason: reason(error) };
                Completion::Leased { token: *token, outcome: outcome.map_err(failed) }
            }
        }
    }

    /// All keys that begin with `prefix`, and the newest revision.
    pub fn range(&self, prefix: &str) -> Result<(Vec<Entry>, Revision)> {
        self.give_up_database(self.try_range(prefix))
    }

    fn try_range(&self, prefix: &str) -> Result<(Vec<Entry>, Revision)> {
        let transaction = self.database()?.begin_read()?;
        let table = transaction.open_table(ENTRIES)?;
        let mut entries = Vec::new();
        for item in table.range(prefix..)? {
            let (key, value) = item?;
            if !key.value().starts_with(prefix) {
                break;
            }
            let (revision, value) = split(value.value());
            let value = Bytes::copy_from_slice(value);
            entries.push(Entry { key: key.value().to_owned(), value, revision });
        }
        let counters = transaction.open_table(COUNTERS)?;
        let revision = counters.get(REVISION)?.map_or(0, |value| value.value());
        Ok((entries, revision))
    }

    fn commit(&self, changes: &Transaction) -> Result<Result<Revision, CommitError>> {
        let outcome = self.give_up_database(self.try_commit(changes))?;
        self.newest.set(outcome.as_ref().map_or(0, |revision| *revision).max(self.newest.get()));
        Ok(outcome)
    }

    fn try_commit(&self, changes: &Transaction) -> Result<Result<Revision, CommitError>> {
        let transaction = self.database()?.begin_write()?;
        let revision = {
            let mut table = transaction.open_table(ENTRIES)?;
            for (key, expected) in &changes.compare {
                let found = table.get(key.as_str())?.map(|value| split(value.value()).0);
                if found != *expected {
                    return Ok(Err(CommitError::Conflict));
                }
            }
            let mut counters = transaction.open_table(COUNTERS)?;
            let last = counters.get(REVISION)?.map_or(0, |value| value.value());
            if changes.is_empty() {
                return Ok(Ok(last));
            }
            let revision = last + 1;
            counters.insert(REVISION, revision)?;
            let mut leased = transaction.open_table(LEASED)?;
            for (key, value) in &changes.writes {
                match value {
                    Some(value) => {
                        table.insert(key.as_str(), join(revision, value).as_slice())?;
                    }
                    None => {
                        table.remove(key.as_str())?;
                    }
                }
                match changes.lease.filter(|_| value.is_some()) {
                    Some(lease) => leased.insert(key.as_str(), lease)?,
                    None => leased.remove(key.as_str())?,
                };
            }
            revision
        };
        transaction.commit()?;
        Ok(Ok(revision))
    }
}

fn revision(database: &Database) -> Result<Revision> {
    let counters = database.begin_read()?.open_table(COUNTERS)?;
    Ok(counters.get(REVISION)?.map_or(0, |value| value.value()))
}

fn join(revision: Revision, value: &[u8]) -> Vec<u8> {
    [&revision.to_le_bytes(), value].concat()
}

fn split(stored: &[u8]) -> (Revision, &[u8]) {
    let (revision, value) = stored.split_at(REVISION_LEN);
    (Revision::from_le_bytes(revision.try_into().expect("split there")), value)
}

/// Writes the first transaction of a new cluster.
pub fn initialise(path: &Path, transaction: &Transaction) -> Result<()> {
    let outcome = ControlStore::open(path)?.commit(transaction)?;
    outcome.map(|_| ()).context("writing the initial state")
}

/// The monitor's storage: a thread that serves the store.
pub struct EmbeddedControl {
    requests: Option<SyncSender<Request>>,
    completions: Receiver<Completion>,
    thread: Option<JoinHandle<()>>,
}

impl EmbeddedControl {
    /// Opens or creates the file. `wake` is called when there is something to poll.
    ///
    /// # Errors
    ///
    /// As [`ControlStore::open`].
    pub fn open(
        path: &Path,
        mut observer: Box<dyn Observer>,
        wake: impl Fn() + Send + 'static,
    ) -> Result<Self> {
        let (requests, to_do) = sync_channel(QUEUE_CAPACITY);
        let (done, completions) = sync_channel(QUEUE_CAPACITY);
        let (tell_open, open) = sync_channel(1);
        let path = path.to_owned();
        let thread = std::thread::Builder::new().name("control".to_owned()).spawn(move || {
            let (store, told) = match ControlStore::open(&path) {
                Ok(store) => (Some(store), Ok(())),
                Err(error) => (None, Err(error)),
            };
            let is_heard = tell_open.send(told).is_ok();
            if let Some(store) = store.filter(|_| is_heard) {
                serve(&store, &to_do, |request, completion| {
                    observer.observe_request(request);
                    observer.observe_completion(&completion);
                    let is_heard = done.send(completion).is_ok();
                    wake();
                    is_heard
                });
            }
        })?;
        open.recv().context("the control thread has ended")??;
        Ok(EmbeddedControl { requests: Some(requests), completions, thread: Some(thread) })
    }
}

/// Answers requests until the sender or the receiver of answers is gone. A load that cannot be answered is
/// tried again.
fn serve(
    store: &ControlStore,
    requests: &Receiver<Request>,
    mut tell: impl FnMut(&Request, Completion) -> bool,
) {
    let mut waiting: Vec<Request> = Vec::new();
    loop {
        let next = match waiting.is_empty() {
            true => requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => requests.recv_timeout(RETRY),
        };
        let asked = match next {
            Ok(request) => vec![request],
            Err(RecvTimeoutError::Timeout) => std::mem::take(&mut waiting),
            Err(RecvTimeoutError::Disconnected) => return,
        };
        for request in asked {
            let completion = store.handle(&request);
            let is_unread = matches!(completion, Completion::Unread { .. });
            if !tell(&request, completion) {
                return;
            }
            if is_unread {
                waiting.push(request);
            }
        }
    }
}

impl Storage for EmbeddedControl {
    type Request = Request;
    type Completion = Completion;

    fn submit(&mut self, _now: Time, request: Request) {
        let requests = self.requests.as_ref().expect("open until dropped");
        requests.send(request).expect("the control thread lives as long as its requests");
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        self.completions.try_recv().ok()
    }
}

impl Drop for EmbeddedControl {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redb::StorageBackend;
    use redb::backends::FileBackend;
    use std::io;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A file on a file system that is full at times.
    #[derive(Debug)]
    struct Filling {
        file: FileBackend,
        is_full: Arc<AtomicBool>,
    }

    impl Filling {
        fn check(&self) -> io::Result<()> {
            match self.is_full.load(Ordering::Relaxed) {
                true => Err(io::ErrorKind::StorageFull.into()),
                false => Ok(()),
            }
        }
    }

    impl StorageBackend for Filling {
        fn len(&self) -> io::Result<u64> {
            self.file.len()
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.file.read(offset, out)
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.check()?;
            self.file.set_len(len)
        }

        fn sync_data(&self) -> io::Result<()> {
            self.file.sync_data()
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.check()?;
            self.file.write(offset, data)
        }

        fn close(&self) -> io::Result<()> {
            self.file.close()
        }
    }

    fn opener(is_full: &Arc<AtomicBool>) -> Opener {
        let is_full = is_full.clone();
        Box::new(move |path| {
            let file = private_file(OpenOptions::new().read(true).write(true).create(true), path)?;
            let backend = Filling { file: FileBackend::new(file)?, is_full: is_full.clone() };
            Ok(Database::builder().create_with_backend(backend)?)
        })
    }

    fn put(key: &str, value: &str) -> Transaction {
        let mut transaction = Transaction { lease: Some(LEASE), ..Transaction::default() };
        transaction.put(key, value.to_owned());
        transaction
    }

    #[test]
    fn a_store_that_had_no_room_takes_writes_when_there_is_again_and_keeps_its_leases() {
        let path = std::env::temp_dir().join(format!("sepiola-full-{}", std::process::id()));
        let is_full = Arc::new(AtomicBool::new(false));
        let store = ControlStore::open_on(&path, opener(&is_full)).unwrap();
        let commit = |token, key| Request::Commit { token, transaction: put(key, "v") };
        let answer = |request: Request| store.handle(&request);
        assert_eq!(answer(commit(1, "a")), Completion::Committed { token: 1, outcome: Ok(1) });
        is_full.store(true, Ordering::Relaxed);
        for token in 2..5 {
            let Completion::Committed { outcome: Err(CommitError::Failed { reason }), .. } =
                answer(commit(token, "b"))
            else {
                panic!("it has no room");
            };
            assert!(reason.contains("sepiola-full"), "{reason}");
        }
        // Whether or not it can be opened for reading meanwhile: nothing is answered that is wrong.
        let all = || Request::Range { token: 9, prefix: String::new() };
        match answer(all()) {
            Completion::Loaded { revision, .. } => assert_eq!(revision, 1),
            Completion::Unread { reason, .. } => {
                assert!(reason.contains("sepiola-full"), "{reason}")
            }
            other => panic!("{other:?}"),
        }
        is_full.store(false, Ordering::Relaxed);
        let renewed = answer(Request::Renew { token: 10, lease: LEASE });
        assert_eq!(renewed, Completion::Leased { token: 10, outcome: Ok(LEASE) });
        let written = answer(commit(11, "b"));
        assert_eq!(written, Completion::Committed { token: 11, outcome: Ok(2) });
        let Completion::Loaded { entries, .. } = answer(all()) else { panic!("unreadable") };
        let keys: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(keys, ["a", "b"], "a lease lives as long as the process");
        drop(store);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_store_that_forgot_what_it_acknowledged_stays_closed() {
        let path = std::env::temp_dir().join(format!("sepiola-forgot-{}", std::process::id()));
        let is_full = Arc::new(AtomicBool::new(false));
        let store = ControlStore::open_on(&path, opener(&is_full)).unwrap();
        store.commit(&put("a", "v")).unwrap().unwrap();
        is_full.store(true, Ordering::Relaxed);
        assert!(store.commit(&put("b", "v")).is_err());
        is_full.store(false, Ordering::Relaxed);
        std::fs::remove_file(&path).unwrap();
        initialise(&path, &Transaction::default()).unwrap();
        let error = store.commit(&put("b", "v")).unwrap_err().to_string();
        assert!(error.contains("has lost acknowledged changes"), "{error}");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn nobody_else_may_read_the_keys_in_it() {
        let path = std::env::temp_dir().join(format!("sepiola-private-{}", std::process::id()));
        initialise(&path, &put("auth/client.admin", "key")).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_commit_compares_revisions_and_survives_reopening() {
        let path = std::env::temp_dir().join(format!("sepiola-control-{}", std::process::id()));
        let mut first = Transaction::default();
        first.compare.push(("a/1".to_owned(), None));
        first.put("a/1", "one");
        first.put("b/1", "two");
        initialise(&path, &first).unwrap();
        assert!(initialise(&path, &first).is_err(), "the key is no longer absent");

        let store = ControlStore::open(&path).unwrap();
        let mut second = Transaction::default();
        second.compare.push(("a/1".to_owned(), Some(1)));
        second.delete("a/1");
        assert_eq!(store.commit(&second).unwrap(), Ok(2));
        assert_eq!(store.commit(&second).unwrap(), Err(CommitError::Conflict));
        let unchanged = Transaction { compare: vec![("b/1".into(), Some(1))], ..second };
        let unchanged = Transaction { writes: Default::default(), ..unchanged };
        assert_eq!(store.commit(&unchanged).unwrap(), Ok(2));
        drop(store);

        let (entries, revision) = ControlStore::open(&path).unwrap().range("").unwrap();
        assert_eq!(revision, 2);
        let found: Vec<_> = entries.iter().map(|e| (e.key.as_str(), e.revision)).collect();
        assert_eq!(found, [("b/1", 1)]);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_was_written_with_a_lease_is_gone_when_the_next_process_opens_the_store() {
        let path = std::env::temp_dir().join(format!("sepiola-leases-{}", std::process::id()));
        let mut transaction = Transaction { lease: Some(LEASE), ..Transaction::default() };
        transaction.put("leader", "a");
        initialise(&path, &transaction).unwrap();
        let store = ControlStore::open(&path).unwrap();
        assert_eq!(store.range("").unwrap(), (vec![], 2));
        drop(store);
        std::fs::remove_file(path).unwrap();
    }
}
