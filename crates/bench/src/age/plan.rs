//! The plan: a sequence of actions on objects that follows from the seed alone.
//!
//! First objects are created until the target is filled; then passes follow, each a random mix of actions
//! that writes as many bytes as the target and keeps the fill near it. A step is drawn from the population
//! after all steps before it, whether or not they have completed.
//!
//! Only refusals disturb the sequence: a refused or failed step is taken back, and later ones are drawn from
//! the remaining population.

use super::contents::Contents;
use super::mix::{Mix, OBJECT_SIZE_MAX};
use super::population::{ALLOCATION_UNIT, Population, space_of};
use stdx::Prng;

/// Maximum length of overwrites and appends in bytes.
const SMALL_WRITE_MAX: u64 = 64 << 10;
/// The fill may fall behind the target by one part in this many.
const SLACK_SHARE: u64 = 64;
/// When the store is full before the target is reached, one part in this many is given up.
const SHARE_GIVEN_UP: u64 = 32;

/// The kinds of [`Action`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ActionKind {
    Create,
    Overwrite,
    Append,
    Truncate,
    Rewrite,
    Delete,
}

/// Relative frequency of actions in a pass.
const WEIGHTS: [(ActionKind, u64); 6] = [
    (ActionKind::Overwrite, 70),
    (ActionKind::Append, 10),
    (ActionKind::Create, 6),
    (ActionKind::Delete, 6),
    (ActionKind::Truncate, 4),
    (ActionKind::Rewrite, 4),
];

/// An action; lengths and offsets in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Create {
        length: u32,
    },
    Overwrite {
        offset: u32,
        length: u32,
    },
    /// `offset` is the end of the object.
    Append {
        offset: u32,
        length: u32,
    },
    Truncate {
        size: u32,
    },
    /// Replaces the whole object with as many new bytes.
    Rewrite {
        length: u32,
    },
    Delete,
}

impl Action {
    /// The kind of this action.
    pub fn kind(self) -> ActionKind {
        match self {
            Action::Create { .. } => ActionKind::Create,
            Action::Overwrite { .. } => ActionKind::Overwrite,
            Action::Append { .. } => ActionKind::Append,
            Action::Truncate { .. } => ActionKind::Truncate,
            Action::Rewrite { .. } => ActionKind::Rewrite,
            Action::Delete => ActionKind::Delete,
        }
    }

    /// Offset and length of the written range.
    pub fn written(self) -> Option<(u32, u32)> {
        match self {
            Action::Create { length } | Action::Rewrite { length } => Some((0, length)),
            Action::Overwrite { offset, length } | Action::Append { offset, length } => {
                Some((offset, length))
            }
            Action::Truncate { .. } | Action::Delete => None,
        }
    }

    fn apply(self, contents: &mut Option<Contents>, generation: u32) {
        match self {
            Action::Delete => *contents = None,
            Action::Truncate { size } => contents.get_or_insert_default().truncate(size),
            Action::Create { length } | Action::Rewrite { length } => {
                let whole = contents.insert(Contents::default());
                whole.write(0, length, generation);
            }
            Action::Overwrite { offset, length } | Action::Append { offset, length } => {
                contents.get_or_insert_default().write(offset, length, generation);
            }
        }
    }
}

/// One operation on one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Number of the object.
    pub object: u32,
    /// The change.
    pub action: Action,
    /// Generation of the written bytes.
    pub generation: u32,
    /// Content of the object before the step.
    before: Option<Contents>,
}

/// Phase of the sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Fill,
    /// The passes are numbered from 1.
    Pass(u32),
    Done,
}

/// State of the sequence: its phase, and the population after the steps so far.
#[derive(Debug)]
pub struct Plan {
    prng: Prng,
    mix: Mix,
    passes: u32,
    /// Target for the space of all objects, in bytes.
    target: u64,
    phase: Phase,
    /// Bytes written in the current phase.
    written: u64,
    population: Population,
}

impl Plan {
    /// A sequence that has not begun; `target` in bytes.
    pub fn new(seed: u64, mix: Mix, target: u64, passes: u32) -> Self {
        Plan {
            prng: Prng::new(seed),
            mix,
            passes,
            target,
            phase: Phase::Fill,
            written: 0,
            population: Population::default(),
        }
    }

    /// The current phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Target for the space of all objects, in bytes; lower than at the start if the store was full before.
    pub fn target(&self) -> u64 {
        self.target
    }

    /// Bytes written in the current phase; a phase writes about as many as the target.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// The objects after all steps so far.
    pub fn population(&self) -> &Population {
        &self.population
    }

