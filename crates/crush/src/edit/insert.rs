//! Putting items into the tree: inserting, moving, linking.

use super::buckets;
use super::remove;
use super::shadows;
use super::weights::{self, WeightError};
use crate::bucket::BucketError;
use crate::location::Location;
use crate::map::CrushMap;
use crate::names::is_valid_name;
use crate::validate::{self, TreeError};
use thiserror::Error;

/// Reason why an item cannot be inserted, moved or linked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InsertError {
    /// The name is empty or has characters that names must not have.
    #[error("name '{name}' does not match [-_.0-9a-zA-Z]+")]
    InvalidName {
        /// Name that was given.
        name: String,
    },
    /// Another item has the name.
    #[error("name '{name}' already belongs to item {holder}")]
    NameTaken {
        /// Name that was given.
        name: String,
        /// Id of the item that has it.
        holder: i32,
    },
    /// The map has no such item.
    #[error("item {item} does not exist")]
    NoSuchItem {
        /// Id of the item.
        item: i32,
    },
    /// The map has no such bucket type.
    #[error("type {type_id} does not exist")]
    NoSuchType {
        /// Number of the type.
        type_id: i32,
    },
    /// The item is a device where a bucket is required.
    #[error("item {item} is a device, not a bucket")]
    NotABucket {
        /// Id of the item.
        item: i32,
    },
    /// The location names a bucket of another type.
    #[error("bucket '{name}' has type '{actual}', not '{wanted}'")]
    WrongType {
        /// Name of the bucket.
        name: String,
        /// Type of the bucket.
        actual: String,
        /// Type that the location gives.
        wanted: String,
    },
    /// The bucket, or one below it, holds the item already.
    #[error("item {item} is already below bucket {bucket}")]
    AlreadyBelow {
        /// Id of the item.
        item: i32,
        /// Id of the bucket.
        bucket: i32,
    },
    /// The bucket lies below the item.
    #[error("item {item} contains bucket {bucket}, so it cannot go below it")]
    Loop {
        /// Id of the item.
        item: i32,
        /// Id of the bucket.
        bucket: i32,
    },
    /// The location names no bucket that can hold the item.
    #[error("location '{location}' names no bucket that could hold item {item}")]
    NoBucket {
        /// Id of the item.
        item: i32,
        /// Location that was given.
        location: Location,
    },
    /// The tunables allow no algorithm for a new bucket.
    #[error("the tunables allow no bucket algorithm")]
    NoAlgorithm,
    /// The weight cannot be set.
    #[error(transparent)]
    Weight(#[from] WeightError),
    /// The result would not be a valid forest.
    #[error(transparent)]
    Tree(#[from] TreeError),
}

impl From<BucketError> for InsertError {
    fn from(error: BucketError) -> Self {
        InsertError::Weight(error.into())
    }
}

pub(super) fn add_bucket(
    crush: &mut CrushMap,
    name: &str,
    type_id: u16,
) -> Result<i32, InsertError> {
    check_name(name)?;
    if let Some(holder) = crush.item_id(name) {
        return Err(InsertError::NameTaken { name: name.into(), holder });
    }
    if type_id == crate::TYPE_DEVICE || crush.type_name(type_id).is_none() {
        return Err(InsertError::NoSuchType { type_id: type_id.into() });
    }
    create_bucket(crush, name, type_id)
}

/// An item, with its future weight, name and place.
#[derive(Clone, Copy)]
pub(super) struct Item<'a> {
    /// A device, or below zero a bucket.
    pub id: i32,
    /// In units of 1/65536.
    pub weight: u32,
    /// Its name from now on.
    pub name: &'a str,
    /// The buckets that are to hold it.
    pub location: &'a Location,
}

impl Item<'_> {
    fn check(&self) -> Result<(), InsertError> {
        check_name(self.name)?;
        Ok(WeightError::check(self.weight)?)
    }
}

/// Reports an invalid weight before an invalid name.
pub(super) fn insert_item(crush: &mut CrushMap, item: Item<'_>) -> Result<(), InsertError> {
    WeightError::check(item.weight)?;
    buckets::atomically(crush, |map| insert(map, item))
}

pub(super) fn update_item(crush: &mut CrushMap, item: Item<'_>) -> Result<bool, InsertError> {
    item.check()?;
    buckets::atomically(crush, |map| {
        let Some(weight_now) = map.weight_at(item.id, item.location) else {
            remove::unlink(map, item.id);
            insert(map, item)?;
            return Ok(true);
        };
        if weight_now != item.weight {
            weights::adjust_in_location(map, item.id, item.weight, item.location, true)?;
            weights::complete_weights(map);
            shadows::update_derived(map);
        }
        let renamed = map.item_name(item.id) != Some(item.name);
        if renamed {
            claim_name(map, item.id, item.name)?;
        }
        Ok(weight_now != item.weight || renamed)
    })
}

