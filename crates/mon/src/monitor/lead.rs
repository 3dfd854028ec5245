//! Leading and following: the lease and the claim of leadership, and the requests that pass between a
//! follower and the leader; metrics, and sign-in to the console.

use super::candidacy::Leased;
use super::pipeline::{Leaving, PATIENCE, Rejection};
use super::relay::{Sent, Waiting};
use super::{Monitor, Phase, log_unexpected};
use crate::commands::admission::decode_job;
use crate::image_traffic::Note;
use crate::job::{CommandJob, Job};
use crate::metrics;
use crate::service::Via;
use crate::services::{service_of, via_of};
use crate::sessions::{Caps, Session};
use crate::settings::AuthMode;
use crate::state::Presence;
use auth::Towards;
use bytes::Bytes;
use control::{CommitError, LeaseError, LeaseId, Revision};
use engine::{
    ConnId, ConnectTarget, ConnectingAnswer, ConnectingStep, Message, Output, Policy, Time,
};
use std::time::Duration;
use types::{EntityName, EntityType, Errno, ParticipantName};
use wire::forward::{
    ClockReply, ClockRequest, Forward, ForwardClosed, ForwardOpen, ReportRequest, Routed,
};
use wire::{MessageBody, MgrCommand, MonCommand, PeerFault, PoolOp, decode_from_peer};

/// Time without a leader after which reads are answered locally.
const LEADERLESS_MAX: Duration = Duration::from_secs(3);

impl Monitor {
    /// Whether this monitor is the leader as far as is known. It remains so while no monitor can reach the
    /// store.
    pub fn leads(&self) -> bool {
        self.candidacy.leads()
    }

    /// The metrics for Prometheus. Only the leader has them: the text of other monitors is empty, so that
    /// sums over all monitors are right.
    pub fn scrape(&mut self, now: Time) -> String {
        if !self.leads() || !self.is_ready() {
            return String::new();
        }
        if self.state.mgr_option(metrics::POOLS_OPTION).is_some_and(|pools| !pools.is_empty()) {
            self.services.osd.note_images(now, vec![Note::Asked]);
        }
        self.pipeline.list_waiting();
        metrics::render(&self.view(now))
    }

    /// Sets the SHA-256 of the certificate of this monitor's console.
    pub fn describe_console(&mut self, fingerprint: &str) {
        self.identity.console_fingerprint = Some(fingerprint.to_owned());
    }

    /// The entity that a one-time link to the console was made for by this monitor. The link is void after.
    pub fn redeem_link(&mut self, now: Time, secret: &str) -> Option<EntityName> {
        self.links.redeem(now, secret)
    }

    /// The capabilities that a client with this name has in a new session, as in [`Peer::caps`]; `None` if
    /// there is no such client.
    pub fn caps_of(&self, entity: &EntityName) -> Option<Bytes> {
        match self.settings.auth {
            AuthMode::None => Some(Caps::encode_mon("allow *")),
            AuthMode::Cephx => {
                let entity = self.state.entities.get(entity)?;
                Some(Caps::encode_mon(entity.caps.get("mon")?))
            }
        }
    }

    /// Whether no other monitor can have taken over yet, so that this one runs the timers.
    pub fn owns_timers(&self, now: Time) -> bool {
        self.candidacy.owns_timers(now)
    }

    fn send_all(&mut self, messages: impl IntoIterator<Item = Sent>) {
        messages.into_iter().for_each(|(conn, message)| self.send(conn, message));
    }

    /// Renews the lease, and claims presence or leadership if needed. Called in every tick.
    pub(super) fn renew_candidacy(&mut self, now: Time) {
        if !matches!(self.phase, Phase::Serving) {
            return;
        }
        if self.pipeline.yields() {
            self.candidacy.pause(now);
            self.pipeline.set_unreachable(None);
            return;
        }
        let renewal = self.candidacy.renew(now, || self.pipeline.token());
        renewal.into_iter().for_each(|request| self.ask(request));
        self.pipeline.set_unreachable(self.candidacy.trouble(now));
        self.claim(now);
    }

    /// Watches for failed reads. Called in every tick, before the lease is renewed.
    pub(super) fn watch_reading(&mut self, now: Time) {
        if !matches!(self.phase, Phase::Serving) {
            return;
        }
        let mut present = self.state.members.present.keys();
        let is_alone = present.all(|name| *name == self.settings.mon_name);
        let yielded = self.pipeline.yields();
        let leaving = self.pipeline.watch_reading(now, self.candidacy.holds_lease(now), is_alone);
        let Some(leaving) = leaving else { return };
        if !yielded {
            self.candidacy.give_up_lease();
        }
        let accepted = self.sessions.iter().filter(|(conn, session)| {
            let is_daemon = session.osd().is_some() || session.is_monitor();
            conn.is_accepted() && (leaving == Leaving::All || is_daemon)
        });
        let accepted: Vec<ConnId> = accepted.map(|(conn, _)| conn).collect();
        accepted.into_iter().for_each(|conn| self.close(now, conn));
    }

