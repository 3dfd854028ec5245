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
use crate::keys;
use crate::live::StoreTrouble;
use crate::state::{Leader, Presence, State};
use control::{LEASE_TTL, LeaseError, LeaseId, Request, SILENCE_MAX, Transaction};
use engine::Time;
use std::time::Duration;

/// Safety margin of the lease's owner for clock drift.
const LEASE_MARGIN: Duration = Duration::from_millis(500);
/// Time for which a monitor that was succeeded although it ran waits for leases to expire before it takes
/// over.
const BACKOFF: Duration = Duration::from_secs(60);

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
    /// The leader at the last call of [`Candidacy::follow`].
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

    /// Panics if a pending request has a token that was not given out, or if this monitor leads by a lease
    /// under which it did not announce itself. `leader` is the one in the state, once that is followed.
    pub fn check_invariants(&self, newest_token: u64, leader: Option<&Leader>) {
        let asked = self.asked.as_ref().map(|(token, _)| *token);
        let claimed = self.claim.as_ref().map(|(token, _)| *token);
        for token in asked.into_iter().chain(claimed) {
            assert!(token <= newest_token, "token {token} was given out");
        }
        let leads_by_lease = self.lease.is_some() && self.led_by == self.lease;
        assert!(!leads_by_lease || self.announced == self.lease, "a leader is announced");
        assert!(leader.is_none() || leader == self.followed.as_ref(), "{leader:?} is followed");
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
    pub fn trouble(&self, now: Time) -> Option<StoreTrouble> {
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

    /// Whether this monitor is the leader as far as is known. It remains so while no monitor can reach the
    /// store.
    pub fn leads(&self) -> bool {
        self.followed.as_ref() == Some(&self.me)
    }

    /// Whether no other monitor can have taken over yet, so that this one runs the timers.
    pub fn owns_timers(&self, now: Time) -> bool {
        let is_bound = self.lease.is_some() && self.led_by == self.lease;
        self.leads() && is_bound && now < self.valid_until
    }

    /// Whether this monitor is the leader as far as is known, but its lease may have expired.
    pub fn may_be_deposed(&self, now: Time) -> bool {
        self.leads() && now >= self.valid_until
    }

    /// Whether this monitor's lease is valid, as far as is known.
    pub fn holds_lease(&self, now: Time) -> bool {
        self.lease.is_some() && now < self.valid_until
    }

    /// Stops renewing the lease. It expires by itself, and its keys are deleted with it.
    pub fn give_up_lease(&mut self) {
        self.lease = None;
        self.announced = None;
    }

    /// Called in every tick in which the lease is not renewed on purpose: the store's silence means nothing.
    pub fn pause(&mut self, now: Time) {
        self.heard = now;
    }

    /// The request that obtains or renews the lease, unless one is pending.
    pub fn renew(&mut self, now: Time, token: impl FnOnce() -> u64) -> Option<Request> {
        if self.asked.is_some() {
            return None;
        }
        let token = token();
        self.asked = Some((token, now));
        Some(match self.lease {
            None => Request::Grant { token, ttl: LEASE_TTL },
            Some(lease) => Request::Renew { token, lease },
        })
    }

    /// Handles the answer to a request for the lease. `None` if it is not the pending one, or if the lease
    /// has been given up meanwhile.
    pub fn leased(
        &mut self,
        now: Time,
        token: u64,
        outcome: Result<LeaseId, LeaseError>,
        yields: bool,
    ) -> Option<Leased> {
        let asked = self.asked.take_if(|(asked, _)| *asked == token);
        let (_, asked_at) = asked.filter(|_| !yields)?;
        self.note_answer(now, &outcome);
        Some(match outcome {
            Ok(lease) => {
                self.complaints.is_over("lease");
                self.lease = Some(lease);
                self.valid_until = asked_at + (LEASE_TTL - LEASE_MARGIN);
                Leased::Holds
            }
            Err(LeaseError::Ended) => {
                tracing::warn!("the lease of this monitor has ended");
                self.lease = None;
                Leased::Ended
            }
            Err(LeaseError::Failed { reason }) => {
                if self.complaints.is_due(now, "lease", &reason) {
                    tracing::warn!(reason, "the lease of this monitor could not be renewed");
                }
                Leased::Unknown
            }
        })
    }

    /// The request that announces that this monitor is alive and, if there is no leader, that it leads.
    /// `None` if neither is needed, or one is pending. `misses_leader`: the leader cannot be reached.
    pub fn claim(
        &mut self,
        now: Time,
        state: &State,
        misses_leader: bool,
        presence: impl FnOnce(u64) -> Presence,
        token: impl FnOnce() -> u64,
    ) -> Option<Request> {
        let (Some(lease), None) = (self.lease, &self.claim) else { return None };
        // An earlier run of this monitor leads no more, and an earlier lease of this run has expired.
        let is_vacant = state.members.leader.as_ref().is_none_or(|leader| {
            let is_bound = *leader == self.me && self.led_by == Some(lease);
            leader.name == self.me.name && !is_bound
        }) || misses_leader && !self.backs_off(now);
        let is_announced = self.announced == Some(lease);
        if now >= self.valid_until || is_announced && !is_vacant {
            return None;
        }
        let mut transaction = Transaction { lease: Some(lease), ..Transaction::default() };
        if is_vacant {
            transaction.compare.push((keys::LEADER.to_owned(), state.leader_revision()));
            transaction.put(keys::LEADER, json(&self.me));
        }
        transaction.put(keys::present(&self.me.name), json(&presence(self.me.incarnation)));
        let token = token();
        self.claim = Some((token, transaction.clone()));
        Some(Request::Commit { token, transaction })
    }

    /// Whether this monitor was succeeded of late although it ran: it does not do the same to others.
    fn backs_off(&self, now: Time) -> bool {
        self.deposed.is_some_and(|when| now.since(when) < BACKOFF)
    }

    /// Takes the pending claim, which the store has answered.
    pub fn take_claim(&mut self) -> Option<Transaction> {
        self.claim.take().map(|(_, transaction)| transaction)
    }

    /// Handles a claim that is durable.
    pub fn claimed(&mut self, transaction: &Transaction) {
        assert!(transaction.lease.is_some(), "a claim is bound to a lease");
        self.announced = transaction.lease;
        if transaction.writes.contains_key(keys::LEADER) {
            self.led_by = transaction.lease;
        }
    }

    /// Follows another leader than before. Returns whether this monitor led before.
    pub fn follow(&mut self, now: Time, leader: Leader) -> bool {
        assert_ne!(self.followed.as_ref(), Some(&leader), "a leader is followed once");
        let led_before = self.leads();
        self.followed = Some(leader);
        if led_before && !self.leads() && now < self.valid_until {
            self.deposed = Some(now);
        }
        led_before
    }
}

/// The answer to a request for the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leased {
    Holds,
    Ended,
    Unknown,
}

fn json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "token 3 was given out")]
    fn a_token_that_was_not_given_out_is_found() {
        let mut candidacy = Candidacy::new("a", 1);
        assert!(candidacy.renew(Time::ZERO, || 3).is_some());
        candidacy.check_invariants(3, None);
        candidacy.check_invariants(2, None);
    }

    #[test]
    #[should_panic(expected = "is followed")]
    fn a_leader_that_is_not_followed_is_found() {
        let mut candidacy = Candidacy::new("a", 1);
        let leader = Leader { name: "b".to_owned(), incarnation: 1 };
        candidacy.follow(Time::ZERO, leader.clone());
        candidacy.check_invariants(0, Some(&leader));
        candidacy.check_invariants(0, Some(&Leader { incarnation: 2, ..leader }));
    }
}
