//! Reading what a clone has no objects for: from its parent, or from what that was cloned of.

use super::Image;
use super::access::{Action, Waiter};
use super::assemble::{Found, Parts};
use crate::{Error, Extent, Header};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Accesses of one fetch that are under way at the same time.
const ACCESSES_MAX: usize = 64;

/// A part of an object of an image or of one of its ancestors.
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

/// Ranges of an ancestor that are being read.
#[derive(Debug)]
pub(super) struct Fetch {
    waiter: Waiter,
    /// What had no object.
    missing: ObjectRange,
    /// As they were when it began.
    ancestors: Arc<[Header]>,
    /// Of the ancestor, not yet asked for.
    rest: VecDeque<Range<u64>>,
    under_way: usize,
    parts: Parts,
    error: Option<Error>,
}

impl Image {
    /// The header of the image or of an ancestor.
    fn generation<'a>(&'a self, ancestors: &'a [Header], generation: usize) -> Option<&'a Header> {
        match generation {
            0 => Some(&self.header),
            number => ancestors.get(number - 1),
        }
    }

    /// Where the image's parent, or an ancestor's, shows a part of an object that is not there.
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

    /// An object is not there: its parent's are read instead.
    pub(super) fn fall_through(
        &mut self,
        waiter: Waiter,
        ancestors: Arc<[Header]>,
        missing: ObjectRange,
    ) {
        let rest = self.shown(&ancestors, &missing);
        if rest.is_empty() {
            return self.deliver(waiter, Ok(Found::Nothing));
        }
        let (parts, error, under_way) = (Parts::new(), None, 0);
        let fetch = Fetch { waiter, missing, ancestors, rest, under_way, parts, error };
        let key = self.fetches.insert(fetch);
        self.go_on_fetching(key);
    }

    fn go_on_fetching(&mut self, key: u64) {
        loop {
            let Some(fetch) = self.fetches.get_mut(key) else { return };
            if fetch.under_way >= ACCESSES_MAX {
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
            fetch.parts.push((extent, Found::Nothing));
            fetch.under_way += 1;
            self.look_at(Waiter::Fetch { key, index }, ancestors, part);
        }
        if self.fetches.get(key).is_some_and(|fetch| fetch.under_way == 0) {
            self.end_fetch(key);
        }
    }

    /// One of the accesses of a fetch is over.
    pub(super) fn fetched(&mut self, key: u64, index: usize, found: Result<Found, Error>) {
        let Some(fetch) = self.fetches.get_mut(key) else { return };
        fetch.under_way -= 1;
        match found {
            Ok(found) => fetch.parts[index].1 = found,
            Err(error) => {
                fetch.error = Some(error);
                fetch.rest.clear();
            }
        }
        self.go_on_fetching(key);
    }

    fn end_fetch(&mut self, key: u64) {
        let Some(fetch) = self.fetches.remove(key) else { return };
        let is_outdated =
            fetch.missing.generation == 0 && !Arc::ptr_eq(&fetch.ancestors, &self.header.ancestors);
        match fetch.error {
            // The image may have become independent meanwhile, and its parent have gone.
            _ if is_outdated && fetch.waiter.is_request() => {
                self.look_at(fetch.waiter, self.header.ancestors.clone(), fetch.missing);
            }
            Some(error) => self.deliver(fetch.waiter, Err(error)),
            None => self.deliver(fetch.waiter, Ok(Found::Parts(fetch.parts))),
        }
    }
}
