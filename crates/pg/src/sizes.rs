//! Bounds of a group's log, of the pieces and pages in which objects are copied, and of idle time.

use std::time::Duration;

/// A log longer than this is trimmed…
pub const LOG_ENTRIES_MAX: usize = 1100;
/// …to this.
pub const LOG_ENTRIES_KEPT: usize = 1000;
/// Number of requests that are kept when the log is trimmed, and up to a batch more
/// (`osd_pg_log_dups_tracked`).
pub const DUPS_KEPT: usize = 3000;

/// See [`Sizes::settle_idle`].
pub const SETTLE_IDLE: Duration = Duration::from_millis(500);

/// Members of a group may have different bounds, because messages say where a piece or a page ends.
/// Tests set small ones to reach with little data the cases that need much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// A log longer than this is trimmed…
    pub log_entries_max: usize,
    /// …to this.
    pub log_entries_kept: usize,
    /// Bytes of data in one piece of an object.
    pub piece_data_max: u64,
    /// Omap pairs in one piece of an object.
    pub piece_omap_entries_max: usize,
    /// Objects in one page of a listing.
    pub page_objects_max: usize,
    /// In a group with shards, the time after a commit after which members are told of it, if nothing else is
    /// sent to them.
    pub settle_idle: Duration,
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes {
            log_entries_max: LOG_ENTRIES_MAX,
            log_entries_kept: LOG_ENTRIES_KEPT,
            piece_data_max: 1 << 20,
            piece_omap_entries_max: 1024,
            page_objects_max: 128,
            settle_idle: SETTLE_IDLE,
        }
    }
}
