//! Leases of directory entries: for a time, a client may trust an entry without a capability on the
//! directory.
//!
//! Before an entry changes, leases of other clients are revoked, and waited for as long as they last.

use crate::requests::{Entry, RequestId};
use engine::{Duration, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Time for which a client may trust an entry.
pub const LEASE: Duration = Duration::from_secs(30);
/// Leases of one client. Entries beyond that are shown without one.
const LEASES_MAX: usize = 100_000;

/// A lease, as a client is told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseGrant {
    /// Number of the lease.
    pub seq: u32,
    /// How long it lasts.
    pub duration: Duration,
}

#[derive(Debug)]
struct Lease {
    until: Time,
    seq: u32,
    is_revoking: bool,
}

#[derive(Debug, Default)]
struct EntryLeases {
    leases: BTreeMap<u64, Lease>,
    /// Requests that change the entry.
    changing: Vec<RequestId>,
}

/// All leases.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    entries: BTreeMap<Entry, EntryLeases>,
    by_client: BTreeMap<u64, BTreeSet<Entry>>,
    expiry: BTreeSet<(Time, Entry, u64)>,
    last_seq: u32,
}

impl Leases {
    /// Leases of a client.
    pub fn count_of(&self, client: u64) -> usize {
        self.by_client.get(&client).map_or(0, BTreeSet::len)
    }

    /// Gives a client a lease, or extends the one that it has; none while the entry is about to change.
    pub fn grant(&mut self, now: Time, client: u64, entry: Entry) -> Option<LeaseGrant> {
        let is_changing =
            self.entries.get(&entry).is_some_and(|leases| !leases.changing.is_empty());
        let owned = self.by_client.get(&client);
        let is_full = owned.is_some_and(|own| own.len() >= LEASES_MAX && !own.contains(&entry));
        if is_changing || is_full {
            return None;
        }
        self.remove(client, &entry);
        self.last_seq = self.last_seq.wrapping_add(1);
        let (seq, until) = (self.last_seq, now + LEASE);
        let lease = Lease { until, seq, is_revoking: false };
        self.entries.entry(entry.clone()).or_default().leases.insert(client, lease);
        self.by_client.entry(client).or_default().insert(entry.clone());
        self.expiry.insert((until, entry, client));
        Some(LeaseGrant { seq, duration: LEASE })
    }

    /// Forgets a client's lease; whether it had one.
    pub fn remove(&mut self, client: u64, entry: &Entry) -> bool {
        let Some(leases) = self.entries.get_mut(entry) else { return false };
        let Some(lease) = leases.leases.remove(&client) else { return false };
        self.expiry.remove(&(lease.until, entry.clone(), client));
        let own = self.by_client.get_mut(&client).expect("a lease is listed with its client");
        own.remove(entry);
        if own.is_empty() {
            self.by_client.remove(&client);
        }
        self.forget_unused(entry);
        true
    }

    /// Number of a client's lease.
    pub fn seq(&self, client: u64, entry: &Entry) -> Option<u32> {
        Some(self.entries.get(entry)?.leases.get(&client)?.seq)
    }

    /// The requests that change an entry.
    pub fn changing(&self, entry: &Entry) -> Vec<RequestId> {
        self.entries.get(entry).map_or_else(Vec::new, |leases| leases.changing.clone())
    }

    fn forget_unused(&mut self, entry: &Entry) {
        let leases = self.entries.get(entry);
        if leases.is_some_and(|leases| leases.changing.is_empty() && leases.leases.is_empty()) {
            self.entries.remove(entry);
        }
    }

    /// A request is going to change an entry: returns the clients that must be told, with the numbers of
    /// their leases. The client of the request forgets its own.
    pub fn begin_change(&mut self, id: RequestId, entry: &Entry) -> Vec<(u64, u32)> {
        self.remove(id.client, entry);
        let leases = self.entries.entry(entry.clone()).or_default();
        leases.changing.push(id);
        let mut told = Vec::new();
        for (client, lease) in leases.leases.iter_mut().filter(|(_, lease)| !lease.is_revoking) {
            lease.is_revoking = true;
            told.push((*client, lease.seq));
        }
        told
    }

    /// The request has changed the entry, or does not any more.
    pub fn end_change(&mut self, id: RequestId, entry: &Entry) {
        let leases = self.entries.get_mut(entry).expect("an entry that changes is known");
        let at = leases.changing.iter().position(|other| *other == id);
        leases.changing.remove(at.expect("a request that changes an entry is listed"));
        self.forget_unused(entry);
    }

    /// Whether no other client may trust an entry.
    pub fn admits(&self, client: u64, entry: &Entry) -> bool {
        let leases = self.entries.get(entry);
        leases.is_none_or(|leases| leases.leases.keys().all(|other| *other == client))
    }

    /// Forgets the leases of a client; returns the entries.
    pub fn remove_client(&mut self, client: u64) -> Vec<Entry> {
        let own: Vec<Entry> = self.by_client.get(&client).into_iter().flatten().cloned().collect();
        for entry in &own {
            self.remove(client, entry);
        }
        own
    }

    /// Forgets a lease that has ended; returns its entry.
    pub fn poll_expired(&mut self, now: Time) -> Option<Entry> {
        let (_, entry, client) = self.expiry.first().filter(|(until, ..)| *until <= now)?.clone();
        self.remove(client, &entry);
        Some(entry)
    }

    /// The time at which the first lease ends.
    pub fn next_expiry(&self) -> Option<Time> {
        self.expiry.first().map(|(until, ..)| *until)
    }

    /// Panics if the indexes contradict each other.
    pub fn check_invariants(&self) {
        let leases = self.entries.values().map(|leases| leases.leases.len()).sum::<usize>();
        assert_eq!(leases, self.expiry.len(), "each lease ends once");
        let owned = self.by_client.values().map(BTreeSet::len).sum::<usize>();
        assert_eq!(leases, owned, "each lease has one client");
    }
}
