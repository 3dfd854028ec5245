//! Replica and Stray: what a copy tells the primary, and how it follows the primary's log.

use super::stage::{Follower, FollowerStage};
use crate::Member;
use crate::core::Core;
use crate::core::persist::dups_pair;
use crate::core::steps::{log_pair, next_step};
use crate::merge;
use crate::message::{Activation, Body, LogPart, Notice};
use crate::primary::log_of;
use crate::{Dups, PgHistory, PgInfo, PgLog, ShardState, Tag, info};
use store::{Change, Transaction};
use types::{EVersion, HObject};

/// Answers a query.
pub(crate) fn send_info(core: &mut Core, primary: Member) {
    let notice = core.copy.created.then(|| {
        let missing = core.copy.missing.stored_len() as u64;
        let (info, intervals) = (core.copy.info.clone(), core.copy.past.clone());
        let (leases, scrub_order) = (core.leases.tell(), core.copy.scrub_order);
        Box::new(Notice { info, missing, intervals, leases, scrub_order })
    });
    core.send(primary, &Body::Info(notice));
}

/// Sends our log and missing set to the primary.
pub(crate) fn send_log(core: &mut Core, from: Member) {
    let part = LogPart {
        info: core.copy.info.clone(),
        tail: core.copy.log.tail(),
        entries: core.copy.log.entries().cloned().collect(),
        missing: core.copy.missing.clone(),
    };
    core.send(from, &Body::Log(Box::new(part)));
}

impl Follower {
    /// Follows the primary's log; the answer is sent when that is durable.
    pub fn handle_activate(&mut self, core: &mut Core, activation: Activation) {
        let FollowerStage::Replica = self.stage else { return };
        let Activation { is_reset, info, intervals, tail, entries, dups } = activation;
        let Some(theirs) = log_of(tail, &entries, info.last_update) else {
            tracing::error!(pg = %core.own.id, "the log to follow contradicts its info");
            return;
        };
        let merged = match is_reset {
            true => None,
            false => merge::merge(core.placement.backend, core.side(), &theirs),
        };
        if !is_reset && merged.is_none() {
            tracing::error!(pg = %core.own.id, "the log to follow does not overlap with ours");
            return;
        }
        self.stage = FollowerStage::Active { backfilled_by: None };
        let last_update = info.last_update;
        // Our own list tells what happened in a gap of the primary's.
        let own = &core.copy;
        let tells = own.knows_past && own.info.was_there() && !own.past.has_gap();
        if !intervals.has_gap() || !tells {
            core.copy.past = intervals;
        }
        core.copy.knows_past = true;
        let tag = Tag::Activated(core.placement.interval);
        let own = &core.copy.info;
        // An activation with too few members is not recorded: the primary's own may be older.
        let last_epoch_started = info.last_epoch_started.max(own.last_epoch_started);
        match merged {
            Some(merged) => {
                let (last_backfill, settled) = (own.last_backfill.clone(), info.settled());
                let info = PgInfo { last_backfill, last_epoch_started, ..info };
                core.take_merged(merged, info, settled, tag);
            }
            None => {
                let last_backfill = HObject::default();
                // Nothing is held any more. What the primary has settled is committed, and perhaps nothing
                // else that the log has above its tail.
                let settled = info.settled().min(theirs.head()).max(theirs.tail());
                let shard = own.shard.map(|own| ShardState { settled, ..own });
                core.copy.info = PgInfo { last_backfill, last_epoch_started, shard, ..info };
                restart(core, theirs.with_dups(dups), tag);
            }
        }
        core.copy.committed = match core.copy.info.shard {
            None => last_update,
            // Nothing more is, until the group serves: the primary tells.
            Some(own) => own.settled,
        };
    }

    /// Takes over the primary's history.
    pub fn handle_history(&self, core: &mut Core, history: &PgHistory) {
        if !self.is_active() {
            return;
        }
        core.copy.info.history.merge(history);
        core.copy.past.trim(core.copy.info.history.last_epoch_clean);
        core.store_info_and_intervals(Tag::Progress);
    }

    /// Our own activation is durable.
    pub fn stored_activated(&self, core: &mut Core) {
        if self.is_active() {
            core.send(self.primary(core), &Body::Activated);
            if core.space.is_short {
                self.announce_has_space(core);
            }
        }
    }

    /// Tells the primary whether our disk has space.
    pub fn announce_has_space(&self, core: &mut Core) {
        if self.is_active() {
            core.send(self.primary(core), &Body::HasSpace(!core.space.is_short));
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
fn restart(core: &mut Core, log: PgLog, tag: Tag) {
    let mut transaction = replace_dups(core, log.dups());
    core.remove_meta(&mut transaction, info::log_keys());
    if core.copy.info.shard.is_some() {
        core.settling.forget_above(EVersion::ZERO);
        let drop = Change::Drop { from: EVersion::ZERO, through: EVersion::MAX };
        transaction.push(core.own.collection, drop);
    }
    core.copy.log = log;
    let missing = std::mem::take(&mut core.copy.missing);
    core.copy.info.log_tail = core.copy.log.tail();
    core.update_last_complete();
    let entries: Vec<_> = core.copy.log.entries().map(log_pair).collect();
    let (mut stored, mut pairs) = (0, entries.into_iter().peekable());
    while let Some(mut some) = next_step(&mut pairs) {
        stored += some.len();
        if pairs.peek().is_some() {
            some.insert(info::INFO_KEY, codec::encode_to_bytes(&info_through(core, stored)));
        }
        core.set_meta(&mut transaction, some);
        if pairs.peek().is_some() {
            core.commit(Tag::Progress, std::mem::take(&mut transaction));
        }
    }
    // Not before it is durable that nothing is backfilled.
    for mut removal in core.remove_missing(&missing) {
        transaction.changes.append(&mut removal.changes);
        core.set_info(&mut transaction);
        core.commit(Tag::Progress, std::mem::take(&mut transaction));
    }
    core.remove_meta(&mut transaction, info::missing_keys());
    core.commit_interval(tag, transaction, None);
}

/// The info of the reset copy while it has only so many entries of the log.
fn info_through(core: &Core, entries: usize) -> PgInfo {
    let newest = core.copy.log.entries().nth(entries - 1).map(|entry| entry.version);
    let last_update = newest.unwrap_or(core.copy.log.tail());
    let within = |own: ShardState| ShardState { settled: own.settled.min(last_update), ..own };
    let shard = core.copy.info.shard.map(within);
    PgInfo { last_update, last_complete: last_update, shard, ..core.copy.info.clone() }
}

/// Stores new dups in place of the old ones. Most are stored in transactions of their own before the log
/// is replaced: it does no harm to remember more requests than the log that is still there. The returned
/// transaction removes all other batches, and must be submitted with the log.
fn replace_dups(core: &mut Core, dups: &Dups) -> Transaction {
    let mut transaction = core.transaction(5);
    let mut pairs = dups.batches().map(dups_pair).peekable();
    while let Some(some) = next_step(&mut pairs) {
        core.set_meta(&mut transaction, some);
        core.commit(Tag::Progress, std::mem::take(&mut transaction));
    }
    let (mut first, end) = info::dups_keys();
    for batch in dups.batches() {
        core.remove_meta(&mut transaction, (first, info::dups_key(batch.through)));
        first = info::dups_key_behind(batch.through);
    }
    core.remove_meta(&mut transaction, (first, end));
    transaction
}
