//! Fragmentation of the free space.

use super::map::BlockMap;
use crate::device::Extent;

/// The free runs of a map, by length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreeRuns {
    /// Number of runs with 2^i to 2^(i+1) - 1 blocks.
    pub by_size: [u64; 64],
    /// First of the longest runs; empty if nothing is free.
    pub largest: Extent,
}

impl FreeRuns {
    /// Number of free runs.
    pub fn count(&self) -> u64 {
        self.by_size.iter().sum()
    }
}

impl BlockMap {
    /// Examines every free run: tens of milliseconds for a fragmented TiB.
    pub fn free_runs(&self) -> FreeRuns {
        let mut runs = FreeRuns { by_size: [0; 64], largest: Extent::default() };
        let mut from = self.extent().start;
        while let Some(run) = self.next_free_run(from) {
            runs.by_size[run.count.ilog2() as usize] += 1;
            if run.count > runs.largest.count {
                runs.largest = run;
            }
            from = run.end();
        }
        runs
    }
}
