//! Replay within the memory that is granted, however much the log holds.
//!
//! What replay puts into memory was bounded when it was written, but maybe by more memory than there is
//! now. Once it exceeds its share, replay stops at the end of that batch, and what it has found so far
//! is made a checkpoint; then the store is opened anew, from there on. A store is open when a replay
//! comes to the end.
//!
//! Such a checkpoint is of the past: what was logged behind it has used blocks that were free then.
//! Their content must stay. So the rest of the log is read, only for the blocks that its records take
//! (*claims*): these are neither lent to the tree, nor is small data written home to them, for whatever
//! lay there was given back since. Nothing else is written, and the generation stays as it was: the
//! batches behind are still those of the last mount.

use super::failure::{StoreFailure, metadata};
use super::mounted::Mounted;
use super::opening::{Found, Opened, Opening, Step, Use};
use crate::device::BLOCK;
use crate::log::{Batch, LogPoint, Replay, Replayed};
use crate::options::Budget;
use crate::space::Claims;

/// Tables and small data may have so many times of what they have in a running store: while a store
/// is opened there is little else. As much as this may be there when it was written with as much memory.
const SHARES: usize = 3;

/// A replay that has stopped at a batch, and reads on for claims.
pub(super) struct Window {
    pub replay: Box<Replay>,
    point: LogPoint,
    claims: Claims,
    /// The end of the log was seen.
    is_complete: bool,
}

impl Window {
    pub fn new(replay: Box<Replay>, point: LogPoint) -> Self {
        Window { replay, point, claims: Claims::default(), is_complete: false }
    }
}

impl Opening {
    /// What was replayed exceeds its share of the memory.
    pub(super) fn is_window_full(&self) -> bool {
        let Some(found) = &self.found else { return false };
        let budget = Budget::new(self.options.memory, found.space.map().memory() as u64);
        found.meta.active.bytes > SHARES * budget.table_bytes
            || found.homes.len() * BLOCK > SHARES * budget.home_bytes
    }

    pub(super) fn begin_window(&mut self, point: LogPoint) -> Result<(), StoreFailure> {
        let Step::Replay(replay) = std::mem::replace(&mut self.step, Step::Flushing) else {
            unreachable!("called in this step")
        };
        self.step = Step::Window(Window::new(replay, point));
        Ok(())
    }

    /// Reads what follows the window; gives its store when no read is on its way any more.
    pub(super) fn read_claims(&mut self) -> Result<Option<Opened>, StoreFailure> {
        let Step::Window(window) = &mut self.step else { unreachable!("called in this step") };
        let found = self.found.as_ref().expect("made from the superblock");
        while let Some(replayed) = window.replay.poll() {
            match replayed {
                Replayed::Batch(batch) => found.claim(&batch, &mut window.claims)?,
                Replayed::End { .. } => window.is_complete = true,
                Replayed::Unreadable { block } => return Err(StoreFailure::unreadable(block)),
                Replayed::Damaged { block, damage } => {
                    return Err(StoreFailure::damaged(block, &damage));
                }
            }
        }
        let device = found.superblock.geometry.log_device;
        while let Some((block, blocks)) = window.replay.next_read() {
            self.left += 1;
            self.io.read(Use::Log { block }, device, block, blocks as u32);
        }
        let is_complete = window.is_complete && self.left == 0;
        Ok(is_complete.then(|| Opened::Window(Box::new(self.finish_window()))))
    }

    /// A store as of the end of the window, in which nothing may happen but a checkpoint.
    fn finish_window(&mut self) -> Mounted {
        let Step::Window(window) = &self.step else { unreachable!("called in this step") };
        let mut found = *self.found.take().expect("made from the superblock");
        found.end = window.point;
        found.garbage.clear();
        let space = &found.space;
        found.homes.retain(|block| !space.is_claimed(&window.claims, block));
        found.space.set_aside(&window.claims);
        tracing::info!(position = window.point.position, "memory is short: a checkpoint of a part");
        let mut mounted = found.mount(self.options.clone(), self.io.next());
        mounted.options.discard = false;
        mounted.lend_ahead();
        mounted.want_checkpoint = true;
        mounted
    }
}

impl Found {
    fn claim(&self, batch: &Batch, claims: &mut Claims) -> Result<(), StoreFailure> {
        let records = batch.records.iter().map(|(record, _)| record);
        let taken = records.flat_map(|record| record.taken.iter());
        taken.copied().try_for_each(|extent| self.space.claim(claims, extent).map_err(metadata))
    }
}
