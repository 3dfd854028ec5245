//! The control store in memory: durable at once, for simulations and tests.

use super::{CommitError, Completion, Entry, Event, Request, Revision, Transaction};
use bytes::Bytes;
use std::collections::BTreeMap;

/// The reference implementation of the contract. Several monitors may share one: each hands its
/// requests to [`MemControl::execute`] and gives what comes back to itself, and the events of
/// [`MemControl::events`] to the others.
#[derive(Debug, Clone, Default)]
pub struct MemControl {
    entries: BTreeMap<String, (Bytes, Revision)>,
    revision: Revision,
}

impl MemControl {
    pub fn new() -> Self {
        MemControl::default()
    }

    pub fn execute(&mut self, request: &Request) -> Completion {
        match request {
            Request::Range { token, prefix } => Completion::Loaded {
                token: *token,
                entries: self.range(prefix),
                revision: self.revision,
            },
            Request::Commit { token, transaction } => {
                Completion::Committed { token: *token, outcome: self.commit(transaction) }
            }
        }
    }

    pub fn commit(&mut self, transaction: &Transaction) -> Result<Revision, CommitError> {
        let matches = |(key, expected): &(String, Option<Revision>)| {
            self.entries.get(key).map(|(_, revision)| *revision) == *expected
        };
        if !transaction.compare.iter().all(matches) {
            return Err(CommitError::Conflict);
        }
        self.revision += 1;
        for (key, value) in &transaction.writes {
            match value {
                Some(value) => {
                    self.entries.insert(key.clone(), (value.clone(), self.revision));
                }
                None => {
                    self.entries.remove(key);
                }
            }
        }
        Ok(self.revision)
    }

    /// What watchers are told about a transaction that was committed as `revision`.
    pub fn events(transaction: &Transaction, revision: Revision) -> Completion {
        let event = |(key, value): (&String, &Option<Bytes>)| Event {
            key: key.clone(),
            value: value.clone(),
            revision,
        };
        Completion::Changed { events: transaction.writes.iter().map(event).collect() }
    }

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
}
