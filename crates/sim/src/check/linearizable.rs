//! Linearizability of one object: there is an order of all requests, compatible with real time and,
//! for writes that succeeded, with each client's order of submission, in which a sequential object
//! gives every answer that clients saw (Herlihy and Wing; the search is Wing and Gong's with Lowe's
//! memory of states seen).
//!
//! Reads are not held to their client's order: a client that sends its requests again takes the
//! answer to the last attempt, and by then its later writes may have happened. Ceph's clients do so
//! as well.
//!
//! A request whose client died may have taken effect at any time after it was sent, or never.

use crate::history::Entry;
use crate::model::Object;
use engine::Time;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::hash::{Hash, Hasher};
use stdx::FastHasher;

/// States that are looked at before the search is given up without a verdict.
const STATES_MAX: usize = 300_000;

#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Linearizable,
    /// With the longest order that was found, and what could not follow it.
    Violated(String),
    /// The history is too entangled to decide.
    Undecided,
}

/// One request in the search.
struct Step<'a> {
    entry: &'a Entry,
    returned: Time,
    /// An earlier write of the same client, which comes first if it has taken effect.
    before: Option<usize>,
}

struct Search<'a> {
    steps: Vec<Step<'a>>,
    /// Hashes of what was taken, and the object then.
    seen: BTreeSet<(u64, u64)>,
    /// The longest order that was found.
    longest: Vec<usize>,
}

/// A step that may come next.
struct Candidate {
    step: usize,
    after: Object,
    /// Where to go on if it may not.
    next: usize,
}

/// A choice that may be taken back.
struct Frame {
    step: usize,
    object: Object,
    /// Where to go on when it is taken back.
    next: usize,
}

pub fn check<'a>(entries: impl Iterator<Item = &'a Entry>) -> Verdict {
    let mut steps: Vec<Step<'a>> = Vec::new();
    for entry in entries {
        // A read of unknown result says nothing.
        if entry.completed.is_none() && !entry.action.is_write() {
            continue;
        }
        let returned = entry.completed.as_ref().map_or(Time::FAR_FUTURE, |done| done.at);
        let ordered = entry.takes_effect();
        let same_actor = |step: &Step<'_>| step.entry.actor == entry.actor;
        let before = steps.iter().rposition(|step| same_actor(step) && step.entry.takes_effect());
        let before = before.filter(|_| ordered);
        steps.push(Step { entry, returned, before });
    }
    Search { steps, seen: BTreeSet::new(), longest: Vec::new() }.run()
}

impl Search<'_> {
    fn run(&mut self) -> Verdict {
        let mut taken = vec![0u64; self.steps.len().div_ceil(64)];
        let mut object = Object::default();
        let mut frames: Vec<Frame> = Vec::new();
        let mut next = 0;
        loop {
            if self.is_done(&taken) {
                return Verdict::Linearizable;
            }
            match self.candidate(&taken, &object, next) {
                Some(Candidate { step, after, next: following }) => {
                    taken[step / 64] |= 1 << (step % 64);
                    if self.seen.insert((hash(&taken), hash(&after))) {
                        let object = std::mem::replace(&mut object, after);
                        frames.push(Frame { step, object, next: following });
                        self.note(&frames);
                        next = 0;
                    } else {
                        taken[step / 64] &= !(1 << (step % 64));
                        next = following;
                    }
                }
                None => {
                    let Some(frame) = frames.pop() else {
                        return Verdict::Violated(self.explain());
                    };
                    taken[frame.step / 64] &= !(1 << (frame.step % 64));
                    (object, next) = (frame.object, frame.next);
                }
            }
            if self.seen.len() > STATES_MAX {
                return Verdict::Undecided;
            }
        }
    }

    fn note(&mut self, frames: &[Frame]) {
        if frames.len() > self.longest.len() {
            self.longest = frames.iter().map(|frame| frame.step).collect();
        }
    }

    fn is_done(&self, taken: &[u64]) -> bool {
        let mut steps = self.steps.iter().enumerate();
        steps.all(|(index, step)| step.entry.completed.is_none() || has(taken, index))
    }

    /// The first step that may come next, and the object after it. Steps are tried in their order,
    /// those that were answered before those that were not; `from` counts in this order.
    fn candidate(&self, taken: &[u64], object: &Object, from: usize) -> Option<Candidate> {
        let count = self.steps.len();
        let left = || (0..count).filter(|index| !has(taken, *index));
        // Whatever was invoked after some request returned comes after that request.
        let limit = left().map(|index| self.steps[index].returned).min()?;
        let possible = left().take_while(|index| self.steps[*index].entry.invoked <= limit);
        let (answered, others): (Vec<usize>, Vec<usize>) =
            possible.partition(|index| self.steps[*index].entry.completed.is_some());
        let answered = answered.into_iter().map(|index| (index, index));
        let others = others.into_iter().map(|index| (count + index, index));
        for (position, index) in answered.chain(others).filter(|(position, _)| *position >= from) {
            let Step { entry, .. } = &self.steps[index];
            if !self.may_come(taken, &self.steps[index]) {
                continue;
            }
            let mut after = object.clone();
            let outcome = after.apply(entry.actor, &entry.action);
            if entry.completed.as_ref().is_none_or(|seen| seen.outcome == outcome) {
                return Some(Candidate { step: index, after, next: position + 1 });
            }
        }
        None
    }

    /// Whether what the same client sent before is done, unless it may never have arrived.
    fn may_come(&self, taken: &[u64], step: &Step<'_>) -> bool {
        let mut before = step.before;
        while let Some(index) = before {
            if self.steps[index].entry.completed.is_some() {
                return has(taken, index);
            }
            before = self.steps[index].before;
        }
        true
    }

    fn explain(&self) -> String {
        let mut object = Object::default();
        let mut text = String::new();
        let shown = self.longest.len().saturating_sub(12);
        for (position, index) in self.longest.iter().enumerate() {
            let entry = self.steps[*index].entry;
            let _ = object.apply(entry.actor, &entry.action);
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

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = FastHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

fn has(taken: &[u64], index: usize) -> bool {
    taken[index / 64] >> (index % 64) & 1 == 1
}

fn describe(entry: &Entry) -> String {
    let Entry { actor, action, invoked, .. } = entry;
    match &entry.completed {
        None => format!("{invoked} actor {actor} {action:?}: never answered"),
        Some(done) => {
            let (at, outcome, version) = (done.at, &done.outcome, done.version);
            format!("{invoked} – {at} actor {actor} {action:?}: {outcome:?} at {version}")
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
            let index = history.invoke(Time(*invoked), *actor, 0, action.clone());
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
        let history =
            [(1, 2, 1, append("a"), done()), (3, 4, 2, append("b"), done()), (5, 6, 3, Action::Read, read("a"))];
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

    #[test]
    fn writes_of_one_client_take_effect_in_their_order() {
        let history = [
            (1, 10, 1, append("a"), done()),
            (2, 9, 1, append("b"), done()),
            (11, 12, 1, Action::Read, read("ba")),
        ];
        assert!(matches!(verdict(&history), Verdict::Violated(_)));
    }
}
