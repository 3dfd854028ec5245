//! Offline check of a store (fsck): the devices agree with the format and with themselves.
//!
//! ```text
//! superblocks ─ journal (replays the log) ─ contents (all pairs, in one walk) ─ pages
//!      ─ crossref (blocks claimed twice, wrong counts) ─ space ─ naming ─ report
//! ```
//!
//! [`check`] only reads. It checks the state at the end of the log: the tree of the last checkpoint
//! with the changes of a replay, as an engine would open it. It continues behind damage as far as
//! possible, and reports each finding with its place.
//!
//! Memory: four bits per block of the space, 8 to 24 bytes per object, the contents of the log
//! without its data, and at most [`CheckOptions::findings_max`] findings. A sound store is walked
//! once.
//!
//! [`repair`] writes what is written without the engine; [`repair_ops`] returns the other changes,
//! which the engine commits as one record. Nothing is removed or freed if a possible owner is lost.
//! Damaged data and damaged metadata of objects are only reported, because other copies of the
//! objects exist.
//!
//! This module depends on the format only, not on the engine.

mod contents;
mod crossref;
mod data;
mod detail;
mod extents;
mod fault;
mod finding;
mod image;
mod journal;
mod naming;
mod objects;
mod overlay;
mod owners;
mod pages;
mod references;
mod repair;
mod repairs;
mod report;
mod space;
mod state;
mod superblocks;
mod tail;
#[cfg(test)]
pub(crate) mod tests;

pub use contents::Contents;
pub use detail::{Conflict, Detail, OmapPart};
pub use fault::{
    Access, BitmapError, CopyError, CopyFault, HeldFault, LabelFault, RecordFault, ValueFault,
};
pub use finding::{Finding, FindingKind, Repair, Subject};
pub use image::{Image, ImageMut};
pub use journal::{LogStop, LogSummary};
pub use repair::{RepairError, repair, repair_ops};
pub use repairs::Repairs;
pub use report::{CheckOptions, Report};

pub(crate) use detail::describe_key;
pub(crate) use image::Source;
pub(crate) use journal::{Journal, replay};
pub(crate) use owners::Owners;
pub(crate) use pages::root as tree_root;
pub(crate) use superblocks::read_copy;

use crate::superblock::Superblock;
use finding::Findings;
use repairs::Offline;
use report::FINDINGS_MAX_DEFAULT;
use std::collections::BTreeMap;

/// Checks the devices.
pub fn check(image: &mut dyn Image, options: &CheckOptions) -> Report {
    let source = Source::new(image);
    let mut findings = Findings::new(options.findings_max);
    let mut report = Report {
        superblock: None,
        log: None,
        contents: Contents::default(),
        used_blocks: 0,
        findings: Vec::new(),
        counts: BTreeMap::new(),
        repairs: Repairs::default(),
        offline: Offline::default(),
    };
    if let Some(chosen) = superblocks::choose(&source, options.accept_outdated, &mut findings) {
        state::check(&source, options, chosen, &mut findings, &mut report);
    }
    (report.findings, report.counts) = findings.finish();
    report
}

/// The newest valid superblock, or the findings for which there is none.
pub(crate) fn choose_superblock(source: &Source<'_>) -> Result<Superblock, Vec<Finding>> {
    let mut findings = Findings::new(FINDINGS_MAX_DEFAULT);
    let chosen = superblocks::choose(source, false, &mut findings);
    chosen.map(|chosen| chosen.superblock).ok_or_else(|| findings.finish().0)
}

/// Replays the log of a store up to its end.
pub(crate) fn read_journal(source: &Source<'_>, superblock: &Superblock) -> Journal {
    Journal::read(source, superblock, &mut Findings::new(0))
}
