//! Heartbeats: OSDs watch each other, and tell a monitor who does not answer.
//!
//! Every OSD asks those that it shares groups with, and a few on other machines, on sessions of
//! their own, so that no bulk data delays question or answer. Who owes an answer for longer than the
//! grace is reported, again and again while that is so; when it answers, the report is taken back.
//!
//! Invariants:
//! * Only time in which this OSD itself was awake counts against others (`clock`).
//! * What is reported is what was seen, nothing is concluded: whom to believe is the monitors' affair.
//! * An OSD is asked as it is in the map: an answer of another incarnation is none.
//! * What an OSD owed before it was marked down does not count against the life that it begins then,
//!   be it the same process at the same address.

mod circle;
mod clock;
mod partner;

#[cfg(test)]
mod tests;

use crate::osd::Stage;
use crate::{Osd, limits};
use clock::AwakeClock;
use engine::{ConnId, ConnectTarget, Duration, Message, Output, Policy, Time};
use partner::{Judgement, Partner};
use std::collections::{BTreeMap, BTreeSet};
use types::features::SUPPORTED;
use types::{EntityAddrVec, EntityType, Epoch, OsdId, ParticipantName};
use wire::internal::Heartbeat;
use wire::{MessageBody, OsdFailure};

#[derive(Debug, Default)]
pub(crate) struct Heartbeats {
    clock: AwakeClock,
    partners: BTreeMap<OsdId, Partner>,
    by_conn: BTreeMap<ConnId, OsdId>,
    /// The map that `partners` were chosen by.
    chosen: Epoch,
    /// When partners are asked next; only while this OSD is up.
    due: Option<Time>,
}

impl Heartbeats {
    pub fn due(&self) -> Option<Time> {
        self.due
    }

    /// Groups have other members.
    pub fn choose_anew(&mut self) {
        self.chosen = Epoch(0);
    }

    /// For how long an OSD has owed an answer.
    pub fn silence(&self, now: Time, osd: OsdId) -> Duration {
        let awake = self.clock.at(now);
        self.partners.get(&osd).map_or(Duration::ZERO, |partner| partner.silence(awake))
    }

    /// A question to a partner gets lost.
    #[cfg(test)]
    pub fn lose_question(&mut self, now: Time, osd: OsdId) {
        let awake = self.clock.at(now);
        let partner = self.partners.get_mut(&osd).expect("it is watched");
        partner.ask(Time::FAR_FUTURE, awake);
    }

    /// How long each partner takes to answer on average.
    pub fn round_trips(&self) -> impl Iterator<Item = (OsdId, Duration)> + '_ {
        self.partners.iter().filter_map(|(osd, partner)| Some((*osd, partner.round_trip()?)))
    }

    /// The slowest partner whose answers take long, and how long they take on average.
    fn slowest(&self) -> Option<(OsdId, Duration)> {
        let slow = |(osd, partner): (&OsdId, &Partner)| {
            let time = partner.round_trip()?;
            (time >= limits::SLOW_HEARTBEAT).then_some((*osd, time))
        };
        self.partners.iter().filter_map(slow).max_by_key(|(_, time)| *time)
    }
}

impl Osd {
    /// Asks all partners, and judges those that have not answered.
    pub(crate) fn heartbeat_if_due(&mut self, now: Time) {
        if self.stage != Stage::Up {
            return self.stop_heartbeats();
        }
        let due = *self.heartbeats.due.get_or_insert(now);
        if now < due {
            return;
        }
        self.heartbeats.clock.woke(due, now);
        // Only groups that know the map tell who their members are.
        if !self.placing.is_on() {
            self.choose_partners();
        }
        let osds: Vec<OsdId> = self.heartbeats.partners.keys().copied().collect();
        for osd in osds {
            self.judge_partner(now, osd);
            self.ask_partner(now, osd);
        }
        self.heartbeats.due =
            Some(now + self.options.heartbeat_interval.max(limits::HEARTBEAT_MIN));
    }

