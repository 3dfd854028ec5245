//! The state of a copy and its parts after a split or merge, and the transactions for that.

use super::index::{Dealing, Gathering, Index};
use super::stopped::{Part, SplitMerge};
use crate::core::persist::{dups_pair, last_complete};
use crate::core::steps::{log_pair, next_step};
use crate::core::{Core, LocalCopy};
use crate::{Missing, PgInfo, info, split};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use store::{Change, Hashes, Transaction};
use types::{EVersion, HObject};

/// The versions, in the map that merges two groups, that all members have of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MergedVersions {
    /// Of the group that is merged into the other one and disappears.
    pub source: EVersion,
    /// Of the group that remains.
    pub target: EVersion,
}

impl SplitMerge {
    /// Has the store split this copy into itself and these new parts.
    pub fn divide(&mut self, core: &mut Core, parts: &mut [&mut Core]) {
        let count = parts.len() as u64 + 1;
        let mut steps = VecDeque::new();
        let mut last = Transaction { changes: Vec::with_capacity(3 * parts.len() + 3) };
        if !core.copy.created {
            steps.push_back(Transaction {
                changes: vec![(core.own.collection, Change::CreateCollection)],
            });
        }
        let mut dealing = Dealing::default();
        for (index, part) in (1..).zip(parts) {
            assert_ne!(part.own.id, core.own.id, "a part is another group");
            let hashes = hashes(part);
            let Part { info, log, missing } = part_of(core, hashes, index, count);
            (part.copy.info, part.copy.log) = (info, log);
            part.copy.missing = missing;
            prepare_meta(core, &mut steps, part);
            dealing.add(part.own.meta.clone(), hashes);
            last.push(part.own.collection, Change::CreateCollection);
            let change = Change::MoveObjects { target: part.own.collection, hashes };
            last.push(core.own.collection, change);
            part.set_info_and_intervals(&mut last);
        }
        let own = part_of(core, hashes(core), 0, count);
        keep_own_meta(core, &mut last, &own);
        steps.push_back(last);
        if let Some(progress) = &mut self.progress {
            progress.index = Some(Index::Dealt(dealing));
        }
        self.take_steps(core, own, steps);
    }

    /// Has the store merge these copies into this one. The merged copy is complete only if there is one
    /// source and both have just these `versions`. Call when all of them have given
    /// [`crate::Output::Quiesced`].
    pub fn merge_from(
        &mut self,
        core: &mut Core,
        sources: &[&Core],
        versions: Option<MergedVersions>,
    ) {
        assert!(sources.iter().all(|source| source.own.id != core.own.id), "it is another group");
        let (own, is_whole) = match (sources, versions) {
            ([source], Some(versions)) if has_all_of(core, source, versions) => {
                (merged_whole(core, source), true)
            }
            _ => (merged_incomplete(core, sources), false),
        };
        let mut steps = prepare_dups(core, &own);
        let copies = || sources.iter().copied().chain([&*core]);
        if !is_whole {
            // Missing sets are dropped with the logs, so the content of missing objects is removed: it is
            // not valid.
            steps.extend(copies().flat_map(|copy| copy.remove_missing(&copy.copy.missing)));
        }
        let mut transaction = Transaction { changes: Vec::with_capacity(4 * sources.len() + 4) };
        copies().for_each(|copy| end_held(copy, is_whole, &mut transaction));
        for source in sources.iter().filter(|source| source.copy.created) {
            let (hashes, from) = (hashes(source), source.own.collection);
            let (object, target) = (source.own.meta.clone(), core.own.collection);
            transaction.push(from, Change::Remove { object });
            transaction.push(from, Change::MoveObjects { target, hashes });
            transaction.push(from, Change::RemoveCollection);
        }
        core.remove_meta(&mut transaction, info::missing_keys());
        if own.log.head() != core.copy.log.head() {
            core.remove_meta(&mut transaction, info::log_keys());
            let (first, _) = info::dups_keys();
            let new = info::dups_key(EVersion { epoch: core.placement.interval, version: 0 });
            core.remove_meta(&mut transaction, (first, new));
        }
        let info = (info::INFO_KEY, codec::encode_to_bytes(&own.info));
        core.set_meta(&mut transaction, BTreeMap::from([info, core.intervals_pair()]));
        steps.push_back(transaction);
        let sources = sources.iter().filter(|source| source.copy.created);
        let metas =
            sources.map(|source| (source.own.collection, source.own.meta.clone())).collect();
        if let Some(progress) = &mut self.progress {
            progress.index = Gathering::of(metas);
        }
        self.take_steps(core, own, steps);
    }
}

/// Ends what a copy holds before it is merged: versions of the two groups are not comparable. Changes of a
/// whole copy are committed, since its version is in the map.
fn end_held(core: &Core, is_whole: bool, transaction: &mut Transaction) {
    if !core.copy.created || core.copy.info.shard.is_none() {
        return;
    }
    let change = match is_whole {
        true => Change::Settle { through: core.copy.info.last_update },
        false => Change::Drop { from: EVersion::ZERO, through: EVersion::MAX },
    };
    transaction.push(core.own.collection, change);
}

