//! Shadow trees: for each device class, copies of the buckets with only its devices.

use super::buckets;
use crate::bucket::{Weights, bucket_id, slot};
use crate::choose_args::ChooseArg;
use crate::map::CrushMap;
use std::collections::{BTreeMap, BTreeSet};

/// Former ids of shadows, by original and class.
type ShadowIds = BTreeMap<i32, BTreeMap<i32, i32>>;

/// Updates everything that is derived from the tree; called after each change.
pub(super) fn update_derived(crush: &mut CrushMap) {
    rebuild_shadows(crush);
    crush.finalize();
}

/// Rebuilds shadow trees (`CrushWrapper::rebuild_roots_with_classes`).
fn rebuild_shadows(crush: &mut CrushMap) {
    let before = crush.shadows.clone();
    drop_dead_classes(crush);
    drop_shadows(crush);
    crush.shadows.clear();
    let classes: Vec<i32> = crush.classes().map(|(class, _)| class).collect();
    if classes.is_empty() {
        return;
    }
    let reserved = before.values().flat_map(|shadows| shadows.values().copied()).collect();
    for root in crush.visible_roots() {
        for &class in &classes {
            clone_for_class(crush, root, class, &before, &reserved);
        }
    }
}

/// A class exists as long as a device has it or a rule starts from one of its shadows.
fn drop_dead_classes(crush: &mut CrushMap) {
    let mut alive: BTreeSet<i32> = crush.item_classes.range(0..).map(|(_, &class)| class).collect();
    let takes: BTreeSet<i32> = crush.rules().flat_map(|(_, rule)| rule.takes()).collect();
    for shadows in crush.shadows.values() {
        let taken = shadows.iter().filter(|(_, shadow)| takes.contains(shadow));
        alive.extend(taken.map(|(class, _)| class));
    }
    let classes = crush.class_names.iter().map(|(class, _)| class);
    let dead: Vec<i32> = classes.filter(|class| !alive.contains(class)).collect();
    dead.into_iter().for_each(|class| crush.class_names.remove(class));
}

/// Drops shadow roots, and then buckets that become roots by that. A shadow held by a visible bucket,
/// which no sound map has, stays.
fn drop_shadows(crush: &mut CrushMap) {
    let mut holders: BTreeMap<i32, usize> = BTreeMap::new();
    for child in crush.buckets().flat_map(|bucket| &bucket.items) {
        *holders.entry(*child).or_default() += 1;
    }
    let mut unheld: Vec<i32> = crush.roots().into_iter().collect();
    while let Some(root) = unheld.pop() {
        if !crush.is_shadow(root) {
            continue;
        }
        for child in crush.children(root).iter().filter(|&&child| child < 0) {
            let count = holders.entry(*child).or_default();
            *count = count.saturating_sub(1);
            if *count == 0 {
                unheld.push(*child);
            }
        }
        buckets::drop_bucket(crush, root);
    }
}

/// The shadow of `original`, created if it does not exist. Buckets without a name have none.
fn clone_for_class(
    crush: &mut CrushMap,
    original: i32,
    class: i32,
    before: &ShadowIds,
    reserved: &BTreeSet<i32>,
) -> Option<i32> {
    let name = format!("{}~{}", crush.item_name(original)?, crush.class_name(class)?);
    if let Some(shadow) = crush.shadow(original, class) {
        return Some(shadow);
    }
    let bucket = crush.bucket(original)?;
    let (type_id, algorithm) = (bucket.type_id, bucket.algorithm());
    let uniform = if let Weights::Uniform { each } = bucket.weights { Some(each) } else { None };
    let mut kept = shadow_items(crush, original, class, before, reserved);

    let old = before.get(&original).and_then(|shadows| shadows.get(&class).copied());
    let old = old.and_then(slot).filter(|&slot| matches!(crush.buckets.get(slot), Some(None)));
    let slot = old.unwrap_or_else(|| unreserved_slot(crush, reserved));
    let shadow = buckets::place_bucket(crush, slot, type_id, algorithm);
    let straw_version = crush.tunables.straw_calc_version;
    let copy = crush.bucket_mut(shadow).expect("just placed");
    if let Some(each) = uniform {
        copy.weights = Weights::Uniform { each };
    }
    // A part can exceed the maximum weight of a bucket only if weights were inconsistent before.
    kept.retain(|item| {
        copy.add_item(item.id, uniform.unwrap_or(item.weight), straw_version).is_ok()
    });
    crush.names.set(shadow, name);
    crush.item_classes.insert(shadow, class);
    crush.shadows.entry(original).or_default().insert(class, shadow);
    copy_replacements(crush, original, shadow, &kept);
    Some(shadow)
}

/// Devices of the class, and the shadows of child buckets.
fn shadow_items(
    crush: &mut CrushMap,
    original: i32,
    class: i32,
    before: &ShadowIds,
    reserved: &BTreeSet<i32>,
) -> Vec<ShadowItem> {
    let mut kept = Vec::new();
    for (position, item) in crush.children(original).to_vec().into_iter().enumerate() {
        if item >= 0 {
            if crush.item_classes.get(&item) == Some(&class) {
                let weight = crush.bucket(original).map_or(0, |b| b.item_weight(position));
                kept.push(ShadowItem { id: item, weight, position });
            }
        } else if let Some(id) = clone_for_class(crush, item, class, before, reserved) {
            let weight = crush.bucket(id).map_or(0, |bucket| bucket.weight);
            kept.push(ShadowItem { id, weight, position });
        }
    }
    kept
}

fn is_vacant(crush: &CrushMap, slot: usize) -> bool {
    crush.buckets.get(slot).is_none_or(Option::is_none)
}

/// The first vacant slot that is not reserved for a shadow.
fn unreserved_slot(crush: &CrushMap, reserved: &BTreeSet<i32>) -> usize {
    let fits = |slot: &usize| is_vacant(crush, *slot) && !reserved.contains(&bucket_id(*slot));
    (0..).find(fits).expect("slots beyond the last are vacant")
}

/// Devices keep the replacement weights of the original; child buckets get the sums of their items'.
fn copy_replacements(crush: &mut CrushMap, original: i32, shadow: i32, kept: &[ShadowItem]) {
    let Some(slot) = slot(shadow) else { return };
    for map in crush.choose_args.values_mut() {
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

/// An item of a shadow, with its position in the original or the bucket it shadows.
struct ShadowItem {
    id: i32,
    weight: u32,
    position: usize,
}
