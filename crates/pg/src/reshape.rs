//! Splitting a copy in place when its pool gets more groups, and merging two when it gets fewer.
//!
//! The map with the new `pg_num` ends the interval for every copy of the group, including strays. The copy
//! then stops (`State::Reshaping`) until its store has completed all transactions: only then does the store
//! have the state that is in memory. One transaction gives each new group a collection of its own, with its
//! objects, its part of the log and of the missing set, and the past intervals of the whole. When that is
//! durable, all parts take part in the interval that has begun. Logs are long, and transactions must not be:
//! the meta object of a new group is stored ahead, in the old collection under its new name, and moves with
//! the objects. The dups of a merged group are stored ahead, too; until then they belong to no log, and are
//! not loaded. The clone index is split and merged likewise ([`index`]).
//!
//! New parts exist from the beginning, and are stopped with the copy: queries are answered when the answer
//! is known, because a part whose objects are still in another collection must not be taken for absent.
//! For the same reason the OSD applies no later map before that.
//!
//! Two groups are merged when both are clean on the same members and in premerge: the map then names the
//! versions that they have. A copy that has just these is complete, and so is the merged one. Any other
//! copy contributes nothing but its objects, and is backfilled.

mod index;

use crate::core::LocalCopy;
use crate::core::persist::{dups_pair, last_complete};
use crate::core::steps::{log_pair, next_step};
use crate::message::{Body, Header};
use crate::role::{Loading, Role};
use crate::{Members, Missing, Output, Pg, PgInfo, PgLog, Tag, info, split};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use store::{Change, Hashes, Transaction};
use types::{EVersion, HObject, OsdId, PgId};

/// Messages that are kept while the copy is stopped. Further ones are dropped; primaries ask again.
const HELD_MAX: usize = 256;

/// The versions, in the map that merges two groups, that all members have of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MergedVersions {
    pub source: EVersion,
    pub target: EVersion,
}

/// A copy that is stopped until the store has split or merged it.
#[derive(Debug, Default)]
pub(crate) struct SplitMerge {
    /// `None` in a new part, which waits for the copy that is split.
    progress: Option<Progress>,
    /// A query that arrived before the copy was stopped, while it was loaded.
    asked_by: Option<(OsdId, Header)>,
    held: Held,
}

impl SplitMerge {
    /// The map splits or merges the group.
    pub fn begin(&mut self) {
        self.progress = Some(Progress::default());
    }

    /// Keeps a message until the copy takes part again, or drops it.
    pub fn hold(&mut self, from: OsdId, header: &Header, body: Body) {
        self.held.push(from, header, body);
    }
}

/// The progress of a split or merge.
#[derive(Debug, Default)]
struct Progress {
    /// Set once [`Output::Quiet`] was given.
    is_announced: bool,
    /// Set while a refused step waits for a retry.
    is_refused: bool,
    /// Set once the store had no room.
    lacks_room: bool,
    /// The state of this group afterwards.
    own: Option<Part>,
    /// Transactions that are still to be submitted, in order.
    steps: VecDeque<Transaction>,
    /// Set while pairs of the clone index are still to be copied, which happens before the last step.
    index: Option<index::Index>,
}

/// The state of one part, or of the merged copy.
#[derive(Debug)]
struct Part {
    info: PgInfo,
    log: PgLog,
    missing: Missing,
}

/// Queries and infos that arrived while the copy was stopped.
#[derive(Debug, Default)]
struct Held(Vec<(OsdId, Header, Body)>);

impl Held {
    /// Keeps a query or an info; drops all else.
    fn push(&mut self, from: OsdId, header: &Header, body: Body) {
        if matches!(body, Body::Query | Body::Info(_)) && self.0.len() < HELD_MAX {
            self.0.push((from, *header, body));
        }
    }
}

impl Pg {
    /// Whether the map has split or merged this group, and its store has not.
    pub fn is_reshaping(&self) -> bool {
        match &self.role {
            Role::Loading(loading) | Role::Refused(loading) => {
                loading.split_merge.as_ref().is_some_and(|stopped| stopped.progress.is_some())
            }
            Role::SplitMerge(stopped) => stopped.progress.is_some(),
            _ => false,
        }
    }

    /// Whether the copy is stopped because its disk has no room for the split or merge.
    pub fn is_reshaping_toofull(&self) -> bool {
        self.progress().is_some_and(|progress| progress.lacks_room)
    }

    fn progress(&self) -> Option<&Progress> {
        match &self.role {
            Role::SplitMerge(stopped) => stopped.progress.as_ref(),
            _ => None,
        }
    }

