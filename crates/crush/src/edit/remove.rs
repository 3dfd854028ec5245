//! Taking items out of the tree.

use super::{buckets, shadows, weights};
use crate::map::CrushMap;
use thiserror::Error;

/// Reason why an item cannot be removed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RemoveError {
    /// The map has no such item.
    #[error("item {item} does not exist")]
    NoSuchItem {
        /// Id of the item.
        item: i32,
    },
    /// The item is not held by the ancestor or a bucket below it.
    #[error("item {item} is not below bucket {ancestor}")]
    NotBelow {
        /// Id of the item.
        item: i32,
        /// Id of the ancestor.
        ancestor: i32,
    },
    /// The bucket has items.
    #[error("bucket {bucket} still holds {items} items")]
    NotEmpty {
        /// Id of the bucket.
        bucket: i32,
        /// Number of items.
        items: usize,
    },
    /// A rule starts from the bucket or a shadow of it.
    #[error("bucket {bucket} is where a rule starts")]
    InUse {
        /// Id of the bucket.
        bucket: i32,
    },
}

pub(super) fn remove_item(crush: &mut CrushMap, item: i32) -> Result<(), RemoveError> {
    check_removable(crush, item)?;
    detach_everywhere(crush, item);
    forget(crush, item);
    weights::complete_weights(crush);
    shadows::update_derived(crush);
    Ok(())
}

pub(super) fn unlink_item(crush: &mut CrushMap, item: i32) -> Result<(), RemoveError> {
    if !crush.is_held(item) {
        return Err(RemoveError::NoSuchItem { item });
    }
    unlink(crush, item);
    Ok(())
}

pub(super) fn remove_item_under(
    crush: &mut CrushMap,
    item: i32,
    ancestor: i32,
) -> Result<(), RemoveError> {
    check_removable(crush, item)?;
    detach_under(crush, item, ancestor)?;
    if !crush.is_held(item) {
        forget(crush, item);
    }
    weights::complete_weights(crush);
    shadows::update_derived(crush);
    Ok(())
}

pub(super) fn unlink_item_under(
    crush: &mut CrushMap,
    item: i32,
    ancestor: i32,
) -> Result<(), RemoveError> {
    detach_under(crush, item, ancestor)?;
    if item >= 0 && !crush.is_held(item) {
        crush.names.remove(item);
    }
    weights::complete_weights(crush);
    shadows::update_derived(crush);
    Ok(())
}

pub(super) fn unlink(crush: &mut CrushMap, item: i32) {
    detach_everywhere(crush, item);
    if item >= 0 {
        crush.names.remove(item);
    }
    weights::complete_weights(crush);
    shadows::update_derived(crush);
}

fn check_removable(crush: &CrushMap, item: i32) -> Result<(), RemoveError> {
    if item >= 0 {
        let exists = crush.is_held(item) || crush.item_name(item).is_some();
        return if exists { Ok(()) } else { Err(RemoveError::NoSuchItem { item }) };
    }
    let bucket = crush.bucket(item).ok_or(RemoveError::NoSuchItem { item })?;
    if !bucket.items.is_empty() {
        return Err(RemoveError::NotEmpty { bucket: item, items: bucket.items.len() });
    }
    if is_taken(crush, item) {
        return Err(RemoveError::InUse { bucket: item });
    }
    Ok(())
}

/// True if a rule starts from `bucket` or a shadow of it, or if it is a shadow itself.
fn is_taken(crush: &CrushMap, bucket: i32) -> bool {
    let is_start = |take| {
        take == bucket || crush.split_shadow(take).is_some_and(|(original, _)| original == bucket)
    };
    let is_shadow = crush.shadows.values().any(|shadows| shadows.values().any(|&id| id == bucket));
    is_shadow || crush.rules().any(|(_, rule)| rule.takes().any(is_start))
}

fn detach_everywhere(crush: &mut CrushMap, item: i32) {
    for bucket in buckets::holders(crush, item) {
        detach_from(crush, item, bucket);
    }
}

fn detach_under(crush: &mut CrushMap, item: i32, ancestor: i32) -> Result<(), RemoveError> {
    let below = crush.subtree(ancestor);
    let holders: Vec<i32> =
        buckets::holders(crush, item).into_iter().filter(|id| below.contains(id)).collect();
    if holders.is_empty() {
        return Err(RemoveError::NotBelow { item, ancestor });
    }
    holders.into_iter().for_each(|bucket| detach_from(crush, item, bucket));
    Ok(())
}

fn detach_from(crush: &mut CrushMap, item: i32, bucket: i32) {
    while crush.children(bucket).contains(&item) {
        let len = crush.children(bucket).len();
        weights::bucket_remove_item(crush, bucket, item);
        // A tree bucket keeps the position, filled with device 0, so removing device 0 may not terminate.
        if crush.children(bucket).len() == len {
            break;
        }
    }
}

/// Deletes an item that no bucket holds.
fn forget(crush: &mut CrushMap, item: i32) {
    if item < 0 {
        buckets::drop_bucket(crush, item);
    } else {
        crush.names.remove(item);
        crush.item_classes.remove(&item);
    }
}
