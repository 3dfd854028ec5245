//! Builder: collects the entries of one level in key order and cuts them into pages.
//!
//! The first page that is cut off takes as many entries as fit, or the remaining entries are cut
//! into the minimum number of pages; so entries fill the minimum number of pages in whatever
//! portions they arrive ([`pages_bound`](super::pages_bound) relies on that).

use super::page::{CellKind, ENTRY_MAX, HEAD, HEADER, SLOT, entry_head, write_header};
use crate::device::BLOCK;
use stdx::AlignedBuffer;

/// Entries are cut into pages early once they would fill this many bytes without shared prefixes.
const SPILL: usize = 3 * BLOCK;
/// Memory of entries that were cut off is kept up to this number of bytes.
const SLACK: usize = 16 * BLOCK;
/// New keys in one gap between old ones from which on they count as an ascending sequence.
const SEQUENCE_MIN: usize = 4;
/// Bisections of the fill of the fullest page: they end within 1/64 of a page.
const BALANCE_ROUNDS: u32 = 6;

#[derive(Debug, Clone, Copy)]
struct Span {
    start: usize,
    key: usize,
    cell: usize,
    kind: CellKind,
    /// Length of the prefix shared with the previous key, in bytes.
    shared: usize,
}

impl Span {
    fn raw_size(&self) -> usize {
        SLOT + HEAD + self.key + self.cell
    }
}

#[derive(Debug)]
pub(super) struct Builder {
    level: u8,
    arena: Vec<u8>,
    spans: Vec<Span>,
    /// Size of all entries without shared prefixes, in bytes.
    raw: usize,
    /// Size from which on a full page is searched for.
    spill_at: usize,
    /// Number of pages cut off so far.
    pub pages: u64,
    /// Keys that are new, the gaps between old keys that they lie in, and whether the last key is
    /// new.
    inserted: usize,
    gaps: usize,
    in_gap: bool,
}

