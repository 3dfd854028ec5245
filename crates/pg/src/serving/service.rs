//! The primary of an activated group: its parts, and what follows from each change.

use super::backfill::Backfill;
use super::pipeline::Pipeline;
use super::recovery::Recovery;
use crate::Member;
use crate::Tag;
use crate::backend::Authority;
use crate::core::{Core, Output};
use crate::members::{MemberSet, Participants};
use crate::message::Body;
use crate::peers::Known;
use crate::rows;
use std::collections::VecDeque;
use types::{EVersion, HObject};

/// The members with which the primary continues, once it has chosen the authoritative log.
#[derive(Debug, Default)]
pub(crate) struct Agreed {
    /// Members that take part in writes: the acting set and backfill targets.
    pub participants: Participants,
    /// Its targets take part in writes.
    pub backfill: Backfill,
    /// The acting members whose disks are nearly full.
    pub short: MemberSet,
}

/// The work of an activated primary.
#[derive(Debug, Default)]
pub(crate) struct Serving {
    /// Members that take part in writes.
    pub agreed: Agreed,
    /// Writes that are not durable on all participants, oldest first.
    pub in_flight: VecDeque<InFlight>,
    /// In a group with shards, writes that are not sent, and what is not settled.
    pub pipeline: Pipeline,
    /// Log-based recovery.
    pub recovery: Recovery,
    /// Set once all copies are complete and on their up set.
    pub is_clean: bool,
}

/// A write that is not durable on all participants.
#[derive(Debug)]
pub(crate) struct InFlight {
    /// The version of the write.
    pub version: EVersion,
    /// See [`crate::Write::ticket`].
    pub ticket: u64,
    /// The participants that have not stored it.
    pub waiting: MemberSet,
}

/// The primary of an activated group, with all that its work depends on. Its group is active, or inactive
/// for want of members.
pub(crate) struct Service<'a> {
    /// The state besides the role.
    pub core: &'a mut Core,
    /// Knowledge of the other copies.
    pub known: &'a mut Known,
    /// The work of the primary.
    pub serving: &'a mut Serving,
}

/// The same for queries. They can be asked of every copy: one that does not serve knows no others.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    /// The state besides the role.
    pub core: &'a Core,
    /// Knowledge of the other copies; empty in a copy that is not primary.
    pub known: &'a Known,
    /// Members that take part in writes.
    pub agreed: &'a Agreed,
    /// Log-based recovery.
    pub recovery: &'a Recovery,
    /// Whether requests are served.
    pub is_active: bool,
}

impl Agreed {
    /// These members take part in writes; some of them need backfill.
    pub fn on(participants: Participants, targets: &[Member]) -> Self {
        let mut agreed = Agreed { participants, ..Agreed::default() };
        agreed.backfill.set_targets(targets);
        agreed
    }

    /// Members that need backfill, with their progress.
    pub fn backfill_targets<'a>(
        &'a self,
        known: &'a Known,
    ) -> impl Iterator<Item = (Member, &'a HObject)> {
        let targets = self.backfill.targets();
        targets.filter_map(move |osd| Some((osd, &known.info(osd)?.last_backfill)))
    }

    /// Number of missing items of all participants, as far as they are known.
    pub fn members_missing(&self, known: &Known) -> usize {
        let missing = |osd: &Member| known.peers.get(osd).map_or(0, |peer| peer.missing.len());
        self.participants.iter().map(missing).sum()
    }
}

impl Serving {
    /// The beginning, with what is known to be missing.
    pub fn begin(agreed: Agreed, known: &Known) -> Self {
        let members_missing = agreed.members_missing(known);
        let recovery = Recovery { members_missing, ..Recovery::default() };
        Serving { agreed, recovery, ..Serving::default() }
    }
}

