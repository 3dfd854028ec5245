//! The pages that the tree may use: runs of blocks lent from the space of data.
//!
//! A page is free, or in use, or *leaving*: the last checkpoint's tree refers to it but the new one
//! does not. Leaving pages are free when the new superblock is durable ([`PageSpace::commit`]). Pages
//! are taken in ascending order from where the last one was taken, so that those of one checkpoint
//! mostly lie beside each other.

use super::PageSource;
use crate::device::Extent;
use codec::{DecodeError, DecodeErrorKind, Reader, Writer};
use std::collections::BTreeMap;
use thiserror::Error;

const MAGIC: &[u8; 8] = b"sepioMPS";
const WORD: u64 = 64;
/// Places that are looked at to find room for adjacent pages.
const PLACES_MAX: usize = 256;
/// Pages of a run at most, so that damaged numbers ask for no absurd memory.
const RUN_MAX: u64 = 1 << 32;

/// The tree refers to a page that its own account does not know to be in use.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{count} pages from {start} on are given back and not all of them are in use")]
pub struct NotInUse {
    pub start: u64,
    pub count: u64,
}

/// Fewer free pages at the end of a run are not given back.
const TAIL_PAGES_MIN: u64 = 16;
/// Nor are fewer in the middle, for which a run becomes two.
const GAP_PAGES_MIN: u64 = 64;
/// Runs do not become more than this by giving back what is in their middle.
const SPLIT_RUNS_MAX: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Run {
    pages: u64,
    used: u64,
    /// A bit per page, set if it is not free.
    words: Vec<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageSpace {
    runs: BTreeMap<u64, Run>,
    total: u64,
    used: u64,
    /// Where the search for a free page goes on.
    cursor: u64,
    leaving: Vec<Extent>,
    /// Taken since the last commit.
    taken: Vec<Extent>,
    taken_pages: u64,
}

impl PageSpace {
    /// Lends these blocks to the tree. They must not overlap with those it has.
    pub fn add_run(&mut self, extent: Extent) {
        assert!((1..=RUN_MAX).contains(&extent.count), "run of {} pages", extent.count);
        let before = self.runs.range_mut(..extent.end()).next_back();
        let end = before.as_ref().map_or(0, |(start, run)| **start + run.pages);
        assert!(end <= extent.start, "overlap");
        self.total += extent.count;
        match before {
            Some((_, run)) if end == extent.start && run.pages + extent.count <= RUN_MAX => {
                run.extend(extent.count);
            }
            _ => drop(self.runs.insert(extent.start, Run::new(extent.count))),
        }
    }

    pub fn runs(&self) -> impl Iterator<Item = Extent> + '_ {
        self.runs.iter().map(|(start, run)| Extent::new(*start, run.pages))
    }

    pub fn free_pages(&self) -> u64 {
        self.total - self.used
    }

    /// Pages that are not free, leaving ones included.
    pub fn used_pages(&self) -> u64 {
        self.used
    }

    /// Pages that were taken since the last commit: free again if there is none.
    pub fn taken_pages(&self) -> u64 {
        self.taken_pages
    }

    pub fn leaving_pages(&self) -> u64 {
        self.leaving.iter().map(|extent| extent.count).sum()
    }

    /// The new tree does not need these pages; they are free after [`PageSpace::commit`].
    pub fn free_later(&mut self, extent: Extent) -> Result<(), NotInUse> {
        if !self.is_used(extent) {
            return Err(NotInUse { start: extent.start, count: extent.count });
        }
        self.leaving.push(extent);
        Ok(())
    }

    /// The new tree's superblock is durable.
    pub fn commit(&mut self) {
        self.taken.clear();
        self.taken_pages = 0;
        for extent in std::mem::take(&mut self.leaving) {
            self.release(extent);
        }
    }

    /// There will be no new tree: its pages are free, and the old one's stay.
    pub fn abandon(&mut self) {
        self.leaving.clear();
        self.taken_pages = 0;
        for extent in std::mem::take(&mut self.taken) {
            self.release(extent);
        }
    }

    /// Gives back free pages at the end of a run, or all of a run, the last one first: at most so many,
    /// and nothing that is not worth it.
    pub fn take_free_run(&mut self, at_most: u64) -> Option<Extent> {
        let taken = self.find_free_run(at_most).or_else(|| self.find_gap(at_most))?;
        let (start, _) = self.runs.range(..=taken.start).next_back().expect("it is in a run");
        let start = *start;
        let run = self.runs.remove(&start).expect("it was found above");
        let end = start + run.pages;
        if taken.end() < end {
            self.runs.insert(taken.end(), run.behind(taken.end() - start));
        }
        if start < taken.start {
            self.runs.insert(start, run.cut(taken.start - start));
        }
        self.total -= taken.count;
        Some(taken)
    }

    /// Whether [`PageSpace::take_free_run`] would give something.
    pub fn has_free_run(&self, at_most: u64) -> bool {
        self.find_free_run(at_most).or_else(|| self.find_gap(at_most)).is_some()
    }

    /// Free pages at the end of a run.
    fn find_free_run(&self, at_most: u64) -> Option<Extent> {
        let free = self.runs.iter().rev().map(|(start, run)| (*start, run.pages, run.free_tail()));
        let is_worth = |(_, pages, tail): &(u64, u64, u64)| {
            *tail.min(&at_most) >= TAIL_PAGES_MIN || (*tail == *pages && *pages <= at_most)
        };
        let (start, pages, tail) = free.filter(|run| run.2 > 0).find(is_worth)?;
        let taken = tail.min(at_most);
        Some(Extent::new(start + pages - taken, taken))
    }

    /// The most free pages in the middle of a run.
    fn find_gap(&self, at_most: u64) -> Option<Extent> {
        if self.runs.len() >= SPLIT_RUNS_MAX || at_most < GAP_PAGES_MIN {
            return None;
        }
        let gaps = self.runs.iter().filter(|(_, run)| run.pages - run.used >= GAP_PAGES_MIN);
        let gaps = gaps.map(|(start, run)| {
            let (index, pages) = run.longest_free();
            Extent::new(start + index, pages.min(at_most))
        });
        gaps.max_by_key(|gap| gap.count).filter(|gap| gap.count >= GAP_PAGES_MIN)
    }

    /// Fills the first runs first from now on, so that the last ones become free in time.
    pub fn rewind(&mut self) {
        self.cursor = 0;
    }

    fn is_used(&self, extent: Extent) -> bool {
        let mut page = extent.start;
        while page < extent.end() {
            let Some((start, run)) = self.runs.range(..=page).next_back() else { return false };
            let end = extent.end().min(start + run.pages);
            if page >= end || !(page..end).all(|page| run.is_set(page - start)) {
                return false;
            }
            page = end;
        }
        true
    }

    /// Adjacent pages may lie in adjacent runs.
    fn release(&mut self, extent: Extent) {
        let mut page = extent.start;
        while page < extent.end() {
            let run = self.runs.range_mut(..=page).next_back();
            let (start, run) = run.expect("pages that are freed lie in a run");
            let end = extent.end().min(start + run.pages);
            self.used -= run.clear(page - start, end - page);
            page = end;
        }
    }

    /// Takes adjacent pages: from the cursor on the first place that has room for all of them, or the
    /// largest of the next [`PLACES_MAX`].
    fn take(&mut self, pages: u64) -> Option<Extent> {
        let mut best = Extent::default();
        let mut from = self.cursor;
        for _ in 0..PLACES_MAX {
            let place = self.next_place(from, pages)?;
            if place.count > best.count {
                best = place;
            }
            if best.count == pages || place.start == self.cursor && from != self.cursor {
                break;
            }
            from = place.end();
        }
        self.mark(best);
        Some(best)
    }

    /// Up to `pages` adjacent free pages: the first ones from `from` on, or from the start.
    fn next_place(&self, from: u64, pages: u64) -> Option<Extent> {
        if self.used == self.total {
            return None;
        }
        let place = |start: u64, run: &Run, from: u64| {
            let index = run.find_free(from.saturating_sub(start))?;
            Some(Extent::new(start + index, run.free_at(index, pages)))
        };
        let first = self.runs.range(..=from).next_back().map_or(0, |(start, _)| *start);
        let behind = self.runs.range(first..).find_map(|(start, run)| place(*start, run, from));
        behind.or_else(|| self.runs.iter().find_map(|(start, run)| place(*start, run, 0)))
    }

    fn mark(&mut self, extent: Extent) {
        let run = self.runs.range_mut(..=extent.start).next_back();
        let (start, run) = run.expect("free pages lie in a run");
        run.set(extent.start - start, extent.count);
        self.used += extent.count;
        self.taken_pages += extent.count;
        self.cursor = extent.end();
        match self.taken.last_mut() {
            Some(last) if last.end() == extent.start => last.count += extent.count,
            _ => self.taken.push(extent),
        }
    }

    pub fn encoded_length(&self) -> usize {
        let words: usize = self.runs.values().map(|run| run.words.len()).sum();
        MAGIC.len() + 8 + self.runs.len() * 16 + words * 8 + 4
    }

    /// The state after [`PageSpace::commit`].
    pub fn encode(&self) -> Vec<u8> {
        let mut after = self.clone();
        after.commit();
        let mut w = Writer::with_capacity(self.encoded_length());
        w.raw(MAGIC);
        w.u64(after.runs.len() as u64);
        for (start, run) in &after.runs {
            w.u64(*start);
            w.u64(run.pages);
            run.words.iter().for_each(|word| w.u64(*word));
        }
        w.u32(crc_fast::crc32_iscsi(w.as_slice()));
        w.into_vec()
    }

    /// Reads what [`PageSpace::encode`] wrote; zeros may follow.
    pub fn decode(raw: &[u8]) -> codec::Result<Self> {
        let mut r = Reader::new(raw);
        if r.take("page space", MAGIC.len())? != MAGIC {
            return Err(r.invalid("page space magic", 0));
        }
        let mut space = PageSpace::default();
        for _ in 0..r.u64("page runs")? {
            let (at, start, pages) = (r, r.u64("run start")?, r.u64("run pages")?);
            let before = space.runs.last_key_value().map_or(0, |(start, run)| start + run.pages);
            let end = start.checked_add(pages);
            if !(1..=RUN_MAX).contains(&pages) || start < before || end.is_none() {
                return Err(at.invalid("page run", start));
            }
            let run = Run::decode(&mut r, pages)?;
            space.total += pages;
            space.used += run.used;
            space.runs.insert(start, run);
        }
        let computed = crc_fast::crc32_iscsi(&raw[..r.offset()]);
        let at = r;
        match r.u32("page space crc")? {
            found if found == computed => Ok(space),
            found => Err(at.error("page space crc", DecodeErrorKind::Checksum { found, computed })),
        }
    }

    pub fn check_invariants(&self) {
        let mut end = 0;
        for (start, run) in &self.runs {
            assert!(end <= *start, "runs overlap at {start}");
            end = start + run.pages;
            let set: u64 = run.words.iter().map(|word| u64::from(word.count_ones())).sum();
            assert_eq!(run.used + run.padding(), set);
        }
        assert_eq!(self.used, self.runs.values().map(|run| run.used).sum::<u64>());
        assert_eq!(self.total, self.runs.values().map(|run| run.pages).sum::<u64>());
        assert!(self.leaving.iter().all(|extent| self.is_used(*extent)));
    }
}

