//! Buckets: inner nodes of the map, and their weights under each choosing algorithm.

use crate::straw;
use thiserror::Error;

/// Selection algorithm of a bucket (`crush_algorithm`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Algorithm {
    /// All items have the same weight; chosen by a permutation.
    Uniform = 1,
    /// Optimal when items are only added, at the end.
    List = 2,
    /// A binary tree of weights; for large buckets.
    Tree = 3,
    /// The longest scaled straw wins; a change of one weight may move data between other items.
    Straw = 4,
    /// The largest draw wins; a change of one weight moves data only from or to that item.
    Straw2 = 5,
}

impl Algorithm {
    /// All algorithms by number.
    pub const ALL: [Algorithm; 5] =
        [Algorithm::Uniform, Algorithm::List, Algorithm::Tree, Algorithm::Straw, Algorithm::Straw2];

    /// The algorithm with this number in the encoding (`CRUSH_BUCKET_*`).
    pub fn from_number(number: u32) -> Option<Self> {
        Algorithm::ALL.into_iter().find(|&algorithm| algorithm as u32 == number)
    }

    /// Parses the name that commands and decompiled maps use.
    pub fn from_name(name: &str) -> Option<Self> {
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// The name that commands and decompiled maps use.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Uniform => "uniform",
            Algorithm::List => "list",
            Algorithm::Tree => "tree",
            Algorithm::Straw => "straw",
            Algorithm::Straw2 => "straw2",
        }
    }
}

/// `crush_bucket`: items (devices from zero, buckets below) with weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    pub(crate) id: i32,
    pub(crate) type_id: u16,
    pub(crate) weight: u32,
    pub(crate) items: Vec<i32>,
    pub(crate) weights: Weights,
}

/// Item weights in the form each algorithm needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Weights {
    Uniform {
        each: u32,
    },
    /// `sums[i]` is the weight of items up to and including `i`.
    List {
        items: Vec<u32>,
        sums: Vec<u32>,
    },
    /// A binary tree in order: leaf `i` is node `2i + 1`, the root is the middle one.
    Tree {
        nodes: Vec<u32>,
    },
    Straw {
        items: Vec<u32>,
        straws: Vec<u32>,
    },
    Straw2 {
        items: Vec<u32>,
    },
}

/// The encoding counts a tree bucket's nodes, twice its items rounded up, in one byte.
pub(crate) const TREE_ITEMS_MAX: usize = 64;

/// Reason why a bucket cannot hold an item or a weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BucketError {
    /// An item of another weight in a uniform bucket.
    #[error("items of uniform bucket {bucket} weigh {each:#x} each, not {weight:#x}")]
    NotUniform {
        /// Id of the bucket.
        bucket: i32,
        /// Weight of every item in the bucket.
        each: u32,
        /// Weight that was to be set.
        weight: u32,
    },
    /// A tree bucket has all the items that its encoding can count.
    #[error("tree bucket {bucket} holds at most {} items", TREE_ITEMS_MAX)]
    TreeFull {
        /// Id of the bucket.
        bucket: i32,
    },
    /// The sum of the items' weights does not fit in 32 bits.
    #[error("the weights in bucket {bucket} add up to more than 65535")]
    WeightOverflow {
        /// Id of the bucket.
        bucket: i32,
    },
}

impl Bucket {
    pub(crate) fn new(id: i32, type_id: u16, algorithm: Algorithm) -> Self {
        let (items, none) = (Vec::new(), Vec::new());
        let weights = match algorithm {
            Algorithm::Uniform => Weights::Uniform { each: 0 },
            Algorithm::List => Weights::List { items, sums: none },
            Algorithm::Tree => Weights::Tree { nodes: none },
            Algorithm::Straw => Weights::Straw { items, straws: none },
            Algorithm::Straw2 => Weights::Straw2 { items },
        };
        Bucket { id, type_id, weight: 0, items: Vec::new(), weights }
    }

    /// Id of the bucket, below zero.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// Type of the bucket, above [`crate::TYPE_DEVICE`].
    pub fn type_id(&self) -> u16 {
        self.type_id
    }

    /// The sum of the items' weights.
    pub fn weight(&self) -> u32 {
        self.weight
    }

    /// The items in the order that the algorithm uses.
    pub fn items(&self) -> &[i32] {
        &self.items
    }

