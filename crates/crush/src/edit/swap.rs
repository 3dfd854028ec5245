//! Two buckets in each other's place.

use super::weights::{self, WeightError};
use super::{buckets, shadows};
use crate::map::CrushMap;
use crate::validate::{self, TreeError};
use thiserror::Error;

/// Reason why two buckets cannot be swapped.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SwapError {
    /// The map has no such bucket.
    #[error("bucket {bucket} does not exist")]
    NoSuchBucket {
        /// Id that was given.
        bucket: i32,
    },
    /// One bucket lies below the other.
    #[error("bucket {inner} lies below bucket {outer}")]
    Nested {
        /// Id of the upper bucket.
        outer: i32,
        /// Id of the lower bucket.
        inner: i32,
    },
    /// The buckets have different algorithms.
    #[error("the buckets have different algorithms")]
    Algorithms,
    /// The weights of a bucket above would overflow.
    #[error(transparent)]
    Weight(#[from] WeightError),
    /// The result would not be a valid forest.
    #[error(transparent)]
    Tree(#[from] TreeError),
}

pub(super) fn swap_buckets(crush: &mut CrushMap, one: i32, other: i32) -> Result<(), SwapError> {
    if one == other {
        return Ok(());
    }
    buckets::atomically(crush, |map| {
        let algorithms = [one, other].map(|bucket| {
            let found = map.bucket(bucket).map(|found| found.algorithm());
            found.ok_or(SwapError::NoSuchBucket { bucket })
        });
        let [first, second] = algorithms;
        if first? != second? {
            return Err(SwapError::Algorithms);
        }
        for (outer, inner) in [(one, other), (other, one)] {
            if map.subtree_contains(outer, inner) {
                return Err(SwapError::Nested { outer, inner });
            }
        }
        let (of_one, of_other) = (take_items(map, one), take_items(map, other));
        give_items(map, one, &of_other)?;
        give_items(map, other, &of_one)?;
        let names = [one, other].map(|bucket| map.item_name(bucket).unwrap_or("").to_owned());
        let [name, other_name] = names;
        // A name has one bearer at any time.
        map.names.remove(one);
        map.names.set(other, name);
        map.names.set(one, other_name);
        validate::check_trees(map)?;
        weights::complete_weights(map);
        shadows::update_derived(map);
        Ok(())
    })
}

fn take_items(crush: &mut CrushMap, bucket: i32) -> Vec<(i32, u32)> {
    let Some(holder) = crush.bucket(bucket) else { return Vec::new() };
    let items: Vec<(i32, u32)> = holder.items.iter().copied().zip(holder.item_weights()).collect();
    items.iter().for_each(|(item, _)| weights::bucket_remove_item(crush, bucket, *item));
    items
}

fn give_items(crush: &mut CrushMap, bucket: i32, items: &[(i32, u32)]) -> Result<(), WeightError> {
    for (item, weight) in items {
        buckets::bucket_add_item(crush, bucket, *item, 0)?;
        weights::adjust_in_bucket(crush, *item, *weight, bucket, true)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::Location;

    fn map() -> CrushMap {
        let mut map = CrushMap::new();
        map.add_bucket("default", map.type_id("root").unwrap()).unwrap();
        for (osd, host) in [(0, "old"), (1, "old"), (2, "other")] {
            let place = ["root=default".to_owned(), format!("host={host}")];
            let place = Location::parse(place.iter().map(String::as_str)).unwrap();
            map.insert_item(osd, 0x1_0000, &format!("osd.{osd}"), &place).unwrap();
        }
        let host = map.type_id("host").unwrap();
        map.add_bucket("new", host).unwrap();
        let place = Location::parse(["host=new"]).unwrap();
        map.insert_item(3, 0x3_0000, "osd.3", &place).unwrap();
        map
    }

    #[test]
    fn an_orphan_takes_the_place_of_a_bucket_in_the_tree() {
        let mut map = map();
        let (old, new) = (map.item_id("old").unwrap(), map.item_id("new").unwrap());
        map.swap_buckets(new, old).unwrap();
        assert_eq!((map.item_id("new"), map.item_id("old")), (Some(old), Some(new)));
        assert_eq!((map.children(old), map.children(new)), (&[3][..], &[0, 1][..]));
        let root = map.item_id("default").unwrap();
        assert_eq!((map.bucket(root).unwrap().weight, map.is_held(new)), (0x4_0000, false));
        map.swap_buckets(new, old).unwrap();
        assert_eq!(map.children(map.item_id("old").unwrap()), &[0, 1]);
    }

    #[test]
    fn what_cannot_change_places_stays() {
        let mut map = map();
        let before = map.clone();
        let (root, old) = (map.item_id("default").unwrap(), map.item_id("old").unwrap());
        let nested = Err(SwapError::Nested { outer: root, inner: old });
        assert_eq!(map.swap_buckets(old, root), nested);
        let missing = Err(SwapError::NoSuchBucket { bucket: 3 });
        assert_eq!(map.swap_buckets(3, old), missing);
        assert!(map == before);
    }
}
