//! Tests of the map and of the reuse of blocks, each against a model of single blocks.

mod map;
mod space;

use crate::device::Extent;

/// Sizes at and around the borders of words and chunks.
const SIZES: [u64; 14] = [0, 1, 2, 63, 64, 65, 127, 128, 1000, 4095, 4096, 4097, 5003, 8192];

/// Runs of blocks, counted from zero, for which `wanted` holds.
fn runs<T>(blocks: &[T], wanted: impl Fn(&T) -> bool) -> Vec<Extent> {
    let mut runs: Vec<Extent> = Vec::new();
    for (block, _) in blocks.iter().enumerate().filter(|(_, state)| wanted(state)) {
        match runs.last_mut() {
            Some(last) if last.end() == block as u64 => last.count += 1,
            _ => runs.push(Extent::new(block as u64, 1)),
        }
    }
    runs
}

/// Set if the extents are ascending, not empty, and none is adjacent to the next.
fn is_normal(extents: &[Extent]) -> bool {
    extents.iter().all(|extent| extent.count > 0)
        && extents.is_sorted_by(|left, right| left.end() < right.start)
}

fn total(extents: &[Extent]) -> u64 {
    extents.iter().map(|extent| extent.count).sum()
}
