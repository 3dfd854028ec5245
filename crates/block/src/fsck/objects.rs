//! Objects known to a check: eight bytes each, and sixteen more for each large one.
//!
//! Collected in the order of names while onodes are read; then sorted by id, because all pairs of an
//! object name its id.

use crate::object::Onode;

const HAS_OMAP: u64 = 1;
const IS_INLINE: u64 = 2;
const FLAG_BITS: u32 = 2;

/// Ids are counted from one, so no store reaches this id.
pub(crate) const ID_MAX: u64 = u64::MAX >> FLAG_BITS;

#[derive(Debug, Default)]
pub(crate) struct Objects {
    /// Ids and flags.
    all: Vec<u64>,
    /// Ids and sizes of objects whose extent segments are pairs of their own.
    large: Vec<(u64, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    /// The onode says that there may be an omap.
    pub has_omap: bool,
    /// The onode contains the only extent segment.
    pub is_inline: bool,
}

impl Objects {
    /// The id must not exceed [`ID_MAX`].
    pub fn push(&mut self, onode: &Onode) {
        let omap = if onode.has_omap { HAS_OMAP } else { 0 };
        let inline = if onode.inline.is_some() { IS_INLINE } else { 0 };
        self.all.push(onode.id << FLAG_BITS | omap | inline);
        if onode.inline.is_none() {
            self.large.push((onode.id, onode.size));
        }
    }

    /// Sorts after the last object. Returns duplicate ids.
    pub fn sort(&mut self) -> Vec<u64> {
        self.all.sort_unstable();
        self.large.sort_unstable();
        let pairs = self.all.windows(2).filter(|pair| id_of(pair[0]) == id_of(pair[1]));
        let mut twice: Vec<u64> = pairs.map(|pair| id_of(pair[0])).collect();
        twice.dedup();
        twice
    }

    /// Flags of an object, after [`Objects::sort`].
    pub fn get(&self, id: u64) -> Option<Known> {
        let index = self.all.partition_point(|known| id_of(*known) < id);
        let known = *self.all.get(index).filter(|known| id_of(**known) == id)?;
        Some(Known { has_omap: known & HAS_OMAP != 0, is_inline: known & IS_INLINE != 0 })
    }

    /// Size of an object whose extent segments are pairs of their own.
    pub fn size(&self, id: u64) -> Option<u64> {
        let index = self.large.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(self.large[index].1)
    }
}

fn id_of(known: u64) -> u64 {
    known >> FLAG_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_found_by_id_and_duplicate_ids_are_reported() {
        let mut objects = Objects::default();
        let large = |id| Onode { id, size: 1 << 20, ..Onode::default() };
        let small = |id| Onode { has_omap: true, ..Onode::new(id) };
        [large(9), small(4), small(9), small(2)].iter().for_each(|onode| objects.push(onode));
        assert_eq!(objects.sort(), [9]);
        assert_eq!(objects.get(4), Some(Known { has_omap: true, is_inline: true }));
        assert_eq!((objects.get(3), objects.size(4)), (None, None));
        assert_eq!(objects.size(9), Some(1 << 20));
    }
}
