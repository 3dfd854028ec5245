//! Synchronous scans of key ranges as of the end of the log.

use super::error::DumpError;
use crate::device::Extent;
use crate::fsck::{Journal, Source, choose_superblock, read_journal, tree_root};
use crate::scan::{ScanPage, scan};
use crate::superblock::Superblock;
use crate::tree::{Fault, Tree};
use bytes::Bytes;
use std::ops::{Bound, Range};

/// Capacity of the page cache, in pages.
const CACHE_PAGES: usize = 4096;
/// Pairs that are read of a range in one step.
const STEP_ENTRIES: usize = 1024;
const STEP_BYTES: usize = 1 << 20;

pub(super) struct Scanner<'s, 'a> {
    source: &'s Source<'a>,
    /// The newest usable superblock.
    pub superblock: Superblock,
    /// Replayed log, whose changes lie over the tree.
    pub journal: Journal,
    tree: Tree,
}

impl<'s, 'a> Scanner<'s, 'a> {
    /// Chooses a superblock and replays the log. Fails without a usable superblock; damage of the
    /// log only ends the replay.
    pub fn open(source: &'s Source<'a>) -> Result<Self, DumpError> {
        let superblock = find_superblock(source)?;
        let journal = read_journal(source, &superblock);
        let root = tree_root(&superblock)?;
        Ok(Scanner { source, superblock, journal, tree: Tree::new(root, CACHE_PAGES) })
    }

    /// Visits all pairs of the range, until `visit` fails.
    pub fn each(
        &mut self,
        range: Range<Bytes>,
        mut visit: impl FnMut(&Bytes, &Bytes) -> Result<(), DumpError>,
    ) -> Result<(), DumpError> {
        let mut from = Bound::Included(range.start);
        loop {
            let page = self.read(from.as_ref().map(|key| &key[..]), &range.end)?;
            for (key, value) in &page.pairs {
                visit(key, value)?;
            }
            match page.pairs.last() {
                Some((last, _)) if page.more => from = Bound::Excluded(last.clone()),
                _ => return Ok(()),
            }
        }
    }

    fn read(&mut self, from: Bound<&[u8]>, end: &[u8]) -> Result<ScanPage, DumpError> {
        loop {
            let layers = [&self.journal.overlay];
            let result = scan(&layers, &mut self.tree, from, end, STEP_ENTRIES, STEP_BYTES);
            match result {
                Ok(page) => return Ok(page),
                Err(Fault::Missing(pages)) => {
                    for read in pages {
                        self.supply(read.page, read.pages);
                    }
                }
                Err(fault) => return Err(fault.into()),
            }
        }
    }

    fn supply(&mut self, page: u64, pages: u32) {
        let device = self.superblock.metadata.device;
        // Damage is reported to the reader that needs the page.
        self.tree.settle_read(page, self.source.read(device, Extent::new(page, pages.into())));
    }
}

/// The newest valid superblock.
pub(super) fn find_superblock(source: &Source<'_>) -> Result<Superblock, DumpError> {
    choose_superblock(source).map_err(DumpError::NoSuperblock)
}