    fn progress_mut(&mut self) -> Option<&mut Progress> {
        match &mut self.role {
            Role::SplitMerge(stopped) => stopped.progress.as_mut(),
            _ => None,
        }
    }

    fn hashes(&self) -> Hashes {
        Hashes::new(self.core.placement.members.hash_bits, self.core.own.id.seed)
    }

    /// A part of this copy that becomes a group of its own. The caller passes it the map that this copy was
    /// passed just now.
    pub fn new_part(&self, id: PgId) -> Pg {
        let whole = &self.core.copy;
        let mut part = Pg::new(id, self.core.own.whoami).with_sizes(self.core.own.sizes);
        part.core.copy = LocalCopy {
            created: whole.created,
            past: whole.past.clone(),
            knows_past: whole.knows_past,
            scrub_order: whole.scrub_order,
            ..LocalCopy::default()
        };
        part.core.leases.readers = self.core.leases.readers.clone();
        part.role = match self.role {
            _ if !whole.created => Role::default(),
            Role::Failed { .. } => Role::Failed { asked_by: None },
            _ => Role::SplitMerge(Box::default()),
        };
        part
    }

    /// The map splits or merges the group: stops the copy, if necessary once it is loaded.
    pub(crate) fn split_or_merge(&mut self) {
        match &mut self.role {
            Role::Failed { .. } => {}
            Role::Loading(loading) | Role::Refused(loading) => {
                loading.split_merge.get_or_insert_default().begin();
            }
            _ => self.stand_still(),
        }
    }

    /// Stops the copy until it is split or merged.
    pub(crate) fn stand_still(&mut self) {
        self.interrupt_writes(false);
        self.forget_peers();
        self.core.room.stalled_in = None;
        let mut stopped = match std::mem::take(&mut self.role) {
            Role::Loading(Loading { asked_by, split_merge }) => {
                let stopped = split_merge.unwrap_or_default();
                Box::new(SplitMerge { asked_by: asked_by.or(stopped.asked_by), ..*stopped })
            }
            Role::SplitMerge(stopped) => stopped,
            _ => Box::default(),
        };
        stopped.begin();
        self.role = Role::SplitMerge(stopped);
        if self.core.line.commits_pending == 0 {
            self.stands_still();
        }
    }

    /// All transactions are completed: reports that once.
    pub(crate) fn stands_still(&mut self) {
        if let Some(progress) = self.progress_mut()
            && !std::mem::replace(&mut progress.is_announced, true)
        {
            self.core.outputs.push_back(Output::Quiet);
        }
    }

    /// Has the store split this copy into itself and these new parts. Call at [`Output::Quiet`].
    pub fn divide(&mut self, parts: &mut [&mut Pg]) {
        let count = parts.len() as u64 + 1;
        let mut steps = VecDeque::new();
        let mut last = Transaction { changes: Vec::with_capacity(3 * parts.len() + 3) };
        if !self.core.copy.created {
            steps.push_back(Transaction {
                changes: vec![(self.core.own.collection, Change::CreateCollection)],
            });
        }
        let mut dealing = index::Dealing::default();
        for (index, part) in (1..).zip(parts) {
            let hashes = part.hashes();
            let Part { info, log, missing } = self.part(hashes, index, count);
            (part.core.copy.info, part.core.copy.log) = (info, log);
            part.core.copy.missing = missing;
            self.prepare_meta(&mut steps, part);
            dealing.add(part.core.own.meta.clone(), hashes);
            last.push(part.core.own.collection, Change::CreateCollection);
            let change = Change::MoveObjects { target: part.core.own.collection, hashes };
            last.push(self.core.own.collection, change);
            part.core.set_info_and_intervals(&mut last);
        }
        let own = self.part(self.hashes(), 0, count);
        self.keep_own_meta(&mut last, &own);
        steps.push_back(last);
        if let Some(progress) = self.progress_mut() {
            progress.index = Some(index::Index::Dealt(dealing));
        }
        self.take_steps(own, steps);
    }

    fn take_steps(&mut self, own: Part, steps: VecDeque<Transaction>) {
        if let Some(progress) = self.progress_mut() {
            (progress.own, progress.steps) = (Some(own), steps);
        }
        self.take_step();
    }

    /// Submits the next step, or reports that the last one is durable.
    pub(crate) fn take_step(&mut self) {
        if self.progress().is_some_and(|progress| progress.steps.len() == 1) && self.reads_index() {
            return;
        }
        let next = self.progress_mut().and_then(|progress| progress.steps.pop_front());
        match next {
            Some(transaction) => self.core.commit(Tag::Reshaped, transaction),
            None => self.core.outputs.push_back(Output::Reshaped),
        }
    }

