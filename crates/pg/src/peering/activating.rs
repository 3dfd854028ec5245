//! WaitUpThru, Activating, Active, Inactive: from the agreed history to service.

use crate::lost::UnfoundCount;
use crate::message::{Activation, Body};
use crate::role::{Role, Stage};
use crate::{Dups, Output, Pg, State, Tag};
use types::{Epoch, HObject, OsdId};

impl Pg {
    /// Waits until the map has our `up_thru` in this interval, and then activates. Without it, a later
    /// primary would assume that the interval accepted no writes. With too few members to accept writes,
    /// activates at once.
    pub(crate) fn wait_up_thru(&mut self) {
        let up_thru = self
            .core
            .placement
            .osds
            .as_ref()
            .map_or(Epoch(0), |osds| osds.status(self.core.own.whoami).up_thru);
        if !self.core.placement.members.is_enough() || up_thru >= self.core.placement.interval {
            return self.activate();
        }
        if self.state() != State::WaitUpThru {
            self.role = Role::Primary(Stage::WaitUpThru);
            self.core.outputs.push_back(Output::WantsMap);
        }
    }

    fn activate(&mut self) {
        self.role = Role::Primary(Stage::Activating);
        let history = &mut self.core.copy.info.history;
        history.same_interval_since = self.core.placement.interval;
        if history.epoch_created == Epoch(0) {
            history.epoch_created = self.core.placement.interval;
        }
        if self.core.placement.members.is_enough() {
            self.core.copy.info.last_epoch_started = self.core.placement.interval;
        }
        self.core.copy.knows_past = true;
        self.primary.waiting = self.agreed.participants.iter().copied().collect();
        for member in self.agreed.participants.without(self.core.own.whoami) {
            self.activate_member(member);
        }
        self.spare_filling_in();
        self.core.update_last_complete();
        self.core.store_info_and_intervals(Tag::Activated(self.core.placement.interval));
    }

    /// Drops backfill targets that can follow our own log, which may reach further back than the
    /// authoritative one.
    fn spare_filling_in(&mut self) {
        let targets = self.backfill_targets().filter(|(_, through)| !through.max);
        let targets: Vec<OsdId> = targets.map(|(osd, _)| osd).collect();
        self.agreed.backfill.set_targets(&targets);
    }

    /// Tells a member to follow our log: from its own head, from our tail if it has diverged, or as a reset
    /// copy if the log does not overlap its own.
    fn activate_member(&mut self, member: OsdId) {
        let info = self.primary.peers[&member].info.clone().unwrap_or_default();
        let overlaps = self.primary.peers[&member].is_missing_known;
        let is_reset = !overlaps || !info.is_complete() && info.last_backfill == HObject::default();
        let follows = !is_reset && self.core.copy.log.contains(info.last_update);
        let tail = if follows { info.last_update } else { self.core.copy.log.tail() };
        let entries = self.core.copy.log.above(tail).cloned().collect();
        let dups = if is_reset { self.core.copy.log.dups().clone() } else { Dups::default() };
        let activation = Activation {
            is_reset,
            info: self.core.copy.info.clone(),
            intervals: self.core.copy.past.clone(),
            tail,
            entries,
            dups,
        };
        self.core.send(member, &Body::Activate(Box::new(activation)));
        let last_backfill = if is_reset { HObject::default() } else { info.last_backfill };
        let own = self.core.copy.info.clone();
        let peer = self.peer_mut(member);
        peer.info = Some(crate::PgInfo { last_backfill, ..own });
        (peer.is_missing_known, peer.is_incomparable) = (true, false);
        if is_reset {
            peer.missing.clear();
        }
    }

    /// Our own activation is durable.
    pub(crate) fn stored_activated(&mut self, interval: Epoch) {
        if interval != self.core.placement.interval {
            return;
        }
        match self.state() {
            State::Activating => self.told_activated(self.core.own.whoami),
            State::ReplicaActive => {
                let primary = self.core.placement.members.primary.expect("it told us to activate");
                self.core.send(primary, &Body::Activated);
                if !self.has_room() {
                    self.announce_room();
                }
            }
            _ => {}
        }
    }

