//! Locks of files: POSIX record locks and `flock`, with waits and the detection of deadlocks.
//!
//! The two kinds know nothing of each other. Waiting requests get their locks in the order of their arrival.
//! A POSIX request that would wait for itself, over any number of owners, is refused; `flock` has no
//! detection, as in Linux.

mod lock;
mod ranges;
#[cfg(test)]
mod tests;

use crate::requests::{InodeId, RequestId};
pub use lock::{FileLock, LockKind, LockOwner, LockRule};
use ranges::OwnedRanges;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Locks of one client. One more is refused.
const LOCKS_MAX: usize = 65_536;
/// Requests of one client that wait for locks. One more is refused.
const WAITS_MAX: usize = 1_024;
/// Owners that the search for a deadlock visits. Beyond that, a request is refused as if it had found one:
/// so long a chain of waiting owners hardly ends by itself.
const VISITED_MAX: usize = 10_000;

/// A request for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockRequest {
    /// The request.
    pub id: RequestId,
    /// The inode.
    pub ino: InodeId,
    /// The kind of locking.
    pub rule: LockRule,
    /// The lock.
    pub lock: FileLock,
    /// Whether to wait for it.
    pub waits: bool,
}

/// Answer to a request for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetOutcome {
    /// The owner has the lock.
    Locked,
    /// Another owner has it, and the request does not wait.
    Held,
    /// It waits; [`FileLocks::poll_locked`] names it when it has the lock.
    Waits,
    /// It would wait for its own owner.
    Deadlock,
    /// The client has too many locks or waits.
    TooMany,
}

type Key = (InodeId, LockRule);

#[derive(Debug, Default)]
struct Locks {
    held: OwnedRanges,
    /// In the order of arrival.
    waiting: VecDeque<LockRequest>,
}

impl Locks {
    /// Gives the first waiting request that nothing stands against its lock.
    fn take_first_free(&mut self) -> Option<LockRequest> {
        let is_free = |held: &OwnedRanges, lock| held.contradicting(lock).next().is_none();
        let at = self.waiting.iter().position(|request| is_free(&self.held, &request.lock))?;
        let request = self.waiting.remove(at).expect("it was found");
        self.held.insert(request.lock);
        Some(request)
    }
}

/// The locks of all files.
#[derive(Debug, Default)]
pub struct FileLocks {
    files: BTreeMap<Key, Locks>,
    /// Files in which an owner waits for POSIX locks.
    waits: BTreeMap<LockOwner, BTreeSet<InodeId>>,
    locked: VecDeque<RequestId>,
}

impl FileLocks {
    /// The next request that waited and has its lock.
    pub fn poll_locked(&mut self) -> Option<RequestId> {
        self.locked.pop_front()
    }

    /// An owner wants a lock. It replaces what the owner has of the same bytes.
    pub fn handle_set(&mut self, request: LockRequest) -> SetOutcome {
        let LockRequest { ino, rule, lock, waits, .. } = request;
        if lock.start >= lock.end {
            return SetOutcome::Locked;
        }
        let file = self.files.entry((ino, rule)).or_default();
        if file.held.contradicting(&lock).next().is_none() {
            if file.held.count(lock.owner.client) >= LOCKS_MAX {
                return SetOutcome::TooMany;
            }
            file.held.insert(lock);
            // A weaker lock than before may let others in.
            self.advance((ino, rule));
            return SetOutcome::Locked;
        }
        if !waits {
            return SetOutcome::Held;
        }
        if rule == LockRule::Posix && self.is_deadlock(ino, &lock) {
            return SetOutcome::Deadlock;
        }
        let waiting = self.files.values().flat_map(|file| &file.waiting);
        if waiting.filter(|other| other.id.client == request.id.client).count() >= WAITS_MAX {
            return SetOutcome::TooMany;
        }
        self.files.get_mut(&(ino, rule)).expect("it was looked at").waiting.push_back(request);
        if rule == LockRule::Posix {
            self.waits.entry(lock.owner).or_default().insert(ino);
        }
        SetOutcome::Waits
    }

    /// An owner gives bytes up.
    pub fn handle_unlock(&mut self, ino: InodeId, rule: LockRule, bytes: &FileLock) {
        if let Some(file) = self.files.get_mut(&(ino, rule)) {
            file.held.remove(bytes);
            self.advance((ino, rule));
        }
    }

    /// The first lock that stands against one, if any does.
    pub fn handle_get(&self, ino: InodeId, rule: LockRule, lock: &FileLock) -> Option<FileLock> {
        self.files.get(&(ino, rule))?.held.contradicting(lock).next().copied()
    }

