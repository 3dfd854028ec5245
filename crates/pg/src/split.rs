//! Splitting a group in two or more when its pool's `pg_num` grows, and merging when it shrinks: what
//! becomes of objects, log and counters.
//!
//! A group holds the objects with certain lowest bits of their hash; when it splits, each part gets
//! those with one or more bits more. The log is divided by object: every part keeps *all* versions, so
//! that it has no gaps and begins and ends where it did, but an entry of an object that went elsewhere
//! becomes an empty one of kind [`EntryKind::Unchanged`]. A request that is sent again is so found
//! where its object is, and nowhere else.
//!
//! Every member does this by itself, with the same result if it had the same log. What a member is
//! missing of the group it is missing of the parts.

use crate::{EntryKind, LOG_ENTRIES_KEPT, LogEntry, PgInfo, PgLog};
use maps::stable_mod;
use store::Hashes;
use types::{EVersion, Epoch, PgId};

/// The hashes of a group's objects.
pub fn hashes_of(seed: u32, pg_num: u32) -> Hashes {
    Hashes::new(bits_of(seed, pg_num), seed)
}

/// How many low bits of the hash select the group.
pub fn bits_of(seed: u32, pg_num: u32) -> u8 {
    if pg_num <= 1 {
        return 0;
    }
    let bits = u32::BITS - pg_num.leading_zeros();
    let half = 1 << (bits - 1);
    let bits = if seed % half < pg_num % half { bits } else { bits - 1 };
    bits as u8
}

/// The group from which one comes that is new with a greater `pg_num`, or into which one goes that is
/// no more with a smaller one.
pub fn parent_of(pg: PgId, smaller: u32) -> PgId {
    PgId { seed: stable_mod(pg.seed, smaller), ..pg }
}

/// The groups that a group splits into, besides itself.
pub fn children_of(pg: PgId, before: u32, after: u32) -> impl Iterator<Item = PgId> {
    let children = (before..after).map(move |seed| PgId { seed, ..pg });
    children.filter(move |child| parent_of(*child, before) == pg)
}

/// The log of a part that has the objects with these hashes.
pub fn part_of_log(log: &PgLog, hashes: Hashes) -> PgLog {
    let entry = |entry: &LogEntry| match hashes.holds(&entry.object) {
        true => entry.clone(),
        false => empty_entry(entry),
    };
    PgLog::new(log.tail(), log.entries().map(entry))
}

/// In place of an entry of an object that is elsewhere.
fn empty_entry(entry: &LogEntry) -> LogEntry {
    LogEntry {
        version: entry.version,
        user_version: entry.user_version,
        kind: EntryKind::Unchanged,
        mtime: entry.mtime,
        ..LogEntry::default()
    }
}

/// The info of the `index`-th of so many parts. How many objects went where is not known: each part
/// counts an equal share until a scrub counts them.
pub fn part_of_info(info: &PgInfo, index: u64, parts: u64) -> PgInfo {
    let share = |count: u64| count / parts + u64::from(index < count % parts);
    PgInfo { objects: share(info.objects), bytes: share(info.bytes), ..info.clone() }
}

/// The log of a group that others are merged into. Versions were counted in each by itself, so all of
/// them are numbered anew, with the epoch of the merge and above all that were given; entries only say
/// which requests were executed. The groups must be clean: nobody can be recovered from this log.
pub fn merged_log(epoch: Epoch, logs: &[&PgLog]) -> PgLog {
    let entries = logs.iter().flat_map(|log| log.entries());
    let mut requests: Vec<&LogEntry> = entries.filter(|entry| entry.has_request()).collect();
    requests.sort_by_key(|entry| entry.version);
    let kept = &requests[requests.len().saturating_sub(LOG_ENTRIES_KEPT)..];
    let newest = logs.iter().map(|log| log.head().version).max().unwrap_or_default();
    let tail = EVersion { epoch, version: newest + 1 };
    let renumbered = kept.iter().zip(tail.version + 1..).map(|(entry, version)| LogEntry {
        version: EVersion { epoch, version },
        prior_version: EVersion::ZERO,
        kind: EntryKind::Unchanged,
        ..(*entry).clone()
    });
    PgLog::new(tail, renumbered)
}

