//! Replay within the granted memory, however much the log holds.
//!
//! The mount that wrote the log may have had more memory than this one. Once replay exceeds its
//! share, it stops at the end of the batch, and a checkpoint of the state up to there is made; then
//! the store is opened again from that point. This repeats until a replay reaches the end of the
//! log.
//!
//! Such a checkpoint is of the past: records behind it have used blocks that were free then, and
//! whose content must be kept. So the rest of the log is read only for the blocks that its records
//! take (*claims*). These are not added to the metadata space, and no deferred write goes to them,
//! because their earlier content was freed since. Nothing else is written, and the generation stays
//! the same, because the batches behind are still those of the last mount.

use super::failure::{StoreFailure, metadata};
use super::mounted::Mounted;
use super::opening::{Found, Opened, Opening, Step, Use};
use crate::device::BLOCK;
use crate::log::{Batch, LogPoint, Replay, Replayed};
use crate::options::{Budget, Options};
use crate::space::Claims;

/// Tables and deferred writes may have this multiple of their share of memory in a running store:
/// little else is in memory during opening. The multiple covers a log that was written with as much
/// memory.
const SHARES: usize = 3;

/// A replay that has stopped at a batch, and reads on for claims.
pub(super) struct Window {
    pub replay: Box<Replay>,
    point: LogPoint,
    claims: Claims,
    /// Set once the end of the log was reached.
    is_complete: bool,
}

impl Window {
    pub fn new(replay: Box<Replay>, point: LogPoint) -> Self {
        Window { replay, point, claims: Claims::default(), is_complete: false }
    }
}

impl Opening {
    /// Set if the replayed changes exceed their share of the memory.
    pub(super) fn is_window_full(&self) -> bool {
        let Some(found) = &self.found else { return false };
        let budget = Budget::new(self.options.memory, found.space.map().memory() as u64);
        found.meta.active_bytes() > SHARES * budget.table_bytes
            || found.deferred.len() * BLOCK > SHARES * budget.deferred_bytes
    }

    pub(super) fn begin_window(&mut self, point: LogPoint) -> Result<(), StoreFailure> {
        let Step::Replay(replay) = std::mem::replace(&mut self.step, Step::Flushing) else {
            unreachable!("called in this step")
        };
        self.step = Step::Window(Window::new(replay, point));
        Ok(())
    }

    /// Reads the rest of the log; returns the store once no read is in flight.
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

    /// Store as of the end of the window, which does nothing but a checkpoint.
    fn finish_window(&mut self) -> Mounted {
        let Step::Window(window) = &self.step else { unreachable!("called in this step") };
        let mut found = *self.found.take().expect("made from the superblock");
        found.end = window.point;
        found.garbage.clear();
        let space = &found.space;
        found.deferred.retain(|block| !space.is_claimed(&window.claims, block));
        found.space.set_aside(&window.claims);
        tracing::info!(position = window.point.position, "memory is short: a checkpoint of a part");
        let options = Options { discard: false, ..self.options.clone() };
        let mut mounted = found.mount(&options, self.io.next());
        mounted.reserve_pages_ahead();
        mounted.request_checkpoint();
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
