//! Pages that an operation needs, and what it says without them.

use super::flaw::PageFlaw;
use super::page::Page;
use super::reference::{PageRef, Run};
use crate::device::BLOCK;
use bytes::Bytes;
use thiserror::Error;

/// Adjacent pages to be read at once and passed to [`Tree::supply`](super::Tree::supply).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRead {
    /// First page.
    pub page: u64,
    /// Number of adjacent pages.
    pub pages: u32,
    /// Set if the read is in flight already: wait for it, do not submit it.
    pub is_in_flight: bool,
}

/// Reason why an operation has no result.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Fault {
    /// Pages to read and supply before the operation is repeated.
    #[error("{} reads are needed first", .0.len())]
    Missing(Vec<PageRead>),
    /// A page that the operation needs is damaged. Repeating makes no difference until
    /// [`Tree::forget_failures`](super::Tree::forget_failures).
    #[error("page {page} of the tree is damaged: {flaw}")]
    Damaged {
        /// The page, or the first one of a run.
        page: u64,
        /// Reason why it is not the expected page.
        flaw: PageFlaw,
    },
}

/// As [`Fault`], before the missing pages are recorded as wanted.
#[derive(Debug)]
pub(super) enum Absent {
    Missing(Vec<Want>),
    Damaged { page: u64, flaw: PageFlaw },
}

/// A page of the tree, or a run of overflow pages, with its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Want {
    /// First page.
    pub page: u64,
    /// Number of adjacent pages.
    pub pages: u32,
    /// CRC-32C by the reference.
    pub crc: u32,
    /// `None` for overflow pages.
    pub level: Option<u8>,
}

impl Want {
    /// The page that an inner page or the root refers to.
    pub fn page(reference: PageRef, level: u8) -> Self {
        Want { page: reference.page, pages: 1, crc: reference.crc, level: Some(level) }
    }

    /// A run of overflow pages.
    pub fn run(run: &Run) -> Self {
        Want { page: run.page, pages: run.pages, crc: run.crc, level: None }
    }

    /// Checks bytes that were read.
    pub fn check(&self, bytes: &Bytes) -> Result<(), PageFlaw> {
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
