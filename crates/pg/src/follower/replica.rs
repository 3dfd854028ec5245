//! ReplicaActive: writes, repair and backfill of a replica, as its primary orders them.

use super::stage::{Follower, FollowerStage};
use crate::Member;
use crate::core::{Core, Output, Tag, settling};
use crate::holding::{self, ShardWrite};
use crate::message::{Body, Replicate};
use crate::transfers;
use crate::{LogEntry, PgInfo};
use bytes::Bytes;
use store::Change;
use types::{EVersion, HObject, OsdId};

impl Follower {
    /// Appends a write to the log, and stores it. Refuses one that does not continue the log, and says why.
    pub fn handle_replicate(
        &self,
        core: &mut Core,
        mut write: Replicate,
    ) -> Result<(), &'static str> {
        if !self.is_active() {
            return Ok(());
        }
        let decoded = |encoded: &Bytes| codec::decode_all::<LogEntry>("log entry", encoded);
        let (Ok(entry), Ok(also), Ok(mut info)) = (
            decoded(&write.entry),
            write.also.iter().map(decoded).collect::<codec::Result<Vec<LogEntry>>>(),
            codec::decode_all::<PgInfo>("group info", &write.info),
        ) else {
            return Err("a write of the primary does not decode");
        };
        let head = core.holding.newest().unwrap_or(core.copy.log.head());
        if entry.version <= head {
            return Ok(());
        }
        let versions = [head].into_iter().chain(also.iter().map(|also| also.version));
        if !versions.chain([entry.version]).is_sorted_by(|before, after| after.follows(*before)) {
            return Err("a write of the primary does not follow the one before it");
        }
        let version = entry.version;
        let changed = also.iter().chain([&entry]).filter(|entry| entry.changes_object());
        changed.for_each(|entry| core.transfers.stop_receiving(&entry.object));
        core.copy.committed = core.copy.committed.max(write.committed);
        if core.placement.geometry().is_some() {
            return hold(core, write, entry, also, info);
        }
        // This copy's tail may be above the primary's, or below it.
        let tail = core.copy.log.tail().max(write.trim);
        let is_own = core.copy.missing.is_empty() && core.copy.info.is_complete();
        if is_own && info.log_tail == tail && info.last_complete == version {
            core.copy.info = info;
        } else {
            info.log_tail = tail;
            adopt_info(core, &mut write, info, &entry, &also);
        }
        core.append_entries(&mut write, entry, also);
        core.commit(Tag::Write(version, core.placement.interval), write.transaction);
        Ok(())
    }

    /// Writes up to this version are committed.
    pub fn handle_settle(&self, core: &mut Core, committed: EVersion) {
        if self.is_active() {
            core.copy.committed = core.copy.committed.max(committed);
            settling::settle(core, committed);
        } else if let FollowerStage::Stray = self.stage {
            // The primary has compared our log with its own, which has our entries up to this version.
            settling::settle(core, committed);
        }
    }

    /// A write of the present interval is durable here.
    pub fn stored_write(&self, core: &mut Core, version: EVersion) {
        if self.is_active() {
            core.send(self.primary(core), &Body::Replicated(version));
        }
    }

    /// The primary says that this copy of the object is bad.
    pub fn handle_damaged(&self, core: &mut Core, object: &HObject, version: EVersion) {
        if self.is_active() {
            core.miss(object, version);
        }
    }

    /// The primary asks for a reservation.
    pub fn handle_reserve(&mut self, core: &mut Core, from: Member) {
        if let FollowerStage::Active { backfilled_by } = &mut self.stage {
            *backfilled_by = Some(from);
            core.outputs.push_back(Output::Reserve(Some(from.osd)));
        }
    }

    /// The OSD's decision on the reservation for this primary; false if it is not needed any more.
    pub fn reserved(&mut self, core: &mut Core, primary: OsdId, granted: bool) -> bool {
        let wanted = self.backfilled_by().filter(|member| member.osd == primary);
        let Some(primary) = wanted else { return false };
        if !granted {
            self.drop_reservation();
        }
        core.send(primary, &Body::Reserved(granted));
        true
    }

    /// The primary gives the reservation back.
    pub fn handle_release(&mut self, core: &mut Core) {
        self.drop_reservation();
        core.outputs.push_back(Output::Release);
    }

    /// Our store cannot list its objects: the primary retries the backfill later.
    pub fn cannot_list(&mut self, core: &mut Core, primary: Member) {
        if self.backfilled_by() == Some(primary) {
            self.handle_release(core);
            core.send(primary, &Body::Reserved(false));
        }
    }

    /// As backfill target: everything before `through` is stored here, but for `missed` objects, and some are
    /// surplus.
    pub fn handle_backfill(
        &self,
        core: &mut Core,
        through: HObject,
        removed: Vec<HObject>,
        missed: Vec<(HObject, EVersion)>,
    ) {
        if !self.is_active() || core.copy.info.is_complete() {
            return;
        }
        let mut transaction = core.transaction(removed.len() + 2);
        for object in removed {
            transaction.push(core.own.collection, Change::Remove { object });
        }
        core.add_missing(&mut transaction, missed);
        core.copy.info.last_backfill = through;
        core.update_last_complete();
        core.set_info(&mut transaction);
        core.commit(Tag::Backfilled(core.placement.interval), transaction);
    }

    /// The progress of backfill is durable.
    pub fn stored_backfill(&self, core: &mut Core) {
        if self.is_active() {
            let through = core.copy.info.last_backfill.clone();
            core.send(self.primary(core), &Body::Backfilled(through));
        }
    }
}

