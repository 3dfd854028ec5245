//! Read-only view of a copy, for the OSD and for reports.

use crate::members::MemberSet;
use crate::{Members, Missing, Pg, PgInfo, PgLog, State};
use types::{EVersion, Epoch, HObject, OsdId, PgId};

impl Pg {
    pub fn id(&self) -> PgId {
        self.core.own.id
    }

    pub fn state(&self) -> State {
        self.role.state()
    }

    pub fn info(&self) -> &PgInfo {
        &self.core.copy.info
    }

    pub fn log(&self) -> &PgLog {
        &self.core.copy.log
    }

    pub fn missing(&self) -> &Missing {
        &self.core.copy.missing
    }

    pub fn members(&self) -> &Members {
        &self.core.placement.members
    }

    pub fn interval(&self) -> Epoch {
        self.core.placement.interval
    }

    /// The newest version that is known here to be durable on all members.
    pub fn committed(&self) -> EVersion {
        self.core.copy.committed
    }

    /// Whether this OSD is the group's primary, and up.
    pub fn is_primary(&self) -> bool {
        self.core.placement.members.primary == Some(self.core.own.whoami)
            && self.core.placement.is_up
    }

    /// Whether this OSD is the group's primary, and serves requests.
    pub fn is_active(&self) -> bool {
        self.state() == State::Active
    }

    /// Whether no write is in flight.
    pub fn is_settled(&self) -> bool {
        self.serving.in_flight.is_empty()
    }

    /// Whether this copy takes part in writes now.
    pub fn is_serving(&self) -> bool {
        matches!(self.state(), State::Active | State::ReplicaActive)
    }

    /// Whether this OSD stores nothing of the group.
    pub fn is_absent(&self) -> bool {
        !self.core.copy.created
    }

    /// The OSDs that answered in this interval, with their infos; `None` if they have no copy.
    pub fn peers(&self) -> impl Iterator<Item = (OsdId, Option<&PgInfo>)> {
        self.primary.peers.iter().map(|(osd, peer)| (*osd, peer.info.as_ref()))
    }

    /// The participants that have not stored this in-flight write; none if it is not in flight.
    pub fn not_stored_by(&self, version: EVersion) -> impl Iterator<Item = OsdId> + '_ {
        let write = self.serving.in_flight.iter().find(|write| write.version == version);
        let waiting = write.map_or(MemberSet::default(), |write| write.waiting);
        self.agreed.participants.select(waiting)
    }

    /// The OSDs whose answers the present state waits for.
    pub fn waiting_for(&self) -> impl Iterator<Item = OsdId> + '_ {
        self.primary.waiting.iter().copied()
    }

    /// The down OSDs that must come back or be marked lost.
    pub fn blocked_by(&self) -> impl Iterator<Item = OsdId> + '_ {
        self.primary.blocked_by.iter().copied()
    }

    /// Whether this OSD is not a member of the group.
    pub fn is_stray(&self) -> bool {
        self.state() == State::Stray
    }

    /// Whether all copies that the pool wants are on the up set, and equal.
    pub fn is_clean(&self) -> bool {
        self.is_active() && self.serving.is_clean
    }

    /// The acting set to ask the monitor for; empty means the up set.
    pub fn wanted_acting(&self) -> Option<&[OsdId]> {
        self.primary.wanted.as_deref()
    }

    /// The `up_thru` to ask the monitor for.
    pub fn wanted_up_thru(&self) -> Option<Epoch> {
        (self.state() == State::WaitUpThru).then_some(self.core.placement.interval)
    }

    /// Whether this copy may answer a read of the object: its version is durable on all members.
    pub fn can_serve_read(&self, object: &HObject) -> bool {
        match self.state() {
            State::Active => true,
            State::ReplicaActive => {
                self.core.copy.info.history.last_epoch_started >= self.core.placement.interval
                    && self.core.placement.members.acting.contains(&self.core.own.whoami)
                    && !self.core.copy.missing.contains(object)
                    && !self.is_written_above(object, self.core.copy.committed)
            }
            _ => false,
        }
    }

    /// The version of an object according to the log; zero if the log does not have it.
    pub fn logged_version(&self, object: &HObject) -> EVersion {
        let mut entries = self.core.copy.log.entries().rev();
        let last = entries.find(|entry| entry.changes_object() && entry.object == *object);
        last.map_or(EVersion::ZERO, |entry| entry.version)
    }

    /// Whether the log proves that no write of the object came after this version.
    pub fn is_unchanged_since(&self, object: &HObject, version: EVersion) -> bool {
        version >= self.core.copy.log.tail() && !self.is_written_above(object, version)
    }

    fn is_written_above(&self, object: &HObject, version: EVersion) -> bool {
        let mut entries = self.core.copy.log.above(version);
        entries.any(|entry| entry.changes_object() && entry.object == *object)
    }
}
