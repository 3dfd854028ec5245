//! Locks of single bytes of files, which the metadata server keeps for the client.

use super::FsClient;
use crate::call::Call;
use crate::requests::EXCLUSIVE;
use bytes::Bytes;
use codec::Writer;
use std::collections::BTreeSet;

/// The server has locked a byte, or has taken the lock back.
pub(super) fn note(client: &mut FsClient, call: &Call) {
    let (Call::Lock { ino, .. } | Call::Unlock { ino, .. }) = call else { return };
    let Some(inode) = client.inodes.get_mut(ino) else { return };
    match call {
        Call::Lock { place, .. } => drop(inode.locks.insert(*place)),
        Call::Unlock { place, .. } => drop(inode.locks.remove(place)),
        _ => {}
    }
}

/// Locks as they are claimed at the next server: those of `fcntl`, and none of `flock`, as `ceph_filelock`.
pub(super) fn claims(locks: &BTreeSet<u64>) -> Bytes {
    if locks.is_empty() {
        return Bytes::new();
    }
    let mut w = Writer::new();
    w.u32(locks.len() as u32);
    for place in locks {
        let (length, client, owner, pid) = (1, 0, 0, 0);
        [*place, length, client, owner, pid].iter().for_each(|value| w.u64(*value));
        w.u8(EXCLUSIVE);
    }
    w.u32(0);
    w.into_bytes()
}
