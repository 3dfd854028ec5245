//! Sets of blocks or pages, as extents.

use crate::device::Extent;

/// Ascending extents, disjoint, not empty and not adjacent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ExtentSet(Vec<Extent>);

impl FromIterator<Extent> for ExtentSet {
    /// Accepts any order; overlaps count once.
    fn from_iter<I: IntoIterator<Item = Extent>>(extents: I) -> Self {
        let mut extents: Vec<Extent> = extents.into_iter().filter(|e| e.count > 0).collect();
        extents.sort_unstable();
        extents.dedup_by(|next, last| {
            let is_joined = next.start <= last.end();
            if is_joined {
                last.count = last.end().max(next.end()) - last.start;
            }
            is_joined
        });
        ExtentSet(extents)
    }
}

impl ExtentSet {
    /// The extents, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Extent> + '_ {
        self.0.iter().copied()
    }

    /// Set if there is no extent.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Blocks in either set.
    pub fn union(&self, other: &ExtentSet) -> ExtentSet {
        self.iter().chain(other.iter()).collect()
    }

    /// Parts of `extent` that are in the set.
    pub fn within(&self, extent: Extent) -> impl Iterator<Item = Extent> + '_ {
        let first = self.0.partition_point(|own| own.end() <= extent.start);
        let touching = self.0[first..].iter().take_while(move |own| own.start < extent.end());
        touching.map(move |own| {
            let start = own.start.max(extent.start);
            Extent::new(start, own.end().min(extent.end()) - start)
        })
    }

    /// Blocks in both sets.
    pub fn intersection(&self, other: &ExtentSet) -> ExtentSet {
        other.iter().flat_map(|extent| self.within(extent)).collect()
    }

    /// Extents in this set and not in the other.
    pub fn minus(&self, other: &ExtentSet) -> ExtentSet {
        let mut rest = Vec::new();
        for extent in self.iter() {
            let mut start = extent.start;
            for taken in other.within(extent) {
                rest.push(Extent::new(start, taken.start - start));
                start = taken.end();
            }
            rest.push(Extent::new(start, extent.end() - start));
        }
        rest.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const END: u64 = 40;

    fn any_set() -> impl Strategy<Value = (ExtentSet, Vec<bool>)> {
        prop::collection::vec((0..END, 0..10u64), 0..8).prop_map(|extents| {
            let mut model = vec![false; END as usize];
            let extents: Vec<Extent> = extents
                .into_iter()
                .map(|(start, count)| Extent::new(start, count.min(END - start)))
                .collect();
            for extent in &extents {
                model[extent.start as usize..extent.end() as usize].fill(true);
            }
            (extents.into_iter().collect(), model)
        })
    }

    fn model_of(set: &ExtentSet) -> Vec<bool> {
        let mut model = vec![false; END as usize];
        for extent in set.iter() {
            model[extent.start as usize..extent.end() as usize].fill(true);
        }
        model
    }

    proptest! {
        #[test]
        fn sets_behave_as_a_flag_per_block((a, in_a) in any_set(), (b, in_b) in any_set()) {
            let combine = |f: fn(bool, bool) -> bool| -> Vec<bool> {
                in_a.iter().zip(&in_b).map(|(a, b)| f(*a, *b)).collect()
            };
            prop_assert_eq!(model_of(&a.union(&b)), combine(|a, b| a | b));
            prop_assert_eq!(model_of(&a.intersection(&b)), combine(|a, b| a & b));
            prop_assert_eq!(model_of(&a.minus(&b)), combine(|a, b| a & !b));
            for set in [a.union(&b), a.intersection(&b), a.minus(&b)] {
                prop_assert!(set.0.is_sorted_by(|left, right| left.end() < right.start));
            }
        }
    }
}