impl PageSource for PageSpace {
    fn allocate(&mut self) -> Option<u64> {
        self.take(1).map(|extent| extent.start)
    }

    fn allocate_run(&mut self, pages: u64) -> Option<Extent> {
        self.take(pages)
    }
}

impl Run {
    /// All free; bits behind the last page are set, so that they are never found.
    fn new(pages: u64) -> Self {
        let mut run = Run { pages, used: 0, words: vec![0; pages.div_ceil(WORD) as usize] };
        if run.padding() > 0 {
            *run.words.last_mut().expect("at least one page") = run.padding_bits();
        }
        run
    }

    /// The bits of the last word that stand for no page.
    fn padding_bits(&self) -> u64 {
        if self.padding() > 0 { u64::MAX << (self.pages % WORD) } else { 0 }
    }

    /// Pages at the end that are free.
    fn free_tail(&self) -> u64 {
        (0..self.pages).rev().take_while(|page| !self.is_set(*page)).count() as u64
    }

    /// As many free pages more at the end.
    fn extend(&mut self, pages: u64) {
        let mut run = Run::new(self.pages + pages);
        run.take_over(self);
        *self = run;
    }

    /// The first pages.
    fn cut(&self, pages: u64) -> Run {
        self.part(0, pages)
    }

    /// The pages from `from` on.
    fn behind(&self, from: u64) -> Run {
        self.part(from, self.pages - from)
    }

