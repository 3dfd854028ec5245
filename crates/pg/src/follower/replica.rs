//! ReplicaActive: writes, repair and backfill of a replica, as its primary orders them.

use super::stage::{Follower, FollowerStage};
use crate::Member;
use crate::core::{Core, Output, Tag};
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
        if entry.version <= core.copy.log.head() {
            return Ok(());
        }
        let versions =
            [core.copy.log.head()].into_iter().chain(also.iter().map(|also| also.version));
        if !versions.chain([entry.version]).is_sorted_by(|before, after| after.follows(*before)) {
            return Err("a write of the primary does not follow the one before it");
        }
        let version = entry.version;
        let changed = also.iter().chain([&entry]).filter(|entry| entry.changes_object());
        changed.for_each(|entry| core.transfers.stop_receiving(&entry.object));
        core.copy.committed = core.copy.committed.max(write.committed);
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

    /// As backfill target: everything before `through` is stored here, and these objects are surplus.
    pub fn handle_backfill(&self, core: &mut Core, through: HObject, removed: Vec<HObject>) {
        if !self.is_active() || core.copy.info.is_complete() {
            return;
        }
        let mut transaction = core.transaction(removed.len() + 1);
        for object in removed {
            transaction.push(core.own.collection, Change::Remove { object });
        }
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
