//! Choosing for replication: results close up, later ones take the place of failed ones
//! (`crush_choose_firstn`).

use super::search::{Goal, Search, Tries};
use super::select::select;
use crate::{Bucket, TYPE_DEVICE};

/// The limits of one level of the search; the search for a leaf below a bucket has its own.
struct Level<'t> {
    goal: Goal,
    tries: u32,
    all: &'t Tries,
    /// Added to the retry number, so that leaves differ by what was chosen above.
    r_base: u32,
}

/// Result of one choice.
enum Outcome {
    Chosen(i32),
    /// The search continues in an inner bucket.
    Descend(i32),
    Collided,
    Rejected,
    /// The map has no item of the wanted type there.
    Abandoned,
}

/// Fills `chosen` (and `leaves`, if leaves are wanted) from below `start`; returns the number of items.
pub(super) fn choose_firstn(
    search: &mut Search<'_>,
    start: &Bucket,
    goal: Goal,
    tries: &Tries,
    chosen: &mut [i32],
    leaves: &mut [i32],
) -> usize {
    assert_eq!(chosen.len(), leaves.len(), "each chosen item has room for its leaf");
    let level = Level { goal, tries: tries.choose, all: tries, r_base: 0 };
    let mut filled = 0;
    for replica in 0..goal.count {
        if filled == chosen.len() {
            break;
        }
        if let Some(item) = find(search, start, &level, replica, &chosen[..filled], leaves) {
            chosen[filled] = item;
            filled += 1;
        } else if search.is_exhausted() {
            break;
        }
    }
    filled
}

/// One item for `replica` that is not among `taken`, descending again and again.
fn find(
    search: &mut Search<'_>,
    start: &Bucket,
    level: &Level<'_>,
    replica: u32,
    taken: &[i32],
    leaves: &mut [i32],
) -> Option<i32> {
    let map = search.map;
    let mut failures = 0;
    loop {
        let mut bucket = start;
        let mut failures_local = 0;
        loop {
            let r = replica.wrapping_add(level.r_base).wrapping_add(failures);
            let outcome = attempt(search, bucket, level, r, failures_local, taken, leaves);
            match outcome {
                Outcome::Chosen(item) => return Some(item),
                Outcome::Abandoned => return None,
                Outcome::Descend(id) => {
                    bucket = map.bucket(id)?;
                    continue;
                }
                Outcome::Collided | Outcome::Rejected => {}
            }
            failures += 1;
            failures_local += 1;
            let collided = matches!(outcome, Outcome::Collided);
            if !level.all.retries_locally(collided, failures_local, bucket) {
                break;
            }
        }
        if failures >= level.tries {
            return None;
        }
    }
}

fn attempt(
    search: &mut Search<'_>,
    bucket: &Bucket,
    level: &Level<'_>,
    r: u32,
    failures_local: u32,
    taken: &[i32],
    leaves: &mut [i32],
) -> Outcome {
    if !search.charge(bucket) {
        return Outcome::Abandoned;
    }
    if bucket.items().is_empty() {
        return Outcome::Rejected;
    }
    let item = if level.all.permutes(failures_local, bucket) {
        search.permutations.choose(bucket, search.x, r)
    } else {
        select(search, bucket, r, taken.len())
    };
    let Some(type_id) = search.map.item_type(item).filter(|_| item < search.map.max_devices) else {
        return Outcome::Abandoned;
    };
    if i32::from(type_id) != level.goal.type_id {
        return if item < 0 { Outcome::Descend(item) } else { Outcome::Abandoned };
    }
    if taken.contains(&item) {
        return Outcome::Collided;
    }
    if level.goal.leaf && !find_leaf(search, item, level, r, taken.len(), leaves) {
        return Outcome::Rejected;
    }
    if type_id == TYPE_DEVICE && search.is_out(item) {
        return Outcome::Rejected;
    }
    Outcome::Chosen(item)
}

/// Puts a device below `item` that no earlier replica has into `leaves[position]`.
fn find_leaf(
    search: &mut Search<'_>,
    item: i32,
    level: &Level<'_>,
    r: u32,
    position: usize,
    leaves: &mut [i32],
) -> bool {
    if item >= 0 {
        leaves[position] = item;
        return true;
    }
    let Some(bucket) = search.map.bucket(item) else { return false };
    let tries = level.all;
    let r_base = match tries.vary_r {
        0 => 0,
        vary_r => r.checked_shr(vary_r - 1).unwrap_or(0),
    };
    let goal = Goal { count: 1, type_id: TYPE_DEVICE.into(), leaf: false };
    let below = Level { goal, tries: tries.leaf_firstn(), all: tries, r_base };
    let replica = if tries.stable { 0 } else { position as u32 };
    let Some(device) = find(search, bucket, &below, replica, &leaves[..position], &mut []) else {
        return false;
    };
    leaves[position] = device;
    true
}

impl Tries {
    /// True if the same bucket is tried again before a restart from the top.
    fn retries_locally(&self, collided: bool, failures_local: u32, bucket: &Bucket) -> bool {
        let exhaustive = (bucket.items().len() as u32).saturating_add(self.local_fallback);
        collided && failures_local <= self.local
            || self.local_fallback > 0 && failures_local <= exhaustive
    }

    /// True if so many choices in this bucket failed that its items are taken in permuted order.
    fn permutes(&self, failures_local: u32, bucket: &Bucket) -> bool {
        self.local_fallback > 0
            && failures_local >= bucket.items().len() as u32 >> 1
            && failures_local > self.local_fallback
    }
}
