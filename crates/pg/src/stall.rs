//! Refused transactions (no space, too large, or a partial change of lost content), and writes that are lost
//! on the way to a replica.
//!
//! To avoid refusals, members tell the primary when their disks are nearly full, and the OSD takes no more
//! writes that add to the group ([`Pg::has_room`]). If a store refuses a transaction nevertheless, the log in
//! memory is ahead of the disk. The disk has a prefix of the history, because a store applies no transaction
//! after a refused one before it is told to resume ([`RequestKind::Append`]). So the copy serves nothing,
//! waits until its store has completed everything, and reloads itself from disk as after a restart. It
//! takes part again in the next interval, which the primary asks for, and is then behind the others, as
//! if it had been away. If no member stored a write, it never happened, and objects are as they were before;
//! its client is told why.

use crate::message::{Body, Header};
use crate::primary::Primary;
use crate::role::{FollowerStage, Loading, Role};
use crate::{Output, Pg, PgInfo, PgLog, State, Tag};
use store::{RequestKind, StoreError};
use types::OsdId;

impl Pg {
    /// Whether a write may add to the group: no acting member's disk is nearly full.
    pub fn has_room(&self) -> bool {
        !self.core.room.is_short && self.view().agreed.short.is_empty()
    }

    /// Sets whether this OSD's disk has room, as opposed to being nearly full.
    pub fn set_room(&mut self, has_room: bool) {
        if self.core.room.is_short == has_room {
            self.core.room.is_short = !has_room;
            self.announce_room();
        }
    }

    /// As replica: tells the primary whether our disk has room.
    pub(crate) fn announce_room(&mut self) {
        if self.state() == State::ReplicaActive {
            let primary =
                self.core.placement.members.primary.expect("an active group has a primary");
            self.core.send(primary, &Body::Room(!self.core.room.is_short));
        }
    }

    /// Whether this primary needs another interval, and so a new map, to proceed.
    pub fn wants_interval(&self) -> bool {
        self.core.placement.members.primary == Some(self.core.own.whoami)
            && self.core.room.stalled_in == Some(self.core.placement.interval)
    }

    /// The store refused a transaction.
    pub(crate) fn refused(&mut self, tag: Tag, error: StoreError) {
        if matches!(self.state(), State::Failed | State::Refused) {
            return;
        }
        tracing::error!(pg = %self.core.own.id, osd = %self.core.own.whoami, %error, "the store refuses a write");
        if let Some(ticket) = self.ticket_of(tag) {
            self.core.outputs.push_back(Output::Refused { ticket, error });
        }
        self.cease();
        let loading = match std::mem::take(&mut self.role) {
            Role::SplitMerge(stopped) => Loading { asked_by: None, split_merge: Some(stopped) },
            Role::Loading(loading) => loading,
            _ => Loading::default(),
        };
        self.role = Role::Refused(loading);
        if let Some(primary) = self.core.placement.members.primary
            && primary != self.core.own.whoami
        {
            self.core.send(primary, &Body::Stalled);
        }
    }

    fn ticket_of(&self, tag: Tag) -> Option<u64> {
        let Tag::Write(version, interval) = tag else { return None };
        let serving = self.serving().filter(|_| interval == self.core.placement.interval)?;
        let write = serving.in_flight.iter().find(|write| write.version == version);
        write.map(|write| write.ticket)
    }

    /// A write of the primary was lost or is malformed. A replica's confirmation covers all earlier writes,
    /// so this copy takes no further ones: peering in the next interval lets it recover them.
    pub(crate) fn refuse_gap(&mut self, what: &str) {
        tracing::error!(pg = %self.core.own.id, osd = %self.core.own.whoami, head = ?self.core.copy.log.head(), "{what}: the members will meet again");
        self.cease();
        self.role = Role::follower(FollowerStage::Stalled);
        if let Some(primary) = self.core.placement.members.primary {
            self.core.send(primary, &Body::Stalled);
        }
    }

    /// An OSD's store refused a transaction: aborts the interval if the OSD is a member.
    pub(crate) fn told_stalled(&mut self, from: OsdId) {
        if !self.is_primary() || matches!(self.state(), State::Refused | State::Failed) {
            return;
        }
        if self.core.placement.members.is_member(from) {
            self.cease();
            self.role = Role::Primary(Box::new(Primary::stalled()));
        } else {
            self.with_primary(|primary, _| primary.forget_helper(from));
        }
    }

    fn cease(&mut self) {
        self.core.room.stalled_in = Some(self.core.placement.interval);
        let tickets = self.take_writes();
        self.forget_peers();
        self.core.outputs.push_back(Output::Interrupted { tickets, members_stay: true });
        self.core.outputs.push_back(Output::WantsInterval);
    }

    /// Drops the state in memory, and loads the copy from disk.
    pub(crate) fn read_again(&mut self) {
        self.core.ask_store(Tag::Resumed, RequestKind::Resume(self.core.own.collection));
        if let Role::Refused(loading) = std::mem::take(&mut self.role) {
            self.role = Role::Loading(loading);
        }
        self.core.copy.info = PgInfo::default();
        self.core.copy.log = PgLog::default();
        self.core.copy.missing.clear();
        self.load_page(None);
    }

    /// The stored state is known (again): takes part in the present interval. `asked_by` is a query that
    /// came before.
    pub(crate) fn join_interval(&mut self, asked_by: Option<(OsdId, Header)>) {
        let is_member = self.core.placement.members.is_member(self.core.own.whoami);
        match self.core.room.stalled_in == Some(self.core.placement.interval) && is_member {
            true if self.is_primary() => self.role = Role::Primary(Box::new(Primary::stalled())),
            true => self.role = Role::follower(FollowerStage::Stalled),
            false => self.start_interval(false),
        }
        if let Some((from, header)) = asked_by {
            self.queried(from, &header);
        }
    }
}
