//! Claims: blocks taken by records that are not replayed yet.

use super::Space;
use super::bits::{bit_runs, words};
use super::error::SpaceError;
use super::set::BlockSet;
use crate::device::Extent;

/// At most one bit for each block of the space.
#[derive(Debug, Clone, Default)]
pub struct Claims {
    blocks: BlockSet,
}

impl Space {
    /// Claims blocks that a later record takes.
    pub fn claim(&self, claims: &mut Claims, extent: Extent) -> Result<(), SpaceError> {
        let (start, count) = self.map.position(extent)?;
        for (word, bits) in words(start, count) {
            claims.blocks.insert(word, bits);
        }
        Ok(())
    }

    /// Set if a later record takes the block; false outside of the space.
    pub fn is_claimed(&self, claims: &Claims, block: u64) -> bool {
        let at = self.map.position(Extent::new(block, 1));
        at.is_ok_and(|(start, count)| {
            words(start, count).any(|(word, bits)| claims.blocks.get(word) & bits != 0)
        })
    }

    /// Keeps claimed blocks from being allocated, by pinning them.
    pub fn set_aside(&mut self, claims: &Claims) {
        for (word, bits) in claims.blocks.words() {
            let free = self.map.words[word] & bits;
            for (low, count) in bit_runs(free) {
                let run = Extent::new(self.map.block(word, low), count);
                self.withdraw(run).expect("free, as the map says");
            }
        }
    }
}
