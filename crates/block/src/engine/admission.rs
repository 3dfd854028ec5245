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
//! **Held changes** are admitted like the changes that they hold. Settling them takes no blocks, and of the
//! tree about as many pages as it gives back, so it counts as a removal: even if held removals used up the
//! first reserve, the second one is left. Only a settled clone needs pages that its hold did not take, for
//! the map of the copy.
//!
//! **When space is short**, the bound for the changes in memory is too pessimistic, and removed
//! data is not free yet. So a checkpoint begins at once and the transaction waits for it; it is
//! refused if space is still lacking afterwards. The fuller the device, the smaller the
//! checkpoints, down to one for each transaction. A transaction that does not fit by the bound even
//! alone gets a dry run (see `dry_run`).

use super::effects::{Effects, Interrupt};
use super::meta::{Meta, chunk_load};
use super::pages::TreePages;
use crate::device::{BLOCK, Device, Extent};
use crate::space::{CHUNK_BLOCKS, Space};
use crate::table::Op;
use crate::tree::{self, KEY_LEN_MAX, Load};
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

/// Pages of the tree, and the number that checkpoints may need.
pub(crate) struct Admission {
    pages: TreePages,
    /// Pages that additions may still cost before admission computes the bound again.
    headroom: u64,
    /// Measured load of the changes in memory, which are those of one transaction after a dry run.
    /// Others wait until a checkpoint has begun.
    measured: Option<Load>,
    /// Set if checkpoints of all that is in memory have the pages of the upper bound. After a
    /// restart they may have fewer, but never fewer than they really need.
    is_bound_met: bool,
}

impl Admission {
    /// Admission for a tree with these pages; the bound is computed with the first transaction.
    pub fn new(pages: TreePages) -> Self {
        Admission { pages, headroom: 0, measured: None, is_bound_met: true }
    }

    /// Pages of the tree, for statistics and checks.
    pub fn pages(&self) -> &TreePages {
        &self.pages
    }

    /// For the checkpoint, whose pages are reserved.
    pub fn pages_mut(&mut self) -> &mut TreePages {
        &mut self.pages
    }

    /// Set if the changes in memory are those of a dry run, which take all pages.
    pub fn is_exclusive(&self) -> bool {
        self.measured.is_some()
    }

    /// Admits the effects of a transaction, or says what it waits for. Usually there is plenty of
    /// space, and this only counts down the headroom.
    pub fn check(
        &mut self,
        effects: &Effects,
        purpose: impl FnOnce() -> Purpose,
        meta: &Meta,
        space: &mut Space,
    ) -> Result<(), Interrupt> {
        let takes_last = !effects.record.taken.is_empty() && space.free() < RESERVE_BLOCKS;
        let pages = pages_at_most(effects, meta);
        if pages <= self.headroom && !takes_last {
            self.headroom -= pages;
            return Ok(());
        }
        let purpose = purpose();
        if takes_last && purpose != Purpose::Removal {
            return Err(Interrupt::NoSpace { missing: RESERVE_BLOCKS });
        }
        let mut more = Load::default();
        effects.record.ops.iter().for_each(|op| more.add(meta.load_of(op)));
        let needed = self.reserve_for(&more, effects, purpose, meta, space)?;
        self.headroom = self.pages.at_hand().saturating_sub(needed + self.reserves(space));
        Ok(())
    }

    /// Ensures that the tree has the pages that it needs with the effects of a transaction, whose
    /// load is `more`. Returns their number.
    pub fn reserve_for(
        &mut self,
        more: &Load,
        effects: &Effects,
        purpose: Purpose,
        meta: &Meta,
        space: &mut Space,
    ) -> Result<u64, Interrupt> {
        let chunks = chunks_of(effects.record.freed.iter());
        let reserved = match purpose {
            Purpose::Removal => 0,
            Purpose::Bookkeeping => self.reserve(space),
            Purpose::Addition => self.reserves(space),
        };
        self.reserve_pages(reserved, more, chunks, meta, space)
    }

    /// Ensures that the tree has the pages that it needs besides the reserved ones. Returns how many
    /// are needed in the end, because each run that is added makes the bitmap of pages longer.
    fn reserve_pages(
        &mut self,
        reserved: u64,
        more: &Load,
        chunks: u64,
        meta: &Meta,
        space: &mut Space,
    ) -> Result<u64, Interrupt> {
        loop {
            let pages = self.pages_needed(more, chunks, meta, space);
            let missing = (pages + reserved).saturating_sub(self.pages.at_hand());
            if missing == 0 {
                return Ok(pages);
            }
            if !self.pages.grow(space, missing, meta.is_frozen()) {
                return Err(Interrupt::NoSpace { missing });
            }
        }
    }

