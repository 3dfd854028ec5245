//! Locks as values.

/// Kind of locking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockRule {
    /// `fcntl`: ranges of bytes.
    Posix,
    /// `flock`: whole files.
    Flock,
}

/// Strength of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockKind {
    /// For readers.
    Shared,
    /// For one writer.
    Exclusive,
}

/// Owner of locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockOwner {
    /// The client.
    pub client: u64,
    /// Number of the owner at the client.
    pub number: u64,
}

/// A lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLock {
    /// The owner.
    pub owner: LockOwner,
    /// Its process, for questions.
    pub pid: u64,
    /// The strength.
    pub kind: LockKind,
    /// First byte.
    pub start: u64,
    /// The byte behind the last one; `u64::MAX` for all that follow.
    pub end: u64,
}

impl FileLock {
    /// A lock of `length` bytes; 0 for all that follow.
    pub fn new(owner: LockOwner, pid: u64, kind: LockKind, start: u64, length: u64) -> Self {
        let end = match length {
            0 => u64::MAX,
            length => start.saturating_add(length),
        };
        FileLock { owner, pid, kind, start, end }
    }

    /// Whether they have bytes in common.
    pub(super) fn overlaps(&self, other: &FileLock) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// Whether they may not exist beside each other.
    pub(super) fn contradicts(&self, other: &FileLock) -> bool {
        let is_shared = self.kind == LockKind::Shared && other.kind == LockKind::Shared;
        self.owner != other.owner && !is_shared && self.overlaps(other)
    }
}
