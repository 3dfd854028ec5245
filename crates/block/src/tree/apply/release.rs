//! Freeing pages that the new tree does not refer to: subtrees and overflow pages.
//!
//! Every page of a removed subtree is read, because only the page names its children and the
//! overflow pages of its values. Jobs are a stack, so they stay few: one page's worth per level.

use super::context::{Context, PREFETCH_MAX, Stop};
use super::jobs::{Job, KeyBase};
use crate::tree::overflow::Overflow;
use crate::tree::page::{CellKind, Page};
use crate::tree::read::decode_overflow;
use crate::tree::reference::{PageRef, Run, Top};
use crate::tree::want::Absent;

/// Does one job; false if there is none.
pub(super) fn advance(context: &mut Context<'_>) -> Result<bool, Stop> {
    let Some(job) = context.release.jobs.pop() else { return Ok(false) };
    let result = match &job {
        Job::Page { page, level, base } => release_page(context, *page, *level, *base),
        Job::List(overflow) => release_list(context, overflow),
    };
    if let Err(absent) = result {
        context.release.jobs.push(job);
        return Err(absent_with_next(context, absent).into());
    }
    Ok(true)
}

/// Adds the pages of the next jobs to the missing ones, to be read at the same time.
fn absent_with_next(context: &Context<'_>, absent: Absent) -> Absent {
    let Absent::Missing(mut wants) = absent else { return absent };
    let mut next = Vec::new();
    for job in context.release.jobs.iter().rev().skip(1) {
        job.wants(&mut next);
        if next.len() >= PREFETCH_MAX {
            break;
        }
    }
    next.retain(|want| context.tree.lacks(want));
    wants.extend(next);
    Absent::Missing(wants)
}

fn release_page(
    context: &mut Context<'_>,
    reference: PageRef,
    level: u8,
    base: KeyBase,
) -> Result<(), Absent> {
    let page = context.tree.fetch_page(reference, level)?;
    // In reverse, so that the stack frees them in ascending order.
    for index in (0..page.len()).rev() {
        if level == 0 {
            release_entry(context, &page, index, base);
        } else {
            context.release.page(page.child(index), level - 1, base);
        }
    }
    context.output.free_page(reference.page, level);
    Ok(())
}

/// Frees a pair of the old tree, or a whole layer of it.
pub(super) fn release_entry(context: &mut Context<'_>, leaf: &Page, index: usize, base: KeyBase) {
    let entry = leaf.entry(index);
    let key = leaf.prefix().len() + entry.suffix.len();
    let key_first = leaf.prefix().first().or(entry.suffix.first()).copied();
    let value = match entry.kind {
        CellKind::Layer => {
            let top = Top::from_bytes(entry.cell);
            context.release.page(top.page, top.height - 1, base.below(key_first, key));
            return;
        }
        CellKind::Overflow => {
            let overflow = decode_overflow(entry.cell);
            let length = overflow.length as usize;
            release_overflow(context, overflow);
            length
        }
        _ => entry.cell.len(),
    };
    context.output.totals.add(base.pair(key_first, key, value), -1);
}

fn release_overflow(context: &mut Context<'_>, overflow: Overflow) {
    match overflow.listed {
        true => context.release.jobs.push(Job::List(overflow)),
        false => free_runs(context, &overflow.runs),
    }
}

fn release_list(context: &mut Context<'_>, overflow: &Overflow) -> Result<(), Absent> {
    let raw = context.tree.fetch_runs(&overflow.runs)?;
    let page = overflow.runs[0].page;
    let runs = overflow.runs_in_list(&raw);
    free_runs(context, &runs.map_err(|flaw| Absent::Damaged { page, flaw })?);
    free_runs(context, &overflow.runs);
    Ok(())
}

fn free_runs(context: &mut Context<'_>, runs: &[Run]) {
    for run in runs {
        context.output.free(run.page, run.pages.into());
    }
}
