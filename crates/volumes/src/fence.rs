//! Locks of a volume in the file system itself, by which of several workers one changes a volume.
//!
//! The monitors trust one worker at a time, but one that is not trusted any more may learn so late. A lock is
//! one byte of the file `_index/lock`, which the metadata server keeps for a session of a client. A worker
//! that finds a lock taken has the other client evicted, since it has been trusted later.
//!
//! Guarantee: nothing of a former owner has an effect once a lock is taken. The server executes requests of a
//! session only, and a worker's client asks nothing in a second one
//! ([`fsclient::Config::ends_with_session`]); the locks of a session end with it, and an eviction shuts the
//! client out of the data before.

use crate::failure::{During, Failure};
use crate::paths;
use crate::procedure::Target;
use crate::tree::{Attributes, Tree};
use fsclient::Call;
use serde_json::json;
use types::Errno;

/// Owners that are evicted for one lock. If there are more, workers evict each other.
const EVICTIONS_MAX: usize = 3;
const MODE: u32 = 0o600;

/// A part of the work on a volume that one worker has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Changes of metadata of subvolumes and of their directories.
    Metadata,
    /// Copies into clones.
    Copies,
}

impl Part {
    /// Its byte in the file.
    fn place(self) -> u64 {
        match self {
            Part::Metadata => 0,
            Part::Copies => 1,
        }
    }
}

/// A lock that is held, until it is released or the session ends.
#[derive(Debug)]
#[must_use = "a lock is released"]
pub(crate) struct Lock {
    ino: u64,
    part: Part,
}

impl Lock {
    /// Takes the lock of a part. Its owner is evicted.
    pub(crate) async fn take(tree: &Tree, part: Part) -> Result<Lock, Failure> {
        let ino = open(tree).await.during(step)?;
        let taken = Lock::take_open(tree, ino, part).await;
        if taken.is_err() {
            let _ = tree.steps().call(Call::Close(ino)).await;
        }
        taken
    }

    async fn take_open(tree: &Tree, ino: u64, part: Part) -> Result<Lock, Failure> {
        for _ in 0..=EVICTIONS_MAX {
            match tree.steps().call(Call::Lock { ino, place: part.place() }).await {
                Ok(_) => return Ok(Lock { ino, part }),
                Err(Errno::AGAIN) => {}
                Err(errno) => return Err(errno).during(step),
            }
            if let Some(owner) = tree.lock_owner(ino, part.place()).await.during(step)? {
                evict(tree, owner).await?;
            }
        }
        let text = "other workers change this volume, too: look for a second 'sepiola up' or monitor with the same \
                    cluster, and repeat the command";
        Err(Failure::new(Errno::AGAIN, text))
    }

    /// Gives it back. A failure is that of the session, with which the lock ends, too.
    pub(crate) async fn release(self, tree: &Tree) {
        let unlock = Call::Unlock { ino: self.ino, place: self.part.place() };
        let _ = tree.steps().call(unlock).await;
        let _ = tree.steps().call(Call::Close(self.ino)).await;
    }
}

fn step() -> String {
    format!("locking the volume by /{}", paths::LOCK)
}

async fn open(tree: &Tree) -> Result<u64, Errno> {
    let opened = match tree.open(paths::LOCK).await {
        Err(Errno::NOENT) => {
            tree.mkdirs(paths::INDEX, 0o755).await?;
            match tree.create(paths::LOCK).await {
                Err(Errno::EXIST) => tree.open(paths::LOCK).await,
                created => created,
            }
        }
        opened => opened,
    };
    let stat = opened?;
    if stat.mode & 0o7777 != MODE {
        let mode = Some(MODE);
        tree.set_of(stat.ino, Attributes { mode, ..Attributes::default() }).await?;
    }
    Ok(stat.ino)
}

/// Shuts a client out that has a lock.
async fn evict(tree: &Tree, client: u64) -> Result<(), Failure> {
    tracing::warn!(client, "the client of another worker has a volume locked: it is evicted");
    let end = json!({ "prefix": "session evict", "filters": [format!("id={client}")] });
    match tree.steps().command(Target::Server, end).await {
        Ok(_) | Err((Errno::NOENT, _)) => Ok(()),
        Err((errno, text)) => {
            let text = format!("ending the session {client} of a former worker: {text}");
            Err(Failure::new(errno, text))
        }
    }
}
