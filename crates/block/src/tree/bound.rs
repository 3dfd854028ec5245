//! How many pages applying a table can need, known before it is applied.
//!
//! The bound follows from how pages are cut (`builder`): entries fill the least number of pages that
//! they fit into in order. The entries of one old page fit into one page; each entry that is put among
//! them takes at most one page more. So an old page that is changed becomes one page, and as many
//! more as there are new entries in it; and if little is left of it, its neighbour is written anew,
//! but then nothing was split. The same holds for the pages above, where the new entries are the new
//! pages below. Where many entries come into one page, their size gives a better bound: pages are two
//! thirds full at least, but for the few where what keys have in common changes.

use super::apply::is_inline;
use super::overflow::pages_for;
use super::page::{ENTRY_MAX, HEAD, SEGMENT, SLOT};
use super::reference::{PageRef, Root};

/// What the entries of a page fill at least, if the next one did not fit.
const FILLED: u64 = (SLOT + ENTRY_MAX) as u64 * 2;
/// Pages that can be split off one page whatever the size of new entries: those before the first old
/// key, those after the last, and those that the old ones moved to.
const EDGES: u64 = 4;
/// Entries of any size that fit into a page.
const ENTRIES_MIN: u64 = 3;

/// What a table will cost, kept while the table grows: the sum over its points and ranges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Places of the tree that change: one for each point, two for each range; again for each layer
    /// that their keys reach into.
    touches: u64,
    /// Those of them below the first layer.
    touches_below: u64,
    /// Of entries in leaves.
    entry_bytes: u64,
    overflow_pages: u64,
    /// The longest key in a page there ever was, also if it was subtracted.
    longest: u16,
}

impl Load {
    pub fn point(key: usize, value: Option<usize>) -> Self {
        let layers = (key / SEGMENT) as u64;
        let value = value.unwrap_or(0);
        let tail = key % SEGMENT;
        let overflows = !is_inline(tail, value);
        let cell = if overflows { ENTRY_MAX - HEAD - tail } else { value };
        let entry = SLOT + HEAD + tail + cell;
        Load {
            touches: 1 + layers,
            touches_below: layers,
            entry_bytes: entry as u64 + layers * (SLOT + ENTRY_MAX) as u64,
            overflow_pages: if overflows { pages_for(value) } else { 0 },
            longest: key.min(SEGMENT) as u16,
        }
    }

    pub fn range(first: usize, last: usize) -> Self {
        let layers = (first / SEGMENT + last / SEGMENT) as u64;
        Load { touches: 2 + layers, touches_below: layers, ..Load::default() }
    }

    pub fn add(&mut self, other: Load) {
        self.touches += other.touches;
        self.touches_below += other.touches_below;
        self.entry_bytes += other.entry_bytes;
        self.overflow_pages += other.overflow_pages;
        self.longest = self.longest.max(other.longest);
    }

    /// Takes back what was added before.
    pub fn subtract(&mut self, other: Load) {
        self.touches -= other.touches;
        self.touches_below -= other.touches_below;
        self.entry_bytes -= other.entry_bytes;
        self.overflow_pages -= other.overflow_pages;
    }
}

/// No fewer pages than applying a table of this load to the tree allocates.
pub fn pages_bound(load: &Load, root: Option<&Root>) -> u64 {
    if load.touches == 0 {
        return 0;
    }
    let of_root = |field: fn(&Root) -> u64| root.map_or(0, field);
    let height = of_root(|root| root.height.into()).max(1);
    let rewritten = (load.touches * height).min(of_root(|root| root.pages));
    let longest = load.longest.max(root.map_or(0, |root| root.longest));
    let inner_entry = (SLOT + HEAD + PageRef::BYTES) as u64 + u64::from(longest);

    let pages = of_root(|root| root.pages) + 1;
    let mut split = split_bound(load.touches, load.entry_bytes, pages);
    let mut total = rewritten + split;
    for _ in 1..height {
        let pages = of_root(|root| root.inner_pages);
        split = split_bound(split, split * inner_entry, pages.min(load.touches));
        total += split;
    }
    // Above the old top are new pages, until one holds all.
    let mut top = split + 1;
    while top > 1 {
        top = top.div_ceil(ENTRIES_MIN);
        total += top;
    }
    total + 1 + load.overflow_pages + layers_bound(load, root)
}

/// Pages of one level beyond those that there were, if so many entries come into so many pages.
fn split_bound(entries: u64, bytes: u64, pages: u64) -> u64 {
    entries.min(bytes.div_ceil(FILLED) + EDGES * pages.min(entries))
}

/// Trees of long keys are small or rare: each place that changes counts with its whole path.
fn layers_bound(load: &Load, root: Option<&Root>) -> u64 {
    let height = root.map_or(0, |root| u64::from(root.height_below));
    load.touches_below * 2 * (height + 1)
}
