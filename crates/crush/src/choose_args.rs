//! Choose args: weights and ids that replace a bucket's own while choosing.
//!
//! Balancers use them to correct placement without changing the weights that administrators set. A set
//! belongs to a pool id, or to all pools without one of their own ([`DEFAULT_CHOOSE_ARGS`]).

use crate::bucket::{bucket_id, slot};
use std::collections::BTreeMap;

/// The key of the set for pools that have none (`CrushWrapper::DEFAULT_CHOOSE_ARGS`).
pub const DEFAULT_CHOOSE_ARGS: i64 = -1;

/// Replacements for one straw2 bucket (`crush_choose_arg`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChooseArg {
    /// Per result position, the last standing for all further ones, a weight per item. May be empty.
    pub weight_sets: Vec<Vec<u32>>,
    /// An id per item to hash instead of the item's own. May be empty.
    pub ids: Vec<i32>,
}

impl ChooseArg {
    /// True if the bucket's own weights and ids apply.
    pub fn is_empty(&self) -> bool {
        self.weight_sets.is_empty() && self.ids.is_empty()
    }

    pub(crate) fn weights(&self, position: usize) -> Option<&[u32]> {
        let last = self.weight_sets.len().checked_sub(1)?;
        Some(&self.weight_sets[position.min(last)])
    }

    pub(crate) fn push(&mut self, item: i32, weight: u32) {
        self.weight_sets.iter_mut().for_each(|set| set.push(weight));
        if !self.ids.is_empty() {
            self.ids.push(item);
        }
    }

    pub(crate) fn remove(&mut self, position: usize) {
        for set in &mut self.weight_sets {
            set.remove(position);
        }
        if !self.ids.is_empty() {
            self.ids.remove(position);
        }
    }

    pub(crate) fn set_weight(&mut self, position: usize, weight: u32) {
        self.weight_sets.iter_mut().for_each(|set| set[position] = weight);
    }

    /// Sets one item's weight in each set; sets that are not as many as `weights` stay.
    pub(crate) fn set_weights(&mut self, position: usize, weights: &[u32]) {
        if self.weight_sets.len() == weights.len() {
            for (set, &weight) in self.weight_sets.iter_mut().zip(weights) {
                set[position] = weight;
            }
        }
    }

    /// Per weight set, the sum over the items.
    pub(crate) fn sums(&self) -> Vec<u32> {
        let sum = |set: &Vec<u32>| set.iter().fold(0u32, |sum, weight| sum.wrapping_add(*weight));
        self.weight_sets.iter().map(sum).collect()
    }
}

/// Replacements for a whole map (`crush_choose_arg_map`). Buckets without any are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChooseArgMap {
    /// By bucket slot, which is the order of the encoding.
    pub(crate) args: BTreeMap<usize, ChooseArg>,
}

impl ChooseArgMap {
    /// Replacements for a bucket, if it has any.
    pub fn arg(&self, bucket: i32) -> Option<&ChooseArg> {
        self.args.get(&slot(bucket)?)
    }

    pub(crate) fn arg_mut(&mut self, bucket: i32) -> Option<&mut ChooseArg> {
        self.args.get_mut(&slot(bucket)?)
    }

    /// Buckets that have replacements.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (i32, &ChooseArg)> {
        self.args.iter().map(|(&slot, arg)| (bucket_id(slot), arg))
    }

    pub(crate) fn has_weights(&self) -> bool {
        self.args.values().any(|arg| !arg.weight_sets.is_empty())
    }

    /// Number of weight sets of the buckets, equal for all in a sound map.
    pub(crate) fn positions(&self) -> usize {
        let mut lengths = self.args.values().map(|arg| arg.weight_sets.len());
        lengths.find(|&length| length > 0).unwrap_or(1)
    }
}
