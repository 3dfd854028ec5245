//! State of the watch on the header.

use rados::WatchId;

/// Number of the request that waits for this delay.
pub(super) const DELAY: u64 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeaderWatch {
    /// An image that is open for reading only does not watch.
    None,
    Registering,
    Watching(WatchId),
}

impl HeaderWatch {
    /// True unless a registration is in progress, in which notifications could be missed.
    pub fn is_settled(self) -> bool {
        self != HeaderWatch::Registering
    }
}
