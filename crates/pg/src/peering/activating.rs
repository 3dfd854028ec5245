//! WaitUpThru, Activating, Active, Inactive: from the agreed history to service.

use crate::message::{Activation, Body};
use crate::role::{Role, Stage};
use crate::serving::{Service, UnfoundCount};
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
        self.known.waiting = self.agreed.participants.iter().copied().collect();
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
        let info = self.known.peers[&member].info.clone().unwrap_or_default();
        let overlaps = self.known.peers[&member].is_missing_known;
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
        let peer = self.known.peer_mut(member);
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
        if self.state() != State::Activating || !self.known.waiting.remove(&from) {
            return;
        }
        if !self.known.waiting.is_empty() {
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
        self.known.unfound = UnfoundCount::default();
        let mut service = Service {
            core: &mut self.core,
            known: &mut self.known,
            agreed: &mut self.agreed,
            serving: &mut self.serving,
        };
        service.serving.recovery.begin(service.view().members_missing());
        service.ask_helpers();
        if !self.core.placement.members.is_enough() {
            self.role = Role::Primary(Stage::Inactive);
            return self.with(|service| service.go_on_recovering());
        }
        self.role = Role::Primary(Stage::Active);
        // Their leases are over. An inactive group keeps them: it has not waited for them.
        self.core.leases.readers.clear();
        self.core.copy.info.history.last_epoch_started = self.core.copy.info.last_epoch_started;
        self.core.outputs.push_back(Output::Activated);
        self.with(|service| {
            service.go_on_recovering();
            // A group that is clean at once has shared its history with that.
            if !service.serving.is_clean {
                service.share_history();
            }
        });
    }
}
