//! Which monitor leads.
//!
//! Each monitor holds a lease of the control store and, bound to it, a key that says that it is alive.
//! Whoever finds no leader writes itself as one, bound to its lease; of several that try at once, one
//! succeeds. When the leader's lease ends, its keys go, and the others learn of it.
//!
//! A leader that another monitor has a session with no more, and gets none, is succeeded by that one
//! at once, as long as it reaches the store: failed OSDs should not wait for a lease. Who was succeeded
//! although it lived does not do the same to its successor for a while, so that two monitors that
//! cannot reach each other do not take turns.
//!
//! A leader that is cut off from the store stops to own the timers before its lease ends. Should two
//! believe to lead all the same, they do no harm: all that they write is compare-and-swap, and compares besides
//! that no other one has begun to lead.

use super::{Monitor, Phase, StoreTrouble};
use crate::control::{CommitError, LeaseError, LeaseId, Request, Revision, Transaction};
use crate::failures::Failures;
use crate::keys;
use crate::services::ServiceMap;
use crate::state::{Leader, Presence};
use engine::{ConnId, Output, Time};
use std::time::Duration;

/// How long a leader may be silent until others take over.
pub(super) const LEASE_TTL: Duration = Duration::from_secs(4);
/// What a leader gives up of it, because clocks do not run alike.
const LEASE_MARGIN: Duration = Duration::from_millis(500);
/// How long one that was succeeded while it lived waits for leases to end like anybody else.
const HUMBLE: Duration = Duration::from_secs(60);
/// After so long without an answer of the store, health speaks of it.
pub(crate) const SILENCE_MAX: Duration = LEASE_TTL;

pub(super) struct Candidacy {
    me: Leader,
    lease: Option<LeaseId>,
    /// A request for the lease that was not answered yet, and when it was made.
    asked: Option<(u64, Time)>,
    /// Until when the lease lives at least.
    valid_until: Time,
    /// When the store answered last, and what it said since that was no answer.
    heard: Time,
    complaint: Option<String>,
    /// A transaction that says that we live, or lead.
    claim: Option<(u64, Transaction)>,
    /// The leases that the keys are bound to which say that we live, and that we lead.
    announced: Option<LeaseId>,
    led_by: Option<LeaseId>,
    /// As was acted upon.
    followed: Option<Leader>,
    /// When another one succeeded this monitor although it lived.
    deposed: Option<Time>,
}

impl Candidacy {
    pub fn new(name: &str, incarnation: u64) -> Self {
        Candidacy {
            me: Leader { name: name.to_owned(), incarnation },
            lease: None,
            asked: None,
            valid_until: Time::ZERO,
            heard: Time::ZERO,
            complaint: None,
            claim: None,
            announced: None,
            led_by: None,
            followed: None,
            deposed: None,
        }
    }

    pub fn is_claim(&self, token: u64) -> bool {
        self.claim.as_ref().is_some_and(|(claim, _)| *claim == token)
    }

    /// That a lease has ended is an answer, too.
    fn note_answer(&mut self, now: Time, outcome: &Result<LeaseId, LeaseError>) {
        match outcome {
            Ok(_) | Err(LeaseError::Ended) => (self.heard, self.complaint) = (now, None),
            Err(LeaseError::Failed { reason }) => self.complaint = Some(reason.clone()),
        }
    }

    /// Whether the store has not answered for longer than others take to notice.
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
    /// Whether this monitor is the one that others turn to. It stays so while the store is out of
    /// reach of all.
    pub fn leads(&self) -> bool {
        self.candidacy.followed.as_ref() == Some(&self.candidacy.me)
    }

    /// Whether nobody else can have taken over by now, so that this one does what follows from time.
    pub fn owns_timers(&self, now: Time) -> bool {
        let candidacy = &self.candidacy;
        let is_bound = candidacy.lease.is_some() && candidacy.led_by == candidacy.lease;
        self.leads() && is_bound && now < candidacy.valid_until
    }

    /// Whether this monitor leads as far as it knows, and its lease may have ended since.
    pub(super) fn may_be_deposed(&self, now: Time) -> bool {
        self.leads() && now >= self.candidacy.valid_until
    }

    /// Whether this monitor's lease lives, as far as it knows.
    pub(super) fn holds_lease(&self, now: Time) -> bool {
        self.candidacy.lease.is_some() && now < self.candidacy.valid_until
    }

    /// The lease ends by itself, and its keys go with it.
    pub(super) fn give_up_lease(&mut self) {
        self.candidacy.lease = None;
        self.candidacy.announced = None;
    }

