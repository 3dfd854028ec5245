//! Where reports wait to be posted.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub const EXTENSION: &str = "json";

/// The place of the reports in a daemon's directory.
pub fn place(directory: &Path) -> PathBuf {
    directory.join("crash")
}

/// The reports that wait, the oldest first.
pub fn kept(place: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == EXTENSION));
    paths.sort();
    Ok(paths)
}
