//! Device classes and the shadow trees that let rules choose within one.
//!
//! For each class there is a copy of every visible tree with that class's devices only. A bucket
//! `default` has a shadow `default~ssd`; rules with a class start from it. Shadows follow from the
//! rest of the map: any change rebuilds them all, and each gets back the id it had, so that rules
//! stay valid and placement does not move.

use crate::bucket::Weights;
use crate::choose_args::ChooseArg;
use crate::map::{CrushMap, is_valid_name, slot};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ClassError {
    #[error("device {device} does not exist")]
    NoSuchDevice { device: i32 },
    #[error("device {device} already has class '{class}'; remove that first")]
    OtherClass { device: i32, class: String },
    #[error("class '{class}' does not match [-_.0-9a-zA-Z]+")]
    InvalidName { class: String },
}

/// Former ids of shadows, by original and class.
type ShadowIds = BTreeMap<i32, BTreeMap<i32, i32>>;

impl CrushMap {
    /// Gives a device a class; true if that changed anything.
    pub fn set_device_class(&mut self, device: i32, class: &str) -> Result<bool, ClassError> {
        if !is_valid_name(class) {
            return Err(ClassError::InvalidName { class: class.into() });
        }
        if device < 0 || self.item_name(device).is_none() {
            return Err(ClassError::NoSuchDevice { device });
        }
        match self.item_class(device) {
            Some(current) if current == class => Ok(false),
            Some(current) => Err(ClassError::OtherClass { device, class: current.into() }),
            None => {
                let class = self.class_id_or_new(class);
                self.item_classes.insert(device, class);
                self.settle();
                Ok(true)
            }
        }
    }

    /// Removes a device's class; true if it had one.
    pub fn remove_device_class(&mut self, device: i32) -> Result<bool, ClassError> {
        if device < 0 || self.item_name(device).is_none() {
            return Err(ClassError::NoSuchDevice { device });
        }
        let had_class = self.item_classes.remove(&device).is_some();
        if had_class {
            self.settle();
        }
        Ok(had_class)
    }

    /// Gives all devices below `root` a class, whichever they had.
    pub fn set_subtree_class(&mut self, root: i32, class: &str) -> Result<(), ClassError> {
        if !is_valid_name(class) {
            return Err(ClassError::InvalidName { class: class.into() });
        }
        let class = self.class_id_or_new(class);
        let devices = self.devices_below(root).into_iter().map(|device| (device, class));
        self.item_classes.extend(devices);
        self.settle();
        Ok(())
    }

    /// Adds a class without devices, which lasts until the tree is next edited, or finds it.
    pub fn add_class(&mut self, name: &str) -> Result<i32, ClassError> {
        if !is_valid_name(name) {
            return Err(ClassError::InvalidName { class: name.into() });
        }
        Ok(self.class_id_or_new(name))
    }

    /// Removes a class from all its devices; the class itself goes unless a rule needs it.
    pub fn remove_class(&mut self, class: i32) {
        self.item_classes.retain(|&item, &mut other| item < 0 || other != class);
        self.settle();
    }

    fn class_id_or_new(&mut self, name: &str) -> i32 {
        if let Some(class) = self.class_id(name) {
            return class;
        }
        let class = match self.class_names.id_max() {
            None => 0,
            Some(highest) if highest < i32::MAX => highest.max(-1) + 1,
            Some(_) => {
                let vacant = |class: &i32| self.class_name(*class).is_none();
                (0..i32::MAX).find(vacant).expect("a map has far fewer classes than numbers")
            }
        };
        self.class_names.set(class, name);
        class
    }

    /// Rebuilds shadow trees (`CrushWrapper::rebuild_roots_with_classes`).
    pub(super) fn rebuild_shadows(&mut self) {
        let before = self.shadows.clone();
        self.drop_dead_classes();
        self.drop_shadows();
        self.shadows.clear();
        let classes: Vec<i32> = self.classes().map(|(class, _)| class).collect();
        if classes.is_empty() {
            return;
        }
        let reserved = before.values().flat_map(|shadows| shadows.values().copied()).collect();
        for root in self.visible_roots() {
            for &class in &classes {
                self.clone_for_class(root, class, &before, &reserved);
            }
        }
    }

    /// A class exists as long as a device has it or a rule starts from one of its shadows.
    fn drop_dead_classes(&mut self) {
        let mut alive: BTreeSet<i32> =
            self.item_classes.range(0..).map(|(_, &class)| class).collect();
        let takes: BTreeSet<i32> = self.rules().flat_map(|(_, rule)| rule.takes()).collect();
        for shadows in self.shadows.values() {
            let taken = shadows.iter().filter(|(_, shadow)| takes.contains(shadow));
            alive.extend(taken.map(|(class, _)| class));
        }
        let classes = self.class_names.iter().map(|(class, _)| class);
        let dead: Vec<i32> = classes.filter(|class| !alive.contains(class)).collect();
        dead.into_iter().for_each(|class| self.class_names.remove(class));
    }