/// The info that goes with [`merged_log`]: that of the group which the others are merged into.
pub fn merged_info(target: &PgInfo, sources: &[&PgInfo], log: &PgLog) -> PgInfo {
    let sum = |count: fn(&PgInfo) -> u64| sources.iter().map(|info| count(info)).sum::<u64>();
    let versions = sources.iter().map(|info| info.last_user_version);
    PgInfo {
        last_update: log.head(),
        log_tail: log.tail(),
        last_user_version: versions.chain([target.last_user_version]).max().unwrap_or_default(),
        objects: target.objects + sum(|info| info.objects),
        bytes: target.bytes + sum(|info| info.bytes),
        ..target.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use types::{EntityType, HObject, ParticipantName, PoolId, RequestId};

    const POOL: PoolId = PoolId(1);

    fn pg(seed: u32) -> PgId {
        PgId { pool: POOL, seed }
    }

    fn entry(epoch: u32, version: u64, hash: u32) -> LogEntry {
        let name = ParticipantName::new(EntityType::CLIENT, 1);
        LogEntry {
            version: EVersion::new(epoch, version),
            object: HObject::head(POOL, "".into(), "".into(), "x".into(), hash),
            request: RequestId { name, tid: u64::from(hash) << 32 | version, incarnation: 0 },
            result: 7,
            ..LogEntry::default()
        }
    }

    proptest! {
        #[test]
        fn an_object_is_in_the_group_that_its_hash_selects(hash: u32, pg_num in 1u32..5000) {
            let seed = stable_mod(hash, pg_num);
            prop_assert!(hashes_of(seed, pg_num).contains(hash));
            let other = (seed + 1) % pg_num;
            prop_assert!(other == seed || !hashes_of(other, pg_num).contains(hash));
        }

        #[test]
        fn parts_have_what_the_group_had(hash: u32, before in 1u32..300, more in 0u32..1000) {
            let (after, seed) = (before + more, stable_mod(hash, before));
            let new = pg(stable_mod(hash, after));
            let mut parts = children_of(pg(seed), before, after).chain([pg(seed)]);
            prop_assert!(parts.any(|part| part == new));
            prop_assert_eq!(parent_of(new, before), pg(seed));
        }
    }

    #[test]
    fn every_part_of_a_log_has_all_versions_and_its_own_requests() {
        let entries = [entry(1, 5, 0), entry(1, 6, 1), entry(2, 7, 2), entry(2, 8, 3)];
        let log = PgLog::new(EVersion::new(1, 4), entries.clone());
        for (seed, own) in [(0, [0, 2]), (1, [1, 3])] {
            let part = part_of_log(&log, hashes_of(seed, 2));
            assert_eq!((part.tail(), part.head(), part.len()), (log.tail(), log.head(), 4));
            let changes: Vec<u32> = part
                .entries()
                .filter(|entry| entry.changes_object())
                .map(|entry| entry.object.hash)
                .collect();
            assert_eq!(changes, own);
            for entry in &entries {
                let is_own = own.contains(&entry.object.hash);
                assert_eq!(part.find_request(&entry.request).is_some(), is_own);
            }
        }
    }

    #[test]
    fn shares_add_up() {
        let info = PgInfo { objects: 11, bytes: 7, ..PgInfo::default() };
        let parts: Vec<PgInfo> = (0..4).map(|index| part_of_info(&info, index, 4)).collect();
        assert_eq!(parts.iter().map(|part| part.objects).sum::<u64>(), 11);
        assert_eq!(parts.iter().map(|part| part.bytes).sum::<u64>(), 7);
    }

    #[test]
    fn a_merged_log_knows_the_requests_of_all_and_is_above_all_versions() {
        let one = PgLog::new(EVersion::new(1, 4), [entry(1, 5, 0), entry(3, 6, 2)]);
        let other = PgLog::new(EVersion::new(1, 4), [entry(1, 5, 1), entry(1, 9, 3)]);
        let merged = merged_log(Epoch(8), &[&one, &other]);
        assert_eq!((merged.tail(), merged.len()), (EVersion::new(8, 10), 4));
        for entry in one.entries().chain(other.entries()) {
            let found = merged.find_request(&entry.request).unwrap();
            assert_eq!((found.result, found.changes_object()), (7, false));
        }
        let info = merged_info(&PgInfo::default(), &[&PgInfo::default()], &merged);
        assert_eq!((info.last_update, info.log_tail), (merged.head(), merged.tail()));
    }
}
