//! The contract, on real members.

use crate::testing::Members;
use crate::{EtcdControl, txn};
use bytes::Bytes;
use control::{
    CommitError, Completion, Entry, Event, LeaseError, LeaseId, Request, Revision, Transaction,
};
use engine::{Storage, Time};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Long enough for anything that is waited for.
const TIME_MAX: Duration = Duration::from_secs(40);

/// A store, and what it has to say.
struct Store {
    control: EtcdControl,
    wakes: Receiver<()>,
    tokens: u64,
    changes: Vec<Event>,
}

impl Store {
    fn open(members: &Members, writer: &str) -> Self {
        let (wake, wakes) = channel();
        let wake = move || {
            let _ = wake.send(());
        };
        let control = EtcdControl::open(&members.options(), writer, None, wake).unwrap();
        Store { control, wakes, tokens: 0, changes: Vec::new() }
    }

    fn submit(&mut self, request: impl FnOnce(u64) -> Request) -> u64 {
        self.tokens += 1;
        self.control.submit(Time::ZERO, request(self.tokens));
        self.tokens
    }

    /// The next answer; changes are put aside.
    fn answer(&mut self) -> Completion {
        loop {
            match self.next() {
                Completion::Changed { events } => self.changes.extend(events),
                answer => return answer,
            }
        }
    }

    fn next(&mut self) -> Completion {
        loop {
            if let Some(completion) = self.control.poll_completion() {
                return completion;
            }
            self.wakes.recv_timeout(TIME_MAX).expect("the store says something in time");
        }
    }

    /// The value of the next change of a key.
    fn change_of(&mut self, key: &str) -> Event {
        loop {
            if let Some(found) = self.changes.iter().position(|event| event.key == key) {
                return self.changes.drain(..=found).next_back().unwrap();
            }
            match self.next() {
                Completion::Changed { events } => self.changes.extend(events),
                other => panic!("{other:?} instead of a change"),
            }
        }
    }

    fn load(&mut self) -> (Vec<Entry>, Revision) {
        self.submit(|token| Request::Range { token, prefix: String::new() });
        match self.answer() {
            Completion::Loaded { entries, revision, .. } => (entries, revision),
            other => panic!("{other:?}"),
        }
    }

    fn commit(&mut self, transaction: Transaction) -> Result<Revision, CommitError> {
        self.submit(|token| Request::Commit { token, transaction });
        match self.answer() {
            Completion::Committed { outcome, .. } => outcome,
            other => panic!("{other:?}"),
        }
    }

    fn lease(&mut self, request: impl FnOnce(u64) -> Request) -> Result<LeaseId, LeaseError> {
        self.submit(request);
        match self.answer() {
            Completion::Leased { outcome, .. } => outcome,
            other => panic!("{other:?}"),
        }
    }
}

fn put(key: &str, value: &str, expected: Option<Revision>) -> Transaction {
    let mut transaction = Transaction::default();
    transaction.put(key, value.to_owned());
    transaction.compare.push((key.to_owned(), expected));
    transaction
}

#[test]
fn transactions_compare_revisions_and_others_are_told() {
    let members = Members::start(1);
    let (mut a, mut b) = (Store::open(&members, "a"), Store::open(&members, "b"));
    assert_eq!(b.load().0, []);
    let first = a.commit(put("x", "1", None)).unwrap();
    assert_eq!(a.commit(put("x", "2", None)), Err(CommitError::Conflict));
    let second = a.commit(put("x", "2", Some(first))).unwrap();
    assert!(second > first);
    assert_eq!(b.change_of("x").revision, first);
    assert_eq!(b.change_of("x").value.as_deref(), Some(&b"2"[..]));
    let mut delete = Transaction::default();
    delete.delete("x");
    let third = a.commit(delete).unwrap();
    assert_eq!(b.change_of("x"), Event { key: "x".to_owned(), value: None, revision: third });
    assert_eq!(a.load(), (vec![], third));
}

#[test]
fn a_load_of_many_keys_is_whole_and_what_follows_has_no_gap() {
    let members = Members::start(1);
    let (mut a, mut b) = (Store::open(&members, "a"), Store::open(&members, "b"));
    let mut many = Vec::new();
    for batch in 0..6 {
        let mut transaction = Transaction::default();
        (0..100).for_each(|n| transaction.put(format!("k/{batch}/{n:03}"), "v"));
        many.push(a.commit(transaction).unwrap());
    }
    let (entries, revision) = b.load();
    assert_eq!((entries.len(), revision), (600, *many.last().unwrap()));
    assert!(entries.is_sorted_by(|left, right| left.key < right.key));
    let next = a.commit(put("l", "1", None)).unwrap();
    assert_eq!(b.change_of("l").revision, next);
    assert!(b.changes.is_empty(), "what was loaded is not told again");
}

