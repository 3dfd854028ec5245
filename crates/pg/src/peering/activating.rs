//! WaitUpThru, Activating, Active, Inactive: the primary's way from agreement to service.

use crate::message::{Activation, Body};
use crate::{Dups, Output, Pg, State, Tag};
use types::{Epoch, HObject, OsdId};

impl Pg {
    /// Nothing may be written before the map says that this primary lived in this interval: else
    /// nobody would look for what was.
    pub(crate) fn wait_up_thru(&mut self) {
        let up_thru = self.osds.as_ref().map_or(Epoch(0), |osds| osds.status(self.whoami).up_thru);
        if !self.members.is_enough() || up_thru >= self.interval {
            return self.activate();
        }
        if self.state != State::WaitUpThru {
            self.state = State::WaitUpThru;
            self.outputs.push_back(Output::WantsMap);
        }
    }

    fn activate(&mut self) {
        self.state = State::Activating;
        let history = &mut self.info.history;
        history.same_interval_since = self.interval;
        if history.epoch_created == Epoch(0) {
            history.epoch_created = self.interval;
        }
        if self.members.is_enough() {
            self.info.last_epoch_started = self.interval;
        }
        self.knows_past = true;
        self.waiting = self.participants.iter().copied().collect();
        for member in self.participants.clone() {
            if member != self.whoami {
                self.activate_member(member);
            }
        }
        self.spare_filling_in();
        self.update_last_complete();
        self.store_info_and_intervals(Tag::Activated(self.interval));
    }

    /// Our own log may reach further back than the best one did: whoever can follow it need not be filled in.
    fn spare_filling_in(&mut self) {
        let targets = self.backfill_targets().filter(|(_, through)| !through.max);
        let targets: Vec<OsdId> = targets.map(|(osd, _)| osd).collect();
        self.backfill.set_targets(&targets);
    }

    /// Tells a member to follow our log: from where it stands, from as far back as we can if it has
    /// parted from us, or from nothing if the log does not reach it.
    fn activate_member(&mut self, member: OsdId) {
        let info = self.peers[&member].info.clone().unwrap_or_default();
        let overlaps = self.peers[&member].is_missing_known;
        let is_reset = !overlaps || !info.is_complete() && info.last_backfill == HObject::default();
        let follows = !is_reset && self.log.contains(info.last_update);
        let tail = if follows { info.last_update } else { self.log.tail() };
        let entries = self.log.above(tail).cloned().collect();
        let dups = if is_reset { self.log.dups().clone() } else { Dups::default() };
        let activation = Activation {
            is_reset,
            info: self.info.clone(),
            intervals: self.past.clone(),
            tail,
            entries,
            dups,
        };
        self.send(member, &Body::Activate(Box::new(activation)));
        let last_backfill = if is_reset { HObject::default() } else { info.last_backfill };
        let own = self.info.clone();
        let peer = self.peer_mut(member);
        peer.info = Some(crate::PgInfo { last_backfill, ..own });
        (peer.is_missing_known, peer.is_incomparable) = (true, false);
        if is_reset {
            peer.missing.clear();
        }
    }

    pub(crate) fn stored_activated(&mut self, interval: Epoch) {
        if interval != self.interval {
            return;
        }
        match self.state {
            State::Activating => self.told_activated(self.whoami),
            State::ReplicaActive => {
                let primary = self.members.primary.expect("it told us to activate");
                self.send(primary, &Body::Activated);
                if !self.has_room() {
                    self.announce_room();
                }
            }
            _ => {}
        }
    }

    pub(crate) fn told_activated(&mut self, from: OsdId) {
        if self.state != State::Activating || !self.waiting.remove(&from) {
            return;
        }
        if !self.waiting.is_empty() {
            return;
        }
        match self.members.is_enough() && self.must_wait_for_readers() {
            true => self.state = State::WaitReadable,
            false => self.become_active(),
        }
    }

    pub(crate) fn become_active(&mut self) {
        self.committed = self.info.last_update;
        self.recovery.begin(self.members_missing());
        self.ask_helpers();
        if !self.members.is_enough() {
            self.state = State::Inactive;
            return self.go_on_recovering();
        }
        self.state = State::Active;
        // None of them answers any more; of a group that waits for members that is not known yet.
        self.readers.clear();
        self.info.history.last_epoch_started = self.info.last_epoch_started;
        self.outputs.push_back(Output::Activated);
        self.go_on_recovering();
        // One that is clean at once has told that with it.
        if !self.is_clean {
            self.share_history();
        }
    }

    /// Tells the members how things are, and stores it.
    pub(crate) fn share_history(&mut self) {
        let history = self.info.history;
        for member in self.participants.clone() {
            if member != self.whoami {
                self.send(member, &Body::History(history));
            }
        }
        self.store_info_and_intervals(Tag::Progress);
    }

    /// When nothing is missing anywhere: either other members should take over, or the group is clean.
    pub(crate) fn check_clean(&mut self) {
        let is_settled = matches!(self.state, State::Active | State::Inactive);
        if !is_settled || !self.is_whole() || self.backfill.is_needed() || self.is_clean {
            return;
        }
        self.refresh_participants();
        let Some((_, choice)) = self.choose() else { return };
        if self.wants_other_members(&choice) || self.state != State::Active {
            return;
        }
        let is_full = self.members.acting.len() >= self.members.size;
        if !is_full || self.members.up.iter().any(|osd| !self.members.acting.contains(osd)) {
            return;
        }
        self.is_clean = true;
        self.outputs.push_back(Output::Clean);
        self.info.history.last_epoch_clean = self.epoch;
        self.past.clear();
        self.share_history();
        self.dismiss_strays();
    }

    /// Copies that are no longer needed go once all that are wanted are there.
    pub(crate) fn dismiss_strays(&mut self) {
        if !self.is_clean() {
            return;
        }
        let holders = self.peers.iter().filter(|(_, peer)| peer.info.is_some());
        let holders = holders.map(|(osd, _)| *osd);
        let strays: Vec<OsdId> = holders.filter(|osd| !self.members.is_member(*osd)).collect();
        for stray in strays {
            self.peers.remove(&stray);
            self.send(stray, &Body::Remove);
        }
    }

    /// A copy turned up that is no member's.
    pub(crate) fn found_stray(&mut self, osd: OsdId) {
        if self.members.is_member(osd) {
            return;
        }
        match self.is_clean() {
            true => self.dismiss_strays(),
            false => self.ask_if_useful(osd),
        }
    }

    /// Who came back while the members agreed was not looked at.
    fn ask_helpers(&mut self) {
        let peers = self.peers.iter();
        let unknown = peers.filter(|(_, peer)| peer.info.is_some() && !peer.is_missing_known);
        let unknown: Vec<OsdId> = unknown.map(|(osd, _)| *osd).collect();
        unknown.into_iter().for_each(|osd| self.found_stray(osd));
    }

    /// Who takes part in writes has what we have, but for what is missing or not filled in.
    fn refresh_participants(&mut self) {
        for member in self.participants.clone() {
            let own = self.info.clone();
            if let Some(info) = self.peers.get_mut(&member).and_then(|peer| peer.info.as_mut()) {
                let last_backfill = std::mem::take(&mut info.last_backfill);
                *info = crate::PgInfo { last_backfill, ..own };
            }
        }
    }
}
