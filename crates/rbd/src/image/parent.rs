//! Reads of a clone's missing objects from its ancestors.

use super::access::{ObjectRange, Waiter};
use super::assemble::{AccessResult, Parts};
use crate::{Error, Extent, Header};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use stdx::Slab;

/// Concurrent accesses of one parent read. Further ranges wait.
const ACCESSES_MAX: usize = 64;

/// A read of ranges of an ancestor.
#[derive(Debug)]
struct Fetch {
    waiter: Waiter,
    /// The missing range that it stands for.
    missing: ObjectRange,
    /// Ancestors as they were when the read began.
    ancestors: Arc<[Header]>,
    /// Ranges of the ancestor that were not yet requested.
    rest: VecDeque<Range<u64>>,
    in_flight: usize,
    parts: Parts,
    error: Option<Error>,
}

/// Parent reads in flight.
#[derive(Debug, Default)]
pub(super) struct ParentReads(Slab<Fetch>);

/// A read of one range of an ancestor's object.
pub(super) struct PartRead {
    /// Consumer of the result of the part.
    pub waiter: Waiter,
    /// Ancestors as they were when the read began.
    pub ancestors: Arc<[Header]>,
    /// Range to read of the ancestor's object.
    pub range: ObjectRange,
}

/// A parent read whose parts have all completed.
pub(super) struct Fetched {
    /// Consumer of the result.
    pub waiter: Waiter,
    /// The range that the read stands for.
    pub missing: ObjectRange,
    /// Ancestors as they were when the read began.
    pub ancestors: Arc<[Header]>,
    /// The parts in the order of the missing range, or the first error.
    pub outcome: Result<AccessResult, Error>,
}

/// Ranges of the parent that show through a missing range.
fn shown(image: &Header, ancestors: &[Header], part: &ObjectRange) -> VecDeque<Range<u64>> {
    let header = match part.generation {
        0 => Some(image),
        number => ancestors.get(number - 1),
    };
    let Some(header) = header else { return VecDeque::new() };
    let shown = header.shown_by_parent(part.object).saturating_sub(part.offset);
    let length = part.length.min(shown);
    match ancestors.get(part.generation) {
        Some(_) => header.layout.ranges(part.object, part.offset, length).collect(),
        None => VecDeque::new(),
    }
}

impl ParentReads {
    /// Begins a read in place of an object that does not exist; `None` if the parent shows nothing there.
    pub fn begin(
        &mut self,
        image: &Header,
        waiter: Waiter,
        ancestors: Arc<[Header]>,
        missing: ObjectRange,
    ) -> Option<u64> {
        let rest = shown(image, &ancestors, &missing);
        if rest.is_empty() {
            return None;
        }
        let (parts, error, in_flight) = (Parts::new(), None, 0);
        let fetch = Fetch { waiter, missing, ancestors, rest, in_flight, parts, error };
        Some(self.0.insert(fetch))
    }

    /// Begins the next part, unless enough are in flight.
    pub fn next_part(&mut self, key: u64) -> Option<PartRead> {
        let fetch = self.0.get_mut(key)?;
        loop {
            if fetch.in_flight >= ACCESSES_MAX {
                return None;
            }
            let range = fetch.rest.pop_front()?;
            let generation = fetch.missing.generation + 1;
            let header = &fetch.ancestors[generation - 1];
            let mut extents = header.layout.extents(range.start, range.end - range.start);
            let Some(extent) = extents.next() else { continue };
            if range.start + extent.length < range.end {
                fetch.rest.push_front(range.start + extent.length..range.end);
            }
            let Extent { object, offset, length, .. } = extent;
            let is_map = fetch.missing.is_map;
            let range = ObjectRange { generation, object, offset, length, is_map };
            let (index, ancestors) = (fetch.parts.len(), fetch.ancestors.clone());
            fetch.parts.push((extent, AccessResult::Nothing));
            fetch.in_flight += 1;
            return Some(PartRead { waiter: Waiter::Fetch { key, index }, ancestors, range });
        }
    }

    /// Notes the result of a part; false if the read does not exist.
    pub fn part_completed(
        &mut self,
        key: u64,
        index: usize,
        found: Result<AccessResult, Error>,
    ) -> bool {
        let Some(fetch) = self.0.get_mut(key) else { return false };
        fetch.in_flight -= 1;
        match found {
            Ok(found) => fetch.parts[index].1 = found,
            Err(error) => {
                fetch.error = Some(error);
                fetch.rest.clear();
            }
        }
        true
    }

    /// Ends a read of which no part is in flight.
    pub fn end(&mut self, key: u64) -> Option<Fetched> {
        if self.0.get(key)?.in_flight > 0 {
            return None;
        }
        let Fetch { waiter, missing, ancestors, error, parts, .. } = self.0.remove(key)?;
        let outcome = match error {
            Some(error) => Err(error),
            None => Ok(AccessResult::Parts(parts)),
        };
        Some(Fetched { waiter, missing, ancestors, outcome })
    }

    /// True if no read is in flight.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Panics if the state contradicts itself.
    pub fn check_invariants(&self) {
        for (key, fetch) in self.0.iter() {
            let count = fetch.in_flight;
            assert!((1..=ACCESSES_MAX).contains(&count), "parent read {key} has {count} accesses");
        }
    }
}
