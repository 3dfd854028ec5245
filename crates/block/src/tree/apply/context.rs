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
    /// Allocates one page; `None` if none is free.
    fn allocate(&mut self) -> Option<u64>;
    /// Allocates adjacent pages: `pages` of them, or fewer if there is no place for all.
    fn allocate_run(&mut self, pages: u64) -> Option<Extent>;
}

/// Reason why a table cannot be applied. The old tree is unchanged; the caller must free the
/// allocated pages.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ApplyError {
    /// The source has no free page. Admission excludes it.
    #[error("no page is free for the metadata tree")]
    NoSpace,
    /// A page of the old tree that the merge needs is damaged.
    #[error("page {page} of the tree is damaged: {flaw}")]
    Damaged {
        /// The page, or the first one of a run.
        page: u64,
        /// Reason why it is not the expected page.
        flaw: PageFlaw,
    },
    /// A value is longer than [`VALUE_MAX`]. Transactions with longer ones are refused before.
    #[error("a value of {length} bytes exceeds {}", VALUE_MAX)]
    TooLong {
        /// Length of the value.
        length: usize,
    },
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
    /// The old tree and its cache.
    pub tree: &'a mut Tree,
    /// The changes, the same in every step.
    pub table: &'a Table,
    /// Source of pages for the new tree.
    pub pages: &'a mut dyn PageSource,
    /// Pages written and freed, and totals.
    pub output: &'a mut Output,
    /// Subtrees of the old tree whose pages are still to be freed.
    pub release: &'a mut Release,
}

impl Context<'_> {
    /// Set if the budget of the step is used up.
    pub fn is_exhausted(&self) -> bool {
        self.output.is_exhausted()
    }
}
