//! Heartbeats and failure detection: OSDs ping each other and report silent peers to a monitor.
//!
//! Every OSD pings those that it shares groups with, and a few on other hosts, over separate sessions, so
//! that bulk data delays neither pings nor answers. A peer whose answer is overdue by more than the grace is
//! reported, repeatedly while that lasts; when it answers, the report is withdrawn.
//!
//! Invariants:
//! * Only time in which this OSD itself was awake counts against peers (`clock`).
//! * Reports contain observations only; the monitors decide which to believe.
//! * A ping is for one incarnation, as in the map: an answer of another one does not count.
//! * Unanswered pings from before a peer was marked down do not count against its next incarnation,
//!   even if that is the same process at the same address.

mod circle;
mod clock;
mod partner;

#[cfg(test)]
mod tests;

use crate::env::Stage;
use crate::{Osd, limits};
use clock::AwakeClock;
use engine::{ConnId, ConnectTarget, Duration, Message, Output, Policy, Time};
use partner::{Judgement, Partner};
use std::collections::{BTreeMap, BTreeSet};
use types::features::SUPPORTED;
use types::{EntityAddrVec, EntityType, Epoch, OsdId, ParticipantName};
use wire::internal::Heartbeat;
use wire::{MessageBody, OsdFailure};

/// The peers that this OSD pings.
#[derive(Debug, Default)]
pub(crate) struct Heartbeats {
    clock: AwakeClock,
    partners: BTreeMap<OsdId, Partner>,
    by_conn: BTreeMap<ConnId, OsdId>,
    /// The epoch by which `partners` were chosen.
    chosen: Epoch,
    /// When the next pings are due; `None` unless this OSD is up.
    due: Option<Time>,
}

impl Heartbeats {
    pub fn due(&self) -> Option<Time> {
        self.due
    }

    /// Chooses the partners again at the next ping, because groups have other members.
    pub fn choose_anew(&mut self) {
        self.chosen = Epoch(0);
    }

    /// Age of the oldest unanswered ping to an OSD.
    pub fn silence(&self, now: Time, osd: OsdId) -> Duration {
        let awake = self.clock.at(now);
        self.partners.get(&osd).map_or(Duration::ZERO, |partner| partner.silence(awake))
    }

    /// Simulates the loss of a ping.
    #[cfg(test)]
    pub fn lose_question(&mut self, now: Time, osd: OsdId) {
        let awake = self.clock.at(now);
        let partner = self.partners.get_mut(&osd).expect("it is watched");
        partner.ask(Time::FAR_FUTURE, awake);
    }

    /// Average round trip to each partner.
    pub fn round_trips(&self) -> impl Iterator<Item = (OsdId, Duration)> + '_ {
        self.partners.iter().filter_map(|(osd, partner)| Some((*osd, partner.round_trip()?)))
    }

    /// The partner with the slowest average round trip, if that exceeds [`limits::SLOW_HEARTBEAT`].
    fn slowest(&self) -> Option<(OsdId, Duration)> {
        let slow = |(osd, partner): (&OsdId, &Partner)| {
            let time = partner.round_trip()?;
            (time >= limits::SLOW_HEARTBEAT).then_some((*osd, time))
        };
        self.partners.iter().filter_map(slow).max_by_key(|(_, time)| *time)
    }
}

impl Osd {
    /// Pings all partners and reports silent ones, if due.
    pub(crate) fn heartbeat_if_due(&mut self, now: Time) {
        if self.env.stage != Stage::Up {
            return self.stop_heartbeats();
        }
        let due = *self.heartbeats.due.get_or_insert(now);
        if now < due {
            return;
        }
        self.heartbeats.clock.woke(due, now);
        // Groups know their members only when they have handled the map.
        if !self.maps.is_telling() {
            self.choose_partners();
        }
        let osds: Vec<OsdId> = self.heartbeats.partners.keys().copied().collect();
        for osd in osds {
            self.judge_partner(now, osd);
            self.ask_partner(now, osd);
        }
        self.heartbeats.due =
            Some(now + self.env.options.heartbeat_interval.max(limits::HEARTBEAT_MIN));
    }

    fn stop_heartbeats(&mut self) {
        for conn in std::mem::take(&mut self.heartbeats.by_conn).into_keys() {
            self.outbox.push(Output::Close { conn });
        }
        let clock = std::mem::take(&mut self.heartbeats.clock);
        self.heartbeats = Heartbeats { clock, ..Heartbeats::default() };
    }

