//! Output of applying a table: pages to write, pages to free, totals.

use super::{ApplyError, CHANGES_PER_PAGE, Context, Totals};
use crate::device::{BLOCK, Extent};
use crate::tree::builder::Builder;
use crate::tree::overflow::{Overflow, RUNS_MAX, VALUE_MAX, pages_for};
use crate::tree::page::{ENTRY_MAX, HEAD, KEY_LEN_MAX};
use crate::tree::reference::{PageRef, Run, Top};
use bytes::Bytes;
use smallvec::SmallVec;
use std::collections::VecDeque;
use stdx::AlignedBuffer;

/// Longer overflow runs are not cached when they are written, in bytes.
const CACHED_RUN_MAX: usize = 4 * BLOCK;

#[derive(Debug)]
pub(super) struct Output {
    checkpoint: u64,
    /// Set for a dry run: pages are only counted.
    pub is_dry_run: bool,
    pub writes: VecDeque<(u64, Bytes)>,
    pub freed: Vec<Extent>,
    pub pages_written: u64,
    pub pages_freed: u64,
    pub totals: Totals,
    /// Inner pages written less those freed.
    pub inner_pages: i64,
    /// Maximum height of a layer below the first.
    pub height_below: u8,
    /// Longest key that was put into a page, in bytes.
    pub longest: usize,
    /// Pages that were read and kept.
    pub pages_seen: u64,
    /// Changes that were merged.
    pub changes_merged: u64,
    /// Amount of work at which the step ends.
    exhausted_at: u64,
}

impl Output {
    pub(super) fn new(checkpoint: u64) -> Self {
        Output {
            checkpoint,
            is_dry_run: false,
            writes: VecDeque::new(),
            freed: Vec::new(),
            pages_written: 0,
            pages_freed: 0,
            totals: Totals::default(),
            inner_pages: 0,
            height_below: 0,
            longest: 0,
            pages_seen: 0,
            changes_merged: 0,
            exhausted_at: 0,
        }
    }

    pub(super) fn start_step(&mut self, budget: usize) {
        self.exhausted_at = self.work().saturating_add(budget.max(1) as u64);
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.work() >= self.exhausted_at
    }

    pub(super) fn work(&self) -> u64 {
        let pages = self.pages_written + self.pages_freed + self.pages_seen;
        pages + self.changes_merged / CHANGES_PER_PAGE
    }

    /// Notes the height of a layer below the first.
    pub(super) fn note_layer(&mut self, top: Option<Top>) {
        self.height_below = self.height_below.max(top.map_or(0, |top| top.height));
        self.longest = KEY_LEN_MAX;
    }

    pub(super) fn free_page(&mut self, page: u64, level: u8) {
        self.inner_pages -= i64::from(level > 0);
        self.free(page, 1);
    }

    pub(super) fn free(&mut self, start: u64, count: u64) {
        self.pages_freed += count;
        match self.freed.last_mut() {
            Some(last) if last.end() == start => last.count += count,
            _ => self.freed.push(Extent::new(start, count)),
        }
    }

    fn write(&mut self, page: u64, bytes: Bytes) {
        self.pages_written += (bytes.len() / BLOCK) as u64;
        self.writes.push_back((page, bytes));
    }
}

/// Writes the first entries of a builder as a page of its level.
pub(super) fn write_page(
    context: &mut Context<'_>,
    builder: &Builder,
    level: u8,
    entries: usize,
) -> Result<PageRef, ApplyError> {
    let page = context.pages.allocate().ok_or(ApplyError::NoSpace)?;
    context.output.inner_pages += i64::from(level > 0);
    if context.output.is_dry_run {
        context.output.pages_written += 1;
        return Ok(PageRef { page, crc: 0 });
    }
    let bytes = Bytes::from(builder.build(entries, page, context.output.checkpoint));
    let crc = crc_fast::crc32_iscsi(&bytes);
    context.tree.cache.insert_written(page, crc, Some(level), bytes.clone());
    context.output.write(page, bytes);
    Ok(PageRef { page, crc })
}

/// Set if a pair of these lengths has its value inline.
pub(in crate::tree) fn is_inline(key: usize, value: usize) -> bool {
    HEAD + key + value <= ENTRY_MAX
}

/// Writes a value to overflow pages and returns the cell that refers to them.
pub(super) fn write_overflow(
    context: &mut Context<'_>,
    value: &[u8],
) -> Result<SmallVec<[u8; 64]>, ApplyError> {
    if value.len() > VALUE_MAX {
        return Err(ApplyError::TooLong { length: value.len() });
    }
    let length = value.len() as u32;
    if context.output.is_dry_run {
        context.output.pages_written += pages_for(value.len());
        return Ok(Overflow::torn(length).to_bytes());
    }
    let mut runs = write_runs(context, value)?;
    let listed = runs.len() > RUNS_MAX;
    if listed {
        let list: Vec<u8> = runs.iter().flat_map(|run| run.to_bytes()).collect();
        runs = write_runs(context, &list)?;
    }
    Ok(Overflow { length, listed, runs }.to_bytes())
}

fn write_runs(
    context: &mut Context<'_>,
    mut bytes: &[u8],
) -> Result<SmallVec<[Run; 2]>, ApplyError> {
    let mut runs = SmallVec::new();
    while !bytes.is_empty() {
        let wanted = bytes.len().div_ceil(BLOCK) as u64;
        let extent = context.pages.allocate_run(wanted).ok_or(ApplyError::NoSpace)?;
        let length = extent.count as usize * BLOCK;
        let (now, rest) = bytes.split_at(bytes.len().min(length));
        runs.push(write_run(context, extent, now));
        bytes = rest;
    }
    Ok(runs)
}

fn write_run(context: &mut Context<'_>, extent: Extent, content: &[u8]) -> Run {
    let (page, pages) = (extent.start, extent.count as u32);
    let bytes = Bytes::from(AlignedBuffer::gathered([content], extent.count as usize * BLOCK));
    let crc = crc_fast::crc32_iscsi(&bytes);
    if bytes.len() <= CACHED_RUN_MAX {
        context.tree.cache.insert_written(extent.start, crc, None, bytes.clone());
    }
    context.output.write(page, bytes);
    Run { page, pages, crc }
}
