//! Writes: the primary orders and stores them, and replicates them to the other members.

use crate::members::MemberSet;
use crate::message::{Body, Replicate};
use crate::{EntryKind, LogEntry, Output, Pg, PgInfo, State, Tag, info};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use store::{Change, Transaction};
use types::{EVersion, Epoch, HObject, OsdId, RequestId, UTime};

/// A write for the primary to order and replicate.
#[derive(Debug, Clone, Default)]
pub struct Write {
    /// Identifies the write in [`Output::Committed`] and its like.
    pub ticket: u64,
    pub object: HObject,
    pub kind: EntryKind,
    pub prior_version: EVersion,
    pub user_version: u64,
    pub request: RequestId,
    pub mtime: UTime,
    /// The result in the client's reply.
    pub result: i32,
    /// Return code and output of each operation, if the client asked for them.
    pub returns: Vec<(i32, Bytes)>,
    /// The changes to store, of all objects.
    pub changes: Vec<Change>,
    /// Changes of other objects (clones), in order; each gets a version and a log entry before this one's.
    pub also: Vec<AlsoWritten>,
    /// Changes of the group's totals.
    pub objects: i64,
    pub clones: i64,
    pub bytes: i64,
}

/// Another object that a write changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AlsoWritten {
    pub object: HObject,
    pub kind: EntryKind,
    pub prior_version: EVersion,
}

/// A write that is not durable on all participants.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub version: EVersion,
    pub ticket: u64,
    /// The participants that have not stored it.
    pub waiting: MemberSet,
}

const ENTRY_LEN_USUAL: usize = 192;
const INFO_LEN_USUAL: usize = 96;

impl Pg {
    /// The version that the next write will get.
    pub fn next_version(&self) -> EVersion {
        EVersion {
            epoch: self.core.placement.epoch,
            version: self.core.copy.info.last_update.version + 1,
        }
    }

