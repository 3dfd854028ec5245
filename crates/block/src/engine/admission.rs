//! Admission: a transaction takes effect only if there is space for its data and for the pages that
//! checkpoints will need.
//!
//! **Pages are reserved ahead.** Before a transaction takes effect, the tree has as many free pages
//! as checkpoints of all that is in memory can need, also if a crash undoes the running checkpoint
//! and the next one has to repeat its work. Blocks that are merely free do not count: they may be
//! scattered, and a tree has few runs. So a checkpoint never fails for lack of pages.
//!
//! **Two reserves of pages** are left alone by transactions that add data ([`Purpose`]). Metadata
//! of placement groups, which is small but comes with each deletion and each change of members, may
//! use one of them; removals may use both. A checkpoint returns the reserved pages that it did not
//! need. So a removal is refused only if it names keys in more leaves of the tree than the reserves
//! allow to rewrite at once: never with a quarter as many keys as one reserve has pages, which is
//! 1,024 if the device of the metadata has 1 GiB or more.
//!
//! **When space is short**, the bound for the changes in memory is too pessimistic, and removed
//! data is not free yet. So a checkpoint begins at once and the transaction waits for it; it is
//! refused if space is still lacking afterwards. The fuller the device, the smaller the
//! checkpoints, down to one for each transaction. A transaction that does not fit by the bound even
//! alone gets a dry run (see `dry_run`).

use super::commit::Work;
use super::effects::{Effects, Interrupt};
use super::mounted::Mounted;
use crate::device::{BLOCK, Device, Extent};
use crate::keys;
use crate::space::{CHUNK_BLOCKS, CHUNK_BYTES};
use crate::table::Op;
use crate::tree::{self, KEY_LEN_MAX, Load, PagesBound, Root, TreeSize};
use store::{Purpose, StoreError};

/// Each of the two reserves has this share of the space, within bounds.
const RESERVE_SHARE: u64 = 64;
const RESERVE_PAGES_MIN: u64 = 64;
const RESERVE_PAGES_MAX: u64 = 4096;
/// Blocks that additions leave free: removals may have to copy a shared block.
const RESERVE_BLOCKS: u64 = 32;
/// Chunks of the bitmap that growing the metadata space may change, besides those that have
/// changed.
const CHUNKS_GROWN: u64 = 8;
/// A transaction is refused after it has waited for this many checkpoints.
pub(crate) const SPACE_CHECKPOINTS_MAX: u64 = 3;
/// Estimate of the pages per level that a changed key takes at most.
const PAGES_PER_LEVEL: u64 = 8;
/// One more page is estimated for each of these bytes of a value.
const PAGE_SHARE: usize = BLOCK / 4;

impl Mounted {
    pub fn root(&self) -> Option<Root> {
        self.meta.tree.root()
    }

    /// Upper bound of the pages for applying changes to the tree as it is.
    pub fn pages_bound(&self, load: &Load) -> PagesBound {
        tree::pages_bound(load, &TreeSize::of(self.root().as_ref()))
    }

    /// Set if changes gather faster than the checkpoint takes them in.
    pub fn is_behind(&self) -> bool {
        self.checkpoint.is_some()
            && (self.meta.active.bytes > self.budget.table_bytes
                || self.deferred.len() * BLOCK > 2 * self.budget.deferred_bytes)
    }

    /// Admits the effects of a transaction, or says what it waits for. Usually there is plenty of
    /// space, and this only counts down the headroom.
    pub fn check_space(&mut self, effects: &Effects, work: &Work) -> Result<(), Interrupt> {
        let takes_last = !effects.record.taken.is_empty() && self.space.free() < RESERVE_BLOCKS;
        let pages = self.pages_at_most(effects);
        if pages <= self.headroom && !takes_last {
            self.headroom -= pages;
            return Ok(());
        }
        let purpose = purpose_of(work);
        if takes_last && purpose != Purpose::Removal {
            return Err(Interrupt::NoSpace { missing: RESERVE_BLOCKS });
        }
        self.check_pages(effects, purpose)
    }