    /// Takes the measured load of the only transaction in memory, for which pages were reserved.
    pub fn set_measured(&mut self, measured: Load) {
        self.headroom = 0;
        self.measured = Some(measured);
    }

    /// Pages that checkpoints of all that is in memory and of `more` can need, if `chunks` further
    /// chunks of the space bitmap change.
    fn pages_needed(&self, more: &Load, chunks: u64, meta: &Meta, space: &Space) -> u64 {
        let mut active = self.active_load(meta);
        active.add(*more);
        active.add(bitmap_load(chunks, space));
        let changes = match meta.frozen_load() {
            None => meta.pages_bound(&active).pages,
            Some(frozen) => {
                let first = meta.pages_bound(&frozen);
                let second = tree::pages_bound(&active, &first.size);
                // A crash may undo the running checkpoint.
                active.add(frozen);
                let both = meta.pages_bound(&active);
                both.pages.max(first.growth + second.pages)
            }
        };
        changes + 2 * self.pages.bitmap_pages_later()
    }

    /// Load of the changes that the next checkpoint takes in.
    fn active_load(&self, meta: &Meta) -> Load {
        self.measured.unwrap_or(meta.active_load())
    }

    /// Reserves the pages of the next checkpoint after opening, before anything else takes them.
    pub fn reserve_ahead(&mut self, meta: &Meta, space: &mut Space) {
        let reserves = self.reserves(space);
        if self.reserve_pages(reserves, &Load::default(), 0, meta, space).is_err() {
            let needed = self.pages_needed(&Load::default(), 0, meta, space);
            self.is_bound_met = needed <= self.pages.at_hand();
            tracing::info!("space is short: additions wait for a checkpoint");
        }
    }

    /// Begins a checkpoint of changes with this load, which then includes the bitmap of the space.
    /// `seq` is its last batch. Returns the runs that it takes out of the metadata space, see
    /// [`TreePages::take_back`].
    pub fn begin_checkpoint(
        &mut self,
        load: &mut Load,
        seq: u64,
        meta: &Meta,
        space: &mut Space,
    ) -> Vec<Extent> {
        assert!(!meta.is_frozen(), "the checkpoint before has not ended");
        self.pages.add_set_aside();
        let kept = self.kept_for(load, meta, space);
        let returned = self.pages.take_back(space, kept, seq);
        // Pages that were taken back are no longer available.
        self.headroom = 0;
        if let Some(measured) = self.measured.take() {
            *load = measured;
        }
        self.freeze_space(load, meta, space);
        returned
    }

    /// Begins a snapshot of the bitmap of the space, counts its chunks as changes, and ensures that
    /// the tree has the pages that all of them may need. Growing the metadata space changes the
    /// bitmap in turn.
    fn freeze_space(&mut self, load: &mut Load, meta: &Meta, space: &mut Space) {
        loop {
            let mut all = *load;
            all.add_times(chunk_load(), space.map().dirty_chunks());
            let needed = meta.pages_bound(&all).pages + self.pages.bitmap_pages();
            let missing = needed.saturating_sub(self.pages.free());
            let is_added = missing == 0 || self.pages.grow(space, missing, false);
            if missing == 0 || !is_added {
                if !is_added {
                    tracing::warn!(missing, "the metadata tree may run out of pages");
                }
                load.add_times(chunk_load(), space.map().dirty_chunks());
                return space.begin_snapshot();
            }
        }
    }

    /// Ends a checkpoint: its superblock is durable.
    pub fn end_checkpoint(&mut self) {
        self.pages.commit();
        self.headroom = 0;
        // Replayed changes are in the tree now; all later ones passed admission.
        self.is_bound_met = true;
    }

    /// Set if a checkpoint without changes would free blocks.
    pub fn has_page_surplus(&self, meta: &Meta, space: &Space) -> bool {
        self.pages.has_surplus(space, self.kept_for(&Load::default(), meta, space))
    }

