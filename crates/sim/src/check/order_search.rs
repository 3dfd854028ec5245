//! Search for an order of calls in which a sequential model gives every answer (Wing and Gong, with Lowe's
//! memory of visited states). A call without an answer may have happened at any time after it was made, or
//! never.

use engine::Time;
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use stdx::FastHasher;

/// Bound for visited states; beyond it the search ends undecided.
const STATES_MAX: usize = 200_000;

/// A call as the search sees it.
#[derive(Debug, Clone)]
pub struct Step<C> {
    /// The call and its answer.
    pub what: C,
    /// When it was made.
    pub invoked: Time,
    /// When it was answered; `None` if it may have happened or not.
    pub returned: Option<Time>,
    /// When it can happen at the latest, if it may have happened or not.
    pub until: Option<Time>,
    /// It changes nothing.
    pub is_read: bool,
}

/// Result of a search.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is an order.
    Ordered,
    /// There is none; the longest one that was found, as indices, and the calls that could not follow it.
    Violated(Vec<usize>, Vec<usize>),
    /// The search exceeded its bound.
    Undecided,
}

#[derive(Clone)]
struct Path<S> {
    state: S,
    taken: Vec<bool>,
    order: Vec<usize>,
    /// When the latest call that was taken was made.
    latest: Time,
}

impl<S> Path<S> {
    fn take<C>(&mut self, steps: &[Step<C>], index: usize) {
        self.taken[index] = true;
        self.order.push(index);
        self.latest = self.latest.max(steps[index].invoked);
    }
}

/// Searches an order. `apply` returns the state after a call, or `None` if the call cannot be next.
pub fn search<C, S: Clone + Hash>(
    steps: &[Step<C>],
    start: S,
    apply: impl Fn(&S, &C) -> Option<S>,
) -> Verdict {
    let mut seen = BTreeSet::new();
    let mut longest = (Vec::new(), Vec::new());
    let (taken, order) = (vec![false; steps.len()], Vec::new());
    let path = Path { state: start, taken, order, latest: Time::ZERO };
    let mut open = vec![path];
    while let Some(mut path) = open.pop() {
        take_reads(steps, &mut path, &apply);
        let options = options(steps, &path);
        let is_open = |index: &usize| !path.taken[*index] && steps[*index].returned.is_some();
        if !(0..steps.len()).any(|index| is_open(&index)) {
            return Verdict::Ordered;
        }
        if path.order.len() >= longest.0.len() {
            longest = (path.order.clone(), options.clone());
        }
        if !seen.insert(digest(&path)) {
            continue;
        }
        if seen.len() > STATES_MAX {
            return Verdict::Undecided;
        }
        // Calls without an answer are tried last, as most never happened.
        let (answered, others): (Vec<usize>, Vec<usize>) =
            options.into_iter().partition(|index| steps[*index].returned.is_some());
        for index in others.into_iter().chain(answered.into_iter().rev()) {
            if let Some(state) = apply(&path.state, &steps[index].what) {
                let mut next = Path { state, ..path.clone() };
                next.take(steps, index);
                open.push(next);
            }
        }
    }
    Verdict::Violated(longest.0, longest.1)
}

/// Calls that may be next in time.
fn options<C, S>(steps: &[Step<C>], path: &Path<S>) -> Vec<usize> {
    let is_late = |index: &usize| steps[*index].until.is_some_and(|until| until < path.latest);
    let left = (0..steps.len()).filter(|index| !path.taken[*index] && !is_late(index));
    let end = left.clone().filter_map(|index| steps[index].returned).min();
    left.filter(|index| end.is_none_or(|end| steps[*index].invoked <= end)).collect()
}

/// A call that changes nothing may be first as soon as it fits.
fn take_reads<C, S: Clone + Hash>(
    steps: &[Step<C>],
    path: &mut Path<S>,
    apply: &impl Fn(&S, &C) -> Option<S>,
) {
    loop {
        let fits = |index: &usize| {
            steps[*index].is_read && apply(&path.state, &steps[*index].what).is_some()
        };
        let Some(index) = options(steps, path).into_iter().find(fits) else { return };
        path.take(steps, index);
    }
}

fn digest<S: Hash>(path: &Path<S>) -> (u64, u64) {
    let mut hashers = [FastHasher::default(), FastHasher::default()];
    path.taken.hash(&mut hashers[0]);
    path.state.hash(&mut hashers[1]);
    (hashers[0].finish(), hashers[1].finish())
}
