//! How the members of an interval become equal and active.

use crate::message::Body;
use crate::replicate::MEMBERS_MAX;
use crate::{LogEntry, Output, Pg, PgInfo, PgLog, State, Tag};
use std::cmp::Reverse;
use store::{Change, Transaction};
use types::{EVersion, Epoch, OsdId};

impl Pg {
    /// The members changed: everything begins anew.
    pub(crate) fn start_interval(&mut self) {
        assert!(self.members.acting.len() <= MEMBERS_MAX, "more members than any pool has");
        self.interrupt_writes();
        self.forget_peers();
        self.room.begin_interval();
        if self.is_primary() {
            match self.members.acting.len() < self.members.min_size {
                true => self.state = State::Inactive,
                false => self.ask_everyone(),
            }
        } else if self.members.acting.contains(&self.whoami) {
            self.state = State::Replica;
        } else {
            self.state = State::Stray;
        }
    }

    pub(crate) fn forget_peers(&mut self) {
        self.peers.clear();
        self.waiting.clear();
        self.authority = None;
        self.asked_by = None;
        self.catch_up = None;
        self.sources.clear();
    }

    fn ask_everyone(&mut self) {
        self.state = State::GetInfo;
        self.peers.clear();
        let up = self.others.up.iter().map(|(osd, _)| *osd);
        let others = up.chain(self.members.acting.iter().copied());
        self.waiting = others.filter(|osd| *osd != self.whoami).collect();
        for osd in self.waiting.clone() {
            self.send(osd, &Body::Query);
        }
        self.choose_authority();
    }

    /// OSDs went down that are no members, or came up.
    pub(crate) fn others_changed(&mut self, came_up: &[OsdId]) {
        let up: Vec<OsdId> = self.others.up.iter().map(|(osd, _)| *osd).collect();
        let is_gone = |osd: OsdId| !up.contains(&osd) || came_up.contains(&osd);
        match self.state {
            State::GetInfo => {
                self.waiting.retain(|osd| up.contains(osd));
                // Whoever is back no longer counts as absent, so its word is needed.
                let whoami = self.whoami;
                for osd in came_up.iter().copied().filter(|osd| *osd != whoami) {
                    self.waiting.insert(osd);
                    self.send(osd, &Body::Query);
                }
                self.choose_authority();
            }
            State::GetLog | State::Recovering if self.authority.is_some_and(is_gone) => {
                self.forget_peers();
                self.ask_everyone();
            }
            State::Incomplete => self.ask_everyone(),
            _ => {}
        }
    }

    /// The primary of an interval asks; if we have not noticed the interval, we have now.
    pub(crate) fn queried(&mut self, from: OsdId, header: &crate::message::Header) {
        if header.interval < self.interval || self.members.primary != Some(from) {
            return;
        }
        if header.interval > self.interval {
            self.interval = header.interval;
            self.start_interval();
        }
        self.asked_by = Some(from);
        if self.commits_pending == 0 {
            self.drained();
        }
    }

    /// The store has confirmed everything: what we have is certain.
    pub(crate) fn drained(&mut self) {
        if self.state == State::Refused {
            return self.read_again();
        }
        if let Some(primary) = self.asked_by.take() {
            let info = self.created.then(|| self.info.clone());
            self.send(primary, &Body::Info(info));
        }
        self.choose_authority();
        self.go_on_catching_up();
    }

    pub(crate) fn told_info(&mut self, from: OsdId, info: Option<PgInfo>) {
        if self.state == State::GetInfo && self.waiting.remove(&from) {
            self.peers.insert(from, info);
            self.choose_authority();
        }
    }

    /// When all have answered: whose copy counts?
    fn choose_authority(&mut self) {
        if self.state != State::GetInfo || !self.waiting.is_empty() || self.commits_pending > 0 {
            return;
        }
        let known = self.peers.iter().filter_map(|(osd, info)| Some((*osd, info.as_ref()?)));
        let known = known.chain([(self.whoami, &self.info)]);
        let (whole, broken): (Vec<_>, Vec<_>) = known.partition(|(_, info)| info.is_complete());
        let rank = |info: &PgInfo| (info.last_epoch_started, info.last_update, info.active_through);
        let best = whole.iter().max_by_key(|(osd, info)| {
            let member = self.members.acting.contains(osd);
            (rank(info), Reverse(info.log_tail), *osd == self.whoami, member, Reverse(*osd))
        });
        let newest_broken = broken.iter().map(|(_, info)| rank(info)).max();
        let newest = |info| newest_broken.is_none_or(|broken| rank(info) >= broken);
        match best {
            Some((osd, info)) if newest(info) && !self.may_have_missed(info) => {
                let osd = *osd;
                self.follow(osd);
            }
            _ => {
                tracing::warn!(pg = %self.id, "no copy within reach is whole and new enough");
                self.state = State::Incomplete;
            }
        }
    }

    /// Whether OSDs that are down may have been active without everyone who has answered, after
    /// the best copy last was. It takes as many of them as the pool demands: had anyone who answered
    /// taken part, its copy would tell. Any OSD counts: members may have changed several times since.
    fn may_have_missed(&self, best: &PgInfo) -> bool {
        let later = |down_at: Epoch| down_at > best.active_through.next();
        let doubtful = self.others.down.iter().filter(|(_, down_at)| later(*down_at)).count();
        doubtful >= self.members.min_size.max(1)
    }

