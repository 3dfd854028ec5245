//! Election of the leader.
//!
//! Each monitor holds a lease of the control store and, bound to it, a key that announces that it is alive. A
//! monitor that finds no leader writes itself as leader, bound to its lease; if several try at once, one
//! succeeds. When the leader's lease expires, the store deletes its keys, and the others are notified.
//!
//! A monitor that loses its session with the leader, and cannot open another, succeeds the leader at once, as
//! long as it reaches the store: failed OSDs should not wait for a lease. A monitor that was succeeded
//! although it ran does not do the same to its successor for a while, so that two monitors that cannot reach
//! each other do not take turns.
//!
//! A leader that is cut off from the store gives up the timers before its lease expires. Should two monitors
//! believe to lead all the same, they do no harm: all their writes are compare-and-swap, and also compare
//! that the leader has not changed.

use super::complaints::Complaints;
use super::{Monitor, Phase};
use crate::control::{
    CommitError, LEASE_TTL, LeaseError, LeaseId, Request, Revision, SILENCE_MAX, Transaction,
};
use crate::keys;
use crate::live::StoreTrouble;
use crate::state::{Leader, Presence};
use engine::{ConnId, Output, Time};
use std::time::Duration;

/// Safety margin of the lease's owner for clock drift.
const LEASE_MARGIN: Duration = Duration::from_millis(500);
/// Time for which a monitor that was succeeded although it ran waits for leases to expire before it takes
/// over.
const HUMBLE: Duration = Duration::from_secs(60);

/// This monitor's lease, presence and leadership.
pub(super) struct Candidacy {
    me: Leader,
    lease: Option<LeaseId>,
    /// The pending request for the lease: its token, and when it was sent.
    asked: Option<(u64, Time)>,
    /// The time until which the lease is certainly valid.
    valid_until: Time,
    /// Time of the store's last answer, and the last failure since.
    heard: Time,
    complaint: Option<String>,
    complaints: Complaints,
    /// The pending transaction that announces that this monitor is alive, or that it leads.
    claim: Option<(u64, Transaction)>,
    /// The lease to which the presence key is bound, and the one to which the leader key is bound.
    announced: Option<LeaseId>,
    led_by: Option<LeaseId>,
    /// The leader at the last call of [`Monitor::follow_leader`].
    followed: Option<Leader>,
    /// Time at which another monitor succeeded this one although it ran.
    deposed: Option<Time>,
}

impl Candidacy {
    /// `incarnation` must differ between runs of the monitor.
    pub fn new(name: &str, incarnation: u64) -> Self {
        Candidacy {
            me: Leader { name: name.to_owned(), incarnation },
            lease: None,
            asked: None,
            valid_until: Time::ZERO,
            heard: Time::ZERO,
            complaint: None,
            complaints: Complaints::default(),
            claim: None,
            announced: None,
            led_by: None,
            followed: None,
            deposed: None,
        }
    }

    /// Whether a completion belongs to the pending claim.
    pub fn is_claim(&self, token: u64) -> bool {
        self.claim.as_ref().is_some_and(|(claim, _)| *claim == token)
    }

    /// Notes an answer of the store. An expired lease is an answer, too.
    fn note_answer(&mut self, now: Time, outcome: &Result<LeaseId, LeaseError>) {
        match outcome {
            Ok(_) | Err(LeaseError::Ended) => (self.heard, self.complaint) = (now, None),
            Err(LeaseError::Failed { reason }) => self.complaint = Some(reason.clone()),
        }
    }

    /// The store's failure, if it lasts longer than other monitors take to notice.
    fn trouble(&self, now: Time) -> Option<StoreTrouble> {
        let since = self.heard;
        (since > Time::ZERO && now.since(since) > SILENCE_MAX).then(|| {
            let reason = self.complaint.clone();
            StoreTrouble { since, reason: reason.unwrap_or_else(|| "it is silent".to_owned()) }
        })
    }

    /// The leader that is followed.
    pub fn followed(&self) -> Option<&Leader> {
        self.followed.as_ref()
    }
}

impl Monitor {
    /// Whether this monitor is the leader as far as is known. It remains so while no monitor can reach the
    /// store.
    pub fn leads(&self) -> bool {
        self.candidacy.followed.as_ref() == Some(&self.candidacy.me)
    }

    /// Whether no other monitor can have taken over yet, so that this one runs the timers.
    pub fn owns_timers(&self, now: Time) -> bool {
        let candidacy = &self.candidacy;
        let is_bound = candidacy.lease.is_some() && candidacy.led_by == candidacy.lease;
        self.leads() && is_bound && now < candidacy.valid_until
    }

    /// Whether this monitor is the leader as far as is known, but its lease may have expired.
    pub(super) fn may_be_deposed(&self, now: Time) -> bool {
        self.leads() && now >= self.candidacy.valid_until
    }

    /// Whether this monitor's lease is valid, as far as is known.
    pub(super) fn holds_lease(&self, now: Time) -> bool {
        self.candidacy.lease.is_some() && now < self.candidacy.valid_until
    }

    /// Stops renewing the lease. It expires by itself, and its keys are deleted with it.
    pub(super) fn give_up_lease(&mut self) {
        self.candidacy.lease = None;
        self.candidacy.announced = None;
    }

