//! Merging a frozen table into the tree: the checkpoint's part.
//!
//! The work goes from left to right. Where nothing changes, pages stay, and the new tree refers to
//! them. Pages on the way to a change are read, and what they hold goes, changed, through one builder
//! per level, which cuts it into new pages (see `layer`). What a removed range covers as a whole is
//! only read to give back its pages (see `release`).
//!
//! Invariants:
//! * No page of the old tree is written or freed; those that the new tree lacks are in
//!   [`Applied::freed`].
//! * [`Apply::step`] does a bounded amount of work: about `budget` pages written, given back or looked
//!   at, or so many times [`CHANGES_PER_PAGE`] changes, and one value.
//! * Memory holds a path of pages, a few pages per level, and what was not taken by
//!   [`Apply::poll_write`].

mod ahead;
mod changes;
mod layer;
mod output;
mod release;

use super::reference::Top;
use super::{Absent, PageFlaw, PageRead, Root, Tree};
use crate::device::Extent;
use crate::table::Table;
use bytes::Bytes;
pub(super) use changes::successor;
use layer::{Layer, Outcome};
use output::Output;
pub(super) use output::is_inline;
use release::Release;
use thiserror::Error;

/// Changes that cost as much as a page, even if none is written for them.
const CHANGES_PER_PAGE: u64 = 32;
/// Pages that are asked for at once, at most.
const PREFETCH_MAX: usize = 128;

/// Where fresh pages come from.
pub trait PageSource {
    fn allocate(&mut self) -> Option<u64>;
    /// Adjacent pages: as many as asked for or, if there are not as many in one place, fewer.
    fn allocate_run(&mut self, pages: u64) -> Option<Extent>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// These pages must be read and supplied first.
    Need(Vec<PageRead>),
    /// There is more to do, and perhaps something to write.
    Progress,
    /// All is in [`Apply::poll_write`].
    Done(Applied),
}

/// The new tree, and how it differs from the old one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    pub root: Option<Root>,
    /// Pages that only the old tree needs.
    pub freed: Vec<Extent>,
    /// Pages that only the new tree needs.
    pub pages_written: u64,
    pub changes: Totals,
}

/// Sums over all pairs, or changes of these sums.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub pairs: i64,
    /// Of keys and values.
    pub bytes: i64,
    /// Of keys and values of omaps: of pairs whose keys begin with `M` or `H`.
    pub omap_bytes: i64,
    /// Pairs whose keys begin with `O`.
    pub objects: i64,
}

impl Totals {
    /// One pair of a key that begins with `first`.
    fn pair(first: Option<u8>, key: usize, value: usize) -> Self {
        let bytes = (key + value) as i64;
        let is_omap = matches!(first, Some(b'M' | b'H'));
        Totals {
            pairs: 1,
            bytes,
            omap_bytes: if is_omap { bytes } else { 0 },
            objects: i64::from(first == Some(b'O')),
        }
    }

    fn add(&mut self, other: Totals, times: i64) {
        self.pairs += times * other.pairs;
        self.bytes += times * other.bytes;
        self.omap_bytes += times * other.omap_bytes;
        self.objects += times * other.objects;
    }
}

/// Why a table cannot be applied. The old tree is as it was; what was allocated must be given back.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ApplyError {
    #[error("no page is free for the metadata tree")]
    NoSpace,
    #[error("page {page} of the tree is damaged: {flaw}")]
    Damaged { page: u64, flaw: PageFlaw },
    #[error("a value of {length} bytes exceeds {}", super::VALUE_MAX)]
    TooLong { length: usize },
}

/// Why a step stopped early.
enum Stop {
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

/// What every part of a step works with.
struct Context<'a> {
    tree: &'a mut Tree,
    table: &'a Table,
    pages: &'a mut dyn PageSource,
    output: &'a mut Output,
    release: &'a mut Release,
}

impl Context<'_> {
    fn is_exhausted(&self) -> bool {
        self.output.is_exhausted()
    }
}

/// A table on its way into the tree.
#[derive(Debug)]
pub struct Apply {
    old: Option<Root>,
    /// The layer being changed, behind those that lead to it.
    layers: Vec<Layer>,
    release: Release,
    output: Output,
    finished: bool,
}

