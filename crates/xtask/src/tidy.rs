//! House rules that a compiler does not check.
//!
//! One rule per function; each returns what it found, as `file: what is wrong and what to do`.

use crate::run::root;
use anyhow::{Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Rooms that a room may use. Arrows point down: hosts, engines, formats, values.
const ARROWS: [(&str, &[&str]); 27] = [
    ("stdx", &[]),
    ("codec", &["stdx"]),
    ("types", &["codec"]),
    ("engine", &["types"]),
    ("crush", &["codec", "types"]),
    ("maps", &["codec", "types", "crush", "stdx"]),
    ("wire", &["codec", "types", "maps", "engine", "stdx"]),
    ("auth", &["codec", "types", "stdx"]),
    ("msgr", &["codec", "types", "engine", "wire", "auth", "stdx"]),
    ("store", &["codec", "types", "engine", "stdx"]),
    ("block", &["codec", "types", "engine", "store", "stdx"]),
    ("classes", &["codec", "types"]),
    ("pg", &["codec", "types", "engine", "store", "maps", "wire", "stdx"]),
    (
        "osd",
        &["codec", "types", "engine", "store", "maps", "wire", "auth", "pg", "classes", "stdx"],
    ),
    ("mon", &["codec", "types", "engine", "maps", "wire", "auth", "crush", "stdx"]),
    ("rados", &["codec", "types", "engine", "maps", "wire", "auth", "msgr", "crush", "stdx"]),
    ("rbd", &["codec", "types", "engine", "wire", "rados", "stdx"]),
    ("nbd", &[]),
    ("rt", &["engine", "types", "stdx"]),
    ("host", &["types", "engine", "msgr", "rt", "stdx"]),
    ("access", &["types", "engine", "auth", "rados", "rbd", "host", "rt", "stdx"]),
    ("bench", &["codec", "types", "engine", "wire", "rados", "rbd", "access", "stdx"]),
    ("files", &["codec", "types", "engine", "store", "stdx"]),
    (
        "sim",
        &[
            "codec", "types", "engine", "stdx", "crush", "maps", "wire", "auth", "msgr", "store",
            "block", "pg", "osd", "mon", "rados", "rbd",
        ],
    ),
    (
        "sepiola",
        &[
            "codec", "types", "engine", "crush", "maps", "wire", "auth", "msgr", "store", "files",
            "block", "pg", "osd", "mon", "rados", "rbd", "nbd", "rt", "host", "access", "bench",
            "stdx",
        ],
    ),
    ("interop", &[]),
    ("xtask", &[]),
];

/// Rooms whose logic must not touch the outside world, and words that would.
const ENGINES: [&str; 18] = [
    "stdx", "codec", "types", "engine", "crush", "maps", "wire", "auth", "msgr", "store", "block",
    "classes", "pg", "osd", "mon", "rados", "rbd", "nbd",
];
const OUTSIDE: [(&str, &str); 11] = [
    ("std::fs", "files belong to hosts"),
    ("std::thread", "threads belong to hosts"),
    ("std::env::var", "the environment belongs to hosts"),
    ("TcpStream", "sockets belong to crate rt"),
    ("Instant::now", "time is an argument"),
    ("SystemTime::now", "time is an argument"),
    ("RandomState", "iteration order must not depend on a random seed"),
    ("async fn", "engines are driven by calls"),
    ("std::task", "futures are polled by rados::Procedure alone"),
    ("Waker", "futures are polled by rados::Procedure alone"),
    ("impl Future for", "procedures await nothing but steps"),
];
/// Words of those that the files below a path may contain. Procedures over the cluster are `async` functions.
const PROCEDURES: [(&str, &[&str]); 2] = [
    ("crates/rados/src/procedure", &["async fn", "std::task", "Waker", "impl Future for"]),
    ("crates/rbd/src", &["async fn"]),
];

/// Bound for the lines of a product file.
const FILE_LINES_MAX: usize = 1000;
/// Number of product files that may have more than 500 lines. Lower it when possible.
const LONG_FILES_MAX: usize = 40;
const LONG_FILE_LINES: usize = 500;

/// Beginnings of comments without a subject: the subject of a sentence is the thing that acts.
const PRONOUNS: [&str; 6] = ["Who", "Whoever", "What", "Whom", "Nobody", "Somebody"];
/// Comment lines that begin with one of them. Lower it when possible.
const PRONOUNS_MAX: usize = 0;

/// Columns of a comment line.
const COMMENT_COLUMNS: usize = 110;
/// Comment lines that are longer. Lower it when possible.
const LONG_COMMENTS_MAX: usize = 0;

/// Names that were given up: the room (empty for all), the name, and its replacement.
const FORMER_NAMES: [(&str, &str, &str); 33] = [
    ("", "Errands", "RequestRouter"),
    ("rbd", "Asker", "RequestSource"),
    ("rbd", "Ask", "ClusterRequest"),
    ("rbd", "Answer", "ClusterResponse"),
    ("rbd", "AskId", "ClusterRequestId"),
    ("rbd", "Crowd", "TestCluster"),
    ("rbd", "Wish", "ProxiedRequest"),
    ("rbd", "WishId", "ProxiedRequestId"),
    ("rbd", "Guards", "ExistenceCache"),
    ("rbd", "Badge", "LockIdentity"),
    ("rbd", "MapKeeper", "ObjectMapState"),
    ("rbd", "Found", "AccessResult"),
    ("rados", "Asker", "EpochRequester"),
    ("sepiola", "Asker", "CommandKey"),
    ("sepiola", "Desk", "BlockingClient"),
    ("sepiola", "Clerk", "ImageService"),
    ("sepiola", "Parcel", "LocalMessage"),
    ("sepiola", "Post", "Outbox"),
    ("sim", "Weather", "NetworkFaults"),
    ("sim", "Mischief", "InjectFault"),
    ("sim", "Parcel", "LinkMessage"),
    ("sim", "Told", "ClientEvent"),
    ("sim", "Who", "RequestOrigin"),
    ("block", "Homes", "DeferredWrites"),
    ("block", "Landing", "InflightWrites"),
    ("block", "Recent", "BlockCache"),
    ("block", "Promise", "PendingAck"),
    ("block", "Trial", "DryRun"),
    ("block", "Room", "Admission"),
    ("block", "Shard", "ExtentSegment"),
    ("block", "SecondLook", "CrossReference"),
    ("block", "Voids", "EmptyRanges"),
    ("block", "told_durable", "recorded_durable"),
];

pub fn tidy() -> Result<()> {
    let sources = sources()?;
    let mut findings = Vec::new();
    findings.extend(arrows()?);
    findings.extend(headers(&sources));
    findings.extend(outside_world(&sources));
    findings.extend(sizes(&sources));
    findings.extend(comments(&sources));
    findings.extend(former_names(&sources));
    findings.extend(paths_in_docs()?);
    findings.extend(machine_paths(&sources)?);
    findings.extend(dependencies_are_explained()?);
    if findings.is_empty() {
        println!("tidy: {} source files are in order", sources.len());
        return Ok(());
    }
    bail!("tidy found:\n  {}", findings.join("\n  "))
}

struct Source {
    /// Relative to the workspace.
    path: PathBuf,
    room: String,
    text: String,
}

impl Source {
    fn is_test(&self) -> bool {
        let path = self.path.to_string_lossy();
        path.contains("/tests/") || path.ends_with("tests.rs") || path.contains("/examples/")
    }

    /// The text before the inline tests.
    fn product(&self) -> &str {
        self.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
    }
}

fn sources() -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for room in fs::read_dir(root().join("crates"))? {
        let room = room?;
        let name = room.file_name().to_string_lossy().into_owned();
        for path in files_below(&room.path(), "rs")? {
            let text = fs::read_to_string(&path)?;
            let path = path.strip_prefix(root())?.to_owned();
            sources.push(Source { path, room: name.clone(), text });
        }
    }
    Ok(sources)
}