    /// Renews the lease, and claims presence or leadership if needed. Called in every tick.
    pub(super) fn tend_candidacy(&mut self, now: Time) {
        if !matches!(self.phase, Phase::Serving) {
            return;
        }
        if self.pipeline.yields() {
            self.candidacy.heard = now;
            self.pipeline.set_unreachable(None);
            return;
        }
        if self.candidacy.asked.is_none() {
            let token = self.pipeline.token();
            let request = match self.candidacy.lease {
                None => Request::Grant { token, ttl: LEASE_TTL },
                Some(lease) => Request::Renew { token, lease },
            };
            self.candidacy.asked = Some((token, now));
            self.outputs.push_back(Output::Storage(request));
        }
        self.pipeline.set_unreachable(self.candidacy.trouble(now));
        self.claim(now);
    }

    /// Handles the answer to a request for the lease.
    pub(super) fn leased(&mut self, now: Time, token: u64, outcome: Result<LeaseId, LeaseError>) {
        let asked = self.candidacy.asked.take_if(|(asked, _)| *asked == token);
        let Some((_, asked_at)) = asked.filter(|_| !self.pipeline.yields()) else { return };
        self.candidacy.note_answer(now, &outcome);
        self.pipeline.set_unreachable(self.candidacy.trouble(now));
        match outcome {
            Ok(lease) => {
                self.candidacy.complaints.is_over("lease");
                self.candidacy.lease = Some(lease);
                self.candidacy.valid_until = asked_at + (LEASE_TTL - LEASE_MARGIN);
                self.claim(now);
            }
            Err(LeaseError::Ended) => {
                tracing::warn!("the lease of this monitor has ended");
                self.candidacy.lease = None;
                // This machine may have been suspended, or reset to a snapshot: then the remaining ids of the
                // reservation may have been assigned since.
                self.global_ids = 0..0;
            }
            Err(LeaseError::Failed { reason })
                if self.candidacy.complaints.is_due(now, "lease", &reason) =>
            {
                tracing::warn!(reason, "the lease of this monitor could not be renewed");
            }
            Err(LeaseError::Failed { .. }) => {}
        }
    }

    /// Whether to succeed the leader although its lease may still be valid.
    fn leader_is_gone(&self, now: Time) -> bool {
        let is_humble = self.candidacy.deposed.is_some_and(|when| now.since(when) < HUMBLE);
        self.relay.misses_leader(now) && !is_humble
    }

    /// Announces that this monitor is alive and, if there is no leader, that it leads.
    pub(super) fn claim(&mut self, now: Time) {
        let candidacy = &self.candidacy;
        let (Some(lease), None) = (candidacy.lease, &candidacy.claim) else { return };
        // An earlier run of this monitor leads no more, and an earlier lease of this run has expired.
        let is_vacant = self.state.members.leader.as_ref().is_none_or(|leader| {
            let is_bound = *leader == candidacy.me && candidacy.led_by == Some(lease);
            leader.name == candidacy.me.name && !is_bound
        }) || self.leader_is_gone(now);
        let is_announced = candidacy.announced == Some(lease);
        if now >= candidacy.valid_until || is_announced && !is_vacant {
            return;
        }
        let mut transaction = Transaction { lease: Some(lease), ..Transaction::default() };
        if is_vacant {
            let revision = self.state.leader_revision();
            transaction.compare.push((keys::LEADER.to_owned(), revision));
            transaction.put(keys::LEADER, json(&candidacy.me));
        }
        let presence = Presence {
            incarnation: candidacy.me.incarnation,
            hostname: self.settings.hostname.clone(),
            manager: self.settings.mgr_name.clone(),
            host_facts: self.identity.host_facts.clone(),
        };
        transaction.put(keys::present(&candidacy.me.name), json(&presence));
        let token = self.pipeline.token();
        let request = Request::Commit { token, transaction: transaction.clone() };
        self.outputs.push_back(Output::Storage(request));
        self.candidacy.claim = Some((token, transaction));
    }

    /// Handles the outcome of a claim. A failed claim is repeated in the next tick.
    pub(super) fn claimed(&mut self, now: Time, outcome: Result<Revision, CommitError>) {
        let Some((_, transaction)) = self.candidacy.claim.take() else { return };
        match outcome {
            Ok(revision) => {
                self.pipeline.note_written(&transaction);
                self.candidacy.announced = transaction.lease;
                if transaction.writes.contains_key(keys::LEADER) {
                    self.candidacy.led_by = transaction.lease;
                }
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
        let leader = self.state.members.leader.clone();
        if leader.is_none() {
            return self.claim(now);
        }
        if leader == self.candidacy.followed {
            return;
        }
        let led_before = self.leads();
        self.candidacy.followed = leader;
        self.forget_leader();
        match self.leads() {
            true => self.take_over(now),
            false => {
                if led_before && now < self.candidacy.valid_until {
                    self.candidacy.deposed = Some(now);
                }
                if led_before {
                    tracing::warn!(leader = self.state.leader_name(), "another monitor leads now");
                    self.end_proxies(now);
                    self.on_services(now, |services, cx| services.leadership(cx, false));
                }
                self.claim(now);
                self.seek_leader(now);
            }
        }
    }

    /// Begins to lead, without any reports of OSDs yet.
    fn take_over(&mut self, now: Time) {
        tracing::info!(monitor = self.settings.mon_name, "leads");
        self.on_services(now, |services, cx| services.leadership(cx, true));
        let osds: Vec<ConnId> = self.osd_sessions();
        osds.into_iter().for_each(|conn| self.ask_for_reports(conn));
        self.answer_what_waits(now, |_| true);
        self.tick(now);
    }
}

fn json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}
