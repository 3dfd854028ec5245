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

use crate::cx::Cx;
use crate::env::Stage;
use crate::limits;
use crate::sessions::monitor::MonitorLink;
use clock::AwakeClock;
use engine::{ConnId, ConnectTarget, Duration, Output, Policy, Time};
use partner::{Liveness, Partner};
use std::collections::BTreeMap;
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

    /// Pings all partners and reports silent ones, if due. `members` are the OSDs in common groups;
    /// `None` while groups have not handled the map and so do not know their members.
    pub fn tick(
        &mut self,
        cx: &mut Cx<'_>,
        monitor: &MonitorLink,
        members: Option<impl Iterator<Item = OsdId>>,
    ) {
        let now = cx.env.now;
        if cx.env.stage != Stage::Up {
            return self.stop(cx);
        }
        let due = *self.due.get_or_insert(now);
        if now < due {
            return;
        }
        self.clock.woke(due, now);
        if let Some(members) = members {
            self.choose_partners(cx, members);
        }
        let osds: Vec<OsdId> = self.partners.keys().copied().collect();
        for osd in osds {
            self.report_if_silent(cx, monitor, osd);
            self.ask(cx, osd);
        }
        self.due = Some(now + cx.env.options.heartbeat_interval.max(limits::HEARTBEAT_MIN));
    }

    fn stop(&mut self, cx: &mut Cx<'_>) {
        for conn in std::mem::take(&mut self.by_conn).into_keys() {
            cx.out.push(Output::Close { conn });
        }
        let clock = std::mem::take(&mut self.clock);
        *self = Heartbeats { clock, ..Heartbeats::default() };
    }

    /// Chooses the partners by the newest map. One with another address or another `up_from` is a
    /// new partner: it may have been down since the last ping.
    fn choose_partners(&mut self, cx: &mut Cx<'_>, members: impl Iterator<Item = OsdId>) {
        let map = cx.map;
        if std::mem::replace(&mut self.chosen, map.epoch) == map.epoch {
            return;
        }
        let wanted = circle::choose(map, cx.env.whoami(), members.collect());
        let same = |osd: &OsdId, partner: &Partner| {
            wanted.contains(osd)
                && map.client_addrs(*osd) == Some(partner.addrs())
                && map.osd(*osd).is_some_and(|known| known.info.up_from == partner.up_from())
        };
        let partners = std::mem::take(&mut self.partners);
        let (kept, gone): (BTreeMap<_, _>, _) =
            partners.into_iter().partition(|(osd, partner)| same(osd, partner));
        self.partners = kept;
        let gone: BTreeMap<OsdId, Partner> = gone;
        for conn in gone.values().filter_map(Partner::conn) {
            self.by_conn.remove(&conn);
            cx.out.push(Output::Close { conn });
        }
        for osd in wanted {
            if let Some(known) = map.osd(osd).filter(|known| known.is_up()) {
                let partner = || Partner::new(known.client_addrs.clone(), known.info.up_from);
                self.partners.entry(osd).or_insert_with(partner);
            }
        }
    }

    /// Reports a partner that is silent for longer than the grace.
    fn report_if_silent(&mut self, cx: &mut Cx<'_>, monitor: &MonitorLink, osd: OsdId) {
        let awake = self.clock.at(cx.env.now);
        let grace = cx.env.options.heartbeat_grace;
        let Some(partner) = self.partners.get_mut(&osd) else { return };
        let liveness = partner.check(awake, grace);
        let addrs = partner.addrs().clone();
        let Liveness::Silent { since, session_is_old } = liveness else { return };
        tracing::debug!(own = %cx.env.whoami(), peer = %osd, ?since, "no answer to heartbeats");
        monitor.report_failure(cx, osd, addrs, OsdFailure::FAILED, since);
        // When the network heals, the old connection would notice late.
        if session_is_old && let Some(conn) = self.partner_closed(osd) {
            cx.out.push(Output::Close { conn });
        }
    }

    fn ask(&mut self, cx: &mut Cx<'_>, osd: OsdId) {
        let awake = self.clock.at(cx.env.now);
        let Some(partner) = self.partners.get_mut(&osd) else { return };
        partner.ask(cx.env.now, awake);
        let conn = match partner.conn() {
            Some(conn) => conn,
            None => self.connect(cx, osd),
        };
        let question = Heartbeat { is_answer: false, stamp: cx.env.now.0, epoch: cx.map.epoch };
        cx.out.send(conn, question.encode(SUPPORTED));
    }

    fn connect(&mut self, cx: &mut Cx<'_>, osd: OsdId) -> ConnId {
        let conn = cx.clients.new_conn();
        let awake = self.clock.at(cx.env.now);
        let partner = self.partners.get_mut(&osd).expect("the caller has it");
        partner.connected(conn, awake);
        let participant = ParticipantName::new(EntityType::OSD, osd.0.into());
        let addrs = partner.addrs().clone();
        let target = ConnectTarget { participant, addrs, policy: Policy::Lossy };
        self.by_conn.insert(conn, osd);
        cx.out.push(Output::Connect { conn, target });
        conn
    }

    /// Answers a ping over its session, or notes an answer.
    pub fn handle(
        &mut self,
        cx: &mut Cx<'_>,
        monitor: &MonitorLink,
        conn: ConnId,
        heartbeat: &Heartbeat,
    ) {
        if !heartbeat.is_answer {
            let answer = Heartbeat { is_answer: true, epoch: cx.map.epoch, ..heartbeat.clone() };
            return cx.out.send(conn, answer.encode(SUPPORTED));
        }
        let Some(osd) = self.by_conn.get(&conn).copied() else { return };
        let Some(partner) = self.partners.get_mut(&osd) else { return };
        if partner.answered(cx.env.now, Time(heartbeat.stamp)) {
            let addrs = partner.addrs().clone();
            tracing::debug!(own = %cx.env.whoami(), peer = %osd, "answers heartbeats again");
            monitor.report_failure(cx, osd, addrs, STILL_ALIVE, Duration::ZERO);
        }
    }

    /// The session to a partner has ended; false if it was none. It is opened again with the next
    /// ping; immediately if it had brought an answer, because if the partner has died, its kernel
    /// refuses the connection.
    pub fn closed(&mut self, cx: &mut Cx<'_>, conn: ConnId) -> bool {
        let Some(osd) = self.by_conn.get(&conn).copied() else { return false };
        let served = self.partners.get(&osd).is_some_and(Partner::has_answered);
        self.partner_closed(osd);
        if served && cx.env.stage == Stage::Up {
            self.connect(cx, osd);
        }
        true
    }

    fn partner_closed(&mut self, osd: OsdId) -> Option<ConnId> {
        let conn = self.partners.get_mut(&osd)?.closed()?;
        self.by_conn.remove(&conn);
        Some(conn)
    }

    /// The partner that a session leads to, and the addresses to which it was opened.
    pub fn address_of(&self, conn: ConnId) -> Option<(OsdId, EntityAddrVec)> {
        let osd = *self.by_conn.get(&conn)?;
        Some((osd, self.partners.get(&osd)?.addrs().clone()))
    }

    /// Repeats reports to another monitor, which has not got them.
    pub fn repeat_reports(&mut self, cx: &mut Cx<'_>, monitor: &MonitorLink) {
        let partners = self.partners.iter_mut();
        let silent = partners.filter_map(|(osd, partner)| partner.report_again().then_some(*osd));
        let silent: Vec<OsdId> = silent.collect();
        silent.into_iter().for_each(|osd| self.report_if_silent(cx, monitor, osd));
    }

    /// Health check of slow heartbeats from the OSD `own`, by check name.
    pub fn health(&self, own: OsdId) -> BTreeMap<String, String> {
        let slowest = self.slowest().map(|(osd, time)| {
            let milliseconds = time.as_millis();
            let text =
                format!("Slow OSD heartbeats from osd.{own} to osd.{osd} {milliseconds} msec");
            ("OSD_SLOW_PING_TIME_BACK".to_owned(), text)
        });
        slowest.into_iter().collect()
    }
}

/// Flags of an [`OsdFailure`] that withdraws an earlier one.
const STILL_ALIVE: u8 = 0;
