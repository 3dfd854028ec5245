//! A store with a crash model, for the simulator.
//!
//! A commit waits in a queue until its flush is due; reads see what is durable and nothing else.
//! [`CrashStore::crash`] loses the queue except for a prefix of random length: a real device may have
//! flushed transactions without completing them, each as a whole, in their order.
//!
//! Reads are delayed too, and show the state at the time at which they are answered, so that callers
//! that rely on more than the interface guarantees are found out. With the same seed and the same
//! calls the store does the same.
//!
//! The host calls [`CrashStore::advance`] when [`CrashStore::next_event`] is due, then drains
//! completions. It may instead [`CrashStore::flush`] whenever it likes.

use crate::mem::MemStore;
use crate::{
    Change, Collection, Completion, DeviceFault, ObjectStore, Outcome, Request, RequestKind,
    StoreError, Transaction,
};
use engine::{Duration, RequestToken, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use stdx::Prng;
use thiserror::Error;
use types::HObject;

/// The disk is dead, or one of its reads fails.
#[derive(Debug, Error)]
#[error("input/output error")]
struct Dead;

fn dead() -> StoreError {
    StoreError::Device(DeviceFault::new(Dead))
}

/// Delays and faults of the store.
#[derive(Debug, Clone)]
pub struct CrashOptions {
    /// Time until a commit is durable.
    pub commit_delay: RangeInclusive<Duration>,
    /// Time until a read completes.
    pub read_delay: RangeInclusive<Duration>,
    /// Of a million reads of data, this many fail with `Corrupt`.
    pub read_errors_per_million: u64,
    /// Of a million commits, this many are refused with `NoSpace`.
    pub refusals_per_million: u64,
    /// In bytes; `None` for the default of `MemStore`.
    pub capacity: Option<u64>,
}

impl Default for CrashOptions {
    fn default() -> Self {
        CrashOptions {
            commit_delay: Duration::from_micros(20)..=Duration::from_millis(5),
            read_delay: Duration::from_micros(5)..=Duration::from_millis(1),
            read_errors_per_million: 0,
            refusals_per_million: 0,
            capacity: None,
        }
    }
}

impl CrashOptions {
    /// A store without faults that executes everything at the next `advance`.
    pub fn immediate() -> Self {
        let at_once = Duration::ZERO..=Duration::ZERO;
        CrashOptions { commit_delay: at_once.clone(), read_delay: at_once, ..Default::default() }
    }
}

#[derive(Debug)]
struct Pending {
    due: Time,
    token: RequestToken,
    transaction: Transaction,
    /// Whether later commits build on it.
    is_append: bool,
}

/// A store in memory that crashes and fails as its options say.
#[derive(Debug)]
pub struct CrashStore {
    prng: Prng,
    options: CrashOptions,
    durable: MemStore,
    /// Objects whose data is unreadable until they are created again.
    damaged: BTreeSet<(Collection, HObject)>,
    /// In order of submission; `due` is non-decreasing.
    commits: VecDeque<Pending>,
    /// By due time; the number distinguishes reads of the same instant.
    reads: BTreeMap<(Time, u64), Request>,
    reads_submitted: u64,
    completions: VecDeque<Completion>,
    is_dead: bool,
    /// Objects of which the next change fails with `Corrupt`, once.
    unchangeable: BTreeSet<(Collection, HObject)>,
    /// Number of reads before one fails.
    reads_to_failure: Option<u64>,
}

impl ObjectStore for CrashStore {
    fn submit(&mut self, now: Time, request: Request) {
        let Request { token, kind } = request;
        match kind {
            RequestKind::Commit(transaction) => self.enqueue(now, token, transaction, false),
            RequestKind::Append(transaction) => self.enqueue(now, token, transaction, true),
            RequestKind::Resume(collection) => {
                self.durable.resume(collection);
                self.completions.push_back(Completion { token, outcome: Ok(Outcome::Resumed) });
            }
            kind => {
                let due = now + self.draw(false);
                self.reads_submitted += 1;
                self.reads.insert((due, self.reads_submitted), Request { token, kind });
            }
        }
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }
}

impl CrashStore {
    /// An empty store, whose faults depend on the seed.
    pub fn new(seed: u64, options: CrashOptions) -> Self {
        CrashStore {
            prng: Prng::new(seed),
            durable: options.capacity.map_or_else(MemStore::new, MemStore::with_capacity),
            options,
            damaged: BTreeSet::new(),
            unchangeable: BTreeSet::new(),
            commits: VecDeque::new(),
            reads: BTreeMap::new(),
            reads_submitted: 0,
            completions: VecDeque::new(),
            is_dead: false,
            reads_to_failure: None,
        }
    }

    fn enqueue(
        &mut self,
        now: Time,
        token: RequestToken,
        transaction: Transaction,
        is_append: bool,
    ) {
        let drawn = now + self.draw(true);
        let due = self.commits.back().map_or(drawn, |last| last.due.max(drawn));
        self.commits.push_back(Pending { due, token, transaction, is_append });
    }

    /// Time of the next event; now if completions wait.
    pub fn next_event(&self) -> Option<Time> {
        if !self.completions.is_empty() {
            return Some(Time::ZERO);
        }
        let commit = self.commits.front().map(|pending| pending.due);
        let read = self.reads.keys().next().map(|(due, _)| *due);
        commit.into_iter().chain(read).min()
    }

    /// Executes due requests in the order of their due times.
    pub fn advance(&mut self, now: Time) {
        loop {
            let commit = self.commits.front().map(|pending| pending.due).filter(|due| *due <= now);
            let read = self.reads.keys().next().map(|(due, _)| *due).filter(|due| *due <= now);
            match (commit, read) {
                (Some(commit), read) if read.is_none_or(|read| commit <= read) => {
                    self.flush_first()
                }
                (_, Some(_)) => self.answer_first(),
                _ => break,
            }
        }
    }

    /// Makes everything submitted durable and answers all reads.
    pub fn flush(&mut self) {
        self.advance(Time::FAR_FUTURE);
    }

    /// Makes a random prefix of the submitted commits durable.
    pub fn flush_some(&mut self) {
        let count = self.prng.below(self.commits.len() as u64 + 1);
        (0..count).for_each(|_| self.flush_first());
    }

    /// Crashes and restarts the machine: all requests and completions are lost, and of the commits not yet
    /// flushed a random prefix is durable.
    pub fn crash(&mut self) {
        if !self.is_dead {
            self.flush_some();
        }
        self.commits.clear();
        self.reads.clear();
        self.completions.clear();
        self.durable.restart();
    }

    /// Loses the disk's content.
    pub fn wipe(&mut self) {
        self.crash();
        self.durable = self.options.capacity.map_or_else(MemStore::new, MemStore::with_capacity);
    }

    /// Sets the number of failing reads per million.
    pub fn set_read_errors(&mut self, per_million: u64) {
        self.options.read_errors_per_million = per_million;
    }

    /// Fails one read, after `after` others; a retry succeeds.
    pub fn fail_read(&mut self, after: u64) {
        self.reads_to_failure = Some(after);
    }

    /// Lets reads succeed again that [`CrashStore::fail_read`] has planned to fail.
    pub fn heal_reads(&mut self) {
        self.reads_to_failure = None;
    }

    /// The device fails all requests, and keeps its durable content.
    pub fn kill(&mut self) {
        self.is_dead = true;
    }

    /// Ends device and read failures.
    pub fn heal(&mut self) {
        self.is_dead = false;
        self.heal_reads();
        self.set_read_errors(0);
    }

    /// Ends refusals.
    pub fn stop_refusing(&mut self) {
        self.options.refusals_per_million = 0;
    }

    /// Damages the data of an object: reads fail with `Corrupt`.
    pub fn damage(&mut self, collection: Collection, object: &HObject) {
        self.damaged.insert((collection, object.clone()));
    }

    /// Makes the data readable again.
    pub fn undo_damage(&mut self, collection: Collection, object: &HObject) {
        self.damaged.remove(&(collection, object.clone()));
    }

    /// Refuses the next change of an object with `Corrupt`, as a store does that cannot read a block which
    /// the change covers in part.
    pub fn refuse_change(&mut self, collection: Collection, object: &HObject) {
        self.unchangeable.insert((collection, object.clone()));
    }

    /// True if any object is damaged.
    pub fn is_damaged(&self) -> bool {
        !self.damaged.is_empty()
    }

    /// Changes the stored content silently.
    pub fn tamper(&mut self, transaction: &Transaction) {
        self.durable.apply(transaction).expect("the test knows what is there");
    }

    /// The content after a crash that loses everything in flight.
    pub fn durable(&self) -> &MemStore {
        &self.durable
    }

    /// Number of commits that are not durable.
    pub fn commits_pending(&self) -> usize {
        self.commits.len()
    }

    fn flush_first(&mut self) {
        let Some(pending) = self.commits.pop_front() else { return };
        let Pending { token, transaction, is_append, .. } = pending;
        let refusals = self.options.refusals_per_million;
        let removed =
            if self.damaged.is_empty() { Vec::new() } else { self.removed_by(&transaction) };
        let outcome = match refusals > 0 && self.prng.chance(refusals, 1_000_000) {
            _ if self.is_dead => Err(dead()),
            true => Err(StoreError::NoSpace { needed: transaction.bytes_added(), available: 0 }),
            false => match self.take_unchangeable(&transaction) {
                Some(object) => Err(StoreError::Corrupt { object, offset: 0, length: 1 }),
                None => self.durable.apply(&transaction).map(|()| Outcome::Committed),
            },
        };
        if is_append && outcome.is_err() {
            self.durable.close_behind(&transaction);
        }
        if outcome.is_ok() && !self.damaged.is_empty() {
            self.mend(&transaction, &removed);
        }
        self.completions.push_back(Completion { token, outcome });
    }

    fn take_unchangeable(&mut self, transaction: &Transaction) -> Option<HObject> {
        let changes = transaction.changes.iter();
        let objects = changes.filter_map(|(at, change)| Some((*at, change.object()?.clone())));
        let met = objects.into_iter().find(|place| self.unchangeable.contains(place))?;
        self.unchangeable.remove(&met);
        Some(met.1)
    }

    fn answer_first(&mut self) {
        let Some((_, Request { token, kind })) = self.reads.pop_first() else { return };
        let outcome = match self.read_error(&kind) {
            Some(error) => Err(error),
            None => self.durable.execute(kind),
        };
        self.completions.push_back(Completion { token, outcome });
    }

    /// Removed objects lose their damage.
    fn mend(&mut self, transaction: &Transaction, removed: &[(Collection, HObject)]) {
        self.damaged.retain(|object| !removed.contains(object));
        for (at, change) in &transaction.changes {
            if let Change::RemoveCollection = change {
                self.damaged.retain(|(collection, _)| collection != at);
            }
        }
    }

    /// Objects that the transaction will remove, by itself or by settling what was held before.
    fn removed_by(&self, transaction: &Transaction) -> Vec<(Collection, HObject)> {
        let mut removed = Vec::new();
        for (place, (at, change)) in transaction.changes.iter().enumerate() {
            let through = match change {
                Change::Settle { through } => Some(*through),
                _ => None,
            };
            let before = self.durable.held().of(*at);
            let before = before.filter(|(name, _)| Some(name.version) <= through);
            let own = transaction.changes[..place].iter().filter_map(|change| match change {
                (other, Change::Hold { version, changes }) if other == at => {
                    (Some(*version) <= through).then_some(changes)
                }
                _ => None,
            });
            let settled = before.map(|(_, changes)| changes).chain(own).flatten();
            let all = settled.chain([change]);
            removed.extend(all.filter_map(|change| match change {
                Change::Remove { object } => Some((*at, object.clone())),
                _ => None,
            }));
        }
        removed
    }

    fn read_error(&mut self, kind: &RequestKind) -> Option<StoreError> {
        if self.is_dead {
            return Some(dead());
        }
        let fails_once = self.reads_to_failure == Some(0);
        self.reads_to_failure = self.reads_to_failure.and_then(|left| left.checked_sub(1));
        let RequestKind::Read { collection, object, offset, length } = kind else {
            return fails_once.then(dead);
        };
        let is_damaged =
            !self.damaged.is_empty() && self.damaged.contains(&(*collection, object.clone()));
        let faulty = is_damaged
            || fails_once
            || self.options.read_errors_per_million > 0
                && self.prng.chance(self.options.read_errors_per_million, 1_000_000);
        let exists = self.durable.object(*collection, object).is_some();
        let error =
            || StoreError::Corrupt { object: object.clone(), offset: *offset, length: *length };
        (faulty && exists).then(error)
    }

    fn draw(&mut self, commit: bool) -> Duration {
        let range = if commit { &self.options.commit_delay } else { &self.options.read_delay };
        let (low, high) = (range.start().as_nanos() as u64, range.end().as_nanos() as u64);
        Duration::from_nanos(low + self.prng.below(high.saturating_sub(low) + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use types::{HObject, PoolId};

    fn object(number: u32) -> HObject {
        let name = Bytes::from(number.to_string());
        HObject::head(PoolId(1), Bytes::new(), Bytes::new(), name, number)
    }

    fn commit(token: u64, changes: Vec<Change>) -> Request {
        let changes = changes.into_iter().map(|change| (Collection::default(), change)).collect();
        Request { token, kind: RequestKind::Commit(Transaction { changes }) }
    }

    fn touch_two(token: u64) -> Request {
        let names = [object(token as u32 * 2), object(token as u32 * 2 + 1)];
        commit(token, names.map(|object| Change::Touch { object }).into())
    }

    fn store_with_collection(seed: u64) -> CrashStore {
        let mut store = CrashStore::new(seed, CrashOptions::default());
        store.submit(Time::ZERO, commit(0, vec![Change::CreateCollection]));
        store.flush();
        assert_eq!(store.poll_completion().unwrap().outcome, Ok(Outcome::Committed));
        store
    }

    fn durable_objects(store: &CrashStore) -> usize {
        store.durable().objects(Collection::default()).count()
    }

    #[test]
    fn a_crash_keeps_a_prefix_of_whole_transactions_and_all_that_completed() {
        let mut lengths = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let mut store = store_with_collection(seed);
            (1..=8).for_each(|token| store.submit(Time::ZERO, touch_two(token)));
            let due = store.next_event().unwrap();
            store.advance(due);
            let acked = std::iter::from_fn(|| store.poll_completion()).count();
            store.crash();
            let count = durable_objects(&store);
            assert!(count.is_multiple_of(2) && count >= acked * 2, "seed {seed}");
            let names: Vec<_> = store.durable().objects(Collection::default()).collect();
            let prefix = (2..count as u32 + 2).map(object);
            assert!(prefix.into_iter().all(|name| names.iter().any(|(n, _)| **n == name)));
            assert!(store.poll_completion().is_none() && store.next_event().is_none());
            lengths.insert(count);
        }
        assert_eq!(lengths.len(), 8, "every prefix that holds the first commit occurs");
    }

    #[test]
    fn commits_complete_in_order_and_reads_see_only_what_is_durable() {
        let mut store = store_with_collection(1);
        (1..=20).for_each(|token| store.submit(Time(token), touch_two(token)));
        let list = RequestKind::List {
            collection: Collection::default(),
            from: HObject::default(),
            entries_max: 100,
        };
        store.submit(Time::ZERO, Request { token: 100, kind: list });
        let mut committed = 0;
        while let Some(due) = store.next_event() {
            store.advance(due);
            while let Some(completion) = store.poll_completion() {
                match completion.outcome.unwrap() {
                    Outcome::List(names, None) => assert_eq!(names.len(), committed * 2),
                    Outcome::Committed => {
                        committed += 1;
                        assert_eq!(completion.token, committed as u64);
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(committed, 20);
    }

    #[test]
    fn a_seed_replays_exactly() {
        let run = || {
            let mut store = store_with_collection(42);
            (1..=20).for_each(|token| store.submit(Time(token), touch_two(token)));
            store.flush_some();
            store.crash();
            (durable_objects(&store), store.prng.next_u64())
        };
        assert_eq!(run(), run());
    }

    #[test]
    fn a_dead_device_takes_nothing_and_keeps_what_it_had() {
        let mut store = store_with_collection(1);
        let names = RequestKind::Collections;
        store.kill();
        store.submit(Time::ZERO, touch_two(1));
        store.submit(Time::ZERO, Request { token: 2, kind: names.clone() });
        store.flush();
        for _ in 0..2 {
            let outcome = store.poll_completion().unwrap().outcome;
            assert!(matches!(outcome, Err(StoreError::Device(_))));
        }
        store.heal();
        store.submit(Time::ZERO, Request { token: 3, kind: names });
        store.flush();
        assert!(store.poll_completion().unwrap().outcome.is_ok());
        assert_eq!(durable_objects(&store), 0);
    }

    #[test]
    fn read_errors_come_as_often_as_asked() {
        let options =
            CrashOptions { read_errors_per_million: 1_000_000, ..CrashOptions::immediate() };
        let mut store = CrashStore::new(1, options);
        let touch = Change::Touch { object: object(1) };
        store.submit(Time::ZERO, commit(0, vec![Change::CreateCollection, touch]));
        let (collection, object) = (Collection::default(), object(1));
        let read = RequestKind::Read { collection, object: object.clone(), offset: 0, length: 9 };
        store.flush();
        store.submit(Time::ZERO, Request { token: 1, kind: read });
        store.flush();
        store.poll_completion();
        let outcome = store.poll_completion().unwrap().outcome;
        assert_eq!(outcome, Err(StoreError::Corrupt { object, offset: 0, length: 9 }));
    }

    #[test]
    fn a_read_that_fails_once_succeeds_when_tried_again() {
        let mut store = CrashStore::new(1, CrashOptions::immediate());
        store.fail_read(1);
        let mut list = |token| {
            store.submit(Time::ZERO, Request { token, kind: RequestKind::Collections });
            store.flush();
            store.poll_completion().unwrap().outcome
        };
        assert!(list(1).is_ok());
        assert_eq!(list(2), Err(dead()));
        assert!(list(3).is_ok());
    }
}