    /// Free pages that a checkpoint of this load does not give back.
    fn kept_for(&self, load: &Load, meta: &Meta, space: &Space) -> u64 {
        self.pages.kept_for(meta.pages_bound(load).pages) + self.reserves(space)
    }

    /// Pages of one of the two reserves.
    fn reserve(&self, space: &Space) -> u64 {
        let pages = match self.pages.device() {
            Device::Main => space.total(),
            Device::Fast => self.pages.total(),
        };
        (pages / RESERVE_SHARE).clamp(RESERVE_PAGES_MIN, RESERVE_PAGES_MAX)
    }

    fn reserves(&self, space: &Space) -> u64 {
        2 * self.reserve(space)
    }

    /// Refusal of a transaction that lacks as many blocks.
    pub fn no_space(&self, missing: u64, meta: &Meta, space: &Space) -> StoreError {
        let unit = BLOCK as u64;
        let available = self.available_blocks(meta, space);
        StoreError::NoSpace { needed: (available + missing) * unit, available: available * unit }
    }

    /// Blocks that additions may still take, once the changes in memory are in the tree.
    pub fn available_blocks(&self, meta: &Meta, space: &Space) -> u64 {
        let loads = std::iter::once(self.active_load(meta)).chain(meta.frozen_load());
        let likely: u64 = loads.map(|load| load.likely_pages()).sum();
        let bitmap = meta.pages_bound(&bitmap_load(0, space)).pages;
        let bitmap = bitmap + 2 * self.pages.bitmap_pages_later();
        let needed = likely + bitmap + self.reserves(space);
        let pages = self.pages.at_hand().checked_sub(needed);
        let blocks = space.free().saturating_sub(RESERVE_BLOCKS);
        match (self.pages.device(), pages) {
            (Device::Main, Some(pages)) => blocks + pages,
            (Device::Main, None) => blocks.saturating_sub(needed - self.pages.at_hand()),
            (Device::Fast, pages) => blocks.min(self.fast_share(pages.unwrap_or(0), space)),
        }
    }

    /// Share of the space that corresponds to these pages of the fast device. Metadata does not
    /// spill to the main device, so the store is as full as the fuller of the two, and reports that
    /// long before the fast device has no page left.
    fn fast_share(&self, pages: u64, space: &Space) -> u64 {
        let all = self.pages.total().saturating_sub(self.reserves(space));
        let share = u128::from(space.total()) * u128::from(pages) / u128::from(all.max(1));
        share as u64
    }

    /// Panics if checkpoints could run out of pages.
    pub fn check_invariants(&self, meta: &Meta, space: &Space) {
        self.pages.check_invariants();
        if !self.is_bound_met {
            return;
        }
        let needed = self.pages_needed(&Load::default(), 0, meta, space);
        let at_hand = self.pages.at_hand();
        assert!(needed <= at_hand, "checkpoints may need {needed} pages, {at_hand} are at hand");
    }
}

/// Cheap upper bound of the pages that the transaction adds to those needed.
fn pages_at_most(effects: &Effects, meta: &Meta) -> u64 {
    let levels = meta.root().map_or(1, |root| u64::from(root.height) + 1);
    let record = &effects.record;
    let chunks = chunks_of(record.taken.iter().chain(&record.freed));
    let pages = |op: &Op| {
        let (layers, value) = match op {
            Op::Put { key, value } => (1 + key.len() / KEY_LEN_MAX, value.len()),
            Op::Delete { key } => (1 + key.len() / KEY_LEN_MAX, 0),
            Op::DeleteRange { first, last } => (2 + (first.len() + last.len()) / KEY_LEN_MAX, 0),
        };
        layers as u64 * levels * PAGES_PER_LEVEL + (value / PAGE_SHARE) as u64
    };
    chunks * levels * PAGES_PER_LEVEL + record.ops.iter().map(pages).sum::<u64>()
}

/// Load of the changes of the space bitmap in the next checkpoint.
fn bitmap_load(more: u64, space: &Space) -> Load {
    let map = space.map();
    let chunks = (map.dirty_chunks() + more + CHUNKS_GROWN).min(map.chunk_count().into());
    let mut load = Load::default();
    load.add_times(chunk_load(), chunks);
    load
}

/// Upper bound of the bitmap chunks that the extents touch.
fn chunks_of<'e>(extents: impl Iterator<Item = &'e Extent>) -> u64 {
    extents.map(|extent| extent.count / CHUNK_BLOCKS + 2).sum()
}
