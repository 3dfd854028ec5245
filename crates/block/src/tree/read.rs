//! Lookups of keys, and scans of key ranges.

use super::cached::Tree;
use super::overflow::Overflow;
use super::page::{CellKind, KEY_LEN_MAX, Page};
use super::reference::{Run, Top};
use super::want::{Absent, Fault, Want};
use crate::device::BLOCK;
use bytes::{Bytes, BytesMut};
use std::ops::Bound;

/// Maximum number of leaves that a scan requests at once.
const READAHEAD_MAX: usize = 32;
/// Assumed number of pairs of a leaf, to estimate how many leaves a scan needs.
const LEAF_PAIRS: usize = 8;
const LEAF_BYTES: usize = 2048;

/// A part of a range, in order of keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScanPage {
    /// Not empty if there is more. Values may share the memory of whole pages.
    pub pairs: Vec<(Bytes, Bytes)>,
    /// Set if there is more in the range, from the last key on. That need not mean that a limit was
    /// reached: pairs that required a read are left to the next call.
    pub more: bool,
}

impl Tree {
    /// The value of a key. It may share the memory of a whole page.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        let result = self.find(key);
        self.settle(result)
    }

    /// Pairs from `from` to `end` (exclusive), until there are `entries_max`, or `bytes_max` of
    /// keys and values are exceeded.
    pub fn scan(
        &mut self,
        from: Bound<&[u8]>,
        end: &[u8],
        entries_max: usize,
        bytes_max: usize,
    ) -> Result<ScanPage, Fault> {
        let start = match from {
            Bound::Unbounded => Vec::new(),
            Bound::Included(key) => key.to_vec(),
            Bound::Excluded(key) => [key, &[0]].concat(),
        };
        let mut scan = Scan { page: ScanPage::default(), entries_max, bytes_max, bytes: 0 };
        let result = match self.root() {
            Some(root) if entries_max > 0 => {
                self.scan_layer(root.top(), &mut Vec::new(), &start, Some(end), &mut scan)
            }
            _ => Ok(Flow::Exhausted),
        };
        let result = match result {
            // A part of a scan is worth more than repeating all of it.
            Err(Absent::Missing(_)) if !scan.page.pairs.is_empty() => Ok(Flow::Full),
            result => result,
        };
        self.settle(result).map(|flow| {
            scan.page.more = flow == Flow::Full;
            scan.page
        })
    }

    fn find(&mut self, key: &[u8]) -> Result<Option<Bytes>, Absent> {
        let Some(root) = self.root() else { return Ok(None) };
        let (mut top, mut rest) = (root.top(), key);
        loop {
            let page_key = page_key(rest);
            let leaf = self.descend(top, page_key)?;
            let Ok(index) = leaf.search(page_key) else { return Ok(None) };
            match leaf.entry(index).kind {
                CellKind::Layer => {
                    top = Top::from_bytes(leaf.entry(index).cell);
                    rest = &rest[KEY_LEN_MAX..];
                }
                _ => return self.value(&leaf, index).map(Some),
            }
        }
    }

    fn descend(&mut self, top: Top, page_key: &[u8]) -> Result<Page, Absent> {
        let mut page = self.fetch_page(top.page, top.height - 1)?;
        while page.level() > 0 {
            let child = page.child(page.child_index(page_key));
            page = self.fetch_page(child, page.level() - 1)?;
        }
        Ok(page)
    }

    fn value(&mut self, leaf: &Page, index: usize) -> Result<Bytes, Absent> {
        let entry = leaf.entry(index);
        match entry.kind {
            CellKind::Overflow => {
                let overflow = decode_overflow(entry.cell);
                self.overflow_value(&overflow)
            }
            _ => Ok(leaf.cell_bytes(index)),
        }
    }

    fn overflow_value(&mut self, overflow: &Overflow) -> Result<Bytes, Absent> {
        let raw = self.fetch_runs(&overflow.runs)?;
        let raw = match overflow.listed {
            false => raw,
            true => {
                let list = overflow.runs_in_list(&raw);
                let page = overflow.runs[0].page;
                self.fetch_runs(&list.map_err(|flaw| Absent::Damaged { page, flaw })?)?
            }
        };
        Ok(raw.slice(..overflow.length as usize))
    }

    /// Concatenated bytes of all runs. Missing runs are reported all at once.
    pub(super) fn fetch_runs(&mut self, runs: &[Run]) -> Result<Bytes, Absent> {
        if let [run] = runs {
            return self.fetch(Want::run(run));
        }
        let mut missing = Vec::new();
        let mut raw = BytesMut::new();
        for run in runs {
            match self.fetch(Want::run(run)) {
                Ok(bytes) => raw.extend_from_slice(&bytes),
                Err(Absent::Missing(wants)) => missing.extend(wants),
                Err(damaged) => return Err(damaged),
            }
        }
        if missing.is_empty() { Ok(raw.freeze()) } else { Err(Absent::Missing(missing)) }
    }

    /// Scans one layer, whose keys all continue `prefix`; `from` and `end` are without it.
    fn scan_layer(
        &mut self,
        top: Top,
        prefix: &mut Vec<u8>,
        from: &[u8],
        end: Option<&[u8]>,
        scan: &mut Scan,
    ) -> Result<Flow, Absent> {
        let mut position = from.to_vec();
        loop {
            let (leaf, upper) = self.descend_ahead(top, page_key(&position), end, scan)?;
            let (Ok(first) | Err(first)) = leaf.search(page_key(&position));
            for index in first..leaf.len() {
                let flow = self.scan_entry(&leaf, index, prefix, &position, end, scan)?;
                if flow != Flow::Onward {
                    return Ok(flow);
                }
            }
            match upper {
                Some(upper) if end.is_none_or(|end| upper.as_slice() < end) => position = upper,
                _ => return Ok(Flow::Exhausted),
            }
        }
    }

    fn scan_entry(
        &mut self,
        leaf: &Page,
        index: usize,
        prefix: &mut Vec<u8>,
        position: &[u8],
        end: Option<&[u8]>,
        scan: &mut Scan,
    ) -> Result<Flow, Absent> {
        let key = leaf.key(index);
        if end.is_some_and(|end| key.as_slice() >= end) {
            return Ok(Flow::Exhausted);
        }
        if leaf.entry(index).kind != CellKind::Layer {
            if scan.is_full() {
                return Ok(Flow::Full);
            }
            let value = self.value(leaf, index)?;
            scan.push([prefix.as_slice(), &key].concat(), value);
            return Ok(Flow::Onward);
        }
        let top = Top::from_bytes(leaf.entry(index).cell);
        let from = position.strip_prefix(key.as_slice()).unwrap_or_default();
        let end = end.and_then(|end| end.strip_prefix(key.as_slice()));
        let length = prefix.len();
        prefix.extend_from_slice(&key);
        let flow = self.scan_layer(top, prefix, from, end, scan);
        prefix.truncate(length);
        // If the layer continues beyond the end, so does everything after the layer.
        flow.map(|flow| if flow == Flow::Exhausted && end.is_none() { Flow::Onward } else { flow })
    }

    /// The leaf that contains `key`, and where the next leaf begins. If the leaf is missing, the
    /// following leaves that the scan needs are reported as missing, too.
    fn descend_ahead(
        &mut self,
        top: Top,
        page_key: &[u8],
        end: Option<&[u8]>,
        scan: &Scan,
    ) -> Result<(Page, Option<Vec<u8>>), Absent> {
        let mut upper = None;
        let mut page = self.fetch_page(top.page, top.height - 1)?;
        while page.level() > 0 {
            let index = page.child_index(page_key);
            let level = page.level() - 1;
            let child = match self.fetch_page(page.child(index), level) {
                Err(Absent::Missing(mut wants)) if level == 0 => {
                    self.want_siblings(&page, index, end, scan.leaves_left(), &mut wants);
                    return Err(Absent::Missing(wants));
                }
                child => child?,
            };
            if index + 1 < page.len() {
                upper = Some(page.key(index + 1));
            }
            page = child;
        }
        Ok((page, upper))
    }

    fn want_siblings(
        &self,
        parent: &Page,
        index: usize,
        end: Option<&[u8]>,
        leaves: usize,
        wants: &mut Vec<Want>,
    ) {
        for sibling in (index + 1..parent.len()).take(leaves.saturating_sub(1)) {
            if end.is_some_and(|end| parent.key(sibling).as_slice() >= end) {
                break;
            }
            let want = Want::page(parent.child(sibling), 0);
            if self.lacks(&want) {
                wants.push(want);
            }
        }
    }
}

