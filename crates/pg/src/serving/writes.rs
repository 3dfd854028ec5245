//! Writes: the primary orders and stores them, and replicates them to the other members.

use super::advance;
use super::service::{InFlight, Service};
use crate::Member;
use crate::core::Core;
use crate::members::MemberSet;
use crate::message::Replicate;
use crate::{EntryKind, LogEntry, Output, Tag, info};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use store::{Change, Collection, Transaction};
use types::{EVersion, HObject, RequestId, ShardId, UTime};

/// A write for the primary to order and replicate.
#[derive(Debug, Clone, Default)]
pub struct Write {
    /// Identifies the write in [`Output::Committed`] and its like.
    pub ticket: u64,
    /// The object that the request names.
    pub object: HObject,
    /// Whether the object is written or removed.
    pub kind: EntryKind,
    /// The object's version before; zero if it did not exist.
    pub prior_version: EVersion,
    /// The object's version for clients after the write.
    pub user_version: u64,
    /// Default (zero) for writes of the OSD's own.
    pub request: RequestId,
    /// The time of the write by the client's clock.
    pub mtime: UTime,
    /// The result in the client's reply.
    pub result: i32,
    /// Return code and output of each operation, if the client asked for them.
    pub returns: Vec<(i32, Bytes)>,
    /// The changes to store, of all objects.
    pub changes: Vec<Change>,
    /// Changes of other objects (clones), in order; each gets a version and a log entry before this one's.
    pub also: Vec<AlsoWritten>,
    /// Bytes of each existing object that the write changes or copies, before the write. Only for groups with
    /// shards.
    pub sizes: BTreeMap<HObject, u64>,
    /// Changes of the group's totals.
    pub objects: i64,
    /// See `objects`.
    pub clones: i64,
    /// Bytes of data. See `objects`.
    pub bytes: i64,
}

/// Another object that a write changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AlsoWritten {
    /// A clone, or the head of one.
    pub object: HObject,
    /// Whether the object is written or removed.
    pub kind: EntryKind,
    /// The object's version before; zero if it did not exist.
    pub prior_version: EVersion,
}

/// Bytes of an entry.
/// Changes of the meta object that are added to those of a write.
const META_CHANGES: usize = 2;

pub(super) const ENTRY_LEN_USUAL: usize = 192;

const INFO_LEN_USUAL: usize = 96;

/// The version that the next write will get.
pub fn next_version(core: &Core) -> EVersion {
    EVersion { epoch: core.placement.epoch, version: core.copy.log.head().version + 1 }
}

/// Orders a write after all others, stores and replicates it, and returns its version. Panics unless
/// the group is active.
pub fn submit(service: &mut Service<'_>, write: Write) -> EVersion {
    let also = also_entries(service, &write);
    let mut version = next_version(service.core);
    version.version += also.len() as u64;
    let Write { ticket, object, kind, request, mtime, result, returns, changes, .. } = write;
    let (prior_version, user_version) = (write.prior_version, write.user_version);
    let entry = LogEntry {
        version,
        prior_version,
        user_version,
        kind,
        object,
        request,
        mtime,
        result,
        returns,
        shards: None,
    };
    let trim = service
        .core
        .copy
        .log
        .trim_target(&service.core.own.sizes, service.core.copy.committed)
        .unwrap_or_default();
    let was_whole = service.view().is_whole();
    let found = if was_whole { Vec::new() } else { supersede(service, &entry, &also) };
    service.core.copy.info.last_update = version;
    if service.core.copy.missing.is_empty() {
        service.core.copy.info.last_complete = version;
    }
    service.core.copy.info.last_user_version =
        service.core.copy.info.last_user_version.max(user_version);
    service.core.copy.info.count(write.objects, write.clones, write.bytes);
    if trim != EVersion::ZERO {
        service.core.copy.info.log_tail = trim;
    }
    let mut replicate = Replicate {
        entry: codec::encode_with_capacity(&entry, ENTRY_LEN_USUAL),
        info: codec::encode_with_capacity(&service.core.copy.info, INFO_LEN_USUAL),
        also: also.iter().map(codec::encode_to_bytes).collect(),
        committed: service.core.copy.committed,
        trim,
        transaction: transaction(service.core.own.collection, changes),
        deltas: Vec::new(),
    };
    send_to_replicas(service, &mut replicate, &entry, &also);
    // The others remove their own items.
    found.into_iter().for_each(|key| service.core.unset_missing(&mut replicate.transaction, key));
    service.core.append_entries(&mut replicate, entry, also);
    let waiting = MemberSet::all(&service.serving.agreed.participants);
    assert!(!waiting.is_empty(), "a write waits for its members");
    service.serving.in_flight.push_back(InFlight { version, ticket, waiting });
    service
        .core
        .commit(Tag::Write(version, service.core.placement.interval), replicate.transaction);
    if !was_whole && service.view().is_whole() {
        // The write superseded the last missing object.
        service.continue_recovery();
    }
    version
}

