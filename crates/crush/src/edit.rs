//! Edits of the map by monitor commands.
//!
//! The results equal Ceph's, bucket ids included: new buckets take the first vacant slot, and shadow trees
//! are rebuilt with their former ids after each change of the tree.

mod classes;
mod insert;
mod location;
mod remove;
mod rename;
mod rules;
mod swap;
mod weights;

pub use classes::ClassError;
pub use insert::InsertError;
pub use location::{Location, ParseLocationError};
pub use remove::RemoveError;
pub use rename::RenameError;
pub use rules::{AddRuleError, RuleKind, SimpleRule};
pub use swap::SwapError;
pub use weights::WeightError;

use crate::Algorithm;
use crate::bucket::{Bucket, BucketError};
use crate::choose_args::ChooseArg;
use crate::map::{CrushMap, bucket_id, slot};

/// Slots of the first bucket table; it doubles when it is full.
const SLOTS_MIN: usize = 8;

impl CrushMap {
    /// Runs an edit that either succeeds or changes nothing.
    fn atomically<T, E>(
        &mut self,
        edit: impl FnOnce(&mut CrushMap) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut copy = self.clone();
        let outcome = edit(&mut copy)?;
        *self = copy;
        Ok(outcome)
    }

    /// Updates everything that is derived from the tree; called after each change.
    fn settle(&mut self) {
        self.rebuild_shadows();
        self.finalize();
    }

    fn first_vacant_slot(&self) -> usize {
        self.buckets.iter().position(Option::is_none).unwrap_or(self.buckets.len())
    }

    /// Puts a bucket without items into a vacant slot.
    fn place_bucket(&mut self, slot: usize, type_id: u16, algorithm: Algorithm) -> i32 {
        while slot >= self.buckets.len() {
            self.buckets.resize((2 * self.buckets.len()).max(SLOTS_MIN), None);
        }
        let id = bucket_id(slot);
        debug_assert!(self.buckets[slot].is_none());
        self.buckets[slot] = Some(Bucket::new(id, type_id, algorithm));
        id
    }

    /// Removes a bucket with its names, classes and replacement weights.
    fn drop_bucket(&mut self, id: i32) {
        let Some(slot) = slot(id).filter(|&slot| slot < self.buckets.len()) else { return };
        self.buckets[slot] = None;
        self.names.remove(id);
        self.shadows.remove(&id);
        self.item_classes.remove(&id);
        self.choose_args.values_mut().for_each(|map| {
            map.args.remove(&slot);
        });
    }

    /// Adds an item to an existing bucket and to its replacement weights.
    fn bucket_add_item(&mut self, bucket: i32, item: i32, weight: u32) -> Result<(), BucketError> {
        let straw_version = self.tunables.straw_calc_version;
        let holder = self.bucket_mut(bucket).expect("the caller looked it up");
        holder.add_item(item, weight, straw_version)?;
        let args = self.choose_args.values_mut().filter_map(|map| map.arg_mut(bucket));
        args.for_each(|arg| arg.push(item, weight));
        Ok(())
    }

    /// Takes one instance of `item` out of `bucket`, weight first so that all ancestors follow.
    fn bucket_remove_item(&mut self, bucket: i32, item: i32) {
        // Decreasing weights overflow only where ancestors' weights were inconsistent; those stay so.
        self.adjust_in_bucket(item, 0, bucket, true).ok();
        let straw_version = self.tunables.straw_calc_version;
        let Some(holder) = self.bucket_mut(bucket) else { return };
        let Some(position) = holder.position(item) else { return };
        holder.remove_item(position, straw_version);
        let args = self.choose_args.values_mut().filter_map(|map| map.arg_mut(bucket));
        args.for_each(|arg| arg.remove(position));
    }

    /// Gives a new straw2 bucket replacement weights, its own, in every set.
    fn init_choose_args(&mut self, bucket: i32) {
        let holder = self.bucket(bucket).filter(|b| b.algorithm() == Algorithm::Straw2);
        let (Some(slot), Some(holder)) = (slot(bucket), holder) else { return };
        let weights = holder.item_weights();
        for map in self.choose_args.values_mut() {
            let weight_sets = vec![weights.clone(); map.positions()];
            map.args.insert(slot, ChooseArg { weight_sets, ids: Vec::new() });
        }
    }

    /// Buckets that hold `item`, in slot order.
    fn holders(&self, item: i32) -> Vec<i32> {
        let holders = self.buckets().filter(|bucket| bucket.items.contains(&item));
        holders.map(|bucket| bucket.id).collect()
    }
}
