//! The stored state of a copy besides its objects: info, intervals, log, dups, missing set.

use super::settles::Mark;
use super::{Core, IntervalStored, Tag};
use crate::intervals::{Members, PastIntervals};
use crate::log::Trimmed;
use crate::message::Replicate;
use crate::missing::Item;
use crate::{DupBatch, EntryKind, Layout, LogEntry, Missing, PgInfo, PgLog, info};
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use std::collections::BTreeMap;
use store::{Change, RequestKind, Transaction};
use types::{EVersion, Epoch, HObject};

/// Bytes; more than most infos and intervals take.
const PAIR_CAPACITY: usize = 256;

/// Format of intervals of groups with shards: the layout, then as in format 1. Sets may have holes.
const FORMAT_LAYOUT: u8 = 2;

/// Value of [`info::INTERVALS_KEY`]: past intervals and the present one, with which the maps that the OSD
/// missed while it was down are compared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct StoredIntervals {
    /// Intervals since the group was last clean.
    pub past: PastIntervals,
    /// Start of the present interval.
    pub first: Epoch,
    /// The members in the present interval.
    pub members: Members,
}

impl Encode for StoredIntervals {
    fn encode(&self, w: &mut Writer) {
        encode_intervals(w, &self.past, self.first, &self.members);
    }
}

fn encode_intervals(w: &mut Writer, past: &PastIntervals, first: Epoch, members: &Members) {
    // Without a layout, the value begins with the format of the past intervals.
    if members.layout != Layout::Replicated {
        w.u8(FORMAT_LAYOUT);
        w.value(&members.layout);
    }
    w.value(past);
    w.value(&first);
    w.value(members);
}

impl Decode for StoredIntervals {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut peeked = *r;
        let layout = match peeked.u8("intervals format")? {
            FORMAT_LAYOUT => {
                *r = peeked;
                r.value()?
            }
            _ => Layout::Replicated,
        };
        let (past, first) = (r.value()?, r.value()?);
        Ok(StoredIntervals { past, first, members: Members { layout, ..r.value()? } })
    }
}

/// The stored key and value of a batch.
pub(crate) fn dups_pair(batch: &DupBatch) -> (Bytes, Bytes) {
    (info::dups_key(batch.through), batch.encoded().clone())
}

/// The newest log entry up to which no object is missing.
pub(crate) fn last_complete(info: &PgInfo, log: &PgLog, missing: &Missing) -> EVersion {
    match missing.oldest_need() {
        None => info.last_update,
        Some(need) => {
            let before = log.entries().rev().find(|entry| entry.version < need);
            before.map_or(log.tail().min(need), |entry| entry.version)
        }
    }
}

impl Core {
    /// Submits a transaction that settles nothing.
    pub fn commit(&mut self, tag: Tag, transaction: Transaction) {
        self.commit_settling(tag, transaction, None);
    }

    /// Submits a transaction, with its mark if it settles changes.
    pub fn commit_settling(&mut self, tag: Tag, transaction: Transaction, mark: Option<Mark>) {
        assert!(tag.is_commit(), "{tag:?} is no transaction");
        self.store_queue.commits_pending += 1;
        self.settling.note_commit(mark);
        let kind = match tag {
            // No other transaction depends on a received piece, and none is submitted before a split
            // or merge completes.
            Tag::Received(_) | Tag::SplitMerged => RequestKind::Commit(transaction),
            _ => RequestKind::Append(transaction),
        };
        self.ask_store(tag, kind);
    }

    /// A transaction that begins by creating the collection if there is none yet. The past intervals are
    /// stored with it: a copy without them would tell a primary that no other copies matter.
    pub fn transaction(&mut self, capacity: usize) -> Transaction {
        let mut transaction = Transaction { changes: Vec::with_capacity(capacity + 2) };
        if !self.copy.created {
            self.copy.created = true;
            transaction.push(self.own.collection, Change::CreateCollection);
            self.set_meta(&mut transaction, BTreeMap::from([self.intervals_pair()]));
        }
        transaction
    }