    /// Orders a write after all others, stores and replicates it, and returns its version. Panics unless
    /// the group is active.
    pub fn submit(&mut self, write: Write) -> EVersion {
        assert!(self.is_active(), "writes come to active groups");
        let also = self.also_entries(&write);
        let mut version = self.next_version();
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
        };
        let trim = self
            .core
            .copy
            .log
            .trim_target(&self.core.own.sizes, self.core.copy.committed)
            .unwrap_or_default();
        let was_whole = self.is_whole();
        let found = if was_whole { Vec::new() } else { self.supersede(&entry, &also) };
        self.core.copy.info.last_update = version;
        if self.core.copy.missing.is_empty() {
            self.core.copy.info.last_complete = version;
        }
        self.core.copy.info.last_user_version =
            self.core.copy.info.last_user_version.max(user_version);
        self.core.copy.info.count(write.objects, write.clones, write.bytes);
        if trim != EVersion::ZERO {
            self.core.copy.info.log_tail = trim;
        }
        let mut transaction = Transaction { changes: Vec::with_capacity(changes.len() + 2) };
        changes.into_iter().for_each(|change| transaction.push(self.core.own.collection, change));
        let mut replicate = Replicate {
            entry: codec::encode_with_capacity(&entry, ENTRY_LEN_USUAL),
            info: codec::encode_with_capacity(&self.core.copy.info, INFO_LEN_USUAL),
            also: also.iter().map(codec::encode_to_bytes).collect(),
            committed: self.core.copy.committed,
            trim,
            transaction,
        };
        self.send_to_replicas(&mut replicate, &entry, &also);
        // The others remove their own items.
        found.into_iter().for_each(|key| self.core.unset_missing(&mut replicate.transaction, key));
        self.append(&mut replicate, entry, also);
        let waiting = MemberSet::all(&self.agreed.participants);
        self.serving.in_flight.push_back(InFlight { version, ticket, waiting });
        self.core.commit(Tag::Write(version, self.core.placement.interval), replicate.transaction);
        if !was_whole && self.is_whole() {
            // The write superseded the last missing object.
            self.go_on_recovering();
        }
        version
    }

    /// Drops missing items of objects that the write removes, or replaces because they are lost. Returns the
    /// stored keys of our own dropped items.
    fn supersede(&mut self, entry: &LogEntry, also: &[LogEntry]) -> Vec<Bytes> {
        let mut found = Vec::new();
        for entry in also.iter().chain([entry]).filter(|entry| entry.changes_object()) {
            if self.forget_lost(&entry.object) {
                found.push(info::missing_key(&entry.object));
            }
            if entry.kind == EntryKind::Delete {
                self.deleted_unrecovered(&entry.object);
            }
        }
        found
    }

    fn also_entries(&self, write: &Write) -> Vec<LogEntry> {
        let first = self.next_version();
        let entry = |(index, also): (usize, &AlsoWritten)| LogEntry {
            version: EVersion { version: first.version + index as u64, ..first },
            prior_version: also.prior_version,
            user_version: write.user_version,
            kind: also.kind,
            object: also.object.clone(),
            mtime: write.mtime,
            ..LogEntry::default()
        };
        write.also.iter().enumerate().map(entry).collect()
    }

    fn send_to_replicas(&mut self, replicate: &mut Replicate, entry: &LogEntry, also: &[LogEntry]) {
        if self.agreed.participants.len() < 2 {
            return;
        }
        let mut skipping = BTreeSet::new();
        if self.is_filling() && entry.changes_object() {
            skipping = self.note_write(&entry.object, also);
        }
        let message = replicate.encode(&self.core.header());
        for index in 0..self.agreed.participants.len() {
            let to = self.agreed.participants[index];
            if to != self.core.own.whoami && !skipping.contains(&to) {
                self.core.outputs.push_back(Output::Send { to, message: message.clone() });
            }
        }
        if !skipping.is_empty() {
            self.send_entry(replicate, &skipping);
        }
    }

    /// Sends the log entry alone, to backfill targets that have not reached the object.
    fn send_entry(&mut self, replicate: &mut Replicate, skipping: &BTreeSet<OsdId>) {
        let transaction = std::mem::take(&mut replicate.transaction);
        let message = replicate.encode(&self.core.header());
        replicate.transaction = transaction;
        for to in skipping {
            self.core.outputs.push_back(Output::Send { to: *to, message: message.clone() });
        }
    }

    /// Adds the log entry, and those before it, to the log and to the transaction.
    fn append(&mut self, replicate: &mut Replicate, entry: LogEntry, also: Vec<LogEntry>) {
        let mut pairs = BTreeMap::from([
            (info::INFO_KEY, replicate.info.clone()),
            (info::log_key(entry.version), replicate.entry.clone()),
        ]);
        for (also, encoded) in also.into_iter().zip(&replicate.also) {
            pairs.insert(info::log_key(also.version), encoded.clone());
            self.core.copy.log.push(also);
        }
        self.core.copy.log.push(entry);
        if replicate.trim != EVersion::ZERO {
            let trimmed = self.core.copy.log.trim(replicate.trim);
            self.core.store_trimmed(&mut replicate.transaction, &mut pairs, trimmed);
            let (first, _) = info::log_keys();
            let beyond = EVersion { version: replicate.trim.version + 1, ..replicate.trim };
            self.core.remove_meta(&mut replicate.transaction, (first, info::log_key(beyond)));
        }
        self.core.set_meta(&mut replicate.transaction, pairs);
    }

    /// As replica: appends a write to the log, and stores it.
    pub(crate) fn told_to_replicate(&mut self, mut write: Replicate) {
        if self.state() != State::ReplicaActive {
            return;
        }
        let decoded = |encoded: &Bytes| codec::decode_all::<LogEntry>("log entry", encoded);
        let (Ok(entry), Ok(also), Ok(mut info)) = (
            decoded(&write.entry),
            write.also.iter().map(decoded).collect::<codec::Result<Vec<LogEntry>>>(),
            codec::decode_all::<PgInfo>("group info", &write.info),
        ) else {
            return self.refuse_gap("a write of the primary does not decode");
        };
        if entry.version <= self.core.copy.log.head() {
            return;
        }
        let versions =
            [self.core.copy.log.head()].into_iter().chain(also.iter().map(|also| also.version));
        if !versions.chain([entry.version]).is_sorted_by(|before, after| after.follows(*before)) {
            return self.refuse_gap("a write of the primary does not follow the one before it");
        }
        let version = entry.version;
        let changed = also.iter().chain([&entry]).filter(|entry| entry.changes_object());
        changed.for_each(|entry| self.core.transfers.stop_receiving(&entry.object));
        self.core.copy.committed = self.core.copy.committed.max(write.committed);
        // This copy's tail may be above the primary's, or below it.
        let tail = self.core.copy.log.tail().max(write.trim);
        let is_own = self.core.copy.missing.is_empty() && self.core.copy.info.is_complete();
        if is_own && info.log_tail == tail && info.last_complete == version {
            self.core.copy.info = info;
        } else {
            info.log_tail = tail;
            self.adopt_info(&mut write, info, &entry, &also);
        }
        self.append(&mut write, entry, also);
        self.core.commit(Tag::Write(version, self.core.placement.interval), write.transaction);
    }

    /// Takes over the primary's info, except for the fields that are this copy's own.
    fn adopt_info(
        &mut self,
        write: &mut Replicate,
        info: PgInfo,
        entry: &LogEntry,
        also: &[LogEntry],
    ) {
        let last_backfill = std::mem::take(&mut self.core.copy.info.last_backfill);
        let last_complete = self.core.copy.info.last_complete;
        self.core.copy.info = PgInfo { last_backfill, last_complete, ..info };
        for changed in also.iter().chain([entry]).filter(|entry| entry.changes_object()) {
            self.core.overwrite_missing(&mut write.transaction, &changed.object);
        }
        if self.core.copy.missing.is_empty() {
            self.core.copy.info.last_complete = entry.version;
        }
        write.info = codec::encode_to_bytes(&self.core.copy.info);
    }

    /// A write is durable here: counts it, or tells the primary.
    pub(crate) fn stored_write(&mut self, version: EVersion, interval: Epoch) {
        if interval != self.core.placement.interval {
            return;
        }
        match self.state() {
            State::Active => self.told_replicated(self.core.own.whoami, version),
            State::ReplicaActive => {
                let primary =
                    self.core.placement.members.primary.expect("an active group has a primary");
                self.core.send(primary, &Body::Replicated(version));
            }
            _ => {}
        }
    }

    /// A member has stored all writes up to `version`: it applies them without gaps.
    pub(crate) fn told_replicated(&mut self, from: OsdId, version: EVersion) {
        let Some(member) = self.agreed.participants.index_of(from) else { return };
        if version > self.core.copy.info.last_update {
            tracing::error!(pg = %self.core.own.id, %from, ?version, "a member confirms what was not written");
            return;
        }
        for write in self.serving.in_flight.iter_mut().take_while(|write| write.version <= version)
        {
            write.waiting.remove(member);
        }
        while self.serving.in_flight.front().is_some_and(|write| write.waiting.is_empty()) {
            let write = self.serving.in_flight.pop_front().expect("there is a front");
            self.core.copy.committed = write.version;
            self.serving.recovery.unstick();
            self.core.outputs.push_back(Output::Committed { ticket: write.ticket });
        }
    }
}
