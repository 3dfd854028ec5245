//! The effect on a copy of following another one's log (`PGLog::merge_log`).
//!
//! The entries above the newest common version decide. Objects that the other log changed become missing
//! here, or are removed. Entries that only this copy has are divergent and are rolled back: their objects
//! become missing in the version before, or are removed.
//!
//! A pure function of logs: the primary computes with it what a member will miss, and the member
//! computes the same when it is activated.

use crate::backend::{self, Backend, Undo};
use crate::missing::Item;
use crate::{EntryKind, LogEntry, Missing, PgLog, shard_merge};
use std::collections::BTreeSet;
use types::{EVersion, HObject};

/// A copy after the merge.
#[derive(Debug, Clone, Default)]
pub struct Merged {
    /// The authoritative log.
    pub log: PgLog,
    /// Objects that the log knows and this copy lacks.
    pub missing: Missing,
    /// Objects to remove from the store.
    pub removed: BTreeSet<HObject>,
    /// The newest common version: own entries above it are replaced.
    pub common: EVersion,
    /// Number of own entries that are divergent.
    pub divergent: usize,
}

/// A copy before the merge.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Side<'a> {
    /// Its log.
    pub log: &'a PgLog,
    /// Objects that it misses.
    pub missing: &'a Missing,
    /// Objects from here on are left to backfill.
    pub last_backfill: &'a HObject,
    /// Changes up to this version are in its objects.
    pub settled: EVersion,
}

impl Side<'_> {
    /// The missing set of a shard without its entries above a version. Their changes are held, and its
    /// objects are as they were before.
    pub fn missing_at(&self, version: EVersion) -> Missing {
        let mut missing = self.missing.clone();
        missing.find_superseded(self.log, self.settled);
        let is_here = |entry: &&LogEntry| entry.object < *self.last_backfill;
        for entry in self.log.above(version).rev().filter(is_here) {
            shard_merge::undo(&mut missing, self.log, entry, self.settled);
        }
        missing
    }
}

/// Merges the history `theirs` into a copy. `None` if the logs do not overlap, or if the copy has settled
/// what the other log does not have: its objects are as old or as strange as its log.
pub(crate) fn merge(backend: Backend, own: Side<'_>, theirs: &PgLog) -> Option<Merged> {
    let Side { log, missing, settled, .. } = own;
    let common = log.common_with(theirs)?;
    let divergent = log.above(common).count();
    let mut merged = Merged { missing: missing.clone(), common, divergent, ..Merged::default() };
    match backend {
        Backend::Replicated => merged.take_copy(own, theirs),
        Backend::Erasure(_) if settled > common => return None,
        Backend::Erasure(_) => merged.take_shard(own, theirs),
    }
    merged.log = joined(log, theirs, common);
    assert_eq!(merged.log.head(), theirs.head(), "the copy follows the other log");
    Some(merged)
}

impl Merged {
    /// The divergent entries above the common version have changed the objects.
    fn take_copy(&mut self, own: Side<'_>, theirs: &PgLog) {
        let mut touched = BTreeSet::new();
        for entry in theirs.above(self.common).filter(|entry| entry.changes_object()) {
            touched.insert(&entry.object);
            if entry.object < *own.last_backfill {
                self.follow(entry);
            }
        }
        for entry in own.log.above(self.common) {
            let is_first = entry.changes_object() && touched.insert(&entry.object);
            if is_first && entry.object < *own.last_backfill {
                self.undo(entry, backend::undo(entry));
            }
        }
    }

    /// The divergent entries are held, or were only followed.
    fn take_shard(&mut self, own: Side<'_>, theirs: &PgLog) {
        let is_here = |entry: &&LogEntry| entry.object < *own.last_backfill;
        self.missing = own.missing_at(self.common);
        for entry in theirs.above(self.common).filter(is_here) {
            shard_merge::follow(&mut self.missing, theirs, entry, EVersion::ZERO);
        }
    }

    /// Applies an entry of the other log.
    fn follow(&mut self, entry: &LogEntry) {
        match entry.kind {
            EntryKind::Unchanged => {}
            EntryKind::Delete => {
                self.missing.remove(&entry.object);
                self.removed.insert(entry.object.clone());
            }
            EntryKind::Modify => {
                let known = self.missing.get(&entry.object);
                let have = known.map_or(entry.prior_version, |known| known.have);
                let item = Item { need: entry.version, have };
                self.missing.add(entry.object.clone(), item);
            }
        }
    }

    /// Rolls back the first divergent change of an object.
    fn undo(&mut self, entry: &LogEntry, undo: Undo) {
        match undo {
            Undo::Nothing => {}
            Undo::Remove => {
                self.missing.remove(&entry.object);
                self.removed.insert(entry.object.clone());
            }
            Undo::Miss(need) => {
                let item = Item { need, have: EVersion::ZERO };
                self.missing.add(entry.object.clone(), item);
            }
        }
    }
}

/// The longest log that both make up: own older entries keep requests known, and older entries of the other
/// log serve members that return later. The dups below are of the common history.
fn joined(own: &PgLog, theirs: &PgLog, common: EVersion) -> PgLog {
    let older = own.entries().filter(|entry| entry.version <= common);
    let log = match theirs.tail() < own.tail() {
        true => theirs.clone(),
        false => PgLog::new(own.tail(), older.chain(theirs.above(common)).cloned()),
    };
    log.with_dups(own.dups().clone())
}

