//! Buckets: adding and removing them and their items, without what is derived from the tree.

use crate::Algorithm;
use crate::bucket::{Bucket, BucketError, bucket_id, slot};
use crate::choose_args::ChooseArg;
use crate::map::CrushMap;

/// Slots of the first bucket table; it doubles when it is full.
const SLOTS_MIN: usize = 8;

/// Runs an edit that either succeeds or changes nothing.
pub(super) fn atomically<T, E>(
    crush: &mut CrushMap,
    edit: impl FnOnce(&mut CrushMap) -> Result<T, E>,
) -> Result<T, E> {
    let mut copy = crush.clone();
    let outcome = edit(&mut copy)?;
    *crush = copy;
    Ok(outcome)
}

pub(super) fn first_vacant_slot(crush: &CrushMap) -> usize {
    crush.buckets.iter().position(Option::is_none).unwrap_or(crush.buckets.len())
}

/// Puts a bucket without items into a vacant slot.
pub(super) fn place_bucket(
    crush: &mut CrushMap,
    slot: usize,
    type_id: u16,
    algorithm: Algorithm,
) -> i32 {
    while slot >= crush.buckets.len() {
        crush.buckets.resize((2 * crush.buckets.len()).max(SLOTS_MIN), None);
    }
    let id = bucket_id(slot);
    assert!(crush.buckets[slot].is_none(), "a new bucket takes a vacant slot");
    crush.buckets[slot] = Some(Bucket::new(id, type_id, algorithm));
    id
}

/// Removes a bucket with its names, classes and replacement weights.
pub(super) fn drop_bucket(crush: &mut CrushMap, id: i32) {
    let Some(slot) = slot(id).filter(|&slot| slot < crush.buckets.len()) else { return };
    crush.buckets[slot] = None;
    crush.names.remove(id);
    crush.shadows.remove(&id);
    crush.item_classes.remove(&id);
    crush.choose_args.values_mut().for_each(|map| {
        map.args.remove(&slot);
    });
}

/// Adds an item to an existing bucket and to its replacement weights.
pub(super) fn bucket_add_item(
    crush: &mut CrushMap,
    bucket: i32,
    item: i32,
    weight: u32,
) -> Result<(), BucketError> {
    let straw_version = crush.tunables.straw_calc_version;
    let holder = crush.bucket_mut(bucket).expect("the caller looked it up");
    holder.add_item(item, weight, straw_version)?;
    assert!(holder.has_all_weights(), "each item has a weight");
    let args = crush.choose_args.values_mut().filter_map(|map| map.arg_mut(bucket));
    args.for_each(|arg| arg.push(item, weight));
    Ok(())
}

/// Gives a new straw2 bucket replacement weights, its own, in every set.
pub(super) fn init_choose_args(crush: &mut CrushMap, bucket: i32) {
    let holder = crush.bucket(bucket).filter(|b| b.algorithm() == Algorithm::Straw2);
    let (Some(slot), Some(holder)) = (slot(bucket), holder) else { return };
    let weights = holder.item_weights();
    for map in crush.choose_args.values_mut() {
        let weight_sets = vec![weights.clone(); map.positions()];
        map.args.insert(slot, ChooseArg { weight_sets, ids: Vec::new() });
    }
}

/// Buckets that hold `item`, in slot order.
pub(super) fn holders(crush: &CrushMap, item: i32) -> Vec<i32> {
    let holders = crush.buckets().filter(|bucket| bucket.items.contains(&item));
    holders.map(|bucket| bucket.id).collect()
}
