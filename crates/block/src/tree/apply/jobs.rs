//! Pages to be freed: a stack of jobs.

use super::output::Totals;
use crate::tree::overflow::Overflow;
use crate::tree::reference::PageRef;
use crate::tree::want::Want;

/// The first byte of a layer's keys, as far as totals depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct KeyBase {
    length: usize,
    first: Option<u8>,
}

impl KeyBase {
    pub(super) fn of(prefix: &[u8]) -> Self {
        KeyBase { length: prefix.len(), first: prefix.first().copied() }
    }

    /// Totals of one pair of the layer.
    pub(super) fn pair(&self, key_first: Option<u8>, key: usize, value: usize) -> Totals {
        Totals::pair(self.first.or(key_first), self.length + key, value)
    }

    pub(super) fn below(&self, key_first: Option<u8>, key: usize) -> Self {
        KeyBase { length: self.length + key, first: self.first.or(key_first) }
    }
}

#[derive(Debug)]
pub(super) enum Job {
    Page { page: PageRef, level: u8, base: KeyBase },
    List(Overflow),
}

impl Job {
    /// Adds the pages that the job must read.
    pub fn wants(&self, wants: &mut Vec<Want>) {
        match self {
            Job::Page { page, level, .. } => wants.push(Want::page(*page, *level)),
            Job::List(overflow) => wants.extend(overflow.runs.iter().map(Want::run)),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Release {
    /// A stack.
    pub jobs: Vec<Job>,
}

impl Release {
    pub(super) fn page(&mut self, page: PageRef, level: u8, base: KeyBase) {
        self.jobs.push(Job::Page { page, level, base });
    }
}
