//! Search for free blocks.
//!
//! Next fit: a search starts where the last one ended, so that consecutive allocations are
//! adjacent. It examines a bounded number of free runs (a *window*) and takes the first that is
//! long enough; if none is, the longest of them. So the time depends neither on the size of the map
//! nor on how full it is, only on the number of pieces.
//!
//! Up to 63 blocks are searched for among all free runs, so that they fill gaps; more are searched
//! for among the runs with a word of 64 free blocks, which `whole` finds without examining gaps.

use super::bits::WORD;
use super::extents::{Extents, join};
use super::map::BlockMap;
use crate::device::Extent;
use std::cmp::Reverse;

/// Free runs that are examined before the longest of them is taken instead of a longer one.
const WINDOW: usize = 64;
/// Free runs that are examined for a contiguous allocation before it fails.
const CONTIGUOUS_SEARCH_MAX: usize = 4096;

/// Free runs that a search examines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Runs {
    Any,
    /// Runs that contain a wholly free word: all from 127 blocks on, none below 64.
    Whole,
}

/// Positions count from the first block of the map.
#[derive(Debug)]
enum Found {
    /// As long as wanted.
    Fit(Extent),
    /// All shorter than wanted; in the order of the search.
    Pieces(Vec<Extent>),
}

impl BlockMap {
    /// Allocates `count` blocks in few extents (ascending, none adjacent to the next); `None` if
    /// there are not that many.
    pub fn allocate(&mut self, count: u64) -> Option<Extents> {
        if count > self.free {
            return None;
        }
        let mut extents = Extents::new();
        let mut left = count;
        while left > 0 {
            left -= self.allocate_some(left, &mut extents);
        }
        join(&mut extents);
        Some(extents)
    }

    /// Allocates a run of `max` blocks if a short search finds one, otherwise the longest run found
    /// that has at least `min`. With a `min` of one, fails only if nothing is free; with more, the
    /// search may give up on a very fragmented device.
    pub fn allocate_run(&mut self, min: u64, max: u64) -> Option<Extent> {
        assert!(0 < min && min <= max, "no run has from {min} to {max} blocks");
        if min > self.free {
            return None;
        }
        let mut run = match self.find(max) {
            Found::Fit(run) => run,
            Found::Pieces(pieces) => {
                let longest = pieces.into_iter().max_by_key(|run| (run.count, Reverse(run.start)));
                longest.filter(|run| run.count >= min).or_else(|| self.find_contiguous(min))?
            }
        };
        run.count = run.count.min(max);
        *self.cursor(max) = run.end();
        Some(self.claim(run))
    }

    /// First free run that does not begin before a block; the rest of a run that contains the
    /// block.
    pub fn next_free_run(&self, block: u64) -> Option<Extent> {
        let from = block.saturating_sub(self.extent().start);
        let run = self.next_run(Runs::Any, from, u64::MAX)?;
        Some(Extent::new(self.extent().start + run.start, run.count))
    }

    /// Allocates at least one and at most `wanted` blocks. At least one must be free.
    fn allocate_some(&mut self, wanted: u64, extents: &mut Extents) -> u64 {
        match self.find(wanted) {
            Found::Fit(run) => {
                *self.cursor(wanted) = run.end();
                extents.push(self.claim(run));
                wanted
            }
            Found::Pieces(mut pieces) => {
                *self.cursor(wanted) = pieces.last().expect("something is free").end();
                choose(&mut pieces, wanted);
                extents.extend(pieces.iter().map(|piece| self.claim(*piece)));
                pieces.iter().map(|piece| piece.count).sum()
            }
        }
    }

    fn find(&self, wanted: u64) -> Found {
        let small = wanted < WORD;
        let first = self.window(if small { Runs::Any } else { Runs::Whole }, wanted);
        let Found::Pieces(pieces) = first else { return first };
        if wanted >= 2 * WORD && !pieces.is_empty() {
            return Found::Pieces(pieces);
        }
        match self.window(if small { Runs::Whole } else { Runs::Any }, wanted) {
            Found::Pieces(_) if !pieces.is_empty() => Found::Pieces(pieces),
            second => second,
        }
    }