    fn part(&self, from: u64, pages: u64) -> Run {
        let mut run = Run::new(pages);
        for page in (0..pages).filter(|page| self.is_set(from + page)) {
            run.set(page, 1);
        }
        run
    }

    /// The longest sequence of free pages: where, and how many.
    fn longest_free(&self) -> (u64, u64) {
        let (mut longest, mut from) = ((0, 0), 0);
        while let Some(index) = self.find_free(from) {
            let pages = self.free_at(index, self.pages);
            if pages > longest.1 {
                longest = (index, pages);
            }
            from = index + pages;
        }
        longest
    }

    /// The pages in use that another run with the same start has.
    fn take_over(&mut self, other: &Run) {
        let last = other.words.len() - 1;
        for (index, (word, old)) in self.words.iter_mut().zip(&other.words).enumerate() {
            // What lies behind the end of the other is not in use.
            let padding = if index == last { other.padding_bits() } else { 0 };
            *word |= old & !padding;
        }
        self.used = other.used;
    }

    fn padding(&self) -> u64 {
        self.words.len() as u64 * WORD - self.pages
    }

    fn is_set(&self, page: u64) -> bool {
        self.words[(page / WORD) as usize] & (1 << (page % WORD)) != 0
    }

    /// How many of the pages were in use. A page that was freed twice is free.
    fn clear(&mut self, from: u64, count: u64) -> u64 {
        let mut cleared = 0;
        for page in from..from + count {
            cleared += u64::from(self.is_set(page));
            self.words[(page / WORD) as usize] &= !(1 << (page % WORD));
        }
        self.used -= cleared;
        cleared
    }

