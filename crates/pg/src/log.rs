//! The log of a placement group: its latest writes in order (`PGLog`).
//!
//! It serves two purposes: a member that was away is recovered from it, and a resent request is found in it
//! and answered instead of executed again. For the latter, requests are remembered longer than entries
//! ([`Dups`]).
//!
//! Invariants: versions ascend strictly; there is no gap above `tail`; `clients` covers the requests of all
//! entries.

use crate::clients::Clients;
use crate::dups::{Dups, LogDup};
use crate::log_entry::LogEntry;
use crate::sizes::{LOG_ENTRIES_MAX, Sizes};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use types::{EVersion, HObject, RequestId};

/// The entries above `tail`, and the dups below them.
#[derive(Debug, Clone, Default)]
pub struct PgLog {
    tail: EVersion,
    entries: VecDeque<LogEntry>,
    clients: Clients,
    dups: Dups,
}

/// The changes to the dups that trimming the log caused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Trimmed {
    /// Number of new batches, which are the newest of [`PgLog::dups`].
    pub remembered: usize,
    /// All batches up to this version were dropped.
    pub forgotten: Option<EVersion>,
}

impl PgLog {
    /// A log of these entries. Panics if they do not ascend from `tail`.
    pub fn new(tail: EVersion, entries: impl IntoIterator<Item = LogEntry>) -> Self {
        let mut log = PgLog { tail, ..PgLog::default() };
        entries.into_iter().for_each(|entry| log.push(entry));
        log
    }

    /// The same log with these dups.
    pub(crate) fn with_dups(self, dups: Dups) -> Self {
        PgLog { dups, ..self }
    }

    /// The same log without the entries above this version, which is not below its tail.
    pub(crate) fn through(&self, head: EVersion) -> Self {
        assert!(head >= self.tail, "the log reaches back to its new head");
        let kept = self.entries.iter().take_while(|entry| entry.version <= head);
        PgLog::new(self.tail, kept.cloned()).with_dups(self.dups.clone())
    }

    /// The requests that were trimmed.
    pub fn dups(&self) -> &Dups {
        &self.dups
    }

    pub(crate) fn dups_mut(&mut self) -> &mut Dups {
        &mut self.dups
    }

    /// Entries of the log, without dups.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the log has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The version below the oldest entry.
    pub fn tail(&self) -> EVersion {
        self.tail
    }

    /// The version of the newest entry, or the tail.
    pub fn head(&self) -> EVersion {
        self.entries.back().map_or(self.tail, |entry| entry.version)
    }