    /// Chooses the partners by the newest map. One with another address or another `up_from` is a
    /// new partner: it may have been down since the last ping.
    fn choose_partners(&mut self) {
        if std::mem::replace(&mut self.heartbeats.chosen, self.maps.map().epoch)
            == self.maps.map().epoch
        {
            return;
        }
        let members = self.groups.by_id.values().flat_map(|group| {
            let members = group.pg.members();
            members.acting.iter().chain(&members.up).copied()
        });
        let members: BTreeSet<OsdId> = members.collect();
        let wanted = circle::choose(self.maps.map(), self.env.config.id, members);
        let map = self.maps.map();
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
            self.outbox.push(Output::Close { conn });
        }
        for osd in wanted {
            if let Some(known) = self.maps.map().osd(osd).filter(|known| known.is_up()) {
                let partner = || Partner::new(known.client_addrs.clone(), known.info.up_from);
                self.heartbeats.partners.entry(osd).or_insert_with(partner);
            }
        }
    }

    fn judge_partner(&mut self, now: Time, osd: OsdId) {
        let awake = self.heartbeats.clock.at(now);
        let grace = self.env.options.heartbeat_grace;
        let Some(partner) = self.heartbeats.partners.get_mut(&osd) else { return };
        let judgement = partner.judge(awake, grace);
        let addrs = partner.addrs().clone();
        let Judgement::Silent { since, session_is_old } = judgement else { return };
        tracing::debug!(own = %self.env.config.id, peer = %osd, ?since, "no answer to heartbeats");
        self.report_failure(osd, addrs, OsdFailure::FAILED, since);
        // When the network heals, the old connection would notice late.
        if session_is_old && let Some(conn) = self.partner_closed(osd) {
            self.outbox.push(Output::Close { conn });
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
        let conn = self.clients.new_conn();
        let awake = self.heartbeats.clock.at(now);
        let partner = self.heartbeats.partners.get_mut(&osd).expect("the caller has it");
        partner.connected(conn, awake);
        let participant = ParticipantName::new(EntityType::OSD, osd.0.into());
        let addrs = partner.addrs().clone();
        let target = ConnectTarget { participant, addrs, policy: Policy::Lossy };
        self.heartbeats.by_conn.insert(conn, osd);
        self.outbox.push(Output::Connect { conn, target });
        conn
    }

    /// Answers a ping over its session, or notes an answer.
    pub(crate) fn take_heartbeat(&mut self, now: Time, conn: ConnId, heartbeat: &Heartbeat) {
        if !heartbeat.is_answer {
            let answer = Heartbeat { is_answer: true, epoch: self.epoch(), ..heartbeat.clone() };
            return self.send(conn, answer.encode(SUPPORTED));
        }
        let Some(osd) = self.heartbeats.by_conn.get(&conn).copied() else { return };
        let Some(partner) = self.heartbeats.partners.get_mut(&osd) else { return };
        if partner.answered(now, Time(heartbeat.stamp)) {
            let addrs = partner.addrs().clone();
            tracing::debug!(own = %self.env.config.id, peer = %osd, "answers heartbeats again");
            self.report_failure(osd, addrs, STILL_ALIVE, Duration::ZERO);
        }
    }

    /// The session to a partner has ended; false if it was none. It is opened again with the next
    /// ping; immediately if it had brought an answer, because if the partner has died, its kernel
    /// refuses the connection.
    pub(crate) fn heartbeat_closed(&mut self, now: Time, conn: ConnId) -> bool {
        let Some(osd) = self.heartbeats.by_conn.get(&conn).copied() else { return false };
        let served = self.heartbeats.partners.get(&osd).is_some_and(Partner::has_answered);
        self.partner_closed(osd);
        if served && self.env.stage == Stage::Up {
            self.connect_to_partner(now, osd);
        }
        true
    }

    fn partner_closed(&mut self, osd: OsdId) -> Option<ConnId> {
        let conn = self.heartbeats.partners.get_mut(&osd)?.closed()?;
        self.heartbeats.by_conn.remove(&conn);
        Some(conn)
    }

    /// The connection to an OSD was refused: its process does not run, so it is reported
    /// immediately. A lossless session keeps trying, in case the monitor does not agree.
    pub(crate) fn refused(&mut self, conn: ConnId) {
        let watched = self.heartbeats.by_conn.get(&conn).and_then(|osd| {
            let partner = self.heartbeats.partners.get(osd)?;
            Some((*osd, partner.addrs().clone()))
        });
        // The address that was tried: the OSD may have another one by now.
        let Some((osd, addrs)) = watched.or_else(|| self.peers.address_of(conn)) else { return };
        let dead = OsdFailure::FAILED | OsdFailure::IMMEDIATE | OsdFailure::DEAD;
        self.report_failure(osd, addrs, dead, Duration::ZERO);
    }

    /// Repeats reports to another monitor, which has not got them.
    pub(crate) fn repeat_heartbeat_reports(&mut self, now: Time) {
        let partners = self.heartbeats.partners.iter_mut();
        let silent = partners.filter_map(|(osd, partner)| partner.report_again().then_some(*osd));
        let silent: Vec<OsdId> = silent.collect();
        silent.into_iter().for_each(|osd| self.judge_partner(now, osd));
    }

    /// Sends a failure report, or the withdrawal of one, to the monitor.
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
            fsid: self.env.config.fsid,
            target,
            target_addrs,
            epoch: self.epoch(),
            flags,
            failed_for_seconds: i32::try_from(failed_for.as_secs()).unwrap_or(i32::MAX),
        };
        let message: Message = failure.encode(SUPPORTED);
        self.send(monitor, message);
    }

    /// Health check of slow heartbeats, by check name.
    pub(crate) fn heartbeat_health(&self) -> BTreeMap<String, String> {
        let slowest = self.heartbeats.slowest().map(|(osd, time)| {
            let (own, milliseconds) = (self.env.config.id, time.as_millis());
            let text =
                format!("Slow OSD heartbeats from osd.{own} to osd.{osd} {milliseconds} msec");
            ("OSD_SLOW_PING_TIME_BACK".to_owned(), text)
        });
        slowest.into_iter().collect()
    }
}

/// Flags of an [`OsdFailure`] that withdraws an earlier one.
const STILL_ALIVE: u8 = 0;
