//! Disk files of finished clusters.

use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// A file of this length is a disk, not a log.
const DISK_LEN_MIN: u64 = 64 << 20;

/// Frees the space of all disks below `directory` and keeps the other files.
///
/// Removing a disk file is not enough: a ring that the kernel has not taken down yet keeps the file open
/// after its process has ended, and the next cluster would find no space.
pub fn empty(directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            empty(&entry.path())?;
        } else if kind.is_file() && entry.metadata()?.len() >= DISK_LEN_MIN {
            fs::File::options().write(true).open(entry.path())?.set_len(0)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_emptied_and_logs_kept() {
        let name = format!("interop-disks-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let nested = directory.join("cluster/osd.0");
        fs::create_dir_all(&nested).unwrap();
        let disk = fs::File::create(nested.join("block")).unwrap();
        disk.set_len(DISK_LEN_MIN).unwrap();
        fs::write(directory.join("cluster.log"), "said").unwrap();
        empty(&directory).unwrap();
        assert_eq!(disk.metadata().unwrap().len(), 0);
        assert_eq!(fs::read(directory.join("cluster.log")).unwrap(), b"said");
        fs::remove_dir_all(&directory).unwrap();
    }
}