impl Builder {
    pub(super) fn new(level: u8) -> Self {
        Builder {
            level,
            arena: Vec::new(),
            spans: Vec::new(),
            raw: 0,
            spill_at: SPILL,
            pages: 0,
            inserted: 0,
            gaps: 0,
            in_gap: false,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Appends an entry after all others.
    pub(super) fn push(&mut self, key: &[u8], kind: CellKind, cell: &[u8], inserted: bool) {
        self.push_split(key, &[], kind, cell, inserted);
    }

    /// As `push`, with a key in two pieces.
    pub(super) fn push_split(
        &mut self,
        prefix: &[u8],
        suffix: &[u8],
        kind: CellKind,
        cell: &[u8],
        inserted: bool,
    ) {
        let start = self.arena.len();
        self.arena.extend_from_slice(prefix);
        self.arena.extend_from_slice(suffix);
        let key = self.arena.len() - start;
        let shared = match self.spans.last() {
            Some(last) => {
                let (old, new) = (self.key_of(last), &self.arena[start..]);
                debug_assert!(old < new, "keys must ascend");
                shared_length(old, new)
            }
            None => 0,
        };
        self.arena.extend_from_slice(cell);
        let span = Span { start, key, cell: cell.len(), kind, shared };
        debug_assert!(span.raw_size() <= SLOT + ENTRY_MAX);
        self.raw += span.raw_size();
        self.spans.push(span);
        self.gaps += usize::from(inserted && !self.in_gap);
        self.inserted += usize::from(inserted);
        self.in_gap = inserted;
    }

    fn key_of(&self, span: &Span) -> &[u8] {
        &self.arena[span.start..span.start + span.key]
    }

    pub(super) fn key(&self, index: usize) -> &[u8] {
        self.key_of(&self.spans[index])
    }

    pub(super) fn cell(&self, index: usize) -> &[u8] {
        let span = &self.spans[index];
        &self.arena[span.start + span.key..span.start + span.key + span.cell]
    }

    /// Shortest key that separates an entry from the previous one.
    pub(super) fn separator(&self, index: usize) -> &[u8] {
        let span = &self.spans[index];
        &self.arena[span.start..span.start + (span.shared + 1).min(span.key)]
    }

    /// Set if the whole content fits into this part of a page.
    pub(super) fn fits(&self, bytes: usize) -> bool {
        self.fit(0, bytes) == self.spans.len()
    }

    /// Number of entries of the first page, if there are more than two pages' worth of entries.
    pub(super) fn spill(&mut self) -> Option<usize> {
        if self.raw < self.spill_at {
            return None;
        }
        self.spill_at = self.raw + BLOCK;
        let first = self.fit(0, BLOCK);
        let spills = first < self.len() && self.fit(first, BLOCK) < self.len();
        spills.then_some(first)
    }

    /// Ends of the pages into which to cut all entries. If keys were inserted in ascending order,
    /// pages are full so that later keys find space after them; otherwise they are equally full.
    pub(super) fn cuts(&self) -> Vec<usize> {
        let full = self.cuts_within(BLOCK);
        if full.len() < 2 || (self.gaps == 1 && self.inserted >= SEQUENCE_MIN) {
            return full;
        }
        let (mut low, mut high, mut best) = (0_usize, BLOCK, full);
        for _ in 0..BALANCE_ROUNDS {
            let middle = low.midpoint(high);
            let cuts = self.cuts_within(middle);
            if cuts.len() <= best.len() {
                (high, best) = (middle, cuts);
            } else {
                low = middle;
            }
        }
        best
    }

    fn cuts_within(&self, bytes: usize) -> Vec<usize> {
        let mut cuts = Vec::new();
        let mut start = 0;
        while start < self.len() {
            // A single entry is a page whatever its size.
            start = self.fit(start, bytes).max(start + 1);
            cuts.push(start);
        }
        cuts
    }

    /// End of the longest sequence of entries from `start` on that fills at most `bytes`.
    fn fit(&self, start: usize, bytes: usize) -> usize {
        let mut extent = Extent::new(self.level);
        for (offset, span) in self.spans[start..].iter().enumerate() {
            extent.add(span);
            if extent.size() > bytes {
                return start + offset;
            }
        }
        self.len()
    }

    /// Writes the first entries as a page.
    pub(super) fn build(&self, entries: usize, number: u64, checkpoint: u64) -> AlignedBuffer {
        let mut raw = AlignedBuffer::zeroed(BLOCK);
        let mut extent = Extent::new(self.level);
        self.spans[..entries].iter().for_each(|span| extent.add(span));
        let first_key = usize::from(self.level > 0);
        let prefix: &[u8] = match self.spans[..entries].get(first_key) {
            Some(span) => &self.key_of(span)[..extent.prefix],
            None => &[],
        };
        let mut at = HEADER + SLOT * entries;
        raw[at..at + prefix.len()].copy_from_slice(prefix);
        at += prefix.len();
        for (index, span) in self.spans[..entries].iter().enumerate() {
            let slot = HEADER + SLOT * index;
            raw[slot..slot + SLOT].copy_from_slice(&(at as u16).to_le_bytes());
            let skipped = if index < first_key { span.key } else { prefix.len() };
            let head = entry_head(span.key - skipped, span.kind);
            raw[at..at + HEAD].copy_from_slice(&head.to_le_bytes());
            let body = &self.arena[span.start + skipped..span.start + span.key + span.cell];
            raw[at + HEAD..at + HEAD + body.len()].copy_from_slice(body);
            at += HEAD + body.len();
        }
        write_header(&mut raw, self.level, entries, prefix.len(), at, number, checkpoint);
        raw
    }

    /// Drops the first entries, which are on a page now.
    pub(super) fn remove_first(&mut self, entries: usize) {
        self.pages += 1;
        self.raw -= self.spans[..entries].iter().map(Span::raw_size).sum::<usize>();
        self.spans.drain(..entries);
        self.spill_at = SPILL.max(self.raw);
        if self.spans.is_empty() {
            self.arena.clear();
            (self.inserted, self.gaps, self.in_gap) = (0, 0, false);
        } else if self.arena.len() > SLACK {
            self.compact();
        }
    }

    fn compact(&mut self) {
        let start = self.spans[0].start;
        self.arena.drain(..start);
        self.spans.iter_mut().for_each(|span| span.start -= start);
    }

    /// Drops all entries, which are on a page already.
    pub(super) fn clear(&mut self) {
        let pages = self.pages;
        self.remove_first(self.len());
        self.pages = pages;
    }
}

/// Size of a page while entries are added to it.
struct Extent {
    /// Bytes of the first key of an inner page, which is not stored.
    keyless: usize,
    entries: usize,
    keys: usize,
    key_bytes: usize,
    cell_bytes: usize,
    prefix: usize,
}

impl Extent {
    fn new(level: u8) -> Self {
        let keyless = usize::from(level > 0);
        Extent { keyless, entries: 0, keys: 0, key_bytes: 0, cell_bytes: 0, prefix: 0 }
    }

    fn add(&mut self, span: &Span) {
        self.entries += 1;
        self.cell_bytes += span.cell;
        if self.entries > self.keyless {
            self.prefix = if self.keys == 0 { span.key } else { self.prefix.min(span.shared) };
            self.keys += 1;
            self.key_bytes += span.key;
        }
    }

    fn size(&self) -> usize {
        let shared = self.keys.saturating_sub(1) * self.prefix;
        HEADER + self.entries * (SLOT + HEAD) + self.cell_bytes + self.key_bytes - shared
    }
}

pub(super) fn shared_length(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::page::Page;
    use bytes::Bytes;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn builder(pairs: &BTreeMap<Vec<u8>, Vec<u8>>) -> Builder {
        let mut builder = Builder::new(0);
        for (key, value) in pairs {
            builder.push(key, CellKind::Inline, value, false);
        }
        builder
    }

    fn built(pairs: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<Page> {
        let mut builder = builder(pairs);
        let (mut pages, mut done) = (Vec::new(), 0);
        for end in builder.cuts() {
            let raw = Bytes::from(builder.build(end - done, 7, 1));
            builder.remove_first(end - done);
            done = end;
            pages.push(Page::check(raw, 7, 0).expect("what is built is valid"));
        }
        pages
    }

    fn pairs() -> impl Strategy<Value = BTreeMap<Vec<u8>, Vec<u8>>> {
        let key = proptest::collection::vec(0u8..3, 0..60);
        let value = proptest::collection::vec(any::<u8>(), 0..600);
        proptest::collection::btree_map(key, value, 1..80)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn pages_hold_what_was_pushed(pairs in pairs()) {
            let pages = built(&pairs);
            let mut found = Vec::new();
            for page in &pages {
                for index in 0..page.len() {
                    found.push((page.key(index), page.entry(index).cell.to_vec()));
                    prop_assert_eq!(page.search(&page.key(index)), Ok(index));
                }
            }
            prop_assert_eq!(found, pairs.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn flipped_bits_and_random_bytes_never_panic(
            pairs in pairs(), at in 0..BLOCK, bit in 0u32..8, noise: [u8; 32],
        ) {
            let builder = builder(&pairs);
            let mut raw = builder.build(builder.cuts()[0], 7, 1).to_vec();
            raw[at] ^= 1u8 << bit;
            let _ = Page::check(Bytes::from(raw.clone()), 7, 0).map(|page| page.search(&noise));
            let place = at.min(BLOCK - noise.len());
            raw[place..place + noise.len()].copy_from_slice(&noise);
            let _ = Page::check(Bytes::from(raw.clone()), 7, 0).map(|page| page.search(&noise));
            let _ = Page::check(Bytes::from(raw), 7, 1).map(|page| page.child_index(&noise));
        }
    }
}
