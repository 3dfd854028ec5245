//! The offline check of a store: that what lies on its devices is what the format says.
//!
//! ```text
//! superblocks ─ journal (replays the log) ─ contents (all pairs, in one walk) ─ pages
//!      ─ second look (who claims blocks twice, wrong counts) ─ space ─ naming ─ report
//! ```
//!
//! [`check`] only reads. The state that it looks at is that of the end of the log: the tree of the last
//! checkpoint, changed by what replay finds, as an engine would open it. It goes on behind damage as
//! far as it can, and tells of each thing what and where it is.
//!
//! Memory: four bits per block of the space, 8 to 24 bytes per object, what the log holds without its
//! data, and at most [`CheckOptions::findings_max`] findings. A sound store is walked once.
//!
//! [`repair`] writes what can be written without the engine; [`repair_ops`] is the rest, for the engine
//! to take in as one record. Nothing is removed or freed if anything is lost that it could belong to.
//! Damaged data and damaged metadata of objects are only told: other copies of the objects have them.
//!
//! It does not know the engine, only the format.

mod contents;
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
mod second;
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
    /// Read all data and compare it with its checksums.
    pub deep: bool,
    /// Findings that are kept; the others are only counted.
    pub findings_max: usize,
    /// Go by a superblock although a newer one may be lost, and let a repair make it the newest.
    pub accept_outdated: bool,
}

impl Default for CheckOptions {
    fn default() -> Self {
        CheckOptions { deep: false, findings_max: FINDINGS_MAX_DEFAULT, accept_outdated: false }
    }
}

/// What a check has seen.
#[derive(Debug, Clone)]
pub struct Report {
    /// The one that counts, if there is one.
    pub superblock: Option<Superblock>,
    pub log: Option<LogSummary>,
    pub contents: Contents,
    /// Blocks of the space that something refers to, those of the metadata included.
    pub used_blocks: u64,
    /// In the order in which they were found; the first ones, if there are many.
    pub findings: Vec<Finding>,
    /// How many there are of each kind.
    pub counts: BTreeMap<FindingKind, u64>,
    repairs: Repairs,
    offline: Offline,
}

impl Report {
    pub fn is_clean(&self) -> bool {
        self.counts.is_empty()
    }

    /// How many findings are only counted.
    pub fn omitted(&self) -> u64 {
        self.counts.values().sum::<u64>() - self.findings.len() as u64
    }
}

/// A line for each finding, and one for what was seen.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(f, "{finding}")?;
        }
        let Contents { collections, objects, shards, omap_pairs, shared, .. } = self.contents;
        let counts = [
            (collections, "collections"),
            (objects, "objects"),
            (shards, "shards"),
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

/// Looks at all that the devices hold.
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

/// The superblock that counts, or why there is none.
pub(crate) fn choose_superblock(source: &Source<'_>) -> Result<Superblock, String> {
    let mut findings = Findings::new(FINDINGS_MAX_DEFAULT);
    let chosen = superblocks::choose(source, false, &mut findings);
    chosen.map(|chosen| chosen.superblock).ok_or_else(|| {
        let (findings, _) = findings.finish();
        let texts: Vec<String> = findings.iter().map(Finding::to_string).collect();
        texts.join("; ")
    })
}

/// The log of a store, as far as it goes.
pub(crate) fn read_journal(source: &Source<'_>, superblock: &Superblock) -> Journal {
    Journal::read(source, superblock, &mut Findings::new(0))
}
