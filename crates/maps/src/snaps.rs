//! Sets of snapshot ids as disjoint intervals (`snap_interval_set_t`).

use codec::{Decode, Encode, Reader, Result, Writer};
use std::collections::BTreeMap;
use std::fmt;
use types::SnapId;

/// Intervals are disjoint, not empty and not adjacent: start -> length.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SnapIntervals(BTreeMap<u64, u64>);

impl SnapIntervals {
    /// True if no snapshot is in the set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `(start, length)` of each interval, ascending.
    pub fn intervals(&self) -> impl Iterator<Item = (SnapId, u64)> + '_ {
        self.0.iter().map(|(start, length)| (SnapId(*start), *length))
    }

    /// Number of snapshots in the set.
    pub fn len(&self) -> u64 {
        self.0.values().sum()
    }

    /// True if the snapshot is in the set.
    pub fn contains(&self, snap: SnapId) -> bool {
        let below = self.0.range(..=snap.0).next_back();
        below.is_some_and(|(start, length)| snap.0 - start < *length)
    }

    /// The first snapshot of this set that the other set does not contain.
    pub fn first_not_in(&self, other: &SnapIntervals) -> Option<SnapId> {
        let beyond = |(start, length): (&u64, &u64)| start.saturating_add(*length);
        self.0.iter().find_map(|(start, length)| {
            let (mut first, end) = (*start, start.saturating_add(*length));
            while first < end {
                match other.0.range(..=first).next_back().map(beyond).filter(|next| *next > first) {
                    Some(next) => first = next,
                    None => return Some(SnapId(first)),
                }
            }
            None
        })
    }

    /// Adds a snapshot.
    pub fn insert(&mut self, snap: SnapId) {
        self.insert_interval(snap, 1);
    }

    /// Adds the snapshots of the other set.
    pub fn union(&mut self, other: &SnapIntervals) {
        for (start, length) in &other.0 {
            self.insert_interval(SnapId(*start), *length);
        }
    }

    /// Removes the snapshots of the other set.
    pub fn subtract(&mut self, other: &SnapIntervals) {
        for (start, length) in &other.0 {
            self.remove_interval(*start, *length);
        }
    }

    /// Adds `length` snapshots from `first` on; they merge with every interval that overlaps or is
    /// adjacent.
    pub fn insert_interval(&mut self, first: SnapId, length: u64) {
        let (mut start, mut end) = (first.0, first.0.saturating_add(length));
        if start == end {
            return;
        }
        let near = self.0.range(..=end).rev();
        let touched: Vec<(u64, u64)> = near
            .map(|(s, l)| (*s, s.saturating_add(*l)))
            .take_while(|(_, e)| *e >= start)
            .collect();
        for (s, e) in touched {
            self.0.remove(&s);
            start = start.min(s);
            end = end.max(e);
        }
        self.0.insert(start, end - start);
    }

    fn remove_interval(&mut self, start: u64, length: u64) {
        let end = start.saturating_add(length);
        let before = self.0.range(..end).rev();
        let touched: Vec<(u64, u64)> = before
            .map(|(s, l)| (*s, s.saturating_add(*l)))
            .take_while(|(_, e)| *e > start)
            .collect();
        for (s, e) in touched {
            self.0.remove(&s);
            if s < start {
                self.0.insert(s, start - s);
            }
            if e > end {
                self.0.insert(end, e - end);
            }
        }
    }
}

impl FromIterator<SnapId> for SnapIntervals {
    fn from_iter<I: IntoIterator<Item = SnapId>>(snaps: I) -> Self {
        let mut set = SnapIntervals::default();
        snaps.into_iter().for_each(|snap| set.insert(snap));
        set
    }
}

impl Encode for SnapIntervals {
    fn encode(&self, w: &mut Writer) {
        w.value(&self.0);
    }
}

impl Decode for SnapIntervals {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut set = SnapIntervals::default();
        r.list("snap intervals", |r| {
            let first = r.value()?;
            set.insert_interval(first, r.u64("interval length")?);
            Ok(())
        })?;
        Ok(set)
    }
}

/// Formats as `[1~3,8~1]`, as Ceph does (hexadecimal).
impl fmt::Display for SnapIntervals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().map(|(s, l)| format!("{s:x}~{l:x}")).collect();
        write!(f, "[{}]", parts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::{decode_all, encode_to_bytes};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn set(snaps: &BTreeSet<u8>) -> SnapIntervals {
        snaps.iter().map(|snap| SnapId(u64::from(*snap))).collect()
    }

    proptest! {
        #[test]
        fn behaves_like_a_set(a: BTreeSet<u8>, b: BTreeSet<u8>) {
            let mut union = set(&a);
            union.union(&set(&b));
            prop_assert_eq!(&union, &set(&a.union(&b).copied().collect()));
            let mut difference = set(&a);
            difference.subtract(&set(&b));
            prop_assert_eq!(&difference, &set(&a.difference(&b).copied().collect()));
            let first = a.difference(&b).next().map(|snap| SnapId(u64::from(*snap)));
            prop_assert_eq!(set(&a).first_not_in(&set(&b)), first);
            for snap in 0..=255u8 {
                prop_assert_eq!(union.contains(SnapId(snap.into())), a.contains(&snap) || b.contains(&snap));
            }
            prop_assert_eq!(decode_all::<SnapIntervals>("set", &encode_to_bytes(&union)).unwrap(), union);
        }
    }
}
