//! ReplicaActive: writes, repair and backfill of a replica, as its primary orders them.

use crate::message::{Body, Replicate};
use crate::serving::handle_replicated;
use crate::{LogEntry, Output, Pg, PgInfo, State, Tag};
use bytes::Bytes;
use store::Change;
use types::{EVersion, Epoch, HObject, OsdId};

impl Pg {
    /// As replica: appends a write to the log, and stores it.
    pub(crate) fn told_to_replicate(&mut self, mut write: Replicate) {
        if self.state() != State::ReplicaActive {
            return;
        }
        let decoded = |encoded: &Bytes| codec::decode_all::<LogEntry>("log entry", encoded);
        let (Ok(entry), Ok(also), Ok(mut info)) = (
            decoded(&write.entry),
            write.also.iter().map(decoded).collect::<codec::Result<Vec<LogEntry>>>(),
            codec::decode_all::<PgInfo>("group info", &write.info),
        ) else {
            return self.refuse_gap("a write of the primary does not decode");
        };
        if entry.version <= self.core.copy.log.head() {
            return;
        }
        let versions =
            [self.core.copy.log.head()].into_iter().chain(also.iter().map(|also| also.version));
        if !versions.chain([entry.version]).is_sorted_by(|before, after| after.follows(*before)) {
            return self.refuse_gap("a write of the primary does not follow the one before it");
        }
        let version = entry.version;
        let changed = also.iter().chain([&entry]).filter(|entry| entry.changes_object());
        changed.for_each(|entry| self.core.transfers.stop_receiving(&entry.object));
        self.core.copy.committed = self.core.copy.committed.max(write.committed);
        // This copy's tail may be above the primary's, or below it.
        let tail = self.core.copy.log.tail().max(write.trim);
        let is_own = self.core.copy.missing.is_empty() && self.core.copy.info.is_complete();
        if is_own && info.log_tail == tail && info.last_complete == version {
            self.core.copy.info = info;
        } else {
            info.log_tail = tail;
            self.adopt_info(&mut write, info, &entry, &also);
        }
        self.core.append_entries(&mut write, entry, also);
        self.core.commit(Tag::Write(version, self.core.placement.interval), write.transaction);
    }

    /// Takes over the primary's info, except for the fields that are this copy's own.
    fn adopt_info(
        &mut self,
        write: &mut Replicate,
        info: PgInfo,
        entry: &LogEntry,
        also: &[LogEntry],
    ) {
        let last_backfill = std::mem::take(&mut self.core.copy.info.last_backfill);
        let last_complete = self.core.copy.info.last_complete;
        self.core.copy.info = PgInfo { last_backfill, last_complete, ..info };
        for changed in also.iter().chain([entry]).filter(|entry| entry.changes_object()) {
            self.core.overwrite_missing(&mut write.transaction, &changed.object);
        }
        if self.core.copy.missing.is_empty() {
            self.core.copy.info.last_complete = entry.version;
        }
        write.info = codec::encode_to_bytes(&self.core.copy.info);
    }

    /// A write is durable here: counts it, or tells the primary.
    pub(crate) fn stored_write(&mut self, version: EVersion, interval: Epoch) {
        if interval != self.core.placement.interval {
            return;
        }
        match self.state() {
            State::Active => {
                let whoami = self.core.own.whoami;
                self.with(|service| handle_replicated(service, whoami, version));
            }
            State::ReplicaActive => {
                let primary =
                    self.core.placement.members.primary.expect("an active group has a primary");
                self.core.send(primary, &Body::Replicated(version));
            }
            _ => {}
        }
    }

    /// The primary says that this copy of the object is bad.
    pub(crate) fn told_damaged(&mut self, object: &HObject, version: EVersion) {
        if self.state() == State::ReplicaActive {
            self.core.miss(object, version);
        }
    }

    /// As target: the primary asks for a reservation.
    pub(crate) fn asked_to_reserve(&mut self, from: OsdId) {
        if let Some(backfilled_by) = self.role.reservation() {
            *backfilled_by = Some(from);
            self.core.outputs.push_back(Output::Reserve(Some(from)));
        }
    }

    /// As target: the primary gives the reservation back.
    pub(crate) fn told_to_release(&mut self) {
        self.role.drop_reservation();
        self.core.outputs.push_back(Output::Release);
    }

    /// The target's store cannot list its objects: the primary retries the backfill later.
    pub(crate) fn cannot_list(&mut self, primary: OsdId) {
        if self.role.is_backfilled_by(primary) {
            self.told_to_release();
            self.core.send(primary, &Body::Reserved(false));
        }
    }

    /// As the target: everything before `through` is stored here, and these objects are surplus.
    pub(crate) fn told_to_backfill(&mut self, through: HObject, removed: Vec<HObject>) {
        if self.state() != State::ReplicaActive || self.core.copy.info.is_complete() {
            return;
        }
        let mut transaction = self.core.transaction(removed.len() + 1);
        for object in removed {
            transaction.push(self.core.own.collection, Change::Remove { object });
        }
        self.core.copy.info.last_backfill = through;
        self.core.update_last_complete();
        self.core.set_info(&mut transaction);
        self.core.commit(Tag::Backfilled(self.core.placement.interval), transaction);
    }

    /// As target: the progress is durable.
    pub(crate) fn stored_backfill(&mut self, interval: Epoch) {
        if interval == self.core.placement.interval && self.state() == State::ReplicaActive {
            let primary = self.core.placement.members.primary.expect("it told us how far we are");
            self.core.send(primary, &Body::Backfilled(self.core.copy.info.last_backfill.clone()));
        }
    }
}