    /// Handles the answer to a request for the lease.
    pub(super) fn leased(&mut self, now: Time, token: u64, outcome: Result<LeaseId, LeaseError>) {
        let yields = self.pipeline.yields();
        let Some(leased) = self.candidacy.leased(now, token, outcome, yields) else { return };
        self.pipeline.set_unreachable(self.candidacy.trouble(now));
        match leased {
            Leased::Holds => self.claim(now),
            // This machine may have been suspended, or reset to a snapshot: then the remaining ids of the
            // reservation may have been assigned since.
            Leased::Ended => self.services.auth.clear_global_ids(),
            Leased::Unknown => {}
        }
    }

    /// Announces that this monitor is alive and, if there is no leader, that it leads.
    fn claim(&mut self, now: Time) {
        let presence = |incarnation| Presence {
            incarnation,
            hostname: self.settings.hostname.clone(),
            manager: self.settings.mgr_name.clone(),
            host_facts: self.identity.host_facts.clone(),
            release: crate::VERSION.to_owned(),
            cluster_versions: self.settings.served.to_string(),
        };
        let misses_leader = self.relay.misses_leader(now);
        let token = || self.pipeline.token();
        let request = self.candidacy.claim(now, &self.state, misses_leader, presence, token);
        request.into_iter().for_each(|request| self.ask(request));
    }

    /// Handles the outcome of a claim. A failed claim is repeated in the next tick.
    pub(super) fn claimed(&mut self, now: Time, outcome: Result<Revision, CommitError>) {
        let Some(transaction) = self.candidacy.take_claim() else { return };
        match outcome {
            Ok(revision) => {
                self.pipeline.note_written(&transaction);
                self.candidacy.claimed(&transaction);
                self.apply_own(now, transaction, revision);
                self.follow_leader(now);
                self.pump(now);
            }
            Err(CommitError::Failed { reason } | CommitError::Refused { reason }) => {
                tracing::debug!(reason, "the store failed");
                self.pipeline.note_refused(now, &reason);
            }
            Err(error) => tracing::debug!(%error, "another monitor leads"),
        }
    }

    /// Handles a change of the leader.
    pub(super) fn follow_leader(&mut self, now: Time) {
        // Until there is a new leader, the former one may still answer.
        let Some(leader) = self.state.members.leader.clone() else { return self.claim(now) };
        if Some(&leader) == self.candidacy.followed() {
            return;
        }
        let led_before = self.candidacy.follow(now, leader);
        if let Some(conn) = self.relay.forget() {
            self.outputs.push_back(Output::Close { conn });
        }
        if self.leads() {
            return self.take_over(now);
        }
        if led_before {
            tracing::warn!(leader = self.state.leader_name(), "another monitor leads now");
            // Their monitors look up the leader again.
            let monitors = self.sessions.of_monitors();
            monitors.into_iter().for_each(|conn| self.close(now, conn));
            self.on_services(now, |services, cx| services.leadership(cx, false));
        }
        self.claim(now);
        self.seek_leader(now);
    }

    /// Begins to lead, without any reports of OSDs yet.
    fn take_over(&mut self, now: Time) {
        assert!(self.leads(), "the leader is followed before it takes over");
        tracing::info!(monitor = self.settings.mon_name, "leads");
        self.on_services(now, |services, cx| services.leadership(cx, true));
        self.ask_for_reports(self.osd_sessions());
        self.answer_waiting(now, |_| true);
        self.tick(now);
    }

    /// Opens a session with the leader, if that is another monitor.
    fn seek_leader(&mut self, now: Time) {
        let followed = self.candidacy.followed();
        // An earlier run of this monitor needs no session, but a successor.
        let other = followed.filter(|leader| leader.name != self.settings.mon_name);
        let Some(leader) = other else { return };
        let map = &self.state.monmap;
        let (Some(rank), Some(mon)) = (map.rank(&leader.name), map.mon_info.get(&leader.name))
        else {
            self.relay.try_again(now);
            return;
        };
        // This monitor had another name before, under which it may still be registered as the leader.
        if mon.public_addrs == self.settings.mon_addrs {
            self.relay.try_again(now);
            return;
        }
        let target = ConnectTarget {
            participant: ParticipantName::new(EntityType::MON, rank as i64),
            addrs: mon.public_addrs.clone(),
            policy: Policy::Lossy,
        };
        let conn = self.relay.connect();
        self.outputs.push_back(Output::Connect { conn, target });
    }

