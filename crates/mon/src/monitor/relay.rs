//! Forwarding of requests from a follower to the leader.
//!
//! Requests that need the OSDs' reports, or that write, are forwarded to the leader; its answers come back
//! through the same session. Requests are kept until they are answered, and forwarded again to the next
//! leader. If there is no leader for long, those that only read are answered from the known state.
//!
//! Reports of OSDs are not kept: a new leader requests them again. The boot of an OSD that has died since, or
//! was even removed from the cluster, must not be repeated by a monitor.

use super::Monitor;
use super::pipeline::{Load, PATIENCE, Rejection};
use super::waiting::{Waiting, WaitingList};
use crate::commands::admission::asked_job;
use crate::control::Revision;
use crate::job::{CommandJob, Job};
use crate::service::Via;
use crate::services::{service_of, via_of};
use codec::DecodeError;
use engine::{ConnId, ConnectTarget, Message, Output, Policy, Time};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use types::{EntityType, Errno, ParticipantName};
use wire::forward::{
    ClockAsked, ClockTold, Forward, ForwardClosed, ForwardOpen, ReportAgain, Routed,
};
use wire::{MessageBody, MgrCommand, MonCommand, PoolOp};

/// Pause before connecting to the leader is tried again.
const RETRY: Duration = Duration::from_millis(250);
/// Time without a session with the leader, after one was lost, at which the leader counts as gone.
const LEADER_GONE: Duration = Duration::from_millis(500);
/// Time without a leader after which reads are answered locally.
const LEADERLESS_MAX: Duration = Duration::from_secs(3);
/// Time for which an answer waits for its revision to arrive here, and a forwarded request for its sender's
/// revision.
pub(super) const HELD_MAX: Duration = Duration::from_secs(3);

/// A follower's session with the leader, and its pending requests.
#[derive(Default)]
pub(super) struct Relay {
    link: Option<Link>,
    next_attempt: Option<Time>,
    /// Time since which the leader cannot be reached, after it was.
    lost: Option<Time>,
    /// Time at which to check whether that has lasted for [`LEADER_GONE`].
    gone_due: Option<Time>,
    /// Sessions of this monitor that the leader knows.
    announced: BTreeSet<ConnId>,
    /// Requests that were not answered, or not forwarded yet.
    waiting: WaitingList,
    /// Answers of a newer revision than the state's.
    held: VecDeque<Held>,
    links_made: u64,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    conn: ConnId,
    is_open: bool,
}

struct Held {
    revision: Revision,
    until: Time,
    conn: ConnId,
    message: Message,
}

impl Relay {
    /// The next timeout.
    pub fn due(&self) -> Option<Time> {
        self.next_attempt.into_iter().chain(self.gone_due).min()
    }

    /// Whether the leader was reached before, and has been gone for [`LEADER_GONE`].
    pub fn misses_leader(&self, now: Time) -> bool {
        self.lost.is_some_and(|lost| now.since(lost) >= LEADER_GONE)
    }

    /// Number and size of a session's unanswered requests.
    pub fn load(&self, conn: ConnId) -> Load {
        self.waiting.load(conn)
    }

    fn open_conn(&self) -> Option<ConnId> {
        self.link.filter(|link| link.is_open).map(|link| link.conn)
    }

    /// Whether this is the session with the leader.
    pub fn is_link(&self, conn: ConnId) -> bool {
        self.link.is_some_and(|link| link.conn == conn)
    }
}

impl Monitor {
    /// Closes the session with the leader, and forgets what it knew.
    pub(super) fn forget_leader(&mut self) {
        self.relay.next_attempt = None;
        (self.relay.lost, self.relay.gone_due) = (None, None);
        self.relay.announced.clear();
        if let Some(link) = self.relay.link.take() {
            self.outputs.push_back(Output::Close { conn: link.conn });
        }
    }

    /// Opens a session with the leader, if that is another monitor.
    pub(super) fn seek_leader(&mut self, now: Time) {
        let followed = self.candidacy.followed();
        // An earlier run of this monitor needs no session, but a successor.
        let other = followed.filter(|leader| leader.name != self.settings.mon_name);
        let Some(leader) = other else { return };
        let map = &self.state.monmap;
        let (Some(rank), Some(mon)) = (map.rank(&leader.name), map.mon_info.get(&leader.name))
        else {
            self.relay.next_attempt = Some(now + RETRY);
            return;
        };
        // This monitor had another name before, under which it may still be registered as the leader.
        if mon.public_addrs == self.settings.mon_addrs {
            self.relay.next_attempt = Some(now + RETRY);
            return;
        }
        let target = ConnectTarget {
            participant: ParticipantName::new(EntityType::MON, rank as i64),
            addrs: mon.public_addrs.clone(),
            policy: Policy::Lossy,
        };
        self.relay.links_made += 1;
        let conn = ConnId(self.relay.links_made);
        self.relay.link = Some(Link { conn, is_open: false });
        self.outputs.push_back(Output::Connect { conn, target });
    }