    /// The map has merged this group into another one: stops it for good.
    pub fn begin_merging(&mut self) {
        // It has no members any more.
        self.core.placement.members =
            Members { hash_bits: self.core.placement.members.hash_bits, ..Members::default() };
        self.split_or_merge();
    }

    /// Has the store merge these copies into this one. The merged copy is complete only if there is one
    /// source and both have just these `versions`. Call when all of them have given [`Output::Quiet`].
    pub fn merge_from(&mut self, sources: &[&mut Pg], versions: Option<MergedVersions>) {
        let own = match (sources, versions) {
            ([source], Some(versions)) if self.has_all_of(source, versions) => {
                self.merged_whole(source)
            }
            _ => self.merged_incomplete(sources),
        };
        let mut steps = self.prepare_dups(&own);
        // Missing sets are dropped with the logs, so the content of missing objects is removed: it is
        // not valid.
        let copies = sources.iter().map(|source| &**source).chain([&*self]);
        steps.extend(copies.flat_map(|copy| copy.core.remove_missing(&copy.core.copy.missing)));
        let mut transaction = Transaction { changes: Vec::with_capacity(3 * sources.len() + 3) };
        for source in sources.iter().filter(|source| source.core.copy.created) {
            let (hashes, from) = (source.hashes(), source.core.own.collection);
            let (object, target) = (source.core.own.meta.clone(), self.core.own.collection);
            transaction.push(from, Change::Remove { object });
            transaction.push(from, Change::MoveObjects { target, hashes });
            transaction.push(from, Change::RemoveCollection);
        }
        self.core.remove_meta(&mut transaction, info::missing_keys());
        if own.log.head() != self.core.copy.log.head() {
            self.core.remove_meta(&mut transaction, info::log_keys());
            let (first, _) = info::dups_keys();
            let new = info::dups_key(EVersion { epoch: self.core.placement.interval, version: 0 });
            self.core.remove_meta(&mut transaction, (first, new));
        }
        let info = (info::INFO_KEY, codec::encode_to_bytes(&own.info));
        self.core.set_meta(&mut transaction, BTreeMap::from([info, self.core.intervals_pair()]));
        steps.push_back(transaction);
        let sources = sources.iter().filter(|source| source.core.copy.created);
        let metas = sources
            .map(|source| (source.core.own.collection, source.core.own.meta.clone()))
            .collect();
        if let Some(progress) = self.progress_mut() {
            progress.index = index::Gathering::of(metas);
        }
        self.take_steps(own, steps);
    }

    /// Stores the dups of the merged group ahead, above those of this copy, in place of any that an earlier
    /// attempt left.
    fn prepare_dups(&self, own: &Part) -> VecDeque<Transaction> {
        let mut steps = VecDeque::new();
        if own.log.head() == self.core.copy.log.head() {
            return steps;
        }
        let mut transaction = Transaction::new();
        let new = info::dups_key(EVersion { epoch: self.core.placement.interval, version: 0 });
        self.core.remove_meta(&mut transaction, (new, info::dups_keys().1));
        let mut pairs = own.log.dups().batches().map(dups_pair).peekable();
        while let Some(some) = next_step(&mut pairs) {
            self.core.set_meta(&mut transaction, some);
            steps.push_back(std::mem::take(&mut transaction));
        }
        steps
    }

    fn has_all_of(&self, source: &Pg, versions: MergedVersions) -> bool {
        let has = |pg: &Pg, version: EVersion| {
            let copy = &pg.core.copy;
            let is_whole = copy.info.is_complete() && copy.missing.is_empty();
            copy.created && is_whole && copy.info.last_update == version
        };
        has(self, versions.target) && has(source, versions.source)
    }

    fn merged_whole(&self, source: &Pg) -> Part {
        let log = split::merged_log(
            self.core.placement.interval,
            &self.core.copy.log,
            &source.core.copy.log,
        );
        let info = split::merged_info(&self.core.copy.info, &source.core.copy.info, &log);
        Part { info, log, missing: Missing::default() }
    }

