//! A page of the tree as it lies on the device, searched in place.
//!
//! A page is validated as a whole when it is read ([`Page::check`]); its accessors rely on that.
//! The common prefix of all keys of a page is stored once. The first key of an inner page is not
//! stored: every key below the second one belongs to the first child.

use super::flaw::PageFlaw;
use super::overflow::Overflow;
use super::reference::{PageRef, Top};
use crate::device::BLOCK;
use bytes::Bytes;
use std::cmp::Ordering;

/// Keys of at least this many bytes are cut: the rest of all keys with the same first bytes lies in
/// a tree of its own, whose top is the value of those first bytes.
pub const KEY_LEN_MAX: usize = 1000;
pub(super) const HEADER: usize = 24;
/// Bytes of an entry's slot, and of the head before its key.
pub(super) const SLOT: usize = 2;
pub(super) const HEAD: usize = 2;
/// Maximum length of an entry without its slot, so that a page holds at least three.
pub(super) const ENTRY_MAX: usize = (BLOCK - HEADER) / 3 - SLOT;

/// Set if a pair of these lengths has its value inline.
pub(super) fn is_inline(key: usize, value: usize) -> bool {
    HEAD + key + value <= ENTRY_MAX
}

const LEAF: u8 = 1;
const INNER: u8 = 2;
const SUFFIX_MASK: u16 = 0x0fff;
const KIND_SHIFT: u32 = 12;

const _: () = assert!(KEY_LEN_MAX <= SUFFIX_MASK as usize);
const _: () = assert!(HEAD + KEY_LEN_MAX + 6 + 16 * super::overflow::RUNS_MAX <= ENTRY_MAX);

/// Kind of the bytes after a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CellKind {
    /// The value.
    Inline = 0,
    /// An [`Overflow`].
    Overflow = 1,
    /// The [`Top`] of the tree that continues keys of at least [`KEY_LEN_MAX`] bytes.
    Layer = 2,
    /// The [`PageRef`] of a child.
    Child = 3,
}

impl CellKind {
    fn from_head(head: u16) -> Option<Self> {
        Some(match head >> KIND_SHIFT {
            0 => CellKind::Inline,
            1 => CellKind::Overflow,
            2 => CellKind::Layer,
            3 => CellKind::Child,
            _ => return None,
        })
    }
}

pub(super) fn entry_head(suffix: usize, kind: CellKind) -> u16 {
    suffix as u16 | (kind as u16) << KIND_SHIFT
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'a> {
    /// The key without the page's prefix.
    pub suffix: &'a [u8],
    /// Meaning of the cell.
    pub kind: CellKind,
    /// Value, child or reference, by its kind.
    pub cell: &'a [u8],
}

/// A page with a validated layout.
#[derive(Debug, Clone)]
pub(super) struct Page {
    bytes: Bytes,
}

impl Page {
    /// Wraps bytes that [`Page::check`] accepted before.
    pub(super) fn checked_before(bytes: Bytes) -> Self {
        Page { bytes }
    }

    /// Validates everything but the checksum: identity of the page, offsets and lengths within
    /// bounds, ascending keys.
    pub(super) fn check(bytes: Bytes, number: u64, level: u8) -> Result<Self, PageFlaw> {
        if bytes.len() != BLOCK {
            return Err(PageFlaw::Length { expected: BLOCK, found: bytes.len() });
        }
        let page = Page { bytes };
        page.check_header(number, level)?;
        page.check_slots()?;
        for index in 0..page.len() {
            page.check_entry(index)?;
        }
        Ok(page)
    }

    fn check_header(&self, number: u64, level: u8) -> Result<(), PageFlaw> {
        let expected = if level == 0 { LEAF } else { INNER };
        if self.bytes[0] != expected {
            return Err(PageFlaw::Layout("kind"));
        }
        if self.bytes[1] != level {
            return Err(PageFlaw::Level { expected: level, found: self.bytes[1] });
        }
        let found = self.number();
        if found != number {
            return Err(PageFlaw::Number { found });
        }
        let (end, start) = (self.end(), self.entries_start());
        if self.len() == 0 || start > end || end > BLOCK || self.prefix_length() > KEY_LEN_MAX {
            return Err(PageFlaw::Layout("header"));
        }
        Ok(())
    }

    fn check_slots(&self) -> Result<(), PageFlaw> {
        if self.slot(0) != self.entries_start() {
            return Err(PageFlaw::Layout("first slot"));
        }
        let within = |index| {
            let (start, end) = (self.slot(index), self.slot(index + 1));
            start + HEAD <= end && start + HEAD + self.suffix_length(start) <= end
        };
        // In order, so that no slot is used before it is known to lie within the page.
        for index in 0..self.len() {
            if self.slot(index + 1) > self.end() || !within(index) {
                return Err(PageFlaw::Layout("slot"));
            }
        }
        Ok(())
    }

