//! Reads of a clone's missing objects from its ancestors.

use super::Image;
use super::access::{Action, Waiter};
use super::assemble::{AccessResult, Parts};
use crate::{Error, Extent, Header};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Concurrent accesses of one parent read. Further ranges wait.
const ACCESSES_MAX: usize = 64;

/// A range of an object of the image or of one of its ancestors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ObjectRange {
    /// 0: the image, 1: its parent, and so on.
    pub generation: usize,
    pub object: u64,
    pub offset: u64,
    pub length: u64,
    pub is_map: bool,
}

impl ObjectRange {
    pub fn action(&self) -> Action {
        let ObjectRange { offset, length, .. } = *self;
        match self.is_map {
            true => Action::Map { offset, length },
            false => Action::Read { offset, length },
        }
    }
}

/// A read of ranges of an ancestor.
#[derive(Debug)]
pub(super) struct Fetch {
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

impl Image {
    /// The header of the image (generation 0) or of an ancestor.
    fn generation<'a>(&'a self, ancestors: &'a [Header], generation: usize) -> Option<&'a Header> {
        match generation {
            0 => Some(&self.header),
            number => ancestors.get(number - 1),
        }
    }

    /// Ranges of the parent that show through a missing range.
    fn shown(&self, ancestors: &[Header], part: &ObjectRange) -> VecDeque<Range<u64>> {
        let Some(header) = self.generation(ancestors, part.generation) else {
            return VecDeque::new();
        };
        let shown = header.shown_by_parent(part.object).saturating_sub(part.offset);
        let length = part.length.min(shown);
        match ancestors.get(part.generation) {
            Some(_) => header.layout.ranges(part.object, part.offset, length).collect(),
            None => VecDeque::new(),
        }
    }

    /// Reads the parent in place of an object that does not exist.
    pub(super) fn read_from_parent(
        &mut self,
        waiter: Waiter,
        ancestors: Arc<[Header]>,
        missing: ObjectRange,
    ) {
        let rest = self.shown(&ancestors, &missing);
        if rest.is_empty() {
            return self.deliver(waiter, Ok(AccessResult::Nothing));
        }
        let (parts, error, in_flight) = (Parts::new(), None, 0);
        let fetch = Fetch { waiter, missing, ancestors, rest, in_flight, parts, error };
        let key = self.fetches.insert(fetch);
        self.continue_fetch(key);
    }

    fn continue_fetch(&mut self, key: u64) {
        loop {
            let Some(fetch) = self.fetches.get_mut(key) else { return };
            if fetch.in_flight >= ACCESSES_MAX {
                return;
            }
            let Some(range) = fetch.rest.pop_front() else { break };
            let generation = fetch.missing.generation + 1;
            let header = &fetch.ancestors[generation - 1];
            let mut extents = header.layout.extents(range.start, range.end - range.start);
            let Some(extent) = extents.next() else { continue };
            if range.start + extent.length < range.end {
                fetch.rest.push_front(range.start + extent.length..range.end);
            }
            let Extent { object, offset, length, .. } = extent;
            let part =
                ObjectRange { generation, object, offset, length, is_map: fetch.missing.is_map };
            let (index, ancestors) = (fetch.parts.len(), fetch.ancestors.clone());
            fetch.parts.push((extent, AccessResult::Nothing));
            fetch.in_flight += 1;
            self.begin_read(Waiter::Fetch { key, index }, ancestors, part);
        }
        if self.fetches.get(key).is_some_and(|fetch| fetch.in_flight == 0) {
            self.end_fetch(key);
        }
    }

    /// One access of a parent read has completed.
    pub(super) fn fetched(&mut self, key: u64, index: usize, found: Result<AccessResult, Error>) {
        let Some(fetch) = self.fetches.get_mut(key) else { return };
        fetch.in_flight -= 1;
        match found {
            Ok(found) => fetch.parts[index].1 = found,
            Err(error) => {
                fetch.error = Some(error);
                fetch.rest.clear();
            }
        }
        self.continue_fetch(key);
    }

    fn end_fetch(&mut self, key: u64) {
        let Some(fetch) = self.fetches.remove(key) else { return };
        let is_outdated =
            fetch.missing.generation == 0 && !Arc::ptr_eq(&fetch.ancestors, &self.header.ancestors);
        match fetch.error {
            // A flatten may have run meanwhile, and the parent may have been removed.
            _ if is_outdated && fetch.waiter.is_request() => {
                self.begin_read(fetch.waiter, self.header.ancestors.clone(), fetch.missing);
            }
            Some(error) => self.deliver(fetch.waiter, Err(error)),
            None => self.deliver(fetch.waiter, Ok(AccessResult::Parts(fetch.parts))),
        }
    }
}