/// Part of a key that the pages of its layer hold.
pub(super) fn page_key(key: &[u8]) -> &[u8] {
    &key[..key.len().min(KEY_LEN_MAX)]
}

/// Decodes a cell of a validated page.
pub(super) fn decode_overflow(cell: &[u8]) -> Overflow {
    Overflow::from_bytes(cell).expect("checked when the page was read")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Onward,
    /// The range has no more pairs.
    Exhausted,
    /// The range has more pairs than are wanted.
    Full,
}

struct Scan {
    page: ScanPage,
    entries_max: usize,
    bytes_max: usize,
    bytes: usize,
}

impl Scan {
    fn is_full(&self) -> bool {
        self.page.pairs.len() >= self.entries_max || self.bytes > self.bytes_max
    }

    fn push(&mut self, key: Vec<u8>, value: Bytes) {
        self.bytes += key.len() + value.len();
        self.page.pairs.push((key.into(), value));
    }

    /// Estimate of the number of leaves that the rest of the scan needs.
    fn leaves_left(&self) -> usize {
        let by_entries = (self.entries_max - self.page.pairs.len()) / LEAF_PAIRS + 1;
        let by_bytes = self.bytes_max.saturating_sub(self.bytes) / LEAF_BYTES.min(BLOCK) + 1;
        by_entries.min(by_bytes).min(READAHEAD_MAX)
    }
}