    fn check_entry(&self, index: usize) -> Result<(), PageFlaw> {
        let head = self.u16_at(self.slot(index));
        let kind = CellKind::from_head(head).ok_or(PageFlaw::Layout("kind of a cell"))?;
        let entry = self.entry(index);
        let key_length = self.prefix_length() + entry.suffix.len();
        let fits = match kind {
            CellKind::Inline => key_length < KEY_LEN_MAX,
            CellKind::Overflow => {
                Overflow::from_bytes(entry.cell)?;
                key_length < KEY_LEN_MAX
            }
            CellKind::Layer => {
                key_length == KEY_LEN_MAX
                    && entry.cell.len() == Top::BYTES
                    && Top::from_bytes(entry.cell).height > 0
            }
            CellKind::Child => key_length <= KEY_LEN_MAX && entry.cell.len() == PageRef::BYTES,
        };
        if !fits || (kind == CellKind::Child) != (self.level() > 0) {
            return Err(PageFlaw::Layout("cell"));
        }
        let first = if self.level() > 0 { 1 } else { 0 };
        if index > first && self.entry(index - 1).suffix >= entry.suffix {
            return Err(PageFlaw::Layout("order of keys"));
        }
        Ok(())
    }

    pub(super) fn level(&self) -> u8 {
        self.bytes[1]
    }

    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        usize::from(self.u16_at(2))
    }

    fn number(&self) -> u64 {
        u64::from_le_bytes(self.bytes[8..16].try_into().expect("eight bytes"))
    }

    fn prefix_length(&self) -> usize {
        usize::from(self.u16_at(4))
    }

    fn end(&self) -> usize {
        usize::from(self.u16_at(6))
    }

    fn entries_start(&self) -> usize {
        HEADER + SLOT * self.len() + self.prefix_length()
    }

    fn u16_at(&self, offset: usize) -> u16 {
        u16::from_le_bytes([self.bytes[offset], self.bytes[offset + 1]])
    }

    /// Start of an entry; for the index after the last one, the end of the entries.
    fn slot(&self, index: usize) -> usize {
        if index == self.len() {
            return self.end();
        }
        usize::from(self.u16_at(HEADER + SLOT * index))
    }

    fn suffix_length(&self, start: usize) -> usize {
        usize::from(self.u16_at(start) & SUFFIX_MASK)
    }

    pub(super) fn prefix(&self) -> &[u8] {
        let end = self.entries_start();
        &self.bytes[end - self.prefix_length()..end]
    }

    fn suffix(&self, index: usize) -> &[u8] {
        let start = self.slot(index);
        &self.bytes[start + HEAD..start + HEAD + self.suffix_length(start)]
    }

    pub(super) fn entry(&self, index: usize) -> Entry<'_> {
        let (start, end) = (self.slot(index), self.slot(index + 1));
        let key_end = start + HEAD + self.suffix_length(start);
        Entry {
            suffix: &self.bytes[start + HEAD..key_end],
            kind: CellKind::from_head(self.u16_at(start)).unwrap_or(CellKind::Inline),
            cell: &self.bytes[key_end..end],
        }
    }

    /// The bytes of an entry's cell, sharing the page's memory.
    pub(super) fn cell_bytes(&self, index: usize) -> Bytes {
        self.bytes.slice_ref(self.entry(index).cell)
    }

    pub(super) fn child(&self, index: usize) -> PageRef {
        PageRef::from_bytes(self.entry(index).cell)
    }

    /// The whole key of an entry.
    pub(super) fn key(&self, index: usize) -> Vec<u8> {
        let (prefix, suffix) = (self.prefix(), self.suffix(index));
        let mut key = Vec::with_capacity(prefix.len() + suffix.len());
        key.extend_from_slice(prefix);
        key.extend_from_slice(suffix);
        key
    }

    /// Index of the key in a leaf (`Ok`), or where it would be inserted (`Err`).
    pub(super) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        self.search_from(0, key)
    }

    /// Index of the child whose range contains the key.
    pub(super) fn child_index(&self, key: &[u8]) -> usize {
        match self.search_from(1, key) {
            Ok(index) => index,
            Err(index) => index - 1,
        }
    }

    fn search_from(&self, first: usize, key: &[u8]) -> Result<usize, usize> {
        let prefix = self.prefix();
        let Some(rest) = key.strip_prefix(prefix) else {
            return Err(if key < prefix { first } else { self.len().max(first) });
        };
        let (mut low, mut high) = (first, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.suffix(middle).cmp(rest) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }
}

/// Writes the header of a page.
pub(super) fn write_header(
    raw: &mut [u8],
    level: u8,
    entries: usize,
    prefix: usize,
    end: usize,
    number: u64,
    checkpoint: u64,
) {
    raw[0] = if level == 0 { LEAF } else { INNER };
    raw[1] = level;
    raw[2..4].copy_from_slice(&(entries as u16).to_le_bytes());
    raw[4..6].copy_from_slice(&(prefix as u16).to_le_bytes());
    raw[6..8].copy_from_slice(&(end as u16).to_le_bytes());
    raw[8..16].copy_from_slice(&number.to_le_bytes());
    raw[16..24].copy_from_slice(&checkpoint.to_le_bytes());
}
