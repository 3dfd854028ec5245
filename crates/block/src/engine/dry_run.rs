//! Dry runs: measuring the pages that a transaction takes, without writing.
//!
//! The upper bound ([`pages_bound`](crate::tree::pages_bound)) assumes the worst case: each of many
//! keys in a leaf of its own, which splits. Where that does not fit, a transaction that would be
//! alone in the next checkpoint is applied to the tree without writing, which counts its pages. If
//! there are enough, it takes effect and a checkpoint begins at once, before anything else takes
//! effect.
//!
//! Reads of pages interrupt a dry run, which keeps the allocations of the transaction and continues
//! where it was; if a checkpoint has begun meanwhile, it restarts.

use super::admission::purpose_of;
use super::commit::Work;
use super::effects::{Effects, Interrupt};
use super::mounted::Mounted;
use crate::device::Extent;
use crate::table::Table;
use crate::tree::{Apply, Load, PageSource, Step};

/// Share of the counted pages that is allowed on top. Leaves whose long values lie in fewer runs
/// than assumed may be small enough to merge with a neighbour, and a checkpoint must never run out
/// of pages.
const MARGIN_SHARE: u64 = 8;
const MARGIN_PAGES: u64 = 16;

#[derive(Debug)]
pub(crate) struct DryRun {
    effects: Effects,
    table: Table,
    apply: Apply,
    /// Pages that were lacking by the upper bound.
    missing: u64,
    /// Sequence of the superblock whose tree the changes are applied to.
    sequence: u64,
}

impl DryRun {
    pub fn effects(&self) -> &Effects {
        &self.effects
    }
}

/// A page source without limit, whose pages do not exist.
#[derive(Default)]
struct UnlimitedPages {
    next: u64,
}

impl PageSource for UnlimitedPages {
    fn allocate(&mut self) -> Option<u64> {
        self.allocate_run(1).map(|extent| extent.start)
    }

    fn allocate_run(&mut self, pages: u64) -> Option<Extent> {
        let start = self.next;
        self.next += pages;
        Some(Extent::new(start, pages))
    }
}

impl Mounted {
    /// Set if nothing else would be in the next checkpoint.
    pub fn can_dry_run(&self) -> bool {
        self.checkpoint.is_none() && self.meta.frozen.is_none() && self.meta.active.is_empty()
    }

    pub fn begin_dry_run(&self, effects: Effects, missing: u64) -> DryRun {
        let mut table = Table::above(self.superblock.counters.next_id);
        effects.record.ops.iter().for_each(|op| table.apply(op.clone()));
        let sequence = self.superblock.sequence;
        let apply = Apply::dry_run(self.root(), sequence + 1);
        DryRun { effects, table, apply, missing, sequence }
    }

    /// Continues a dry run; one that lacks pages returns its allocations.
    pub fn continue_dry_run(
        &mut self,
        mut dry_run: DryRun,
        work: &Work,
    ) -> (Result<Effects, Interrupt>, Option<DryRun>) {
        let outcome = match dry_run.sequence == self.superblock.sequence && self.can_dry_run() {
            true => self.count_pages(&mut dry_run),
            false => Err(Interrupt::NoSpace { missing: dry_run.missing }),
        };
        let outcome = outcome.and_then(|pages| self.admit_measured(&dry_run, pages, work));
        match outcome {
            Ok(()) => (Ok(dry_run.effects), None),
            Err(Interrupt::Pages(pages)) => (Err(Interrupt::Pages(pages)), Some(dry_run)),
            Err(interrupt) => {
                self.undo(&dry_run.effects);
                (Err(interrupt), None)
            }
        }
    }

    /// Number of pages that the transaction takes.
    fn count_pages(&mut self, dry_run: &mut DryRun) -> Result<u64, Interrupt> {
        let mut pages = UnlimitedPages::default();
        loop {
            let step =
                dry_run.apply.step(&mut self.meta.tree, &dry_run.table, &mut pages, usize::MAX);
            match step.map_err(|error| Interrupt::damaged(error.to_string()))? {
                Step::Progress => {}
                Step::Need(reads) => return Err(Interrupt::Pages(reads)),
                Step::Done(applied) => return Ok(applied.pages_written),
            }
        }
    }

    fn admit_measured(
        &mut self,
        dry_run: &DryRun,
        pages: u64,
        work: &Work,
    ) -> Result<(), Interrupt> {
        let pages = pages + pages / MARGIN_SHARE + MARGIN_PAGES;
        let measured = Load::measured(pages, &dry_run.table.load);
        let purpose = purpose_of(work);
        self.reserve_pages_for(&measured, &dry_run.effects, purpose)?;
        self.check_log(&dry_run.effects)?;
        self.headroom = 0;
        self.measured = Some(measured);
        self.want_checkpoint = true;
        Ok(())
    }
}
