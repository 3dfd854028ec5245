//! The metadata space: runs of blocks that the tree may use as pages.
//!
//! A page is free, or in use, or *leaving*: the last checkpoint's tree refers to it but the new one
//! does not. Leaving pages are free when the new superblock is durable ([`PageSpace::commit`]).
//! Pages are allocated in ascending order from the last allocation on, so that those of one
//! checkpoint are mostly adjacent.
//!
//! Usually there are few long runs. On a fragmented device there may be many ([`RUNS_MAX`]), so no
//! operation on a single page examines all of them.

mod encoding;
mod run;

use super::PageSource;
use crate::device::Extent;
use run::PageRun;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use thiserror::Error;

/// Maximum number of runs.
pub const RUNS_MAX: usize = 1 << 16;
/// Places that are examined to find adjacent pages.
const PLACES_MAX: usize = 256;
/// Places that are examined to find the longest, if those suffice.
const LONGEST_LOOKED_AT: usize = 1 << 16;
/// Maximum number of pages of a run, so that damaged numbers cannot request absurd memory.
const RUN_MAX: u64 = 1 << 32;

/// The tree refers to a page that its own account does not know to be in use.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{count} pages from {start} on are freed and not all of them are in use")]
pub struct NotInUse {
    /// First page.
    pub start: u64,
    /// Number of pages.
    pub count: u64,
}

/// Freeing pages in the middle of runs does not create more runs than this.
const SPLIT_RUNS_MAX: usize = RUNS_MAX / 4;

/// The runs of the metadata space, and the state of each page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageSpace {
    /// Runs by first page; none is adjacent to the next, unless they would be too long as one.
    runs: BTreeMap<u64, PageRun>,
    /// Runs that have free pages.
    open: BTreeSet<u64>,
    total: u64,
    used: u64,
    /// Bytes of all runs in the second form of the encoding.
    bytes_of_many: usize,
    /// Page where the search for a free page continues.
    cursor: u64,
    /// Runs that have leaving pages.
    losing: BTreeSet<u64>,
    leaving: u64,
    /// Pages allocated since the last commit.
    taken: Vec<Extent>,
    taken_pages: u64,
}

impl PageSpace {
    /// Adds blocks, which must not overlap with those already in the metadata space.
    pub fn add_run(&mut self, extent: Extent) {
        assert!((1..=RUN_MAX).contains(&extent.count), "run of {} pages", extent.count);
        let before = self.runs.range(..extent.end()).next_back();
        let before = before.map(|(start, run)| Extent::new(*start, run.pages));
        assert!(before.is_none_or(|before| before.end() <= extent.start), "overlap");
        let (mut start, mut run) = (extent.start, PageRun::new(extent.count));
        let touches = |other: &Extent, pages: u64| pages + other.count <= RUN_MAX;
        if let Some(before) =
            before.filter(|run| run.end() == extent.start && touches(run, extent.count))
        {
            let mut joined = self.remove(before.start);
            joined.append(&run);
            (start, run) = (before.start, joined);
        }
        let behind = self.runs.get(&extent.end()).map(|run| Extent::new(extent.end(), run.pages));
        if let Some(behind) = behind.filter(|behind| touches(behind, run.pages)) {
            run.append(&self.remove(behind.start));
        }
        self.insert(start, run);
    }

    fn insert(&mut self, start: u64, run: PageRun) {
        self.total += run.pages;
        self.used += run.used;
        self.bytes_of_many += run.bytes_of_many(start);
        if run.has_free() {
            self.open.insert(start);
        }
        let leaving = run.leaving_pages();
        if leaving > 0 {
            self.losing.insert(start);
            self.leaving += leaving;
        }
        self.runs.insert(start, run);
    }

    fn remove(&mut self, start: u64) -> PageRun {
        let run = self.runs.remove(&start).expect("the caller found it");
        self.open.remove(&start);
        self.losing.remove(&start);
        self.leaving -= run.leaving_pages();
        self.total -= run.pages;
        self.used -= run.used;
        self.bytes_of_many -= run.bytes_of_many(start);
        run
    }

