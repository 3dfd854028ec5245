//! Dependencies of crates: on other crates, on the operating system, on libraries.

use super::sources::Source;
use crate::run::root;
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Crates that a crate may use. Dependencies point down: hosts, engines, formats, values.
const ARROWS: [(&str, &[&str]); 44] = [
    ("stdx", &[]),
    ("erasure", &[]),
    ("codec", &[]),
    ("types", &["codec"]),
    ("engine", &["types"]),
    ("control", &["engine"]),
    ("crush", &["codec", "types"]),
    ("maps", &["codec", "erasure", "types", "crush"]),
    ("wire", &["codec", "types", "engine", "stdx"]),
    ("auth", &["codec", "types", "engine"]),
    ("msgr", &["codec", "types", "engine", "wire", "auth", "stdx"]),
    ("store", &["codec", "types", "engine", "stdx"]),
    ("block", &["codec", "types", "engine", "store", "stdx"]),
    ("classes", &["codec", "types"]),
    ("pg", &["codec", "types", "engine", "erasure", "store", "maps", "wire", "stdx"]),
    (
        "osd",
        &["codec", "types", "engine", "store", "maps", "wire", "auth", "pg", "classes", "stdx"],
    ),
    ("mon", &["codec", "types", "engine", "control", "maps", "wire", "auth", "crush", "stdx"]),
    ("namespace", &["codec", "types", "maps", "wire", "stdx"]),
    ("fscaps", &["engine", "wire"]),
    ("fsjournal", &["codec"]),
    ("fscheck", &["codec", "types", "namespace"]),
    (
        "mds",
        &[
            "codec",
            "types",
            "engine",
            "maps",
            "wire",
            "auth",
            "namespace",
            "fscaps",
            "fsjournal",
            "fscheck",
            "rados",
        ],
    ),
    ("rados", &["codec", "types", "engine", "maps", "wire", "auth", "stdx"]),
    ("fsclient", &["codec", "types", "engine", "maps", "wire", "auth", "rados"]),
    ("volumes", &["codec", "types", "wire", "fsclient"]),
    ("rbd", &["codec", "types", "engine", "wire", "rados", "stdx"]),
    ("nbd", &[]),
    ("web", &[]),
    ("webconsole", &["types", "engine", "wire", "auth", "web"]),
    ("rt", &["engine", "types", "stdx"]),
    ("host", &["types", "engine", "msgr", "rt", "stdx"]),
    ("machine", &[]),
    ("tls", &["machine"]),
    ("etcd", &["engine", "control", "machine"]),
    ("embedded", &["engine", "control", "machine"]),
    (
        "disks",
        &["codec", "types", "engine", "store", "block", "files", "rt", "host", "machine", "stdx"],
    ),
    ("access", &["types", "engine", "auth", "rados", "rbd", "host", "machine", "rt", "stdx"]),
    ("gateway", &["types", "engine", "rbd", "nbd", "rt", "host", "access", "tls", "stdx"]),
    ("bench", &["codec", "types", "engine", "wire", "rados", "rbd", "access", "stdx"]),
    ("files", &["codec", "types", "engine", "store"]),
    (
        "sim",
        &[
            "codec", "types", "engine", "stdx", "crush", "maps", "wire", "auth", "msgr", "store",
            "block", "erasure", "pg", "osd", "mds", "mon", "rados", "rbd", "fsclient",
        ],
    ),
    (
        "sepiola",
        &[
            "codec",
            "types",
            "engine",
            "control",
            "maps",
            "wire",
            "auth",
            "store",
            "block",
            "osd",
            "fscheck",
            "mds",
            "mon",
            "rados",
            "rbd",
            "fsclient",
            "volumes",
            "rt",
            "machine",
            "host",
            "disks",
            "embedded",
            "etcd",
            "access",
            "gateway",
            "bench",
            "stdx",
            "web",
            "webconsole",
            "tls",
        ],
    ),
    ("interop", &["erasure"]),
    ("xtask", &[]),
];

