//! State that all parts of a step share.

use super::jobs::Release;
use super::output::Output;
use crate::device::Extent;
use crate::table::Table;
use crate::tree::cached::Tree;
use crate::tree::flaw::PageFlaw;
use crate::tree::overflow::VALUE_MAX;
use crate::tree::want::Absent;
use thiserror::Error;

/// Maximum number of pages that are requested at once.
pub(super) const PREFETCH_MAX: usize = 128;

/// Source of new pages.
pub trait PageSource {
    fn allocate(&mut self) -> Option<u64>;
    /// Allocates adjacent pages: `pages` of them, or fewer if there is no place for all.
    fn allocate_run(&mut self, pages: u64) -> Option<Extent>;
}

/// Reason why a table cannot be applied. The old tree is unchanged; the caller must free the
/// allocated pages.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ApplyError {
    #[error("no page is free for the metadata tree")]
    NoSpace,
    #[error("page {page} of the tree is damaged: {flaw}")]
    Damaged { page: u64, flaw: PageFlaw },
    #[error("a value of {length} bytes exceeds {}", VALUE_MAX)]
    TooLong { length: usize },
}

/// Reason why a step stopped early.
pub(super) enum Stop {
    Absent(Absent),
    Error(ApplyError),
}

impl From<Absent> for Stop {
    fn from(absent: Absent) -> Self {
        Stop::Absent(absent)
    }
}

impl From<ApplyError> for Stop {
    fn from(error: ApplyError) -> Self {
        Stop::Error(error)
    }
}

/// Shared state of all parts of a step.
pub(super) struct Context<'a> {
    pub tree: &'a mut Tree,
    pub table: &'a Table,
    pub pages: &'a mut dyn PageSource,
    pub output: &'a mut Output,
    pub release: &'a mut Release,
}

impl Context<'_> {
    pub fn is_exhausted(&self) -> bool {
        self.output.is_exhausted()
    }
}
