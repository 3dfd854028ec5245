//! Names of the disks below a file.

use rustix::fs::{major, minor};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Layers of devices (LVM, RAID, encryption) that are looked through.
const LAYERS_MAX: usize = 8;

/// Names of the disks (`sda`) that a block device is or consists of, or that the file system of a file is on.
/// None if the kernel does not tell: names are for people.
pub fn disks_below(path: &Path) -> Vec<String> {
    let Ok(metadata) = fs::metadata(path) else { return Vec::new() };
    let is_device = metadata.file_type().is_block_device();
    let device = if is_device { metadata.rdev() } else { metadata.dev() };
    let link = format!("/sys/dev/block/{}:{}", major(device), minor(device));
    let mut names = Vec::new();
    if let Ok(device) = fs::canonicalize(link) {
        collect(&device, LAYERS_MAX, &mut names);
    }
    names.sort();
    names.dedup();
    names
}

/// Adds the disks of a device, which is a directory of sysfs.
fn collect(device: &Path, layers: usize, names: &mut Vec<String>) {
    let parts = fs::read_dir(device.join("slaves")).into_iter().flatten().flatten();
    let parts: Vec<PathBuf> = parts.filter_map(|part| fs::canonicalize(part.path()).ok()).collect();
    if !parts.is_empty() && layers > 0 {
        return parts.iter().for_each(|part| collect(part, layers - 1, names));
    }
    let is_partition = device.join("partition").exists();
    let disk = if is_partition { device.parent() } else { Some(device) };
    let name = disk.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    names.extend(name);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_looked_through_to_its_disks() {
        let root = std::env::temp_dir().join(format!("sepiola-disks-{}", std::process::id()));
        let make = |path: &str| fs::create_dir_all(root.join(path)).unwrap();
        ["sda/sda1", "sdb", "dm-0/slaves", "dm-1/slaves"].into_iter().for_each(make);
        fs::write(root.join("sda/sda1/partition"), "1\n").unwrap();
        for (link, to) in [
            ("dm-0/slaves/sda1", "sda/sda1"),
            ("dm-0/slaves/sdb", "sdb"),
            ("dm-1/slaves/dm-0", "dm-0"),
        ] {
            std::os::unix::fs::symlink(root.join(to), root.join(link)).unwrap();
        }
        let mut names = Vec::new();
        collect(&root.join("dm-1"), LAYERS_MAX, &mut names);
        names.sort();
        assert_eq!(names, ["sda", "sdb"]);
        fs::remove_dir_all(root).unwrap();
        assert_eq!(disks_below(Path::new("/no/such/file")), Vec::<String>::new());
    }
}
