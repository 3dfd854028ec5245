//! GetInfo, Down, Incomplete, WaitActingChange: collecting infos, and choosing the authoritative log and
//! the acting set.
//!
//! The primary queries the *prior set*: its members, and all participants of intervals since the group was
//! last clean. If it has no copy, and so no history, it queries all OSDs that are up, until one of them
//! knows more.

use crate::intervals::may_have_unknown;
use crate::members::{Participants, TooManyMembers};
use crate::message::{Body, Header, Notice};
use crate::role::{Role, Stage};
use crate::{Pg, State};
use std::collections::BTreeSet;
use types::OsdId;

impl Pg {
    /// Begins peering: queries the prior set.
    pub(crate) fn ask_everyone(&mut self) {
        self.role = Role::Primary(Stage::GetInfo);
        self.known.peers.clear();
        self.known.waiting.clear();
        self.known.asked.clear();
        self.known.wanted = None;
        self.ask_prior_set();
        self.choose_authority();
    }

    /// The prior set: all OSDs that may have a copy that matters, up or down.
    fn prior_set(&self) -> BTreeSet<OsdId> {
        let mut prior: BTreeSet<OsdId> = self.core.placement.members.all().collect();
        match (self.core.copy.knows_past, &self.core.placement.osds) {
            (false, Some(osds)) => prior.extend(osds.iter().map(|(osd, _)| osd)),
            _ => prior.extend(self.core.copy.past.participants()),
        }
        prior.remove(&self.core.own.whoami);
        prior
    }

    fn is_osd_up(&self, osd: OsdId) -> bool {
        self.core.placement.osds.as_ref().is_some_and(|osds| osds.is_up(osd))
    }

    /// Queries OSDs of the prior set that were not queried yet, and waits no longer for those outside of it.
    fn ask_prior_set(&mut self) {
        let mut prior = self.prior_set();
        prior.retain(|osd| self.is_osd_up(*osd));
        self.known.waiting.retain(|osd| prior.contains(osd));
        for osd in prior {
            if self.known.asked.insert(osd) {
                self.core.send(osd, &Body::Query);
                self.known.waiting.insert(osd);
            }
        }
    }

    /// OSDs changed their state, but the members stay the same.
    pub(crate) fn others_changed(&mut self) {
        if !self.is_primary() {
            return;
        }
        match self.state() {
            State::GetInfo
            | State::GetLog
            | State::GetMissing
            | State::WaitActingChange
            | State::Down
            | State::Incomplete
                if self.prior_set_changed() =>
            {
                self.ask_everyone();
            }
            State::WaitUpThru => self.wait_up_thru(),
            State::WaitReadable => self.time_passed(),
            State::Active | State::Inactive => self.with(|service| service.look_for_unfound()),
            _ => {}
        }
    }

    /// Whether a queried OSD went down, another one came up, or one was marked lost.
    fn prior_set_changed(&self) -> bool {
        let prior = self.prior_set();
        let came = prior.iter().any(|osd| self.is_osd_up(*osd) && !self.known.asked.contains(osd));
        let left = self.known.asked.iter().any(|osd| !self.is_osd_up(*osd));
        came || left
            || !self.known.blocked_by.is_empty() && self.find_blocking() != self.known.blocked_by
    }

    fn find_blocking(&self) -> BTreeSet<OsdId> {
        let Some(osds) = &self.core.placement.osds else { return BTreeSet::new() };
        match self.core.copy.knows_past {
            true => {
                let started = self.core.copy.info.history.last_epoch_started;
                self.core.copy.past.blocked_by(osds, self.core.placement.members.min_size, started)
            }
            false => may_have_unknown(osds, &self.core.placement.members).into_iter().collect(),
        }
    }

    /// Handles the primary's query; it is answered when no transaction is pending.
    pub(crate) fn queried(&mut self, from: OsdId, header: &Header) {
        if header.epoch < self.core.placement.interval
            || self.core.placement.members.primary != Some(from)
        {
            return;
        }
        if header.interval > self.core.placement.interval {
            self.core.placement.interval = header.interval;
            self.start_interval(false);
        }
        if let Role::Follower(follower) = &mut self.role {
            follower.asked_by = Some(from);
        }
        if self.core.line.commits_pending == 0 {
            self.drained();
        }
    }

