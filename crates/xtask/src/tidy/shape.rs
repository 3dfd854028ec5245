//! Shape: lengths of files and functions, files that implement one type, fields that others can touch.

use super::sources::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Bound for the lines of a product file.
const FILE_LINES_MAX: usize = 1000;
/// Number of product files that may have more than 500 lines. Lower it when possible.
const LONG_FILES_MAX: usize = 9;
const LONG_FILE_LINES: usize = 500;

/// Bound for the lines of a function of products.
const LONG_FUNCTION_LINES: usize = 70;

/// Files in which `impl` of one type may stand.
const IMPL_FILES_MAX: usize = 3;

/// Fields of one structure that others can touch: those that are not private, and all fields of a type that
/// several files implement.
const OPEN_FIELDS_MAX: usize = 20;
/// Crates whose structures are records of a protocol.
const RECORDS: [&str; 2] = ["wire", "maps"];

pub(super) fn sizes(sources: &[Source]) -> Vec<String> {
    let product: Vec<(&Source, usize)> =
        products(sources).map(|source| (source, source.product().lines().count())).collect();
    let mut findings: Vec<String> = product
        .iter()
        .filter(|(_, lines)| *lines > FILE_LINES_MAX)
        .map(|(source, lines)| format!("{}: {lines} lines; split it", source.path.display()))
        .collect();
    let long = product.iter().filter(|(_, lines)| *lines > LONG_FILE_LINES).count();
    if long > LONG_FILES_MAX {
        findings
            .push(format!("{long} files have over {LONG_FILE_LINES} lines; {LONG_FILES_MAX} may"));
    }
    findings
}

/// Functions over the bound.
pub(super) fn long_functions(sources: &[Source]) -> Vec<String> {
    let long: Vec<String> = products(sources).flat_map(long_functions_of).collect();
    let finding = |function| format!("{function}: over {LONG_FUNCTION_LINES} lines; split it");
    long.into_iter().map(finding).collect()
}

fn products(sources: &[Source]) -> impl Iterator<Item = &Source> {
    sources.iter().filter(|source| !source.is_test())
}

fn long_functions_of(source: &Source) -> Vec<String> {
    let lines: Vec<&str> = source.product().lines().collect();
    let functions = lines.iter().enumerate().filter_map(|(start, line)| {
        let name = function_name(line)?;
        let length = block_length(&lines[start..])?;
        (length > LONG_FUNCTION_LINES)
            .then(|| format!("{}: {name} ({length})", source.path.display()))
    });
    functions.collect()
}

fn function_name(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let is_declaration = before.split_whitespace().all(|word| {
        word.starts_with("pub") || ["const", "async", "unsafe", "extern", "\"C\""].contains(&word)
    });
    let name = after.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (is_declaration && !name.is_empty()).then_some(name)
}

/// Lines from the first one to the brace at its indent, which rustfmt guarantees; `None` without a block.
fn block_length(lines: &[&str]) -> Option<usize> {
    let first = lines.first()?;
    let indent = &first[..first.len() - first.trim_start().len()];
    if first.ends_with('}') || first.ends_with(';') {
        return None;
    }
    let closing = format!("{indent}}}");
    let ends = |line: &&str| {
        **line == closing
            || (line.starts_with(indent)
                && line.ends_with(';')
                && line[indent.len()..].starts_with(')'))
    };
    let end = lines.iter().position(ends)?;
    (lines[end] == closing).then_some(end + 1)
}