    /// A waiting owner was interrupted: returns its request, if it still waits.
    pub fn handle_interrupt(
        &mut self,
        ino: InodeId,
        rule: LockRule,
        lock: &FileLock,
    ) -> Option<RequestId> {
        let file = self.files.get_mut(&(ino, rule))?;
        let is_same = |waiting: &LockRequest| {
            let own = waiting.lock;
            (own.owner, own.start, own.end) == (lock.owner, lock.start, lock.end)
        };
        let at = file.waiting.iter().position(is_same)?;
        let request = file.waiting.remove(at).expect("it was found");
        self.forget_wait(ino, rule, request.lock.owner);
        self.forget_unused((ino, rule));
        Some(request.id)
    }

    /// The session of a client has ended: its locks and waits end.
    pub fn remove_client(&mut self, client: u64) {
        self.waits.retain(|owner, _| owner.client != client);
        for key in self.files.keys().copied().collect::<Vec<_>>() {
            let file = self.files.get_mut(&key).expect("it was listed");
            file.waiting.retain(|request| request.id.client != client);
            file.held.remove_client(client);
            self.advance(key);
        }
    }

    /// Locks on a file, for reconnecting clients and tests.
    pub fn held(&self, ino: InodeId, rule: LockRule) -> Vec<FileLock> {
        let file = self.files.get(&(ino, rule));
        file.map_or_else(Vec::new, |file| file.held.iter().copied().collect())
    }

    /// Gives waiting requests of a file their locks, in the order of their arrival.
    fn advance(&mut self, key: Key) {
        // A lock that a request gets may be weaker than what its owner had, and let an earlier one in.
        while let Some(request) = self.files.get_mut(&key).and_then(Locks::take_first_free) {
            self.forget_wait(key.0, key.1, request.lock.owner);
            self.locked.push_back(request.id);
        }
        self.forget_unused(key);
    }

    fn forget_wait(&mut self, ino: InodeId, rule: LockRule, owner: LockOwner) {
        let file = self.files.get(&(ino, rule));
        let mut waiting = file.into_iter().flat_map(|file| &file.waiting);
        if rule != LockRule::Posix || waiting.any(|request| request.lock.owner == owner) {
            return;
        }
        if let Some(inodes) = self.waits.get_mut(&owner) {
            inodes.remove(&ino);
            if inodes.is_empty() {
                self.waits.remove(&owner);
            }
        }
    }

    fn forget_unused(&mut self, key: Key) {
        let file = self.files.get(&key);
        if file.is_some_and(|file| file.waiting.is_empty() && file.held.is_empty()) {
            self.files.remove(&key);
        }
    }

    /// Owners of the locks that stand against one.
    fn owners_against(&self, ino: InodeId, lock: &FileLock) -> impl Iterator<Item = LockOwner> {
        let file = self.files.get(&(ino, LockRule::Posix));
        let locks = file.into_iter().flat_map(|file| file.held.contradicting(lock));
        locks.map(|lock| lock.owner).collect::<BTreeSet<_>>().into_iter()
    }

    /// Whether an owner that waits for a lock would wait for itself.
    fn is_deadlock(&self, ino: InodeId, lock: &FileLock) -> bool {
        let mut open: Vec<LockOwner> = self.owners_against(ino, lock).collect();
        let mut visited: BTreeSet<LockOwner> = open.iter().copied().collect();
        while let Some(owner) = open.pop() {
            if visited.len() > VISITED_MAX {
                return true;
            }
            for ino in self.waits.get(&owner).into_iter().flatten() {
                let waiting = self.files[&(*ino, LockRule::Posix)].waiting.iter();
                for request in waiting.filter(|request| request.lock.owner == owner) {
                    for next in self.owners_against(*ino, &request.lock) {
                        if next == lock.owner {
                            return true;
                        }
                        if visited.insert(next) {
                            open.push(next);
                        }
                    }
                }
            }
        }
        false
    }

    /// Panics if owners hold locks that contradict each other, or a request waits for nothing.
    pub fn check_invariants(&self) {
        for ((ino, rule), file) in &self.files {
            file.held.check_invariants();
            for request in &file.waiting {
                let mut against = file.held.contradicting(&request.lock);
                assert!(against.next().is_some(), "{ino:?}: {request:?} waits for nothing");
                let is_noted = self.waits.get(&request.lock.owner);
                let is_noted = is_noted.is_some_and(|inodes| inodes.contains(ino));
                assert!(is_noted || *rule == LockRule::Flock, "the graph has all waits");
            }
        }
    }
}
