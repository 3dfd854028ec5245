//! GetInfo, Down, Incomplete, WaitActingChange: collecting infos, and choosing the authoritative log and
//! the acting set.
//!
//! The primary queries the *prior set*: its members, and all participants of intervals since the group was
//! last clean. If it has no copy, and so no history, it queries all OSDs that are up, until one of them
//! knows more. So it does if maps of that time were not available: any OSD may have taken part then.

use super::prior_leases::must_wait;
use super::stage::{Primary, Stage};
use crate::Member;
use crate::backend::{self, Authority};
use crate::core::{Core, Placement};
use crate::intervals::Interval;
use crate::members::{Participants, TooManyMembers};
use crate::message::{Body, Notice};
use crate::peers::Known;
use crate::serving::{Agreed, Service};
use std::collections::BTreeSet;
use types::OsdId;

/// The prior set: all members that may have a copy that matters, up or down.
fn prior_set(core: &Core, known: &Known) -> BTreeSet<Member> {
    let layout = core.placement.members.layout;
    let mut prior: BTreeSet<Member> = core.placement.members.all().collect();
    prior.extend(&known.heard_of);
    let knows_past = core.copy.knows_past && (known.told.is_some() || !core.copy.past.has_gap());
    match (knows_past, &core.placement.osds) {
        (false, Some(osds)) => {
            prior.extend(osds.iter().flat_map(|(osd, _)| layout.members_on(osd)))
        }
        _ => {
            let lists = [&core.copy.past].into_iter().chain(&known.told);
            prior.extend(lists.flat_map(|past| past.participants(layout)));
        }
    }
    prior.remove(&core.own.whoami);
    prior
}

/// The OSDs that must come back, or be marked lost, before the history of writes is certain.
fn find_blocking(core: &Core, known: &Known) -> BTreeSet<OsdId> {
    let Placement { osds, backend, .. } = &core.placement;
    let Some(osds) = osds else { return BTreeSet::new() };
    if !core.copy.knows_past {
        return backend::may_have_unknown(osds).into_iter().collect();
    }
    // Earlier intervals are covered: each participant in that activation has their log.
    let started = core.copy.info.history.last_epoch_started;
    let matters = known.past(core).filter(|past| past.last >= started);
    let blocking = |past: &Interval| {
        let took_part = |member| known.part_in(core, osds, member, (past.first, past.last));
        backend.blocked_by(past, osds, took_part)
    };
    matters.flat_map(blocking).collect()
}

/// Takes over the history and past intervals of another copy. If the own ones have a gap, they are kept for
/// the read leases of that time, and those of the other copy tell what happened in it.
fn learn(core: &mut Core, known: &mut Known, notice: &Notice) {
    core.copy.info.history.merge(&notice.info.history);
    if !core.copy.knows_past {
        core.copy.knows_past = true;
        core.copy.past = notice.intervals.clone();
    }
    let last_epoch_clean = core.copy.info.history.last_epoch_clean;
    core.copy.past.trim(last_epoch_clean);
    let was_there = notice.info.was_there();
    if core.copy.past.has_gap() {
        let layout = core.placement.members.layout;
        let since = notice.intervals.since(last_epoch_clean);
        known.heard_of.extend(since.flat_map(|interval| interval.members(layout)));
    }
    if core.copy.past.has_gap() && known.told.is_none() && was_there {
        let mut told = notice.intervals.clone();
        told.trim(last_epoch_clean);
        known.told = Some(told).filter(|told| !told.has_gap());
    }
    core.leases.learn(core.own.whoami.osd, &notice.leases);
    let orders = [core.copy.scrub_order, notice.scrub_order];
    core.copy.scrub_order = orders.into_iter().flatten().max_by_key(|order| order.at);
}

impl Primary {
    /// Begins peering in a new interval.
    pub fn begin(core: &mut Core) -> Self {
        let mut primary = Primary { known: Known::default(), stage: Stage::get_info() };
        primary.ask_everyone(core);
        primary
    }

