//! Splitting a group when its pool's `pg_num` grows, and merging two when it shrinks: the effect on objects,
//! log and counters.
//!
//! A group holds the objects with certain lowest bits of their hash; when it splits, each part gets those
//! with one or more further bits. The log is divided by object: every part keeps *all* versions, so that it
//! has no gaps and the same tail and head, but an entry of an object in another part becomes an empty one
//! ([`LogEntry::empty`]). So a resent request is found where its object is, and nowhere else. Every part
//! gets all dups, because these do not name their objects.
//!
//! Every member splits its copy by itself, with the same result if it had the same log. A part misses
//! those of its objects that the whole copy missed.

use crate::{DUPS_KEPT, Dups, LOG_ENTRIES_KEPT, LogEntry, Missing, PgInfo, PgLog, ShardState};
use maps::stable_bits;
use store::Hashes;
use types::{EVersion, Epoch, HObject, PgId};

/// The hashes of the objects of group `seed`, in a pool of `pg_num` groups.
pub fn hashes_of(seed: u32, pg_num: u32) -> Hashes {
    Hashes::new(stable_bits(seed, pg_num), seed)
}

/// The groups, besides itself, into which a group that was selected by `bits` hash bits splits when its
/// pool has `pg_num` groups.
pub fn parts_of(pg: PgId, bits: u8, pg_num: u32) -> impl Iterator<Item = PgId> {
    let step = 1u64 << bits.min(32);
    let seeds = (u64::from(pg.seed) + step..u64::from(pg_num)).step_by(step as usize);
    seeds.map(move |seed| PgId { seed: seed as u32, ..pg })
}

/// The log of the part with these hashes.
pub fn part_of_log(log: &PgLog, hashes: Hashes) -> PgLog {
    let entry = |entry: &LogEntry| match hashes.holds(&entry.object) {
        true => entry.clone(),
        false => LogEntry::empty(entry.version),
    };
    let part = PgLog::new(log.tail(), log.entries().map(entry)).with_dups(log.dups().clone());
    assert_eq!((part.len(), part.head()), (log.len(), log.head()), "a part has all versions");
    part
}

/// The info of the part with these hashes, number `index` of `parts`. The number of objects in each is not
/// known, so each counts an equal share.
pub fn part_of_info(info: &PgInfo, hashes: Hashes, index: u64, parts: u64) -> PgInfo {
    assert!(index < parts, "part {index} of {parts}");
    let share = |count: u64| count / parts + u64::from(index < count % parts);
    PgInfo {
        objects: share(info.objects),
        clones: share(info.clones),
        bytes: share(info.bytes),
        last_backfill: part_of_backfill(&info.last_backfill, hashes),
        ..info.clone()
    }
}

/// The `last_backfill` of a part, from that of the whole copy.
fn part_of_backfill(last_backfill: &HObject, hashes: Hashes) -> HObject {
    let (first, last) = hashes.reversed();
    match last_backfill.reversed_hash() {
        _ if last_backfill.max => HObject::max(),
        hash if hash > last => HObject::max(),
        hash if hash < first => HObject::default(),
        _ => last_backfill.clone(),
    }
}

/// The missing set of the part with these hashes.
pub fn part_of_missing(missing: &Missing, hashes: Hashes) -> Missing {
    let part = missing.part(|object| hashes.holds(object));
    assert!(part.len() <= missing.len(), "a part misses what the group missed");
    part
}

/// The log of a merged group. Both groups numbered their versions independently, so it begins with the epoch
/// of the merge, above all versions of both. It has only the dups of both: no copy can be recovered
/// from it.
pub fn merged_log(epoch: Epoch, target: &PgLog, source: &PgLog) -> PgLog {
    let newest = target.head().version.max(source.head().version);
    // Above the batches of dups, too, which are numbered from 1 in the same epoch.
    let tail = EVersion { epoch, version: newest + LOG_ENTRIES_KEPT.max(DUPS_KEPT) as u64 };
    let known = [target, source].map(PgLog::known_requests);
    PgLog::new(tail, []).with_dups(Dups::merged(epoch, known))
}