#[test]
fn a_lease_ends_with_its_holder_and_takes_its_keys_along() {
    let members = Members::start(1);
    let (mut a, mut b) = (Store::open(&members, "a"), Store::open(&members, "b"));
    b.load();
    let ttl = Duration::from_secs(2);
    let lease = a.lease(|token| Request::Grant { token, ttl }).unwrap();
    a.commit(Transaction { lease: Some(lease), ..put("leader", "a", None) }).unwrap();
    assert_eq!(a.lease(|token| Request::Renew { token, lease }), Ok(lease));
    assert_eq!(b.change_of("leader").value.as_deref(), Some(&b"a"[..]));
    // A store that is closed revokes its leases.
    drop(a);
    assert_eq!(b.change_of("leader").value, None);
    assert_eq!(b.lease(|token| Request::Renew { token, lease }), Err(LeaseError::Ended));
}

#[test]
fn a_member_that_dies_goes_unnoticed() {
    let mut members = Members::start(3);
    let (mut a, mut b) = (Store::open(&members, "a"), Store::open(&members, "b"));
    b.load();
    let mut revision = a.commit(put("x", "0", None)).unwrap();
    b.change_of("x");
    for index in 0..3 {
        members.kill(index);
        for round in 0..3 {
            let value = format!("{index}.{round}");
            revision = a.commit(put("x", &value, Some(revision))).unwrap();
            let told = b.change_of("x");
            assert_eq!((told.revision, &told.value.unwrap()[..]), (revision, value.as_bytes()));
        }
        members.revive(index);
        // The next one dies only when this one is back.
        while a.commit(put(&format!("back/{index}"), "", None)).is_err() {}
        members.wait_until_all_serve();
    }
}

#[test]
fn without_a_quorum_nothing_is_written_and_with_it_all_goes_on() {
    let mut members = Members::start(3);
    let (mut a, mut b) = (Store::open(&members, "a"), Store::open(&members, "b"));
    b.load();
    let revision = a.commit(put("x", "1", None)).unwrap();
    b.change_of("x");
    members.kill(0);
    members.kill(1);
    let failed = a.commit(put("x", "2", Some(revision))).unwrap_err();
    let CommitError::Failed { reason } = &failed else { panic!("{failed:?}") };
    assert!(reason.contains("is its quorum up?"), "{reason}");
    members.revive(0);
    members.revive(1);
    // Whether the lost transaction was applied is unknown: look first.
    let (entries, _) = a.load();
    let found = entries[0].revision;
    let next = a.commit(put("x", "3", Some(found))).unwrap();
    while b.change_of("x").revision != next {}
}

#[test]
fn a_transaction_may_write_more_than_a_member_takes_at_once() {
    let members = Members::start(1);
    let (mut writer, mut reader) = (Store::open(&members, "a"), Store::open(&members, "b"));
    writer.load();
    reader.load();
    let large: Bytes = (0..5 << 20).map(|n: u32| (n >> 8) as u8).collect::<Vec<u8>>().into();
    let mut transaction = Transaction::default();
    transaction.compare.push(("version".to_owned(), None));
    transaction.put("version", "1");
    transaction.put("osdmap/full/1", large.clone());
    (0..1000).for_each(|n| transaction.put(format!("many/{n:04}"), "x"));
    let revision = writer.commit(transaction.clone()).unwrap();
    let told = reader.change_of("osdmap/full/1");
    assert_eq!((told.value.as_ref(), told.revision), (Some(&large), revision));
    let (entries, _) = reader.load();
    assert_eq!(entries.len(), 1002);
    assert!(entries.iter().any(|entry| entry.value == large));
    assert_eq!(writer.commit(transaction), Err(CommitError::Conflict));

    let mut overwrite = Transaction::default();
    overwrite.put("osdmap/full/1", large.slice(..3 << 20));
    reader.commit(overwrite).unwrap();
    assert_eq!(reader.load().0.iter().map(|entry| entry.value.len()).max(), Some(3 << 20));
    let mut delete = Transaction::default();
    delete.delete("osdmap/full/1");
    reader.commit(delete).unwrap();
    assert_eq!(members.pieces(), 0, "nothing is left of a value that is gone");
}

#[test]
fn nothing_is_left_of_a_value_whose_transaction_is_refused() {
    let members = Members::start(1);
    let mut store = Store::open(&members, "a");
    store.load();
    let mut transaction = Transaction::default();
    transaction.put("osdmap/full/1", vec![1; 3 << 20]);
    // The names of the keys alone are larger than a request may be.
    let name = "n".repeat(1500);
    (0..1500).for_each(|n| transaction.put(format!("many/{n:04}/{name}"), "x"));
    let refused = store.commit(transaction);
    assert!(matches!(refused, Err(CommitError::Refused { .. })), "{refused:?}");
    assert_eq!(members.pieces(), 0);
}

#[test]
fn so_many_keys_may_change_at_once_and_no_more() {
    let members = Members::start(1);
    let mut store = Store::open(&members, "a");
    let of = |count: usize| {
        let mut transaction = put("version", "1", None);
        (1..count).for_each(|n| transaction.put(format!("many/{n:04}"), "x"));
        transaction
    };
    // One more is written, by which the writer knows its own.
    let most = txn::OPERATIONS_MAX - 1;
    let CommitError::Refused { reason } = store.commit(of(most + 1)).unwrap_err() else {
        panic!("it fits no etcd")
    };
    assert!(reason.contains("make it in parts"), "{reason}");
    store.commit(of(most)).unwrap();
    assert_eq!(store.load().0.len(), most);
}
