//! Health codes: the operator's book has each code that monitors and OSDs may show, and no other.

use super::sources::{Source, shown};
use crate::run::root;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;

const PAGE: &str = "docs/operations/health.md";
/// Sources that name health codes, and no other words of this form but those below.
const PLACES: [&str; 4] = [
    "crates/mon/src/health/",
    "crates/mon/src/health.rs",
    "crates/osd/src/report/mod.rs",
    "crates/osd/src/heartbeats/mod.rs",
];
const NO_CODES: [&str; 3] = ["HEALTH_OK", "HEALTH_WARN", "HEALTH_ERR"];

pub(super) fn health_codes(sources: &[Source]) -> Result<Vec<String>> {
    let page = fs::read_to_string(root().join(PAGE)).with_context(|| format!("reading {PAGE}"))?;
    let used = sources.iter().filter(|source| is_place(&shown(&source.path)));
    let used: BTreeSet<&str> = used.flat_map(|source| quoted(source.product())).collect();
    Ok(compare(&used, &rows(&page)))
}

fn is_place(path: &str) -> bool {
    PLACES.iter().any(|place| path.starts_with(place))
}

fn compare(used: &BTreeSet<&str>, described: &BTreeSet<&str>) -> Vec<String> {
    let missing = used.difference(described);
    let missing =
        missing.map(|code| format!("{PAGE}: say what {code} means and what to do about it"));
    let surplus = described.difference(used);
    let surplus = surplus.map(|code| format!("{PAGE}: no health check is called {code}"));
    missing.chain(surplus).collect()
}

/// Words such as `"OSD_DOWN"` of a source.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('"').filter(|word| is_code(word) && !NO_CODES.contains(word))
}

fn is_code(word: &str) -> bool {
    let is_fine = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_uppercase());
    word.contains('_') && word.split('_').all(is_fine)
}

/// Codes in the first column of tables.
fn rows(page: &str) -> BTreeSet<&str> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    rows.filter(|word| is_code(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_without_a_row_and_rows_without_a_code_are_found() {
        let used = quoted(r#"health.warn("OSD_DOWN", 1); add("MON_DOWN", "HEALTH_OK", "text")"#);
        let page = "| code | meaning |\n| `OSD_DOWN` | … |\n| `OSD_SAD` | `MON_DOWN` |\n";
        let found = compare(&used.collect(), &rows(page));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("MON_DOWN") && found[1].contains("OSD_SAD"), "{found:?}");
    }
}
