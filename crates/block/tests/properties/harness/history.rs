//! Requests to a store, and the states that it may therefore have.
//!
//! States are numbered by the transactions before them. After a crash the store has one of the
//! states from the last acknowledged to the last requested one; a read shows one from the last
//! acknowledged at its submission to the last requested at its completion.

use super::compare::{brief, is_same};
use engine::RequestToken;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use store::mem::MemStore;
use store::{Completion, Outcome, RequestKind, StoreError, Transaction};

/// Errors that are not defects of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tolerance {
    None,
    /// The device is small.
    NoSpace,
    /// The device fails, or contains damage.
    Faults,
}

#[derive(Debug, Clone)]
pub struct History {
    /// States that may still be seen; the first has the number `first`.
    states: VecDeque<MemStore>,
    first: u64,
    /// Number of the last acknowledged state.
    acknowledged: u64,
    /// Commits in flight, which lead to the states after `acknowledged`.
    commits: VecDeque<Commit>,
    reads: BTreeMap<RequestToken, Read>,
    /// Requests in flight.
    open: BTreeSet<RequestToken>,
    pub tolerance: Tolerance,
    /// Commits that were refused though the reference accepts them.
    pub refusals: u64,
    /// Set after a commit met a fault: the outcome of it and of later commits is unknown.
    pub is_broken: bool,
}

#[derive(Debug, Clone)]
struct Commit {
    token: RequestToken,
    transaction: Transaction,
    expected: Result<Outcome, StoreError>,
}

#[derive(Debug, Clone)]
struct Read {
    kind: RequestKind,
    /// Number of the first state that it may show.
    from: u64,
}

impl History {
    /// Begins with the known contents of a store.
    pub fn new(state: MemStore, tolerance: Tolerance) -> Self {
        History {
            states: VecDeque::from([state]),
            first: 0,
            acknowledged: 0,
            commits: VecDeque::new(),
            reads: BTreeMap::new(),
            open: BTreeSet::new(),
            tolerance,
            refusals: 0,
            is_broken: false,
        }
    }

    pub fn submitted(&mut self, token: RequestToken, kind: RequestKind) {
        self.open.insert(token);
        match kind {
            RequestKind::Commit(transaction) => {
                let mut state = self.last().clone();
                let expected = state.apply(&transaction).map(|()| Outcome::Committed);
                self.states.push_back(state);
                self.commits.push_back(Commit { token, transaction, expected });
            }
            kind => {
                self.reads.insert(token, Read { kind, from: self.acknowledged });
            }
        }
    }

    /// Checks a completion. `has_failed` is set if the store has stopped for good.
    pub fn completed(&mut self, completion: Completion, has_failed: bool) {
        let Completion { token, outcome } = completion;
        assert!(self.open.remove(&token), "an answer to nothing, or a second one");
        match self.reads.remove(&token) {
            Some(read) => self.check_read(&read, &outcome),
            None => self.check_commit(token, outcome, has_failed),
        }
        self.forget_states();
    }

    fn check_read(&self, read: &Read, outcome: &Result<Outcome, StoreError>) {
        if self.is_tolerable(outcome) {
            return;
        }
        let from = (read.from - self.first) as usize;
        let is_shown = |state: &MemStore| {
            let expected = state.clone().execute(read.kind.clone());
            is_same(outcome, &expected, &read.kind)
        };
        // If a commit was refused and has not completed yet, later states are without it.
        let shown = self.states.range(from..).any(is_shown)
            || self.tolerance == Tolerance::Faults && self.candidates().iter().any(is_shown);
        let states = self.states.len() - from;
        assert!(shown, "{}: {} is in none of {states} states", brief(&read.kind), brief(outcome));
    }

    fn check_commit(
        &mut self,
        token: RequestToken,
        outcome: Result<Outcome, StoreError>,
        has_failed: bool,
    ) {
        if self.is_broken {
            assert!(outcome != Ok(Outcome::Committed), "a commit succeeds behind one that failed");
            return;
        }
        let next = self.commits.front().expect("it is not a read");
        assert_eq!(next.token, token, "commits complete out of order");
        if outcome == next.expected {
            self.commits.pop_front();
            self.acknowledged += 1;
            return;
        }
        let tolerable = self.is_tolerable(&outcome);
        assert!(tolerable, "commit of {}: {outcome:?}", brief(&next.transaction));
        match has_failed {
            true => self.is_broken = true,
            false => self.refused(),
        }
    }

    /// Handles the completion of a commit with nothing else in flight; returns whether it took
    /// effect.
    pub fn committed_alone(
        &mut self,
        transaction: &Transaction,
        outcome: Result<Outcome, StoreError>,
    ) -> bool {
        assert_eq!((self.open.len(), self.states.len()), (0, 1), "something else is in flight");
        if outcome != Ok(Outcome::Committed) {
            let tolerable = self.is_tolerable(&outcome);
            assert!(tolerable, "commit of {}: {outcome:?}", brief(transaction));
            return false;
        }
        self.states[0].apply(transaction).expect("the reference allows what the store did");
        true
    }

    fn is_tolerable(&self, outcome: &Result<Outcome, StoreError>) -> bool {
        match outcome {
            Err(StoreError::NoSpace { .. }) => self.tolerance == Tolerance::NoSpace,
            Err(StoreError::Device(_) | StoreError::Corrupt { .. }) => {
                self.tolerance == Tolerance::Faults
            }
            _ => false,
        }
    }

    /// The first commit changes nothing; later ones build on the state before it.
    fn refused(&mut self) {
        self.refusals += 1;
        self.commits.pop_front();
        self.acknowledged += 1;
        let at = (self.acknowledged - self.first) as usize;
        self.states[at] = self.states[at - 1].clone();
        for (number, commit) in self.commits.iter_mut().enumerate() {
            let mut state = self.states[at + number].clone();
            commit.expected = state.apply(&commit.transaction).map(|()| Outcome::Committed);
            self.states[at + number + 1] = state;
        }
    }

    fn forget_states(&mut self) {
        let oldest = self.reads.values().map(|read| read.from).min();
        let oldest = oldest.unwrap_or(self.acknowledged).min(self.acknowledged);
        while self.first < oldest {
            self.states.pop_front();
            self.first += 1;
        }
    }

    /// Number of requests in flight.
    pub fn in_flight(&self) -> usize {
        self.open.len()
    }

    fn last(&self) -> &MemStore {
        self.states.back().expect("there is always a state")
    }

    /// Contents of the store, with nothing in flight.
    pub fn state(&self) -> &MemStore {
        assert_eq!(self.commits.len(), 0, "unknown with commits in flight");
        self.last()
    }

    /// States that the store may have after a crash, the oldest first. On faulty devices any commit
    /// in flight may have been refused, independently of later ones.
    pub fn candidates(&self) -> Vec<MemStore> {
        let mut states = self.states.range((self.acknowledged - self.first) as usize..);
        if self.tolerance != Tolerance::Faults {
            return states.cloned().collect();
        }
        let mut candidates: Vec<MemStore> = states.next().cloned().into_iter().collect();
        for commit in &self.commits {
            for number in 0..candidates.len() {
                let mut state = candidates[number].clone();
                if state.apply(&commit.transaction).is_ok() {
                    candidates.push(state);
                }
            }
        }
        candidates
    }
}