    fn follow(&mut self, authority: OsdId) {
        self.authority = Some(authority);
        if authority == self.whoami {
            return self.equalize();
        }
        self.state = State::GetLog;
        self.send(authority, &Body::LogRequest);
    }

    pub(crate) fn asked_for_log(&mut self, from: OsdId) {
        let entries = self.log.entries().cloned().collect();
        self.send(from, &Body::Log(self.info.clone(), entries));
    }

    pub(crate) fn told_log(&mut self, from: OsdId, info: PgInfo, entries: Vec<LogEntry>) {
        if self.state == State::GetLog && self.authority == Some(from) {
            self.state = State::Recovering;
            self.begin_catch_up(from, info, entries);
        }
    }

    /// Our own copy is the authority: the other members are to become equal to it.
    pub(crate) fn equalize(&mut self) {
        self.state = State::Equalizing;
        self.waiting.clear();
        for member in self.members.acting.clone() {
            if member == self.whoami || self.is_equal(member) {
                continue;
            }
            self.waiting.insert(member);
            let entries = self.log.entries().cloned().collect();
            self.send(member, &Body::CatchUp(self.info.clone(), entries));
        }
        self.activate_if_equal();
    }

    fn is_equal(&self, member: OsdId) -> bool {
        match self.peers.get(&member).and_then(Option::as_ref) {
            Some(info) => info.is_complete() && info.last_update == self.info.last_update,
            None => self.info.is_empty(),
        }
    }

    pub(crate) fn told_to_catch_up(&mut self, from: OsdId, info: PgInfo, log: Vec<LogEntry>) {
        if self.state == State::Replica {
            self.state = State::CatchingUp;
            self.begin_catch_up(from, info, log);
        }
    }

    /// Our copy has become equal to the authority's, durably.
    pub(crate) fn stored_caught_up(&mut self, interval: Epoch) {
        if interval != self.interval {
            return;
        }
        match self.state {
            State::Recovering => self.equalize(),
            State::CatchingUp => {
                self.state = State::Replica;
                let primary = self.members.primary.expect("it told us to catch up");
                self.send(primary, &Body::CaughtUp);
            }
            _ => {}
        }
    }

    pub(crate) fn told_caught_up(&mut self, from: OsdId) {
        if self.state == State::Equalizing && self.waiting.remove(&from) {
            self.activate_if_equal();
        }
    }

    fn activate_if_equal(&mut self) {
        if !self.waiting.is_empty() {
            return;
        }
        self.state = State::Activating;
        self.info.last_epoch_started = self.epoch;
        self.info.active_through = self.epoch;
        self.info.last_acting = self.members.acting.clone();
        self.waiting = self.members.acting.iter().copied().collect();
        for member in self.members.acting.clone() {
            if member != self.whoami {
                self.send(member, &Body::Activate(self.info.clone()));
            }
        }
        self.store_activation();
    }

    pub(crate) fn told_to_activate(&mut self, info: PgInfo) {
        if self.state != State::Replica || info.last_update != self.info.last_update {
            return;
        }
        self.state = State::ReplicaActive;
        self.committed = info.last_update;
        self.info = PgInfo { log_tail: self.log.tail(), ..info };
        self.store_activation();
        if !self.has_room() {
            self.announce_room();
        }
    }

    fn store_activation(&mut self) {
        let mut transaction = self.transaction(1);
        self.set_info(&mut transaction);
        self.commit(Tag::Activated(self.interval), transaction);
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
            }
            _ => {}
        }
    }

    pub(crate) fn told_activated(&mut self, from: OsdId) {
        if self.state != State::Activating || !self.waiting.remove(&from) {
            return;
        }
        if self.waiting.is_empty() {
            self.state = State::Active;
            self.committed = self.info.last_update;
            self.outputs.push_back(Output::Activated);
            self.dismiss_strays();
        }
    }

    /// Copies that are no longer needed go once all that are wanted are there.
    fn dismiss_strays(&mut self) {
        if !self.is_clean() {
            return;
        }
        let holders = self.peers.iter().filter(|(_, info)| info.is_some()).map(|(osd, _)| *osd);
        let members = &self.members;
        let wanted = |osd: &OsdId| members.acting.contains(osd) || members.up.contains(osd);
        let strays: Vec<OsdId> = holders.filter(|osd| !wanted(osd)).collect();
        strays.into_iter().for_each(|osd| self.send(osd, &Body::Remove));
    }

    pub(crate) fn told_to_remove(&mut self) {
        if self.state == State::Stray {
            self.remove();
        }
    }

    /// Gives up this copy and its data.
    pub fn remove(&mut self) {
        self.state = State::Stray;
        self.forget_peers();
        let mut transaction = Transaction::new();
        transaction.push(self.collection, Change::RemoveCollection);
        self.created = false;
        self.info = PgInfo::default();
        self.log = PgLog::default();
        self.missing.clear();
        self.committed = EVersion::ZERO;
        self.commit(Tag::Removed, transaction);
    }
}