    fn merged_incomplete(&self, sources: &[&mut Pg]) -> Part {
        tracing::debug!(pg = %self.core.own.id, osd = %self.core.own.whoami, "the merged copy is not complete");
        let sum = |count: fn(&PgInfo) -> u64| {
            sources.iter().map(|pg| count(&pg.core.copy.info)).sum::<u64>()
        };
        let info = PgInfo {
            last_backfill: HObject::default(),
            last_complete: self.core.copy.info.last_update,
            objects: self.core.copy.info.objects + sum(|info| info.objects),
            clones: self.core.copy.info.clones + sum(|info| info.clones),
            bytes: self.core.copy.info.bytes + sum(|info| info.bytes),
            ..self.core.copy.info.clone()
        };
        Part { info, log: self.core.copy.log.clone(), missing: Missing::default() }
    }

    fn part(&self, hashes: Hashes, index: u64, count: u64) -> Part {
        let mut info = split::part_of_info(&self.core.copy.info, hashes, index, count);
        let log = split::part_of_log(&self.core.copy.log, hashes);
        let missing = split::part_of_missing(&self.core.copy.missing, hashes);
        info.last_complete = last_complete(&info, &log, &missing);
        Part { info, log, missing }
    }

    /// Stores the meta object of a part ahead, in this collection, in place of any that an earlier attempt
    /// left.
    fn prepare_meta(&self, steps: &mut VecDeque<Transaction>, part: &Pg) {
        let LocalCopy { log, missing, .. } = &part.core.copy;
        let missing = missing.iter().filter_map(|(object, _)| missing.pair(object));
        let dups = log.dups().batches().map(dups_pair);
        let mut pairs = dups.chain(log.entries().map(log_pair)).chain(missing).peekable();
        let object = || part.core.own.meta.clone();
        let mut changes = vec![(self.core.own.collection, Change::Remove { object: object() })];
        while let Some(some) = next_step(&mut pairs) {
            changes.push((
                self.core.own.collection,
                Change::OmapSet { object: object(), pairs: some },
            ));
            steps.push_back(Transaction { changes: std::mem::take(&mut changes) });
        }
        if !changes.is_empty() {
            steps.push_back(Transaction { changes });
        }
    }

    /// Reduces this copy's own meta object to its part of the state.
    fn keep_own_meta(&self, transaction: &mut Transaction, own: &Part) {
        let gone =
            self.core.copy.missing.iter().filter(|(object, _)| !own.missing.contains(object));
        let keys: Vec<Bytes> = gone.map(|(object, _)| info::missing_key(object)).collect();
        if !keys.is_empty() {
            let object = self.core.own.meta.clone();
            transaction.push(self.core.own.collection, Change::OmapRemove { object, keys });
        }
        let entries = self.core.copy.log.entries().zip(own.log.entries());
        let changed = entries.filter(|(before, after)| before != after);
        let mut pairs: BTreeMap<Bytes, Bytes> = changed.map(|(_, entry)| log_pair(entry)).collect();
        pairs.insert(info::INFO_KEY, codec::encode_to_bytes(&own.info));
        pairs.extend([self.core.intervals_pair()]);
        self.core.set_meta(transaction, pairs);
    }

    /// Takes part in the present interval again. Call at [`Output::Reshaped`], on the copy and its parts.
    pub fn take_shape(&mut self) {
        let stopped = match std::mem::take(&mut self.role) {
            Role::SplitMerge(stopped) => *stopped,
            _ => SplitMerge::default(),
        };
        if let Some(own) = stopped.progress.and_then(|progress| progress.own) {
            (self.core.copy.info, self.core.copy.log, self.core.copy.missing) =
                (own.info, own.log, own.missing);
        }
        self.core.copy.created = true;
        self.core.copy.committed = self.core.copy.info.log_tail;
        self.join_interval(stopped.asked_by);
        for (from, header, body) in stopped.held.0 {
            self.handle_message(from, &header, body);
        }
    }

    /// The copy that this is to be a part of has failed.
    pub fn lose_shape(&mut self) {
        self.role = Role::Failed { asked_by: None };
    }

    /// The disk has no room for a step: the caller is to retry.
    pub(crate) fn shape_refused(&mut self) {
        tracing::error!(pg = %self.core.own.id, osd = %self.core.own.whoami, "no room to divide the group");
        if let Some(progress) = self.progress_mut() {
            (progress.is_refused, progress.lacks_room) = (true, true);
            progress.steps.clear();
        }
        self.core.outputs.push_back(Output::WantsInterval);
    }

    /// Tries a refused split or merge again; [`Output::Quiet`] follows.
    pub fn retry_reshaping(&mut self) {
        if let Some(progress) = self.progress_mut()
            && std::mem::take(&mut progress.is_refused)
        {
            self.core.outputs.push_back(Output::Quiet);
        }
    }
}