    /// The next step; `None` after the last pass.
    pub fn next_step(&mut self) -> Option<Step> {
        let step = match self.phase {
            Phase::Fill => self.next_of_fill(),
            Phase::Pass(_) => self.next_of_pass(),
            Phase::Done => return None,
        };
        match step {
            Some(step) => Some(step),
            None => {
                self.begin_next_phase();
                self.next_step()
            }
        }
    }

    fn begin_next_phase(&mut self) {
        let next = match self.phase {
            Phase::Fill => 1,
            Phase::Pass(number) => number + 1,
            Phase::Done => return,
        };
        // Without objects no aging is possible.
        let is_over = next > self.passes || self.population.living() == 0;
        self.phase = if is_over { Phase::Done } else { Phase::Pass(next) };
        self.written = 0;
    }

    fn next_of_fill(&mut self) -> Option<Step> {
        let length = self.mix.draw(&mut self.prng);
        let fits = self.population.space() + space_of(length) <= self.target;
        fits.then(|| {
            let object = self.population.new_name();
            self.step(object, Action::Create { length })
        })
    }

    fn next_of_pass(&mut self) -> Option<Step> {
        if self.written >= self.target {
            return None;
        }
        let kind = self.next_kind();
        match self.population.choose(&mut self.prng) {
            Some(object) if kind != ActionKind::Create => {
                let action = self.action_on(object, kind);
                Some(self.step(object, action))
            }
            _ => Some(self.creation()),
        }
    }

    /// Any kind while the fill is near the target; otherwise a kind that corrects it.
    fn next_kind(&mut self) -> ActionKind {
        let space = self.population.space();
        if space > self.target {
            return ActionKind::Delete;
        }
        if space + self.slack() < self.target {
            return ActionKind::Create;
        }
        let mut rest = self.prng.below(WEIGHTS.iter().map(|(_, weight)| weight).sum());
        for (kind, weight) in WEIGHTS {
            if rest < weight {
                return kind;
            }
            rest -= weight;
        }
        unreachable!("a number below the sum of the weights falls into one of them")
    }

    /// Bytes by which the fill may fall behind.
    fn slack(&self) -> u64 {
        (2 * space_of(self.mix.largest())).max(self.target / SLACK_SHARE)
    }

    /// Three of four creations reuse the name of a deleted object.
    fn creation(&mut self) -> Step {
        let length = self.mix.draw(&mut self.prng);
        let again = self.prng.chance(3, 4);
        let old = if again { self.population.old_name(&mut self.prng) } else { None };
        let object = old.unwrap_or_else(|| self.population.new_name());
        self.step(object, Action::Create { length })
    }

    fn action_on(&mut self, object: u32, kind: ActionKind) -> Action {
        let size = self.population.contents(object).map_or(0, Contents::size);
        match kind {
            ActionKind::Delete => Action::Delete,
            ActionKind::Truncate => Action::Truncate { size: self.point(u64::from(size) + 1) },
            ActionKind::Rewrite if size > 0 => Action::Rewrite { length: size },
            ActionKind::Overwrite if size > 0 => self.overwrite(size),
            _ => {
                let length = self.small_length();
                match u64::from(size) + u64::from(length) > OBJECT_SIZE_MAX {
                    true => Action::Truncate { size: self.point(u64::from(size)) },
                    false => Action::Append { offset: size, length },
                }
            }
        }
    }

    fn overwrite(&mut self, size: u32) -> Action {
        let offset = self.point(u64::from(size));
        let length = self.small_length().min(size - offset);
        Action::Overwrite { offset, length }
    }

    /// An offset; three of four are aligned to an allocation unit.
    fn point(&mut self, bound: u64) -> u32 {
        let offset = self.prng.below(bound);
        let is_aligned = self.prng.chance(3, 4);
        (if is_aligned { offset - offset % ALLOCATION_UNIT } else { offset }) as u32
    }

    /// Three of four are whole allocation units; short lengths are as likely as long ones.
    fn small_length(&mut self) -> u32 {
        let bound = ALLOCATION_UNIT << self.prng.below(5);
        let length = 1 + self.prng.below(bound.min(SMALL_WRITE_MAX));
        let is_aligned = self.prng.chance(3, 4);
        (if is_aligned { length.next_multiple_of(ALLOCATION_UNIT) } else { length }) as u32
    }

    fn step(&mut self, object: u32, action: Action) -> Step {
        let before = self.population.contents(object).cloned();
        let generation = self.population.next_generation(object);
        let mut contents = before.clone();
        action.apply(&mut contents, generation);
        self.population.set(object, contents);
        self.written += action.written().map_or(0, |(_, length)| u64::from(length));
        Step { object, action, generation, before }
    }

    /// Takes back a step that was refused.
    pub fn take_back(&mut self, step: Step) {
        self.population.set(step.object, step.before);
    }

