//! The tree as the engine reads it: through a bounded cache of pages.

use super::cache::Cache;
use super::flaw::PageFlaw;
use super::page::Page;
use super::reference::{PageRef, Root};
use super::want::{Absent, Fault, PageRead, Want};
use crate::device::ReadError;
use bytes::Bytes;
use stdx::FastMap;

/// Failed reads that are remembered, so that operations that need them fail instead of being
/// repeated.
const FAILURES_MAX: usize = 1024;

/// The tree as of the last checkpoint, read through a cache.
#[derive(Debug)]
pub struct Tree {
    root: Option<Root>,
    pub(super) cache: Cache,
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

    /// The tree as of the last [`Tree::install`].
    pub fn root(&self) -> Option<Root> {
        self.root
    }

    /// Changes the capacity. A smaller cache shrinks with the next pages that it takes.
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
    pub fn settle_read(&mut self, page: u64, result: Result<Bytes, ReadError>) {
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

    /// Directs reads to the tree with this root. Must be called when no restart leads back to the old
    /// one: when the new superblock is durable.
    pub fn install(&mut self, root: Option<Root>) {
        self.root = root;
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
    pub(super) fn lacks(&self, want: &Want) -> bool {
        !self.cache.contains(want.page, want.crc) && !self.failures.contains_key(&want.page)
    }

    pub(super) fn fetch(&mut self, want: Want) -> Result<Bytes, Absent> {
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

    pub(super) fn fetch_page(&mut self, reference: PageRef, level: u8) -> Result<Page, Absent> {
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
    pub(super) fn settle<T>(&mut self, result: Result<T, Absent>) -> Result<T, Fault> {
        if !self.is_joint {
            self.cache.settle(matches!(result, Err(Absent::Missing(_))));
        }
        result.map_err(|absent| match absent {
            Absent::Missing(wants) => Fault::Missing(self.ask(wants)),
            Absent::Damaged { page, flaw } => Fault::Damaged { page, flaw },
        })
    }

    pub(super) fn ask(&mut self, wants: Vec<Want>) -> Vec<PageRead> {
        let ask = |want: Want| {
            let is_in_flight = self.wanted.insert(want.page, want) == Some(want);
            PageRead { page: want.page, pages: want.pages, is_in_flight }
        };
        wants.into_iter().map(ask).collect()
    }

    #[cfg(test)]
    pub(super) fn check_invariants(&self) {
        self.cache.check_invariants();
        assert!(self.failures.len() <= FAILURES_MAX);
    }
}
