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
mod extents;
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
mod space;
mod state;
mod superblocks;
mod tail;
#[cfg(test)]
pub(crate) mod tests;

pub use contents::Contents;
pub use finding::{Finding, FindingKind, Repair, Subject};
pub use image::{Image, ImageMut};
pub use journal::LogSummary;
pub use repair::{RepairError, Repairs, repair, repair_ops};

pub(crate) use finding::describe_key;
pub(crate) use image::{Source, describe_device, describe_extent};
pub(crate) use journal::{Journal, replay};
pub(crate) use owners::Owners;
pub(crate) use pages::root as tree_root;
pub(crate) use superblocks::read_copy;

use crate::superblock::Superblock;
use finding::Findings;
use repair::Offline;
use std::collections::BTreeMap;
use std::fmt;

const FINDINGS_MAX_DEFAULT: usize = 10_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckOptions {
    /// Reads all data and compares it with its checksums.
    pub deep: bool,
    /// Number of findings that are kept; others are only counted.
    pub findings_max: usize,
    /// Accepts a superblock although a newer one may be lost, and lets a repair make it the newest.
    pub accept_outdated: bool,
}

impl Default for CheckOptions {
    fn default() -> Self {
        CheckOptions { deep: false, findings_max: FINDINGS_MAX_DEFAULT, accept_outdated: false }
    }
}

/// Result of a check.
#[derive(Debug, Clone)]
pub struct Report {
    /// The newest valid superblock, if there is one.
    pub superblock: Option<Superblock>,
    /// End of the log; `None` without a usable superblock.
    pub log: Option<LogSummary>,
    pub contents: Contents,
    /// Referenced blocks of the space, including the metadata space.
    pub used_blocks: u64,
    /// The first findings, in the order in which they were found.
    pub findings: Vec<Finding>,
    /// Number of findings of each kind.
    pub counts: BTreeMap<FindingKind, u64>,
    repairs: Repairs,
    offline: Offline,
}

impl Report {
    /// Set if nothing was found.
    pub fn is_clean(&self) -> bool {
        self.counts.is_empty()
    }

    /// Number of findings that were counted and not kept.
    pub fn omitted(&self) -> u64 {
        self.counts.values().sum::<u64>() - self.findings.len() as u64
    }
}

/// One line per finding, and a summary.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(f, "{finding}")?;
        }
        let Contents { collections, objects, segments, omap_pairs, shared, .. } = self.contents;
        let counts = [
            (collections, "collections"),
            (objects, "objects"),
            (segments, "extent segments"),
            (omap_pairs, "omap pairs"),
            (shared, "shared ids"),
            (self.used_blocks, "used blocks"),
            (self.contents.checked_blocks, "checked blocks"),
            (self.counts.values().sum(), "findings"),
        ];
        let counts: Vec<String> =
            counts.iter().map(|(count, what)| format!("{count} {what}")).collect();
        writeln!(f, "{}", counts.join(", "))
    }
}

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

/// The newest valid superblock, or why there is none.
pub(crate) fn choose_superblock(source: &Source<'_>) -> Result<Superblock, String> {
    let mut findings = Findings::new(FINDINGS_MAX_DEFAULT);
    let chosen = superblocks::choose(source, false, &mut findings);
    chosen.map(|chosen| chosen.superblock).ok_or_else(|| {
        let (findings, _) = findings.finish();
        let texts: Vec<String> = findings.iter().map(Finding::to_string).collect();
        texts.join("; ")
    })
}

/// Replays the log of a store up to its end.
pub(crate) fn read_journal(source: &Source<'_>, superblock: &Superblock) -> Journal {
    Journal::read(source, superblock, &mut Findings::new(0))
}
