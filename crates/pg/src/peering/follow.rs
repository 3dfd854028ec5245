//! Replica and Stray: copies that are not the primary's.

use crate::core::persist::dups_pair;
use crate::core::steps::{log_pair, next_step};
use crate::merge;
use crate::message::{Activation, Body, Header, LogPart, Notice};
use crate::primary::log_of;
use crate::role::{FollowerStage, Role};
use crate::{Dups, Pg, PgHistory, PgInfo, PgLog, State, Tag, info};
use store::{Change, RequestKind, Transaction};
use types::{EVersion, Epoch, HObject, OsdId};

impl Pg {
    /// Follows the primary's log; the answer is sent when that is durable.
    pub(crate) fn told_to_activate(&mut self, activation: Activation) {
        if self.state() != State::Replica {
            return;
        }
        let Activation { is_reset, info, intervals, tail, entries, dups } = activation;
        let Some(theirs) = log_of(tail, &entries, info.last_update) else {
            tracing::error!(pg = %self.core.own.id, "the log to follow contradicts its info");
            return;
        };
        let merged = match is_reset {
            true => None,
            false => merge::merge(
                &self.core.copy.log,
                &self.core.copy.missing,
                &self.core.copy.info.last_backfill,
                &theirs,
            ),
        };
        if !is_reset && merged.is_none() {
            tracing::error!(pg = %self.core.own.id, "the log to follow does not overlap with ours");
            return;
        }
        if let Role::Follower(follower) = &mut self.role {
            follower.stage = FollowerStage::Active { backfilled_by: None };
        }
        self.core.copy.committed = info.last_update;
        self.core.copy.past = intervals;
        self.core.copy.knows_past = true;
        let tag = Tag::Activated(self.core.placement.interval);
        match merged {
            Some(merged) => {
                let last_backfill = self.core.copy.info.last_backfill.clone();
                self.core.take_merged(merged, PgInfo { last_backfill, ..info }, tag);
            }
            None => {
                self.core.copy.info = PgInfo { last_backfill: HObject::default(), ..info };
                self.begin_anew(theirs.with_dups(dups), tag);
            }
        }
    }

    /// Resets the copy: it takes over `log` and is backfilled from the beginning.
    ///
    /// A log is too large for one transaction. So the copy begins with a part of it, which later
    /// transactions extend: a crash in between leaves a copy that has nothing backfilled and lacks the
    /// newest writes.
    ///
    /// The content of its missing objects is removed: it may be bad in spite of its version.
    fn begin_anew(&mut self, log: PgLog, tag: Tag) {
        let mut transaction = self.replace_dups(log.dups());
        self.core.remove_meta(&mut transaction, info::log_keys());
        self.core.copy.log = log;
        let missing = std::mem::take(&mut self.core.copy.missing);
        self.core.copy.info.log_tail = self.core.copy.log.tail();
        self.core.update_last_complete();
        let entries: Vec<_> = self.core.copy.log.entries().map(log_pair).collect();
        let (mut stored, mut pairs) = (0, entries.into_iter().peekable());
        while let Some(mut some) = next_step(&mut pairs) {
            stored += some.len();
            if pairs.peek().is_some() {
                some.insert(info::INFO_KEY, codec::encode_to_bytes(&self.info_through(stored)));
            }
            self.core.set_meta(&mut transaction, some);
            if pairs.peek().is_some() {
                self.core.commit(Tag::Progress, std::mem::take(&mut transaction));
            }
        }
        // Not before it is durable that nothing is backfilled.
        for mut removal in self.core.remove_missing(&missing) {
            transaction.changes.append(&mut removal.changes);
            self.core.set_info(&mut transaction);
            self.core.commit(Tag::Progress, std::mem::take(&mut transaction));
        }
        self.core.remove_meta(&mut transaction, info::missing_keys());
        self.core.set_info_and_intervals(&mut transaction);
        self.core.commit(tag, transaction);
    }

    /// The info of the reset copy while it has only so many entries of the log.
    fn info_through(&self, entries: usize) -> PgInfo {
        let newest = self.core.copy.log.entries().nth(entries - 1).map(|entry| entry.version);
        let last_update = newest.unwrap_or(self.core.copy.log.tail());
        PgInfo { last_update, last_complete: last_update, ..self.core.copy.info.clone() }
    }

