//! Writing pages and overflow values of the new tree.

use super::context::{ApplyError, Context};
use crate::device::{BLOCK, Extent};
use crate::tree::builder::Builder;
use crate::tree::overflow::{Overflow, RUNS_MAX, VALUE_MAX, pages_for};
use crate::tree::reference::{PageRef, Run};
use bytes::Bytes;
use smallvec::SmallVec;
use stdx::AlignedBuffer;

/// Longer overflow runs are not cached when they are written, in bytes.
const CACHED_RUN_MAX: usize = 4 * BLOCK;

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
