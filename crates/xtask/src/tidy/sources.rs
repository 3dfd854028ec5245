//! The texts that the rules look at: source files and documents.

use crate::run::root;
use anyhow::Result;
use std::fs;
use std::path::{Path, PathBuf};

pub(super) struct Source {
    /// Relative to the workspace.
    pub(super) path: PathBuf,
    pub(super) room: String,
    pub(super) text: String,
}

impl Source {
    pub(super) fn is_test(&self) -> bool {
        let path = self.path.to_string_lossy();
        path.contains("tests/") || path.ends_with("tests.rs") || path.contains("/examples/")
    }

    /// The text before the inline tests.
    pub(super) fn product(&self) -> &str {
        self.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
    }
}

pub(super) fn sources() -> Result<Vec<Source>> {
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

pub(super) fn documents() -> Result<Vec<PathBuf>> {
    let mut documents = files_below(&root().join("docs"), "md")?;
    documents
        .extend(["README.md", "CHANGELOG.md", "CONTRIBUTING.md"].map(|name| root().join(name)));
    Ok(documents)
}

pub(super) fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}
