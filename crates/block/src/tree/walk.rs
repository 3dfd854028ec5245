//! Walk over every page and pair, for a check of the whole store.
//!
//! Behind a damaged page the walk reports the lost keys and continues.

use super::flaw::PageFlaw;
use super::overflow::Overflow;
use super::page::{CellKind, Page};
use super::read::decode_overflow;
use super::reference::{PageRef, Root, Run, Top};
use super::want::{Absent, Want};
use crate::device::{Extent, ReadError};
use bytes::Bytes;
use std::collections::BTreeMap;
use thiserror::Error;

/// Bytes of a key that are shown.
const SHOWN_MAX: usize = 64;

/// Damage of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Finding {
    /// All keys of the tree from `first` to `end` (exclusive; `None`: all after it) are lost.
    #[error(
        "page {page} is damaged ({flaw}); keys from {} to {} are lost",
        show(first),
        show_end(end)
    )]
    Lost {
        /// The damaged page.
        page: u64,
        /// Damage of the page.
        flaw: PageFlaw,
        /// First lost key.
        first: Vec<u8>,
        /// First key after the lost ones.
        end: Option<Vec<u8>>,
    },
    /// A value beside its page is damaged.
    #[error("the value of key {} is lost: page {page} is damaged ({flaw})", show(key))]
    ValueLost {
        /// First page of the damaged run.
        page: u64,
        /// Damage of the run.
        flaw: PageFlaw,
        /// Key of the value.
        key: Vec<u8>,
    },
    /// Two references lead to a page.
    #[error("page {page} is used more than once")]
    UsedTwice {
        /// The page.
        page: u64,
    },
    /// A key is outside of the range of its page, or not greater than the one before it.
    #[error("key {} in page {page} is not where it belongs", show(key))]
    Misplaced {
        /// Page of the key.
        page: u64,
        /// The key.
        key: Vec<u8>,
    },
    /// A sum in the root is wrong.
    #[error("the tree has {found} {what} where its root says {expected}")]
    Sum {
        /// Name of the sum, in plural: pairs, pages, …
        what: &'static str,
        /// Number in the root.
        expected: u64,
        /// Number that the walk has counted.
        found: u64,
    },
}

/// The beginning of a key as text.
fn show(key: &[u8]) -> String {
    let more = if key.len() > SHOWN_MAX { "…" } else { "" };
    format!("'{}{more}'", key[..key.len().min(SHOWN_MAX)].escape_ascii())
}

fn show_end(end: &Option<Vec<u8>>) -> String {
    end.as_deref().map_or("the end".to_owned(), show)
}

/// Callbacks of a walk.
pub struct Visitor<'a> {
    /// Reads adjacent pages.
    pub read: &'a mut dyn FnMut(u64, u32) -> Result<Bytes, ReadError>,
    /// Receives every pair, in order.
    pub pair: &'a mut dyn FnMut(&[u8], &Bytes),
    /// Receives the pages in use, each once.
    pub pages: &'a mut dyn FnMut(Extent),
}

/// Checks every page and pair of a tree.
pub fn walk(root: Option<&Root>, visitor: Visitor<'_>) -> Vec<Finding> {
    let Some(root) = root else { return Vec::new() };
    let (findings, used) = (Vec::new(), BTreeMap::new());
    let mut walk = Walk { visitor, findings, used, pairs: 0, bytes: 0, pages: 0, inner_pages: 0 };
    walk.top(root.top(), &mut Vec::new());
    if walk.findings.is_empty() {
        walk.check_sum("pairs", root.pairs, walk.pairs);
        walk.check_sum("bytes", root.bytes, walk.bytes);
        walk.check_sum("pages", root.pages, walk.pages);
        walk.check_sum("inner pages", root.inner_pages, walk.inner_pages);
    }
    walk.findings
}

struct Walk<'a> {
    visitor: Visitor<'a>,
    findings: Vec<Finding>,
    /// Extents in use, start to end; adjacent ones are merged.
    used: BTreeMap<u64, u64>,
    pairs: u64,
    bytes: u64,
    pages: u64,
    inner_pages: u64,
}

