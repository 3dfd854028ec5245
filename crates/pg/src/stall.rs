//! When a store refuses what it is given: it has no room, the transaction is too large, or what it changes
//! in part was lost; and when a write does not reach a replica.
//!
//! Before: members tell the primary when their disks are nearly full, and the OSD takes no more
//! writes that add to the group ([`Pg::has_room`]). After, if a store refuses a transaction
//! nevertheless: the log in memory says more than the disk has. The disk has a beginning of it, for
//! a store applies nothing behind a refused transaction before it is told to go on
//! ([`RequestKind::Append`]). So the copy serves nothing, waits until its store has answered
//! everything, and reads itself from the disk as after a restart. It takes part again in the next
//! interval, which the primary asks for, and is then behind the others, as if it had been away. If
//! nobody stored a write, it never happened, and objects are as they were before; its client is told why.

use crate::message::{Body, Header};
use crate::{Output, Pg, PgInfo, PgLog, State, Tag};
use store::{RequestKind, StoreError};
use types::{Epoch, OsdId};

/// Room and the want of it, in the present interval.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Our own disk is nearly full.
    is_short: bool,
    /// Bits of the acting members whose disks are.
    short_members: u32,
    /// In which interval a member's store refused something: none comes of that interval any more.
    pub stalled_in: Option<Epoch>,
    /// A primary that asked while we could not answer.
    pub asked_meanwhile: Option<(OsdId, Header)>,
}

impl Room {
    pub fn begin_interval(&mut self) {
        self.short_members = 0;
        self.stalled_in = None;
    }
}

impl Pg {
    /// Whether a write may add to the group: no member's disk is nearly full.
    pub fn has_room(&self) -> bool {
        !self.room.is_short && self.room.short_members == 0
    }

    /// How it is with the disk of this copy.
    pub fn set_room(&mut self, has_room: bool) {
        if self.room.is_short == has_room {
            self.room.is_short = !has_room;
            self.announce_room();
        }
    }

    pub(crate) fn announce_room(&mut self) {
        if self.state == State::ReplicaActive {
            let primary = self.members.primary.expect("an active group has a primary");
            self.send(primary, &Body::Room(!self.room.is_short));
        }
    }

    pub(crate) fn told_room(&mut self, from: OsdId, has_room: bool) {
        let Some(member) = self.members.acting.iter().position(|osd| *osd == from) else { return };
        match has_room {
            true => self.room.short_members &= !(1 << member),
            false => self.room.short_members |= 1 << member,
        }
    }

    /// Whether this primary can go on only in another interval, for which it takes a new map.
    pub fn wants_interval(&self) -> bool {
        self.members.primary == Some(self.whoami) && self.room.stalled_in == Some(self.interval)
    }

    /// The store refuses something that was submitted.
    pub(crate) fn refused(&mut self, tag: Tag, error: StoreError) {
        if matches!(self.state, State::Failed | State::Refused) {
            return;
        }
        tracing::error!(pg = %self.id, osd = %self.whoami, %error, "the store refuses a write");
        if let Some(ticket) = self.ticket_of(tag) {
            self.outputs.push_back(Output::Refused { ticket, error });
        }
        self.state = State::Refused;
        self.cease();
        if let Some(primary) = self.members.primary
            && primary != self.whoami
        {
            self.send(primary, &Body::Stalled);
        }
    }

    fn ticket_of(&self, tag: Tag) -> Option<u64> {
        let Tag::Write(version, interval) = tag else { return None };
        let writes = self.in_flight.iter().filter(|_| interval == self.interval);
        writes.filter(|write| write.version == version).map(|write| write.ticket).next()
    }

    /// Something that the primary sent before is lost. What this copy says is durable counts for all that
    /// came before, so it takes nothing more: the members meet again, and it gets what it lacks.
    pub(crate) fn refuse_gap(&mut self, what: &str) {
        tracing::error!(pg = %self.id, osd = %self.whoami, head = ?self.log.head(), "{what}: the members will meet again");
        self.state = State::Stalled;
        self.cease();
        if let Some(primary) = self.members.primary {
            self.send(primary, &Body::Stalled);
        }
    }

    pub(crate) fn told_stalled(&mut self, from: OsdId) {
        if !self.is_primary() || matches!(self.state, State::Refused | State::Failed) {
            return;
        }
        if self.members.is_member(from) {
            self.state = State::Stalled;
            self.cease();
        } else {
            self.forget_helper(from);
        }
    }

    fn cease(&mut self) {
        self.room.stalled_in = Some(self.interval);
        self.forget_peers();
        self.interrupt_writes(true);
        self.outputs.push_back(Output::WantsInterval);
    }

    /// Forgets what the memory says about the copy, and asks the disk.
    pub(crate) fn read_again(&mut self) {
        self.ask_store(Tag::Resumed, RequestKind::Resume(self.collection));
        self.state = State::Loading;
        self.info = PgInfo::default();
        self.log = PgLog::default();
        self.missing.clear();
        self.load_page(None);
    }

    /// What the store has is known (again).
    pub(crate) fn join_interval(&mut self) {
        if self.reshaping.is_some() {
            return self.stand_still();
        }
        let is_member = self.members.is_member(self.whoami);
        match self.room.stalled_in == Some(self.interval) && is_member {
            true => self.state = State::Stalled,
            false => self.start_interval(false),
        }
        if let Some((from, header)) = self.room.asked_meanwhile.take() {
            self.queried(from, &header);
        }
    }
}
