//! The map as a tree for display, in the order of `ceph osd tree` (`CrushTreeDumper`).

use crate::map::CrushMap;
use std::collections::{BTreeMap, BTreeSet};

/// One line of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeItem {
    /// Id of the device or bucket.
    pub id: i32,
    /// `None` for a root.
    pub parent: Option<i32>,
    /// Levels below the root.
    pub depth: usize,
    /// Weight in the parent; a root's own weight.
    pub weight: u32,
    /// Items displayed below, in reverse order, as in Ceph's JSON.
    pub children: Vec<i32>,
}

/// Part of the map to display.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TreeView {
    /// Only the tree at this item.
    pub root: Option<i32>,
    /// Includes shadow buckets.
    pub shadows: bool,
    /// Omits buckets without displayed items below.
    pub hide_empty: bool,
}

impl TreeView {
    /// Items depth first; siblings by class and then name. `shows_device` filters devices.
    pub fn items(&self, crush: &CrushMap, shows_device: impl Fn(i32) -> bool) -> Vec<TreeItem> {
        let roots = match self.root {
            Some(root) => BTreeSet::from([root]),
            None if self.shadows => crush.roots(),
            None => crush.visible_roots(),
        };
        let shown = shown_items(crush, &roots, self.hide_empty, shows_device);
        let mut lines = Vec::new();
        for root in roots.into_iter().filter(|root| shown.contains(root)) {
            let weight = if root < 0 { crush.item_weight(root).unwrap_or(0) } else { 0 };
            let mut stack =
                vec![TreeItem { id: root, parent: None, depth: 0, weight, children: Vec::new() }];
            while let Some(mut item) = stack.pop() {
                let children = sorted_children(crush, &item, &shown);
                item.children = children.iter().map(|child| child.id).collect();
                stack.extend(children);
                lines.push(item);
            }
        }
        lines
    }
}

/// Devices that the filter passes, and buckets unless empty ones are hidden.
fn shown_items(
    crush: &CrushMap,
    roots: &BTreeSet<i32>,
    hide_empty: bool,
    shows_device: impl Fn(i32) -> bool,
) -> BTreeSet<i32> {
    let all: BTreeSet<i32> = roots.iter().flat_map(|&root| crush.subtree(root)).collect();
    let shows = |&item: &i32| {
        if item >= 0 {
            shows_device(item)
        } else {
            !hide_empty || crush.devices_below(item).into_iter().any(&shows_device)
        }
    };
    all.into_iter().filter(shows).collect()
}

/// Children in reverse order, so that the first one ends up on top of a stack.
fn sorted_children(crush: &CrushMap, parent: &TreeItem, shown: &BTreeSet<i32>) -> Vec<TreeItem> {
    let Some(bucket) = crush.bucket(parent.id) else { return Vec::new() };
    let mut sorted = BTreeMap::new();
    for (position, &id) in bucket.items.iter().enumerate().rev() {
        if shown.contains(&id) {
            sorted.insert(sort_key(crush, id), (id, bucket.item_weight(position)));
        }
    }
    let child = |(id, weight)| TreeItem {
        id,
        parent: Some(parent.id),
        depth: parent.depth + 1,
        weight,
        children: Vec::new(),
    };
    sorted.into_values().rev().map(child).collect()
}

fn sort_key(crush: &CrushMap, item: i32) -> String {
    if item >= 0 {
        format!("{}_osd.{item:08}", crush.item_class(item).unwrap_or(""))
    } else {
        format!("_{}", crush.item_name(item).unwrap_or(""))
    }
}
