//! GetLog and GetMissing: the primary follows the authoritative log, and learns what its members miss.

use crate::merge;
use crate::message::{Body, LogPart};
use crate::role::{Role, Stage};
use crate::{Missing, Pg, PgLog, State, Tag};
use types::{EVersion, HObject, OsdId};

/// The log in a message; `None` if its entries contradict its tail or head.
pub(crate) fn log_of(tail: EVersion, entries: &[crate::LogEntry], head: EVersion) -> Option<PgLog> {
    let above_tail = entries.first().is_none_or(|first| first.version > tail);
    let sorted = entries.windows(2).all(|pair| pair[0].version < pair[1].version);
    let last = entries.last().map_or(tail, |last| last.version);
    (above_tail && sorted && last == head).then(|| PgLog::new(tail, entries.iter().cloned()))
}

impl Pg {
    /// Adopts the log of this OSD, which may be this one.
    pub(crate) fn follow(&mut self, authority: OsdId) {
        self.known.authority = Some(authority);
        if authority == self.core.own.whoami {
            return self.ask_what_is_missing();
        }
        self.role = Role::Primary(Stage::GetLog);
        self.core.send(authority, &Body::LogRequest);
    }

    /// Sends our log and missing set to the primary.
    pub(crate) fn asked_for_log(&mut self, from: OsdId) {
        let part = LogPart {
            info: self.core.copy.info.clone(),
            tail: self.core.copy.log.tail(),
            entries: self.core.copy.log.entries().cloned().collect(),
            missing: self.core.copy.missing.clone(),
        };
        self.core.send(from, &Body::Log(Box::new(part)));
    }

    /// Takes a log: the authoritative one, a participant's, or a stray's.
    pub(crate) fn told_log(&mut self, from: OsdId, part: LogPart) {
        let Some(theirs) = log_of(part.tail, &part.entries, part.info.last_update) else {
            tracing::error!(pg = %self.core.own.id, %from, "its log contradicts its info");
            return;
        };
        match self.state() {
            State::GetLog if self.known.authority == Some(from) => self.adopt(from, &part, &theirs),
            State::GetMissing if self.known.waiting.remove(&from) => {
                self.compare_log(from, &part, &theirs);
                match self.core.placement.members.acting.contains(&from)
                    && !self.known.peer_mut(from).is_missing_known
                {
                    true => self.cannot_follow(from),
                    false => self.go_on_when_known(),
                }
            }
            State::Active | State::Inactive => {
                self.compare_log(from, &part, &theirs);
                self.with(|service| {
                    service.serving.recovery.retry();
                    service.tell_lost();
                });
            }
            _ => {}
        }
    }

    /// Merges the authoritative log into our copy.
    fn adopt(&mut self, from: OsdId, part: &LogPart, theirs: &PgLog) {
        let (missing, last_backfill) =
            (&self.core.copy.missing, &self.core.copy.info.last_backfill);
        let Some(merged) = merge::merge(&self.core.copy.log, missing, last_backfill, theirs) else {
            tracing::error!(pg = %self.core.own.id, %from, "the log to follow does not overlap with ours");
            self.role = Role::Primary(Stage::Incomplete);
            return;
        };
        let history = self.core.copy.info.history;
        let last_epoch_started = self.core.copy.info.last_epoch_started;
        let last_backfill = self.core.copy.info.last_backfill.clone();
        let info =
            crate::PgInfo { history, last_epoch_started, last_backfill, ..part.info.clone() };
        self.core.take_merged(merged, info, Tag::Progress);
        let peer = self.known.peer_mut(from);
        peer.missing = part.missing.clone();
        peer.is_missing_known = true;
        self.ask_what_is_missing();
    }

    /// Determines what each participant will miss when it follows our log. A participant whose head our log
    /// contains, and which misses nothing, need not be asked for its log.
    fn ask_what_is_missing(&mut self) {
        self.role = Role::Primary(Stage::GetMissing);
        self.known.waiting.clear();
        for member in self.agreed.participants.without(self.core.own.whoami) {
            if self.known.peer_mut(member).is_missing_known {
                continue;
            }
            let peer = self.known.peer_mut(member);
            let info = peer.info.get_or_insert_default();
            let (head, has_missing) = (info.last_update, peer.missing_count > 0);
            match self.core.copy.log.contains(head) && !has_missing {
                true => self.expect_to_follow(member, head),
                false => {
                    self.known.waiting.insert(member);
                    self.core.send(member, &Body::LogRequest);
                }
            }
        }
        // Strays may have objects that we miss.
        let (log, participants) = (&self.core.copy.log, &self.agreed.participants);
        for (osd, peer) in &mut self.known.peers {
            let known = peer.info.as_ref().is_some_and(|info| log.contains(info.last_update));
            if !participants.contains(osd) && known && peer.missing_count == 0 {
                peer.is_missing_known = true;
            }
        }
        self.go_on_when_known();
    }

    fn expect_to_follow(&mut self, member: OsdId, head: EVersion) {
        let info = self.known.peers[&member].info.clone().unwrap_or_default();
        let theirs = PgLog::new(head, []);
        let merged =
            merge::merge(&theirs, &Missing::default(), &info.last_backfill, &self.core.copy.log);
        let peer = self.known.peer_mut(member);
        peer.missing = merged.map(|merged| merged.missing).unwrap_or_default();
        peer.is_missing_known = true;
    }

    fn compare_log(&mut self, from: OsdId, part: &LogPart, theirs: &PgLog) {
        let last_backfill = part.info.last_backfill.clone();
        let merged = merge::merge(theirs, &part.missing, &last_backfill, &self.core.copy.log);
        let is_participant = self.agreed.participants.contains(&from);
        let peer = self.known.peer_mut(from);
        peer.info = Some(part.info.clone());
        let parted = |merged: &merge::Merged| !is_participant && merged.divergent > 0;
        peer.is_incomparable = merged.as_ref().is_none_or(parted);
        if peer.is_incomparable && !is_participant {
            peer.missing = part.missing.clone();
        }
        match merged {
            // A stray does not follow our log.
            Some(merged) if !is_participant => {
                peer.is_missing_known = merged.divergent == 0;
                peer.missing = part.missing.clone();
            }
            Some(merged) => {
                peer.is_missing_known = true;
                peer.missing = merged.missing;
            }
            None => {
                tracing::debug!(pg = %self.core.own.id, %from, "its log does not overlap with ours")
            }
        }
    }

    /// A member that was expected to follow the log needs backfill.
    fn cannot_follow(&mut self, member: OsdId) {
        tracing::warn!(pg = %self.core.own.id, %member, "its log does not overlap with ours");
        let info = self.known.peer_mut(member).info.get_or_insert_default();
        info.last_backfill = HObject::default();
        self.role = Role::Primary(Stage::GetInfo);
        self.known.waiting.clear();
        self.choose_authority();
    }

    fn go_on_when_known(&mut self) {
        if self.known.waiting.is_empty() {
            self.wait_up_thru();
        }
    }
}
