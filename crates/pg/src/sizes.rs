//! How long the log of a group becomes, and how much of its objects goes at once.

use crate::{LOG_ENTRIES_KEPT, LOG_ENTRIES_MAX};

/// All members of a group may have different ones: messages say where a piece or a page ends. Hosts that make small
/// ones see with little data what otherwise takes much of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// A log longer than this is trimmed…
    pub log_entries_max: usize,
    /// …to this.
    pub log_entries_kept: usize,
    /// Data and omap in one piece of an object.
    pub piece_data_max: u64,
    pub piece_omap_entries_max: usize,
    /// Objects in one page of a listing.
    pub page_objects_max: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes {
            log_entries_max: LOG_ENTRIES_MAX,
            log_entries_kept: LOG_ENTRIES_KEPT,
            piece_data_max: 1 << 20,
            piece_omap_entries_max: 1024,
            page_objects_max: 128,
        }
    }
}