    /// Handles the opened session with the leader: announces OSDs, and forwards all pending requests.
    pub(super) fn relay_opened(&mut self, _now: Time, conn: ConnId) {
        let Some(link) = self.relay.link.as_mut().filter(|link| link.conn == conn) else { return };
        link.is_open = true;
        (self.relay.lost, self.relay.gone_due) = (None, None);
        for osd in self.osd_sessions() {
            self.announce(osd);
            self.ask_for_reports(osd);
        }
        self.relay.waiting.numbers().into_iter().for_each(|number| self.pass_on(number));
    }

    /// Handles the end of the session with the leader.
    pub(super) fn relay_closed(&mut self, now: Time, conn: ConnId) {
        if !self.relay.is_link(conn) {
            return;
        }
        let was_open = self.relay.link.take().is_some_and(|link| link.is_open);
        self.relay.announced.clear();
        self.relay.next_attempt = Some(now + RETRY);
        if was_open {
            self.relay.lost = Some(now);
            self.relay.gone_due = Some(now + LEADER_GONE);
        }
    }

    /// Connects again, or takes over, if either is due.
    pub(super) fn relay_timeout(&mut self, now: Time) {
        if self.relay.gone_due.take_if(|due| *due <= now).is_some() {
            self.claim(now);
        }
        if self.relay.next_attempt.take_if(|due| *due <= now).is_some() && self.relay.link.is_none()
        {
            self.seek_leader(now);
        }
    }

    /// This monitor's own sessions with OSDs.
    pub(super) fn osd_sessions(&self) -> Vec<ConnId> {
        let osds = self.sessions.of_osds().into_iter();
        osds.filter(|conn| !self.proxies.is_proxy(*conn)).collect()
    }

    /// Requests an OSD to repeat its reports.
    pub(super) fn ask_for_reports(&mut self, conn: ConnId) {
        let features = self.sessions.features(conn);
        self.send(conn, ReportAgain {}.encode(features));
    }

    /// Announces a session to the leader, once.
    fn announce(&mut self, conn: ConnId) {
        let (Some(link), Some(session)) = (self.relay.open_conn(), self.sessions.get(conn)) else {
            return;
        };
        if self.relay.announced.insert(conn) {
            let message = ForwardOpen::new(conn.0, session.peer()).encode(0);
            self.send(link, message);
        }
    }

    /// Handles a new session; those of OSDs are announced to the leader, which must know that they are alive.
    pub(super) fn relay_session_opened(&mut self, conn: ConnId) {
        if self.sessions.osd(conn).is_some() {
            self.announce(conn);
        }
    }

    /// Handles the end of a session of this monitor: drops its requests, and tells the leader.
    pub(super) fn relay_session_closed(&mut self, conn: ConnId) {
        self.relay.waiting.end_session(conn);
        self.relay.held.retain(|held| held.conn != conn);
        if self.relay.announced.remove(&conn)
            && let Some(link) = self.relay.open_conn()
        {
            self.send(link, ForwardClosed { session: conn.0 }.encode(0));
        }
    }

    /// Forwards a message now, or as soon as there is a leader.
    pub(super) fn forward(
        &mut self,
        now: Time,
        conn: ConnId,
        message: &Message,
    ) -> Result<(), DecodeError> {
        if let Some(id) = service_of(message.kind) {
            self.on_services(now, |services, cx| services.at(id).forwarded(cx, conn, message))?;
        }
        let via = via_of(message.kind);
        if self.relay.open_conn().is_none() && via == Some(Via::LeaderReported) {
            return Ok(());
        }
        if self.refuses_command(now, conn, message)? {
            return Ok(());
        }
        let is_osd = self.sessions.osd(conn).is_some();
        if !self.relay.waiting.has_room(is_osd) {
            tracing::warn!("too much waits for a monitor that leads");
            self.close(now, conn);
            return Ok(());
        }
        let waiting = Waiting { conn, message: message.clone(), since: now };
        let number = self.relay.waiting.add(waiting);
        self.pass_on(number);
        self.throttle(conn);
        Ok(())
    }

