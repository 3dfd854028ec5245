//! The creation of a store in an OSD's directory: which directories may be taken, and a mark until it
//! has ended.
//!
//! Nothing that a directory holds is overwritten, unless the user says that it is not needed, or a
//! creation that did not end has left it. The latter is known by a file, which is there from before the
//! first change until [`end_creation`].

use anyhow::{Context, Result, bail};
use machine::create_private;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

const MARK: &str = "creating";
/// In the root of a new file system.
const OF_FILE_SYSTEM: &str = "lost+found";

/// Makes the directory, if there is none, and marks that a store is being created there.
///
/// # Errors
///
/// Fails if the directory holds anything and `wipe` is not set, unless a creation that did not end has
/// left it.
pub fn begin_creation(directory: &Path, wipe: bool) -> Result<()> {
    create_private(directory).with_context(|| format!("making {}", directory.display()))?;
    if !wipe && !is_unfinished(directory)? {
        check_empty(directory)?;
    }
    let mark = directory.join(MARK);
    let marked = File::create(&mark).and_then(|mark| mark.sync_all());
    marked.with_context(|| format!("making {}", mark.display()))?;
    sync(directory)
}

/// Removes all that the directory holds but the mark.
pub fn clear_directory(directory: &Path) -> Result<()> {
    for path in entries(directory)?.into_iter().filter(|path| !is_named(path, MARK)) {
        let is_directory = path.symlink_metadata().is_ok_and(|found| found.is_dir());
        let removed = if is_directory { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.with_context(|| format!("removing {}", path.display()))?;
    }
    Ok(())
}

/// Removes the mark: from here on the directory is not overwritten any more.
pub fn end_creation(directory: &Path) -> Result<()> {
    let mark = directory.join(MARK);
    fs::remove_file(&mark).with_context(|| format!("removing {}", mark.display()))?;
    sync(directory)
}

/// Refuses a store whose creation did not end.
pub fn check_created(directory: &Path) -> Result<()> {
    if is_unfinished(directory)? {
        bail!(
            "the creation of the store in {} was interrupted; repeat `sepiola osd create` or `osd replace`",
            directory.display()
        );
    }
    Ok(())
}

fn is_unfinished(directory: &Path) -> Result<bool> {
    let mark = directory.join(MARK);
    match mark.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("looking for {}", mark.display())),
    }
}

fn check_empty(directory: &Path) -> Result<()> {
    if let Some(found) = entries(directory)?.first() {
        bail!(
            "{} is not empty: it holds {}. Name an empty directory; if nothing in it is needed, say --wipe",
            directory.display(),
            found.file_name().unwrap_or_default().display()
        );
    }
    Ok(())
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let read = || -> io::Result<Vec<PathBuf>> {
        fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path())).collect()
    };
    let mut paths = read().with_context(|| format!("reading {}", directory.display()))?;
    paths.retain(|path| !is_named(path, OF_FILE_SYSTEM));
    Ok(paths)
}

fn is_named(path: &Path, name: &str) -> bool {
    path.file_name() == Some(OsStr::new(name))
}

fn sync(directory: &Path) -> Result<()> {
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.with_context(|| format!("making the entries of {} durable", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory, removed at the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let name = format!("sepiola-creation-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }

        fn holds(&self, name: &str) -> bool {
            self.0.join(name).exists()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_directory_that_holds_anything_is_refused_unless_it_is_not_needed() {
        let scratch = Scratch::new("held");
        fs::write(scratch.0.join("thesis"), "text").unwrap();
        let error = begin_creation(&scratch.0, false).unwrap_err().to_string();
        assert!(error.contains("holds thesis") && error.contains("--wipe"), "{error}");
        begin_creation(&scratch.0, true).unwrap();
        clear_directory(&scratch.0).unwrap();
        assert!(!scratch.holds("thesis"));
    }

    #[test]
    fn what_a_creation_left_that_did_not_end_may_be_taken_and_a_created_store_may_not() {
        let scratch = Scratch::new("mark");
        fs::create_dir(scratch.0.join(OF_FILE_SYSTEM)).unwrap();
        begin_creation(&scratch.0, false).unwrap();
        fs::write(scratch.0.join("block"), "half").unwrap();
        assert!(check_created(&scratch.0).is_err());
        begin_creation(&scratch.0, false).unwrap();
        clear_directory(&scratch.0).unwrap();
        assert!(scratch.holds(OF_FILE_SYSTEM) && !scratch.holds("block"));
        fs::write(scratch.0.join("block"), "whole").unwrap();
        end_creation(&scratch.0).unwrap();
        check_created(&scratch.0).unwrap();
        assert!(begin_creation(&scratch.0, false).is_err());
        assert!(scratch.holds("block"));
    }
}