/// Takes a write of our shard.
fn hold(
    core: &mut Core,
    write: Replicate,
    entry: LogEntry,
    also: Vec<LogEntry>,
    info: PgInfo,
) -> Result<(), &'static str> {
    let (collection, meta) = (core.own.collection, core.own.meta.clone());
    let mut changes: Vec<Change> = Vec::with_capacity(write.transaction.changes.len());
    for (at, change) in write.transaction.changes {
        if at != collection {
            return Err("a write of the primary is for another shard");
        }
        changes.push(change);
    }
    let is_index = |change: &Change| match change {
        Change::OmapSet { object, .. } | Change::OmapRemove { object, .. } => *object == meta,
        _ => false,
    };
    let can_hold = match changes.iter().any(is_index) {
        false => can_hold(&changes),
        true => {
            let held = changes.iter().filter(|change| !is_index(change)).cloned();
            can_hold(&held.collect::<Vec<_>>())
        }
    };
    if !can_hold || write.trim > write.committed {
        return Err("a write of the primary cannot be held");
    }
    let deltas: Vec<usize> = write.deltas.iter().map(|index| *index as usize).collect();
    let is_delta = |index: &usize| match changes.get(*index) {
        Some(Change::Write { data, .. }) => !data.is_empty(),
        _ => false,
    };
    if !deltas.is_sorted_by(|one, next| one < next) || !deltas.iter().all(is_delta) {
        return Err("a write of the primary has deltas that are no writes");
    }
    let mut encoded = write.also;
    encoded.push(write.entry);
    let entries = also.into_iter().chain([entry]).collect();
    let (committed, trim) = (write.committed, write.trim);
    let write = ShardWrite { entries, encoded, info, committed, trim, changes, deltas };
    holding::hold(core, write);
    Ok(())
}

fn can_hold(changes: &[Change]) -> bool {
    changes.is_empty() || store::check_held(changes).is_ok()
}

/// Takes over the primary's info, except for the fields that are this copy's own.
fn adopt_info(
    core: &mut Core,
    write: &mut Replicate,
    info: PgInfo,
    entry: &LogEntry,
    also: &[LogEntry],
) {
    let last_backfill = std::mem::take(&mut core.copy.info.last_backfill);
    let last_complete = core.copy.info.last_complete;
    core.copy.info = PgInfo { last_backfill, last_complete, ..info };
    for changed in also.iter().chain([entry]).filter(|entry| entry.changes_object()) {
        transfers::overwrite_missing(core, &mut write.transaction, &changed.object);
    }
    if core.copy.missing.is_empty() {
        core.copy.info.last_complete = entry.version;
    }
    write.info = codec::encode_to_bytes(&core.copy.info);
}
