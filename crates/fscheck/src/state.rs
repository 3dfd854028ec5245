//! The state of a check: facts, and what follows from them.

use crate::facts::Facts;
use crate::finding::{Finding, Problem, Report};
use crate::fix::Fix;
use crate::settlement::Settlement;
use namespace::Ino;
use std::collections::BTreeMap;

/// Facts and findings.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The rank.
    pub rank: u32,
    /// Facts of all rows.
    pub facts: Facts,
    /// Findings.
    pub report: Report,
    /// How that is mended, besides inodes and their names.
    pub fixes: Vec<Fix>,
    /// Inodes that are stored elsewhere after a repair.
    pub settled: BTreeMap<Ino, Settlement>,
    /// Numbers of inodes below this one may have been used.
    pub numbers: u64,
}

impl State {
    /// An object that is left over: `text` says of what.
    pub fn leftover_object(&mut self, name: &str, text: &str) {
        let finding = Finding::new(Problem::Leftover, name, text);
        self.report.add(finding.mended_by("the object is removed"));
        self.fixes.push(Fix::RemoveObject(name.to_owned()));
    }
}
