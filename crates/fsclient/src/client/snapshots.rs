//! Snapshots: news of them, attributes that they show, and reads of files in them.

use super::FsClient;
use crate::call::CallId;
use crate::inode::Inode;
use crate::realms::{Realms, has_new_snapshot};
use std::collections::BTreeMap;
use types::features::SUPPORTED;
use types::{Errno, SnapId};
use wire::{ClientReply, ClientSnap, InodeStat, MessageBody, SnapContext, SnapRealmInfo};

/// Takes the realms of a trace.
pub(super) fn learn_trace(client: &mut FsClient, trace: &[u8]) {
    match SnapRealmInfo::decode_trace(trace, client.session.features()) {
        Ok(told) => change_realms(client, |realms, _| realms.learn(told)),
        Err(error) => tracing::warn!(%error, "a trace of realms does not decode"),
    }
}

/// Snapshots have changed, or inodes are in another realm.
pub(super) fn handle_snap(client: &mut FsClient, snap: &ClientSnap) {
    learn_trace(client, &snap.trace);
    if snap.op != ClientSnap::SPLIT {
        return;
    }
    change_realms(client, |realms, inodes| {
        realms.split(&snap.realms, snap.split);
        for ino in &snap.inodes {
            let inode = inodes.get_mut(ino);
            inode.into_iter().for_each(|inode| inode.realm = snap.split);
        }
    });
}

/// Changes realms, or inodes in them. New snapshots show what has changed so far.
fn change_realms(
    client: &mut FsClient,
    change: impl FnOnce(&mut Realms, &mut BTreeMap<u64, Inode>),
) {
    let dirty = client.inodes.iter().filter(|(_, inode)| inode.is_dirty);
    let before: Vec<(u64, SnapContext)> =
        dirty.map(|(ino, inode)| (*ino, client.realms.context(inode.realm))).collect();
    change(&mut client.realms, &mut client.inodes);
    for (ino, before) in before {
        let inode = client.inodes.get_mut(&ino).expect("no inode is gone");
        if has_new_snapshot(&before, &client.realms.context(inode.realm)) {
            inode.note_snapshot(&before);
            flush(client, ino);
        }
    }
}

/// Sends attributes as of snapshots for which all data is on the OSDs.
pub(super) fn flush(client: &mut FsClient, ino: u64) {
    let Some(conn) = client.session.claimed() else { return };
    let Some(inode) = client.inodes.get_mut(&ino) else { return };
    while let Some(message) = inode.take_cap_snap() {
        let tid = client.requests.next_tid();
        client.outputs.send(conn, message.encode(SUPPORTED).with_tid(tid));
        inode.flushes.insert(tid, message);
    }
}

/// A file in a snapshot was opened: reads it, and its size is the end.
pub(super) fn opened(client: &mut FsClient, id: CallId, reply: &ClientReply) {
    let Some(stat) = &reply.target else { return client.fail(id, Errno::IO) };
    let FsClient { snapshot_reads, transfers, .. } = client;
    let over = snapshot_reads.begin_file(client.now, transfers, id, Box::new(stat.clone()));
    over.into_iter().for_each(|outcome| client.complete(id, outcome));
}

/// Whether it shows an inode as of today.
pub(super) fn is_live(stat: &InodeStat) -> bool {
    SnapId(stat.snap) == SnapId::HEAD
}
