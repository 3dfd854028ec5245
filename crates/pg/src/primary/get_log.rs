//! GetLog and GetMissing: the primary follows the authoritative log, and learns what its members miss.

use super::stage::{Primary, Stage};
use crate::Member;
use crate::backend::Backend;
use crate::core::{Core, Tag, settling};
use crate::members::Participants;
use crate::merge::{self, Side};
use crate::message::{Body, LogPart};
use crate::peers::{Known, Peer};
use crate::serving::Agreed;
use crate::{Missing, PgLog};
use std::collections::BTreeSet;
use types::{EVersion, HObject};

/// The log in a message; `None` if its entries contradict its tail or head.
pub(crate) fn log_of(tail: EVersion, entries: &[crate::LogEntry], head: EVersion) -> Option<PgLog> {
    let above_tail = entries.first().is_none_or(|first| first.version > tail);
    let sorted = entries.windows(2).all(|pair| pair[0].version < pair[1].version);
    let last = entries.last().map_or(tail, |last| last.version);
    (above_tail && sorted && last == head).then(|| PgLog::new(tail, entries.iter().cloned()))
}

impl Primary {
    /// Requests the logs of these members, to find out which entries are in enough of them.
    pub(super) fn ask_for_logs(&mut self, core: &mut Core, members: Vec<Member>) {
        assert!(!members.contains(&core.own.whoami), "the own log is known");
        members.iter().for_each(|member| core.send(*member, &Body::LogRequest));
        self.stage = Stage::CompareLogs { waiting: members.into_iter().collect() };
    }

    /// Adopts the log of this OSD, which may be this one, up to `head`.
    pub(super) fn follow(
        &mut self,
        core: &mut Core,
        authority: Member,
        head: EVersion,
        agreed: Agreed,
    ) {
        self.known.logs.clear();
        if authority != core.own.whoami {
            self.stage = Stage::GetLog { agreed, authority, head };
            return core.send(authority, &Body::LogRequest);
        }
        if head < core.copy.log.head() {
            let log = core.copy.log.through(head);
            let Some(merged) = merge::merge(core.placement.backend, core.side(), &log) else {
                return self.refuse_log(core, authority);
            };
            let info = core.copy.info.clone();
            let settled = info.settled();
            core.take_merged(merged, info, settled, Tag::Progress);
        }
        // Members learn from us which removals are certain: they cannot hold very many.
        let certain = self.known.certain(core, &core.copy.log, head);
        settling::settle(core, certain);
        self.ask_what_is_missing(core, agreed);
    }

    /// The log to follow does not go with ours.
    fn refuse_log(&mut self, core: &Core, from: Member) {
        tracing::error!(pg = %core.own.id, %from, "the log to follow does not overlap with ours");
        self.stage = Stage::Incomplete;
    }

    /// Our copy has settled what the log to follow does not have: others serve, and ours is backfilled. The
    /// log tells whether that is so with others.
    fn give_way(&mut self, core: &mut Core, from: Member, part: &LogPart, theirs: &PgLog) {
        tracing::error!(pg = %core.own.id, %from, "the log to follow does not overlap with ours, or lacks what we have settled: others serve, and this copy is backfilled");
        self.known.cannot_follow = true;
        self.known.logs.insert(from, (theirs.clone(), part.missing.clone()));
        self.stage = Stage::get_info();
        self.choose_authority(core);
    }