    /// Answers a query.
    pub(crate) fn tell_info(&mut self, primary: OsdId) {
        let notice = self.core.copy.created.then(|| {
            let missing = self.core.copy.missing.len() as u64;
            let (info, intervals) = (self.core.copy.info.clone(), self.core.copy.past.clone());
            let (promises, scrub_order) = (self.promises(), self.core.copy.scrub_order);
            Box::new(Notice { info, missing, intervals, promises, scrub_order })
        });
        self.core.send(primary, &Body::Info(notice));
    }

    /// Takes the answer to a query, or an unasked info.
    pub(crate) fn told_info(&mut self, from: OsdId, notice: Option<Box<Notice>>) {
        let is_known = self.known.peers.get(&from).is_some_and(|peer| peer.info.is_some());
        // The answer of an OSD that is down by now is dropped: it is queried again when it is up.
        if !self.is_primary() || is_known || !self.is_osd_up(from) {
            return;
        }
        if let Some(notice) = &notice {
            self.learn(notice);
            self.learn_promises(&notice.promises);
            let orders = [self.core.copy.scrub_order, notice.scrub_order];
            self.core.copy.scrub_order = orders.into_iter().flatten().max_by_key(|order| order.at);
        }
        let peer = self.known.peer_mut(from);
        peer.missing_count = notice.as_ref().map_or(0, |notice| notice.missing);
        peer.info = notice.map(|notice| notice.info);
        self.known.asked.insert(from);
        match self.state() {
            State::GetInfo => {
                self.known.waiting.remove(&from);
                self.ask_prior_set();
                self.choose_authority();
            }
            State::Down | State::Incomplete | State::WaitActingChange => {
                self.role = Role::Primary(Stage::GetInfo);
                self.ask_prior_set();
                self.choose_authority();
            }
            State::WaitReadable => self.time_passed(),
            State::Active | State::Inactive => {
                self.with(|service| {
                    service.found_stray(from);
                    service.tell_lost();
                });
            }
            _ => {}
        }
    }

    /// Takes over the history and past intervals of another copy.
    fn learn(&mut self, notice: &Notice) {
        self.core.copy.info.history.merge(&notice.info.history);
        if !self.core.copy.knows_past {
            self.core.copy.knows_past = true;
            self.core.copy.past = notice.intervals.clone();
        }
        self.core.copy.past.trim(self.core.copy.info.history.last_epoch_clean);
    }

    /// When all have answered: chooses the authoritative log and the acting set.
    pub(crate) fn choose_authority(&mut self) {
        if self.state() != State::GetInfo
            || !self.known.waiting.is_empty()
            || self.core.line.commits_pending > 0
        {
            return;
        }
        self.known.blocked_by = self.find_blocking();
        if !self.known.blocked_by.is_empty() {
            tracing::warn!(pg = %self.core.own.id, who = ?self.known.blocked_by, "waits for OSDs that are down");
            self.role = Role::Primary(Stage::Down);
            return;
        }
        if let Err(error) = self.core.placement.members.check() {
            return self.refuse_members(error);
        }
        let Some((best, choice)) = self.known.choose(&self.core) else {
            tracing::warn!(pg = %self.core.own.id, "no copy within reach is filled in and new enough");
            self.role = Role::Primary(Stage::Incomplete);
            return;
        };
        if self.known.wants_other_members(&mut self.core, &choice) {
            self.role = Role::Primary(Stage::WaitActingChange);
            return;
        }
        let targets = choice.backfill.iter().filter(|osd| **osd != self.core.own.whoami);
        let participants = self.core.placement.members.acting.iter().chain(targets).copied();
        match Participants::new(participants) {
            Ok(participants) => self.agreed.participants = participants,
            Err(error) => return self.refuse_members(error),
        }
        self.agreed.backfill.set_targets(&choice.backfill);
        self.follow(best);
    }

    /// The map gives the group more members than it can have: it waits for another map.
    fn refuse_members(&mut self, error: TooManyMembers) {
        tracing::error!(pg = %self.core.own.id, %error, "the group cannot be served");
        self.role = Role::Primary(Stage::Incomplete);
    }
}