    /// Answers a command that its session is not allowed to run, and returns whether the message was one.
    /// Another monitor may know commands that this one does not, so other errors are left to the leader.
    fn refuses_command(
        &mut self,
        now: Time,
        conn: ConnId,
        message: &Message,
    ) -> Result<bool, DecodeError> {
        let Some(Job::Command(command)) = asked_job(now, conn, message)? else { return Ok(false) };
        match self.admit(&command) {
            Err(refusal) if refusal.errno == Errno::ACCES => {
                self.refuse(&command, refusal);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Whether a command can be answered without a leader: it is valid, allowed, and only reads.
    fn needs_no_leader(&self, command: &CommandJob) -> bool {
        self.admit(command).is_ok_and(|admitted| admitted.only_reads())
    }

    fn pass_on(&mut self, number: u64) {
        let Some(link) = self.relay.open_conn() else { return };
        let Some(Waiting { conn, message, .. }) = self.relay.waiting.get(number) else { return };
        let (conn, message) = (*conn, message.clone());
        if via_of(message.kind) != Some(Via::LeaderAnswers) {
            self.relay.waiting.remove(number);
        }
        self.announce(conn);
        let revision = self.state.newest();
        self.send(link, Forward { session: conn.0, revision, message: message.into() }.encode(0));
    }

    /// Handles a message of the leader.
    pub(super) fn take_from_leader(
        &mut self,
        now: Time,
        message: &Message,
    ) -> Result<(), DecodeError> {
        match message.kind {
            Routed::KIND => {
                let Routed { session, revision, message } = Routed::decode(message)?;
                let (conn, message) = (ConnId(session), Message::from(message));
                if let Some(number) = self.relay.waiting.answered(conn, message.tid) {
                    self.relay.waiting.remove(number);
                    self.throttle(conn);
                }
                let until = now + HELD_MAX;
                self.relay.held.push_back(Held { revision, until, conn, message });
                self.release_routed(now);
            }
            ClockAsked::KIND => {
                let ClockAsked { sent } = ClockAsked::decode(message)?;
                if let Some(link) = self.relay.open_conn() {
                    self.send(link, ClockTold { sent, clock: now.0 }.encode(0));
                }
            }
            ForwardClosed::KIND => {
                let conn = ConnId(ForwardClosed::decode(message)?.session);
                self.relay.announced.remove(&conn);
                self.close(now, conn);
            }
            _ => {}
        }
        Ok(())
    }

    /// Delivers answers, in order, as far as the state has reached their revisions.
    pub(super) fn release_routed(&mut self, now: Time) {
        let known = self.state.newest();
        while let Some(held) = self.relay.held.front()
            && (held.revision <= known || held.until <= now)
        {
            if let Some(Held { conn, message, .. }) = self.relay.held.pop_front()
                && self.sessions.contains(conn)
            {
                self.send(conn, message);
            }
        }
    }

    /// Called in every tick: answers or rejects requests that have waited too long for a leader.
    pub(super) fn relieve_waiting(&mut self, now: Time) {
        self.release_routed(now);
        self.release_forwarded(now);
        if self.relay.open_conn().is_none() && !self.leads() {
            self.answer_what_waits(now, |waiting_since| now.since(waiting_since) >= LEADERLESS_MAX);
            self.give_up_unled(now);
        }
    }

    /// Rejects requests that would write, and found no leader for too long.
    fn give_up_unled(&mut self, now: Time) {
        let due = self.relay.waiting.find(|waiting| now.since(waiting.since) >= PATIENCE);
        for number in due {
            let Some(Waiting { conn, message, since }) = self.relay.waiting.remove(number) else {
                continue;
            };
            if let Ok(Some(job)) = asked_job(since, conn, &message) {
                self.reject(job, Rejection::Unled);
            }
            self.throttle(conn);
        }
    }

    /// Handles waiting requests locally: all of them at the leader, else those that only read.
    pub(super) fn answer_what_waits(&mut self, now: Time, is_due: impl Fn(Time) -> bool) {
        let leads = self.leads();
        let due = self.relay.waiting.find(|waiting| {
            is_due(waiting.since) && (leads || self.only_reads(waiting.conn, &waiting.message))
        });
        for number in due {
            let Some(Waiting { conn, message, .. }) = self.relay.waiting.remove(number) else {
                continue;
            };
            if let Err(error) = self.dispatch(now, conn, &message) {
                tracing::warn!(%error, kind = message.kind, "a message cannot be read");
                self.close(now, conn);
            }
            self.throttle(conn);
        }
    }

    fn only_reads(&self, conn: ConnId, message: &Message) -> bool {
        match message.kind {
            MonCommand::KIND | MgrCommand::KIND => {
                let job = asked_job(Time::default(), conn, message);
                matches!(job, Ok(Some(Job::Command(command))) if self.needs_no_leader(&command))
            }
            PoolOp::KIND => false,
            kind => via_of(kind) == Some(Via::LeaderAnswers),
        }
    }
}
