//! One choice within one bucket, by its algorithm (`crush_bucket_choose`).

use super::Search;
use crate::ITEM_NONE;
use crate::bucket::{Bucket, Weights};
use crate::hash::{hash3, hash4};
use crate::logarithm::crush_ln;

/// 2^44 * log2 of the largest draw plus one: logarithms of draws lie below it.
const LOG_ONE: i64 = 1 << 48;

impl Search<'_> {
    /// The item of `bucket`, which is not empty, for retry number `r`. `position` in the result
    /// selects the weight set.
    pub(super) fn select(&mut self, bucket: &Bucket, r: u32, position: usize) -> i32 {
        let x = self.x;
        match &bucket.weights {
            Weights::Straw2 { items } => self.select_straw2(bucket, items, r, position),
            Weights::Uniform { .. } => self.permutations.choose(bucket, x, r),
            Weights::List { items, sums } => select_list(bucket, items, sums, x, r),
            Weights::Tree { nodes } => select_tree(bucket, nodes, x, r),
            Weights::Straw { straws, .. } => select_straw(bucket, straws, x, r),
        }
    }

    /// Each item draws from an exponential distribution with its weight as rate; the earliest
    /// event wins, so a change of one weight moves data only from or to that item.
    fn select_straw2(&self, bucket: &Bucket, own: &[u32], r: u32, position: usize) -> i32 {
        let arg = self.choose_args.and_then(|args| args.arg(bucket.id));
        let weights = arg.and_then(|arg| arg.weights(position)).unwrap_or(own);
        let ids = match arg {
            Some(arg) if !arg.ids.is_empty() => &arg.ids,
            _ => &bucket.items,
        };
        let mut best = (0, i64::MIN);
        for (index, (&id, &weight)) in ids.iter().zip(weights).enumerate() {
            if weight == 0 {
                continue;
            }
            let draw = straw2_draw(self.x, id, r, weight);
            if draw > best.1 {
                best = (index, draw);
            }
        }
        bucket.items[best.0]
    }
}

#[inline]
fn straw2_draw(x: u32, id: i32, r: u32, weight: u32) -> i64 {
    let uniform = hash3(x, id as u32, r) as u16;
    let logarithm = crush_ln(uniform) as i64 - LOG_ONE;
    // Ceph takes the weight for a signed number here.
    logarithm / i64::from(weight as i32)
}

/// Each item, the newest first, takes its share of the weight that is left.
fn select_list(bucket: &Bucket, weights: &[u32], sums: &[u32], x: u32, r: u32) -> i32 {
    let shares = bucket.items.iter().zip(weights.iter().zip(sums)).rev();
    for (&item, (&weight, &sum)) in shares {
        let draw = u64::from(hash4(x, item as u32, r, bucket.id as u32) & 0xffff);
        if (draw * u64::from(sum)) >> 16 < u64::from(weight) {
            return item;
        }
    }
    bucket.items[0]
}

/// Descends a binary tree in order, to either side by weight. A subtree without weight may lead
/// to a leaf that holds nothing, which counts as no item.
fn select_tree(bucket: &Bucket, nodes: &[u32], x: u32, r: u32) -> i32 {
    let mut node = nodes.len() / 2;
    while node & 1 == 0 {
        let half = 1 << (node.trailing_zeros() - 1);
        let draw = u64::from(hash4(x, node as u32, r, bucket.id as u32));
        let point = (draw * u64::from(nodes[node])) >> 32;
        let left = node - half;
        node = if point < u64::from(nodes[left]) { left } else { node + half };
    }
    bucket.items.get(node >> 1).copied().unwrap_or(ITEM_NONE)
}

/// The longest straw wins, each drawn at random and scaled by a length made beforehand.
fn select_straw(bucket: &Bucket, straws: &[u32], x: u32, r: u32) -> i32 {
    let mut best = (bucket.items[0], 0);
    for (&item, &straw) in bucket.items.iter().zip(straws) {
        let draw = u64::from(hash3(x, item as u32, r) & 0xffff) * u64::from(straw);
        if draw > best.1 {
            best = (item, draw);
        }
    }
    best.0
}