/// Types whose `impl` stands in too many files, and structures with too many fields that others can touch.
pub(super) fn ownership(sources: &[Source]) -> Vec<String> {
    let implementations = implementations(sources);
    let mut findings = Vec::new();
    for ((room, name), files) in &implementations {
        if files.len() > IMPL_FILES_MAX {
            let count = files.len();
            findings.push(format!(
                "crates/{room}: impl {name} stands in {count} files; {IMPL_FILES_MAX} may"
            ));
        }
    }
    for source in products(sources).filter(|source| !RECORDS.contains(&source.room.as_str())) {
        for (name, fields) in structures(source.product()) {
            let files = implementations.get(&(source.room.as_str(), name)).map_or(0, BTreeSet::len);
            let open =
                if files > 1 { fields.len() } else { fields.iter().filter(|open| **open).count() };
            if open > OPEN_FIELDS_MAX {
                let path = source.path.display();
                findings.push(format!(
                    "{path}: others can touch {open} fields of {name}; {OPEN_FIELDS_MAX} may"
                ));
            }
        }
    }
    findings
}

/// The files that implement each type of a crate, other than traits for it.
fn implementations(sources: &[Source]) -> BTreeMap<(&str, &str), BTreeSet<&Path>> {
    let mut files: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for source in products(sources) {
        for name in source.product().lines().filter_map(implemented) {
            files.entry((source.room.as_str(), name)).or_default().insert(source.path.as_path());
        }
    }
    files
}

/// `Name` of `impl<T> Name<T> {`.
fn implemented(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl")?;
    let rest =
        if rest.starts_with('<') { rest.split_once("> ")?.1 } else { rest.strip_prefix(' ')? };
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (!rest.contains(" for ") && !name.is_empty()).then_some(name)
}

/// Structures with named fields, and for each field whether it is open.
fn structures(text: &str) -> Vec<(&str, Vec<bool>)> {
    let lines: Vec<&str> = text.lines().collect();
    let found = lines.iter().enumerate().filter_map(|(start, line)| {
        let (before, after) = line.split_once("struct ")?;
        let is_definition = before.is_empty() || before.starts_with("pub");
        let name = after.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        let length = is_definition.then(|| block_length(&lines[start..]))??;
        Some((
            name,
            lines[start + 1..start + length - 1].iter().filter_map(|line| field(line)).collect(),
        ))
    });
    found.collect()
}

/// Whether a line of a structure, if it is a field, is open.
fn field(line: &str) -> Option<bool> {
    let text =
        line.strip_prefix("    ").filter(|text| !text.starts_with([' ', '/', '#', '}', ')']))?;
    text.contains(": ").then(|| text.starts_with("pub"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.into(), room: String::from("a"), text: text.to_owned() }
    }

    #[test]
    fn functions_are_measured_to_the_brace_at_their_indent() {
        let body = "        if x {\n        }\n".repeat(40);
        let text = format!(
            "impl A {{\n    pub(crate) const fn long(\n        x: bool,\n    ) {{\n{body}    }}\n    fn short() {{\n    }}\n}}\n"
        );
        assert_eq!(
            long_functions_of(&source("crates/a/src/a.rs", &text)),
            ["crates/a/src/a.rs: long (84)"]
        );
        assert_eq!(function_name("    let f = fn x() {"), None);
    }

    #[test]
    fn all_fields_of_a_type_that_several_files_implement_are_open() {
        let fields = "    x: u8,\n".repeat(OPEN_FIELDS_MAX + 1);
        let owner =
            source("crates/a/src/a.rs", &format!("struct A {{\n{fields}}}\nimpl A {{\n}}\n"));
        let other = source("crates/a/src/b.rs", "impl<T> A<T> {\n}\nimpl Clone for A {\n}\n");
        assert!(ownership(std::slice::from_ref(&owner)).is_empty());
        let found = ownership(&[owner, other]);
        assert_eq!(found, ["crates/a/src/a.rs: others can touch 21 fields of A; 20 may"]);
    }

    #[test]
    fn a_type_stands_in_few_files() {
        let files: Vec<Source> = (0..=IMPL_FILES_MAX)
            .map(|i| source(&format!("crates/a/src/{i}.rs"), "impl A {\n}\n"))
            .collect();
        assert_eq!(ownership(&files), ["crates/a: impl A stands in 4 files; 3 may"]);
        assert!(ownership(&files[1..]).is_empty());
    }
}
