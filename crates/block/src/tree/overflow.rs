//! Overflow values: the runs of pages that hold a long value.
//!
//! A cell of a leaf lists up to [`RUNS_MAX`] runs. If fragmentation required more, the runs are
//! written as a list themselves, and the cell names the runs of the list.

use super::flaw::PageFlaw;
use super::reference::Run;
use crate::device::BLOCK;
use smallvec::SmallVec;

/// Runs in a leaf's cell at most.
pub(super) const RUNS_MAX: usize = 16;
/// Runs in one page of a list.
pub(super) const RUNS_PER_PAGE: usize = BLOCK / Run::BYTES;
/// Maximum length of a value in bytes. Even with every page in a run of its own, its list fits a
/// cell.
pub const VALUE_MAX: usize = RUNS_MAX * RUNS_PER_PAGE * BLOCK;

const FIXED: usize = 6;
const DIRECT: u8 = 0;
const LISTED: u8 = 1;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Overflow {
    /// Length of the value in bytes.
    pub length: u32,
    /// Set if the runs hold a list of the value's runs.
    pub listed: bool,
    /// The value, or the list of its runs.
    pub runs: SmallVec<[Run; 2]>,
}

impl Overflow {
    pub(super) fn to_bytes(&self) -> SmallVec<[u8; 64]> {
        let mut raw = SmallVec::new();
        raw.extend_from_slice(&self.length.to_le_bytes());
        raw.push(if self.listed { LISTED } else { DIRECT });
        raw.push(self.runs.len() as u8);
        for run in &self.runs {
            raw.extend_from_slice(&run.to_bytes());
        }
        raw
    }

    pub(super) fn from_bytes(raw: &[u8]) -> Result<Self, PageFlaw> {
        if raw.len() < FIXED || raw.len() != FIXED + usize::from(raw[5]) * Run::BYTES {
            return Err(PageFlaw::Layout("length of an overflow cell"));
        }
        let length = u32::from_le_bytes(raw[..4].try_into().expect("four bytes"));
        let listed = match raw[4] {
            DIRECT => false,
            LISTED => true,
            _ => return Err(PageFlaw::Layout("form of an overflow cell")),
        };
        let runs: SmallVec<[Run; 2]> =
            raw[FIXED..].chunks_exact(Run::BYTES).map(Run::from_bytes).collect();
        if runs.len() > RUNS_MAX || length as usize > VALUE_MAX {
            return Err(PageFlaw::Layout("bounds of an overflow cell"));
        }
        let overflow = Overflow { length, listed, runs };
        let pages = if listed { None } else { Some(overflow.value_pages()) };
        check_runs(&overflow.runs, pages)?;
        Ok(overflow)
    }

    /// Longest cell that a value of this length can have.
    pub(super) fn torn(length: u32) -> Self {
        let pages = (length as usize).div_ceil(BLOCK);
        let runs = (0..pages.min(RUNS_MAX) as u64).map(|page| Run { page, pages: 1, crc: 0 });
        Overflow { length, listed: pages > RUNS_MAX, runs: runs.collect() }
    }

    /// Pages of the value, without the list.
    pub(super) fn value_pages(&self) -> u64 {
        u64::from(self.length).div_ceil(BLOCK as u64)
    }

    /// Decodes the runs of the list in `raw`.
    pub(super) fn runs_in_list(&self, raw: &[u8]) -> Result<Vec<Run>, PageFlaw> {
        let runs: Vec<Run> =
            raw.chunks_exact(Run::BYTES).map(Run::from_bytes).take_while(|r| r.pages > 0).collect();
        check_runs(&runs, Some(self.value_pages()))?;
        Ok(runs)
    }
}

fn check_runs(runs: &[Run], pages: Option<u64>) -> Result<(), PageFlaw> {
    let bound = (VALUE_MAX / BLOCK) as u64;
    let within = |run: &Run| (1..=bound).contains(&u64::from(run.pages));
    let ends = |run: &Run| run.page.checked_add(u64::from(run.pages)).is_some();
    if runs.is_empty() || !runs.iter().all(|run| within(run) && ends(run)) {
        return Err(PageFlaw::Layout("run of an overflow value"));
    }
    let total: u64 = runs.iter().map(|run| u64::from(run.pages)).sum();
    if total > bound || pages.is_some_and(|pages| pages != total) {
        return Err(PageFlaw::Layout("number of pages of an overflow value"));
    }
    Ok(())
}

/// Maximum number of pages for a value of `length` bytes under any fragmentation.
pub(super) fn pages_for(length: usize) -> u64 {
    let pages = length.div_ceil(BLOCK);
    let list = if pages > RUNS_MAX { pages.div_ceil(RUNS_PER_PAGE) } else { 0 };
    (pages + list) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn example() -> Overflow {
        let runs = [Run { page: 5, pages: 2, crc: 1 }, Run { page: 9, pages: 1, crc: 2 }];
        Overflow { length: 2 * BLOCK as u32 + 1, listed: false, runs: runs.into_iter().collect() }
    }

    #[test]
    fn a_cell_survives_its_bytes_and_not_their_truncation() {
        let raw = example().to_bytes();
        assert_eq!(Overflow::from_bytes(&raw), Ok(example()));
        for length in 0..raw.len() {
            assert!(Overflow::from_bytes(&raw[..length]).is_err(), "cut at {length}");
        }
    }

    #[test]
    fn runs_must_hold_exactly_the_value() {
        let mut overflow = example();
        overflow.length = BLOCK as u32;
        assert!(Overflow::from_bytes(&overflow.to_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(raw in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(overflow) = Overflow::from_bytes(&raw) {
                prop_assert_eq!(overflow.to_bytes().to_vec(), raw.clone());
                let _ = overflow.runs_in_list(&raw);
            }
        }
    }
}
