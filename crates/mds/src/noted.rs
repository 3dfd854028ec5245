//! Work that was noted in the log and may begin when its record is durable.

use std::collections::VecDeque;

/// Inodes in the order in which their work was noted.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    /// With the LSN that must be durable first; `None` before it is known.
    queue: VecDeque<(Option<u64>, u64)>,
}

impl Noted {
    /// Work was noted.
    pub fn add(&mut self, ino: u64) {
        self.queue.push_back((None, ino));
    }

    /// Work is stored already.
    pub fn add_stored(&mut self, ino: u64) {
        self.queue.push_front((Some(0), ino));
    }

    /// All that was noted so far is in records up to this one.
    pub fn recorded(&mut self, lsn: u64) {
        let unknown = self.queue.iter_mut().rev().take_while(|(known, _)| known.is_none());
        unknown.for_each(|(known, _)| *known = Some(lsn));
    }

    /// The next inode whose record is durable.
    pub fn take(&mut self, durable: u64) -> Option<u64> {
        let (lsn, ino) = *self.queue.front()?;
        if lsn.is_none_or(|lsn| lsn > durable) {
            return None;
        }
        self.queue.pop_front();
        Some(ino)
    }

    /// Forgets inodes.
    pub fn retain(&mut self, mut stays: impl FnMut(u64) -> bool) {
        self.queue.retain(|(_, ino)| stays(*ino));
    }
}
