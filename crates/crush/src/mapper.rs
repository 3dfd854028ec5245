//! Executes a rule: from an input number to devices (`crush_do_rule`).
//!
//! Every result must equal Ceph's bit for bit, including accidental ones: a rejected device that stays in the
//! result of an exhausted `chooseleaf indep` is one example. Cases that Ceph leaves undefined (endless
//! searches, dangling items) end harmlessly.

mod firstn;
mod indep;
mod msr;
mod permutation;
mod select;

use crate::choose_args::ChooseArgMap;
use crate::map::CrushMap;
use crate::rule::{Op, Rule, Step};
use crate::{Bucket, ITEM_NONE, hash};
use permutation::Permutations;

/// A position that is not decided yet (`CRUSH_ITEM_UNDEF`); only used within this module.
const ITEM_UNDEFINED: i32 = 0x7fff_fffe;

/// Items that one execution may examine. Sound maps stay below by orders of magnitude; a rule
/// with absurd tries stops here with what it has.
const EXAMINED_MAX: u64 = 1 << 23;

/// Buffers that outlive one execution, so that mapping many inputs allocates nothing.
#[derive(Debug, Default)]
pub struct Workspace {
    working: Vec<i32>,
    chosen: Vec<i32>,
    leaves: Vec<i32>,
    permutations: Permutations,
    has_rejected: bool,
}

impl Workspace {
    /// True if the last execution rejected a device for its weight. If not, an increase of any device's
    /// weight would not change the result.
    pub fn has_rejected(&self) -> bool {
        self.has_rejected
    }
}

impl CrushMap {
    /// The devices that `rule` gives for `x`, at most `result_max`.
    ///
    /// `weights` is by device, `0x10000` being fully in and zero out; devices beyond it are out.
    /// Rules for erasure coding keep positions and leave [`ITEM_NONE`] where nothing was found.
    /// An unknown rule gives nothing.
    pub fn do_rule(
        &self,
        rule: u32,
        x: u32,
        result_max: usize,
        weights: &[u32],
        choose_args: Option<&ChooseArgMap>,
    ) -> Vec<i32> {
        let mut result = Vec::with_capacity(result_max.min(64));
        let mut workspace = Workspace::default();
        self.do_rule_into(&mut workspace, rule, x, result_max, weights, choose_args, &mut result);
        result
    }

    /// [`CrushMap::do_rule`] into `result`, with buffers that are used again.
    pub fn do_rule_into(
        &self,
        workspace: &mut Workspace,
        rule: u32,
        x: u32,
        result_max: usize,
        weights: &[u32],
        choose_args: Option<&ChooseArgMap>,
        result: &mut Vec<i32>,
    ) {
        result.clear();
        let Some(rule) = self.rule(rule) else { return };
        workspace.permutations.clear();
        workspace.has_rejected = false;
        let search = Search {
            map: self,
            x,
            weights,
            choose_args,
            permutations: &mut workspace.permutations,
            has_rejected: &mut workspace.has_rejected,
            examined: 0,
        };
        if rule.rule_type.is_msr() {
            msr::execute(search, rule, result_max, result);
            return;
        }
        for buffer in [&mut workspace.working, &mut workspace.chosen, &mut workspace.leaves] {
            buffer.clear();
            buffer.resize(result_max, ITEM_NONE);
        }
        let execution = Execution {
            tries: Tries::of(self),
            search,
            working: &mut workspace.working,
            working_len: 0,
            chosen: &mut workspace.chosen,
            leaves: &mut workspace.leaves,
        };
        execution.run(rule, result);
    }
}

/// Common input of all choices of one execution.
struct Search<'a> {
    map: &'a CrushMap,
    x: u32,
    weights: &'a [u32],
    choose_args: Option<&'a ChooseArgMap>,
    permutations: &'a mut Permutations,
    has_rejected: &'a mut bool,
    examined: u64,
}

/// Numbers of tries, and the way in which retries differ.
#[derive(Clone, Copy)]
struct Tries {
    choose: u32,
    /// For the search below a chosen bucket; zero if the rule does not set it.
    leaf: u32,
    local: u32,
    local_fallback: u32,
    descend_once: bool,
    vary_r: u32,
    stable: bool,
}

impl Tries {
    fn of(map: &CrushMap) -> Self {
        let tunables = &map.tunables;
        Tries {
            // The tunable counts retries.
            choose: tunables.choose_total_tries.saturating_add(1),
            leaf: 0,
            local: tunables.choose_local_tries,
            local_fallback: tunables.choose_local_fallback_tries,
            descend_once: tunables.chooseleaf_descend_once != 0,
            vary_r: tunables.chooseleaf_vary_r.into(),
            stable: tunables.chooseleaf_stable != 0,
        }
    }

