//! The embedded control store: one redb file, on a thread of its own.
//!
//! Each key's value is preceded by the revision of the transaction that wrote it. A commit is
//! answered after redb has made it durable.
//!
//! The file belongs to one process. Leases last as long as that does: their keys go when the file is
//! opened again.

use crate::host::Storage;
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use engine::Time;
use mon::control::{CommitError, Completion, Entry, LeaseId, Request, Revision, Transaction};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use rt::Waker;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

const ENTRIES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("entries");
const COUNTERS: TableDefinition<'_, &str, u64> = TableDefinition::new("counters");
/// Keys that were written with a lease.
const LEASED: TableDefinition<'_, &str, LeaseId> = TableDefinition::new("leased");
const REVISION: &str = "revision";
/// There is one, for nobody else could take over from us.
const LEASE: LeaseId = 1;
/// There if the state lies elsewhere now.
const MOVED: &str = "moved";
const REVISION_LEN: usize = 8;
/// Memory for redb's cache: the control state is a few megabytes.
const CACHE_LEN: usize = 4 << 20;
/// Requests under way; the monitor has a handful.
const QUEUE_CAPACITY: usize = 1024;

/// The store itself.
pub struct ControlStore {
    database: Database,
}

impl ControlStore {
    pub fn open(path: &Path) -> Result<Self> {
        let database = Database::builder()
            .set_cache_size(CACHE_LEN)
            .create(path)
            .with_context(|| format!("opening the control store {}", path.display()))?;
        let transaction = database.begin_write()?;
        transaction.open_table(ENTRIES)?;
        transaction.open_table(COUNTERS)?;
        transaction.open_table(LEASED)?;
        transaction.commit()?;
        let store = ControlStore { database };
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

    fn is_moved(&self) -> Result<bool> {
        let counters = self.database.begin_read()?.open_table(COUNTERS)?;
        Ok(counters.get(MOVED)?.is_some())
    }

    /// The store cannot be opened again.
    pub fn mark_moved(&self) -> Result<()> {
        let transaction = self.database.begin_write()?;
        transaction.open_table(COUNTERS)?.insert(MOVED, 1)?;
        Ok(transaction.commit()?)
    }

    fn end_leases(&self) -> Result<()> {
        let mut ends = Transaction::default();
        let table = self.database.begin_read()?.open_table(LEASED)?;
        for item in table.iter()? {
            ends.delete(item?.0.value());
        }
        if !ends.is_empty() {
            self.commit(&ends)??;
        }
        Ok(())
    }

    fn handle(&self, request: Request) -> Completion {
        match request {
            Request::Range { token, prefix } => match self.range(&prefix) {
                Ok((entries, revision)) => Completion::Loaded { token, entries, revision },
                // Not to start is all that is left, and the reason must be seen.
                Err(error) => panic!("the control store cannot be read: {error}"),
            },
            Request::Commit { token, transaction } => {
                let outcome = self
                    .commit(&transaction)
                    .unwrap_or_else(|error| Err(CommitError::Failed { reason: error.to_string() }));
                Completion::Committed { token, outcome }
            }
            Request::Grant { token, .. } => Completion::Leased { token, outcome: Ok(LEASE) },
            Request::Renew { token, lease } => Completion::Leased { token, outcome: Ok(lease) },
        }
    }

    pub fn range(&self, prefix: &str) -> Result<(Vec<Entry>, Revision), redb::Error> {
        let transaction = self.database.begin_read()?;
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

    fn commit(&self, changes: &Transaction) -> Result<Result<Revision, CommitError>, redb::Error> {
        let transaction = self.database.begin_write()?;
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
    pub fn open(path: &Path, waker: Waker) -> Result<Self> {
        let store = ControlStore::open(path)?;
        let (requests, to_do) = sync_channel(QUEUE_CAPACITY);
        let (done, completions) = sync_channel(QUEUE_CAPACITY);
        let thread = std::thread::Builder::new().name("control".to_owned()).spawn(move || {
            while let Ok(request) = to_do.recv() {
                if done.send(store.handle(request)).is_err() {
                    return;
                }
                waker.wake();
            }
        })?;
        Ok(EmbeddedControl { requests: Some(requests), completions, thread: Some(thread) })
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
