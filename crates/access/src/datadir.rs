//! The data directory of a cluster: what lies where.
//!
//! ```text
//! ceph.conf                    for stock and native clients
//! ceph.client.admin.keyring    the administrator's key
//! control.redb                 the control plane's state, unless it lies on an etcd
//! etcd.json                    that etcd, and how it is reached
//! control.mark                 how far the monitor has seen the control plane's state go
//! osd.N/                       one object store per OSD:
//!   store                      its kind
//!   block, block.log           of a block store: a file or a link to a disk; see `store`
//! sepiola.pid                  the process that runs the cluster, while it does
//! ```

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Files and directories created here hold keys or client data.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
/// The rights of all but the owner.
const OTHERS: u32 = 0o077;
const STICKY: u32 = 0o1000;
const CONF: &str = "ceph.conf";
const PID: &str = "sepiola.pid";

#[derive(Debug, Clone)]
pub struct DataDir {
    path: PathBuf,
}

/// Held while a process runs the cluster; the kernel releases it when the process ends.
#[derive(Debug)]
pub struct DataLock {
    _file: OwnedFd,
    pid_path: PathBuf,
}

impl DataDir {
    pub fn new(path: &Path) -> Self {
        DataDir { path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn conf(&self) -> PathBuf {
        self.path.join(CONF)
    }

    pub fn admin_keyring(&self) -> PathBuf {
        self.path.join("ceph.client.admin.keyring")
    }

    pub fn control(&self) -> PathBuf {
        self.path.join("control.redb")
    }

    pub fn etcd(&self) -> PathBuf {
        self.path.join("etcd.json")
    }

    /// How far the monitor has seen its control store go.
    pub fn high_water(&self) -> PathBuf {
        self.path.join("control.mark")
    }

    /// Path of the settings that `sepiola up` fixed at creation.
    pub fn settings(&self) -> PathBuf {
        self.path.join("cluster.json")
    }

    pub fn osd(&self, id: i32) -> PathBuf {
        self.path.join(format!("osd.{id}"))
    }

    pub fn pid_file(&self) -> PathBuf {
        self.path.join(PID)
    }

    pub fn exists(&self) -> bool {
        self.control().exists() || self.etcd().exists()
    }

    pub fn create(&self) -> Result<()> {
        create_private(&self.path)
            .with_context(|| format!("making the data directory {}", self.path.display()))
    }

    /// Makes sure that one process runs this cluster, and tells others which.
    pub fn lock(&self) -> Result<DataLock> {
        keep_private(&self.path);
        let pid_path = self.pid_file();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let file = rustix::fs::open(&pid_path, flags, Mode::from_raw_mode(0o644))
            .with_context(|| format!("opening {}", pid_path.display()))?;
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let pid = fs::read_to_string(&pid_path).unwrap_or_default();
            bail!(
                "{} is in use by process {}; stop it with `sepiola down --data {}`",
                self.path.display(),
                pid.trim(),
                self.path.display()
            );
        }
        rustix::fs::ftruncate(&file, 0)?;
        fs::File::from(file.try_clone()?)
            .write_all(format!("{}\n", std::process::id()).as_bytes())?;
        Ok(DataLock { _file: file, pid_path })
    }

    /// The process that runs the cluster, if one does.
    pub fn running(&self) -> Option<u32> {
        let file = rustix::fs::open(self.pid_file(), OFlags::RDONLY, Mode::empty()).ok()?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => None,
            Err(_) => fs::read_to_string(self.pid_file()).ok()?.trim().parse().ok(),
        }
    }
}

impl Drop for DataLock {
    fn drop(&mut self) {
        // A pid file without a lock means nothing; removing it is tidiness only.
        let _ = fs::remove_file(&self.pid_path);
    }
}

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

/// Takes from others what earlier builds let them read: the directory, what lies in it, and in the
/// directories of its OSDs. What cannot be changed is told and left.
fn keep_private(directory: &Path) {
    mend(directory);
    for path in entries(directory) {
        let is_osd = path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"osd."));
        if path.is_dir() && is_osd {
            entries(&path).iter().for_each(|inner| mend(inner));
        }
        mend(&path);
    }
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(directory).into_iter().flatten();
    listed.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

/// The target of a link belongs to others, and so does a shared directory such as /tmp: neither is changed.
/// `ceph.conf` holds no secret.
fn mend(path: &Path) {
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    let mode = metadata.mode() & 0o7777;
    let (is_directory, is_file) = (metadata.is_dir(), metadata.is_file());
    let is_shared = is_directory && mode & STICKY != 0;
    let is_public = path.file_name().is_some_and(|name| name == CONF || name == PID);
    if mode & OTHERS == 0 || !(is_directory || is_file) || is_shared || is_public {
        return;
    }
    let private = mode & !OTHERS;
    let set = fs::set_permissions(path, fs::Permissions::from_mode(private));
    let (path, was, is) = (path.display(), format!("{mode:04o}"), format!("{private:04o}"));
    match set {
        Ok(()) => tracing::warn!(%path, was, is, "others could read this, and can no more"),
        Err(error) => tracing::warn!(%path, was, %error, "others can read this; run chmod go-rwx"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn what_is_made_is_private_and_what_was_not_becomes_so() {
        let base = std::env::temp_dir().join(format!("sepiola-modes-{}", std::process::id()));
        let dir = DataDir::new(&base.join("inner"));
        dir.create().unwrap();
        assert_eq!((mode(&base), mode(dir.path())), (0o700, 0o700));
        // Left over from an interrupted try of an earlier build.
        let secret = dir.path().join("secret.json");
        fs::write(dir.path().join("secret.new"), "").unwrap();
        fs::set_permissions(dir.path().join("secret.new"), fs::Permissions::from_mode(0o644))
            .unwrap();
        write_file(&secret, "key", 0o600).unwrap();
        assert_eq!(mode(&secret), 0o600);

        let (osd, elsewhere) = (dir.osd(0), base.join("elsewhere"));
        fs::create_dir(&osd).unwrap();
        for path in [dir.control(), osd.join("block"), elsewhere.clone(), dir.conf()] {
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        }
        std::os::unix::fs::symlink(&elsewhere, osd.join("block.log")).unwrap();
        for path in [&osd, dir.path()] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        drop(dir.lock().unwrap());
        assert_eq!((mode(dir.path()), mode(&osd)), (0o700, 0o700));
        assert_eq!((mode(&dir.control()), mode(&osd.join("block"))), (0o600, 0o600));
        assert_eq!((mode(&dir.conf()), mode(&elsewhere)), (0o644, 0o644));
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn a_second_process_is_refused_and_told_who_runs() {
        let path = std::env::temp_dir().join(format!("sepiola-datadir-{}", std::process::id()));
        let dir = DataDir::new(&path);
        dir.create().unwrap();
        assert_eq!(dir.running(), None);
        let lock = dir.lock().unwrap();
        assert_eq!(dir.running(), Some(std::process::id()));
        assert!(dir.lock().unwrap_err().to_string().contains("sepiola down"));
        drop(lock);
        assert_eq!(dir.running(), None);
        fs::remove_dir_all(path).unwrap();
    }
}
