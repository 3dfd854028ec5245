//! Settling: held changes become part of their objects, in steps, and reads of the store come behind that.
//!
//! A store shows a change to reads that are submitted after its transaction has completed. So a reader asks
//! [`has_settled`], and if that is false, waits for the completion of a transaction
//! ([`crate::Pg::handle_completion`]) and asks again.
//!
//! Callers settle only changes that are committed, and only if the copy has stored the activation of the
//! present interval: the log of any other copy may have left the group's.

use super::settles::Mark;
use super::{Core, Output, Tag};
use crate::info;
use store::{Change, Transaction};
use types::{EVersion, HObject, SnapId};

/// Changes up to this version are visible to reads of the store. The log's head in a replicated group.
pub(crate) fn settled(core: &Core) -> EVersion {
    let Some(shard) = core.copy.info.shard else { return core.copy.log.head() };
    core.settling.on_way.front().map_or(shard.settled, |(_, before)| *before)
}

/// Whether reads of the store see all changes of the object up to a committed version. If not, begins to
/// settle them.
pub(crate) fn has_settled(core: &mut Core, object: &HObject, through: EVersion) -> bool {
    if core.copy.info.shard.is_none() {
        return true;
    }
    let settled = settled(core);
    // Entries that were trimmed cannot be asked for their objects.
    let is_known = core.copy.log.tail() <= settled;
    if is_known && !is_changed_within(core, object, settled, through) {
        return true;
    }
    settle(core, through);
    false
}

/// Whether the log has a change of the object above `after`, up to `through`.
fn is_changed_within(core: &Core, object: &HObject, after: EVersion, through: EVersion) -> bool {
    let mut later = core.copy.log.above(after).take_while(|entry| entry.version <= through);
    later.any(|entry| entry.changes_object() && entry.object == *object)
}

/// Settles all changes up to a committed version, in transactions of their own.
pub(crate) fn settle(core: &mut Core, through: EVersion) {
    settle_but_last(core, through);
    settle_alone(core, through);
}

/// Settles all changes up to a committed version with a transaction that stores the info. Steps before it are
/// transactions of their own if there are very many, and so is the last one after a refusal: a store that is
/// full may have space for it alone.
pub(crate) fn settle_with(
    core: &mut Core,
    transaction: &mut Transaction,
    through: EVersion,
) -> Option<Mark> {
    if core.settling.is_careful() {
        settle(core, through);
        return None;
    }
    settle_but_last(core, through);
    settle_step(core, transaction, through)
}

/// A merge leaves no held change up to this committed version: with the next transaction they are in their
/// objects, or these are missing.
pub(super) fn note_merged(core: &mut Core, through: EVersion) -> Option<Mark> {
    let through = through.min(core.copy.info.last_update);
    let shard = core.copy.info.shard.as_mut().filter(|shard| shard.settled < through)?;
    let before = std::mem::replace(&mut shard.settled, through);
    core.copy.committed = core.copy.committed.max(through);
    Some(core.settling.mark(before))
}

/// Settles so much that one step is left.
fn settle_but_last(core: &mut Core, through: EVersion) {
    while let Some(step) = step_before(core, through) {
        settle_alone(core, step);
    }
}

/// Settles a step in a transaction of its own.
fn settle_alone(core: &mut Core, through: EVersion) {
    let mut transaction = Transaction::new();
    if let Some(mark) = settle_step(core, &mut transaction, through) {
        core.set_info(&mut transaction);
        core.commit_settling(Tag::Progress, transaction, Some(mark));
    }
}

/// The end of a full step, if changes up to `through` are behind it. A write has one held change for all of
/// its entries, of which those of clones come first: a step does not end between them.
pub(crate) fn step_before(core: &Core, through: EVersion) -> Option<EVersion> {
    let settled = core.copy.info.shard?.settled;
    let mut later = core.copy.log.above(settled).peekable();
    let mut last = later.by_ref().take(core.settling.at_once()).last()?;
    while last.object.snap != SnapId::HEAD
        && let Some(next) = later.next_if(|next| next.object.is_of_family(&last.object))
    {
        last = next;
    }
    later.next().filter(|entry| entry.version <= through).map(|_| last.version)
}

/// Adds a step to a transaction, which is submitted with the mark; `None` if there is nothing to settle.
fn settle_step(core: &mut Core, transaction: &mut Transaction, through: EVersion) -> Option<Mark> {
    let through = through.min(core.copy.info.last_update);
    let shard = core.copy.info.shard.as_mut().filter(|shard| shard.settled < through)?;
    let before = std::mem::replace(&mut shard.settled, through);
    core.copy.committed = core.copy.committed.max(through);
    let mark = core.settling.mark(before);
    transaction.push(core.own.collection, Change::Settle { through });
    remove_index_keys(core, transaction, through);
    remove_items(core, transaction, through);
    Some(mark)
}

fn remove_index_keys(core: &mut Core, transaction: &mut Transaction, through: EVersion) {
    let mut gone = Vec::new();
    let keys = &mut core.settling.unindexed;
    while keys.front().is_some_and(|(version, _)| *version <= through) {
        gone.extend(keys.pop_front().expect("there is a front").1);
    }
    if !gone.is_empty() {
        let (object, keys) = (core.own.meta.clone(), gone);
        transaction.push(core.own.collection, Change::OmapRemove { object, keys });
    }
}

/// Removes the stored items of objects that the settled changes replace or remove.
fn remove_items(core: &mut Core, transaction: &mut Transaction, through: EVersion) {
    let gone = core.copy.missing.settle(through);
    for object in gone {
        core.unset_missing(transaction, info::missing_key(&object));
        core.outputs.push_back(Output::Recovered { object });
    }
}