    /// Handles the opened session with the leader: announces OSDs, and forwards all pending requests.
    pub(super) fn relay_opened(&mut self, conn: ConnId) {
        if !self.relay.opened(conn) {
            return;
        }
        for osd in self.osd_sessions() {
            let announced = self.relay.announce(&self.sessions, osd);
            self.send_all(announced);
            self.ask_for_reports([osd]);
        }
        let forwarded = self.relay.forward_all(&self.sessions, self.state.newest());
        self.send_all(forwarded);
    }

    /// Connects again, or takes over, if either is due.
    pub(super) fn relay_timeout(&mut self, now: Time) {
        if self.relay.finds_leader_gone(now) {
            self.claim(now);
        }
        if self.relay.may_connect(now) {
            self.seek_leader(now);
        }
    }

    /// This monitor's own sessions with OSDs.
    fn osd_sessions(&self) -> Vec<ConnId> {
        let osds = self.sessions.of_osds().into_iter();
        osds.filter(|conn| !self.proxies.is_proxy(*conn)).collect()
    }

    /// One step of the authentication to the leader.
    pub(super) fn prove_to_leader(
        &mut self,
        now: Time,
        conn: ConnId,
        step: ConnectingStep,
    ) -> ConnectingAnswer {
        let to = Towards::Peer(self.state.secrets.service(EntityType::MON));
        let answer = self.connector.step(now, conn, to, step, &mut self.entropy);
        answer.unwrap_or_else(|reason| {
            tracing::warn!(%reason, "cannot authenticate to the monitor that leads");
            ConnectingAnswer::Refuse
        })
    }

    /// Requests OSDs to repeat their reports.
    pub(super) fn ask_for_reports(&mut self, osds: impl IntoIterator<Item = ConnId>) {
        for conn in osds {
            let features = self.sessions.features(conn);
            self.send(conn, ReportRequest {}.encode(features));
        }
    }

    /// Handles a new session; those of OSDs are announced to the leader, which must know that they are alive.
    pub(super) fn relay_session_opened(&mut self, conn: ConnId) {
        assert!(!self.proxies.is_proxy(conn), "the owner of a session announces it");
        if self.sessions.osd(conn).is_some() {
            let announced = self.relay.announce(&self.sessions, conn);
            self.send_all(announced);
        }
    }

    /// Handles the end of a session: the leader is told.
    pub(super) fn relay_session_closed(&mut self, conn: ConnId) {
        let told = self.relay.session_closed(conn);
        self.send_all(told);
    }