    fn window(&self, runs: Runs, wanted: u64) -> Found {
        let mut pieces: Vec<Extent> = Vec::new();
        let from = if wanted < WORD { self.cursor_small } else { self.cursor_large };
        for run in self.runs_around(runs, from, wanted).take(WINDOW) {
            if run.count >= wanted {
                return Found::Fit(Extent::new(run.start, wanted));
            }
            // The search has wrapped around to where it began, within this run.
            if pieces
                .first()
                .is_some_and(|first| first.start < run.end() && run.start < first.end())
            {
                pieces.remove(0);
            }
            pieces.push(run);
        }
        Found::Pieces(pieces)
    }

    fn find_contiguous(&self, min: u64) -> Option<Extent> {
        let search = |runs| {
            let mut found = self.runs_around(runs, 0, min).take(CONTIGUOUS_SEARCH_MAX);
            found.find(|run| run.count >= min)
        };
        search(Runs::Whole).or_else(|| if min < 2 * WORD { search(Runs::Any) } else { None })
    }

    /// Free runs from a position on to the end, then those from the beginning to the position.
    fn runs_around(&self, runs: Runs, from: u64, enough: u64) -> impl Iterator<Item = Extent> {
        let mut position = from;
        let mut wrapped = false;
        std::iter::from_fn(move || {
            let mut run = self.next_run(runs, position, enough);
            if run.is_none() && !wrapped {
                wrapped = true;
                run = self.next_run(runs, 0, enough);
            }
            let run = run.filter(|run| !wrapped || run.start < from)?;
            position = run.end();
            Some(run)
        })
    }

    /// First free run from a position on. If it is much longer than `enough`, only its beginning.
    fn next_run(&self, runs: Runs, position: u64, enough: u64) -> Option<Extent> {
        let start = match runs {
            Runs::Any => self.next_free(position)?,
            Runs::Whole => {
                let word = self.whole.next(position.div_ceil(WORD) as usize)?;
                let before = word.checked_sub(1).map_or(0, |word| self.words[word].leading_ones());
                word as u64 * WORD - u64::from(before)
            }
        };
        Some(Extent::new(start, self.run_length(start, enough)))
    }

    fn next_free(&self, position: u64) -> Option<u64> {
        let word = (position / WORD) as usize;
        let here = self.words.get(word)? & (u64::MAX << (position % WORD));
        if here != 0 {
            return Some(word as u64 * WORD + u64::from(here.trailing_zeros()));
        }
        let word = self.some.next(word + 1)?;
        Some(word as u64 * WORD + u64::from(self.words[word].trailing_zeros()))
    }

    /// Number of free blocks from `start` on. Stops counting somewhere beyond `enough`.
    fn run_length(&self, start: u64, enough: u64) -> u64 {
        let (word, low) = ((start / WORD) as usize, start % WORD);
        let here = u64::from((self.words[word] >> low).trailing_ones());
        if low + here < WORD || here >= enough {
            return here;
        }
        let whole = self.whole.consecutive(word + 1, (enough - here).div_ceil(WORD));
        let last = self.words.get(word + 1 + whole as usize);
        here + whole * WORD + last.map_or(0, |word| u64::from(word.trailing_ones()))
    }

    fn cursor(&mut self, wanted: u64) -> &mut u64 {
        if wanted < WORD { &mut self.cursor_small } else { &mut self.cursor_large }
    }

    fn claim(&mut self, run: Extent) -> Extent {
        self.use_run(run.start, run.count);
        self.touch(run.start, run.count);
        Extent::new(self.extent().start + run.start, run.count)
    }
}

/// Keeps the longest pieces, at most `wanted` blocks in total; the last is cut from a piece that is
/// just long enough. Each piece is shorter than `wanted`.
fn choose(pieces: &mut Vec<Extent>, wanted: u64) {
    if pieces.iter().map(|piece| piece.count).sum::<u64>() <= wanted {
        return;
    }
    pieces.sort_unstable_by_key(|piece| (Reverse(piece.count), piece.start));
    let mut left = wanted;
    for position in 0..pieces.len() {
        if pieces[position].count >= left {
            let enough = pieces.partition_point(|piece| piece.count >= left);
            pieces[position] = Extent::new(pieces[enough - 1].start, left);
            pieces.truncate(position + 1);
            return;
        }
        left -= pieces[position].count;
    }
}
