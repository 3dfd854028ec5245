//! Files and directories that hold keys or client data, which others may not read.

use anyhow::{Context, Result};
use rustix::fs::{Mode, OFlags};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
/// The rights of all but the owner.
const OTHERS: u32 = 0o077;

/// Writes a file that appears whole or not at all, readable as `mode` says.
pub fn write_file(path: &Path, text: &str, mode: u32) -> Result<()> {
    let temporary = path.with_extension("new");
    let write = || -> Result<()> {
        // One that is left from an interrupted try may be readable by others.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&temporary, flags, Mode::from_raw_mode(mode))?;
        let mut file = fs::File::from(fd);
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        Ok(fs::rename(&temporary, path)?)
    };
    write().with_context(|| format!("writing {}", path.display()))
}

/// Opens or creates a file that only its owner can read; wider permissions of an existing file are removed
/// first.
pub fn private_file(options: &mut OpenOptions, path: &Path) -> io::Result<fs::File> {
    let file = options.mode(FILE_MODE).open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.mode() & OTHERS != 0 {
        file.set_permissions(fs::Permissions::from_mode(FILE_MODE))?;
    }
    Ok(file)
}

/// Creates a directory, and those above it, that only its owner can read. An existing one stays as it is.
pub fn create_private(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_others_could_read_is_mended_when_it_is_opened() {
        let base = std::env::temp_dir().join(format!("sepiola-private-{}", std::process::id()));
        create_private(&base).unwrap();
        let path = base.join("secret");
        fs::write(&path, "key").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        private_file(OpenOptions::new().read(true), &path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, FILE_MODE);
        fs::remove_dir_all(base).unwrap();
    }
}