/// Crates whose logic must not touch the outside world, and words that would.
const ENGINES: [&str; 29] = [
    "stdx",
    "erasure",
    "codec",
    "types",
    "engine",
    "control",
    "crush",
    "maps",
    "wire",
    "auth",
    "msgr",
    "store",
    "block",
    "classes",
    "pg",
    "osd",
    "mon",
    "mds",
    "fscaps",
    "namespace",
    "fsjournal",
    "fscheck",
    "fsclient",
    "volumes",
    "rados",
    "rbd",
    "nbd",
    "web",
    "webconsole",
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
const PROCEDURES: [(&str, &[&str]); 6] = [
    ("crates/rados/src/procedure", &["async fn", "std::task", "Waker", "impl Future for"]),
    ("crates/rbd/src", &["async fn"]),
    ("crates/mds/src/store", &["async fn"]),
    ("crates/volumes/src/procedure.rs", &["async fn", "std::task", "Waker"]),
    ("crates/volumes/src/copy.rs", &["async fn", "std::task"]),
    ("crates/volumes/src", &["async fn"]),
];

/// Names of another crate that only some files of a crate may use: the crate, the name, the files, and the
/// reason.
const RESERVED: [(&str, &str, &[&str], &str); 1] = [(
    "osd",
    "Collection",
    &["crates/osd/src/maps/stored.rs", "crates/osd/src/commands/bench.rs"],
    "the backend of a placement group knows where its objects lie: ask `Pg::read` or `Pg::collection`",
)];

/// Dependencies between crates follow the table.
pub(super) fn arrows() -> Result<Vec<String>> {
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.into_iter().collect();
    let rooms: BTreeSet<&str> = allowed.keys().copied().collect();
    let mut findings = Vec::new();
    for room in fs::read_dir(root().join("crates"))? {
        let name = room?.file_name().to_string_lossy().into_owned();
        let Some(may_use) = allowed.get(name.as_str()) else {
            findings
                .push(format!("crates/{name}: not in `ARROWS` of crates/xtask/src/tidy/arrows.rs"));
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

pub(super) fn outside_world(sources: &[Source]) -> Vec<String> {
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

/// Names of other crates that only some files of a crate may use.
pub(super) fn reserved_names(sources: &[Source]) -> Vec<String> {
    let products = || sources.iter().filter(|source| !source.is_test());
    let findings = RESERVED.iter().flat_map(|(room, name, files, why)| {
        let others = products().filter(move |source| {
            source.room == *room && files.iter().all(|file| source.path != Path::new(file))
        });
        let naming = others.filter(move |source| names(source.product(), name));
        naming.map(move |source| format!("{}: {name}: {why}", source.path.display()))
    });
    findings.collect()
}

/// Whether code has the name as a whole word.
fn names(text: &str, name: &str) -> bool {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut words = code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'));
    words.any(|word| word == name)
}

fn is_of_procedures(source: &Source, word: &str) -> bool {
    let is_meant =
        |(below, words): &(&str, &[&str])| source.path.starts_with(below) && words.contains(&word);
    PROCEDURES.iter().any(is_meant)
}

/// Each library has its line in docs/DEPENDENCIES.md.
pub(super) fn dependencies_are_explained() -> Result<Vec<String>> {
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

    #[test]
    fn only_some_files_of_the_osd_name_collections() {
        let found = |path: &str, text| {
            let room = path.split('/').nth(1).unwrap().to_owned();
            reserved_names(&[Source { path: path.into(), room, text: String::from(text) }]).len()
        };
        let named = "use store::{Collection, Outcome};";
        assert_eq!(found("crates/osd/src/trim/mod.rs", named), 1);
        assert_eq!(
            found("crates/osd/src/trim/mod.rs", "let c = store::Collection::replicated(pg);"),
            1
        );
        assert_eq!(
            found("crates/osd/src/trim/mod.rs", "Err(StoreError::NoCollection(_)) => {}"),
            0
        );
        assert_eq!(
            found("crates/osd/src/trim/mod.rs", "// A Collection.\nask(Token::Collections);"),
            0
        );
        let tests = format!("#[cfg(test)]\nmod tests {{\n    {named}\n}}");
        assert_eq!(found("crates/osd/src/trim/mod.rs", &tests), 0);
        assert_eq!(found("crates/osd/src/cluster_tests/world.rs", named), 0);
        assert_eq!(found("crates/osd/src/maps/stored.rs", named), 0);
        assert_eq!(found("crates/pg/src/core.rs", named), 0);
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
}
