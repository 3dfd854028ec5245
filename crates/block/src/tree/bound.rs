//! Upper bound of the pages for applying a table, known before it is applied.
//!
//! The bound follows from how pages are cut (`builder`): entries fill the minimum number of pages
//! that they fit into in order. The entries of one old page fit into one page; each entry that is
//! put among them takes at most one page more. So an old page that is changed becomes one page,
//! plus one for each new entry in it; and if little is left of it, its neighbour is rewritten, but
//! then nothing was split. The same holds for the pages above, where the new entries are the new
//! pages below. Where many entries go to one page, their size gives a better bound: pages are at
//! least two thirds full, except for the few where the common prefix of keys changes.
//!
//! Pairs of new objects need no page each: ids grow, so they all lie after those in the tree. That is not
//! true of held changes, which are sorted by hash.

use super::overflow::pages_for;
use super::page::{ENTRY_MAX, HEAD, KEY_LEN_MAX, SLOT, is_inline};
use super::reference::{PageRef, Root};
use crate::device::BLOCK;

/// Minimum fill of a page in bytes, if the next entry did not fit.
const FILLED: u64 = (SLOT + ENTRY_MAX) as u64 * 2;
/// Pages that can be split off one page whatever the size of new entries: those before the first
/// old key, those after the last, and those that the old ones moved to.
const EDGES: u64 = 4;
/// Entries of any size that fit into a page.
const ENTRIES_MIN: u64 = 3;

/// Gaps between old keys for pairs of new objects: one for each kind of key that begins with a
/// counted id.
const FRESH_PLACES: u64 = 4;

/// Cost of applying a table, maintained while the table grows: a sum over its points and ranges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Places of the tree that change: one for each point, two for each range; again for each layer
    /// that their keys reach into.
    touches: u64,
    /// Those of them below the first layer.
    touches_below: u64,
    /// Points after all old keys of their kind, hence adjacent to each other.
    fresh: u64,
    /// Bytes of entries in leaves.
    entry_bytes: u64,
    overflow_pages: u64,
    /// Length of the longest key ever added, even if it was subtracted, in bytes.
    longest: u16,
    /// Pages measured by a dry run, for changes that are in none of the sums above.
    measured: u64,
}

impl Load {
    /// Load of a point with these lengths in bytes; without a value it removes a key.
    pub fn point(key: usize, value: Option<usize>) -> Self {
        let fresh = Load::fresh_point(key, value);
        Load { touches: fresh.touches + 1, fresh: 0, ..fresh }
    }

    /// Load of a point for which all old keys of its kind lie on one side.
    pub fn fresh_point(key: usize, value: Option<usize>) -> Self {
        let layers = (key / KEY_LEN_MAX) as u64;
        let value = value.unwrap_or(0);
        let tail = key % KEY_LEN_MAX;
        let overflows = !is_inline(tail, value);
        let cell = if overflows { ENTRY_MAX - HEAD - tail } else { value };
        let entry = SLOT + HEAD + tail + cell;
        Load {
            touches: layers,
            touches_below: layers,
            fresh: 1,
            entry_bytes: entry as u64 + layers * (SLOT + ENTRY_MAX) as u64,
            overflow_pages: if overflows { pages_for(value) } else { 0 },
            longest: key.min(KEY_LEN_MAX) as u16,
            measured: 0,
        }
    }

    /// Load of changes whose pages were measured by a dry run.
    pub fn measured(pages: u64, load: &Load) -> Self {
        Load { measured: pages, longest: load.longest, ..Load::default() }
    }

    /// Load of a removed range whose ends have these lengths in bytes.
    pub fn range(first: usize, last: usize) -> Self {
        let layers = (first / KEY_LEN_MAX + last / KEY_LEN_MAX) as u64;
        Load { touches: 2 + layers, touches_below: layers, ..Load::default() }
    }

    /// Adds the load of other changes.
    pub fn add(&mut self, other: Load) {
        self.add_times(other, 1);
    }

    /// Adds the load of as many equal changes.
    pub fn add_times(&mut self, other: Load, times: u64) {
        self.touches += other.touches * times;
        self.touches_below += other.touches_below * times;
        self.fresh += other.fresh * times;
        self.entry_bytes += other.entry_bytes * times;
        self.overflow_pages += other.overflow_pages * times;
        self.longest = self.longest.max(other.longest);
        self.measured += other.measured * times;
    }

    /// Subtracts a load that was added before.
    pub fn subtract(&mut self, other: Load) {
        self.touches -= other.touches;
        self.touches_below -= other.touches_below;
        self.fresh -= other.fresh;
        self.entry_bytes -= other.entry_bytes;
        self.overflow_pages -= other.overflow_pages;
    }

    /// Likely number of filled pages if nothing is replaced; not a bound.
    pub fn likely_pages(&self) -> u64 {
        self.measured + self.overflow_pages + self.entry_bytes * 3 / (2 * BLOCK as u64)
    }
}

