//! Linearizability of one object: there is an order of all requests, compatible with real time and with the
//! versions that writes returned, in which a sequential object returns every response that clients observed
//! (Herlihy and Wing; the search is Wing and Gong's with Lowe's memory of visited states).
//!
//! A request whose client died may have taken effect at any time after it was sent, or never. Steps that do
//! not change the object are ordered as soon as they fit: moving such a step to the front of the remaining
//! ones never excludes an order. So the search branches only for requests without a response, and tries
//! orders with few of those first: most never took effect, and their number decides how many orders there
//! are.

use super::media::is_void;
use crate::history::Entry;
use crate::model::Object;
use engine::Time;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::hash::{Hash, Hasher};
use stdx::FastHasher;
use types::EVersion;

/// Bound for visited states; beyond it the search ends undecided.
const STATES_MAX: usize = 300_000;
/// Bound for bytes of objects that the search copied, since states of large objects take longer than others;
/// beyond it the search ends undecided.
const COPIED_BYTES_MAX: usize = 8 << 30;

/// Result of a search.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Linearizable,
    /// With the longest order that was found, and the steps that could not follow it.
    Violated(String),
    /// The search exceeded its bound.
    Undecided,
}

struct Step<'a> {
    entry: &'a Entry,
    returned: Time,
    /// The write with the next lower version.
    before: Option<usize>,
}

struct Search<'a> {
    /// In the order of invocation: steps with a response, then those without.
    steps: Vec<Step<'a>>,
    answered: usize,
    /// Hashes of the steps taken and of the object after them.
    seen: BTreeSet<(u64, u64)>,
    /// The longest order that was found.
    longest: Vec<usize>,
    copied_bytes: Cell<usize>,
}

/// An order of some steps, and the object after them.
#[derive(Clone, Default)]
struct Path {
    order: Vec<usize>,
    taken: Vec<bool>,
    /// All steps with a response before this index are taken.
    first: usize,
    /// Number of steps without a response in `order`.
    unanswered: usize,
    object: Object,
}

/// Searches an order of all requests to one object.
pub fn check<'a>(entries: impl Iterator<Item = &'a Entry>) -> Verdict {
    // A read of unknown result constrains nothing.
    let entries = entries.filter(|entry| !is_void(entry));
    let known = |entry: &&Entry| entry.completed.is_some();
    let (answered, others): (Vec<&Entry>, Vec<&Entry>) = entries.partition(known);
    let count = answered.len();
    let others = others.into_iter().filter(|entry| entry.action.is_write());
    let mut steps: Vec<Step<'_>> = Vec::new();
    for entry in answered.into_iter().chain(others) {
        let returned = entry.completed.as_ref().map_or(Time::FAR_FUTURE, |done| done.at);
        steps.push(Step { entry, returned, before: None });
    }
    chain_versions(&mut steps);
    let (seen, longest, copied_bytes) = (BTreeSet::new(), Vec::new(), Cell::new(0));
    Search { steps, answered: count, seen, longest, copied_bytes }.run()
}

fn chain_versions(steps: &mut [Step<'_>]) {
    let mut versions: Vec<(EVersion, usize)> = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let done = step.entry.completed.as_ref();
        let version = done.filter(|done| done.outcome.is_ok()).map(|done| done.version);
        if let Some(version) = version.filter(|version| *version != EVersion::ZERO) {
            versions.push((version, index));
        }
    }
    versions.sort_unstable();
    for pair in versions.windows(2) {
        steps[pair[1].1].before = Some(pair[0].1);
    }
}

