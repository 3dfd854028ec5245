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

use super::effects::{Effects, Interrupt};
use super::volume::Volume;
use crate::device::Extent;
use crate::table::Table;
use crate::tree::{Apply, Load, PageSource, Step};
use store::Purpose;

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

impl DryRun {
    /// Set if nothing but the transaction would be in the next checkpoint.
    pub fn is_possible(volume: &Volume) -> bool {
        !volume.is_checkpointing() && volume.meta.is_unchanged()
    }

    /// Takes effects that lack as many pages by the upper bound.
    pub fn new(effects: Effects, missing: u64, volume: &Volume) -> Self {
        let mut table = Table::above(volume.superblock.counters.next_id);
        effects.record.ops.iter().for_each(|op| table.apply(op.clone()));
        let sequence = volume.superblock.sequence;
        let apply = Apply::dry_run(volume.meta.root(), sequence + 1);
        DryRun { effects, table, apply, missing, sequence }
    }

    /// Returns the allocations of the transaction, which is executed again later.
    pub fn give_up(self, volume: &mut Volume) {
        volume.undo(&self.effects);
    }

    /// Continues. If pages must be read, the dry run continues once they are there; if it ends
    /// without success, it returns its allocations.
    pub fn run(
        mut self,
        purpose: Purpose,
        volume: &mut Volume,
    ) -> (Result<Effects, Interrupt>, Option<DryRun>) {
        let is_current = self.sequence == volume.superblock.sequence && Self::is_possible(volume);
        let outcome = match is_current {
            true => self.count_pages(volume),
            false => Err(Interrupt::NoSpace { missing: self.missing }),
        };
        match outcome.and_then(|pages| self.admit(pages, purpose, volume)) {
            Ok(()) => (Ok(self.effects), None),
            Err(Interrupt::Pages(pages)) => (Err(Interrupt::Pages(pages)), Some(self)),
            Err(interrupt) => {
                self.give_up(volume);
                (Err(interrupt), None)
            }
        }
    }

    /// Number of pages that the transaction takes.
    fn count_pages(&mut self, volume: &mut Volume) -> Result<u64, Interrupt> {
        let mut pages = UnlimitedPages::default();
        loop {
            let step = volume.meta.apply_dry(&mut self.apply, &self.table, &mut pages);
            match step.map_err(Interrupt::damaged)? {
                Step::Progress => {}
                Step::Need(reads) => return Err(Interrupt::Pages(reads)),
                Step::Done(applied) => return Ok(applied.pages_written),
            }
        }
    }

    /// Reserves the counted pages, and space in the log.
    fn admit(&self, pages: u64, purpose: Purpose, volume: &mut Volume) -> Result<(), Interrupt> {
        let pages = pages + pages / MARGIN_SHARE + MARGIN_PAGES;
        let measured = Load::measured(pages, &self.table.load);
        let Volume { admission, meta, space, .. } = volume;
        admission.reserve_for(&measured, &self.effects, purpose, meta, space)?;
        volume.reserve_log(&self.effects.record)?;
        volume.admission.set_measured(measured);
        volume.wants_checkpoint = true;
        Ok(())
    }
}
