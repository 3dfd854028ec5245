//! Traces: source files, functions and crates that documents name exist.
//!
//! A function is named with its parentheses, `turn()` or `Core::turn()`. If the same paragraph or item of a
//! list names files, one of these defines it; otherwise any source file does.

use super::sources::{Source, documents, shown};
use super::words::{is_path_from_root, is_plain};
use crate::run::root;
use anyhow::Result;
use std::collections::BTreeSet;
use std::fs;

/// Files and functions that the documents for developers name in backquotes exist.
pub(super) fn traces(sources: &[Source]) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for document in documents()? {
        let name = shown(&document);
        let is_checked = ["docs/ARCHITECTURE.md", "CONTRIBUTING.md"].contains(&name.as_str());
        if is_checked || name.starts_with("docs/internals/") {
            let text = fs::read_to_string(&document)?;
            let files = unknown_files(&text, sources).into_iter();
            findings.extend(files.map(|file| format!("{name}: no source file is {file}")));
            let functions = unknown_functions(&text, sources).into_iter();
            findings.extend(functions.map(|function| format!("{name}: {function}")));
        }
    }
    Ok(findings)
}

/// The overview describes each crate in a row of its table, and no others.
pub(super) fn crates_in_overview(sources: &[Source]) -> Result<Vec<String>> {
    let text = fs::read_to_string(root().join("docs/ARCHITECTURE.md"))?;
    let crates: BTreeSet<&str> = sources.iter().map(|source| source.room.as_str()).collect();
    let described: BTreeSet<&str> = text.lines().filter_map(described_crate).collect();
    let findings =
        crates.symmetric_difference(&described).map(|name| match crates.contains(name) {
            true => format!("docs/ARCHITECTURE.md: describe crate {name} in the table"),
            false => format!("docs/ARCHITECTURE.md: there is no crate {name}"),
        });
    Ok(findings.collect())
}

/// The crate in the first column of a row of three.
fn described_crate(line: &str) -> Option<&str> {
    let row = line.strip_prefix("| `")?;
    let (name, rest) = row.split_once("` |")?;
    (rest.split('|').count() == 3).then_some(name)
}

/// The text in backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn is_file(word: &str) -> bool {
    word.ends_with(".rs") && is_plain(word)
}

/// Names of source files that no source file has: each name is the end of a path. Paths from the root are
/// checked elsewhere.
fn unknown_files<'a>(text: &'a str, sources: &[Source]) -> Vec<&'a str> {
    let is_known = |name: &str| sources.iter().any(|source| source.path.ends_with(name));
    quoted(text)
        .filter(|word| is_file(word) && !is_path_from_root(word))
        .filter(|name| !is_known(name))
        .collect()
}

/// Functions that the files named beside them do not define.
fn unknown_functions(text: &str, sources: &[Source]) -> Vec<String> {
    let mut findings = Vec::new();
    for part in parts(text) {
        let files: Vec<&str> = quoted(&part).filter(|word| is_file(word)).collect();
        let is_near = |source: &&Source| {
            files.is_empty() || files.iter().any(|file| source.path.ends_with(file))
        };
        for name in quoted(&part).filter_map(function) {
            if !sources.iter().filter(is_near).any(|source| defines(&source.text, name)) {
                let place =
                    if files.is_empty() { "any source file".to_owned() } else { files.join(", ") };
                findings.push(format!("{name}() is not defined in {place}"));
            }
        }
    }
    findings
}

/// Paragraphs and items of lists.
fn parts(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for line in text.lines() {
        if line.is_empty() || is_item(line) {
            parts.push(String::new());
        }
        let part = parts.last_mut().expect("there is always one");
        part.push_str(line);
        part.push('\n');
    }
    parts
}

fn is_item(line: &str) -> bool {
    let line = line.trim_start();
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with("* ")
        || line.starts_with('|')
        || number.len() < line.len() && number.starts_with(". ")
}

/// The path of a function that is named with its parentheses.
fn function(word: &str) -> Option<&str> {
    let path = word.strip_suffix("()")?;
    path.chars().all(|c| c.is_ascii_alphanumeric() || "_:".contains(c)).then_some(path)
}

/// True if a text defines the function, and names its type if it has one.
fn defines(text: &str, path: &str) -> bool {
    let (owner, name) = path.rsplit_once("::").unwrap_or(("", path));
    let is_end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    let definition = format!("fn {name}");
    let is_defined = text
        .match_indices(&definition)
        .any(|(at, _)| text[at + definition.len()..].starts_with(is_end));
    is_defined && (owner.is_empty() || text.split(is_end).any(|word| word == owner))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.into(), room: String::new(), text: text.to_owned() }
    }

    #[test]
    fn files_that_no_source_ends_with_are_found() {
        let sources = [source("crates/osd/src/report/usage.rs", "")];
        let unknown = |text| unknown_files(text, &sources);
        assert!(
            unknown("`usage.rs`, `report/usage.rs`, usages.rs, `crates/a.rs`, `*.rs`").is_empty()
        );
        assert_eq!(unknown("`age.rs` and `osd/usage.rs`"), ["age.rs", "osd/usage.rs"]);
    }

    #[test]
    fn rows_of_the_table_describe_crates() {
        assert_eq!(described_crate("| `codec` | encodings | any message |"), Some("codec"));
        assert_eq!(described_crate("| values | `types` `codec` | be values |"), None);
        assert_eq!(described_crate("| `cargo test` | tests |"), None);
    }

    #[test]
    fn functions_that_the_file_beside_them_does_not_define_are_found() {
        let sources = [
            source("crates/a/src/core.rs", "impl Core {\n    pub fn turn(&mut self) {}\n}"),
            source("crates/b/src/core.rs", "fn turn_back<T>() {}"),
        ];
        let unknown = |text| unknown_functions(text, &sources).len();
        assert_eq!(unknown("`turn()`, `turn_back()` and `Core::turn()`, but not turns()"), 0);
        assert_eq!(unknown("`a/src/core.rs`: `turn()`\n1. `b/src/core.rs`: `turn_back()`"), 0);
        assert_eq!(unknown("`turned()`"), 1);
        assert_eq!(unknown("`Wire::turn()`"), 1);
        assert_eq!(unknown("`b/src/core.rs`: `turn()`"), 1);
        assert_eq!(unknown("`a/src/core.rs`:\n`turn_back()`"), 1);
        assert_eq!(unknown("`a/src/core.rs`:\n\n`turn_back()`"), 0);
    }
}