impl Search<'_> {
    /// Tries orders with no step without a response, then with at most one, and so on.
    fn run(&mut self) -> Verdict {
        let mut verdict = Verdict::Undecided;
        for unanswered_max in 0..=self.steps.len() - self.answered {
            self.seen.clear();
            verdict = self.run_with(unanswered_max);
            if !matches!(verdict, Verdict::Violated(_)) {
                break;
            }
        }
        verdict
    }

    /// Searches the orders with at most that many steps without a response.
    fn run_with(&mut self, unanswered_max: usize) -> Verdict {
        let path = Path { taken: vec![false; self.steps.len()], ..Path::default() };
        // Paths with the steps that continue them, the last one first.
        let mut open: Vec<(Path, Vec<usize>)> = Vec::new();
        let mut current = Some(path);
        loop {
            let Some(mut path) = current.take() else {
                let Some((path, options)) = open.last_mut() else {
                    return Verdict::Violated(self.explain());
                };
                let option = options.pop().expect("only paths with options are kept");
                let branch = if options.is_empty() { None } else { Some(path.clone()) };
                let mut branch = match branch {
                    Some(branch) => branch,
                    None => open.pop().expect("it was just looked at").0,
                };
                self.take(&mut branch, option);
                current = Some(branch);
                continue;
            };
            self.take_unchanging_steps(&mut path);
            if path.order.len() > self.longest.len() {
                self.longest = path.order.clone();
            }
            if path.first == self.answered {
                return Verdict::Linearizable;
            }
            if self.seen.len() >= STATES_MAX || self.copied_bytes.get() >= COPIED_BYTES_MAX {
                return Verdict::Undecided;
            }
            if self.seen.insert((hash(&path.taken), hash(&path.object))) {
                let mut options = self.options(&path);
                if path.unanswered == unanswered_max {
                    options.retain(|step| *step < self.answered);
                }
                // The likeliest option is explored first: steps with a response, in their order.
                options.reverse();
                match options.as_slice() {
                    [] => {}
                    [only] => {
                        self.take(&mut path, *only);
                        current = Some(path);
                    }
                    _ => open.push((path, options)),
                }
            }
        }
    }

    fn take(&self, path: &mut Path, step: usize) {
        let Entry { actor, action, context, .. } = self.steps[step].entry;
        // The response was compared when the step became an option.
        let _ = path.object.apply(*actor, action, context);
        path.taken[step] = true;
        path.order.push(step);
        path.unanswered += usize::from(step >= self.answered);
        while path.first < self.answered && path.taken[path.first] {
            path.first += 1;
        }
    }

    /// Steps that real time and versions allow to come next. A request invoked after another one returned
    /// comes after it.
    fn allowed(&self, path: &Path) -> Vec<usize> {
        let mut limit = Time::FAR_FUTURE;
        let mut allowed = Vec::new();
        let left = |from: usize, to: usize| (from..to).filter(|index| !path.taken[*index]);
        for index in left(path.first, self.answered) {
            if self.steps[index].entry.invoked > limit {
                break;
            }
            limit = limit.min(self.steps[index].returned);
            allowed.push(index);
        }
        allowed.extend(left(self.answered, self.steps.len()));
        let in_time = |index: &usize| self.steps[*index].entry.invoked <= limit;
        let in_order = |index: &usize| self.steps[*index].before.is_none_or(|i| path.taken[i]);
        allowed.retain(|index| in_time(index) && in_order(index));
        allowed
    }

    /// Reads, and writes that failed. Other writes may change nothing in one state and something in
    /// another.
    fn never_changes(&self, step: usize) -> bool {
        let Entry { action, completed, .. } = self.steps[step].entry;
        let failed = completed.as_ref().is_some_and(|completed| completed.outcome.is_err());
        failed || !action.is_write()
    }

    fn take_unchanging_steps(&self, path: &mut Path) {
        loop {
            let fits =
                |step: &usize| self.never_changes(*step) && self.result(path, *step).is_some();
            let Some(step) = self.allowed(path).into_iter().find(fits) else { return };
            self.take(path, step);
        }
    }

    /// Writes that may come next. One without a response matters only if it changes something.
    fn options(&self, path: &Path) -> Vec<usize> {
        let matters = |step: &usize| {
            let after = self.result(path, *step);
            after.is_some_and(|after| *step < self.answered || after != path.object)
        };
        let writes = self.allowed(path).into_iter().filter(|step| !self.never_changes(*step));
        writes.filter(matters).collect()
    }

    /// The object after that step, if the response matches.
    fn result(&self, path: &Path, step: usize) -> Option<Object> {
        let Entry { actor, action, context, completed, .. } = self.steps[step].entry;
        let mut after = path.object.clone();
        self.copied_bytes.set(self.copied_bytes.get() + after.bytes());
        let outcome = after.apply(*actor, action, context);
        let fits = completed.as_ref().is_none_or(|seen| seen.outcome == outcome);
        fits.then_some(after)
    }

    fn explain(&self) -> String {
        let mut object = Object::default();
        let mut text = String::new();
        let shown = self.longest.len().saturating_sub(12);
        for (position, index) in self.longest.iter().enumerate() {
            let entry = self.steps[*index].entry;
            let _ = object.apply(entry.actor, &entry.action, &entry.context);
            if position >= shown {
                writeln!(text, "  {}", describe(entry)).expect("strings grow");
            }
        }
        writeln!(text, "  then the object is {object:?}").expect("strings grow");
        let left = (0..self.steps.len()).filter(|index| !self.longest.contains(index));
        for index in left.take(8) {
            writeln!(text, "  left: {}", describe(self.steps[index].entry)).expect("strings grow");
        }
        text
    }
}

