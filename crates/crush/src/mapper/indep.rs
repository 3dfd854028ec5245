//! Choosing for erasure coding: every position is independent, so that a failure moves no other
//! shard (`crush_choose_indep`).

use super::search::{Goal, ITEM_UNDEFINED, Search, Tries};
use super::select::select;
use crate::{Algorithm, Bucket, ITEM_NONE, TYPE_DEVICE};

/// Result of one descent for one position.
enum Outcome {
    Chosen(i32),
    /// The choice may be tried again.
    Failed,
    /// The map has no item of the wanted type there.
    Abandoned,
}

/// Fills the first positions of `chosen` (and of `leaves`, if leaves are wanted) from below `start`;
/// returns the number of positions, including those without a result.
pub(super) fn choose_indep(
    search: &mut Search<'_>,
    start: &Bucket,
    goal: Goal,
    tries: &Tries,
    chosen: &mut [i32],
    leaves: &mut [i32],
) -> usize {
    assert_eq!(chosen.len(), leaves.len(), "each chosen item has room for its leaf");
    let len = chosen.len().min(goal.count as usize);
    let (chosen, leaves) = (&mut chosen[..len], &mut leaves[..len]);
    chosen.fill(ITEM_UNDEFINED);
    leaves.fill(ITEM_UNDEFINED);
    let mut left = len;
    for round in 0..tries.choose {
        if left == 0 || search.is_exhausted() {
            break;
        }
        for position in 0..len {
            if chosen[position] != ITEM_UNDEFINED {
                continue;
            }
            match descend(search, start, goal, tries, round, position, chosen, leaves) {
                Outcome::Failed => continue,
                Outcome::Chosen(item) => chosen[position] = item,
                Outcome::Abandoned => {
                    chosen[position] = ITEM_NONE;
                    leaves[position] = ITEM_NONE;
                }
            }
            left -= 1;
        }
    }
    assert!(left <= len, "a position is decided once");
    // The last rejected leaf stays, as in every implementation.
    for position in chosen.iter_mut().chain(leaves) {
        if *position == ITEM_UNDEFINED {
            *position = ITEM_NONE;
        }
    }
    len
}

fn descend(
    search: &mut Search<'_>,
    start: &Bucket,
    goal: Goal,
    tries: &Tries,
    round: u32,
    position: usize,
    chosen: &[i32],
    leaves: &mut [i32],
) -> Outcome {
    let map = search.map;
    let mut bucket = start;
    loop {
        let r = (position as u32).wrapping_add(retry_offset(bucket, goal.count, round));
        let (item, type_id) = match pick(search, bucket, r, 0) {
            Pick::Item(item, type_id) => (item, type_id),
            Pick::Empty => return Outcome::Failed,
            Pick::Nothing => return Outcome::Abandoned,
        };
        if i32::from(type_id) != goal.type_id {
            match map.bucket(item) {
                Some(inner) => bucket = inner,
                None => return Outcome::Abandoned,
            }
            continue;
        }
        if chosen.contains(&item) {
            return Outcome::Failed;
        }
        if goal.leaf {
            leaves[position] = match map.bucket(item) {
                Some(inner) => leaf_below(search, inner, goal.count, tries, position, r),
                None => item,
            };
            if item < 0 && leaves[position] == ITEM_NONE {
                return Outcome::Failed;
            }
        }
        let rejected = type_id == TYPE_DEVICE && search.is_out(item);
        return if rejected { Outcome::Failed } else { Outcome::Chosen(item) };
    }
}

/// A device below `start`, or [`ITEM_NONE`]. Positions do not collide here, since their start items
/// differ.
fn leaf_below(
    search: &mut Search<'_>,
    start: &Bucket,
    count: u32,
    tries: &Tries,
    position: usize,
    r_base: u32,
) -> i32 {
    let map = search.map;
    for round in 0..tries.leaf_indep() {
        let mut bucket = start;
        loop {
            let base = (position as u32).wrapping_add(r_base);
            let r = base.wrapping_add(retry_offset(bucket, count, round));
            let (item, type_id) = match pick(search, bucket, r, position) {
                Pick::Item(item, type_id) => (item, type_id),
                Pick::Empty => break,
                Pick::Nothing => return ITEM_NONE,
            };
            if type_id == TYPE_DEVICE {
                if search.is_out(item) {
                    break;
                }
                return item;
            }
            let Some(inner) = map.bucket(item) else { return ITEM_NONE };
            bucket = inner;
        }
    }
    ITEM_NONE
}

fn pick(search: &mut Search<'_>, bucket: &Bucket, r: u32, position: usize) -> Pick {
    if !search.charge(bucket) {
        return Pick::Nothing;
    }
    if bucket.items().is_empty() {
        return Pick::Empty;
    }
    let item = select(search, bucket, r, position);
    match search.map.item_type(item) {
        Some(type_id) if item < search.map.max_devices => Pick::Item(item, type_id),
        _ => Pick::Nothing,
    }
}

enum Pick {
    Item(i32, u16),
    Empty,
    Nothing,
}

/// Retry numbers of all positions in all rounds are distinct. A uniform bucket takes them modulo
/// its size, so a size that the count divides needs another stride to reach every item.
fn retry_offset(bucket: &Bucket, count: u32, round: u32) -> u32 {
    let divides = (bucket.items().len() as u32).is_multiple_of(count);
    let skewed = bucket.algorithm() == Algorithm::Uniform && divides;
    count.wrapping_add(skewed.into()).wrapping_mul(round)
}
