//! Comparison of the space bitmap with the references to blocks.

use super::detail::Detail;
use super::finding::{FindingKind, Findings, Repair};
use super::references::References;
use super::repairs::Repairs;
use crate::device::Extent;
use crate::space::{BlockMap, CHUNK_BLOCKS};

/// Reports blocks that are marked and not used, or used and not marked.
pub(crate) fn compare(
    references: &References,
    stored: &BlockMap,
    findings: &mut Findings,
    repairs: &mut Repairs,
) {
    let (mut leaked, mut unmarked) = (Runs::default(), Runs::default());
    for chunk in 0..references.chunks() {
        let (used, marked) = (references.used_chunk(chunk), stored.chunk(chunk));
        if used == marked {
            continue;
        }
        let first = stored.extent().start + u64::from(chunk) * CHUNK_BLOCKS;
        for (block, (used, marked)) in (first..).step_by(8).zip(used.iter().zip(&marked)) {
            leaked.push_bits(block, marked & !used);
            unmarked.push_bits(block, used & !marked);
        }
    }
    // An unreferenced block may belong to lost metadata.
    let repair = findings.is_complete().then_some(Repair::Free);
    for extent in &leaked.0 {
        let detail = Detail::BlocksLeaked(*extent);
        findings.add_maybe_repairable(FindingKind::BlockLeaked, repair, detail);
    }
    for extent in &unmarked.0 {
        let detail = Detail::MarkedFree(*extent);
        findings.add_repairable(FindingKind::BlockFree, Repair::MarkUsed, detail);
    }
    repairs.taken = unmarked.0;
    if repair.is_some() {
        repairs.freed = leaked.0;
    }
}

/// Runs of blocks, ascending.
#[derive(Default)]
struct Runs(Vec<Extent>);

impl Runs {
    /// Appends the blocks whose bits are set, out of eight from `first` on.
    fn push_bits(&mut self, first: u64, bits: u8) {
        for bit in (0..8).filter(|bit| bits >> bit & 1 == 1) {
            super::references::push_block(&mut self.0, first + bit);
        }
    }
}