    /// A primary whose interval is aborted.
    pub fn stalled() -> Self {
        Primary { known: Known::default(), stage: Stage::Stalled }
    }

    /// The work of an activated group; `None` in all other stages.
    pub fn service<'a>(&'a mut self, core: &'a mut Core) -> Option<Service<'a>> {
        let serving = self.stage.serving_mut()?;
        Some(Service { core, known: &mut self.known, serving })
    }

    /// Drops all state of an OSD that is no member: it will not answer. Peering that waits for it begins
    /// again.
    pub fn forget_helper(&mut self, core: &mut Core, osd: Member) {
        self.known.peers.remove(&osd);
        self.known.asked.remove(&osd);
        let is_awaited = match &self.stage {
            Stage::CompareLogs { waiting } => waiting.contains(&osd),
            Stage::GetLog { authority, .. } => *authority == osd,
            _ => false,
        };
        if is_awaited {
            return self.ask_everyone(core);
        }
        if let Some(serving) = self.stage.serving_mut() {
            serving.recovery.forget_source(osd);
        }
    }

    /// Begins peering: queries the prior set.
    fn ask_everyone(&mut self, core: &mut Core) {
        self.stage = Stage::get_info();
        self.known.peers.clear();
        self.known.asked.clear();
        self.known.wanted = None;
        self.known.told = None;
        self.known.heard_of.clear();
        self.known.cannot_follow = false;
        self.known.logs.clear();
        self.ask_prior_set(core);
        self.choose_authority(core);
    }

    /// Queries OSDs of the prior set that were not queried yet, and waits no longer for those outside of it.
    fn ask_prior_set(&mut self, core: &mut Core) {
        let Stage::GetInfo { waiting } = &mut self.stage else { return };
        let mut prior = prior_set(core, &self.known);
        prior.retain(|member| core.placement.is_osd_up(member.osd));
        waiting.retain(|osd| prior.contains(osd));
        for member in prior {
            if self.known.asked.insert(member) {
                core.send(member, &Body::Query);
                waiting.insert(member);
            }
        }
    }

    /// OSDs changed their state, but the members stay the same.
    pub fn others_changed(&mut self, core: &mut Core) {
        match &self.stage {
            Stage::GetInfo { .. }
            | Stage::CompareLogs { .. }
            | Stage::GetLog { .. }
            | Stage::GetMissing { .. }
            | Stage::WaitActingChange
            | Stage::Down
            | Stage::Incomplete => {
                if self.prior_set_changed(core) {
                    self.ask_everyone(core);
                }
            }
            Stage::WaitUpThru(_) => self.up_thru_changed(core),
            Stage::WaitReadable(_) => self.time_passed(core),
            Stage::Active(_) | Stage::Inactive(_) => {
                if let Some(mut service) = self.service(core) {
                    service.look_for_unfound();
                }
            }
            Stage::Activating { .. } | Stage::Stalled => {}
        }
    }

    /// Whether a queried OSD went down, another one came up, or one was marked lost.
    fn prior_set_changed(&self, core: &Core) -> bool {
        let known = &self.known;
        let prior = prior_set(core, known);
        let is_up = |member: &Member| core.placement.is_osd_up(member.osd);
        let came = prior.iter().any(|osd| is_up(osd) && !known.asked.contains(osd));
        let left = known.asked.iter().any(|osd| !is_up(osd));
        came || left
            || !known.blocked_by.is_empty() && find_blocking(core, known) != known.blocked_by
    }

