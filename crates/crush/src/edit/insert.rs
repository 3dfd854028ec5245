//! Putting items into the tree: inserting, moving, linking.

use super::{Location, WeightError};
use crate::bucket::BucketError;
use crate::map::{CrushMap, is_valid_name};
use crate::validate::{self, TreeError};
use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InsertError {
    #[error("name '{name}' does not match [-_.0-9a-zA-Z]+")]
    InvalidName { name: String },
    #[error("name '{name}' already belongs to item {holder}")]
    NameTaken { name: String, holder: i32 },
    #[error("item {item} does not exist")]
    NoSuchItem { item: i32 },
    #[error("type {type_id} does not exist")]
    NoSuchType { type_id: i32 },
    #[error("item {item} is a device, not a bucket")]
    NotABucket { item: i32 },
    #[error("bucket '{name}' has type '{actual}', not '{wanted}'")]
    WrongType { name: String, actual: String, wanted: String },
    #[error("item {item} is already below bucket {bucket}")]
    AlreadyBelow { item: i32, bucket: i32 },
    #[error("item {item} contains bucket {bucket}, so it cannot go below it")]
    Loop { item: i32, bucket: i32 },
    #[error("location '{location}' names no bucket that could hold item {item}")]
    Nowhere { item: i32, location: Location },
    #[error("the tunables allow no bucket algorithm")]
    NoAlgorithm,
    #[error(transparent)]
    Weight(#[from] WeightError),
    #[error(transparent)]
    Tree(#[from] TreeError),
}

impl From<BucketError> for InsertError {
    fn from(error: BucketError) -> Self {
        InsertError::Weight(error.into())
    }
}

impl CrushMap {
    /// Creates a bucket without items that no other holds.
    pub fn add_bucket(&mut self, name: &str, type_id: u16) -> Result<i32, InsertError> {
        check_name(name)?;
        if let Some(holder) = self.item_id(name) {
            return Err(InsertError::NameTaken { name: name.into(), holder });
        }
        if type_id == crate::TYPE_DEVICE || self.type_name(type_id).is_none() {
            return Err(InsertError::NoSuchType { type_id: type_id.into() });
        }
        self.create_bucket(name, type_id)
    }

    /// Adds an item at `location`, creating those of its buckets that do not exist
    /// (`CrushWrapper::insert_item`).
    pub fn insert_item(
        &mut self,
        item: i32,
        weight: u32,
        name: &str,
        location: &Location,
    ) -> Result<(), InsertError> {
        WeightError::check(weight)?;
        self.atomically(|map| map.insert(item, weight, name, location, item >= 0))
    }

    /// Adds an item, moves it to `location`, or brings its weight and name up to date there;
    /// whether anything changed (`CrushWrapper::update_item`).
    pub fn update_item(
        &mut self,
        item: i32,
        weight: u32,
        name: &str,
        location: &Location,
    ) -> Result<bool, InsertError> {
        check_name(name)?;
        WeightError::check(weight)?;
        self.atomically(|map| {
            let Some(weight_now) = map.weight_at(item, location) else {
                map.unlink(item);
                map.insert(item, weight, name, location, item >= 0)?;
                return Ok(true);
            };
            if weight_now != weight {
                map.adjust_in_location(item, weight, location, true)?;
                map.settle_weights();
                map.settle();
            }
            let renamed = map.item_name(item) != Some(name);
            if renamed {
                map.claim_name(item, name)?;
            }
            Ok(weight_now != weight || renamed)
        })
    }

    /// Adds a device, or moves it to `location` with the weight it has; whether anything changed.
    pub fn create_or_move_item(
        &mut self,
        item: i32,
        weight: u32,
        name: &str,
        location: &Location,
    ) -> Result<bool, InsertError> {
        check_name(name)?;
        WeightError::check(weight)?;
        if self.weight_at(item, location).is_some() {
            return Ok(false);
        }
        self.atomically(|map| {
            let mut weight = weight;
            if map.is_held(item) {
                weight = map.item_weight(item).unwrap_or(weight);
                map.unlink(item);
            }
            map.insert(item, weight, name, location, item >= 0)?;
            Ok(true)
        })
    }

    /// Moves a bucket with all that is below it.
    pub fn move_bucket(&mut self, bucket: i32, location: &Location) -> Result<(), InsertError> {
        let (name, weight) = self.named_bucket(bucket)?;
        self.atomically(|map| {
            if let Some(parent) = map.parent(bucket) {
                map.bucket_remove_item(parent, bucket);
            }
            map.insert(bucket, weight, &name, location, false)
        })
    }

    /// Puts a bucket into a further place.
    pub fn link_bucket(&mut self, bucket: i32, location: &Location) -> Result<(), InsertError> {
        let (name, weight) = self.named_bucket(bucket)?;
        self.atomically(|map| map.insert(bucket, weight, &name, location, false))
    }

    fn named_bucket(&self, item: i32) -> Result<(String, u32), InsertError> {
        if item >= 0 {
            return Err(InsertError::NotABucket { item });
        }
        let found = self.item_name(item).zip(self.bucket(item));
        let (name, bucket) = found.ok_or(InsertError::NoSuchItem { item })?;
        Ok((name.to_string(), bucket.weight))
    }

    fn create_bucket(&mut self, name: &str, type_id: u16) -> Result<i32, InsertError> {
        let algorithm = self.tunables.default_algorithm().ok_or(InsertError::NoAlgorithm)?;
        let id = self.place_bucket(self.first_vacant_slot(), type_id, algorithm);
        self.names.set(id, name);
        Ok(id)
    }

    fn claim_name(&mut self, item: i32, name: &str) -> Result<(), InsertError> {
        check_name(name)?;
        match self.item_id(name) {
            Some(holder) if holder != item => {
                Err(InsertError::NameTaken { name: name.into(), holder })
            }
            Some(_) => Ok(()),
            None => {
                self.names.set(item, name);
                Ok(())
            }
        }
    }

    /// The item enters with no weight and gets it in place, so that all ancestors take part.
    fn insert(
        &mut self,
        item: i32,
        weight: u32,
        name: &str,
        location: &Location,
        replacements: bool,
    ) -> Result<(), InsertError> {
        if item >= crate::ITEM_NONE - 1 {
            return Err(InsertError::NoSuchItem { item });
        }
        self.claim_name(item, name)?;
        self.attach(item, location)?;
        if self.adjust_in_location(item, weight, location, replacements)? == 0 {
            return Err(InsertError::Nowhere { item, location: location.clone() });
        }
        validate::check_trees(self)?;
        self.settle_weights();
        self.settle();
        Ok(())
    }

    /// Hangs `item` below the nearest bucket of `location` that exists, with new buckets between.
    fn attach(&mut self, item: i32, location: &Location) -> Result<(), InsertError> {
        let levels: Vec<(i32, String, String)> = self
            .types()
            .filter(|&(type_id, _)| type_id != 0)
            .filter_map(|(type_id, type_name)| {
                Some((type_id, type_name.to_string(), location.get(type_name)?.to_string()))
            })
            .collect();
        let mut current = item;
        for (type_id, type_name, name) in levels {
            if let Some(bucket) = self.item_id(&name) {
                self.check_fits(current, bucket, &type_name)?;
                self.bucket_add_item(bucket, current, 0)?;
                return Ok(());
            }
            let narrow = u16::try_from(type_id).map_err(|_| InsertError::NoSuchType { type_id })?;
            check_name(&name)?;
            let bucket = self.create_bucket(&name, narrow)?;
            self.bucket_add_item(bucket, current, 0)?;
            self.init_choose_args(bucket);
            current = bucket;
        }
        Ok(())
    }

    fn check_fits(&self, item: i32, bucket: i32, type_name: &str) -> Result<(), InsertError> {
        let Some(type_id) = self.bucket(bucket).map(|bucket| bucket.type_id) else {
            return Err(InsertError::NotABucket { item: bucket });
        };
        if self.subtree_contains(bucket, item) {
            return Err(InsertError::AlreadyBelow { item, bucket });
        }
        let actual = self.type_name(type_id).unwrap_or("");
        if actual != type_name {
            let name = self.item_name(bucket).unwrap_or("").to_string();
            let (actual, wanted) = (actual.to_string(), type_name.to_string());
            return Err(InsertError::WrongType { name, actual, wanted });
        }
        if self.subtree_contains(item, bucket) {
            return Err(InsertError::Loop { item, bucket });
        }
        Ok(())
    }
}

fn check_name(name: &str) -> Result<(), InsertError> {
    if is_valid_name(name) { Ok(()) } else { Err(InsertError::InvalidName { name: name.into() }) }
}