    /// Adds pairs to the meta object.
    pub fn set_meta(&self, transaction: &mut Transaction, pairs: BTreeMap<Bytes, Bytes>) {
        let object = self.own.meta.clone();
        transaction.push(self.own.collection, Change::OmapSet { object, pairs });
    }

    /// Removes the meta object's keys in a range (last exclusive).
    pub fn remove_meta(&self, transaction: &mut Transaction, keys: (Bytes, Bytes)) {
        let (first, last) = keys;
        assert!(first <= last, "a range of keys has an order");
        let object = self.own.meta.clone();
        transaction.push(self.own.collection, Change::OmapRemoveRange { object, first, last });
    }

    /// The stored key and value of the info.
    pub fn info_pair(&self) -> (Bytes, Bytes) {
        (info::INFO_KEY, codec::encode_with_capacity(&self.copy.info, PAIR_CAPACITY))
    }

    /// The stored key and value of the intervals.
    pub fn intervals_pair(&self) -> (Bytes, Bytes) {
        let mut w = Writer::with_capacity(PAIR_CAPACITY);
        encode_intervals(&mut w, &self.copy.past, self.placement.interval, &self.placement.members);
        (info::INTERVALS_KEY, w.into_bytes())
    }

    /// Adds the info to a transaction.
    pub fn set_info(&self, transaction: &mut Transaction) {
        self.set_meta(transaction, BTreeMap::from([self.info_pair()]));
    }

    /// Adds info, past intervals and the present interval to a transaction.
    pub fn set_info_and_intervals(&self, transaction: &mut Transaction) {
        let pairs = BTreeMap::from([self.info_pair(), self.intervals_pair()]);
        self.set_meta(transaction, pairs);
    }

    /// Submits a transaction with info and intervals.
    pub fn store_info_and_intervals(&mut self, tag: Tag) {
        let transaction = self.transaction(1);
        self.commit_interval(tag, transaction, None);
    }

    /// Submits a transaction with its mark, and with info and intervals, which are stored with it.
    pub fn commit_interval(&mut self, tag: Tag, mut transaction: Transaction, mark: Option<Mark>) {
        self.set_info_and_intervals(&mut transaction);
        self.store_queue.interval = IntervalStored::OnWay(self.settling.next_number());
        self.commit_settling(tag, transaction, mark);
    }

    /// Adds the changes that trimming made to the dups to a transaction and its `pairs`.
    pub fn store_trimmed(
        &self,
        transaction: &mut Transaction,
        pairs: &mut BTreeMap<Bytes, Bytes>,
        trimmed: Trimmed,
    ) {
        let dups = self.copy.log.dups();
        let batches = dups.batches().len();
        assert!(trimmed.remembered <= batches, "new batches are kept");
        pairs.extend(dups.batches().skip(batches - trimmed.remembered).map(dups_pair));
        if let Some(through) = trimmed.forgotten {
            let keys = (info::dups_keys().0, info::dups_key_behind(through));
            self.remove_meta(transaction, keys);
        }
    }

    /// Removes the item of an object that is no longer missing.
    pub fn unset_missing(&self, transaction: &mut Transaction, key: Bytes) {
        let (object, keys) = (self.own.meta.clone(), vec![key]);
        transaction.push(self.own.collection, Change::OmapRemove { object, keys });
    }

    /// Recomputes `last_complete` from the missing set.
    pub fn update_last_complete(&mut self) {
        self.copy.info.last_complete =
            last_complete(&self.copy.info, &self.copy.log, &self.copy.missing);
    }

    /// Adds an object to our own missing set, in this version, and stores that.
    pub fn miss(&mut self, object: &HObject, version: EVersion) {
        self.copy.missing.add(object.clone(), Item { need: version, have: EVersion::ZERO });
        self.update_last_complete();
        let mut pairs = BTreeMap::from([self.info_pair()]);
        pairs.extend(self.copy.missing.pair(object));
        let mut transaction = self.transaction(1);
        self.set_meta(&mut transaction, pairs);
        self.commit(Tag::Progress, transaction);
    }

