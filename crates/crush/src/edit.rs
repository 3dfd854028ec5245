//! Edits of the map by monitor commands.
//!
//! The results equal Ceph's, bucket ids included: new buckets take the first vacant slot, and shadow trees
//! are rebuilt with their former ids after each change of the tree.

mod buckets;
mod classes;
mod insert;
mod remove;
mod rename;
mod rules;
mod shadows;
mod swap;
mod weights;

pub use classes::ClassError;
pub use insert::InsertError;
use insert::Item;
pub use remove::RemoveError;
pub use rename::RenameError;
pub use rules::{AddRuleError, ErasureRule, RuleKind, SimpleRule};
pub use swap::SwapError;
pub use weights::WeightError;

use crate::invariants;
use crate::location::Location;
use crate::map::CrushMap;
use crate::rule::Rule;

impl CrushMap {
    /// Panics if the map contradicts itself: the invariants of every map that was decoded
    /// or edited. Takes time proportional to the map.
    pub fn check_invariants(&self) {
        invariants::check(self);
    }

    /// Creates a bucket without items that no other holds.
    pub fn add_bucket(&mut self, name: &str, type_id: u16) -> Result<i32, InsertError> {
        insert::add_bucket(self, name, type_id)
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
        insert::insert_item(self, Item { id: item, weight, name, location })
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
        insert::update_item(self, Item { id: item, weight, name, location })
    }

    /// Adds a device, or moves it to `location` with the weight it has; whether anything changed.
    pub fn create_or_move_item(
        &mut self,
        item: i32,
        weight: u32,
        name: &str,
        location: &Location,
    ) -> Result<bool, InsertError> {
        insert::create_or_move_item(self, Item { id: item, weight, name, location })
    }

    /// Moves a bucket with all that is below it.
    pub fn move_bucket(&mut self, bucket: i32, location: &Location) -> Result<(), InsertError> {
        insert::move_bucket(self, bucket, location)
    }

    /// Puts a bucket into a further place.
    pub fn link_bucket(&mut self, bucket: i32, location: &Location) -> Result<(), InsertError> {
        insert::link_bucket(self, bucket, location)
    }

    /// Removes `item` from every bucket and deletes it. Buckets must be empty.
    pub fn remove_item(&mut self, item: i32) -> Result<(), RemoveError> {
        remove::remove_item(self, item)
    }

    /// Removes `item` from every bucket. A bucket and everything below it stay in the map; a device loses its
    /// name but keeps its class, for the case that it returns.
    pub fn unlink_item(&mut self, item: i32) -> Result<(), RemoveError> {
        remove::unlink_item(self, item)
    }

    /// [`CrushMap::remove_item`], limited to `ancestor` and buckets below it; items held elsewhere stay
    /// there.
    pub fn remove_item_under(&mut self, item: i32, ancestor: i32) -> Result<(), RemoveError> {
        remove::remove_item_under(self, item, ancestor)
    }

    /// [`CrushMap::unlink_item`], but only from `ancestor` and buckets below it.
    pub fn unlink_item_under(&mut self, item: i32, ancestor: i32) -> Result<(), RemoveError> {
        remove::unlink_item_under(self, item, ancestor)
    }

    /// Sets the weight of `item` in all its buckets; returns their number.
    pub fn set_item_weight(&mut self, item: i32, weight: u32) -> Result<usize, WeightError> {
        weights::set_item_weight(self, item, weight)
    }

    /// Sets the weight of all devices below `root`; returns the number of places.
    pub fn set_subtree_weight(&mut self, root: i32, weight: u32) -> Result<usize, WeightError> {
        weights::set_subtree_weight(self, root, weight)
    }

    /// Makes every bucket weigh what its items weigh, bottom up (`CrushWrapper::reweight`).
    pub fn reweight(&mut self) -> Result<(), WeightError> {
        weights::reweight(self)
    }

    /// Gives a device a class; true if that changed anything.
    pub fn set_device_class(&mut self, device: i32, class: &str) -> Result<bool, ClassError> {
        classes::set_device_class(self, device, class)
    }

    /// Removes a device's class; true if it had one.
    pub fn remove_device_class(&mut self, device: i32) -> Result<bool, ClassError> {
        classes::remove_device_class(self, device)
    }

    /// Gives all devices below `root` a class, whichever they had.
    pub fn set_subtree_class(&mut self, root: i32, class: &str) -> Result<(), ClassError> {
        classes::set_subtree_class(self, root, class)
    }

    /// Adds a class without devices, which lasts until the tree is next edited, or finds it.
    pub fn add_class(&mut self, name: &str) -> Result<i32, ClassError> {
        classes::add_class(self, name)
    }

    /// Removes a class from all its devices; the class itself goes unless a rule needs it.
    pub fn remove_class(&mut self, class: i32) {
        classes::remove_class(self, class)
    }

    /// Renames a bucket and its shadows.
    pub fn rename_bucket(&mut self, source: &str, target: &str) -> Result<(), RenameError> {
        rename::rename_bucket(self, source, target)
    }

    /// Renames a rule; its id stays.
    pub fn rename_rule(&mut self, source: &str, target: &str) -> Result<(), RenameError> {
        rename::rename_rule(self, source, target)
    }

    /// Renames a device class, and with it the shadow buckets of that class.
    pub fn rename_class(&mut self, source: &str, target: &str) -> Result<(), RenameError> {
        rename::rename_class(self, source, target)
    }

    /// Exchanges names and items of two buckets. Their ids stay where they are linked, so each takes the
    /// other's place in the tree; the weights of all buckets above are updated.
    pub fn swap_buckets(&mut self, one: i32, other: i32) -> Result<(), SwapError> {
        swap::swap_buckets(self, one, other)
    }

    /// Adds a rule under the first free id, which it returns.
    pub fn add_simple_rule(&mut self, simple: &SimpleRule<'_>) -> Result<u32, AddRuleError> {
        rules::add_simple_rule(self, simple)
    }

    /// Adds a rule for an erasure code profile under the first free id, which it returns.
    pub fn add_erasure_rule(&mut self, wanted: &ErasureRule<'_>) -> Result<u32, AddRuleError> {
        rules::add_erasure_rule(self, wanted)
    }

    /// Adds a rule under the first free id, which it returns.
    pub fn add_rule(&mut self, name: &str, rule: Rule) -> Result<u32, AddRuleError> {
        rules::add_rule(self, name, rule)
    }

    /// Removes a rule; true if it existed. Classes that only it used are removed as well.
    pub fn remove_rule(&mut self, id: u32) -> bool {
        rules::remove_rule(self, id)
    }
}