    /// Once per tick: keeps the lease, and uses it.
    pub(super) fn tend_candidacy(&mut self, now: Time) {
        if !matches!(self.phase, Phase::Serving) {
            return;
        }
        if self.reading.yields() {
            self.candidacy.heard = now;
            self.overview.store_trouble = None;
            return;
        }
        if self.candidacy.asked.is_none() {
            let token = self.token();
            let request = match self.candidacy.lease {
                None => Request::Grant { token, ttl: LEASE_TTL },
                Some(lease) => Request::Renew { token, lease },
            };
            self.candidacy.asked = Some((token, now));
            self.outputs.push_back(Output::Storage(request));
        }
        self.overview.store_trouble = self.candidacy.trouble(now);
        self.claim(now);
    }

    pub(super) fn leased(&mut self, now: Time, token: u64, outcome: Result<LeaseId, LeaseError>) {
        let asked = self.candidacy.asked.take_if(|(asked, _)| *asked == token);
        let Some((_, asked_at)) = asked.filter(|_| !self.reading.yields()) else { return };
        self.candidacy.note_answer(now, &outcome);
        self.overview.store_trouble = self.candidacy.trouble(now);
        match outcome {
            Ok(lease) => {
                self.complaints.is_over("lease");
                self.candidacy.lease = Some(lease);
                self.candidacy.valid_until = asked_at + (LEASE_TTL - LEASE_MARGIN);
                self.claim(now);
            }
            Err(LeaseError::Ended) => {
                tracing::warn!("the lease of this monitor has ended");
                self.candidacy.lease = None;
                // Perhaps this machine stood still, or was reset to a snapshot: then what is left of the ids that
                // were set aside before has been given out since.
                self.global_ids = 0..0;
            }
            Err(LeaseError::Failed { reason }) if self.complaints.is_due(now, "lease", &reason) => {
                tracing::warn!(reason, "the lease of this monitor could not be renewed");
            }
            Err(LeaseError::Failed { .. }) => {}
        }
    }

    /// Whether the leader is to be succeeded although its lease may still live.
    fn leader_is_gone(&self, now: Time) -> bool {
        let is_humble = self.candidacy.deposed.is_some_and(|when| now.since(when) < HUMBLE);
        self.relay.misses_leader(now) && !is_humble
    }

    /// Says that this monitor lives and, if nobody leads, that it does.
    pub(super) fn claim(&mut self, now: Time) {
        let candidacy = &self.candidacy;
        let (Some(lease), None) = (candidacy.lease, &candidacy.claim) else { return };
        // An earlier run of ours leads no more, and an earlier lease of ours has ended.
        let is_vacant = self.state.leader.as_ref().is_none_or(|leader| {
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
            host_facts: self.overview.host_facts.clone(),
        };
        transaction.put(keys::present(&candidacy.me.name), json(&presence));
        let token = self.token();
        let request = Request::Commit { token, transaction: transaction.clone() };
        self.outputs.push_back(Output::Storage(request));
        self.candidacy.claim = Some((token, transaction));
    }

    /// A claim was decided. What failed is tried again with the next tick.
    pub(super) fn claimed(&mut self, now: Time, outcome: Result<Revision, CommitError>) {
        let Some((_, transaction)) = self.candidacy.claim.take() else { return };
        match outcome {
            Ok(revision) => {
                self.note_written(&transaction);
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
                self.note_refused(now, &reason);
            }
            Err(error) => tracing::debug!(%error, "another monitor leads"),
        }
    }

    /// Acts upon a change of the leader.
    pub(super) fn follow_leader(&mut self, now: Time) {
        // Between two leaders the one that was may still answer.
        let leader = self.state.leader.clone();
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
                    self.overview.services = Default::default();
                }
                self.claim(now);
                self.seek_leader(now);
            }
        }
    }

    /// This monitor leads from now on, and knows nothing yet of what OSDs report.
    fn take_over(&mut self, now: Time) {
        tracing::info!(monitor = self.settings.mon_name, "leads");
        self.stats = Default::default();
        self.liveness.restart();
        // OSDs report again what they see now, and took back elsewhere what they no longer see.
        self.failures = Failures::default();
        self.overview.services = ServiceMap::new(now);
        let here: Vec<_> = self.sessions.values().filter_map(super::Session::osd).collect();
        for (osd, known) in self.state.osdmap.existing_osds() {
            // Whoever does not come back counts as gone.
            if known.is_up() && !here.contains(&osd) {
                self.liveness.lost(osd, now);
            }
        }
        let osds: Vec<ConnId> = self.osd_sessions();
        osds.into_iter().for_each(|conn| self.ask_for_reports(conn));
        self.answer_what_waits(now, |_| true);
        self.keep_house(now);
    }
}

fn json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}