    /// Drops shadow roots, and then buckets that become roots by that. A shadow held by a visible bucket,
    /// which no sound map has, stays.
    fn drop_shadows(&mut self) {
        let mut holders: BTreeMap<i32, usize> = BTreeMap::new();
        for child in self.buckets().flat_map(|bucket| &bucket.items) {
            *holders.entry(*child).or_default() += 1;
        }
        let mut unheld: Vec<i32> = self.roots().into_iter().collect();
        while let Some(root) = unheld.pop() {
            if !self.is_shadow(root) {
                continue;
            }
            for child in self.children(root).iter().filter(|&&child| child < 0) {
                let count = holders.entry(*child).or_default();
                *count = count.saturating_sub(1);
                if *count == 0 {
                    unheld.push(*child);
                }
            }
            self.drop_bucket(root);
        }
    }

    /// The shadow of `original`, created if it does not exist. Buckets without a name have none.
    fn clone_for_class(
        &mut self,
        original: i32,
        class: i32,
        before: &ShadowIds,
        reserved: &BTreeSet<i32>,
    ) -> Option<i32> {
        let name = format!("{}~{}", self.item_name(original)?, self.class_name(class)?);
        if let Some(shadow) = self.shadow(original, class) {
            return Some(shadow);
        }
        let bucket = self.bucket(original)?;
        let (type_id, algorithm) = (bucket.type_id, bucket.algorithm());
        let uniform =
            if let Weights::Uniform { each } = bucket.weights { Some(each) } else { None };
        let mut kept = self.shadow_items(original, class, before, reserved);

        let old = before.get(&original).and_then(|shadows| shadows.get(&class).copied());
        let old = old.and_then(slot).filter(|&slot| matches!(self.buckets.get(slot), Some(None)));
        let slot = old.unwrap_or_else(|| self.unreserved_slot(reserved));
        let shadow = self.place_bucket(slot, type_id, algorithm);
        let straw_version = self.tunables.straw_calc_version;
        let copy = self.bucket_mut(shadow).expect("just placed");
        if let Some(each) = uniform {
            copy.weights = Weights::Uniform { each };
        }
        // A part can exceed the maximum weight of a bucket only if weights were inconsistent before.
        kept.retain(|item| {
            copy.add_item(item.id, uniform.unwrap_or(item.weight), straw_version).is_ok()
        });
        self.names.set(shadow, name);
        self.item_classes.insert(shadow, class);
        self.shadows.entry(original).or_default().insert(class, shadow);
        self.copy_replacements(original, shadow, &kept);
        Some(shadow)
    }

    /// Devices of the class, and the shadows of child buckets.
    fn shadow_items(
        &mut self,
        original: i32,
        class: i32,
        before: &ShadowIds,
        reserved: &BTreeSet<i32>,
    ) -> Vec<ShadowItem> {
        let mut kept = Vec::new();
        for (position, item) in self.children(original).to_vec().into_iter().enumerate() {
            if item >= 0 {
                if self.item_classes.get(&item) == Some(&class) {
                    let weight = self.bucket(original).map_or(0, |b| b.item_weight(position));
                    kept.push(ShadowItem { id: item, weight, position });
                }
            } else if let Some(id) = self.clone_for_class(item, class, before, reserved) {
                let weight = self.bucket(id).map_or(0, |bucket| bucket.weight);
                kept.push(ShadowItem { id, weight, position });
            }
        }
        kept
    }

    fn is_vacant(&self, slot: usize) -> bool {
        self.buckets.get(slot).is_none_or(Option::is_none)
    }

    /// The first vacant slot that is not reserved for a shadow.
    fn unreserved_slot(&self, reserved: &BTreeSet<i32>) -> usize {
        let fits = |slot: &usize| {
            self.is_vacant(*slot) && !reserved.contains(&crate::map::bucket_id(*slot))
        };
        (0..).find(fits).expect("slots beyond the last are vacant")
    }

    /// Devices keep the replacement weights of the original; child buckets get the sums of their items'.
    fn copy_replacements(&mut self, original: i32, shadow: i32, kept: &[ShadowItem]) {
        let Some(slot) = slot(shadow) else { return };
        for map in self.choose_args.values_mut() {
            let Some(arg) = map.arg(original).filter(|arg| !arg.weight_sets.is_empty()) else {
                continue;
            };
            let weight = |index: usize, set: &Vec<u32>, item: &ShadowItem| {
                if item.id >= 0 {
                    return set[item.position];
                }
                let sums = map.arg(item.id).map(ChooseArg::sums).unwrap_or_default();
                sums.get(index).copied().unwrap_or(0)
            };
            let sets = arg.weight_sets.iter().enumerate();
            let weight_sets = sets
                .map(|(index, set)| kept.iter().map(|item| weight(index, set, item)).collect())
                .collect();
            map.args.insert(slot, ChooseArg { weight_sets, ids: Vec::new() });
        }
    }
}

/// An item of a shadow, with its position in the original or the bucket it shadows.
struct ShadowItem {
    id: i32,
    weight: u32,
    position: usize,
}
