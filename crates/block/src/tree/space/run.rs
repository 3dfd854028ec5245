//! One run of pages, and its free pages.

use smallvec::{SmallVec, smallvec};

pub(super) const WORD: u64 = 64;

/// One bit per page, set if it is not free. Bits after the last page are set, so that they are
/// never found.
pub(super) type Words = SmallVec<[u64; 1]>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PageRun {
    /// Number of pages.
    pub pages: u64,
    /// Pages that are not free.
    pub used: u64,
    /// The bits.
    pub words: Words,
    /// Pages that are free as of the next commit, and in use until then. Empty if there are none.
    leaving: Words,
}

impl PageRun {
    /// A run of free pages.
    pub(super) fn new(pages: u64) -> Self {
        let mut run = PageRun::of(pages, smallvec![0; pages.div_ceil(WORD) as usize]);
        if run.padding() > 0 {
            *run.words.last_mut().expect("at least one page") = run.padding_bits();
        }
        run
    }

    /// A run with these bits, of which no page counts as used yet.
    pub(super) fn of(pages: u64, words: Words) -> Self {
        PageRun { pages, used: 0, words, leaving: Words::new() }
    }

    /// Marks pages in use as leaving; returns how many were not leaving before.
    pub(super) fn leave(&mut self, index: u64, pages: u64) -> u64 {
        self.leaving.resize(self.words.len(), 0);
        let mut fresh = 0;
        for (word, bits) in words(index, pages) {
            fresh += u64::from((bits & !self.leaving[word]).count_ones());
            self.leaving[word] |= bits;
        }
        fresh
    }

    /// Frees leaving pages; returns their number.
    pub(super) fn let_go(&mut self) -> u64 {
        let pages = self.leaving_pages();
        for (word, leaving) in self.words.iter_mut().zip(&self.leaving) {
            *word &= !leaving;
        }
        self.used -= pages;
        self.stay();
        pages
    }

    /// Keeps leaving pages in use.
    pub(super) fn stay(&mut self) {
        self.leaving = Words::new();
    }

    pub(super) fn leaving_pages(&self) -> u64 {
        self.leaving.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// The words as of the next commit.
    pub(super) fn words_after(&self) -> impl Iterator<Item = u64> + '_ {
        let leaving = self.leaving.iter().copied().chain(std::iter::repeat(0));
        self.words.iter().zip(leaving).map(|(word, leaving)| word & !leaving)
    }

    /// Bits of the last word that stand for no page.
    pub(super) fn padding_bits(&self) -> u64 {
        if self.padding() > 0 { u64::MAX << (self.pages % WORD) } else { 0 }
    }

    /// Number of free pages at the end.
    pub(super) fn free_tail(&self) -> u64 {
        (0..self.pages).rev().take_while(|page| !self.is_set(*page)).count() as u64
    }

    pub(super) fn has_free(&self) -> bool {
        self.used < self.pages
    }

    /// Appends the pages of another run.
    pub(super) fn append(&mut self, other: &PageRun) {
        let mut run = PageRun::new(self.pages + other.pages);
        run.take_over(self);
        for page in (0..other.pages).filter(|page| other.is_set(*page)) {
            run.set(self.pages + page, 1);
        }
        for page in (0..other.pages).filter(|page| other.is_leaving(*page)) {
            run.leave(self.pages + page, 1);
        }
        *self = run;
    }

    /// The first pages.
    pub(super) fn cut(&self, pages: u64) -> PageRun {
        self.part(0, pages)
    }

    /// The pages from `from` on.
    pub(super) fn behind(&self, from: u64) -> PageRun {
        self.part(from, self.pages - from)
    }

    /// Copies whole words, because the run may be as long as the device.
    pub(super) fn part(&self, from: u64, pages: u64) -> PageRun {
        let mut run = PageRun::new(pages);
        shift(&self.words, from, &mut run.words);
        if !self.leaving.is_empty() {
            run.leaving = smallvec![0; run.words.len()];
            shift(&self.leaving, from, &mut run.leaving);
            // Padding is never leaving.
            let padding = run.padding_bits();
            *run.leaving.last_mut().expect("at least one page") &= !padding;
        }
        // Pages after the part may have been in use.
        let padding = run.padding_bits();
        let last = run.words.last_mut().expect("at least one page");
        *last |= padding;
        let set: u64 = run.words.iter().map(|word| u64::from(word.count_ones())).sum();
        run.used = set - run.padding();
        run
    }

    /// Sequences of free pages: start and number.
    pub(super) fn gaps(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut from = 0;
        std::iter::from_fn(move || {
            let index = self.find_free(from)?;
            let pages = self.free_at(index, self.pages);
            from = index + pages;
            Some((index, pages))
        })
    }

    /// Adds the pages in use of another run with the same start.
    pub(super) fn take_over(&mut self, other: &PageRun) {
        let last = other.words.len() - 1;
        for (index, (word, old)) in self.words.iter_mut().zip(&other.words).enumerate() {
            // Bits after the end of the other run are not in use.
            let padding = if index == last { other.padding_bits() } else { 0 };
            *word |= old & !padding;
        }
        self.used = other.used;
        self.leaving = other.leaving.clone();
        if !self.leaving.is_empty() {
            self.leaving.resize(self.words.len(), 0);
        }
    }

    fn is_leaving(&self, page: u64) -> bool {
        let word = self.leaving.get((page / WORD) as usize);
        word.is_some_and(|word| word & (1 << (page % WORD)) != 0)
    }

    pub(super) fn padding(&self) -> u64 {
        self.words.len() as u64 * WORD - self.pages
    }

    pub(super) fn is_set(&self, page: u64) -> bool {
        self.words[(page / WORD) as usize] & (1 << (page % WORD)) != 0
    }

    /// Number of pages that were in use. A page that was freed twice is free.
    pub(super) fn clear(&mut self, from: u64, count: u64) -> u64 {
        let mut cleared = 0;
        for page in from..from + count {
            cleared += u64::from(self.is_set(page));
            self.words[(page / WORD) as usize] &= !(1 << (page % WORD));
        }
        self.used -= cleared;
        cleared
    }

    /// First free page from `from` on.
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

    /// Number of consecutive free pages, up to `most`.
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

/// Copies bits from `from` on into all words of `target`.
fn shift(source: &[u64], from: u64, target: &mut [u64]) {
    let (first, low) = ((from / WORD) as usize, from % WORD);
    let word = |index: usize| source.get(index).copied().unwrap_or(0);
    for (index, bits) in target.iter_mut().enumerate() {
        let high = word(first + index + 1).checked_shl((WORD - low) as u32).unwrap_or(0);
        *bits |= word(first + index) >> low | high;
    }
}

/// Words that pages lie in, each with their bits.
fn words(from: u64, pages: u64) -> impl Iterator<Item = (usize, u64)> {
    let end = from + pages;
    (from / WORD..end.div_ceil(WORD)).map(move |word| {
        let (first, behind) = (from.max(word * WORD), end.min((word + 1) * WORD));
        let bits = u64::MAX >> (WORD - (behind - first)) << (first % WORD);
        (word as usize, bits)
    })
}