/// The info that goes with [`merged_log`], for two complete copies.
pub fn merged_info(target: &PgInfo, source: &PgInfo, log: &PgLog) -> PgInfo {
    let mut history = target.history;
    history.last_epoch_started = history.last_epoch_started.max(source.history.last_epoch_started);
    assert!(log.is_empty(), "the log of a merged group has only dups");
    PgInfo {
        last_update: log.head(),
        last_complete: log.head(),
        log_tail: log.tail(),
        last_epoch_started: target.last_epoch_started.max(source.last_epoch_started),
        last_user_version: target.last_user_version.max(source.last_user_version),
        objects: target.objects + source.objects,
        clones: target.clones + source.clones,
        bytes: target.bytes + source.bytes,
        history,
        shard: target.shard.map(|shard| ShardState { settled: log.head(), ..shard }),
        ..target.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LogDup;
    use maps::stable_mod;
    use proptest::prelude::*;
    use types::{EntityType, ParticipantName, PoolId, RequestId};

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
            let bits = stable_bits(seed, before);
            let mut parts = parts_of(pg(seed), bits, after).chain([pg(seed)]);
            prop_assert!(parts.any(|part| part == new));
            prop_assert_eq!(pg(stable_mod(new.seed, before)), pg(seed));
            prop_assert!(parts_of(pg(seed), bits, after).all(|part| part.seed >= before));
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
    fn a_merged_log_begins_above_all_requests_that_it_knows() {
        let of = |hash| PgLog::new(EVersion::ZERO, (1..=1500).map(|number| entry(1, number, hash)));
        let mut log = merged_log(Epoch(9), &of(0), &of(1));
        assert_eq!(log.dups().len(), DUPS_KEPT);
        assert!(log.dups().batches().all(|batch| batch.through <= log.tail()));
        let next = LogEntry { version: EVersion::new(9, log.tail().version + 1), ..entry(9, 1, 7) };
        log.push(next.clone());
        log.trim(next.version);
        assert!(log.find_request(&next.request).is_some());
    }

    #[test]
    fn shares_add_up() {
        let info = PgInfo { objects: 11, bytes: 7, ..PgInfo::default() };
        let part = |index| part_of_info(&info, hashes_of(index as u32, 4), index, 4);
        let parts: Vec<PgInfo> = (0..4).map(part).collect();
        assert_eq!(parts.iter().map(|part| part.objects).sum::<u64>(), 11);
        assert_eq!(parts.iter().map(|part| part.bytes).sum::<u64>(), 7);
    }

    #[test]
    fn a_part_is_filled_in_if_the_copy_was_beyond_it() {
        let at = |hash: u32| HObject::hash_start(POOL, hash);
        // In the order of reversed hashes, the part with even hashes comes first.
        for (backfilled, even, odd) in [
            (HObject::max(), HObject::max(), HObject::max()),
            (HObject::default(), HObject::default(), HObject::default()),
            (at(2), at(2), HObject::default()),
            (at(3), HObject::max(), at(3)),
        ] {
            let info = PgInfo { last_backfill: backfilled, ..PgInfo::default() };
            let part = |seed| part_of_info(&info, hashes_of(seed, 2), 0, 2).last_backfill;
            assert_eq!((part(0), part(1)), (even, odd));
        }
    }

    #[test]
    fn a_merged_log_knows_the_requests_of_both_and_is_above_all_versions() {
        let one = PgLog::new(EVersion::new(1, 4), [entry(1, 5, 0), entry(3, 6, 2)]);
        let other = PgLog::new(EVersion::new(1, 8), [entry(1, 9, 3)]);
        let merged = merged_log(Epoch(8), &one, &other);
        assert_eq!((merged.head(), merged.len()), (EVersion::new(8, 3009), 0));
        assert!(merged.dups().batches().all(|batch| batch.through < merged.tail()));
        for entry in one.entries().chain(other.entries()) {
            assert_eq!(merged.find_request(&entry.request), Some(LogDup::from(entry)));
        }
        let info = merged_info(&PgInfo::default(), &PgInfo::default(), &merged);
        assert_eq!((info.last_update, info.log_tail), (merged.head(), merged.tail()));
        let again = merged_log(Epoch(9), &merged, &PgLog::default());
        let first = one.entries().next().unwrap();
        assert_eq!(again.find_request(&first.request).unwrap().version, first.version);
    }

    #[test]
    fn every_part_knows_the_requests_that_were_trimmed() {
        let mut log = PgLog::new(EVersion::new(1, 4), [entry(1, 5, 0), entry(1, 6, 1)]);
        log.trim(EVersion::new(1, 6));
        for seed in 0..2 {
            let part = part_of_log(&log, hashes_of(seed, 2));
            assert!(part.find_request(&entry(1, 5, 0).request).is_some());
        }
    }
}