    /// The first free page from `from` on.
    fn find_free(&self, from: u64) -> Option<u64> {
        if self.used == self.pages || from >= self.pages {
            return None;
        }
        let first = (from / WORD) as usize;
        let mut taken = (1 << (from % WORD)) - 1;
        for (index, word) in self.words[first..].iter().enumerate() {
            let free = !(word | taken);
            if free != 0 {
                return Some((first + index) as u64 * WORD + u64::from(free.trailing_zeros()));
            }
            taken = 0;
        }
        None
    }

    /// How many pages are free in a row, up to `most`.
    fn free_at(&self, from: u64, most: u64) -> u64 {
        let end = self.pages.min(from + most);
        (from..end).take_while(|page| !self.is_set(*page)).count() as u64
    }

    fn set(&mut self, from: u64, count: u64) {
        for page in from..from + count {
            self.words[(page / WORD) as usize] |= 1 << (page % WORD);
        }
        self.used += count;
    }

    fn decode(r: &mut Reader<'_>, pages: u64) -> Result<Self, DecodeError> {
        let words = pages.div_ceil(WORD) as usize;
        let raw = r.take("page bits", words * 8)?;
        let word = |raw: &[u8]| u64::from_le_bytes(raw.try_into().expect("eight bytes"));
        let mut run = Run { pages, used: 0, words: raw.chunks_exact(8).map(word).collect() };
        let set: u64 = run.words.iter().map(|word| u64::from(word.count_ones())).sum();
        let padded = run.padding() == 0
            || run
                .words
                .last()
                .is_some_and(|last| *last >> (pages % WORD) == u64::MAX >> (pages % WORD));
        if !padded {
            return Err(r.invalid("page bits behind the run", pages));
        }
        run.used = set - run.padding();
        Ok(run)
    }
}
