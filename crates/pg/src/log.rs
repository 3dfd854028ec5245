//! The log of a placement group: its latest writes in order (`PGLog`).
//!
//! It serves two purposes: a member that was away is brought up to date from it, and a request that
//! a client sends again is found in it and answered instead of executed. For that, requests are remembered
//! longer than entries ([`Dups`]).
//!
//! Invariants: versions ascend strictly; there is no gap above `tail`; clients of all requests are known.

use crate::Sizes;
use crate::clients::Clients;
use crate::dups::{Dups, LogDup};
use crate::object_info::{decode_request_id, encode_request_id};
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use std::collections::VecDeque;
use types::{EVersion, HObject, RequestId, UTime};

/// Erasure-coded groups will add to an entry what it takes to undo it, in a format of its own.
const FORMAT: u8 = 1;
/// Of entries that say nothing but their version.
const FORMAT_EMPTY: u8 = 2;
/// A log longer than this is trimmed…
pub const LOG_ENTRIES_MAX: usize = 1100;
/// …to this.
pub const LOG_ENTRIES_KEPT: usize = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EntryKind {
    #[default]
    Modify,
    /// The object is gone afterwards.
    Delete,
    /// The object stays as it was: a write that failed or had nothing to do. It is remembered so that
    /// its request, sent again, gets the same answer whatever happened to the object since.
    Unchanged,
}

/// `pg_log_entry_t`: one write.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogEntry {
    pub version: EVersion,
    /// The object's version before.
    pub prior_version: EVersion,
    pub user_version: u64,
    pub kind: EntryKind,
    pub object: HObject,
    /// Zero for writes of our own.
    pub request: RequestId,
    pub mtime: UTime,
    /// What the client was, or will be, answered.
    pub result: i32,
    /// Results and outputs of its operations, if it asked for them.
    pub returns: Vec<(i32, Bytes)>,
}

impl LogEntry {
    /// Stands in a part of a log for an entry of an object that is elsewhere.
    pub fn empty(version: EVersion) -> Self {
        LogEntry { version, kind: EntryKind::Unchanged, ..LogEntry::default() }
    }

    fn is_empty(&self) -> bool {
        !self.has_request() && *self == LogEntry::empty(self.version)
    }

    /// Whether the object is not what it was before.
    pub fn changes_object(&self) -> bool {
        matches!(self.kind, EntryKind::Modify | EntryKind::Delete)
    }

    /// Whether a client may ask for it again.
    pub fn has_request(&self) -> bool {
        self.request != RequestId::default()
    }
}

impl Encode for LogEntry {
    fn encode(&self, w: &mut Writer) {
        if self.is_empty() {
            w.u8(FORMAT_EMPTY);
            return w.value(&self.version);
        }
        w.u8(FORMAT);
        w.u8(self.kind as u8);
        w.value(&self.version);
        w.value(&self.prior_version);
        w.u64(self.user_version);
        w.value(&self.object);
        encode_request_id(w, &self.request);
        w.value(&self.mtime);
        w.i32(self.result);
        w.value(&self.returns);
    }
}

impl Decode for LogEntry {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let at = *r;
        let format = r.u8("log entry format")?;
        match format {
            FORMAT => {}
            FORMAT_EMPTY => return Ok(LogEntry::empty(r.value()?)),
            _ => return Err(at.invalid("log entry format", format.into())),
        }
        let kind = match r.u8("log entry kind")? {
            0 => EntryKind::Modify,
            1 => EntryKind::Delete,
            2 => EntryKind::Unchanged,
            other => return Err(at.invalid("log entry kind", other.into())),
        };
        Ok(LogEntry {
            kind,
            version: r.value()?,
            prior_version: r.value()?,
            user_version: r.u64("user version")?,
            object: r.value()?,
            request: decode_request_id(r)?,
            mtime: r.value()?,
            result: r.i32("result")?,
            returns: r.value()?,
        })
    }
}

