//! Result of aging, as text or JSON.

use super::ager::Tally;
use super::capacity::Capacity;
use super::plan::{ActionKind, Plan};
use super::target::Note;
use super::verify::Verification;
use anyhow::{Result, bail};
use serde::Serialize;
use std::collections::BTreeMap;
use stdx::format_bytes;

/// Result of aging, as it is printed.
#[derive(Debug, Serialize)]
pub struct Summary {
    seed: u64,
    sizes: String,
    passes: u32,
    /// Target for the space of one copy of the objects.
    target_bytes: u64,
    objects: u64,
    bytes: u64,
    space_bytes: u64,
    extents: u64,
    operations: BTreeMap<&'static str, u64>,
    bytes_written: u64,
    refused: u64,
    failed: u64,
    first_failure: Option<String>,
    full_at_bytes: Option<u64>,
    fill_seconds: f64,
    passes_seconds: f64,
    used_percent_before: Option<f64>,
    used_percent_after: Option<f64>,
    verification: Option<Verification>,
}

impl Summary {
    /// A summary without capacity and verification.
    pub fn new(note: &Note, plan: &Plan, tally: &Tally) -> Self {
        let population = plan.population();
        let operations = tally.operations.iter().map(|(kind, count)| (name(*kind), *count));
        Summary {
            seed: note.seed,
            sizes: note.sizes.clone(),
            passes: note.passes,
            target_bytes: note.target_bytes,
            objects: population.living() as u64,
            bytes: population.bytes(),
            space_bytes: population.space(),
            extents: population.extents(),
            operations: operations.collect(),
            bytes_written: tally.bytes_written,
            refused: tally.refused,
            failed: tally.failed,
            first_failure: tally.first_failure.clone(),
            full_at_bytes: tally.full_at,
            fill_seconds: tally.fill_time.as_secs_f64(),
            passes_seconds: tally.passes_time.as_secs_f64(),
            used_percent_before: None,
            used_percent_after: None,
            verification: None,
        }
    }

    /// Adds the usage of the cluster before and after.
    pub fn set_capacity(&mut self, before: &Capacity, after: &Capacity) {
        self.used_percent_before = Some(before.used_percent());
        self.used_percent_after = Some(after.used_percent());
    }

    /// Adds the result of reading all objects back.
    pub fn set_verification(&mut self, verification: Verification) {
        self.verification = Some(verification);
    }

    /// Fails if an operation failed or data is wrong. A full store is no failure.
    pub fn check(&self) -> Result<()> {
        if let Some(Verification { wrong, unread, .. }) = self.verification
            && wrong + unread > 0
        {
            bail!("{wrong} objects do not hold what was written, {unread} cannot be read");
        }
        if self.failed > 0 {
            bail!("{} operations failed", self.failed);
        }
        Ok(())
    }

    /// Prints the summary, as JSON if `json`.
    pub fn print(&self, json: bool) -> Result<()> {
        if json {
            println!("{}", serde_json::to_string_pretty(self)?);
        } else {
            self.lines().iter().for_each(|(name, value)| println!("  {name:<12} {value}"));
        }
        Ok(())
    }

    fn lines(&self) -> Vec<(&'static str, String)> {
        let per_object = self.extents as f64 / self.objects.max(1) as f64;
        let mut lines = vec![
            (
                "sequence",
                format!("seed {}, {} passes, sizes {}", self.seed, self.passes, self.sizes),
            ),
            (
                "objects",
                format!(
                    "{} with {}, {per_object:.1} extents each; they take {} of {}",
                    self.objects,
                    format_bytes(self.bytes),
                    format_bytes(self.space_bytes),
                    format_bytes(self.target_bytes)
                ),
            ),
        ];
        if !self.operations.is_empty() {
            lines.push(("operations", self.operations_line()));
            lines.push(("written", self.written_line()));
        }
        if let (Some(before), Some(after)) = (self.used_percent_before, self.used_percent_after) {
            lines.push(("cluster", format!("{after:.1}% used ({before:.1}% before)")));
        }
        if let Some(space) = self.full_at_bytes {
            let space = format_bytes(space);
            lines.push(("full", format!("the store was full when the objects took {space}")));
        }
        if self.refused + self.failed > 0 {
            let first = self.first_failure.as_deref().unwrap_or("no space");
            let (refused, failed) = (self.refused, self.failed);
            lines.push(("disturbed", format!("{refused} refused, {failed} failed: {first}")));
        }
        if let Some(verification) = &self.verification {
            lines.extend(verification_lines(verification));
        }
        lines
    }

    fn operations_line(&self) -> String {
        let total: u64 = self.operations.values().sum();
        let each: Vec<String> =
            self.operations.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        format!("{total}: {}", each.join(", "))
    }

    fn written_line(&self) -> String {
        let (fill, passes) = (self.fill_seconds, self.passes_seconds);
        let seconds = (fill + passes).max(f64::MIN_POSITIVE);
        let rate = self.bytes_written as f64 / f64::from(1 << 20) / seconds;
        let bytes = format_bytes(self.bytes_written);
        format!("{bytes} in {fill:.1} s of filling and {passes:.1} s of passes, {rate:.1} MiB/s")
    }
}

fn verification_lines(verification: &Verification) -> Vec<(&'static str, String)> {
    let Verification { objects, bytes, absent, wrong, unread, findings } = verification;
    let bytes = format_bytes(*bytes);
    let right = format!("{objects} objects with {bytes} read, {absent} deleted ones gone");
    let mut lines = vec![("verified", format!("{right}, {wrong} wrong, {unread} not readable"))];
    lines.extend(findings.iter().map(|finding| ("finding", finding.clone())));
    lines
}

fn name(kind: ActionKind) -> &'static str {
    match kind {
        ActionKind::Create => "create",
        ActionKind::Overwrite => "overwrite",
        ActionKind::Append => "append",
        ActionKind::Truncate => "truncate",
        ActionKind::Rewrite => "rewrite",
        ActionKind::Delete => "delete",
    }
}