impl Service<'_> {
    /// The same state, for queries.
    pub fn view(&self) -> View<'_> {
        View {
            core: self.core,
            known: self.known,
            agreed: &self.serving.agreed,
            recovery: &self.serving.recovery,
            is_active: self.is_active(),
        }
    }

    /// Whether requests are served: the members are enough to accept writes.
    pub fn is_active(&self) -> bool {
        self.core.placement.can_serve()
    }

    /// Whether the group is active, all copies are complete, and those of the up set are among them.
    pub fn is_clean(&self) -> bool {
        self.is_active() && self.serving.is_clean
    }

    /// Begins to serve requests.
    pub fn serve(&mut self) {
        // Their leases are over. An inactive group keeps them: it has not waited for them.
        self.core.leases.prior.clear();
        self.core.copy.info.history.last_epoch_started = self.core.copy.info.last_epoch_started;
        self.core.outputs.push_back(Output::Activated);
        self.continue_recovery();
        // A group that is clean at once has shared its history with that.
        if !self.serving.is_clean {
            self.share_history();
        }
    }

    /// Continues recovery and backfill after a change, and checks whether the group is clean.
    pub fn continue_recovery(&mut self) {
        if !self.serving.recovery.is_toofull {
            self.serving.recovery.is_stuck = false;
        }
        self.continue_backfill();
        self.check_clean();
    }

    /// If nothing is missing and no backfill is needed: asks the monitor for other members, or declares the
    /// group clean.
    pub fn check_clean(&mut self) {
        if !self.view().is_whole() && !self.can_recover_nothing()
            || self.serving.agreed.backfill.is_needed()
            || self.serving.is_clean
            || self.serving.pipeline.superseding > self.core.copy.committed
        {
            return;
        }
        self.refresh_participants();
        let Some(Authority::Log { member, head }) = self.known.find_authority(self.core) else {
            return;
        };
        let choice = self.known.choose_acting(self.core, member, head);
        if self.known.wants_other_members(self.core, &choice) || !self.is_active() {
            return;
        }
        if !self.core.placement.backend.is_full(&self.core.placement.members) {
            return;
        }
        self.serving.is_clean = true;
        self.core.outputs.push_back(Output::Clean);
        self.core.copy.info.history.last_epoch_clean = self.core.placement.epoch;
        self.core.copy.past.clear();
        self.known.told = None;
        self.share_history();
        self.remove_strays();
    }

    /// Once the group is clean, tells strays to remove their copies. One that took part in a later activation
    /// than the group has followed stays: it came too late, and may have writes that no other copy has.
    pub fn remove_strays(&mut self) {
        if !self.is_clean() {
            return;
        }
        let is_settled = |info: &crate::PgInfo| !self.known.is_newer(info);
        let holders = self.known.peers.iter();
        let holders = holders.filter(|(_, peer)| peer.info.as_ref().is_some_and(is_settled));
        let holders = holders.map(|(osd, _)| *osd);
        let strays: Vec<Member> =
            holders.filter(|osd| !self.core.placement.members.has_member(*osd)).collect();
        for stray in strays {
            self.known.peers.remove(&stray);
            // It may still read for us, and does not answer any more.
            rows::forget_source(self.core, stray);
            self.core.send(stray, &Body::Remove);
        }
    }

    /// An OSD reported a copy; it may be a stray.
    pub fn found_stray(&mut self, osd: Member) {
        if self.core.placement.members.has_member(osd) {
            return;
        }
        match self.is_clean() {
            true => self.remove_strays(),
            false => self.ask_if_useful(osd),
        }
    }

    /// Stores the group's history, and sends it to all participants.
    pub fn share_history(&mut self) {
        let history = self.core.copy.info.history;
        for member in self.serving.agreed.participants.without(self.core.own.whoami) {
            self.core.send(member, &Body::History(history));
        }
        self.core.store_info_and_intervals(Tag::Progress);
    }

    /// Updates the infos of participants, which miss nothing, to ours, except for what is each copy's own.
    fn refresh_participants(&mut self) {
        for member in self.serving.agreed.participants.iter() {
            let own = self.core.copy.info.clone();
            let Some(peer) = self.known.peers.get_mut(member) else { continue };
            // Else its log would count for less than it does now.
            peer.missing_count = 0;
            if let Some(info) = &mut peer.info {
                let (last_backfill, shard) = (std::mem::take(&mut info.last_backfill), info.shard);
                *info = crate::PgInfo { last_backfill, shard, ..own };
            }
        }
    }

    /// Asks the copies that were reported during peering for their logs, if they can help.
    pub fn ask_helpers(&mut self) {
        let peers = self.known.peers.iter();
        let unknown = peers.filter(|(_, peer)| peer.info.is_some() && !peer.is_missing_known);
        let unknown: Vec<Member> = unknown.map(|(osd, _)| *osd).collect();
        unknown.into_iter().for_each(|osd| self.found_stray(osd));
    }
}