fn files_below(dir: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("target") && !path.ends_with(".git") {
            found.extend(files_below(&path, extension)?);
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Dependencies between rooms follow the table.
fn arrows() -> Result<Vec<String>> {
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.into_iter().collect();
    let rooms: BTreeSet<&str> = allowed.keys().copied().collect();
    let mut findings = Vec::new();
    for room in fs::read_dir(root().join("crates"))? {
        let name = room?.file_name().to_string_lossy().into_owned();
        let Some(may_use) = allowed.get(name.as_str()) else {
            findings.push(format!("crates/{name}: not in the table of rooms in tidy.rs"));
            continue;
        };
        let manifest = fs::read_to_string(root().join("crates").join(&name).join("Cargo.toml"))?;
        let product = manifest.split("[dev-dependencies]").next().unwrap_or_default();
        for line in product.lines() {
            let used = line.split(['.', ' ', '=']).next().unwrap_or_default();
            if used != name && rooms.contains(used) && !may_use.contains(&used) {
                findings.push(format!("crates/{name}: must not use {used}"));
            }
        }
    }
    Ok(findings)
}

fn headers(sources: &[Source]) -> Vec<String> {
    let bare = sources.iter().filter(|source| !source.text.starts_with("//!"));
    bare.map(|source| format!("{}: begin with what the module is (//!)", source.path.display()))
        .collect()
}

fn outside_world(sources: &[Source]) -> Vec<String> {
    let mut findings = Vec::new();
    let engines = sources.iter().filter(|source| ENGINES.contains(&source.room.as_str()));
    for source in engines.filter(|source| !source.is_test()) {
        for (word, why) in OUTSIDE.iter().filter(|(word, _)| !is_of_procedures(source, word)) {
            let code = source.product().lines().filter(|line| !line.trim_start().starts_with("//"));
            if code.into_iter().any(|line| line.contains(word)) {
                findings.push(format!("{}: {word}: {why}", source.path.display()));
            }
        }
    }
    findings
}

fn is_of_procedures(source: &Source, word: &str) -> bool {
    let is_meant =
        |(below, words): &(&str, &[&str])| source.path.starts_with(below) && words.contains(&word);
    PROCEDURES.iter().any(is_meant)
}

fn sizes(sources: &[Source]) -> Vec<String> {
    let product: Vec<(&Source, usize)> = sources
        .iter()
        .filter(|source| !source.is_test())
        .map(|source| (source, source.product().lines().count()))
        .collect();
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

/// Comments have subjects and fit the line, but for those that were there before.
fn comments(sources: &[Source]) -> Vec<String> {
    let lines = || {
        let lines_of =
            |source: &'_ Source| source.text.lines().map(str::to_owned).collect::<Vec<_>>();
        sources.iter().flat_map(lines_of)
    };
    let pronouns = lines().filter(|line| has_pronoun(line)).count();
    let long = lines().filter(|line| is_long_comment(line)).count();
    let mut findings = Vec::new();
    if pronouns > PRONOUNS_MAX {
        let words = PRONOUNS.join(", ");
        findings.push(format!(
            "{pronouns} comments begin with one of {words}; {PRONOUNS_MAX} may: name the thing that acts"
        ));
    }
    if long > LONG_COMMENTS_MAX {
        findings.push(format!(
            "{long} comment lines have over {COMMENT_COLUMNS} columns; {LONG_COMMENTS_MAX} may"
        ));
    }
    findings
}

/// The text of a line that is a comment.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.strip_prefix(['/', '!']).unwrap_or(text).trim_start())
}

fn has_pronoun(line: &str) -> bool {
    let first = comment(line).and_then(|text| text.split(|c: char| !c.is_alphanumeric()).next());
    first.is_some_and(|word| PRONOUNS.contains(&word))
}

fn is_long_comment(line: &str) -> bool {
    comment(line).is_some() && line.chars().count() > COMMENT_COLUMNS
}

/// Names that were given up do not come back.
fn former_names(sources: &[Source]) -> Vec<String> {
    let mut findings = Vec::new();
    let checked = sources.iter().filter(|source| source.path != Path::new(file!()));
    for source in checked {
        let code = source.text.lines().filter(|line| comment(line).is_none());
        let words: BTreeSet<&str> =
            code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_')).collect();
        for (room, old, new) in FORMER_NAMES {
            if (room.is_empty() || room == source.room) && words.contains(old) {
                findings.push(format!("{}: {old} was given up: {new}", source.path.display()));
            }
        }
    }
    findings
}

/// Paths that the documents name in backquotes exist.
fn paths_in_docs() -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for document in documents()? {
        let text = fs::read_to_string(&document)?;
        for quoted in text.split('`').skip(1).step_by(2) {
            let is_path =
                ["crates/", "docs/", "fuzz/", ".ci/"].iter().any(|p| quoted.starts_with(p));
            let plain = quoted.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
            if is_path && plain && !root().join(quoted).exists() {
                findings
                    .push(format!("{}: names {quoted}, which does not exist", shown(&document)));
            }
        }
    }
    Ok(findings)
}

fn documents() -> Result<Vec<PathBuf>> {
    let mut documents = files_below(&root().join("docs"), "md")?;
    documents
        .extend(["README.md", "CHANGELOG.md", "CONTRIBUTING.md"].map(|name| root().join(name)));
    Ok(documents)
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// No file names a path of a developer's machine.
fn machine_paths(sources: &[Source]) -> Result<Vec<String>> {
    let words = [concat!("/wo", "rk/"), concat!("/ro", "ot/."), concat!("/ho", "me/")];
    let mut texts: Vec<(String, String)> = Vec::new();
    for source in sources {
        texts.push((source.path.display().to_string(), source.text.clone()));
    }
    for document in documents()? {
        texts.push((shown(&document), fs::read_to_string(&document)?));
    }
    let found = texts.iter().filter(|(_, text)| words.iter().any(|word| text.contains(word)));
    Ok(found.map(|(path, _)| format!("{path}: names a path of one machine")).collect())
}

/// Each library has its line in docs/DEPENDENCIES.md.
fn dependencies_are_explained() -> Result<Vec<String>> {
    let manifest = fs::read_to_string(root().join("Cargo.toml"))?;
    let explained = fs::read_to_string(root().join("docs/DEPENDENCIES.md"))?;
    let libraries = manifest
        .split("# libraries;")
        .nth(1)
        .and_then(|rest| rest.split("\n[").next())
        .unwrap_or_default();
    let names = libraries.lines().skip(1).filter_map(|line| line.split_once(" =")).map(|(n, _)| n);
    Ok(names
        .filter(|name| !explained.contains(&format!("`{name}`")))
        .map(|name| format!("docs/DEPENDENCIES.md: say in one line why {name} is used"))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(room: &str, text: &str) -> Source {
        Source { path: "crates/a.rs".into(), room: room.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn comments_without_a_subject_are_found() {
        assert!(has_pronoun("    /// Who has the lock."));
        assert!(has_pronoun("//! What is sent"));
        assert!(has_pronoun("// Nobody: dropped"));
        assert!(!has_pronoun("/// Whole objects."));
        assert!(!has_pronoun("let what = 1; // What"));
        assert!(is_long_comment(&format!("// {}", "x".repeat(COMMENT_COLUMNS))));
        assert!(!is_long_comment(&"x".repeat(2 * COMMENT_COLUMNS)));
    }

    #[test]
    fn only_procedures_are_async() {
        let found = |path: &str, text| {
            let room = path.split('/').nth(1).unwrap().to_owned();
            outside_world(&[Source { path: path.into(), room, text: String::from(text) }]).len()
        };
        assert_eq!(found("crates/pg/src/log.rs", "async fn read() {}"), 1);
        assert_eq!(found("crates/rbd/src/header.rs", "async fn read() {}"), 0);
        assert_eq!(found("crates/rbd/src/header.rs", "impl Future for Read {}"), 1);
        assert_eq!(found("crates/rados/src/client.rs", "async fn read() {}"), 1);
        assert_eq!(found("crates/rados/src/procedure/steps.rs", "use std::task::Waker;"), 0);
    }

    #[test]
    fn former_names_are_refused_as_words_of_code_in_their_room() {
        let found = |room, text| former_names(&[source(room, text)]).len();
        assert_eq!(found("rbd", "use crate::Crowd;"), 1);
        assert_eq!(found("rbd", "// Crowd\nstruct CrowdLeft;"), 0);
        assert_eq!(found("pg", "struct Crowd;"), 0);
        assert_eq!(found("pg", "struct Errands;"), 1);
    }
}