    fn stop_heartbeats(&mut self) {
        for conn in std::mem::take(&mut self.heartbeats.by_conn).into_keys() {
            self.outputs.push_back(Output::Close { conn });
        }
        let clock = std::mem::take(&mut self.heartbeats.clock);
        self.heartbeats = Heartbeats { clock, ..Heartbeats::default() };
    }

    /// Those whom the newest map shows up, each at its address there and in that life: it may have been
    /// marked down and have come up again since the last question.
    fn choose_partners(&mut self) {
        if std::mem::replace(&mut self.heartbeats.chosen, self.map.epoch) == self.map.epoch {
            return;
        }
        let members = self.groups.values().flat_map(|group| {
            let members = group.pg.members();
            members.acting.iter().chain(&members.up).copied()
        });
        let members: BTreeSet<OsdId> = members.collect();
        let wanted = circle::choose(&self.map, self.config.id, members);
        let map = &self.map;
        let same = |osd: &OsdId, partner: &Partner| {
            wanted.contains(osd)
                && map.client_addrs(*osd) == Some(partner.addrs())
                && map.osd(*osd).is_some_and(|known| known.info.up_from == partner.up_from())
        };
        let partners = std::mem::take(&mut self.heartbeats.partners);
        let (kept, gone): (BTreeMap<_, _>, _) =
            partners.into_iter().partition(|(osd, partner)| same(osd, partner));
        self.heartbeats.partners = kept;
        let gone: BTreeMap<OsdId, Partner> = gone;
        for conn in gone.values().filter_map(Partner::conn) {
            self.heartbeats.by_conn.remove(&conn);
            self.outputs.push_back(Output::Close { conn });
        }
        for osd in wanted {
            if let Some(known) = self.map.osd(osd).filter(|known| known.is_up()) {
                let partner = || Partner::new(known.client_addrs.clone(), known.info.up_from);
                self.heartbeats.partners.entry(osd).or_insert_with(partner);
            }
        }
    }

    fn judge_partner(&mut self, now: Time, osd: OsdId) {
        let awake = self.heartbeats.clock.at(now);
        let grace = self.options.heartbeat_grace;
        let Some(partner) = self.heartbeats.partners.get_mut(&osd) else { return };
        let judgement = partner.judge(awake, grace);
        let addrs = partner.addrs().clone();
        let Judgement::Silent { since, session_is_old } = judgement else { return };
        tracing::debug!(own = %self.config.id, peer = %osd, ?since, "no answer to heartbeats");
        self.report_failure(osd, addrs, OsdFailure::FAILED, since);
        // Should the network be mended, the old connection would find out late.
        if session_is_old && let Some(conn) = self.partner_closed(osd) {
            self.outputs.push_back(Output::Close { conn });
        }
    }

    fn ask_partner(&mut self, now: Time, osd: OsdId) {
        let awake = self.heartbeats.clock.at(now);
        let Some(partner) = self.heartbeats.partners.get_mut(&osd) else { return };
        partner.ask(now, awake);
        let conn = match partner.conn() {
            Some(conn) => conn,
            None => self.connect_to_partner(now, osd),
        };
        let question = Heartbeat { is_answer: false, stamp: now.0, epoch: self.epoch() };
        self.send(conn, question.encode(SUPPORTED));
    }

    fn connect_to_partner(&mut self, now: Time, osd: OsdId) -> ConnId {
        let conn = self.new_conn();
        let awake = self.heartbeats.clock.at(now);
        let partner = self.heartbeats.partners.get_mut(&osd).expect("the caller has it");
        partner.connected(conn, awake);
        let participant = ParticipantName::new(EntityType::OSD, osd.0.into());
        let addrs = partner.addrs().clone();
        let target = ConnectTarget { participant, addrs, policy: Policy::Lossy };
        self.heartbeats.by_conn.insert(conn, osd);
        self.outputs.push_back(Output::Connect { conn, target });
        conn
    }

