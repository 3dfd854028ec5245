//! Rules that every map satisfies after decoding and after each edit.

use crate::bucket::{Algorithm, Bucket, bucket_id, slot};
use crate::choose_args::ChooseArg;
use crate::map::CrushMap;
use crate::validate;

/// Panics if the map contradicts itself.
pub(crate) fn check(map: &CrushMap) {
    for (slot, bucket) in map.buckets.iter().enumerate() {
        if let Some(bucket) = bucket {
            assert_eq!(bucket.id, bucket_id(slot), "a bucket lies in the slot of its id");
            check_bucket(map, bucket);
        }
    }
    if let Err(error) = validate::check_trees(map) {
        panic!("the tree is damaged: {error}");
    }
    for (pool, sets) in &map.choose_args {
        for (id, arg) in sets.iter() {
            let bucket = map.bucket(id);
            let bucket = bucket.unwrap_or_else(|| panic!("choose args {pool} of no bucket, {id}"));
            check_choose_arg(bucket, arg);
        }
    }
}

fn check_bucket(map: &CrushMap, bucket: &Bucket) {
    let id = bucket.id;
    assert!(slot(id).is_some(), "bucket {id} has the id of a device");
    assert!(bucket.has_all_weights(), "bucket {id}: each item has a weight");
    let highest = bucket.items.iter().copied().max().unwrap_or(-1);
    assert!(highest < map.max_devices, "bucket {id} holds device {highest}, the bound is lower");
}

fn check_choose_arg(bucket: &Bucket, arg: &ChooseArg) {
    let (id, items) = (bucket.id, bucket.items.len());
    assert_eq!(bucket.algorithm(), Algorithm::Straw2, "bucket {id} has choose args");
    assert!(arg.weight_sets.iter().all(|set| set.len() == items), "bucket {id}: sets of weights");
    assert!(arg.ids.is_empty() || arg.ids.len() == items, "bucket {id}: ids for choosing");
}