/// The changes, with space for those of the log and the info.
fn transaction(collection: Collection, changes: Vec<Change>) -> Transaction {
    let mut transaction = Transaction { changes: Vec::with_capacity(changes.len() + META_CHANGES) };
    changes.into_iter().for_each(|change| transaction.push(collection, change));
    transaction
}

/// Drops missing items of objects that the write removes, or replaces because they are lost. Returns the
/// stored keys of our own dropped items.
fn supersede(service: &mut Service<'_>, entry: &LogEntry, also: &[LogEntry]) -> Vec<Bytes> {
    let mut found = Vec::new();
    for entry in also.iter().chain([entry]).filter(|entry| entry.changes_object()) {
        if service.forget_lost(&entry.object) {
            found.push(info::missing_key(&entry.object));
        }
        if entry.kind == EntryKind::Delete {
            service.deleted_unrecovered(&entry.object);
        }
    }
    found
}

pub(super) fn also_entries(service: &Service<'_>, write: &Write) -> Vec<LogEntry> {
    let first = next_version(service.core);
    let entry = |(index, also): (usize, &AlsoWritten)| LogEntry {
        version: EVersion { version: first.version + index as u64, ..first },
        prior_version: also.prior_version,
        user_version: write.user_version,
        kind: also.kind,
        object: also.object.clone(),
        mtime: write.mtime,
        ..LogEntry::default()
    };
    let also: Vec<LogEntry> = write.also.iter().enumerate().map(entry).collect();
    assert!(also.iter().all(|entry| entry.object != write.object), "the object has its own entry");
    also
}

/// Sends the write to the other participants.
fn send_to_replicas(
    service: &mut Service<'_>,
    replicate: &mut Replicate,
    entry: &LogEntry,
    also: &[LogEntry],
) {
    let mut skipping = BTreeSet::new();
    if service.serving.agreed.backfill.is_needed() && entry.changes_object() {
        skipping = service.note_write(&entry.object, also);
    }
    send_same(service, replicate, &skipping);
    if !skipping.is_empty() {
        send_entry(service, replicate, &skipping);
    }
}

/// Sends the same transaction to all, encoded once.
fn send_same(service: &mut Service<'_>, replicate: &Replicate, skipping: &BTreeSet<Member>) {
    let Service { core, serving, .. } = service;
    let (participants, whoami) = (&serving.agreed.participants, core.own.whoami);
    assert_eq!(whoami.shard, ShardId::NONE, "shards differ");
    if participants.len() < 2 {
        return;
    }
    let message = replicate.encode(&core.header(whoami));
    for to in participants.iter().copied() {
        if to != whoami && !skipping.contains(&to) {
            core.outputs.push_back(Output::Send { to: to.osd, message: message.clone() });
        }
    }
}

/// Sends the log entry alone, to backfill targets that have not reached the object.
fn send_entry(service: &mut Service<'_>, replicate: &mut Replicate, skipping: &BTreeSet<Member>) {
    let transaction = std::mem::take(&mut replicate.transaction);
    for to in skipping.iter().copied() {
        let message = replicate.encode(&service.core.header(to));
        service.core.outputs.push_back(Output::Send { to: to.osd, message });
    }
    replicate.transaction = transaction;
}

/// A member has stored all writes up to `version`: it applies them without gaps.
pub fn handle_replicated(service: &mut Service<'_>, from: Member, version: EVersion) {
    let Some(member) = service.serving.agreed.participants.index_of(from) else { return };
    if version > service.core.copy.info.last_update {
        tracing::error!(pg = %service.core.own.id, %from, ?version, "a member confirms what was not written");
        return;
    }
    for write in service.serving.in_flight.iter_mut().take_while(|write| write.version <= version) {
        write.waiting.remove(member);
    }
    let mut has_committed = false;
    while service.serving.in_flight.front().is_some_and(|write| write.waiting.is_empty()) {
        let write = service.serving.in_flight.pop_front().expect("there is a front");
        let committed = service.core.copy.committed.version;
        assert!(write.version.version > committed, "writes are committed in order");
        service.core.copy.committed = write.version;
        service.serving.recovery.clear_stuck();
        service.core.outputs.push_back(Output::Committed { ticket: write.ticket });
        has_committed = true;
    }
    if has_committed && service.core.placement.geometry().is_some() {
        advance::committed(service);
    }
}