    /// Applies a step that sets one of the numbers. Values out of range are ignored.
    fn set(&mut self, step: &Step) {
        let Ok(value) = u32::try_from(step.arg1) else { return };
        match step.op {
            Op::SET_CHOOSE_TRIES if value > 0 => self.choose = value,
            Op::SET_CHOOSELEAF_TRIES if value > 0 => self.leaf = value,
            Op::SET_CHOOSE_LOCAL_TRIES => self.local = value,
            Op::SET_CHOOSE_LOCAL_FALLBACK_TRIES => self.local_fallback = value,
            Op::SET_CHOOSELEAF_VARY_R => self.vary_r = value,
            Op::SET_CHOOSELEAF_STABLE => self.stable = value != 0,
            _ => {}
        }
    }

    fn leaf_firstn(&self) -> u32 {
        match self.leaf {
            0 if self.descend_once => 1,
            0 => self.choose,
            tries => tries,
        }
    }

    fn leaf_indep(&self) -> u32 {
        self.leaf.max(1)
    }
}

/// Goal of a choose step.
#[derive(Clone, Copy)]
struct Goal {
    count: u32,
    type_id: i32,
    /// Whether a device below each chosen bucket is wanted instead of the bucket.
    leaf: bool,
}

/// A rule's state between steps. The three buffers are `result_max` long.
struct Execution<'a> {
    search: Search<'a>,
    tries: Tries,
    /// Start items of the next step.
    working: &'a mut Vec<i32>,
    working_len: usize,
    chosen: &'a mut Vec<i32>,
    leaves: &'a mut Vec<i32>,
}

impl Execution<'_> {
    fn run(mut self, rule: &Rule, result: &mut Vec<i32>) {
        let result_max = self.working.len();
        for step in &rule.steps {
            match step.op {
                Op::TAKE => self.take(step.arg1),
                Op::CHOOSE_FIRSTN => self.choose(step, true, false),
                Op::CHOOSELEAF_FIRSTN => self.choose(step, true, true),
                Op::CHOOSE_INDEP => self.choose(step, false, false),
                Op::CHOOSELEAF_INDEP => self.choose(step, false, true),
                Op::EMIT => {
                    let emitted = self.working_len.min(result_max - result.len());
                    result.extend_from_slice(&self.working[..emitted]);
                    self.working_len = 0;
                }
                _ => self.tries.set(step),
            }
        }
    }

    fn take(&mut self, item: i32) {
        let map = self.search.map;
        let exists = if item >= 0 { item < map.max_devices } else { map.bucket(item).is_some() };
        if let Some(first) = self.working.first_mut().filter(|_| exists) {
            *first = item;
            self.working_len = 1;
        }
    }

    fn choose(&mut self, step: &Step, firstn: bool, leaf: bool) {
        let result_max = self.working.len();
        if self.working_len == 0 {
            return;
        }
        let Some(count) = wanted(step.arg1, result_max) else {
            self.working_len = 0;
            return;
        };
        let goal = Goal { count, type_id: step.arg2, leaf };
        let map = self.search.map;
        let mut filled = 0;
        for &start in &self.working[..self.working_len] {
            let Some(start) = map.bucket(start) else { continue };
            let chosen = &mut self.chosen[filled..];
            let leaves = &mut self.leaves[filled..];
            filled += if firstn {
                self.search.choose_firstn(start, goal, &self.tries, chosen, leaves)
            } else {
                self.search.choose_indep(start, goal, &self.tries, chosen, leaves)
            };
        }
        if leaf {
            self.chosen[..filled].copy_from_slice(&self.leaves[..filled]);
        }
        std::mem::swap(&mut self.working, &mut self.chosen);
        self.working_len = filled;
    }
}

/// Number of items that a step wants: its argument, counted from the result size if not positive.
fn wanted(argument: i32, result_max: usize) -> Option<u32> {
    let count = i64::from(argument) + if argument <= 0 { result_max as i64 } else { 0 };
    u32::try_from(count).ok().filter(|&count| count > 0)
}

impl Search<'_> {
    /// Counts items that are about to be examined; false above the bound.
    fn charge(&mut self, bucket: &Bucket) -> bool {
        self.examined += 1 + bucket.items().len() as u64;
        self.examined <= EXAMINED_MAX
    }

    /// True if `device` is out, fully or, for this input, by its weight (`is_out`).
    fn is_out(&mut self, device: i32) -> bool {
        let is_out = match usize::try_from(device).ok().and_then(|index| self.weights.get(index)) {
            None | Some(0) => true,
            Some(&weight) if weight >= crate::weight::WEIGHT_ONE => false,
            Some(&weight) => hash::hash2(self.x, device as u32) & 0xffff >= weight,
        };
        *self.has_rejected |= is_out;
        is_out
    }
}