    /// The runs, ascending.
    pub fn runs(&self) -> impl Iterator<Item = Extent> + '_ {
        self.runs.iter().map(|(start, run)| Extent::new(*start, run.pages))
    }

    /// Number of runs; at most [`RUNS_MAX`].
    pub fn run_count(&self) -> usize {
        self.runs.len()
    }

    /// Pages that can be allocated now.
    pub fn free_pages(&self) -> u64 {
        self.total - self.used
    }

    /// Pages that are not free, including leaving ones.
    pub fn used_pages(&self) -> u64 {
        self.used
    }

    /// Pages that were allocated since the last commit, and become free if there is none.
    pub fn taken_pages(&self) -> u64 {
        self.taken_pages
    }

    /// Pages that are free after [`PageSpace::commit`].
    pub fn leaving_pages(&self) -> u64 {
        self.leaving
    }

    /// Marks pages that the new tree does not refer to; they are free after [`PageSpace::commit`].
    pub fn free_later(&mut self, extent: Extent) -> Result<(), NotInUse> {
        if !self.is_used(extent) {
            return Err(NotInUse { start: extent.start, count: extent.count });
        }
        let mut page = extent.start;
        while page < extent.end() {
            let (start, run) = self.runs.range_mut(..=page).next_back().expect("looked at above");
            let end = extent.end().min(start + run.pages);
            self.leaving += run.leave(page - start, end - page);
            self.losing.insert(*start);
            page = end;
        }
        Ok(())
    }

    /// Frees leaving pages, once the new tree's superblock is durable.
    pub fn commit(&mut self) {
        self.taken.clear();
        self.taken_pages = 0;
        // Whole words at a time: a checkpoint may have replaced very many pages.
        for start in std::mem::take(&mut self.losing) {
            let run = self.runs.get_mut(&start).expect("runs stay while pages of them are leaving");
            self.used -= run.let_go();
            self.open.insert(start);
        }
        self.leaving = 0;
    }

    /// Drops the new tree: its pages are free, and the old one's are kept.
    pub fn abandon(&mut self) {
        for start in std::mem::take(&mut self.losing) {
            self.runs.get_mut(&start).expect("as above").stay();
        }
        self.leaving = 0;
        self.taken_pages = 0;
        for extent in std::mem::take(&mut self.taken) {
            self.release(extent);
        }
    }

    /// Removes up to `at_most` free pages in pieces of at least `piece_min`: first wholly free runs
    /// and the ends of others, the last ones first; then the longest pieces within runs, each of
    /// which splits a run in two.
    pub fn take_free_runs(&mut self, at_most: u64, piece_min: u64) -> Vec<Extent> {
        let mut left = at_most;
        let mut ends: Vec<Extent> = self.free_ends(at_most, piece_min).collect();
        ends.retain(|end| {
            let fits = end.count <= left;
            left -= if fits { end.count } else { 0 };
            fits
        });
        ends.iter().for_each(|extent| self.cut_out(*extent));
        let mut gaps: Vec<Extent> = self.gaps(left, piece_min).collect();
        gaps.sort_unstable_by_key(|gap| (Reverse(gap.count), gap.start));
        gaps.truncate(SPLIT_RUNS_MAX.saturating_sub(self.runs.len()));
        for gap in &mut gaps {
            gap.count = gap.count.min(left);
            left -= gap.count;
        }
        gaps.retain(|gap| gap.count >= piece_min);
        gaps.iter().for_each(|extent| self.cut_out(*extent));
        [ends, gaps].concat()
    }

    /// Set if [`PageSpace::take_free_runs`] would return something.
    pub fn has_free_runs(&self, at_most: u64, piece_min: u64) -> bool {
        let has_gap = || self.gaps(at_most, piece_min).next().is_some();
        self.free_ends(at_most, piece_min).next().is_some()
            || self.runs.len() < SPLIT_RUNS_MAX && has_gap()
    }

    /// The last free pages of each run, up to `at_most` in total.
    fn free_ends(&self, at_most: u64, piece_min: u64) -> impl Iterator<Item = Extent> + '_ {
        let open = if at_most > 0 { self.open.iter().rev() } else { Default::default() };
        open.filter_map(move |start| {
            let run = &self.runs[start];
            let taken = run.free_tail().min(at_most);
            let is_worth = taken >= piece_min || taken == run.pages;
            is_worth.then(|| Extent::new(start + run.pages - taken, taken))
        })
    }

    /// Adjacent free pages, if there are enough of them.
    fn gaps(&self, at_most: u64, piece_min: u64) -> impl Iterator<Item = Extent> + '_ {
        let open = if at_most >= piece_min { self.open.iter() } else { Default::default() };
        let gaps = open.flat_map(|start| {
            let gaps = self.runs[start].gaps();
            gaps.map(move |(index, pages)| Extent::new(start + index, pages))
        });
        gaps.filter(move |gap| gap.count >= piece_min)
    }

    /// Removes free pages from their run, of which the rest stays.
    fn cut_out(&mut self, taken: Extent) {
        let (start, _) = self.runs.range(..=taken.start).next_back().expect("it is in a run");
        let start = *start;
        let run = self.remove(start);
        if taken.end() < start + run.pages {
            self.insert(taken.end(), run.behind(taken.end() - start));
        }
        if start < taken.start {
            self.insert(start, run.cut(taken.start - start));
        }
    }

    /// Restarts allocation at the first run, so that the last ones become free in time.
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
            self.open.insert(*start);
            page = end;
        }
    }

    /// Allocates adjacent pages: the first place from the cursor on that has all of them, or the
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

    /// Allocates pages in at most `pieces_max` pieces: the longest of the first places or, if those
    /// do not suffice, of all. Returns fewer pages if that many pieces do not have enough.
    pub fn allocate_longest(&mut self, pages: u64, pieces_max: usize) -> Vec<Extent> {
        let some = self.longest_places(pages, pieces_max, LONGEST_LOOKED_AT);
        let is_enough = some.iter().map(|place| place.count).sum::<u64>() >= pages;
        let places =
            if is_enough { some } else { self.longest_places(pages, pieces_max, usize::MAX) };
        let mut left = pages;
        let mut taken = Vec::new();
        for place in places {
            let piece = Extent::new(place.start, place.count.min(left));
            if piece.count > 0 {
                left -= piece.count;
                self.mark(piece);
                taken.push(piece);
            }
        }
        taken
    }

    /// Adjacent free pages, the longest first.
    fn longest_places(&self, pages: u64, pieces_max: usize, looked_at: usize) -> Vec<Extent> {
        let gaps = self.gaps(u64::MAX, 1).take(looked_at);
        let mut longest = BinaryHeap::new();
        for gap in gaps {
            longest.push(Reverse((gap.count.min(pages), Reverse(gap.start))));
            if longest.len() > pieces_max {
                longest.pop();
            }
        }
        let longest = longest.into_sorted_vec().into_iter();
        longest.map(|Reverse((count, Reverse(start)))| Extent::new(start, count)).collect()
    }

    /// Up to `pages` adjacent free pages: the first ones from `from` on, or from the start.
    fn next_place(&self, from: u64, pages: u64) -> Option<Extent> {
        let place = |start: u64, from: u64| {
            let run = &self.runs[&start];
            let index = run.find_free(from.saturating_sub(start))?;
            Some(Extent::new(start + index, run.free_at(index, pages)))
        };
        let here = self.open.range(..=from).next_back().and_then(|start| place(*start, from));
        let behind = || self.open.range(from + 1..).next().and_then(|start| place(*start, from));
        let first = || self.open.first().and_then(|start| place(*start, 0));
        here.or_else(behind).or_else(first)
    }

    fn mark(&mut self, extent: Extent) {
        let run = self.runs.range_mut(..=extent.start).next_back();
        let (start, run) = run.expect("free pages lie in a run");
        run.set(extent.start - start, extent.count);
        if !run.has_free() {
            self.open.remove(start);
        }
        self.used += extent.count;
        self.taken_pages += extent.count;
        self.cursor = extent.end();
        match self.taken.last_mut() {
            Some(last) if last.end() == extent.start => last.count += extent.count,
            _ => self.taken.push(extent),
        }
    }

    /// Panics if sums or indexes disagree with the runs. Examines everything.
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
        let bytes = self.runs.iter().map(|(start, run)| run.bytes_of_many(*start)).sum::<usize>();
        assert_eq!(self.bytes_of_many, bytes);
        let open = self.runs.iter().filter(|(_, run)| run.has_free()).map(|(start, _)| *start);
        assert_eq!(self.open, open.collect(), "runs with free pages");
        let leaving: u64 = self.runs.values().map(PageRun::leaving_pages).sum();
        assert_eq!(self.leaving, leaving);
        let losing = self.runs.iter().filter(|(_, run)| run.leaving_pages() > 0);
        assert_eq!(self.losing, losing.map(|(start, _)| *start).collect(), "runs that lose pages");
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
