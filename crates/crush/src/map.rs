//! The map and queries of it.

use crate::TYPE_DEVICE;
use crate::bucket::{Bucket, slot};
use crate::choose_args::{ChooseArgMap, DEFAULT_CHOOSE_ARGS};
use crate::location::Location;
use crate::names::{Names, is_valid_name};
use crate::rule::Rule;
use crate::tunables::Tunables;
use std::collections::{BTreeMap, BTreeSet};

/// `CrushWrapper`: buckets, rules, tunables, and the names of all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrushMap {
    /// Slot `i` holds the bucket with id `-1 - i`.
    pub(crate) buckets: Vec<Option<Bucket>>,
    pub(crate) rules: Vec<Option<Rule>>,
    pub(crate) max_devices: i32,
    /// Tunables of the placement function.
    pub tunables: Tunables,
    pub(crate) types: Names,
    pub(crate) names: Names,
    pub(crate) rule_names: Names,
    /// Item to class. Shadow buckets have one too.
    pub(crate) item_classes: BTreeMap<i32, i32>,
    pub(crate) class_names: Names,
    /// Bucket to, per class, its shadow bucket: the same tree with that class's devices only.
    pub(crate) shadows: BTreeMap<i32, BTreeMap<i32, i32>>,
    pub(crate) choose_args: BTreeMap<i64, ChooseArgMap>,
}

const DEFAULT_TYPES: [&str; 12] = [
    "osd",
    "host",
    "chassis",
    "rack",
    "row",
    "pdu",
    "pod",
    "room",
    "datacenter",
    "zone",
    "region",
    "root",
];

impl Default for CrushMap {
    fn default() -> Self {
        CrushMap::new()
    }
}

impl CrushMap {
    /// A map without buckets and rules, with Ceph's usual types and the optimal tunables.
    pub fn new() -> Self {
        let types = DEFAULT_TYPES.iter().enumerate();
        CrushMap {
            tunables: Tunables::optimal(),
            types: types.map(|(id, name)| (id as i32, name.to_string())).collect(),
            ..CrushMap::empty()
        }
    }

    /// A map without any content, types included.
    pub(crate) fn empty() -> Self {
        CrushMap {
            buckets: Vec::new(),
            rules: Vec::new(),
            max_devices: 0,
            tunables: Tunables::legacy(),
            types: Names::default(),
            names: Names::default(),
            rule_names: Names::default(),
            item_classes: BTreeMap::new(),
            class_names: Names::default(),
            shadows: BTreeMap::new(),
            choose_args: BTreeMap::new(),
        }
    }

    /// One more than the highest device id.
    pub fn max_devices(&self) -> i32 {
        self.max_devices
    }

    /// The bucket with this id; `None` for devices, too.
    pub fn bucket(&self, id: i32) -> Option<&Bucket> {
        self.buckets.get(slot(id)?)?.as_ref()
    }

    pub(crate) fn bucket_mut(&mut self, id: i32) -> Option<&mut Bucket> {
        self.buckets.get_mut(slot(id)?)?.as_mut()
    }

    /// All buckets from id -1 downwards, shadows included.
    pub fn buckets(&self) -> impl DoubleEndedIterator<Item = &Bucket> {
        self.buckets.iter().flatten()
    }

    /// The number of bucket slots, vacant ones included.
    pub fn max_buckets(&self) -> usize {
        self.buckets.len()
    }

    // Names

    /// Name of a device or bucket.
    pub fn item_name(&self, item: i32) -> Option<&str> {
        self.names.name(item)
    }

    /// Id of the device or bucket with this name.
    pub fn item_id(&self, name: &str) -> Option<i32> {
        self.names.id(name)
    }

    /// All named items by rising id, shadow buckets included.
    pub fn item_names(&self) -> impl DoubleEndedIterator<Item = (i32, &str)> {
        self.names.iter()
    }

    /// Name of a type.
    pub fn type_name(&self, type_id: u16) -> Option<&str> {
        self.types.name(type_id.into())
    }

    /// Number of the type with this name.
    pub fn type_id(&self, name: &str) -> Option<u16> {
        self.types.id(name)?.try_into().ok()
    }

    /// All types by rising id, devices first.
    pub fn types(&self) -> impl DoubleEndedIterator<Item = (i32, &str)> {
        self.types.iter()
    }

