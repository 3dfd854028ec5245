//! Quotas: the client refuses what would exceed one that it knows.
//!
//! The bounds and their use are in the attributes of directories, and in messages of the server. A directory
//! counts among its own entries.

use super::FsClient;
use crate::call::Call;
use types::Errno;
use wire::{ClientQuota, ClientReply, FilePath, InodeStat};

/// Directories of which the client remembers the path. Of more it forgets all, and learns them again.
const DIRECTORIES_MAX: usize = 1024;

/// The bounds of a directory, or their use, have changed.
pub(super) fn handle(client: &mut FsClient, quota: ClientQuota) {
    let Some(inode) = client.inodes.get_mut(&quota.ino) else { return };
    inode.stat = InodeStat {
        quota: quota.quota,
        rctime: quota.rctime,
        rbytes: quota.rbytes,
        rfiles: quota.rfiles,
        rsubdirs: quota.rsubdirs,
        ..inode.stat.clone()
    };
}

/// EDQUOT, if a new name would exceed a quota.
pub(super) fn check(client: &FsClient, call: &Call) -> Result<(), Errno> {
    let (Call::Create(path) | Call::Mkdir(path)) = call else { return Ok(()) };
    let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
    let Some(inode) = client.directories.get(directory).and_then(|ino| client.inodes.get(ino))
    else {
        return Ok(());
    };
    let is_full = |stat: &InodeStat| {
        let max_files = stat.quota.max_files;
        max_files != 0 && stat.rfiles + stat.rsubdirs >= max_files
    };
    hold_to(client, inode.realm, is_full)
}

/// EDQUOT, if a write would exceed a quota of bytes.
pub(super) fn check_write(client: &FsClient, ino: u64, end: u64) -> Result<(), Errno> {
    let Some(inode) = client.inodes.get(&ino) else { return Ok(()) };
    let more = end.saturating_sub(inode.stat.size);
    let is_full = |stat: &InodeStat| {
        let max_bytes = stat.quota.max_bytes;
        max_bytes != 0 && stat.rbytes.saturating_add(more) > max_bytes
    };
    if more == 0 { Ok(()) } else { hold_to(client, inode.realm, is_full) }
}

fn hold_to(
    client: &FsClient,
    realm: u64,
    is_full: impl Fn(&InodeStat) -> bool,
) -> Result<(), Errno> {
    let chain = client.realms.chain(realm);
    let mut known = chain.iter().filter_map(|ino| client.inodes.get(ino));
    if known.any(|inode| is_full(&inode.stat)) { Err(Errno::DQUOT) } else { Ok(()) }
}

/// Learns by a reply which inode the directory of a path is.
pub(super) fn learn_directory(client: &mut FsClient, path: &FilePath, reply: &ClientReply) {
    let Some(dentry) = reply.dentry.as_ref().filter(|_| !path.is_in_snapshots()) else {
        return;
    };
    let path = String::from_utf8_lossy(&path.path).into_owned();
    let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory).to_owned();
    client.directories.insert(directory, dentry.directory.ino);
    if let Some(target) = reply.target.as_ref().filter(|stat| stat.mode & 0o170_000 == 0o040_000) {
        client.directories.insert(path, target.ino);
    }
    if client.directories.len() > DIRECTORIES_MAX {
        client.directories.clear();
    }
}