/// Properties of the old tree, or of a possible new one, that the bound depends on and grows with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeSize {
    height: u64,
    height_below: u64,
    /// Pages other than inner pages.
    leaves: u64,
    inner_pages: u64,
    longest: u16,
}

impl TreeSize {
    /// The tree at this root, or an empty one.
    pub fn of(root: Option<&Root>) -> Self {
        root.map_or(TreeSize::default(), |root| TreeSize {
            height: root.height.into(),
            height_below: root.height_below.into(),
            leaves: root.pages - root.inner_pages,
            inner_pages: root.inner_pages,
            longest: root.longest,
        })
    }
}

/// Upper bound of the pages that applying a table allocates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PagesBound {
    /// All allocated pages.
    pub pages: u64,
    /// Allocated pages beyond those of the old tree that become free.
    pub growth: u64,
    /// Upper bound of the size of the new tree.
    pub size: TreeSize,
}

/// Upper bound of the pages for applying a table of this load to a tree of this size.
pub fn pages_bound(load: &Load, old: &TreeSize) -> PagesBound {
    if load.measured > 0 {
        let measured = measured_bound(load, old);
        let rest = pages_bound(&Load { measured: 0, ..*load }, &measured.size);
        let (pages, growth) = (measured.pages + rest.pages, measured.growth + rest.growth);
        return PagesBound { pages, growth, size: rest.size };
    }
    let entries = load.touches + load.fresh;
    if entries == 0 {
        return PagesBound { size: *old, ..PagesBound::default() };
    }
    let height = old.height.max(1);
    let leaves = old.leaves;
    let places = load.touches + load.fresh.min(FRESH_PLACES);
    let rewritten = places.min(leaves) + (places * (height - 1)).min(old.inner_pages);
    let longest = load.longest.max(old.longest);
    let inner_entry = (SLOT + HEAD + PageRef::BYTES) as u64 + u64::from(longest);

    let leaf_growth = split_bound(entries, load.entry_bytes, places.min(leaves + 1));
    let (mut split, mut inner_growth, mut levels) = (leaf_growth, 0, height);
    for _ in 1..height {
        split = split_bound(split, split * inner_entry, places.min(old.inner_pages));
        inner_growth += split;
    }
    // New levels above the old top, until one page holds all.
    let mut top = split + 1;
    while top > 1 {
        top = top.div_ceil(ENTRIES_MIN);
        inner_growth += top;
        levels += 1;
    }
    let layers = layers_bound(load, old);
    let growth = leaf_growth + inner_growth + 1 + load.overflow_pages + layers;
    let size = TreeSize {
        height: levels,
        height_below: old.height_below + layers.checked_ilog2().map_or(0, |log| u64::from(log) + 1),
        leaves: old.leaves + growth - inner_growth,
        inner_pages: old.inner_pages + inner_growth + layers,
        longest,
    };
    PagesBound { pages: rewritten + growth, growth, size }
}

/// Bound of a dry run alone; the tree may grow by as much.
fn measured_bound(load: &Load, old: &TreeSize) -> PagesBound {
    let (pages, growth) = (load.measured, load.measured);
    let levels = u64::from(growth.checked_ilog2().map_or(0, |log| log + 1));
    let size = TreeSize {
        height: old.height.max(1) + levels,
        height_below: old.height_below + levels,
        // The dry run did not count pages by kind.
        leaves: old.leaves + growth,
        inner_pages: old.inner_pages + growth,
        longest: old.longest.max(load.longest),
    };
    PagesBound { pages, growth, size }
}

/// Upper bound of the additional pages of one level, if `entries` go to `pages` old pages.
fn split_bound(entries: u64, bytes: u64, pages: u64) -> u64 {
    entries.min(bytes.div_ceil(FILLED) + EDGES * pages)
}

/// Layers are small or rare: each place that changes counts with its whole path.
fn layers_bound(load: &Load, old: &TreeSize) -> u64 {
    load.touches_below * 2 * (old.height_below + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A running checkpoint must not leave more work than was assumed, or the next one lacks pages.
    #[test]
    fn trees_after_measured_changes_stay_within_their_bound() {
        let (pages, mut pairs) = (450, Load::default());
        pairs.add_times(Load::fresh_point(30, Some(200)), 5000);
        let size = pages_bound(&Load::measured(pages, &pairs), &TreeSize::default()).size;
        let mut next = Load::default();
        next.add_times(Load::point(30, Some(200)), 400);
        let bound = pages_bound(&next, &size);
        for inner_pages in 0..=pages {
            let height = if inner_pages == 0 { 1 } else { 3 };
            let leaves = pages - inner_pages;
            let tree = TreeSize { height, height_below: 0, leaves, inner_pages, longest: 30 };
            let needed = pages_bound(&next, &tree);
            assert!(needed.pages <= bound.pages, "{needed:?} of {tree:?}, {bound:?}");
        }
    }
}
