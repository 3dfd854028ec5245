//! Stores of earlier versions open, and hold what they held.

use sim::kept::{self, Kept};
use std::path::{Path, PathBuf};

fn versions() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores");
    let entries = std::fs::read_dir(directory).expect("the repository has it");
    entries.map(|entry| entry.expect("it is readable").path()).collect()
}

fn read(version: &Path) -> Kept {
    let read =
        |name: &str| std::fs::read(version.join(name)).map_err(|error| format!("{name}: {error}"));
    Kept::read(read).unwrap_or_else(|problem| panic!("{}: {problem}", version.display()))
}

#[test]
fn stores_of_all_versions_open() {
    for version in versions() {
        let opened = kept::open(&read(&version));
        opened.unwrap_or_else(|problem| panic!("{}: {problem}", version.display()));
    }
}

#[test]
fn a_missing_object_is_noticed() {
    let mut kept = read(&versions()[0]);
    kept.objects.push_str("1.0 nowhere snap fffffffffffffffe: 1 bytes 00000000 omap 00000000\n");
    let problem = kept::open(&kept).expect_err("there is no such object");
    assert!(problem.contains("nowhere"), "{problem}");
}

#[test]
fn the_stores_of_this_version_are_written_and_read() {
    let kept = kept::make().unwrap();
    let files = kept.files();
    let file = |name: &str| {
        files.iter().find(|(other, _)| other == name).map(|(_, content)| content.to_vec())
    };
    assert_eq!(Kept::read(|name| file(name).ok_or(format!("{name} is not there"))).unwrap(), kept);
}