impl Walk<'_> {
    fn check_sum(&mut self, what: &'static str, expected: u64, found: u64) {
        if expected != found {
            self.findings.push(Finding::Sum { what, expected, found });
        }
    }

    fn top(&mut self, top: Top, prefix: &mut Vec<u8>) {
        self.page(top.page, top.height - 1, prefix, &[], None);
    }

    /// Walks a page whose keys are in `lower..upper`, all without `prefix`.
    fn page(
        &mut self,
        reference: PageRef,
        level: u8,
        prefix: &mut Vec<u8>,
        lower: &[u8],
        upper: Option<&[u8]>,
    ) {
        match self.read(Want::page(reference, level)) {
            Ok(raw) => {
                let page = Page::checked_before(raw);
                self.check_keys(&page, reference.page, lower, upper);
                match level {
                    0 => self.leaf(&page, prefix),
                    _ => self.children(&page, prefix, lower, upper),
                }
            }
            Err(flaw) => {
                let first = [prefix.as_slice(), lower].concat();
                let end = match upper {
                    Some(upper) => Some([prefix.as_slice(), upper].concat()),
                    None => super::apply::successor(prefix),
                };
                self.findings.push(Finding::Lost { page: reference.page, flaw, first, end });
            }
        }
    }

    fn check_keys(&mut self, page: &Page, number: u64, lower: &[u8], upper: Option<&[u8]>) {
        let first = usize::from(page.level() > 0);
        for index in first..page.len() {
            let key = page.key(index);
            let above = if first == 0 { key.as_slice() >= lower } else { key.as_slice() > lower };
            if !above || upper.is_some_and(|upper| key.as_slice() >= upper) {
                self.findings.push(Finding::Misplaced { page: number, key });
            }
        }
    }

    fn children(&mut self, page: &Page, prefix: &mut Vec<u8>, lower: &[u8], upper: Option<&[u8]>) {
        let mut first = lower.to_vec();
        for index in 0..page.len() {
            let next = (index + 1 < page.len()).then(|| page.key(index + 1));
            let end = next.as_deref().or(upper);
            self.page(page.child(index), page.level() - 1, prefix, &first, end);
            first = next.unwrap_or_default();
        }
    }

    fn leaf(&mut self, page: &Page, prefix: &mut Vec<u8>) {
        for index in 0..page.len() {
            let length = prefix.len();
            prefix.extend_from_slice(&page.key(index));
            let entry = page.entry(index);
            match entry.kind {
                CellKind::Layer => self.top(Top::from_bytes(entry.cell), prefix),
                CellKind::Overflow => self.overflow(prefix, &decode_overflow(entry.cell)),
                _ => self.pair(prefix, &page.cell_bytes(index)),
            }
            prefix.truncate(length);
        }
    }

    fn overflow(&mut self, key: &[u8], overflow: &Overflow) {
        match self.overflow_value(overflow) {
            Ok(value) => self.pair(key, &value),
            Err(Absent::Damaged { page, flaw }) => {
                self.findings.push(Finding::ValueLost { page, flaw, key: key.to_vec() });
            }
            Err(Absent::Missing(_)) => unreachable!("a walk reads what it needs"),
        }
    }

    fn overflow_value(&mut self, overflow: &Overflow) -> Result<Bytes, Absent> {
        let mut raw = self.runs(&overflow.runs)?;
        if overflow.listed {
            let page = overflow.runs[0].page;
            let runs = overflow.runs_in_list(&raw);
            raw = self.runs(&runs.map_err(|flaw| Absent::Damaged { page, flaw })?)?;
        }
        Ok(Bytes::from(raw).slice(..overflow.length as usize))
    }

    fn runs(&mut self, runs: &[Run]) -> Result<Vec<u8>, Absent> {
        let mut raw = Vec::new();
        for run in runs {
            let part = self.read(Want::run(run));
            raw.extend_from_slice(&part.map_err(|flaw| Absent::Damaged { page: run.page, flaw })?);
        }
        Ok(raw)
    }

    fn pair(&mut self, key: &[u8], value: &Bytes) {
        self.pairs += 1;
        self.bytes += (key.len() + value.len()) as u64;
        (self.visitor.pair)(key, value);
    }

    fn read(&mut self, want: Want) -> Result<Bytes, PageFlaw> {
        if self.note_use(want.page, want.page + u64::from(want.pages)) {
            self.pages += u64::from(want.pages);
            self.inner_pages += u64::from(want.level.is_some_and(|level| level > 0));
            (self.visitor.pages)(Extent::new(want.page, want.pages.into()));
        } else {
            self.findings.push(Finding::UsedTwice { page: want.page });
        }
        let bytes = (self.visitor.read)(want.page, want.pages).map_err(PageFlaw::Unreadable)?;
        want.check(&bytes)?;
        Ok(bytes)
    }

    /// Notes pages in use; false if some of them are in use already.
    fn note_use(&mut self, start: u64, end: u64) -> bool {
        let before = self.used.range(..end).next_back().map(|(start, end)| (*start, *end));
        if before.is_some_and(|(_, before_end)| before_end > start) {
            return false;
        }
        let start = match before {
            Some((before_start, before_end)) if before_end == start => before_start,
            _ => start,
        };
        let end = self.used.remove(&end).unwrap_or(end);
        self.used.insert(start, end);
        true
    }
}
