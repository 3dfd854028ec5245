//! Output of applying a table: pages to write, pages to free, totals.

use crate::device::{BLOCK, Extent};
use crate::tree::page::KEY_LEN_MAX;
use crate::tree::reference::Top;
use bytes::Bytes;
use std::collections::VecDeque;

/// Changes that cost as much as a page, even if no page is written for them.
const CHANGES_PER_PAGE: u64 = 32;

/// Sums over all pairs, or changes of these sums.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of pairs.
    pub pairs: i64,
    /// Bytes of keys and values.
    pub bytes: i64,
    /// Bytes of keys and values of omaps: of pairs whose keys begin with `M` or `H`.
    pub omap_bytes: i64,
    /// Pairs whose keys begin with `O`.
    pub objects: i64,
}

impl Totals {
    /// Totals of one pair whose key begins with `first`.
    pub(super) fn pair(first: Option<u8>, key: usize, value: usize) -> Self {
        let bytes = (key + value) as i64;
        let is_omap = matches!(first, Some(b'M' | b'H'));
        Totals {
            pairs: 1,
            bytes,
            omap_bytes: if is_omap { bytes } else { 0 },
            objects: i64::from(first == Some(b'O')),
        }
    }

    pub(super) fn add(&mut self, other: Totals, times: i64) {
        self.pairs += times * other.pairs;
        self.bytes += times * other.bytes;
        self.omap_bytes += times * other.omap_bytes;
        self.objects += times * other.objects;
    }
}

#[derive(Debug)]
pub(super) struct Output {
    /// Number of the checkpoint, which pages name.
    pub checkpoint: u64,
    /// Set for a dry run: pages are only counted.
    pub is_dry_run: bool,
    /// Pages to be written, with their content, that [`Apply`](super::Apply) has not returned yet.
    pub writes: VecDeque<(u64, Bytes)>,
    /// Pages of the old tree that were not taken yet.
    pub freed: Vec<Extent>,
    /// Pages written so far.
    pub pages_written: u64,
    /// Pages freed so far.
    pub pages_freed: u64,
    /// Differences from the old tree so far.
    pub totals: Totals,
    /// Inner pages written less those freed.
    pub inner_pages: i64,
    /// Maximum height of a layer below the first.
    pub height_below: u8,
    /// Longest key that was put into a page, in bytes.
    pub longest: usize,
    /// Pages that were read and kept.
    pub pages_seen: u64,
    /// Changes that were merged.
    pub changes_merged: u64,
    /// Amount of work at which the step ends.
    exhausted_at: u64,
}

impl Output {
    pub(super) fn new(checkpoint: u64) -> Self {
        Output {
            checkpoint,
            is_dry_run: false,
            writes: VecDeque::new(),
            freed: Vec::new(),
            pages_written: 0,
            pages_freed: 0,
            totals: Totals::default(),
            inner_pages: 0,
            height_below: 0,
            longest: 0,
            pages_seen: 0,
            changes_merged: 0,
            exhausted_at: 0,
        }
    }

    pub(super) fn start_step(&mut self, budget: usize) {
        self.exhausted_at = self.work().saturating_add(budget.max(1) as u64);
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.work() >= self.exhausted_at
    }

    pub(super) fn work(&self) -> u64 {
        let pages = self.pages_written + self.pages_freed + self.pages_seen;
        pages + self.changes_merged / CHANGES_PER_PAGE
    }

    /// Notes the height of a layer below the first.
    pub(super) fn note_layer(&mut self, top: Option<Top>) {
        self.height_below = self.height_below.max(top.map_or(0, |top| top.height));
        self.longest = KEY_LEN_MAX;
    }

    pub(super) fn free_page(&mut self, page: u64, level: u8) {
        self.inner_pages -= i64::from(level > 0);
        self.free(page, 1);
    }

    pub(super) fn free(&mut self, start: u64, count: u64) {
        self.pages_freed += count;
        match self.freed.last_mut() {
            Some(last) if last.end() == start => last.count += count,
            _ => self.freed.push(Extent::new(start, count)),
        }
    }

    pub(super) fn write(&mut self, page: u64, bytes: Bytes) {
        self.pages_written += (bytes.len() / BLOCK) as u64;
        self.writes.push_back((page, bytes));
    }
}
