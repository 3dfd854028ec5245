//! The control store in memory, for simulations and tests. Commits are durable at once.

use super::{
    CommitError, Completion, Entry, Event, LeaseError, LeaseId, Request, Revision, Transaction,
};
use bytes::Bytes;
use engine::{Duration, Time};
use std::collections::{BTreeMap, BTreeSet};

/// The reference implementation of the contract. Several monitors may share one: each passes its requests to
/// [`MemControl::execute`], receives the completion, and the events of [`MemControl::events`] go to the
/// others.
#[derive(Debug, Clone, Default)]
pub struct MemControl {
    entries: BTreeMap<String, (Bytes, Revision)>,
    revision: Revision,
    leases: BTreeMap<LeaseId, Lease>,
    leases_granted: LeaseId,
}

#[derive(Debug, Clone)]
struct Lease {
    ttl: Duration,
    ends: Time,
    keys: BTreeSet<String>,
}

impl MemControl {
    /// A store without keys, at revision 0.
    pub fn new() -> Self {
        MemControl::default()
    }

    /// Executes one request and returns its completion. Leases must have been ended up to `now`.
    pub fn execute(&mut self, now: Time, request: &Request) -> Completion {
        match request {
            Request::Range { token, prefix } => Completion::Loaded {
                token: *token,
                entries: self.range(prefix),
                revision: self.revision,
            },
            Request::Commit { token, transaction } => {
                Completion::Committed { token: *token, outcome: self.commit(transaction) }
            }
            Request::Grant { token, ttl } => {
                Completion::Leased { token: *token, outcome: Ok(self.grant(now, *ttl)) }
            }
            Request::Renew { token, lease } => {
                Completion::Leased { token: *token, outcome: self.renew(now, *lease) }
            }
        }
    }

    /// Applies a transaction, or returns the reason it was not applied.
    pub fn commit(&mut self, transaction: &Transaction) -> Result<Revision, CommitError> {
        let matches = |(key, expected): &(String, Option<Revision>)| {
            self.entries.get(key).map(|(_, revision)| *revision) == *expected
        };
        if !transaction.compare.iter().all(matches) {
            return Err(CommitError::Conflict);
        }
        if transaction.lease.is_some_and(|lease| !self.leases.contains_key(&lease)) {
            return Err(CommitError::Failed { reason: LeaseError::Ended.to_string() });
        }
        if !transaction.is_empty() {
            self.write(transaction);
        }
        Ok(self.revision)
    }

    fn write(&mut self, transaction: &Transaction) {
        self.revision += 1;
        for (key, value) in &transaction.writes {
            self.leases.values_mut().for_each(|lease| {
                lease.keys.remove(key);
            });
            match value {
                Some(value) => {
                    self.entries.insert(key.clone(), (value.clone(), self.revision));
                }
                None => {
                    self.entries.remove(key);
                }
            }
        }
        if let Some(lease) = transaction.lease.and_then(|lease| self.leases.get_mut(&lease)) {
            let written = transaction.writes.iter().filter(|(_, value)| value.is_some());
            lease.keys.extend(written.map(|(key, _)| key.clone()));
        }
    }

    /// Grants a lease that expires at `now + ttl`.
    pub fn grant(&mut self, now: Time, ttl: Duration) -> LeaseId {
        self.leases_granted += 1;
        let lease = Lease { ttl, ends: now + ttl, keys: BTreeSet::new() };
        self.leases.insert(self.leases_granted, lease);
        self.leases_granted
    }

    /// Renews a lease that has not expired.
    pub fn renew(&mut self, now: Time, lease: LeaseId) -> Result<LeaseId, LeaseError> {
        let known = self.leases.get_mut(&lease).filter(|known| known.ends > now);
        let known = known.ok_or(LeaseError::Ended)?;
        known.ends = now + known.ttl;
        Ok(lease)
    }

    /// The time at which the next lease expires, unless it is renewed.
    pub fn next_end(&self) -> Option<Time> {
        self.leases.values().map(|lease| lease.ends).min()
    }

    /// Ends one expired lease, and returns the event for all watchers if it had keys; `None` if none has
    /// expired.
    pub fn end_lease(&mut self, now: Time) -> Option<Completion> {
        while let Some(id) = self.leases.iter().find(|(_, lease)| lease.ends <= now) {
            let id = *id.0;
            let keys = self.leases.remove(&id).map(|lease| lease.keys).unwrap_or_default();
            if keys.is_empty() {
                continue;
            }
            let mut transaction = Transaction::default();
            keys.into_iter().for_each(|key| transaction.delete(key));
            self.write(&transaction);
            return Some(Self::events(&transaction, self.revision));
        }
        None
    }

    /// The event for watchers about a transaction that was committed as `revision`.
    pub fn events(transaction: &Transaction, revision: Revision) -> Completion {
        let event = |(key, value): (&String, &Option<Bytes>)| Event {
            key: key.clone(),
            value: value.clone(),
            revision,
        };
        Completion::Changed { events: transaction.writes.iter().map(event).collect() }
    }

    /// All keys that begin with `prefix`, in order.
    pub fn range(&self, prefix: &str) -> Vec<Entry> {
        let from = self.entries.range(prefix.to_owned()..);
        from.take_while(|(key, _)| key.starts_with(prefix))
            .map(|(key, (value, revision))| Entry {
                key: key.clone(),
                value: value.clone(),
                revision: *revision,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str, expected: Option<Revision>) -> Transaction {
        let mut transaction = Transaction::default();
        transaction.put(key, &b"v"[..]);
        transaction.compare.push((key.to_owned(), expected));
        transaction
    }

    #[test]
    fn a_transaction_needs_the_revisions_it_compares() {
        let mut store = MemControl::new();
        assert_eq!(store.commit(&put("a", None)), Ok(1));
        assert_eq!(store.commit(&put("a", None)), Err(CommitError::Conflict));
        assert_eq!(store.commit(&put("a", Some(1))), Ok(2));
        assert_eq!(store.range("a")[0].revision, 2);
    }

    #[test]
    fn a_conflict_writes_nothing_and_ranges_end_with_their_prefix() {
        let mut store = MemControl::new();
        store.commit(&put("a/1", None)).unwrap();
        store.commit(&put("b", None)).unwrap();
        let mut both = put("a/2", None);
        both.compare.push(("b".to_owned(), None));
        assert_eq!(store.commit(&both), Err(CommitError::Conflict));
        assert_eq!(store.range("a/").len(), 1);
        assert_eq!(store.range("").len(), 2);
    }

    #[test]
    fn keys_go_with_their_lease_and_a_renewal_keeps_them() {
        let mut store = MemControl::new();
        let second = |n: u64| Time(n * 1_000_000_000);
        let lease = store.grant(second(0), Duration::from_secs(5));
        let leased = Transaction { lease: Some(lease), ..put("leader", None) };
        store.commit(&leased).unwrap();
        assert_eq!(store.renew(second(4), lease), Ok(lease));
        assert_eq!(store.end_lease(second(8)), None);
        let told = store.end_lease(second(9));
        let gone = Event { key: "leader".to_owned(), value: None, revision: 2 };
        assert_eq!(told, Some(Completion::Changed { events: vec![gone] }));
        assert_eq!(store.renew(second(9), lease), Err(LeaseError::Ended));
        assert!(matches!(store.commit(&leased), Err(CommitError::Failed { .. })));
    }
}
