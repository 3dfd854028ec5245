//! Weights of items, with the sums in all their ancestors.

use super::{buckets, shadows};
use crate::Algorithm;
use crate::bucket::BucketError;
use crate::bucket::slot;
use crate::choose_args::{ChooseArg, ChooseArgMap};
use crate::location::Location;
use crate::map::CrushMap;
use crate::weight::WEIGHT_MAX;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// Reason why a weight cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WeightError {
    /// No bucket holds the item.
    #[error("item {item} is in no bucket")]
    NotHeld {
        /// Id of the item.
        item: i32,
    },
    /// The weight is above [`crate::weight::WEIGHT_MAX`].
    #[error("weight {weight:#x} is above the limit of {WEIGHT_MAX:#x}")]
    TooLarge {
        /// Weight that was given, in units of 1/65536.
        weight: u32,
    },
    /// A bucket cannot hold the weight.
    #[error(transparent)]
    Bucket(#[from] BucketError),
}

impl WeightError {
    pub(super) fn check(weight: u32) -> Result<(), WeightError> {
        if weight > WEIGHT_MAX { Err(WeightError::TooLarge { weight }) } else { Ok(()) }
    }
}

/// Takes one instance of `item` out of `bucket`, weight first so that all ancestors follow.
pub(super) fn bucket_remove_item(crush: &mut CrushMap, bucket: i32, item: i32) {
    // Decreasing weights overflow only where ancestors' weights were inconsistent; those stay so.
    adjust_in_bucket(crush, item, 0, bucket, true).ok();
    let straw_version = crush.tunables.straw_calc_version;
    let Some(holder) = crush.bucket_mut(bucket) else { return };
    let Some(position) = holder.position(item) else { return };
    holder.remove_item(position, straw_version);
    let args = crush.choose_args.values_mut().filter_map(|map| map.arg_mut(bucket));
    args.for_each(|arg| arg.remove(position));
}

pub(super) fn set_item_weight(
    crush: &mut CrushMap,
    item: i32,
    weight: u32,
) -> Result<usize, WeightError> {
    WeightError::check(weight)?;
    buckets::atomically(crush, |map| match adjust_everywhere(map, item, weight, true)? {
        0 => Err(WeightError::NotHeld { item }),
        changed => {
            complete_weights(map);
            Ok(changed)
        }
    })
}

pub(super) fn set_subtree_weight(
    crush: &mut CrushMap,
    root: i32,
    weight: u32,
) -> Result<usize, WeightError> {
    WeightError::check(weight)?;
    buckets::atomically(crush, |map| {
        let mut changed = 0;
        for bucket in map.subtree(root).into_iter().filter(|&item| item < 0) {
            let devices = map.children(bucket).iter().copied().filter(|&item| item >= 0);
            for device in devices.collect::<Vec<_>>() {
                changed += usize::from(adjust_in_bucket(map, device, weight, bucket, true)?);
            }
        }
        complete_weights(map);
        shadows::update_derived(map);
        Ok(changed)
    })
}

pub(super) fn reweight(crush: &mut CrushMap) -> Result<(), WeightError> {
    buckets::atomically(crush, |map| {
        let mut done = BTreeMap::new();
        for root in map.visible_roots() {
            reweight_bucket(map, root, &mut done)?;
        }
        settle_sums(map);
        shadows::update_derived(map);
        Ok(())
    })
}

fn reweight_bucket(
    crush: &mut CrushMap,
    id: i32,
    done: &mut BTreeMap<i32, u32>,
) -> Result<u32, BucketError> {
    if let Some(&weight) = done.get(&id) {
        return Ok(weight);
    }
    let straw_version = crush.tunables.straw_calc_version;
    for (position, child) in crush.children(id).to_vec().into_iter().enumerate() {
        if child >= 0 {
            continue;
        }
        let weight = reweight_bucket(crush, child, done)?;
        let bucket = crush.bucket_mut(id).expect("it has children");
        bucket.set_item_weight(position, weight, straw_version)?;
    }
    let bucket = crush.bucket_mut(id).expect("children exist");
    bucket.sum_up_weight()?;
    let weight = bucket.weight;
    done.insert(id, weight);
    Ok(weight)
}