impl Apply {
    pub fn new(root: Option<Root>, checkpoint: u64) -> Self {
        Apply {
            old: root,
            layers: vec![Layer::new(Vec::new(), root.map(|root| root.top()))],
            release: Release::default(),
            output: Output::new(checkpoint),
            finished: false,
        }
    }

    /// Does nothing but to tell what the same would cost: there is nothing to write, the cache gets no
    /// page of the new tree, and there will be none.
    pub fn trial(root: Option<Root>, checkpoint: u64) -> Self {
        let mut apply = Apply::new(root, checkpoint);
        apply.output.is_trial = true;
        apply
    }

    /// Goes on until about `budget` pages were written, given back or looked at. The table must be the same in
    /// every step.
    pub fn step(
        &mut self,
        tree: &mut Tree,
        table: &Table,
        pages: &mut dyn PageSource,
        budget: usize,
    ) -> Result<Step, ApplyError> {
        assert!(!self.finished, "a table is applied once");
        self.output.start_step(budget);
        let result = self.advance(tree, table, pages);
        let missing = matches!(result, Err(Stop::Absent(Absent::Missing(_))));
        tree.cache.settle(missing);
        match result {
            Ok(step) => Ok(step),
            Err(Stop::Absent(Absent::Missing(wants))) => Ok(Step::Need(tree.ask(wants))),
            Err(Stop::Absent(Absent::Damaged { page, flaw })) => {
                Err(ApplyError::Damaged { page, flaw })
            }
            Err(Stop::Error(error)) => Err(error),
        }
    }

    /// The next pages to be written: where, and whole pages in aligned memory.
    pub fn poll_write(&mut self) -> Option<(u64, Bytes)> {
        self.output.writes.pop_front()
    }

    /// Pages written, given back and looked at so far, and changes merged as parts of a page.
    pub fn work(&self) -> u64 {
        self.output.work()
    }

    /// Pages that only the old tree needs, as they turn up; those are not in [`Applied::freed`].
    pub fn take_freed(&mut self) -> Vec<Extent> {
        std::mem::take(&mut self.output.freed)
    }

    fn advance(
        &mut self,
        tree: &mut Tree,
        table: &Table,
        pages: &mut dyn PageSource,
    ) -> Result<Step, Stop> {
        let (output, release) = (&mut self.output, &mut self.release);
        let mut context = Context { tree, table, pages, output, release };
        while !context.is_exhausted() {
            if Release::advance(&mut context)? {
                continue;
            }
            let layer = self.layers.last_mut().expect("the first layer ends the work");
            match layer.advance(&mut context)? {
                Outcome::Onward => {}
                Outcome::Enter { prefix, top } => self.layers.push(Layer::new(prefix, top)),
                Outcome::Finished(top) => {
                    self.layers.pop();
                    let Some(above) = self.layers.last_mut() else {
                        self.finished = true;
                        return Ok(Step::Done(self.applied(top)));
                    };
                    context.output.note_layer(top);
                    above.leave(top);
                }
            }
        }
        Ok(Step::Progress)
    }

    fn applied(&mut self, top: Option<Top>) -> Applied {
        let totals = self.output.totals;
        let (written, freed) = (self.output.pages_written, self.output.pages_freed);
        let (old, longest) = (self.old, self.output.longest as u16);
        let from_old = |field: fn(&Root) -> u64| old.as_ref().map_or(0, field);
        let sum = |field, change| from_old(field).saturating_add_signed(change);
        let root = top.map(|top| Root {
            page: top.page,
            height: top.height,
            height_below: self.output.height_below.max(old.map_or(0, |old| old.height_below)),
            pairs: sum(|old| old.pairs, totals.pairs),
            bytes: sum(|old| old.bytes, totals.bytes),
            pages: sum(|old| old.pages, written as i64 - freed as i64),
            inner_pages: sum(|old| old.inner_pages, self.output.inner_pages),
            longest: longest.max(old.map_or(0, |old| old.longest)),
        });
        let freed = std::mem::take(&mut self.output.freed);
        Applied { root, freed, pages_written: written, changes: totals }
    }
}