    /// All entries, oldest first.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &LogEntry> {
        self.entries.iter()
    }

    /// Appends an entry.
    ///
    /// # Panics
    /// If the entry is not newer than the log's head.
    pub fn push(&mut self, entry: LogEntry) {
        assert!(entry.version > self.head(), "{} follows {}", entry.version, self.head());
        if entry.has_request() {
            self.clients.note(&entry.request, entry.version);
        }
        self.reserve_entries();
        self.entries.push_back(entry);
    }

    /// Reserves just the entries that a long log may need: doubling would leave half of it unused, in
    /// every group.
    fn reserve_entries(&mut self) {
        let length = self.entries.len();
        if length == self.entries.capacity()
            && (LOG_ENTRIES_MAX / 4..LOG_ENTRIES_MAX).contains(&length)
        {
            self.entries.reserve_exact(LOG_ENTRIES_MAX + 1 - length);
        }
    }

    /// Drops the entries above `version`, which were never stored.
    pub(crate) fn rewind(&mut self, version: EVersion) {
        while self.entries.back().is_some_and(|entry| entry.version > version) {
            self.entries.pop_back();
        }
    }

    /// The version that the log should be trimmed to, if it is too long with the entry that is about to
    /// be added. Entries above `committed` may still be rolled back, and are kept.
    pub fn trim_target(&self, sizes: &Sizes, committed: EVersion) -> Option<EVersion> {
        if self.entries.len() < sizes.log_entries_max {
            return None;
        }
        assert!(sizes.log_entries_kept > 0 && sizes.log_entries_kept <= sizes.log_entries_max);
        let kept = self.entries.len() - sizes.log_entries_kept;
        let target = self.entries[kept].version.min(committed);
        (target > self.tail).then_some(target)
    }

    /// Drops entries up to `target`, and moves their requests to the dups.
    pub(crate) fn trim(&mut self, target: EVersion) -> Trimmed {
        let end = self.end_of(target);
        let remembered = self.dups.remember(self.entries.range(..end));
        while self.entries.front().is_some_and(|entry| entry.version <= target) {
            let entry = self.entries.pop_front().expect("there is a front");
            self.tail = entry.version;
        }
        self.clients.forget(self.tail);
        let forgotten = self.dups.shorten();
        assert!(
            self.entries.front().is_none_or(|entry| entry.version > self.tail),
            "it is trimmed"
        );
        // A large trim can drop batches that it has just added.
        Trimmed { remembered: remembered.min(self.dups.batches().len()), forgotten }
    }

    /// The recorded reply of the request, if it was executed.
    pub fn find_request(&self, request: &RequestId) -> Option<LogDup> {
        // The newest entry counts, should a request have been logged twice.
        let found = match self.clients.may_know(request) {
            true => self.entries.iter().rev().find(|entry| entry.request == *request),
            false => None,
        };
        found.map(LogDup::from).or_else(|| self.dups.find(request))
    }

    /// All remembered requests, newest first.
    pub(crate) fn known_requests(&self) -> Vec<LogDup> {
        let entries = self.entries().filter(|entry| entry.has_request()).map(LogDup::from);
        let mut known: Vec<LogDup> = self.dups.iter().chain(entries).collect();
        known.reverse();
        known
    }

    /// The newest change of each of these objects that the log has, found in one walk.
    pub(crate) fn newest_changes<'a>(
        &self,
        objects: impl Iterator<Item = &'a HObject>,
    ) -> BTreeMap<&'a HObject, &LogEntry> {
        let mut wanted: BTreeSet<&HObject> = objects.collect();
        let mut newest = BTreeMap::new();
        let mut changes = self.entries.iter().rev().filter(|entry| entry.changes_object());
        while !wanted.is_empty()
            && let Some(entry) = changes.next()
        {
            if let Some(object) = wanted.take(&entry.object) {
                newest.insert(object, entry);
            }
        }
        newest
    }

    /// The entry with just this version.
    pub fn entry(&self, version: EVersion) -> Option<&LogEntry> {
        let before = self.end_of(version).checked_sub(1)?;
        Some(&self.entries[before]).filter(|entry| entry.version == version)
    }

    /// The entries newer than `version`, oldest first.
    pub fn above(&self, version: EVersion) -> impl DoubleEndedIterator<Item = &LogEntry> {
        self.entries.range(self.end_of(version)..)
    }

    /// The number of entries up to a version. Most are asked for near the head, and the numbers of versions
    /// count entries: the place is guessed from there, because a search touches a dozen entries that are in
    /// no cache.
    fn end_of(&self, version: EVersion) -> usize {
        let length = self.entries.len();
        let newer = self.head().version.saturating_sub(version.version);
        let guess = length.saturating_sub(usize::try_from(newer).unwrap_or(length));
        let is_up_to = |index: usize| self.entries[index].version <= version;
        let is_end = (guess == 0 || is_up_to(guess - 1)) && (guess == length || !is_up_to(guess));
        match is_end {
            true => guess,
            false => self.entries.partition_point(|entry| entry.version <= version),
        }
    }

    /// Whether `version` is in the history that this log knows.
    pub(crate) fn contains(&self, version: EVersion) -> bool {
        version == self.tail || self.entry(version).is_some()
    }

    /// The newest version that both logs contain, or `None` if they do not overlap. Versions are
    /// unique: the same version is the same write.
    pub fn common_with(&self, other: &PgLog) -> Option<EVersion> {
        let candidates = self.entries.iter().rev().map(|entry| entry.version);
        let candidates = candidates.chain([self.tail]);
        candidates.into_iter().find(|version| other.contains(*version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EntryKind;
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
    fn entries_are_found_in_logs_with_and_without_gaps_in_their_numbers() {
        let dense = log((1, 4), &[(1, 5), (1, 6), (2, 7), (2, 8)]);
        let sparse = log((1, 4), &[(1, 5), (1, 9), (3, 10), (3, 30)]);
        for log in [dense, sparse, log((1, 4), &[])] {
            for (epoch, number) in (0..4).flat_map(|epoch| (0..33).map(move |n| (epoch, n))) {
                let version = EVersion::new(epoch, number);
                let found = log.entries().find(|entry| entry.version == version);
                assert_eq!(log.entry(version), found);
                let above = log.entries().filter(|entry| entry.version > version);
                assert!(log.above(version).eq(above), "above {version}");
            }
        }
    }

    #[test]
    fn the_newest_change_of_each_object_is_found_in_one_walk() {
        let object = |hash| HObject::hash_start(types::PoolId(1), hash);
        let of = |version, hash, kind| LogEntry { object: object(hash), kind, ..entry(1, version) };
        let entries = [
            of(1, 1, EntryKind::Modify),
            of(2, 2, EntryKind::Modify),
            of(3, 1, EntryKind::Delete),
            of(4, 2, EntryKind::Unchanged),
            of(5, 3, EntryKind::Modify),
        ];
        let log = PgLog::new(EVersion::ZERO, entries);
        let wanted = [1, 2, 4].map(object);
        let newest = log.newest_changes(wanted.iter());
        let found =
            wanted.each_ref().map(|object| newest.get(object).map(|entry| entry.version.version));
        assert_eq!(found, [Some(3), Some(2), None]);
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
