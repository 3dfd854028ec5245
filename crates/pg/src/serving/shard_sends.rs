//! Sends writes of a group with shards: to each participant the changes of its shard.

use super::service::Service;
use crate::backend::erasure::plan::ShardOp;
use crate::core::Core;
use crate::holding::{self, Stored};
use crate::message::Replicate;
use crate::{LogEntry, Member, Output};
use bytes::Bytes;
use std::collections::BTreeSet;
use store::{Change, Collection, HELD_UNIT, Transaction};
use types::{EVersion, PgShard};

/// A write whose changes are known.
pub(super) struct Ready {
    /// The encoded entries of other objects, and then that of the write.
    pub entries: Vec<(EVersion, Bytes)>,
    /// The changes of the shards, by position.
    pub shards: Vec<Vec<ShardOp>>,
    /// Participants that get the entries only.
    pub skipping: BTreeSet<Member>,
    /// Changes of the group's totals: objects, clones, bytes.
    pub totals: (i64, i64, i64),
}

/// Sends a write to the participants, and stores our own part.
pub(super) fn send(service: &mut Service<'_>, ready: Ready) {
    let Ready { mut entries, shards, skipping, totals } = ready;
    let core = &mut *service.core;
    let committed = core.copy.committed;
    let trim = core.copy.log.trim_target(&core.own.sizes, committed).unwrap_or_default();
    let begun = holding::begin(core, committed);
    let (version, entry) = entries.pop().expect("a write has an entry");
    supersede(core, version);
    note_in_info(core, version, trim, totals);
    let info = core.info_pair().1;
    let mut replicate = Replicate {
        entry: entry.clone(),
        info: info.clone(),
        also: entries.iter().map(|(_, also)| also.clone()).collect(),
        committed,
        trim,
        transaction: Transaction::new(),
        deltas: Vec::new(),
    };
    let whoami = core.own.whoami;
    let position = |member: Member| member.shard.position().expect("a member has a shard");
    for to in service.serving.agreed.participants.without(whoami) {
        let ops: &[ShardOp] = if skipping.contains(&to) { &[] } else { &shards[position(to)] };
        put_ops(&mut replicate, Collection(PgShard { pg: core.own.id, shard: to.shard }), ops);
        let message = replicate.encode(&core.header(to));
        core.outputs.push_back(Output::Send { to: to.osd, message });
    }
    let own = |op: &ShardOp| match op {
        ShardOp::Store(change) => change.clone(),
        ShardOp::Xor { .. } => panic!("a primary with a parity plans no deltas"),
    };
    let changes: Vec<Change> = shards[position(whoami)].iter().map(own).collect();
    entries.push((version, entry));
    holding::store(core, begun, Stored { entries, info, trim, changes });
}

/// Our own missing objects that the next write, of this version, replaces or removes.
fn supersede(core: &mut Core, version: EVersion) {
    if !core.copy.missing.is_empty() {
        let unsent = core.copy.log.above(core.copy.info.last_update);
        let entries = unsent.take_while(|entry| entry.version <= version).cloned();
        let entries: Vec<LogEntry> = entries.collect();
        holding::supersede(core, &entries);
    }
}

/// Brings our info to the state after a write.
fn note_in_info(core: &mut Core, version: EVersion, trim: EVersion, totals: (i64, i64, i64)) {
    let (objects, clones, bytes) = totals;
    let info = &mut core.copy.info;
    assert!(version > info.last_update, "writes are sent in order");
    info.last_update = version;
    if core.copy.missing.is_empty() {
        info.last_complete = version;
    }
    info.count(objects, clones, bytes);
    if trim != EVersion::ZERO {
        info.log_tail = trim;
    }
}

/// Puts the changes of a shard into the message to its member.
fn put_ops(replicate: &mut Replicate, collection: Collection, ops: &[ShardOp]) {
    replicate.deltas.clear();
    replicate.transaction.changes.clear();
    for (index, op) in (0u32..).zip(ops) {
        let change = match op {
            ShardOp::Store(change) => change.clone(),
            ShardOp::Xor { object, row, data } => {
                replicate.deltas.push(index);
                let (object, offset, data) = (object.clone(), row * HELD_UNIT, data.clone());
                Change::Write { object, offset, data }
            }
        };
        replicate.transaction.push(collection, change);
    }
}
