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
mod cached;
mod flaw;
mod overflow;
mod page;
mod read;
mod reference;
mod space;
#[cfg(test)]
mod tests;
mod walk;
mod want;

pub use apply::{Applied, Apply, ApplyError, PageSource, Step, Totals};
pub use bound::{Load, PagesBound, TreeSize, pages_bound};
pub use cached::Tree;
pub use flaw::PageFlaw;
pub use overflow::VALUE_MAX;
pub use page::KEY_LEN_MAX;
pub use read::ScanPage;
pub use reference::{PageRef, Root};
pub use space::{NotInUse, PageSpace, RUNS_MAX};
pub use walk::{Finding, Visitor, walk};
pub use want::{Fault, PageRead};
