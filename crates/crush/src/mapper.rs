//! Executes a rule: from an input number to devices (`crush_do_rule`).
//!
//! Every result must equal Ceph's bit for bit, including accidental ones: a rejected device that stays in the
//! result of an exhausted `chooseleaf indep` is one example. Cases that Ceph leaves undefined (endless
//! searches, dangling items) end harmlessly.

mod firstn;
mod indep;
mod msr;
mod permutation;
mod search;
mod select;

use crate::ITEM_NONE;
use crate::choose_args::ChooseArgMap;
use crate::map::CrushMap;
use crate::rule::{Op, Rule, Step};
use permutation::Permutations;
use search::{Goal, Search, Tries};

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
            assert!(result.len() <= result_max, "a rule gives no more devices than asked for");
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
        assert!(result.len() <= result_max, "a rule gives no more devices than asked for");
    }
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
                firstn::choose_firstn(&mut self.search, start, goal, &self.tries, chosen, leaves)
            } else {
                indep::choose_indep(&mut self.search, start, goal, &self.tries, chosen, leaves)
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
