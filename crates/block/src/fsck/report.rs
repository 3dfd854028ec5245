//! Options and result of a check.

use super::contents::Contents;
use super::finding::{Finding, FindingKind};
use super::journal::LogSummary;
use super::repairs::{Offline, Repairs};
use crate::superblock::Superblock;
use std::collections::BTreeMap;
use std::fmt;

/// Findings that are kept unless told otherwise.
pub(super) const FINDINGS_MAX_DEFAULT: usize = 10_000;

/// Extent of a check.
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
    /// Counts of the contents as of the end of the log.
    pub contents: Contents,
    /// Referenced blocks of the space, including the metadata space.
    pub used_blocks: u64,
    /// The first findings, in the order in which they were found.
    pub findings: Vec<Finding>,
    /// Number of findings of each kind.
    pub counts: BTreeMap<FindingKind, u64>,
    /// Changes for the engine.
    pub(super) repairs: Repairs,
    /// Writes to the devices of a store that is not open.
    pub(super) offline: Offline,
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
        let Contents { collections, objects, segments, omap_pairs, held, shared, .. } =
            self.contents;
        let counts = [
            (collections, "collections"),
            (objects, "objects"),
            (segments, "extent segments"),
            (omap_pairs, "omap pairs"),
            (held, "held changes"),
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