    /// Selection algorithm.
    pub fn algorithm(&self) -> Algorithm {
        match self.weights {
            Weights::Uniform { .. } => Algorithm::Uniform,
            Weights::List { .. } => Algorithm::List,
            Weights::Tree { .. } => Algorithm::Tree,
            Weights::Straw { .. } => Algorithm::Straw,
            Weights::Straw2 { .. } => Algorithm::Straw2,
        }
    }

    /// The weight of the item at `position`.
    pub fn item_weight(&self, position: usize) -> u32 {
        match &self.weights {
            Weights::Uniform { each } => *each,
            Weights::Tree { nodes } => nodes.get(leaf(position)).copied().unwrap_or(0),
            Weights::List { items, .. }
            | Weights::Straw { items, .. }
            | Weights::Straw2 { items } => items.get(position).copied().unwrap_or(0),
        }
    }

    /// Index of an item in the bucket.
    pub fn position(&self, item: i32) -> Option<usize> {
        self.items.iter().position(|&other| other == item)
    }

    pub(crate) fn add_item(
        &mut self,
        item: i32,
        weight: u32,
        straw_version: u8,
    ) -> Result<(), BucketError> {
        let bucket = self.id;
        if self.weight.checked_add(weight).is_none() {
            return Err(BucketError::WeightOverflow { bucket });
        }
        match &mut self.weights {
            Weights::Uniform { each } => {
                let each = *each;
                if each != weight {
                    return Err(BucketError::NotUniform { bucket, each, weight });
                }
            }
            Weights::Tree { .. } if self.items.len() >= TREE_ITEMS_MAX => {
                return Err(BucketError::TreeFull { bucket });
            }
            _ => {}
        }
        let mut weights = self.item_weights();
        weights.push(weight);
        self.items.push(item);
        self.weight += weight;
        self.rebuild(weights, straw_version);
        Ok(())
    }

    pub(crate) fn remove_item(&mut self, position: usize, straw_version: u8) {
        let mut weights = self.item_weights();
        let weight = weights[position];
        self.weight = self.weight.saturating_sub(weight);
        if self.algorithm() == Algorithm::Tree {
            self.vacate_leaf(position, &mut weights);
        } else {
            self.items.remove(position);
            weights.remove(position);
        }
        self.rebuild(weights, straw_version);
    }

    /// Other leaves of a tree keep their positions; only vacant ones at the end are removed.
    fn vacate_leaf(&mut self, position: usize, weights: &mut Vec<u32>) {
        self.items[position] = 0;
        weights[position] = 0;
        let kept = weights.iter().rposition(|&weight| weight != 0).map_or(0, |last| last + 1);
        self.items.truncate(kept);
        weights.truncate(kept);
    }

    /// In a uniform bucket this sets the weight of all items.
    pub(crate) fn set_item_weight(
        &mut self,
        position: usize,
        weight: u32,
        straw_version: u8,
    ) -> Result<(), BucketError> {
        let mut weights = self.item_weights();
        let total = match &mut self.weights {
            Weights::Uniform { each } => {
                *each = weight;
                i64::from(weight) * weights.len() as i64
            }
            _ => i64::from(self.weight) - i64::from(weights[position]) + i64::from(weight),
        };
        let overflow = BucketError::WeightOverflow { bucket: self.id };
        self.weight = u32::try_from(total.max(0)).map_err(|_| overflow)?;
        weights[position] = weight;
        self.rebuild(weights, straw_version);
        Ok(())
    }

    /// Sets the bucket's weight to the sum of its items' weights.
    pub(crate) fn sum_up_weight(&mut self) -> Result<(), BucketError> {
        let total: u64 = self.item_weights().into_iter().map(u64::from).sum();
        let overflow = BucketError::WeightOverflow { bucket: self.id };
        self.weight = u32::try_from(total).map_err(|_| overflow)?;
        Ok(())
    }

    /// Whether the stored weights are those of as many items as there are.
    pub(crate) fn has_all_weights(&self) -> bool {
        let items = self.items.len();
        match &self.weights {
            Weights::Uniform { .. } => true,
            Weights::List { items: own, sums: other }
            | Weights::Straw { items: own, straws: other } => {
                own.len() == items && other.len() == items
            }
            Weights::Straw2 { items: own } => own.len() == items,
            // A tree without items may have nodes.
            Weights::Tree { nodes } => items == 0 || nodes.len() == tree_nodes_len(items),
        }
    }