#[cfg(test)]
mod tests {
    //! Logs are written as `object:version` or `object:version<prior`, `-` before the object for a
    //! deletion, `=` for a write that changed nothing. Versions are `epoch'number`.

    use super::*;
    use types::PoolId;

    fn version(text: &str) -> EVersion {
        let (epoch, number) = text.split_once('\'').unwrap();
        EVersion::new(epoch.parse().unwrap(), number.parse().unwrap())
    }

    fn object(name: &str) -> HObject {
        let hash = (u32::from(name.as_bytes()[0]) << 24).reverse_bits();
        let name = bytes::Bytes::copy_from_slice(name.as_bytes());
        HObject::head(PoolId(1), Default::default(), Default::default(), name, hash)
    }

    fn log(text: &str) -> PgLog {
        let mut words = text.split_whitespace();
        let tail = version(words.next().unwrap());
        let entry = |word: &str| {
            let (name, rest) = word.split_once(':').unwrap();
            let (at, prior) = rest.split_once('<').unwrap_or((rest, "0'0"));
            let kind = match name.as_bytes()[0] {
                b'-' => EntryKind::Delete,
                b'=' => EntryKind::Unchanged,
                _ => EntryKind::Modify,
            };
            LogEntry {
                version: version(at),
                prior_version: version(prior),
                kind,
                object: object(name.trim_start_matches(['-', '='])),
                ..LogEntry::default()
            }
        };
        PgLog::new(tail, words.map(entry))
    }

    fn told(own: &str, theirs: &str, last_backfill: &HObject) -> String {
        let (own, theirs, none) = (log(own), log(theirs), Missing::default());
        let settled = own.head();
        let own = Side { log: &own, missing: &none, last_backfill, settled };
        let Some(merged) = merge(Backend::Replicated, own, &theirs) else {
            return "no overlap".to_owned();
        };
        let name = |object: &HObject| String::from_utf8_lossy(&object.name).into_owned();
        let missing = merged.missing.iter();
        let missing = missing.map(|(object, item)| format!("{}:{}", name(object), item.need));
        let removed = merged.removed.iter().map(|object| format!("-{}", name(object)));
        let all: Vec<String> = missing.chain(removed).collect();
        let (tail, head) = (merged.log.tail(), merged.log.head());
        format!("{} ({tail},{head}]", all.join(" ")).trim().to_owned()
    }

    #[test]
    fn cases() {
        for (own, theirs, expected) in [
            // Nothing happened.
            ("0'0 a:1'1", "0'0 a:1'1", "(0'0,1'1]"),
            // This copy was away.
            ("0'0 a:1'1", "0'0 a:1'1 b:1'2 a:1'3<1'1", "a:1'3 b:1'2 (0'0,1'3]"),
            ("0'0 a:1'1", "0'0 a:1'1 -a:1'2<1'1", "-a (0'0,1'2]"),
            ("0'0 a:1'1", "0'0 a:1'1 -a:1'2<1'1 a:1'3", "a:1'3 -a (0'0,1'3]"),
            ("0'0 a:1'1", "0'0 a:1'1 =a:1'2", "(0'0,1'2]"),
            // Divergent changes are rolled back: the object is missing in its old version, or removed.
            ("0'0 a:1'1 a:1'2<1'1", "0'0 a:1'1", "a:1'1 (0'0,1'1]"),
            ("0'0 a:1'1 b:1'2", "0'0 a:1'1", "-b (0'0,1'1]"),
            ("0'0 a:1'1 -a:1'2<1'1", "0'0 a:1'1", "a:1'1 (0'0,1'1]"),
            ("0'0 a:1'1 =a:1'2<1'1", "0'0 a:1'1", "(0'0,1'1]"),
            // The first divergent change decides.
            ("0'0 a:1'1 b:1'2 b:1'3<1'2", "0'0 a:1'1 c:2'2", "c:2'2 -b (0'0,2'2]"),
            // Both changed the object.
            ("0'0 a:1'1 a:1'2<1'1", "0'0 a:1'1 a:2'2<1'1", "a:2'2 (0'0,2'2]"),
            // The longer log is kept.
            ("0'0 a:1'1 b:1'2", "1'1 b:1'2 c:1'3", "c:1'3 (0'0,1'3]"),
            ("1'1 b:1'2", "0'0 a:1'1 b:1'2 c:1'3", "c:1'3 (0'0,1'3]"),
            // Logs that do not overlap cannot be merged.
            ("0'0 a:1'1", "1'2 c:1'3", "no overlap"),
        ] {
            assert_eq!(told(own, theirs, &HObject::max()), expected, "{own} follows {theirs}");
        }
    }

    #[test]
    fn objects_that_were_not_filled_in_yet_are_nobodys_concern() {
        let told = told("0'0 a:1'1 z:1'2", "0'0 a:1'1 b:2'2 y:2'3", &object("m"));
        assert_eq!(told, "b:2'2 (0'0,2'3]");
    }
}