    /// Cheap upper bound of the pages that the transaction adds to those needed.
    fn pages_at_most(&self, effects: &Effects) -> u64 {
        let levels = self.root().map_or(1, |root| u64::from(root.height) + 1);
        let record = &effects.record;
        let chunks = chunks_of(record.taken.iter().chain(&record.freed));
        let pages = |op: &Op| {
            let (layers, value) = match op {
                Op::Put { key, value } => (1 + key.len() / KEY_LEN_MAX, value.len()),
                Op::Delete { key } => (1 + key.len() / KEY_LEN_MAX, 0),
                Op::DeleteRange { first, last } => {
                    (2 + (first.len() + last.len()) / KEY_LEN_MAX, 0)
                }
            };
            layers as u64 * levels * PAGES_PER_LEVEL + (value / PAGE_SHARE) as u64
        };
        chunks * levels * PAGES_PER_LEVEL + record.ops.iter().map(pages).sum::<u64>()
    }

    fn check_pages(&mut self, effects: &Effects, purpose: Purpose) -> Result<(), Interrupt> {
        let mut more = Load::default();
        effects.record.ops.iter().for_each(|op| more.add(self.meta.active.load_of_op(op)));
        let needed = self.reserve_pages_for(&more, effects, purpose)?;
        self.headroom = self.pages_at_hand().saturating_sub(needed + self.reserves());
        Ok(())
    }

    /// Ensures that the tree has the pages that it needs with the effects of a transaction.
    pub fn reserve_pages_for(
        &mut self,
        more: &Load,
        effects: &Effects,
        purpose: Purpose,
    ) -> Result<u64, Interrupt> {
        let chunks = chunks_of(effects.record.freed.iter());
        let reserved = match purpose {
            Purpose::Removal => 0,
            Purpose::Bookkeeping => self.reserve(),
            Purpose::Addition => self.reserves(),
        };
        self.reserve_pages(reserved, |store| store.pages_needed(more, chunks))
    }

    /// Ensures that the tree has `needed` pages besides the reserved ones. Returns how many are
    /// needed in the end, because each run that is added makes the bitmap of pages longer.
    fn reserve_pages(
        &mut self,
        reserved: u64,
        needed: impl Fn(&Mounted) -> u64,
    ) -> Result<u64, Interrupt> {
        loop {
            let pages = needed(self);
            let missing = (pages + reserved).saturating_sub(self.pages_at_hand());
            if missing == 0 {
                return Ok(pages);
            }
            if !self.grow_metadata_space(missing) {
                return Err(Interrupt::NoSpace { missing });
            }
        }
    }

    /// Pages that checkpoints of all that is in memory and of `more` can need, if `chunks` further
    /// chunks of the space bitmap change.
    fn pages_needed(&self, more: &Load, chunks: u64) -> u64 {
        let mut active = self.active_load();
        active.add(*more);
        active.add(self.bitmap_load(chunks));
        let changes = match &self.meta.frozen {
            None => self.pages_bound(&active).pages,
            Some(frozen) => {
                let first = self.pages_bound(&frozen.load);
                let second = tree::pages_bound(&active, &first.size);
                // A crash may undo the running checkpoint.
                active.add(frozen.load);
                let both = self.pages_bound(&active);
                both.pages.max(first.growth + second.pages)
            }
        };
        changes + 2 * self.bitmap_pages_later()
    }

    /// Load of the changes that the next checkpoint takes in.
    fn active_load(&self) -> Load {
        self.measured.unwrap_or(self.meta.active.load)
    }

    /// Load of the changes of the space bitmap in the next checkpoint.
    fn bitmap_load(&self, more: u64) -> Load {
        let map = self.space.map();
        let chunks = (map.dirty_chunks() + more + CHUNKS_GROWN).min(map.chunk_count().into());
        let mut load = Load::default();
        load.add_times(Load::point(keys::BITMAP_LEN, Some(CHUNK_BYTES)), chunks);
        load
    }

