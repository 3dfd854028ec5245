//! Locks of single bytes of files, which the metadata server keeps for the client.

use crate::call::Call;
use crate::requests::EXCLUSIVE;
use bytes::Bytes;
use codec::Writer;
use std::collections::BTreeSet;

/// The server has locked a byte of a file, or has taken the lock back.
pub(crate) fn note(locks: &mut BTreeSet<u64>, call: &Call) {
    match call {
        Call::Lock { place, .. } => {
            locks.insert(*place);
        }
        Call::Unlock { place, .. } => {
            locks.remove(place);
        }
        _ => {}
    }
}

/// Locks as they are claimed at the next server: those of `fcntl`, and none of `flock`, as `ceph_filelock`.
pub(crate) fn claims(locks: &BTreeSet<u64>) -> Bytes {
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