    /// Takes a log: the authoritative one, a participant's, or a stray's.
    pub fn handle_log(&mut self, core: &mut Core, from: Member, part: &LogPart) {
        let Some(theirs) = log_of(part.tail, &part.entries, part.info.last_update) else {
            tracing::error!(pg = %core.own.id, %from, "its log contradicts its info");
            return;
        };
        match &mut self.stage {
            Stage::CompareLogs { waiting } if waiting.contains(&from) => {
                waiting.remove(&from);
                let is_last = waiting.is_empty();
                self.known.logs.insert(from, (theirs, part.missing.clone()));
                if is_last {
                    self.stage = Stage::get_info();
                    self.choose_authority(core);
                }
            }
            Stage::GetLog { agreed, authority, head } if *authority == from => {
                let (agreed, head) = (std::mem::take(agreed), *head);
                self.adopt(core, from, part, &theirs, head, agreed);
            }
            Stage::GetMissing { agreed, waiting } if waiting.contains(&from) => {
                waiting.remove(&from);
                self.known.compare_log(core, &agreed.participants, from, part, &theirs);
                let must_follow = core.placement.members.is_acting(from);
                if must_follow && !self.known.peer_mut(from).is_missing_known {
                    self.cannot_follow(core, from);
                } else if waiting.is_empty() {
                    let agreed = std::mem::take(agreed);
                    self.wait_up_thru(core, agreed);
                }
            }
            Stage::Active(serving) | Stage::Inactive(serving) => {
                // A participant follows our log, and its missing objects are counted already.
                if serving.agreed.participants.contains(&from) {
                    return;
                }
                self.known.compare_log(core, &serving.agreed.participants, from, part, &theirs);
                self.known.settle_stray(core, from);
                serving.recovery.retry();
                if let Some(mut service) = self.service(core) {
                    service.report_lost();
                }
            }
            _ => {}
        }
    }

    /// Merges the authoritative log into our copy, up to `head`.
    fn adopt(
        &mut self,
        core: &mut Core,
        from: Member,
        part: &LogPart,
        theirs: &PgLog,
        head: EVersion,
        agreed: Agreed,
    ) {
        if head < theirs.tail() || !theirs.contains(head) {
            return self.refuse_log(core, from); // it is not the log that its info promised
        }
        let cut = (head < theirs.head()).then(|| theirs.through(head));
        let to_follow = cut.as_ref().unwrap_or(theirs);
        let Some(merged) = merge::merge(core.placement.backend, core.side(), to_follow) else {
            return match core.placement.backend {
                Backend::Replicated => self.refuse_log(core, from),
                Backend::Erasure(_) => self.give_way(core, from, part, theirs),
            };
        };
        let own = &core.copy.info;
        // With the log comes all that the other copy knew by taking part in its last activation.
        let last_epoch_started = own.last_epoch_started.max(part.info.last_epoch_started);
        let info = crate::PgInfo {
            history: own.history,
            last_epoch_started,
            last_backfill: own.last_backfill.clone(),
            ..part.info.clone()
        };
        let certain = self.known.certain(core, theirs, head);
        core.take_merged(merged, info, certain, Tag::Progress);
        match core.placement.backend {
            Backend::Replicated => {
                let peer = self.known.peer_mut(from);
                peer.missing = part.missing.clone();
                peer.is_missing_known = true;
            }
            Backend::Erasure(_) => {
                self.known.compare_log(core, &agreed.participants, from, part, theirs);
            }
        }
        self.ask_what_is_missing(core, agreed);
    }

    /// Determines what each participant will miss when it follows our log. A participant whose head our log
    /// contains, and which misses nothing, need not be asked for its log.
    fn ask_what_is_missing(&mut self, core: &mut Core, agreed: Agreed) {
        let mut waiting = BTreeSet::new();
        for member in agreed.participants.without(core.own.whoami) {
            let peer = self.known.peer_mut(member);
            if !peer.is_missing_known
                && !peer.is_sure_to_follow(core.placement.backend, &core.copy.log)
            {
                waiting.insert(member);
                core.send(member, &Body::LogRequest);
            }
        }
        // Strays may have objects that we miss.
        let (log, participants) = (&core.copy.log, &agreed.participants);
        for (osd, peer) in &mut self.known.peers {
            let known = peer.info.as_ref().is_some_and(|info| log.contains(info.last_update));
            if !participants.contains(osd) && known && peer.missing_count == 0 {
                peer.is_missing_known = true;
            }
        }
        match waiting.is_empty() {
            true => self.wait_up_thru(core, agreed),
            false => self.stage = Stage::GetMissing { agreed, waiting },
        }
    }

