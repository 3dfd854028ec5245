//! Weights of items, with the sums in all their ancestors.

use crate::Algorithm;
use crate::bucket::BucketError;
use crate::choose_args::{ChooseArg, ChooseArgMap};
use crate::edit::Location;
use crate::map::{CrushMap, slot};
use crate::weight::WEIGHT_MAX;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WeightError {
    #[error("item {item} is in no bucket")]
    NotHeld { item: i32 },
    #[error("weight {weight:#x} is above the limit of {WEIGHT_MAX:#x}")]
    TooLarge { weight: u32 },
    #[error(transparent)]
    Bucket(#[from] BucketError),
}

impl WeightError {
    pub(super) fn check(weight: u32) -> Result<(), WeightError> {
        if weight > WEIGHT_MAX { Err(WeightError::TooLarge { weight }) } else { Ok(()) }
    }
}

impl CrushMap {
    /// Sets the weight of `item` in all its buckets; returns their number.
    pub fn set_item_weight(&mut self, item: i32, weight: u32) -> Result<usize, WeightError> {
        WeightError::check(weight)?;
        self.atomically(|map| match map.adjust_everywhere(item, weight, true)? {
            0 => Err(WeightError::NotHeld { item }),
            changed => {
                map.settle_weights();
                Ok(changed)
            }
        })
    }

    /// Sets the weight of all devices below `root`; returns the number of places.
    pub fn set_subtree_weight(&mut self, root: i32, weight: u32) -> Result<usize, WeightError> {
        WeightError::check(weight)?;
        self.atomically(|map| {
            let mut changed = 0;
            for bucket in map.subtree(root).into_iter().filter(|&item| item < 0) {
                let devices = map.children(bucket).iter().copied().filter(|&item| item >= 0);
                for device in devices.collect::<Vec<_>>() {
                    changed += usize::from(map.adjust_in_bucket(device, weight, bucket, true)?);
                }
            }
            map.settle_weights();
            map.settle();
            Ok(changed)
        })
    }

    /// Makes every bucket weigh what its items weigh, bottom up (`CrushWrapper::reweight`).
    pub fn reweight(&mut self) -> Result<(), WeightError> {
        self.atomically(|map| {
            let mut done = BTreeMap::new();
            for root in map.visible_roots() {
                map.reweight_bucket(root, &mut done)?;
            }
            map.settle_sums();
            map.settle();
            Ok(())
        })
    }

    fn reweight_bucket(
        &mut self,
        id: i32,
        done: &mut BTreeMap<i32, u32>,
    ) -> Result<u32, BucketError> {
        if let Some(&weight) = done.get(&id) {
            return Ok(weight);
        }
        let straw_version = self.tunables.straw_calc_version;
        for (position, child) in self.children(id).to_vec().into_iter().enumerate() {
            if child >= 0 {
                continue;
            }
            let weight = self.reweight_bucket(child, done)?;
            let bucket = self.bucket_mut(id).expect("it has children");
            bucket.set_item_weight(position, weight, straw_version)?;
        }
        let bucket = self.bucket_mut(id).expect("children exist");
        bucket.settle_weight()?;
        let weight = bucket.weight;
        done.insert(id, weight);
        Ok(weight)
    }

    /// Sets the weight in every bucket that holds `item`; returns their number.
    pub(super) fn adjust_everywhere(
        &mut self,
        item: i32,
        weight: u32,
        replacements: bool,
    ) -> Result<usize, BucketError> {
        let holders = self.holders(item);
        for &bucket in &holders {
            self.adjust_in_bucket(item, weight, bucket, replacements)?;
        }
        Ok(holders.len())
    }

    /// Sets the weight in the buckets that `location` names; returns their number.
    pub(super) fn adjust_in_location(
        &mut self,
        item: i32,
        weight: u32,
        location: &Location,
        replacements: bool,
    ) -> Result<usize, BucketError> {
        let mut changed = 0;
        for (_, name) in location.iter() {
            if let Some(bucket) = self.item_id(name) {
                changed +=
                    usize::from(self.adjust_in_bucket(item, weight, bucket, replacements)?);
            }
        }
        Ok(changed)
    }

    /// Sets the weight of `item` in `bucket` and updates the sums in all ancestors; true if the bucket holds
    /// it. `replacements` also overwrites the item's replacement weights.
    pub(super) fn adjust_in_bucket(
        &mut self,
        item: i32,
        weight: u32,
        bucket: i32,
        replacements: bool,
    ) -> Result<bool, BucketError> {
        let straw_version = self.tunables.straw_calc_version;
        let Some(holder) = self.bucket_mut(bucket) else { return Ok(false) };
        let Some(position) = holder.position(item) else { return Ok(false) };
        holder.set_item_weight(position, weight, straw_version)?;
        let weight_now = holder.weight;
        if replacements {
            let args = self.choose_args.values_mut().filter_map(|map| map.arg_mut(bucket));
            args.for_each(|arg| arg.set_weight(position, weight));
        }
        self.adjust_everywhere(bucket, weight_now, false)?;
        Ok(true)
    }

    /// Called after weights changed: completes each set of replacement weights for all straw2 buckets, and
    /// corrects the sums.
    pub(super) fn settle_weights(&mut self) {
        let mut sets = std::mem::take(&mut self.choose_args);
        for map in sets.values_mut().filter(|map| map.has_weights()) {
            let positions = map.positions();
            for bucket in self.buckets().filter(|b| b.algorithm() == Algorithm::Straw2) {
                let slot = slot(bucket.id).expect("buckets have slots");
                let arg = map.args.entry(slot).or_default();
                if arg.weight_sets.is_empty() {
                    arg.weight_sets = vec![bucket.item_weights(); positions];
                }
            }
        }
        self.choose_args = sets;
        self.settle_sums();
    }

    /// Makes a bucket's replacement weights in its parents the sums of those of its items.
    pub(super) fn settle_sums(&mut self) {
        let mut sets = std::mem::take(&mut self.choose_args);
        for map in sets.values_mut() {
            let mut done = BTreeSet::new();
            self.roots().into_iter().for_each(|root| self.sum_replacements(root, map, &mut done));
        }
        self.choose_args = sets;
    }

    fn sum_replacements(&self, bucket: i32, map: &mut ChooseArgMap, done: &mut BTreeSet<i32>) {
        if !done.insert(bucket) {
            return;
        }
        for (position, &child) in self.children(bucket).iter().enumerate() {
            if child < 0 {
                self.sum_replacements(child, map, done);
                let sums = map.arg(child).map(ChooseArg::sums).unwrap_or_default();
                if let Some(arg) = map.arg_mut(bucket).filter(|_| !sums.is_empty()) {
                    arg.set_weights(position, &sums);
                }
            }
        }
    }
}