    /// A question is answered where it came from, and an answer noted.
    pub(crate) fn take_heartbeat(&mut self, now: Time, conn: ConnId, heartbeat: &Heartbeat) {
        if !heartbeat.is_answer {
            let answer = Heartbeat { is_answer: true, epoch: self.epoch(), ..heartbeat.clone() };
            return self.send(conn, answer.encode(SUPPORTED));
        }
        let Some(osd) = self.heartbeats.by_conn.get(&conn).copied() else { return };
        let Some(partner) = self.heartbeats.partners.get_mut(&osd) else { return };
        if partner.answered(now, Time(heartbeat.stamp)) {
            let addrs = partner.addrs().clone();
            tracing::debug!(own = %self.config.id, peer = %osd, "answers heartbeats again");
            self.report_failure(osd, addrs, STILL_ALIVE, Duration::ZERO);
        }
    }

    /// The session of a partner has ended. It is opened again when the next question is due; if it had
    /// served, at once, for if the partner has ended as well, its kernel says so.
    pub(crate) fn heartbeat_closed(&mut self, now: Time, conn: ConnId) -> bool {
        let Some(osd) = self.heartbeats.by_conn.get(&conn).copied() else { return false };
        let served = self.heartbeats.partners.get(&osd).is_some_and(Partner::has_answered);
        self.partner_closed(osd);
        if served && self.stage == Stage::Up {
            self.connect_to_partner(now, osd);
        }
        true
    }

    fn partner_closed(&mut self, osd: OsdId) -> Option<ConnId> {
        let conn = self.heartbeats.partners.get_mut(&osd)?.closed()?;
        self.heartbeats.by_conn.remove(&conn);
        Some(conn)
    }

    /// Nobody listens at an OSD's address: it does not run, so there is nothing to wait for. A
    /// lossless session goes on trying, should the monitor not believe it.
    pub(crate) fn refused(&mut self, conn: ConnId) {
        let watched = self.heartbeats.by_conn.get(&conn).and_then(|osd| {
            let partner = self.heartbeats.partners.get(osd)?;
            Some((*osd, partner.addrs().clone()))
        });
        // Of where it was looked for: it may have another address meanwhile.
        let Some((osd, addrs)) = watched.or_else(|| self.peers.address_of(conn)) else { return };
        let dead = OsdFailure::FAILED | OsdFailure::IMMEDIATE | OsdFailure::DEAD;
        self.report_failure(osd, addrs, dead, Duration::ZERO);
    }

    /// Another monitor listens, which has not heard what was reported.
    pub(crate) fn repeat_heartbeat_reports(&mut self, now: Time) {
        let partners = self.heartbeats.partners.iter_mut();
        let silent = partners.filter_map(|(osd, partner)| partner.report_again().then_some(*osd));
        let silent: Vec<OsdId> = silent.collect();
        silent.into_iter().for_each(|osd| self.judge_partner(now, osd));
    }

    pub(crate) fn report_failure(
        &mut self,
        target: OsdId,
        target_addrs: EntityAddrVec,
        flags: u8,
        failed_for: Duration,
    ) {
        let Some(monitor) = self.monitor.conn() else { return };
        let failure = OsdFailure {
            version: self.epoch().0.into(),
            fsid: self.config.fsid,
            target,
            target_addrs,
            epoch: self.epoch(),
            flags,
            failed_for_seconds: i32::try_from(failed_for.as_secs()).unwrap_or(i32::MAX),
        };
        let message: Message = failure.encode(SUPPORTED);
        self.send(monitor, message);
    }

    /// What health says of answers that take long, by check name.
    pub(crate) fn heartbeat_health(&self) -> BTreeMap<String, String> {
        let slowest = self.heartbeats.slowest().map(|(osd, time)| {
            let (own, milliseconds) = (self.config.id, time.as_millis());
            let text =
                format!("Slow OSD heartbeats from osd.{own} to osd.{osd} {milliseconds} msec");
            ("OSD_SLOW_PING_TIME_BACK".to_owned(), text)
        });
        slowest.into_iter().collect()
    }
}

/// An [`OsdFailure`] that takes back an earlier one.
const STILL_ALIVE: u8 = 0;
