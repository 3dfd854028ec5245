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
use super::found::Found;
use super::mounted::Mounted;
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
    replay: Box<Replay>,
    point: LogPoint,
    claims: Claims,
    /// Set once the end of the log was reached.
    is_complete: bool,
}

impl Window {
    /// Stops at `point`, the end of the last batch that was replayed.
    pub fn new(replay: Box<Replay>, point: LogPoint) -> Self {
        Window { replay, point, claims: Claims::default(), is_complete: false }
    }

    /// Set if the replayed changes exceed their share of the memory, in bytes.
    pub fn is_needed(found: &Found, memory: u64) -> bool {
        let budget = Budget::new(memory, found.space.map().memory() as u64);
        found.meta.active_bytes() > SHARES * budget.table_bytes
            || found.deferred.len() * BLOCK > SHARES * budget.deferred_bytes
    }

    /// For reads of the log.
    pub fn replay(&mut self) -> &mut Replay {
        &mut self.replay
    }

    /// Takes the claims of the batches that were read.
    pub fn claim(&mut self, found: &Found) -> Result<(), StoreFailure> {
        while let Some(replayed) = self.replay.poll() {
            match replayed {
                Replayed::Batch(batch) => self.claim_batch(found, &batch)?,
                Replayed::End { .. } => self.is_complete = true,
                Replayed::Unreadable { block } => return Err(StoreFailure::unreadable(block)),
                Replayed::Damaged { block, damage } => {
                    return Err(StoreFailure::damaged(block, damage));
                }
            }
        }
        Ok(())
    }

    fn claim_batch(&mut self, found: &Found, batch: &Batch) -> Result<(), StoreFailure> {
        let records = batch.records.iter().map(|(record, _)| record);
        let mut taken = records.flat_map(|record| record.taken.iter());
        let claims = &mut self.claims;
        taken.try_for_each(|extent| found.space.claim(claims, *extent).map_err(metadata))
    }

    /// Set once the claims of all batches are known.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Store as of the end of the window, which does nothing but a checkpoint.
    pub fn mount(&self, mut found: Found, options: &Options, next_io: u64) -> Mounted {
        found.end = self.point;
        found.garbage.clear();
        let space = &found.space;
        found.deferred.retain(|block| !space.is_claimed(&self.claims, block));
        found.space.set_aside(&self.claims);
        tracing::info!(position = self.point.position, "memory is short: a checkpoint of a part");
        let options = Options { discard: false, ..options.clone() };
        let mut mounted = found.mount(&options, next_io);
        mounted.reserve_pages_ahead();
        mounted.request_checkpoint();
        mounted
    }
}