    /// Names a type; a type that has a name is renamed.
    pub fn set_type_name(&mut self, type_id: u16, name: &str) {
        self.types.set(type_id.into(), name);
    }

    /// The type of `item`: devices have [`TYPE_DEVICE`]; `None` where there is no such bucket.
    pub fn item_type(&self, item: i32) -> Option<u16> {
        if item >= 0 { Some(TYPE_DEVICE) } else { Some(self.bucket(item)?.type_id) }
    }

    // Rules

    /// The rule with this id.
    pub fn rule(&self, id: u32) -> Option<&Rule> {
        self.rules.get(id as usize)?.as_ref()
    }

    /// All rules by rising id.
    pub fn rules(&self) -> impl Iterator<Item = (u32, &Rule)> {
        let numbered = self.rules.iter().enumerate();
        numbered.filter_map(|(id, rule)| Some((id as u32, rule.as_ref()?)))
    }

    /// Name of a rule.
    pub fn rule_name(&self, id: u32) -> Option<&str> {
        self.rule_names.name(id as i32)
    }

    /// Id of the rule with this name.
    pub fn rule_id(&self, name: &str) -> Option<u32> {
        Some(self.rule_names.id(name)? as u32)
    }

    // Classes

    /// Name of a device class.
    pub fn class_name(&self, class: i32) -> Option<&str> {
        self.class_names.name(class)
    }

    /// Id of the device class with this name.
    pub fn class_id(&self, name: &str) -> Option<i32> {
        self.class_names.id(name)
    }

    /// All device classes by rising id.
    pub fn classes(&self) -> impl Iterator<Item = (i32, &str)> {
        self.class_names.iter()
    }

    /// Name of the device class of a device or shadow bucket.
    pub fn item_class(&self, item: i32) -> Option<&str> {
        self.class_name(*self.item_classes.get(&item)?)
    }

    /// Devices of a class, by its name; empty if the class does not exist.
    pub fn devices_of_class(&self, name: &str) -> BTreeSet<i32> {
        let Some(class) = self.class_id(name) else { return BTreeSet::new() };
        let devices = self.item_classes.range(0..);
        devices.filter(|(_, other)| **other == class).map(|(&device, _)| device).collect()
    }

    /// The shadow of `bucket` for class `class`.
    pub fn shadow(&self, bucket: i32, class: i32) -> Option<i32> {
        self.shadows.get(&bucket)?.get(&class).copied()
    }

    /// Whether `item` is a shadow bucket, as its name says (`default~ssd`).
    pub fn is_shadow(&self, item: i32) -> bool {
        self.item_name(item).is_some_and(|name| !is_valid_name(name))
    }

    /// A shadow's original and class; any other item with no class.
    pub fn split_shadow(&self, item: i32) -> Option<(i32, Option<i32>)> {
        match self.item_name(item)?.split_once('~') {
            None => Some((item, None)),
            Some((original, class)) => Some((self.item_id(original)?, Some(self.class_id(class)?))),
        }
    }

    // The tree

    /// Buckets that no other bucket holds, lowest id first.
    pub fn roots(&self) -> BTreeSet<i32> {
        let children: BTreeSet<i32> =
            self.buckets().flat_map(|b| b.items.iter().copied()).collect();
        self.buckets().map(|b| b.id).filter(|id| !children.contains(id)).collect()
    }

    /// [`CrushMap::roots`] without shadows.
    pub fn visible_roots(&self) -> BTreeSet<i32> {
        self.roots().into_iter().filter(|&root| !self.is_shadow(root)).collect()
    }

    /// The direct children; a device has none.
    pub fn children(&self, item: i32) -> &[i32] {
        self.bucket(item).map_or(&[], Bucket::items)
    }

    /// The first visible bucket that holds `item`; others may, if it was linked.
    pub fn parent(&self, item: i32) -> Option<i32> {
        let holders = self.buckets().filter(|bucket| bucket.items.contains(&item));
        holders.map(|bucket| bucket.id).find(|&id| !self.is_shadow(id))
    }

    /// Whether any bucket, a shadow too, holds `item`.
    pub fn is_held(&self, item: i32) -> bool {
        self.buckets().any(|bucket| bucket.items.contains(&item))
    }

