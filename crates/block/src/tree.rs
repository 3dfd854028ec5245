//! The metadata tree: a copy-on-write B+-tree of pages.
//!
//! Keys and values are bytes; keys are ordered as bytes. The tree is read through a bounded cache
//! of pages and changed only by checkpoints ([`Apply`]), which merge a sorted
//! [`Table`](crate::table::Table) into it. `docs/internals/disk-format.md` describes the format.
//!
//! **Reading.** [`Tree::get`] and [`Tree::scan`] either return a result or fail with
//! [`Fault::Missing`], which names pages to read. The caller reads those that are not in flight
//! ([`PageRead::is_in_flight`]), passes each to [`Tree::supply`] or [`Tree::supply_failed`], and repeats
//! the call. A failed page is not read again before [`Tree::forget_failures`]. Every page is
//! verified against the reference that led to it before it is used. With a cache of any size, a
//! repeated operation makes progress (see `cache`).
//!
//! **Changing.** [`Apply`] builds a new tree beside the old one: it writes to newly allocated pages
//! only, so reads continue in the old tree until [`Tree::install`]. Pages of the old tree must not
//! be reused before the superblock that names the new one is durable; [`PageSpace`] tracks that.
//!
//! **Long keys.** Keys of at least [`KEY_LEN_MAX`] bytes are cut there: all keys with the same
//! first [`KEY_LEN_MAX`] bytes are stored, without those, in a tree of their own (a *layer*), whose
//! top is the value of those first bytes in the tree above. So keys may have any length, and no key
//! in a page is longer.
//!
//! The tree knows nothing of the meaning of its keys, but for the statistics of [`Applied`]; nor of
//! blocks other than its pages, nor when a checkpoint is due.

mod apply;
mod bound;
mod builder;
mod cache;
mod overflow;
mod page;
mod read;
mod reference;
mod space;
#[cfg(test)]
mod tests;
mod walk;

pub use apply::{Applied, Apply, ApplyError, PageSource, Step, Totals};
pub use bound::{Load, PagesBound, TreeSize, pages_bound};
pub use overflow::VALUE_MAX;
pub use page::{KEY_LEN_MAX, PageFlaw};
pub use read::ScanPage;
pub use reference::{PageRef, Root};
pub use space::{NotInUse, PageSpace, RUNS_MAX};
pub use walk::{Finding, Visitor, walk};

use bytes::Bytes;
use cache::Cache;
use page::Page;
use reference::Run;
use stdx::FastMap;
use thiserror::Error;

use crate::device::BLOCK;

/// Failed reads that are remembered, so that operations that need them fail instead of being
/// repeated.
const FAILURES_MAX: usize = 1024;

/// Adjacent pages to be read at once and passed to [`Tree::supply`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRead {
    pub page: u64,
    pub pages: u32,
    /// Set if the read is in flight already: wait for it, do not submit it.
    pub is_in_flight: bool,
}

/// Reason why an operation has no result.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Fault {
    #[error("{} reads are needed first", .0.len())]
    Missing(Vec<PageRead>),
    #[error("page {page} of the tree is damaged: {flaw}")]
    Damaged { page: u64, flaw: PageFlaw },
}

/// As [`Fault`], before the missing pages are recorded as wanted.
#[derive(Debug)]
enum Absent {
    Missing(Vec<Want>),
    Damaged { page: u64, flaw: PageFlaw },
}

/// A page of the tree, or a run of overflow pages, with its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Want {
    page: u64,
    pages: u32,
    crc: u32,
    /// `None` for overflow pages.
    level: Option<u8>,
}

impl Want {
    fn page(reference: PageRef, level: u8) -> Self {
        Want { page: reference.page, pages: 1, crc: reference.crc, level: Some(level) }
    }

    fn run(run: &Run) -> Self {
        Want { page: run.page, pages: run.pages, crc: run.crc, level: None }
    }

    fn check(&self, bytes: &Bytes) -> Result<(), PageFlaw> {
        let expected = self.pages as usize * BLOCK;
        if bytes.len() != expected {
            return Err(PageFlaw::Length { expected, found: bytes.len() });
        }
        let found = crc_fast::crc32_iscsi(bytes);
        if found != self.crc {
            return Err(PageFlaw::Checksum { expected: self.crc, found });
        }
        match self.level {
            Some(level) => Page::check(bytes.clone(), self.page, level).map(|_| ()),
            None => Ok(()),
        }
    }
}

/// The tree as of the last checkpoint, read through a cache.
#[derive(Debug)]
pub struct Tree {
    root: Option<Root>,
    cache: Cache,
    /// Reads in flight.
    wanted: FastMap<u64, Want>,
    failures: FastMap<u64, (u32, PageFlaw)>,
    /// Set while operations are parts of one that is repeated as a whole.
    is_joint: bool,
}