    /// The outcome of a step is unknown.
    pub fn forget(&mut self, object: u32) {
        self.population.forget(object);
    }

    /// Ends the fill because the store is full, with a target that leaves some space.
    pub fn end_fill(&mut self) {
        if self.phase == Phase::Fill {
            self.target = self.population.space() - self.population.space() / SHARE_GIVEN_UP;
            self.begin_next_phase();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const TARGET: u64 = 100 << 20;

    fn plan(seed: u64) -> Plan {
        Plan::new(seed, "4k:30,64k:30,1m:40".parse().unwrap(), TARGET, 2)
    }

    fn steps(mut plan: Plan) -> Vec<Step> {
        std::iter::from_fn(|| plan.next_step()).collect()
    }

    #[test]
    fn a_seed_gives_the_same_steps_and_another_seed_others() {
        let first = steps(plan(1));
        assert_eq!(first, steps(plan(1)));
        assert_ne!(first, steps(plan(2)));
    }

    /// A changed sequence would make ages from before and after incomparable.
    #[test]
    fn the_sequence_stays_what_it_was() {
        let all = steps(plan(1));
        let sum = all.iter().fold(0u64, |sum, step| {
            let (offset, length) = step.action.written().unwrap_or((1, 1));
            let numbers = [step.object, step.action.kind() as u32, offset, length];
            numbers.iter().fold(sum, |sum, n| sum.rotate_left(5) ^ u64::from(*n))
        });
        assert_eq!((all.len(), sum), (3884, 16_726_711_837_039_393_882));
    }

    #[test]
    fn the_fill_ends_within_one_object_of_the_target() {
        let mut plan = plan(3);
        while plan.phase() == Phase::Fill {
            assert!(plan.population().space() <= TARGET);
            let step = plan.next_step().unwrap();
            assert!(plan.phase() != Phase::Fill || step.action.kind() == ActionKind::Create);
        }
        // One step of the first pass has been drawn.
        assert!(plan.population().space() + (2 << 20) > TARGET);
    }

    #[test]
    fn passes_stay_near_the_target_and_do_everything() {
        let mut plan = plan(4);
        let mut kinds = BTreeSet::new();
        while let Some(step) = plan.next_step() {
            if plan.phase() != Phase::Fill {
                let space = plan.population().space();
                assert!(space.abs_diff(TARGET) <= 4 << 20, "{space}");
                kinds.insert(step.action.kind());
            }
            plan.population().check_invariants();
        }
        assert_eq!(kinds.len(), WEIGHTS.len());
        let population = plan.population();
        assert!(population.extents() > 2 * population.living() as u64, "hardly fragmented");
    }

    #[test]
    fn steps_lie_within_their_objects() {
        let mut plan = plan(5);
        while let Some(step) = plan.next_step() {
            let size = step.before.as_ref().map(Contents::size);
            match step.action {
                Action::Create { length } => assert!(size.is_none() && length > 0),
                Action::Overwrite { offset, length } => {
                    assert!(length > 0 && offset + length <= size.unwrap());
                }
                Action::Append { offset, length } => {
                    assert!(length > 0 && Some(offset) == size);
                    assert!(u64::from(offset + length) <= OBJECT_SIZE_MAX);
                }
                Action::Truncate { size: to } => assert!(to <= size.unwrap()),
                Action::Rewrite { length } => assert_eq!(Some(length), size),
                Action::Delete => assert!(size.is_some()),
            }
        }
    }

    #[test]
    fn what_was_refused_has_not_happened() {
        let mut plan = plan(6);
        for number in 0.. {
            let (space, living) = (plan.population().space(), plan.population().living());
            let Some(step) = plan.next_step() else { break };
            if number % 3 == 0 {
                plan.take_back(step);
                assert_eq!(
                    (plan.population().space(), plan.population().living()),
                    (space, living)
                );
            } else if number % 100 == 1 {
                plan.forget(step.object);
            }
            plan.population().check_invariants();
        }
    }

    #[test]
    fn a_full_store_ends_the_fill_and_lowers_the_target() {
        let mut plan = plan(7);
        let reached = std::iter::from_fn(|| plan.next_step()).take(50).count();
        let space = plan.population().space();
        plan.end_fill();
        assert_eq!((reached, plan.phase()), (50, Phase::Pass(1)));
        assert_eq!(plan.target(), space - space / SHARE_GIVEN_UP);
        assert_eq!(plan.next_step().unwrap().action, Action::Delete);
    }

    #[test]
    fn a_target_without_room_for_an_object_has_no_steps() {
        let mix: Mix = "64k".parse().unwrap();
        assert_eq!(Plan::new(1, mix, 64 << 9, 3).next_step(), None);
    }
}