    /// The ancestors of `item` as (type, name), the nearest first.
    pub fn full_location(&self, item: i32) -> Vec<(String, String)> {
        let ancestors = std::iter::successors(self.parent(item), |&parent| self.parent(parent));
        let describe = |id| {
            let type_name = self.type_name(self.bucket(id)?.type_id)?;
            Some((type_name.to_string(), self.item_name(id)?.to_string()))
        };
        ancestors.filter_map(describe).collect()
    }

    /// The nearest visible ancestor of type `type_id`.
    pub fn ancestor_of_type(&self, item: i32, type_id: u16) -> Option<i32> {
        let mut ancestors = std::iter::successors(self.parent(item), |&parent| self.parent(parent));
        ancestors.find(|&ancestor| self.item_type(ancestor) == Some(type_id))
    }

    /// `root` and everything below it.
    pub fn subtree(&self, root: i32) -> BTreeSet<i32> {
        let mut found = BTreeSet::from([root]);
        let mut queue = vec![root];
        while let Some(item) = queue.pop() {
            queue.extend(self.children(item).iter().filter(|&&child| found.insert(child)));
        }
        found
    }

    /// True if `item` is `root` or lies below it.
    pub fn subtree_contains(&self, root: i32, item: i32) -> bool {
        self.subtree(root).contains(&item)
    }

    /// The devices below `root`.
    pub fn devices_below(&self, root: i32) -> BTreeSet<i32> {
        self.subtree(root).split_off(&0)
    }

    /// A bucket's weight, or a device's in the first bucket that holds it.
    pub fn item_weight(&self, item: i32) -> Option<u32> {
        if item < 0 {
            return Some(self.bucket(item)?.weight);
        }
        self.buckets().find_map(|bucket| Some(bucket.item_weight(bucket.position(item)?)))
    }

    /// [`CrushMap::item_weight`] of every device.
    pub fn device_weights(&self) -> BTreeMap<i32, u32> {
        let mut weights = BTreeMap::new();
        for bucket in self.buckets() {
            let items = bucket.items.iter().enumerate().filter(|(_, item)| **item >= 0);
            items.for_each(|(at, item)| {
                weights.entry(*item).or_insert_with(|| bucket.item_weight(at));
            });
        }
        weights
    }

    /// The bucket that `location` names most closely, if it holds `item`, and the weight there
    /// (`CrushWrapper::check_item_loc`).
    pub fn weight_at(&self, item: i32, location: &Location) -> Option<u32> {
        let named = |(id, type_name)| (id != 0).then(|| location.get(type_name)).flatten();
        let nearest = self.types().find_map(named)?;
        let bucket = self.bucket(self.item_id(nearest)?)?;
        Some(bucket.item_weight(bucket.position(item)?))
    }

    // Choose args

    /// Replacement weights for `pool`, its own or those for all.
    pub fn choose_args_for(&self, pool: i64) -> Option<&ChooseArgMap> {
        self.choose_args.get(&pool).or_else(|| self.choose_args.get(&DEFAULT_CHOOSE_ARGS))
    }

    /// True if `rule` certainly gives the same results for `pool` in both maps: all buckets that it walks
    /// through are equal.
    pub fn chooses_alike(&self, other: &CrushMap, rule: u32, pool: i64) -> bool {
        let same_frame = self.tunables == other.tunables
            && self.max_devices == other.max_devices
            && self.choose_args_for(pool) == other.choose_args_for(pool)
            && self.rule(rule) == other.rule(rule);
        let same_tree = |root| {
            let items = self.subtree(root);
            let mut buckets = items.iter().take_while(|&&item| item < 0);
            buckets.all(|&id| self.bucket(id) == other.bucket(id))
        };
        same_frame && self.rule(rule).is_none_or(|rule| rule.takes().all(same_tree))
    }

    /// All sets of replacement weights, by pool id.
    pub fn choose_args(&self) -> impl Iterator<Item = (i64, &ChooseArgMap)> {
        self.choose_args.iter().map(|(&pool, args)| (pool, args))
    }

    /// Recomputes derived state.
    pub(crate) fn finalize(&mut self) {
        let held = self.buckets().flat_map(|bucket| bucket.items.iter().copied()).max();
        let highest = held.max(self.names.id_max()).unwrap_or(-1);
        self.max_devices = highest.max(-1).saturating_add(1);
    }
}
