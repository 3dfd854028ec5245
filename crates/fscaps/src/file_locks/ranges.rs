//! Locks of one file: an owner's ranges do not overlap, and those of others do not contradict them.

use super::lock::{FileLock, LockOwner};

/// Locks, ordered by their first byte.
#[derive(Debug, Default)]
pub(super) struct OwnedRanges {
    locks: Vec<FileLock>,
}

impl OwnedRanges {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }

    /// All locks.
    pub fn iter(&self) -> impl Iterator<Item = &FileLock> {
        self.locks.iter()
    }

    /// Locks of a client.
    pub fn count(&self, client: u64) -> usize {
        self.locks.iter().filter(|lock| lock.owner.client == client).count()
    }

    /// Locks that stand against one.
    pub fn contradicting(&self, lock: &FileLock) -> impl Iterator<Item = &FileLock> {
        self.locks.iter().filter(move |held| held.contradicts(lock))
    }

    /// Gives an owner a lock, in place of what it has of the same bytes, and joins it with neighbours.
    pub fn insert(&mut self, mut lock: FileLock) {
        self.remove(&lock);
        self.locks.retain(|held| {
            let is_alike = (held.owner, held.kind, held.pid) == (lock.owner, lock.kind, lock.pid);
            let touches = held.end == lock.start || held.start == lock.end;
            if is_alike && touches {
                lock.start = lock.start.min(held.start);
                lock.end = lock.end.max(held.end);
            }
            !(is_alike && touches)
        });
        let at = self.locks.partition_point(|held| held.start <= lock.start);
        self.locks.insert(at, lock);
    }

    /// Takes bytes from their owner.
    pub fn remove(&mut self, bytes: &FileLock) {
        let mut tails = Vec::new();
        self.locks.retain_mut(|held| {
            if held.owner != bytes.owner || !held.overlaps(bytes) {
                return true;
            }
            if held.end > bytes.end {
                tails.push(FileLock { start: bytes.end, ..*held });
            }
            held.end = bytes.start;
            held.start < held.end
        });
        for tail in tails {
            let at = self.locks.partition_point(|held| held.start <= tail.start);
            self.locks.insert(at, tail);
        }
    }

    /// Removes the locks of a client.
    pub fn remove_client(&mut self, client: u64) {
        self.locks.retain(|lock| lock.owner.client != client);
    }

    /// Panics if two locks may not exist beside each other.
    pub fn check_invariants(&self) {
        let is_owned_by = |owner: LockOwner| move |held: &&FileLock| held.owner == owner;
        for (at, lock) in self.locks.iter().enumerate() {
            assert!(lock.start < lock.end, "{lock:?} is empty");
            let others = &self.locks[at + 1..];
            assert!(others.iter().all(|other| other.start >= lock.start), "locks are in order");
            let contradicting = others.iter().find(|other| other.contradicts(lock));
            assert!(contradicting.is_none(), "{lock:?} beside {contradicting:?}");
            let mut own = others.iter().filter(is_owned_by(lock.owner));
            assert!(own.all(|other| !other.overlaps(lock)), "an owner locks a byte once");
        }
    }
}