impl Tree {
    /// A cache of fewer than about a hundred pages works, slowly.
    pub fn new(root: Option<Root>, cache_pages: usize) -> Self {
        Tree {
            root,
            cache: Cache::new(cache_pages),
            wanted: FastMap::default(),
            failures: FastMap::default(),
            is_joint: false,
        }
    }

    pub fn root(&self) -> Option<Root> {
        self.root
    }

    pub fn set_cache_pages(&mut self, pages: usize) {
        self.cache.set_pages_max(pages);
    }

    /// Pages in the cache.
    pub fn cached_pages(&self) -> usize {
        self.cache.pages()
    }

    /// Supplies bytes that were read. Bytes that no operation waits for are ignored. Bytes that
    /// fail verification leave the page wanted: the caller reads it again, or calls
    /// [`Tree::supply_failed`].
    pub fn supply(&mut self, page: u64, bytes: Bytes) -> Result<(), PageFlaw> {
        let Some(want) = self.wanted.get(&page).copied() else { return Ok(()) };
        want.check(&bytes)?;
        self.wanted.remove(&page);
        self.cache.insert_read(page, want.crc, want.level, bytes);
        Ok(())
    }

    /// Marks a page as unreadable: operations that need it fail until failures are forgotten.
    pub fn supply_failed(&mut self, page: u64, flaw: PageFlaw) {
        if let Some(want) = self.wanted.remove(&page) {
            self.remember(&want, flaw);
        }
    }

    /// Ends a read that is not repeated, whatever its result.
    pub fn settle_read(&mut self, page: u64, result: Result<Bytes, String>) {
        let supplied = match result {
            Ok(bytes) => self.supply(page, bytes),
            Err(reason) => Err(PageFlaw::Unreadable(reason)),
        };
        if let Err(flaw) = supplied {
            self.supply_failed(page, flaw);
        }
    }

    /// Set if operations fail for pages without reading them.
    pub fn has_failures(&self) -> bool {
        !self.failures.is_empty()
    }

    /// Lets operations ask again for pages whose reads failed.
    pub fn forget_failures(&mut self) {
        self.failures.clear();
    }

    /// Directs reads to the new tree. Must be called when no restart leads back to the old one:
    /// when the new superblock is durable.
    pub fn install(&mut self, applied: &Applied) {
        self.root = applied.root;
        self.wanted.clear();
        self.failures.clear();
    }

    /// Evicts a page that the tree does not refer to any more. A reused page is read again.
    pub fn forget(&mut self, page: u64) {
        self.cache.remove(page);
    }

    fn remember(&mut self, want: &Want, flaw: PageFlaw) {
        if self.failures.len() >= FAILURES_MAX {
            self.failures.clear();
        }
        self.failures.insert(want.page, (want.crc, flaw));
    }

    /// Set if the page would have to be read and is not known to be unreadable.
    fn lacks(&self, want: &Want) -> bool {
        !self.cache.contains(want.page, want.crc) && !self.failures.contains_key(&want.page)
    }

    fn fetch(&mut self, want: Want) -> Result<Bytes, Absent> {
        if let Some(bytes) = self.cache.get(want.page, want.crc) {
            return Ok(bytes);
        }
        match self.failures.get(&want.page) {
            Some((crc, flaw)) if *crc == want.crc => {
                Err(Absent::Damaged { page: want.page, flaw: flaw.clone() })
            }
            _ => Err(Absent::Missing(vec![want])),
        }
    }

    fn fetch_page(&mut self, reference: PageRef, level: u8) -> Result<Page, Absent> {
        self.fetch(Want::page(reference, level)).map(Page::checked_before)
    }

    /// Starts a sequence of operations, up to [`Tree::end`], that is repeated as a whole if a page
    /// is missing.
    pub fn begin(&mut self) {
        self.is_joint = true;
    }

    /// Ends the sequence. If it will be repeated (`again`), all pages that it used are held.
    pub fn end(&mut self, again: bool) {
        self.is_joint = false;
        self.cache.settle(again);
    }

    /// Ends an operation: its missing pages are wanted from now on.
    fn settle<T>(&mut self, result: Result<T, Absent>) -> Result<T, Fault> {
        if !self.is_joint {
            self.cache.settle(matches!(result, Err(Absent::Missing(_))));
        }
        result.map_err(|absent| match absent {
            Absent::Missing(wants) => Fault::Missing(self.ask(wants)),
            Absent::Damaged { page, flaw } => Fault::Damaged { page, flaw },
        })
    }

    fn ask(&mut self, wants: Vec<Want>) -> Vec<PageRead> {
        let ask = |want: Want| {
            let is_in_flight = self.wanted.insert(want.page, want) == Some(want);
            PageRead { page: want.page, pages: want.pages, is_in_flight }
        };
        wants.into_iter().map(ask).collect()
    }

    #[cfg(test)]
    fn check_invariants(&self) {
        self.cache.check_invariants();
        assert!(self.failures.len() <= FAILURES_MAX);
    }
}