#[derive(Debug, Clone, Default)]
pub struct PgLog {
    tail: EVersion,
    entries: VecDeque<LogEntry>,
    clients: Clients,
    dups: Dups,
}

/// What trimming changed of what is known of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Trimmed {
    /// So many of the newest batches of [`PgLog::dups`] are new.
    pub remembered: usize,
    /// All batches up to this are gone.
    pub forgotten: Option<EVersion>,
}

impl PgLog {
    pub fn new(tail: EVersion, entries: impl IntoIterator<Item = LogEntry>) -> Self {
        let mut log = PgLog { tail, ..PgLog::default() };
        entries.into_iter().for_each(|entry| log.push(entry));
        log
    }

    /// The same log, with what is known of requests before it.
    pub(crate) fn with_dups(self, dups: Dups) -> Self {
        PgLog { dups, ..self }
    }

    pub fn dups(&self) -> &Dups {
        &self.dups
    }

    pub(crate) fn dups_mut(&mut self) -> &mut Dups {
        &mut self.dups
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn tail(&self) -> EVersion {
        self.tail
    }

    pub fn head(&self) -> EVersion {
        self.entries.back().map_or(self.tail, |entry| entry.version)
    }

    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &LogEntry> {
        self.entries.iter()
    }

    /// # Panics
    /// If the entry is not newer than the log's head.
    pub fn push(&mut self, entry: LogEntry) {
        assert!(entry.version > self.head(), "{} follows {}", entry.version, self.head());
        if entry.has_request() {
            self.clients.note(&entry.request, entry.version);
        }
        self.make_room();
        self.entries.push_back(entry);
    }

    /// A long log gets just the room it may need: doubling would leave half of it unused, in every
    /// group.
    fn make_room(&mut self) {
        let length = self.entries.len();
        if length == self.entries.capacity()
            && (LOG_ENTRIES_MAX / 4..LOG_ENTRIES_MAX).contains(&length)
        {
            self.entries.reserve_exact(LOG_ENTRIES_MAX + 1 - length);
        }
    }

    /// The version that the log should be trimmed to, if it has become long. Counts the entry that
    /// is about to be added. What is not `committed` may yet be undone, and so must stay.
    pub fn trim_target(&self, sizes: &Sizes, committed: EVersion) -> Option<EVersion> {
        if self.entries.len() < sizes.log_entries_max {
            return None;
        }
        let kept = self.entries.len() - sizes.log_entries_kept;
        let target = self.entries[kept].version.min(committed);
        (target > self.tail).then_some(target)
    }

    /// Forgets entries up to `target`, but not their requests.
    pub(crate) fn trim(&mut self, target: EVersion) -> Trimmed {
        let end = self.entries.partition_point(|entry| entry.version <= target);
        let remembered = self.dups.remember(self.entries.range(..end));
        while self.entries.front().is_some_and(|entry| entry.version <= target) {
            let entry = self.entries.pop_front().expect("there is a front");
            self.tail = entry.version;
        }
        self.clients.forget(self.tail);
        let forgotten = self.dups.shorten();
        // Of very many at once, some are forgotten in the same moment.
        Trimmed { remembered: remembered.min(self.dups.batches().len()), forgotten }
    }

    /// What the request was answered, if it was executed.
    pub fn find_request(&self, request: &RequestId) -> Option<LogDup> {
        // The last entry counts, should a request have been written twice.
        let found = match self.clients.may_know(request) {
            true => self.entries.iter().rev().find(|entry| entry.request == *request),
            false => None,
        };
        found.map(LogDup::from).or_else(|| self.dups.find(request))
    }

    /// All requests that are known, the newest first.
    pub(crate) fn known_requests(&self) -> Vec<LogDup> {
        let entries = self.entries().filter(|entry| entry.has_request()).map(LogDup::from);
        let mut known: Vec<LogDup> = self.dups.iter().chain(entries).collect();
        known.reverse();
        known
    }

    pub fn entry(&self, version: EVersion) -> Option<&LogEntry> {
        let index = self.entries.binary_search_by(|entry| entry.version.cmp(&version)).ok()?;
        Some(&self.entries[index])
    }

    pub fn above(&self, version: EVersion) -> impl DoubleEndedIterator<Item = &LogEntry> {
        let start = self.entries.partition_point(|entry| entry.version <= version);
        self.entries.range(start..)
    }

    /// Whether history up to `version` is known to be this log's history.
    pub(crate) fn contains(&self, version: EVersion) -> bool {
        version == self.tail || self.entry(version).is_some()
    }

    /// The newest version up to which both logs tell the same history, or `None` if that cannot be
    /// told because they do not overlap. Versions are unique: the same version is the same write.
    pub fn common_with(&self, other: &PgLog) -> Option<EVersion> {
        let candidates = self.entries.iter().rev().map(|entry| entry.version);
        let candidates = candidates.chain([self.tail]);
        candidates.into_iter().find(|version| other.contains(*version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{EntityType, ParticipantName};

    fn entry(epoch: u32, version: u64) -> LogEntry {
        let name = ParticipantName::new(EntityType::CLIENT, 1);
        let request = RequestId { name, tid: version, incarnation: 0 };
        LogEntry { version: EVersion::new(epoch, version), request, ..LogEntry::default() }
    }

    fn log(tail: (u32, u64), versions: &[(u32, u64)]) -> PgLog {
        let entries = versions.iter().map(|(epoch, version)| entry(*epoch, *version));
        PgLog::new(EVersion::new(tail.0, tail.1), entries)
    }

    #[test]
    fn entries_round_trip_and_every_truncation_is_an_error() {
        let mut entry = entry(3, 4);
        entry.returns = vec![(42, Bytes::from_static(b"out"))];
        let bytes = codec::encode_to_bytes(&entry);
        assert_eq!(codec::decode_all::<LogEntry>("entry", &bytes).unwrap(), entry);
        for end in 0..bytes.len() {
            assert!(codec::decode_all::<LogEntry>("entry", &bytes[..end]).is_err());
        }
        let empty = LogEntry::empty(entry.version);
        let bytes = codec::encode_to_bytes(&empty);
        assert_eq!(codec::decode_all::<LogEntry>("entry", &bytes).unwrap(), empty);
        assert!(bytes.len() < 16);
    }

    #[test]
    fn trimming_forgets_old_entries_and_not_their_requests() {
        let mut log = log((0, 0), &[(1, 1), (1, 2), (1, 3)]);
        let first = entry(1, 1).request;
        assert!(log.find_request(&first).is_some());
        assert_eq!(log.trim(EVersion::new(1, 2)), Trimmed { remembered: 1, forgotten: None });
        assert_eq!(
            (log.tail(), log.head(), log.len()),
            (EVersion::new(1, 2), EVersion::new(1, 3), 1)
        );
        assert_eq!(log.find_request(&first).unwrap().version, EVersion::new(1, 1));
    }

    #[test]
    fn of_very_many_that_are_trimmed_at_once_the_newest_are_remembered() {
        let versions: Vec<(u32, u64)> = (1..=7000).map(|version| (1, version)).collect();
        let mut log = log((0, 0), &versions);
        let trimmed = log.trim(EVersion::new(1, 6900));
        assert_eq!(trimmed.remembered, log.dups().batches().len());
        assert!(log.dups().batches().all(|batch| Some(batch.through) > trimmed.forgotten));
    }

    #[test]
    fn common_history_ends_where_logs_diverge() {
        let ours = log((0, 0), &[(1, 1), (1, 2), (1, 3)]);
        for (theirs, common) in [
            (log((0, 0), &[(1, 1), (1, 2), (2, 3)]), Some((1, 2))),
            (log((1, 3), &[(1, 4)]), Some((1, 3))),
            (log((1, 7), &[(1, 8)]), None),
            (log((0, 0), &[]), Some((0, 0))),
        ] {
            let common = common.map(|(epoch, version)| EVersion::new(epoch, version));
            assert_eq!(ours.common_with(&theirs), common);
        }
    }
}