    /// Reserves the pages of the next checkpoint after opening, before anything else takes them.
    pub fn reserve_pages_ahead(&mut self) {
        let reserved =
            self.reserve_pages(self.reserves(), |store| store.pages_needed(&Load::default(), 0));
        if reserved.is_err() {
            let needed = self.pages_needed(&Load::default(), 0);
            self.is_bound_met = needed <= self.pages_at_hand();
            tracing::info!("space is short: additions wait for a checkpoint");
        }
    }

    pub fn check_pages_at_hand(&self) {
        if !self.is_bound_met {
            return;
        }
        let (needed, at_hand) = (self.pages_needed(&Load::default(), 0), self.pages_at_hand());
        assert!(needed <= at_hand, "checkpoints may need {needed} pages, {at_hand} are at hand");
    }

    /// Pages of one of the two reserves.
    fn reserve(&self) -> u64 {
        let pages = match self.meta_device {
            Device::Main => self.space.total(),
            Device::Fast => self.pages.used_pages() + self.pages.free_pages(),
        };
        (pages / RESERVE_SHARE).clamp(RESERVE_PAGES_MIN, RESERVE_PAGES_MAX)
    }

    pub fn reserves(&self) -> u64 {
        2 * self.reserve()
    }

    /// Returns whether blocks may become free without a further request, and starts what frees
    /// them.
    pub fn wait_for_space(&mut self) -> bool {
        if self.checkpoint.is_some() {
            return true;
        }
        let may_shrink = !self.meta.active.is_empty() || self.has_page_surplus();
        self.want_checkpoint |= may_shrink;
        // Some blocks wait for a flush or a discard.
        may_shrink || self.space.allocatable() < self.space.free()
    }

    pub fn no_space(&self, missing: u64) -> StoreError {
        let unit = BLOCK as u64;
        let available = self.available_blocks();
        StoreError::NoSpace { needed: (available + missing) * unit, available: available * unit }
    }

    /// Blocks that additions may still take, once the changes in memory are in the tree.
    pub fn available_blocks(&self) -> u64 {
        let frozen = self.meta.frozen.as_ref().map(|table| table.load);
        let loads = std::iter::once(self.active_load()).chain(frozen);
        let likely: u64 = loads.map(|load| load.likely_pages()).sum();
        let bitmap = self.pages_bound(&self.bitmap_load(0)).pages + 2 * self.bitmap_pages_later();
        let pages = self.pages_at_hand().checked_sub(likely + bitmap + self.reserves());
        let blocks = self.space.free().saturating_sub(RESERVE_BLOCKS);
        match (self.meta_device, pages) {
            (Device::Main, Some(pages)) => blocks + pages,
            (Device::Main, None) => {
                let missing = likely + bitmap + self.reserves() - self.pages_at_hand();
                blocks.saturating_sub(missing)
            }
            (Device::Fast, pages) => blocks.min(self.fast_share(pages.unwrap_or(0))),
        }
    }

    /// Share of the space that corresponds to these pages of the fast device. Metadata does not
    /// spill to the main device, so the store is as full as the fuller of the two, and reports that
    /// long before the fast device has no page left.
    fn fast_share(&self, pages: u64) -> u64 {
        let all =
            (self.pages.used_pages() + self.pages.free_pages()).saturating_sub(self.reserves());
        let share = u128::from(self.space.total()) * u128::from(pages) / u128::from(all.max(1));
        share as u64
    }
}

pub(crate) fn purpose_of(work: &Work) -> Purpose {
    match work {
        Work::Transaction { transaction, .. } => transaction.purpose(),
        Work::Cleanup { .. } => Purpose::Removal,
    }
}

/// Upper bound of the bitmap chunks that the extents touch.
fn chunks_of<'e>(extents: impl Iterator<Item = &'e Extent>) -> u64 {
    extents.map(|extent| extent.count / CHUNK_BLOCKS + 2).sum()
}
