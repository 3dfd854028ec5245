//! Merging a frozen table into the tree, for a checkpoint.
//!
//! The work goes from left to right. Unchanged pages are kept, and the new tree refers to them.
//! Pages on the path to a change are read, and their changed contents go through one builder per
//! level, which cuts them into new pages (see `layer`). Subtrees inside a removed range are read
//! only to free their pages (see `release`).
//!
//! Invariants:
//! * No page of the old tree is written or freed; pages that the new tree does not contain are
//!   listed in [`Applied::freed`].
//! * [`Apply::step`] does a bounded amount of work: about `budget` pages written, freed or read, or
//!   [`CHANGES_PER_PAGE`](output) changes for each, and one value.
//! * Memory holds a path of pages, a few pages per level, and the writes not yet taken by
//!   [`Apply::poll_write`].

mod ahead;
mod changes;
mod context;
mod jobs;
mod layer;
mod output;
mod release;
mod write;

use super::cached::Tree;
use super::reference::{Root, Top};
use super::want::{Absent, PageRead};
use crate::device::Extent;
use crate::table::Table;
use bytes::Bytes;
pub(super) use changes::successor;
pub use context::{ApplyError, PageSource};
use context::{Context, Stop};
use jobs::Release;
use layer::{Layer, Outcome};
use output::Output;
pub use output::Totals;

/// Result of [`Apply::step`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// These pages must be read and supplied first.
    Need(Vec<PageRead>),
    /// There is more to do, and perhaps something to write.
    Progress,
    /// All writes are in [`Apply::poll_write`].
    Done(Applied),
}

/// The new tree, and its differences from the old one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// The new tree; `None` if it is empty.
    pub root: Option<Root>,
    /// Pages that only the old tree refers to.
    pub freed: Vec<Extent>,
    /// Pages that only the new tree refers to.
    pub pages_written: u64,
    /// Differences of pairs and bytes between the trees.
    pub changes: Totals,
}

/// A table on its way into the tree.
#[derive(Debug)]
pub struct Apply {
    old: Option<Root>,
    /// The layer being changed, after those that lead to it.
    layers: Vec<Layer>,
    release: Release,
    output: Output,
    finished: bool,
}

impl Apply {
    /// Begins to merge a table into the tree at `root`. `checkpoint` is its number, which pages
    /// name.
    pub fn new(root: Option<Root>, checkpoint: u64) -> Self {
        Apply {
            old: root,
            layers: vec![Layer::new(Vec::new(), root.map(|root| root.top()))],
            release: Release::default(),
            output: Output::new(checkpoint),
            finished: false,
        }
    }

    /// A dry run, which only counts pages: nothing is written, no page of the new tree gets into
    /// the cache, and there will be no new tree.
    pub fn dry_run(root: Option<Root>, checkpoint: u64) -> Self {
        let mut apply = Apply::new(root, checkpoint);
        apply.output.is_dry_run = true;
        apply
    }

    /// Continues until about `budget` pages were written, freed or read. The table must be the same
    /// in every step.
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

    /// Next pages to be written: their place, and whole pages in aligned memory.
    pub fn poll_write(&mut self) -> Option<(u64, Bytes)> {
        self.output.writes.pop_front()
    }

    /// Pages written, freed and read so far, and changes merged as fractions of a page.
    pub fn work(&self) -> u64 {
        self.output.work()
    }

    /// Takes pages that only the old tree refers to, as they turn up; these are not in
    /// [`Applied::freed`].
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
            if release::advance(&mut context)? {
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
