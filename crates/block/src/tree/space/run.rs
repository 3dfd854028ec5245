//! One run of pages, and which of them are free.

use smallvec::{SmallVec, smallvec};

pub(super) const WORD: u64 = 64;

/// A bit per page, set if it is not free. Bits behind the last page are set, so that they are never
/// found.
pub(super) type Words = SmallVec<[u64; 1]>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    pub pages: u64,
    pub used: u64,
    pub words: Words,
}

impl Run {
    /// All free.
    pub(super) fn new(pages: u64) -> Self {
        let mut run = Run { pages, used: 0, words: smallvec![0; pages.div_ceil(WORD) as usize] };
        if run.padding() > 0 {
            *run.words.last_mut().expect("at least one page") = run.padding_bits();
        }
        run
    }

    /// The bits of the last word that stand for no page.
    pub(super) fn padding_bits(&self) -> u64 {
        if self.padding() > 0 { u64::MAX << (self.pages % WORD) } else { 0 }
    }

    /// Pages at the end that are free.
    pub(super) fn free_tail(&self) -> u64 {
        (0..self.pages).rev().take_while(|page| !self.is_set(*page)).count() as u64
    }

    pub(super) fn has_free(&self) -> bool {
        self.used < self.pages
    }

    /// Those of another run behind its own.
    pub(super) fn append(&mut self, other: &Run) {
        let mut run = Run::new(self.pages + other.pages);
        run.take_over(self);
        for page in (0..other.pages).filter(|page| other.is_set(*page)) {
            run.set(self.pages + page, 1);
        }
        *self = run;
    }

    /// The first pages.
    pub(super) fn cut(&self, pages: u64) -> Run {
        self.part(0, pages)
    }

    /// The pages from `from` on.
    pub(super) fn behind(&self, from: u64) -> Run {
        self.part(from, self.pages - from)
    }

    pub(super) fn part(&self, from: u64, pages: u64) -> Run {
        let mut run = Run::new(pages);
        for page in (0..pages).filter(|page| self.is_set(from + page)) {
            run.set(page, 1);
        }
        run
    }

    /// Sequences of free pages: where, and how many.
    pub(super) fn gaps(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut from = 0;
        std::iter::from_fn(move || {
            let index = self.find_free(from)?;
            let pages = self.free_at(index, self.pages);
            from = index + pages;
            Some((index, pages))
        })
    }

    /// The pages in use that another run with the same start has.
    pub(super) fn take_over(&mut self, other: &Run) {
        let last = other.words.len() - 1;
        for (index, (word, old)) in self.words.iter_mut().zip(&other.words).enumerate() {
            // What lies behind the end of the other is not in use.
            let padding = if index == last { other.padding_bits() } else { 0 };
            *word |= old & !padding;
        }
        self.used = other.used;
    }

    pub(super) fn padding(&self) -> u64 {
        self.words.len() as u64 * WORD - self.pages
    }

    pub(super) fn is_set(&self, page: u64) -> bool {
        self.words[(page / WORD) as usize] & (1 << (page % WORD)) != 0
    }

    /// How many of the pages were in use. A page that was freed twice is free.
    pub(super) fn clear(&mut self, from: u64, count: u64) -> u64 {
        let mut cleared = 0;
        for page in from..from + count {
            cleared += u64::from(self.is_set(page));
            self.words[(page / WORD) as usize] &= !(1 << (page % WORD));
        }
        self.used -= cleared;
        cleared
    }

    /// The first free page from `from` on.
    pub(super) fn find_free(&self, from: u64) -> Option<u64> {
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
    pub(super) fn free_at(&self, from: u64, most: u64) -> u64 {
        let end = self.pages.min(from + most);
        (from..end).take_while(|page| !self.is_set(*page)).count() as u64
    }

    pub(super) fn set(&mut self, from: u64, count: u64) {
        for page in from..from + count {
            self.words[(page / WORD) as usize] |= 1 << (page % WORD);
        }
        self.used += count;
    }
}