    /// Stores new dups in place of the old ones. Most are stored in transactions of their own before the log
    /// is replaced: it does no harm to remember more requests than the log that is still there. The returned
    /// transaction removes all other batches, and must be submitted with the log.
    fn replace_dups(&mut self, dups: &Dups) -> Transaction {
        let mut transaction = self.core.transaction(5);
        let mut pairs = dups.batches().map(dups_pair).peekable();
        while let Some(some) = next_step(&mut pairs) {
            self.core.set_meta(&mut transaction, some);
            self.core.commit(Tag::Progress, std::mem::take(&mut transaction));
        }
        let (mut first, end) = info::dups_keys();
        for batch in dups.batches() {
            self.core.remove_meta(&mut transaction, (first, info::dups_key(batch.through)));
            first = info::dups_key_behind(batch.through);
        }
        self.core.remove_meta(&mut transaction, (first, end));
        transaction
    }

    /// Takes over the primary's history.
    pub(crate) fn told_history(&mut self, history: &PgHistory) {
        if self.state() != State::ReplicaActive {
            return;
        }
        self.core.copy.info.history.merge(history);
        self.core.copy.past.trim(self.core.copy.info.history.last_epoch_clean);
        self.core.store_info_and_intervals(Tag::Progress);
    }

    /// The primary does not need this stray copy.
    pub(crate) fn told_to_remove(&mut self) {
        if self.state() == State::Stray {
            self.remove();
        }
    }

    /// Removes this copy and its data from the store; [`crate::Output::Removed`] follows.
    pub fn remove(&mut self) {
        if self.state() == State::Refused {
            self.core.ask_store(Tag::Resumed, RequestKind::Resume(self.core.own.collection));
        }
        self.forget_peers();
        self.role = Role::default();
        let mut transaction = Transaction::new();
        transaction.push(self.core.own.collection, Change::RemoveCollection);
        self.core.copy.created = false;
        if std::mem::take(&mut self.core.line.is_store_due) {
            self.core.line.commits_pending -= 1;
        }
        self.core.copy.knows_past = false;
        self.core.copy.scrub_order = None;
        self.core.copy.info = PgInfo::default();
        self.core.copy.log = PgLog::default();
        self.core.copy.missing.clear();
        self.core.copy.past.clear();
        self.core.copy.committed = EVersion::ZERO;
        self.core.commit(Tag::Removed, transaction);
    }

    /// Handles the primary's query; it is answered when no transaction is pending.
    pub(crate) fn queried(&mut self, from: OsdId, header: &Header) {
        if header.epoch < self.core.placement.interval
            || self.core.placement.members.primary != Some(from)
        {
            return;
        }
        if header.interval > self.core.placement.interval {
            self.core.placement.interval = header.interval;
            self.start_interval(false);
        }
        if let Role::Follower(follower) = &mut self.role {
            follower.asked_by = Some(from);
        }
        if self.core.line.commits_pending == 0 {
            self.drained();
        }
    }

    /// Answers a query.
    pub(crate) fn tell_info(&mut self, primary: OsdId) {
        let notice = self.core.copy.created.then(|| {
            let missing = self.core.copy.missing.len() as u64;
            let (info, intervals) = (self.core.copy.info.clone(), self.core.copy.past.clone());
            let (promises, scrub_order) = (self.core.leases.tell(), self.core.copy.scrub_order);
            Box::new(Notice { info, missing, intervals, promises, scrub_order })
        });
        self.core.send(primary, &Body::Info(notice));
    }

    /// Sends our log and missing set to the primary.
    pub(crate) fn asked_for_log(&mut self, from: OsdId) {
        let part = LogPart {
            info: self.core.copy.info.clone(),
            tail: self.core.copy.log.tail(),
            entries: self.core.copy.log.entries().cloned().collect(),
            missing: self.core.copy.missing.clone(),
        };
        self.core.send(from, &Body::Log(Box::new(part)));
    }

    /// Our own activation is durable.
    pub(crate) fn stored_activated(&mut self, interval: Epoch) {
        if interval != self.core.placement.interval {
            return;
        }
        let whoami = self.core.own.whoami;
        self.with_primary(|primary, core| primary.handle_activated(core, whoami));
        if self.state() == State::ReplicaActive {
            let primary = self.core.placement.members.primary.expect("it told us to activate");
            self.core.send(primary, &Body::Activated);
            if self.core.room.is_short {
                self.announce_room();
            }
        }
    }
}