    /// A member that was expected to follow the log needs backfill.
    fn cannot_follow(&mut self, core: &mut Core, member: Member) {
        tracing::warn!(pg = %core.own.id, %member, "its log does not overlap with ours");
        let info = self.known.peer_mut(member).info.get_or_insert_default();
        info.last_backfill = HObject::default();
        self.stage = Stage::get_info();
        self.choose_authority(core);
    }
}

impl Peer {
    /// Determines what it will miss if our log contains its head and it misses nothing now; whether that is
    /// so.
    fn is_sure_to_follow(&mut self, backend: Backend, log: &PgLog) -> bool {
        let info = self.info.get_or_insert_default();
        if !log.contains(info.last_update) || self.missing_count > 0 {
            return false;
        }
        let theirs = PgLog::new(info.last_update, []);
        let (missing, last_backfill) = (&Missing::default(), &info.last_backfill);
        let side = Side { log: &theirs, missing, last_backfill, settled: info.settled() };
        let merged = merge::merge(backend, side, log);
        self.missing = merged.map(|merged| merged.missing).unwrap_or_default();
        self.is_missing_known = true;
        true
    }
}

impl Known {
    /// The newest version of this log up to `head` that a complete shard has settled: it was committed. What
    /// a shard has settled and the log does not have is of a copy that has parted from it, and no copy may
    /// take it for settled: the others would seem to have parted, too. Zero in a replicated group.
    fn certain(&self, core: &Core, log: &PgLog, head: EVersion) -> EVersion {
        let empty = crate::PgInfo::default();
        let infos = self.infos(core, &empty);
        let shards = infos.values().filter(|info| info.shard.is_some() && info.is_complete());
        let settled = shards.map(|info| info.settled());
        settled.filter(|at| *at <= head && log.contains(*at)).max().unwrap_or_default()
    }

    /// Has a stray settle the history that it has in common with us, which is committed: it may have the
    /// last shard of an object.
    pub(super) fn settle_stray(&self, core: &mut Core, stray: Member) {
        let Some(peer) = self.peers.get(&stray).filter(|peer| peer.is_missing_known) else {
            return;
        };
        let is_member = core.placement.members.has_member(stray);
        if is_member || core.placement.code.is_none() || !core.placement.can_serve() {
            return;
        }
        if let Some(info) = &peer.info {
            let common = info.last_update.min(core.copy.committed);
            core.send(stray, &Body::Settle(common));
        }
    }

    /// Compares another copy's log with ours: what it will miss, or, of a stray, what it misses.
    fn compare_log(
        &mut self,
        core: &Core,
        participants: &Participants,
        from: Member,
        part: &LogPart,
        theirs: &PgLog,
    ) {
        let backend = core.placement.backend;
        let missing = part.missing.clone();
        let (last_backfill, settled) = (&part.info.last_backfill, part.info.settled());
        let side = Side { log: theirs, missing: &missing, last_backfill, settled };
        let merged = merge::merge(backend, side, &core.copy.log);
        let is_participant = participants.contains(&from);
        let peer = self.peer_mut(from);
        peer.info = Some(part.info.clone());
        if let (Backend::Erasure(_), Some(merged), false) = (backend, &merged, is_participant) {
            // It holds the changes beyond our log: its objects have the versions of the common history.
            peer.missing = side.missing_at(merged.common);
            (peer.is_missing_known, peer.is_incomparable) = (true, false);
            peer.info = Some(crate::PgInfo { last_update: merged.common, ..part.info.clone() });
            return;
        }
        let parted = |merged: &merge::Merged| !is_participant && merged.divergent > 0;
        peer.is_incomparable = merged.as_ref().is_none_or(parted);
        if peer.is_incomparable && !is_participant {
            peer.missing = missing.clone();
        }
        match merged {
            // A stray does not follow our log.
            Some(merged) if !is_participant => {
                peer.is_missing_known = merged.divergent == 0;
                peer.missing = missing;
            }
            Some(merged) => {
                peer.is_missing_known = true;
                peer.missing = merged.missing;
            }
            None => {
                tracing::debug!(pg = %core.own.id, %from, "its log does not overlap with ours")
            }
        }
    }
}