    /// Forwards a message now, or as soon as there is a leader.
    pub(super) fn forward(
        &mut self,
        now: Time,
        conn: ConnId,
        message: &Message,
    ) -> Result<(), PeerFault> {
        if let Some(id) = service_of(message.kind) {
            self.on_services(now, |services, cx| services.at(id).forwarded(cx, conn, message))?;
        }
        let via = via_of(message.kind);
        if !self.relay.is_open() && via == Some(Via::LeaderReported) {
            return Ok(());
        }
        if self.refuses_command(now, conn, message)? {
            return Ok(());
        }
        let is_osd = self.sessions.osd(conn).is_some();
        if let Some(limit) = self.relay.exceeded(is_osd) {
            tracing::warn!(limit, "too much waits for a monitor that leads");
            return Err(PeerFault::TooMuch { kind: message.kind, limit });
        }
        let (sessions, newest) = (&self.sessions, self.state.newest());
        let sent = self.relay.add(now, sessions, newest, conn, message.clone());
        self.send_all(sent);
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
    ) -> Result<bool, PeerFault> {
        let Some(Job::Command(command)) = decode_job(now, conn, message)? else { return Ok(false) };
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

    /// Handles a message of the leader.
    pub(super) fn handle_leader_message(
        &mut self,
        now: Time,
        link: ConnId,
        message: &Message,
    ) -> Result<(), PeerFault> {
        assert!(self.relay.is_link(link), "{link:?} is the session with the leader");
        match message.kind {
            Routed::KIND => {
                let routed = decode_from_peer::<Routed>(message)?;
                let conn = ConnId(routed.session);
                if self.relay.answered(now, routed) {
                    self.throttle(conn);
                }
                self.release_routed(now);
            }
            ClockRequest::KIND => {
                let told = self.relay.reply_clock(now, &decode_from_peer::<ClockRequest>(message)?);
                self.send_all(told);
            }
            ForwardClosed::KIND => {
                let conn = ConnId(decode_from_peer::<ForwardClosed>(message)?.session);
                self.relay.closed_by_leader(conn);
                self.close(now, conn);
            }
            kind => log_unexpected(link, kind),
        }
        Ok(())
    }

    /// Delivers answers of the leader, as far as the state has reached their revisions.
    pub(super) fn release_routed(&mut self, now: Time) {
        for (conn, message) in self.relay.release(now, self.state.newest()) {
            if self.sessions.contains(conn) {
                self.send(conn, message);
            }
        }
    }

    /// Called in every tick: answers or rejects requests that have waited too long for a leader.
    pub(super) fn serve_leaderless(&mut self, now: Time) {
        self.release_routed(now);
        self.release_forwarded(now);
        if !self.relay.is_open() && !self.leads() {
            self.answer_waiting(now, |waiting_since| now.since(waiting_since) >= LEADERLESS_MAX);
            self.reject_leaderless(now);
        }
    }

    /// Rejects requests that would write, and found no leader for too long.
    fn reject_leaderless(&mut self, now: Time) {
        assert!(!self.leads() && !self.relay.is_open(), "requests wait for a leader");
        for number in self.relay.find(|waiting| now.since(waiting.since) >= PATIENCE) {
            let Some(Waiting { conn, message, since }) = self.relay.take(number) else { continue };
            if let Ok(Some(job)) = decode_job(since, conn, &message) {
                self.reject(job, Rejection::Leaderless);
            }
            self.throttle(conn);
        }
    }

    /// Handles waiting requests locally: all of them at the leader, else those that only read.
    fn answer_waiting(&mut self, now: Time, is_due: impl Fn(Time) -> bool) {
        let leads = self.leads();
        let due = self.relay.find(|waiting| {
            is_due(waiting.since) && (leads || self.only_reads(waiting.conn, &waiting.message))
        });
        for number in due {
            let Some(Waiting { conn, message, .. }) = self.relay.take(number) else {
                continue;
            };
            if let Err(fault) = self.dispatch(now, conn, &message) {
                self.end_session(now, conn, &fault);
            }
            self.throttle(conn);
        }
    }

    fn only_reads(&self, conn: ConnId, message: &Message) -> bool {
        match message.kind {
            MonCommand::KIND | MgrCommand::KIND => {
                let job = decode_job(Time::default(), conn, message);
                matches!(job, Ok(Some(Job::Command(command))) if self.needs_no_leader(&command))
            }
            PoolOp::KIND => false,
            kind => via_of(kind) == Some(Via::LeaderAnswers),
        }
    }

    /// Handles messages that other monitors forward; false if the message is another one.
    pub(super) fn handle_forwarded(
        &mut self,
        now: Time,
        via: ConnId,
        message: &Message,
    ) -> Result<bool, PeerFault> {
        let kinds = [ForwardOpen::KIND, Forward::KIND, ForwardClosed::KIND, ClockReply::KIND];
        if !kinds.contains(&message.kind) {
            return Ok(false);
        }
        if !self.sessions.get(via).is_some_and(Session::is_monitor) {
            return Err(PeerFault::NotAllowed { kind: message.kind });
        }
        if !self.leads() {
            // The follower then looks up the leader again.
            self.close(now, via);
            return Ok(true);
        }
        match message.kind {
            ForwardOpen::KIND => {
                let open = decode_from_peer::<ForwardOpen>(message)?;
                let conn = self.proxies.open(via, open.session);
                self.open_session(now, conn, open.peer());
            }
            ClockReply::KIND => {
                let told = decode_from_peer::<ClockReply>(message)?;
                self.on_services(now, |services, cx| services.mons.handle_clock(cx, via, &told));
            }
            Forward::KIND => {
                let Forward { session, revision, message } = decode_from_peer::<Forward>(message)?;
                let message = Some(message.into());
                if self.proxies.hold(now, via, session, revision, message) {
                    self.release_forwarded(now);
                }
            }
            _ => {
                let session = decode_from_peer::<ForwardClosed>(message)?.session;
                if self.proxies.hold(now, via, session, 0, None) {
                    self.release_forwarded(now);
                }
            }
        }
        Ok(true)
    }

    /// Handles forwarded messages in order, as far as this monitor has the revisions that their senders had.
    pub(super) fn release_forwarded(&mut self, now: Time) {
        while let Some((conn, message)) = self.proxies.release(now, self.state.newest()) {
            match message {
                Some(message) => self.handle(now, conn, message),
                None => self.close_session(now, conn),
            }
        }
    }
}
