//! Taking items out of the tree.

use crate::map::CrushMap;
use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RemoveError {
    #[error("item {item} does not exist")]
    NoSuchItem { item: i32 },
    #[error("item {item} is not below bucket {ancestor}")]
    NotBelow { item: i32, ancestor: i32 },
    #[error("bucket {bucket} still holds {items} items")]
    NotEmpty { bucket: i32, items: usize },
    #[error("bucket {bucket} is where a rule starts")]
    InUse { bucket: i32 },
}

impl CrushMap {
    /// Removes `item` from every bucket and deletes it. Buckets must be empty.
    pub fn remove_item(&mut self, item: i32) -> Result<(), RemoveError> {
        self.check_removable(item)?;
        self.detach_everywhere(item);
        self.forget(item);
        self.settle_weights();
        self.settle();
        Ok(())
    }

    /// Removes `item` from every bucket. A bucket and everything below it stay in the map; a device loses its
    /// name but keeps its class, for when it returns.
    pub fn unlink_item(&mut self, item: i32) -> Result<(), RemoveError> {
        if !self.is_held(item) {
            return Err(RemoveError::NoSuchItem { item });
        }
        self.unlink(item);
        Ok(())
    }

    /// [`CrushMap::remove_item`], limited to `ancestor` and buckets below it; items held elsewhere stay
    /// there.
    pub fn remove_item_under(&mut self, item: i32, ancestor: i32) -> Result<(), RemoveError> {
        self.check_removable(item)?;
        self.detach_under(item, ancestor)?;
        if !self.is_held(item) {
            self.forget(item);
        }
        self.settle_weights();
        self.settle();
        Ok(())
    }

    /// [`CrushMap::unlink_item`], but only from `ancestor` and buckets below it.
    pub fn unlink_item_under(&mut self, item: i32, ancestor: i32) -> Result<(), RemoveError> {
        self.detach_under(item, ancestor)?;
        if item >= 0 && !self.is_held(item) {
            self.names.remove(item);
        }
        self.settle_weights();
        self.settle();
        Ok(())
    }

    pub(super) fn unlink(&mut self, item: i32) {
        self.detach_everywhere(item);
        if item >= 0 {
            self.names.remove(item);
        }
        self.settle_weights();
        self.settle();
    }

    fn check_removable(&self, item: i32) -> Result<(), RemoveError> {
        if item >= 0 {
            let exists = self.is_held(item) || self.item_name(item).is_some();
            return if exists { Ok(()) } else { Err(RemoveError::NoSuchItem { item }) };
        }
        let bucket = self.bucket(item).ok_or(RemoveError::NoSuchItem { item })?;
        if !bucket.items.is_empty() {
            return Err(RemoveError::NotEmpty { bucket: item, items: bucket.items.len() });
        }
        if self.is_taken(item) {
            return Err(RemoveError::InUse { bucket: item });
        }
        Ok(())
    }

    /// True if a rule starts from `bucket` or a shadow of it, or if it is a shadow itself.
    fn is_taken(&self, bucket: i32) -> bool {
        let is_start = |take| {
            take == bucket
                || self.split_shadow(take).is_some_and(|(original, _)| original == bucket)
        };
        let is_shadow =
            self.shadows.values().any(|shadows| shadows.values().any(|&id| id == bucket));
        is_shadow || self.rules().any(|(_, rule)| rule.takes().any(is_start))
    }

    fn detach_everywhere(&mut self, item: i32) {
        for bucket in self.holders(item) {
            self.detach_from(item, bucket);
        }
    }

    fn detach_under(&mut self, item: i32, ancestor: i32) -> Result<(), RemoveError> {
        let below = self.subtree(ancestor);
        let holders: Vec<i32> =
            self.holders(item).into_iter().filter(|id| below.contains(id)).collect();
        if holders.is_empty() {
            return Err(RemoveError::NotBelow { item, ancestor });
        }
        holders.into_iter().for_each(|bucket| self.detach_from(item, bucket));
        Ok(())
    }

    fn detach_from(&mut self, item: i32, bucket: i32) {
        while self.children(bucket).contains(&item) {
            let len = self.children(bucket).len();
            self.bucket_remove_item(bucket, item);
            // A tree bucket keeps the position, filled with device 0, so removing device 0 may not terminate.
            if self.children(bucket).len() == len {
                break;
            }
        }
    }

    /// Deletes an item that no bucket holds.
    fn forget(&mut self, item: i32) {
        if item < 0 {
            self.drop_bucket(item);
        } else {
            self.names.remove(item);
            self.item_classes.remove(&item);
        }
    }
}
