//! The data directory of a cluster: what lies where.
//!
//! ```text
//! ceph.conf                    for stock and native clients
//! ceph.client.admin.keyring    the administrator's key
//! control.redb                 the control plane's state, unless it lies on an etcd
//! etcd.json                    that etcd, and how it is reached
//! osd.N/                       one object store per OSD:
//!   store                      its kind
//!   block, block.log           of a block store: a file or a link to a disk; see `store`
//! sepiola.pid                  the process that runs the cluster, while it does
//! ```

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::fs;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

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
        self.path.join("ceph.conf")
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

    /// What `sepiola up` decided once.
    pub fn settings(&self) -> PathBuf {
        self.path.join("cluster.json")
    }

    pub fn osd(&self, id: i32) -> PathBuf {
        self.path.join(format!("osd.{id}"))
    }

    pub fn pid_file(&self) -> PathBuf {
        self.path.join("sepiola.pid")
    }

    pub fn exists(&self) -> bool {
        self.control().exists() || self.etcd().exists()
    }

    pub fn create(&self) -> Result<()> {
        fs::create_dir_all(&self.path)
            .with_context(|| format!("making the data directory {}", self.path.display()))
    }

    /// Makes sure that one process runs this cluster, and tells others which.
    pub fn lock(&self) -> Result<DataLock> {
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
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&temporary, flags, Mode::from_raw_mode(mode))?;
        let mut file = fs::File::from(fd);
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        Ok(fs::rename(&temporary, path)?)
    };
    write().with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

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