/// Checks that successful writes of one client happened in the order of their invocation, unless the later
/// one may overtake the earlier one.
pub fn check_client_order<'a>(
    entries: impl Iterator<Item = &'a Entry>,
    may_overtake: impl Fn(&Entry, &Entry) -> bool,
) -> Result<(), String> {
    let mut asked: std::collections::BTreeMap<u32, Vec<&Entry>> = std::collections::BTreeMap::new();
    let version = |entry: &Entry| entry.completed.as_ref().map_or(EVersion::ZERO, |c| c.version);
    for entry in entries.filter(|entry| entry.succeeded() && version(entry) != EVersion::ZERO) {
        let earlier = asked.entry(entry.actor).or_default();
        let is_wrong =
            |before: &&Entry| version(before) >= version(entry) && !may_overtake(before, entry);
        if let Some(before) = earlier.iter().copied().find(is_wrong) {
            return Err(format!("out of order:\n  {}\n  {}", describe(before), describe(entry)));
        }
        earlier.push(entry);
    }
    Ok(())
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = FastHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

pub(super) fn describe(entry: &Entry) -> String {
    let Entry { actor, action, invoked, context, .. } = entry;
    let snaps = if context.seq.0 > 0 { format!(" with {context:?}") } else { String::new() };
    let action = format!("{action:?}{snaps}");
    match &entry.completed {
        None => format!("{invoked} actor {actor} {action}: never answered"),
        Some(done) => {
            let (at, outcome, version) = (done.at, &done.outcome, done.version);
            format!("{invoked} – {at} actor {actor} {action}: {outcome:?} at {version}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::History;
    use crate::model::{Action, Observation, Outcome};
    use bytes::Bytes;
    use types::EVersion;
    use wire::SnapContext;

    fn append(text: &'static str) -> Action {
        Action::Append { data: Bytes::from_static(text.as_bytes()) }
    }

    fn done() -> Outcome {
        Ok(Observation::default())
    }

    fn read(text: &'static str) -> Outcome {
        Ok(Observation { data: Some(Bytes::from_static(text.as_bytes())), ..Default::default() })
    }

    /// Requests as (invoked, returned or 0, actor, action, outcome).
    fn verdict(requests: &[(u64, u64, u32, Action, Outcome)]) -> Verdict {
        let mut history = History::default();
        for (invoked, returned, actor, action, outcome) in requests {
            let index =
                history.invoke(Time(*invoked), *actor, 0, action.clone(), SnapContext::default());
            if *returned > 0 {
                history.complete(index, Time(*returned), outcome.clone(), EVersion::ZERO);
            }
        }
        check(history.entries().iter())
    }

    #[test]
    fn concurrent_requests_may_take_effect_in_either_order() {
        let history = [
            (1, 10, 1, append("a"), done()),
            (2, 9, 2, append("b"), done()),
            (11, 12, 1, Action::Read, read("ba")),
        ];
        assert_eq!(verdict(&history), Verdict::Linearizable);
    }

    #[test]
    fn a_stale_read_is_a_violation() {
        let history = [
            (1, 2, 1, append("a"), done()),
            (3, 4, 2, append("b"), done()),
            (5, 6, 3, Action::Read, read("a")),
        ];
        assert!(matches!(verdict(&history), Verdict::Violated(_)));
    }

    #[test]
    fn a_request_of_a_dead_client_takes_effect_late_or_never_but_not_twice() {
        let with_reads = |first, second| {
            verdict(&[
                (1, 2, 1, append("a"), done()),
                (3, 0, 2, append("b"), done()),
                (4, 5, 1, Action::Read, read(first)),
                (6, 7, 1, Action::Read, read(second)),
            ])
        };
        assert_eq!(with_reads("a", "a"), Verdict::Linearizable);
        assert_eq!(with_reads("a", "ab"), Verdict::Linearizable);
        assert!(matches!(with_reads("ab", "a"), Verdict::Violated(_)));
        assert!(matches!(with_reads("ab", "abb"), Verdict::Violated(_)));
    }

    /// The order that needs one of many such requests is found before the orders of all of them are tried.
    #[test]
    fn one_of_many_requests_without_a_response_took_effect() {
        let mut history: Vec<_> = (0..40).map(|n| (1, 0, n, append("x"), done())).collect();
        history.push((1, 0, 40, append("b"), done()));
        history.push((2, 3, 41, Action::Read, read("b")));
        assert_eq!(verdict(&history), Verdict::Linearizable);
    }

    #[test]
    fn a_write_that_could_have_changed_nothing_may_have_changed_something() {
        let history = [
            (1, 10, 1, Action::Truncate { size: 3 }, done()),
            (2, 0, 2, append("a"), done()),
            (11, 12, 1, Action::Read, read("a\0\0")),
        ];
        assert_eq!(verdict(&history), Verdict::Linearizable);
    }

    #[test]
    fn versions_decide_the_order_of_writes() {
        let mut history = History::default();
        for (version, text) in [(2, "a"), (1, "b")] {
            let index = history.invoke(Time(1), version, 0, append(text), SnapContext::default());
            history.complete(index, Time(9), done(), EVersion::new(1, version.into()));
        }
        let index = history.invoke(Time(10), 3, 0, Action::Read, SnapContext::default());
        history.complete(index, Time(11), read("ab"), EVersion::ZERO);
        assert!(matches!(check(history.entries().iter()), Verdict::Violated(_)));
        assert!(check_client_order(history.entries().iter(), |_, _| false).is_ok());
    }
}