    pub(crate) fn item_weights(&self) -> Vec<u32> {
        (0..self.items.len()).map(|position| self.item_weight(position)).collect()
    }

    fn rebuild(&mut self, weights: Vec<u32>, straw_version: u8) {
        match &mut self.weights {
            Weights::Uniform { .. } => {}
            Weights::List { items, sums } => {
                let add = |sum: &mut u32, weight: &u32| {
                    *sum = sum.wrapping_add(*weight);
                    Some(*sum)
                };
                *sums = weights.iter().scan(0, add).collect();
                *items = weights;
            }
            Weights::Tree { nodes } => *nodes = tree_nodes(&weights),
            Weights::Straw { items, straws } => {
                *straws = straw::lengths(straw_version, &weights);
                *items = weights;
            }
            Weights::Straw2 { items } => *items = weights,
        }
    }
}

/// The node of a tree bucket that holds item `position`.
fn leaf(position: usize) -> usize {
    2 * position + 1
}

/// Number of nodes of a tree with `items` leaves.
pub(crate) fn tree_nodes_len(items: usize) -> usize {
    if items == 0 { 0 } else { 2 * items.next_power_of_two() }
}

fn tree_nodes(weights: &[u32]) -> Vec<u32> {
    let mut nodes = vec![0u32; tree_nodes_len(weights.len())];
    for (position, &weight) in weights.iter().enumerate() {
        nodes[leaf(position)] = weight;
    }
    let mut half = 1;
    while 4 * half <= nodes.len() {
        // Nodes of this height are the odd multiples of twice `half`; children lie `half` away.
        for node in (2 * half..nodes.len()).step_by(4 * half) {
            nodes[node] = nodes[node - half].wrapping_add(nodes[node + half]);
        }
        half *= 2;
    }
    nodes
}

/// Slot of `bucket`; `None` for devices.
pub(crate) fn slot(bucket: i32) -> Option<usize> {
    usize::try_from(-1 - i64::from(bucket)).ok()
}

pub(crate) fn bucket_id(slot: usize) -> i32 {
    -1 - slot as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(algorithm: Algorithm, weights: &[u32]) -> Bucket {
        let mut bucket = Bucket::new(-1, 1, algorithm);
        for (item, &weight) in weights.iter().enumerate() {
            bucket.add_item(item as i32, weight, 1).unwrap();
        }
        bucket
    }

    #[test]
    fn a_bucket_weighs_what_its_items_weigh_under_every_algorithm() {
        for algorithm in Algorithm::ALL {
            let weights: &[u32] =
                if algorithm == Algorithm::Uniform { &[0, 0, 0] } else { &[5, 0, 9] };
            let mut bucket = bucket(algorithm, weights);
            bucket.set_item_weight(1, 4, 1).unwrap();
            assert_eq!(bucket.weight(), bucket.item_weights().iter().sum::<u32>());
            bucket.remove_item(2, 1);
            assert_eq!(bucket.weight(), bucket.item_weights().iter().sum::<u32>());
            assert_eq!(bucket.items(), [0, 1], "{algorithm:?}");
        }
    }

    #[test]
    fn inner_nodes_of_a_tree_are_the_sums_of_their_leaves() {
        let bucket = bucket(Algorithm::Tree, &[1, 2, 3, 4, 5]);
        let Weights::Tree { nodes } = &bucket.weights else { unreachable!() };
        assert_eq!(nodes[..], [0, 1, 3, 2, 10, 3, 7, 4, 15, 5, 5, 0, 5, 0, 0, 0]);
    }

    #[test]
    fn what_the_algorithm_cannot_hold_is_refused() {
        let mut full = bucket(Algorithm::Tree, &[1; TREE_ITEMS_MAX]);
        assert_eq!(full.add_item(99, 1, 1), Err(BucketError::TreeFull { bucket: -1 }));
        let mut heavy = bucket(Algorithm::Straw2, &[u32::MAX]);
        assert_eq!(heavy.add_item(1, 1, 1), Err(BucketError::WeightOverflow { bucket: -1 }));
        let error = bucket(Algorithm::Uniform, &[]).add_item(0, 7, 1).unwrap_err();
        assert_eq!(error, BucketError::NotUniform { bucket: -1, each: 0, weight: 7 });
    }
}