pub(super) fn create_or_move_item(
    crush: &mut CrushMap,
    item: Item<'_>,
) -> Result<bool, InsertError> {
    item.check()?;
    if crush.weight_at(item.id, item.location).is_some() {
        return Ok(false);
    }
    buckets::atomically(crush, |map| {
        let mut weight = item.weight;
        if map.is_held(item.id) {
            weight = map.item_weight(item.id).unwrap_or(weight);
            remove::unlink(map, item.id);
        }
        insert(map, Item { weight, ..item })?;
        Ok(true)
    })
}

pub(super) fn move_bucket(
    crush: &mut CrushMap,
    bucket: i32,
    location: &Location,
) -> Result<(), InsertError> {
    let (name, weight) = named_bucket(crush, bucket)?;
    buckets::atomically(crush, |map| {
        if let Some(parent) = map.parent(bucket) {
            weights::bucket_remove_item(map, parent, bucket);
        }
        insert(map, Item { id: bucket, weight, name: &name, location })
    })
}

pub(super) fn link_bucket(
    crush: &mut CrushMap,
    bucket: i32,
    location: &Location,
) -> Result<(), InsertError> {
    let (name, weight) = named_bucket(crush, bucket)?;
    let item = Item { id: bucket, weight, name: &name, location };
    buckets::atomically(crush, |map| insert(map, item))
}

fn named_bucket(crush: &CrushMap, item: i32) -> Result<(String, u32), InsertError> {
    if item >= 0 {
        return Err(InsertError::NotABucket { item });
    }
    let found = crush.item_name(item).zip(crush.bucket(item));
    let (name, bucket) = found.ok_or(InsertError::NoSuchItem { item })?;
    Ok((name.to_string(), bucket.weight))
}

fn create_bucket(crush: &mut CrushMap, name: &str, type_id: u16) -> Result<i32, InsertError> {
    let algorithm = crush.tunables.default_algorithm().ok_or(InsertError::NoAlgorithm)?;
    let id = buckets::place_bucket(crush, buckets::first_vacant_slot(crush), type_id, algorithm);
    crush.names.set(id, name);
    Ok(id)
}

fn claim_name(crush: &mut CrushMap, item: i32, name: &str) -> Result<(), InsertError> {
    check_name(name)?;
    match crush.item_id(name) {
        Some(holder) if holder != item => Err(InsertError::NameTaken { name: name.into(), holder }),
        Some(_) => Ok(()),
        None => {
            crush.names.set(item, name);
            Ok(())
        }
    }
}

/// The item enters with no weight and gets it in place, so that all ancestors take part. Replacement weights
/// of a device are set, those of a bucket follow from what is below it.
fn insert(crush: &mut CrushMap, item: Item<'_>) -> Result<(), InsertError> {
    let Item { id, weight, name, location } = item;
    if id >= crate::ITEM_NONE - 1 {
        return Err(InsertError::NoSuchItem { item: id });
    }
    claim_name(crush, id, name)?;
    attach(crush, id, location)?;
    if weights::adjust_in_location(crush, id, weight, location, id >= 0)? == 0 {
        return Err(InsertError::NoBucket { item: id, location: location.clone() });
    }
    validate::check_trees(crush)?;
    weights::complete_weights(crush);
    shadows::update_derived(crush);
    Ok(())
}

/// Hangs `item` below the nearest bucket of `location` that exists, with new buckets between.
fn attach(crush: &mut CrushMap, item: i32, location: &Location) -> Result<(), InsertError> {
    let levels: Vec<(i32, String, String)> = crush
        .types()
        .filter(|&(type_id, _)| type_id != 0)
        .filter_map(|(type_id, type_name)| {
            Some((type_id, type_name.to_string(), location.get(type_name)?.to_string()))
        })
        .collect();
    let mut current = item;
    for (type_id, type_name, name) in levels {
        if let Some(bucket) = crush.item_id(&name) {
            check_fits(crush, current, bucket, &type_name)?;
            buckets::bucket_add_item(crush, bucket, current, 0)?;
            return Ok(());
        }
        let narrow = u16::try_from(type_id).map_err(|_| InsertError::NoSuchType { type_id })?;
        check_name(&name)?;
        let bucket = create_bucket(crush, &name, narrow)?;
        buckets::bucket_add_item(crush, bucket, current, 0)?;
        buckets::init_choose_args(crush, bucket);
        current = bucket;
    }
    Ok(())
}

fn check_fits(
    crush: &CrushMap,
    item: i32,
    bucket: i32,
    type_name: &str,
) -> Result<(), InsertError> {
    let Some(type_id) = crush.bucket(bucket).map(|bucket| bucket.type_id) else {
        return Err(InsertError::NotABucket { item: bucket });
    };
    if crush.subtree_contains(bucket, item) {
        return Err(InsertError::AlreadyBelow { item, bucket });
    }
    let actual = crush.type_name(type_id).unwrap_or("");
    if actual != type_name {
        let name = crush.item_name(bucket).unwrap_or("").to_string();
        let (actual, wanted) = (actual.to_string(), type_name.to_string());
        return Err(InsertError::WrongType { name, actual, wanted });
    }
    if crush.subtree_contains(item, bucket) {
        return Err(InsertError::Loop { item, bucket });
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), InsertError> {
    if is_valid_name(name) { Ok(()) } else { Err(InsertError::InvalidName { name: name.into() }) }
}