fn hashes(core: &Core) -> Hashes {
    Hashes::new(core.placement.members.hash_bits, core.own.id.seed)
}

/// Stores the dups of the merged group ahead, above those of this copy, in place of any that an earlier
/// attempt left.
fn prepare_dups(core: &Core, own: &Part) -> VecDeque<Transaction> {
    let mut steps = VecDeque::new();
    if own.log.head() == core.copy.log.head() {
        return steps;
    }
    let mut transaction = Transaction::new();
    let new = info::dups_key(EVersion { epoch: core.placement.interval, version: 0 });
    core.remove_meta(&mut transaction, (new, info::dups_keys().1));
    let mut pairs = own.log.dups().batches().map(dups_pair).peekable();
    while let Some(some) = next_step(&mut pairs) {
        core.set_meta(&mut transaction, some);
        steps.push_back(std::mem::take(&mut transaction));
    }
    steps
}

fn has_all_of(core: &Core, source: &Core, versions: MergedVersions) -> bool {
    let has = |core: &Core, version: EVersion| {
        let copy = &core.copy;
        let is_whole = copy.info.is_complete() && copy.missing.is_empty();
        copy.created && is_whole && copy.info.last_update == version
    };
    has(core, versions.target) && has(source, versions.source)
}

fn merged_whole(core: &Core, source: &Core) -> Part {
    let log = split::merged_log(core.placement.interval, &core.copy.log, &source.copy.log);
    let info = split::merged_info(&core.copy.info, &source.copy.info, &log);
    Part { info, log, missing: Missing::default() }
}

fn merged_incomplete(core: &Core, sources: &[&Core]) -> Part {
    tracing::debug!(pg = %core.own.id, osd = %core.own.whoami, "the merged copy is not complete");
    let sum =
        |count: fn(&PgInfo) -> u64| sources.iter().map(|core| count(&core.copy.info)).sum::<u64>();
    let info = PgInfo {
        last_backfill: HObject::default(),
        last_complete: core.copy.info.last_update,
        objects: core.copy.info.objects + sum(|info| info.objects),
        clones: core.copy.info.clones + sum(|info| info.clones),
        bytes: core.copy.info.bytes + sum(|info| info.bytes),
        ..core.copy.info.clone()
    };
    Part { info, log: core.copy.log.clone(), missing: Missing::default() }
}

fn part_of(core: &Core, hashes: Hashes, index: u64, count: u64) -> Part {
    let mut info = split::part_of_info(&core.copy.info, hashes, index, count);
    let log = split::part_of_log(&core.copy.log, hashes);
    let missing = split::part_of_missing(&core.copy.missing, hashes);
    info.last_complete = last_complete(&info, &log, &missing);
    Part { info, log, missing }
}

/// Stores the meta object of a part ahead, in this collection, in place of any that an earlier attempt
/// left.
fn prepare_meta(core: &Core, steps: &mut VecDeque<Transaction>, part: &Core) {
    let LocalCopy { log, missing, .. } = &part.copy;
    let missing = missing.all_stored().filter_map(|object| missing.pair(object));
    let dups = log.dups().batches().map(dups_pair);
    let mut pairs = dups.chain(log.entries().map(log_pair)).chain(missing).peekable();
    let object = || part.own.meta.clone();
    let mut changes = vec![(core.own.collection, Change::Remove { object: object() })];
    while let Some(some) = next_step(&mut pairs) {
        changes.push((core.own.collection, Change::OmapSet { object: object(), pairs: some }));
        steps.push_back(Transaction { changes: std::mem::take(&mut changes) });
    }
    if !changes.is_empty() {
        steps.push_back(Transaction { changes });
    }
}

/// Reduces this copy's own meta object to its part of the state.
fn keep_own_meta(core: &Core, transaction: &mut Transaction, own: &Part) {
    let all = core.copy.missing.all_stored();
    let gone = all.filter(|object| own.missing.stored(object).is_none());
    let keys: Vec<Bytes> = gone.map(info::missing_key).collect();
    if !keys.is_empty() {
        let object = core.own.meta.clone();
        transaction.push(core.own.collection, Change::OmapRemove { object, keys });
    }
    assert_eq!(core.copy.log.len(), own.log.len(), "a part has all versions");
    let entries = core.copy.log.entries().zip(own.log.entries());
    let changed = entries.filter(|(before, after)| before != after);
    let mut pairs: BTreeMap<Bytes, Bytes> = changed.map(|(_, entry)| log_pair(entry)).collect();
    pairs.insert(info::INFO_KEY, codec::encode_to_bytes(&own.info));
    pairs.extend([core.intervals_pair()]);
    core.set_meta(transaction, pairs);
}
