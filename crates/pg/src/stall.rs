//! When a store has no room.
//!
//! Before: members tell the primary when their disks are nearly full, and the OSD takes no more
//! writes that add to the group ([`Pg::has_room`]). After, if a store refuses a transaction
//! nevertheless: the log in memory says more than the disk has, and transactions behind the refused
//! one may have been applied. So the copy serves nothing, waits until its store has answered
//! everything, and reads itself from the disk as after a restart: its log ends before the refused
//! write, and what later writes changed is missing. It takes part again in the next interval, which the
//! primary asks for, and is then behind the others, as if it had been away.

use crate::message::{Body, Header};
use crate::{Output, Pg, PgInfo, PgLog, State, Tag};
use store::StoreError;
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
    /// Whether the store refused even what was to make up for that: it is tried again later.
    is_waiting: bool,
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

    /// The store has no room for something that was submitted.
    pub(crate) fn refused(&mut self, tag: Tag, error: &StoreError) {
        if self.state == State::Failed {
            return;
        }
        self.room.is_waiting |= tag == Tag::Corrected;
        if self.state == State::Refused {
            return;
        }
        tracing::error!(pg = %self.id, osd = %self.whoami, %error, "the store refuses a write");
        self.state = State::Refused;
        self.cease();
        if let Some(primary) = self.members.primary
            && primary != self.whoami
        {
            self.send(primary, &Body::Stalled);
        }
    }

    pub(crate) fn told_stalled(&mut self, from: OsdId) {
        let member = self.members.acting.contains(&from) && self.is_primary();
        if member && !matches!(self.state, State::Refused | State::Failed) {
            self.state = State::Stalled;
            self.cease();
        }
    }

    fn cease(&mut self) {
        self.room.stalled_in = Some(self.interval);
        self.forget_peers();
        self.interrupt_writes();
        self.outputs.push_back(Output::WantsInterval);
    }

    /// The store has answered everything that it was given.
    pub(crate) fn make_up(&mut self) {
        if !self.room.is_waiting {
            self.read_again();
        }
    }

    /// There may be room now.
    pub fn retry_refused(&mut self) {
        if self.state == State::Refused && self.commits_pending == 0 {
            self.read_again();
        }
    }

    /// Forgets what the memory says about the copy, and asks the disk.
    pub(crate) fn read_again(&mut self) {
        self.room.is_waiting = false;
        self.state = State::Loading;
        self.info = PgInfo::default();
        self.log = PgLog::default();
        self.missing.clear();
        self.load_page(None);
    }

    /// What the store has is known (again).
    pub(crate) fn join_interval(&mut self) {
        let is_member = self.members.acting.contains(&self.whoami);
        match self.room.stalled_in == Some(self.interval) && is_member {
            true => self.state = State::Stalled,
            false => self.start_interval(),
        }
        if let Some((from, header)) = self.room.asked_meanwhile.take() {
            self.queried(from, &header);
        }
    }
}