    /// A member has stored its activation. With the last one the group becomes active, or waits for leases.
    pub(crate) fn told_activated(&mut self, from: OsdId) {
        if self.state() != State::Activating || !self.primary.waiting.remove(&from) {
            return;
        }
        if !self.primary.waiting.is_empty() {
            return;
        }
        match self.core.placement.members.is_enough() && self.must_wait_for_readers() {
            true => self.role = Role::Primary(Stage::WaitReadable),
            false => self.become_active(),
        }
    }

    /// Begins recovery and, with enough members, service.
    pub(crate) fn become_active(&mut self) {
        self.core.copy.committed = self.core.copy.info.last_update;
        self.serving.recovery.begin(self.members_missing());
        self.primary.unfound = UnfoundCount::default();
        self.ask_helpers();
        if !self.core.placement.members.is_enough() {
            self.role = Role::Primary(Stage::Inactive);
            return self.go_on_recovering();
        }
        self.role = Role::Primary(Stage::Active);
        // Their leases are over. An inactive group keeps them: it has not waited for them.
        self.core.leases.readers.clear();
        self.core.copy.info.history.last_epoch_started = self.core.copy.info.last_epoch_started;
        self.core.outputs.push_back(Output::Activated);
        self.go_on_recovering();
        // A group that is clean at once has shared its history with that.
        if !self.serving.is_clean {
            self.share_history();
        }
    }

    /// Stores the group's history, and sends it to all participants.
    pub(crate) fn share_history(&mut self) {
        let history = self.core.copy.info.history;
        for member in self.agreed.participants.without(self.core.own.whoami) {
            self.core.send(member, &Body::History(history));
        }
        self.core.store_info_and_intervals(Tag::Progress);
    }

    /// If nothing is missing and no backfill is needed: asks the monitor for other members, or declares the
    /// group clean.
    pub(crate) fn check_clean(&mut self) {
        let is_settled = matches!(self.state(), State::Active | State::Inactive);
        if !is_settled
            || !self.is_whole()
            || self.agreed.backfill.is_needed()
            || self.serving.is_clean
        {
            return;
        }
        self.refresh_participants();
        let Some((_, choice)) = self.choose() else { return };
        if self.wants_other_members(&choice) || self.state() != State::Active {
            return;
        }
        let is_full = self.core.placement.members.acting.len() >= self.core.placement.members.size;
        if !is_full
            || self
                .core
                .placement
                .members
                .up
                .iter()
                .any(|osd| !self.core.placement.members.acting.contains(osd))
        {
            return;
        }
        self.serving.is_clean = true;
        self.core.outputs.push_back(Output::Clean);
        self.core.copy.info.history.last_epoch_clean = self.core.placement.epoch;
        self.core.copy.past.clear();
        self.share_history();
        self.dismiss_strays();
    }

    /// Once the group is clean, tells strays to remove their copies.
    pub(crate) fn dismiss_strays(&mut self) {
        if !self.is_clean() {
            return;
        }
        let holders = self.primary.peers.iter().filter(|(_, peer)| peer.info.is_some());
        let holders = holders.map(|(osd, _)| *osd);
        let strays: Vec<OsdId> =
            holders.filter(|osd| !self.core.placement.members.is_member(*osd)).collect();
        for stray in strays {
            self.primary.peers.remove(&stray);
            self.core.send(stray, &Body::Remove);
        }
    }

    /// An OSD reported a copy; it may be a stray.
    pub(crate) fn found_stray(&mut self, osd: OsdId) {
        if self.core.placement.members.is_member(osd) {
            return;
        }
        match self.is_clean() {
            true => self.dismiss_strays(),
            false => self.ask_if_useful(osd),
        }
    }

    /// Asks the copies that were reported during peering for their logs, if they can help.
    fn ask_helpers(&mut self) {
        let peers = self.primary.peers.iter();
        let unknown = peers.filter(|(_, peer)| peer.info.is_some() && !peer.is_missing_known);
        let unknown: Vec<OsdId> = unknown.map(|(osd, _)| *osd).collect();
        unknown.into_iter().for_each(|osd| self.found_stray(osd));
    }

    /// Updates the infos of participants to ours, except for `last_backfill`.
    fn refresh_participants(&mut self) {
        for member in self.agreed.participants.iter() {
            let own = self.core.copy.info.clone();
            if let Some(info) =
                self.primary.peers.get_mut(member).and_then(|peer| peer.info.as_mut())
            {
                let last_backfill = std::mem::take(&mut info.last_backfill);
                *info = crate::PgInfo { last_backfill, ..own };
            }
        }
    }
}
