//! Reports of a check, as lines and as JSON.

use anyhow::Result;
use fscheck::{Finding, Report, Totals};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use stdx::format_bytes;
use types::PoolId;

/// Prints what was read, and what is wrong.
pub fn print(report: &Report) -> Result<()> {
    let mut output = io::stdout().lock();
    let Totals { directories, files, names, orphans, bytes, .. } = report.totals;
    let Totals { snapshots, old_versions, purges, sessions, records, .. } = report.totals;
    writeln!(
        output,
        "{directories} directories, {files} files of {}, {names} names, {orphans} files without a name",
        format_bytes(bytes)
    )?;
    writeln!(
        output,
        "{snapshots} snapshots, {old_versions} old versions; {purges} purges, {sessions} sessions, {records} records \
         of the journal"
    )?;
    for finding in &report.findings {
        line(&mut output, finding)?;
    }
    if report.more > 0 {
        writeln!(output, "and {} more, found when these are mended", report.more)?;
    }
    let verdict = match (report.is_sound(), report.findings.is_empty()) {
        (true, true) => "nothing is wrong",
        (true, false) => "the file system is sound; unreferenced objects are left over",
        (false, _) => "the file system is not sound",
    };
    Ok(writeln!(output, "{verdict}")?)
}

fn line(output: &mut impl Write, finding: &Finding) -> io::Result<()> {
    let problem = finding.problem.name();
    write!(output, "{problem}: ")?;
    if let Some(path) = &finding.path {
        write!(output, "{path}: ")?;
    }
    write!(output, "{}", finding.text)?;
    if let Some(ino) = finding.ino {
        write!(output, " (inode {ino})")?;
    }
    write!(output, ", in object {}", finding.object)?;
    if !finding.key.is_empty() {
        write!(output, " key {}", hex(&finding.key))?;
    }
    match finding.repair {
        Some(repair) => writeln!(output, "; repair: {repair}"),
        None => writeln!(output, "; no repair"),
    }
}

/// Prints data without files.
pub fn print_leaked(leaked: &BTreeMap<(u64, PoolId), u64>) -> Result<()> {
    let mut output = io::stdout().lock();
    for ((ino, pool), objects) in leaked {
        writeln!(
            output,
            "{objects} objects in pool {pool} are data of inode {ino:#x}, which does not exist"
        )?;
    }
    Ok(())
}

/// The same for programs.
pub fn as_json(report: &Report) -> Value {
    let Totals { directories, files, names, orphans, bytes, .. } = report.totals;
    let Totals { snapshots, old_versions, purges, sessions, records, .. } = report.totals;
    let finding = |finding: &Finding| {
        json!({
            "problem": finding.problem.name(),
            "is_leftover": finding.problem.is_leftover(),
            "object": finding.object,
            "key": hex(&finding.key),
            "ino": finding.ino.map(|ino| ino.0),
            "path": finding.path,
            "text": finding.text,
            "repair": finding.repair,
        })
    };
    json!({
        "sound": report.is_sound(),
        "totals": {
            "directories": directories, "files": files, "bytes": bytes, "names": names,
            "orphans": orphans, "snapshots": snapshots, "old_versions": old_versions,
            "purges": purges, "sessions": sessions, "journal_records": records,
        },
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
        "more": report.more,
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