    /// Takes the answer to a query, or an unasked info.
    pub fn handle_info(&mut self, core: &mut Core, from: Member, notice: Option<Box<Notice>>) {
        let is_known = self.known.peers.get(&from).is_some_and(|peer| peer.info.is_some());
        // The answer of an OSD that is down by now is dropped: it is queried again when it is up.
        if is_known || !core.placement.is_osd_up(from.osd) {
            return;
        }
        if let Some(notice) = &notice {
            learn(core, &mut self.known, notice);
        }
        let peer = self.known.peer_mut(from);
        peer.missing_count = notice.as_ref().map_or(0, |notice| notice.missing);
        peer.info = notice.map(|notice| notice.info);
        let is_newer = self.known.info(from).is_some_and(|info| self.known.is_newer(info));
        self.known.asked.insert(from);
        match &mut self.stage {
            Stage::GetInfo { waiting } => {
                waiting.remove(&from);
                self.ask_prior_set(core);
                self.choose_authority(core);
            }
            Stage::Down | Stage::Incomplete | Stage::WaitActingChange => self.choose_again(core),
            // Nothing is activated yet: the log to follow is chosen again.
            Stage::GetLog { .. } | Stage::GetMissing { .. } | Stage::WaitUpThru(_) if is_newer => {
                self.known.forget_comparisons();
                self.choose_again(core);
            }
            Stage::WaitReadable(_) => self.time_passed(core),
            Stage::Active(_) | Stage::Inactive(_) => {
                if let Some(mut service) = self.service(core) {
                    service.found_stray(from);
                    service.report_lost();
                }
            }
            _ => {}
        }
    }

    fn choose_again(&mut self, core: &mut Core) {
        self.stage = Stage::get_info();
        self.ask_prior_set(core);
        self.choose_authority(core);
    }

    /// When all have answered: chooses the authoritative log and the acting set.
    pub fn choose_authority(&mut self, core: &mut Core) {
        let Stage::GetInfo { waiting } = &self.stage else { return };
        if !waiting.is_empty() || core.store_queue.commits_pending > 0 {
            return;
        }
        self.known.blocked_by = find_blocking(core, &self.known);
        if !self.known.blocked_by.is_empty() {
            tracing::warn!(pg = %core.own.id, who = ?self.known.blocked_by, "waits for OSDs that are down");
            self.stage = Stage::Down;
            return;
        }
        if let Err(error) = core.placement.members.check() {
            return self.refuse_members(core, error);
        }
        if !core.placement.is_layout_known() {
            let layout = core.placement.members.layout;
            tracing::error!(pg = %core.own.id, ?layout, "no code of this build has the layout of the pool");
            self.stage = Stage::Incomplete;
            return;
        }
        let (best, head) = match self.known.find_authority(core) {
            None => {
                tracing::warn!(pg = %core.own.id, "no copy within reach is filled in and new enough");
                self.stage = Stage::Incomplete;
                return;
            }
            Some(Authority::LogsOf(members)) => return self.ask_for_logs(core, members),
            Some(Authority::Log { member, head }) => (member, head),
        };
        if self.known.needs_log_of(core, best, head) {
            return self.ask_for_logs(core, vec![best]);
        }
        let choice = self.known.choose_acting(core, best, head);
        if self.known.wants_other_members(core, &choice) {
            self.stage = Stage::WaitActingChange;
            return;
        }
        let targets = choice.backfill.iter().filter(|osd| **osd != core.own.whoami);
        let participants = core.placement.members.acting_members().chain(targets.copied());
        match Participants::new(participants) {
            Ok(participants) => {
                self.known.note_choice(core);
                self.follow(core, best, head, Agreed::on(participants, &choice.backfill))
            }
            Err(error) => self.refuse_members(core, error),
        }
    }

    /// The map gives the group more members than it can have: it waits for another map.
    fn refuse_members(&mut self, core: &Core, error: TooManyMembers) {
        tracing::error!(pg = %core.own.id, %error, "the group cannot be served");
        self.stage = Stage::Incomplete;
    }

    /// The time may have come at which the last lease of an earlier interval ends.
    pub fn time_passed(&mut self, core: &mut Core) {
        if matches!(self.stage, Stage::WaitReadable(_)) && !must_wait(core, &self.known) {
            self.become_readable(core);
        }
    }
}
