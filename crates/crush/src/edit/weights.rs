//! Weights of items, and of all their ancestors with them.

use crate::bucket::BucketError;
use crate::choose_args::ChooseArg;
use crate::edit::Location;
use crate::map::{CrushMap, slot};
use crate::weight::WEIGHT_MAX;
use std::collections::BTreeMap;
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
    /// Sets the weight of `item` wherever it is held; in how many buckets that was.
    pub fn set_item_weight(&mut self, item: i32, weight: u32) -> Result<usize, WeightError> {
        WeightError::check(weight)?;
        self.atomically(|map| match map.adjust_everywhere(item, weight, true)? {
            0 => Err(WeightError::NotHeld { item }),
            changed => Ok(changed),
        })
    }

    /// Sets the weight of all devices below `root`; how many places that were.
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
            let sums: Vec<_> =
                self.choose_args.values().map(|map| map.arg(child).map(ChooseArg::sums)).collect();
            let bucket = self.bucket_mut(id).expect("it has children");
            bucket.set_item_weight(position, weight, straw_version)?;
            for (map, sums) in self.choose_args.values_mut().zip(sums) {
                if let (Some(arg), Some(sums)) = (map.arg_mut(id), sums) {
                    arg.set_weights(position, &sums);
                }
            }
        }
        let bucket = self.bucket_mut(id).expect("children exist");
        bucket.settle_weight()?;
        let weight = bucket.weight;
        done.insert(id, weight);
        Ok(weight)
    }

    /// Sets the weight in every bucket that holds `item`; how many do.
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

    /// Sets the weight in the buckets that `location` names; in how many of them.
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

    /// Sets the weight of `item` in `bucket` and the weights of all ancestors; whether it is held
    /// there. `replacements` says whether replacement weights are overwritten too; in any case
    /// those of the ancestors are brought to the new sums.
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
        self.sum_replacements(bucket);
        Ok(true)
    }

    /// Brings the replacement weights of `bucket` in its ancestors to the sums of its items'.
    fn sum_replacements(&mut self, bucket: i32) {
        if self.choose_args.is_empty() {
            return;
        }
        let holders = self.holders(bucket);
        let own: Vec<_> = holders.iter().map(|&id| self.replacement_basis(id, bucket)).collect();
        for map in self.choose_args.values_mut() {
            let Some(sums) = map.arg(bucket).map(ChooseArg::sums).filter(|s| !s.is_empty()) else {
                continue;
            };
            for (&holder, (position, weights)) in holders.iter().zip(&own) {
                let Some(slot) = slot(holder).filter(|_| weights.is_some()) else { continue };
                let arg = map.args.entry(slot).or_default();
                if arg.weight_sets.is_empty() {
                    arg.weight_sets = vec![weights.clone().unwrap_or_default(); sums.len()];
                }
                arg.set_weights(*position, &sums);
            }
        }
        holders.into_iter().for_each(|holder| self.sum_replacements(holder));
    }

    /// Where `holder` holds `item`, and the weights that new replacements start from, if its
    /// algorithm can have any.
    fn replacement_basis(&self, holder: i32, item: i32) -> (usize, Option<Vec<u32>>) {
        let bucket = self.bucket(holder).expect("it was found holding something");
        let fits = bucket.algorithm() == crate::Algorithm::Straw2;
        (bucket.position(item).unwrap_or(0), fits.then(|| bucket.item_weights()))
    }
}
