//! WaitUpThru, Activating, WaitReadable: from the agreed history to service.

use super::prior_leases::must_wait;
use super::stage::{Primary, Stage};
use crate::Member;
use crate::core::{Core, Output, Tag};
use crate::members::MemberSet;
use crate::message::{Activation, Body};
use crate::peers::{Known, Peer};
use crate::serving::{Agreed, Service, Serving, UnfoundCount, advance};
use crate::{Dups, PgInfo, ShardState};
use types::{EVersion, Epoch, HObject};

/// Whether the group may be activated: the map has our `up_thru` in this interval. Without it, a later
/// primary would assume that the interval accepted no writes. Too few members accept no writes, and need
/// not wait.
fn may_activate(core: &Core) -> bool {
    let up_thru = core
        .placement
        .osds
        .as_ref()
        .map_or(Epoch(0), |osds| osds.status(core.own.whoami.osd).up_thru);
    !core.placement.can_serve() || up_thru >= core.placement.interval
}

impl Primary {
    /// Activates the group, as soon as the map allows that.
    pub(super) fn wait_up_thru(&mut self, core: &mut Core, agreed: Agreed) {
        if may_activate(core) {
            return self.activate(core, agreed);
        }
        self.stage = Stage::WaitUpThru(agreed);
        core.outputs.push_back(Output::WantsMap);
    }

    /// The map may have our `up_thru`.
    pub(super) fn up_thru_changed(&mut self, core: &mut Core) {
        if let Stage::WaitUpThru(agreed) = &mut self.stage
            && may_activate(core)
        {
            let agreed = std::mem::take(agreed);
            self.activate(core, agreed);
        }
    }

    fn activate(&mut self, core: &mut Core, mut agreed: Agreed) {
        assert!(may_activate(core), "the map has our up_thru");
        assert!(agreed.participants.contains(&core.own.whoami), "the primary takes part");
        let history = &mut core.copy.info.history;
        history.same_interval_since = core.placement.interval;
        if history.epoch_created == Epoch(0) {
            history.epoch_created = core.placement.interval;
        }
        if core.placement.can_serve() {
            core.copy.info.last_epoch_started = core.placement.interval;
        }
        core.copy.knows_past = true;
        let waiting = MemberSet::all(&agreed.participants);
        for member in agreed.participants.without(core.own.whoami) {
            self.known.peer_mut(member).activate(core, member);
        }
        // Targets that can follow our own log need no backfill. It may reach further back than the
        // authoritative one.
        let targets = agreed.backfill_targets(&self.known).filter(|(_, through)| !through.max);
        let targets: Vec<Member> = targets.map(|(osd, _)| osd).collect();
        agreed.backfill.set_targets(&targets);
        self.stage = Stage::Activating { agreed, waiting };
        core.update_last_complete();
        core.store_info_and_intervals(Tag::Activated(core.placement.interval));
    }

    /// A member has stored its activation. With the last one the group becomes active, or waits for leases.
    pub fn handle_activated(&mut self, core: &mut Core, from: Member) {
        let Stage::Activating { agreed, waiting } = &mut self.stage else { return };
        let Some(member) = agreed.participants.index_of(from) else { return };
        if !waiting.contains(member) {
            return;
        }
        waiting.remove(member);
        if !waiting.is_empty() {
            return;
        }
        let agreed = std::mem::take(agreed);
        match core.placement.can_serve() && must_wait(core, &self.known) {
            true => self.stage = Stage::WaitReadable(agreed),
            false => self.become_active(core, agreed),
        }
    }

    /// An acting member's disk has space, or not.
    pub fn handle_has_space(&mut self, core: &Core, from: Member, has_space: bool) {
        // Backfill targets do not count, see [`crate::Pg::has_space`].
        if !core.placement.members.is_acting(from) {
            return;
        }
        let Some(agreed) = self.stage.agreed_mut() else { return };
        let Some(member) = agreed.participants.index_of(from) else { return };
        match has_space {
            true => agreed.short.remove(member),
            false => agreed.short.insert(member),
        }
    }

    /// No lease of an earlier interval holds any more.
    pub(super) fn become_readable(&mut self, core: &mut Core) {
        if let Stage::WaitReadable(agreed) = &mut self.stage {
            let agreed = std::mem::take(agreed);
            self.become_active(core, agreed);
        }
    }

    /// Begins recovery and, with enough members, service.
    fn become_active(&mut self, core: &mut Core, agreed: Agreed) {
        core.copy.committed = match core.copy.info.shard {
            Some(_) if !core.placement.can_serve() => self.known.least_settled(core, &agreed),
            _ => core.copy.info.last_update,
        };
        self.known.unfound = UnfoundCount::default();
        let mut serving = Serving::begin(agreed, &self.known);
        let mut service = Service { core, known: &mut self.known, serving: &mut serving };
        service.ask_helpers();
        match service.is_active() {
            true => {
                advance::begin(&mut service);
                let peers: Vec<Member> = service.known.peers.keys().copied().collect();
                peers.into_iter().for_each(|peer| service.known.settle_stray(service.core, peer));
                service.serve();
                self.stage = Stage::Active(serving);
            }
            false => {
                service.continue_recovery();
                self.stage = Stage::Inactive(serving);
            }
        }
    }
}

impl Known {
    /// The version up to which all participants have settled changes, except for those that were reset just
    /// now and hold none. In a group that does not serve, objects with later changes are treated as those
    /// that are being written: their outcome is open.
    fn least_settled(&self, core: &Core, agreed: &Agreed) -> EVersion {
        let others = agreed.participants.iter().filter_map(|member| self.info(*member));
        let others = others.filter(|info| info.last_backfill != HObject::default());
        let settled = others.map(PgInfo::settled).chain([core.copy.info.settled()]);
        settled.min().unwrap_or_default()
    }
}

impl Peer {
    /// Tells it to follow our log: from its own head, from our tail if it has diverged, or as a reset copy if
    /// the log does not overlap its own.
    fn activate(&mut self, core: &mut Core, member: Member) {
        assert_ne!(member, core.own.whoami, "the primary activates itself");
        let info = self.info.clone().unwrap_or_default();
        let is_empty = !info.is_complete() && info.last_backfill == HObject::default();
        let is_reset = !self.is_missing_known || is_empty;
        let follows = !is_reset && core.copy.log.contains(info.last_update);
        let tail = if follows { info.last_update } else { core.copy.log.tail() };
        let entries = core.copy.log.above(tail).cloned().collect();
        let dups = if is_reset { core.copy.log.dups().clone() } else { Dups::default() };
        let activation = Activation {
            is_reset,
            info: core.copy.info.clone(),
            intervals: core.copy.past.clone(),
            tail,
            entries,
            dups,
        };
        core.send(member, &Body::Activate(Box::new(activation)));
        let last_backfill = if is_reset { HObject::default() } else { info.last_backfill };
        // Changes that are certain here are certain there, too, as soon as it has merged the log.
        let own_settled = core.copy.info.settled();
        let settled = |shard: ShardState| match is_reset {
            true => own_settled.max(core.copy.log.tail()),
            false => shard.settled.max(own_settled),
        };
        let shard = info.shard.or(PgInfo::of_new_copy(member.shard).shard);
        let shard =
            shard.map(|shard| ShardState { shard: member.shard, settled: settled(shard), ..shard });
        self.info = Some(PgInfo { last_backfill, shard, ..core.copy.info.clone() });
        (self.is_missing_known, self.is_incomparable) = (true, false);
        if is_reset {
            self.missing.clear();
        }
    }
}