    /// Adds objects of which nothing is here, with the versions that are needed, to the missing set and to
    /// the transaction. A shard counts as one that holds the later removal of an object: there is nothing to
    /// remove. It does not miss an object whose removal it has settled: no member has it any more.
    pub fn add_missing(
        &mut self,
        transaction: &mut Transaction,
        mut objects: Vec<(HObject, EVersion)>,
    ) {
        if let Some(shard) = self.copy.info.shard {
            self.forget_removed(&mut objects, shard.settled);
        }
        if objects.is_empty() {
            return;
        }
        let missing = &mut self.copy.missing;
        for (object, need) in &objects {
            missing.add(object.clone(), Item { need: *need, have: EVersion::ZERO });
        }
        let pairs = objects.iter().filter_map(|(object, _)| missing.pair(object)).collect();
        if let Some(shard) = self.copy.info.shard {
            missing.find_superseded(&self.copy.log, shard.settled);
        }
        self.set_meta(transaction, pairs);
    }

    /// Leaves out objects of which the newest change is a removal that is settled, and newer than the version
    /// that is needed.
    fn forget_removed(&self, objects: &mut Vec<(HObject, EVersion)>, settled: EVersion) {
        let names: Vec<HObject> = objects.iter().map(|(object, _)| object.clone()).collect();
        let newest = self.copy.log.newest_changes(names.iter());
        let is_gone = |need: EVersion| {
            move |entry: &&LogEntry| {
                entry.kind == EntryKind::Delete && entry.version <= settled && need < entry.version
            }
        };
        objects.retain(|(object, need)| !newest.get(object).is_some_and(is_gone(*need)));
    }

    /// Adds the log entry, and those before it, to the log and to the transaction.
    pub fn append_entries(
        &mut self,
        replicate: &mut Replicate,
        entry: LogEntry,
        also: Vec<LogEntry>,
    ) {
        assert_eq!(also.len(), replicate.also.len(), "each entry is encoded");
        let mut pairs = BTreeMap::from([
            (info::INFO_KEY, replicate.info.clone()),
            (info::log_key(entry.version), replicate.entry.clone()),
        ]);
        for (also, encoded) in also.into_iter().zip(&replicate.also) {
            pairs.insert(info::log_key(also.version), encoded.clone());
            self.copy.log.push(also);
        }
        self.copy.log.push(entry);
        self.trim_log(&mut replicate.transaction, &mut pairs, replicate.trim);
        self.set_meta(&mut replicate.transaction, pairs);
    }

    /// Trims the log up to a version, unless it is zero, in a transaction that stores these pairs.
    pub fn trim_log(
        &mut self,
        transaction: &mut Transaction,
        pairs: &mut BTreeMap<Bytes, Bytes>,
        trim: EVersion,
    ) {
        if trim == EVersion::ZERO {
            return;
        }
        let trimmed = self.copy.log.trim(trim);
        self.store_trimmed(transaction, pairs, trimmed);
        let (first, _) = info::log_keys();
        let beyond = EVersion { version: trim.version + 1, ..trim };
        self.remove_meta(transaction, (first, info::log_key(beyond)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErasureCode, ErasureLayout};
    use types::OsdId;

    #[test]
    fn intervals_have_a_layout_only_if_they_need_one() {
        let code = ErasureCode::JerasureVandermonde;
        let erasure = Layout::Erasure(ErasureLayout { data: 2, parity: 1, unit: 4096, code });
        for (layout, format) in [(Layout::Replicated, 1), (erasure, FORMAT_LAYOUT)] {
            let acting = vec![OsdId(3), OsdId::NONE, OsdId(5)];
            let members = Members { acting, size: 3, layout, ..Members::default() };
            let stored = StoredIntervals { first: Epoch(7), members, ..StoredIntervals::default() };
            let bytes = codec::encode_to_bytes(&stored);
            assert_eq!(bytes[0], format, "the oldest format that can say it");
            let decoded = codec::decode_all::<StoredIntervals>("intervals", &bytes);
            assert_eq!(decoded, Ok(stored));
            for end in 0..bytes.len() {
                assert!(codec::decode_all::<StoredIntervals>("intervals", &bytes[..end]).is_err());
            }
        }
        assert!(codec::decode_all::<StoredIntervals>("intervals", &[3; 64]).is_err());
    }
}