/// Sets the weight in every bucket that holds `item`; returns their number.
fn adjust_everywhere(
    crush: &mut CrushMap,
    item: i32,
    weight: u32,
    replacements: bool,
) -> Result<usize, BucketError> {
    let holders = buckets::holders(crush, item);
    for &bucket in &holders {
        adjust_in_bucket(crush, item, weight, bucket, replacements)?;
    }
    Ok(holders.len())
}

/// Sets the weight in the buckets that `location` names; returns their number.
pub(super) fn adjust_in_location(
    crush: &mut CrushMap,
    item: i32,
    weight: u32,
    location: &Location,
    replacements: bool,
) -> Result<usize, BucketError> {
    let mut changed = 0;
    for (_, name) in location.iter() {
        if let Some(bucket) = crush.item_id(name) {
            changed += usize::from(adjust_in_bucket(crush, item, weight, bucket, replacements)?);
        }
    }
    Ok(changed)
}

/// Sets the weight of `item` in `bucket` and updates the sums in all ancestors; true if the bucket holds
/// it. `replacements` also overwrites the item's replacement weights.
pub(super) fn adjust_in_bucket(
    crush: &mut CrushMap,
    item: i32,
    weight: u32,
    bucket: i32,
    replacements: bool,
) -> Result<bool, BucketError> {
    let straw_version = crush.tunables.straw_calc_version;
    let Some(holder) = crush.bucket_mut(bucket) else { return Ok(false) };
    let Some(position) = holder.position(item) else { return Ok(false) };
    holder.set_item_weight(position, weight, straw_version)?;
    let weight_now = holder.weight;
    if replacements {
        let args = crush.choose_args.values_mut().filter_map(|map| map.arg_mut(bucket));
        args.for_each(|arg| arg.set_weight(position, weight));
    }
    adjust_everywhere(crush, bucket, weight_now, false)?;
    Ok(true)
}

/// Called after weights changed: completes each set of replacement weights for all straw2 buckets, and
/// corrects the sums.
pub(super) fn complete_weights(crush: &mut CrushMap) {
    let mut sets = std::mem::take(&mut crush.choose_args);
    for map in sets.values_mut().filter(|map| map.has_weights()) {
        let positions = map.positions();
        for bucket in crush.buckets().filter(|b| b.algorithm() == Algorithm::Straw2) {
            let slot = slot(bucket.id).expect("buckets have slots");
            let arg = map.args.entry(slot).or_default();
            if arg.weight_sets.is_empty() {
                arg.weight_sets = vec![bucket.item_weights(); positions];
            }
        }
    }
    crush.choose_args = sets;
    settle_sums(crush);
}

/// Makes a bucket's replacement weights in its parents the sums of those of its items.
fn settle_sums(crush: &mut CrushMap) {
    let mut sets = std::mem::take(&mut crush.choose_args);
    for map in sets.values_mut() {
        let mut done = BTreeSet::new();
        crush.roots().into_iter().for_each(|root| sum_replacements(crush, root, map, &mut done));
    }
    crush.choose_args = sets;
}

fn sum_replacements(
    crush: &CrushMap,
    bucket: i32,
    map: &mut ChooseArgMap,
    done: &mut BTreeSet<i32>,
) {
    if !done.insert(bucket) {
        return;
    }
    for (position, &child) in crush.children(bucket).iter().enumerate() {
        if child < 0 {
            sum_replacements(crush, child, map, done);
            let sums = map.arg(child).map(ChooseArg::sums).unwrap_or_default();
            if let Some(arg) = map.arg_mut(bucket).filter(|_| !sums.is_empty()) {
                arg.set_weights(position, &sums);
            }
        }
    }
}
