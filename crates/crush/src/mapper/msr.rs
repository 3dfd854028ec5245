//! Multi-step retry rules (`crush_msr_do_rule`, Ceph's `doc/dev/crush-msr.rst`).
//!
//! A block of such a rule is a take, choices, and an emit. The result is cut into as many strides
//! as the first choice asks for, each stride again by the second choice, and so on; each stride
//! has a bucket of its own. If a device turns out to be out, all choices above it are made again
//! in the next descent, which plain rules cannot do.

use super::search::{ITEM_UNDEFINED, Search};
use super::select::select;
use crate::rule::{Op, Rule, RuleType, Step};
use crate::{Bucket, ITEM_NONE};
use std::ops::Range;

/// Executes `rule`. A malformed rule gives no result.
pub(super) fn execute(search: Search<'_>, rule: &Rule, result_max: usize, result: &mut Vec<i32>) {
    let tunables = &search.map.tunables;
    let mut run = Run {
        descents: tunables.msr_descents,
        collision_tries: tunables.msr_collision_tries,
        search,
        firstn: rule.rule_type == RuleType::MSR_FIRSTN,
        result_max,
        emitted: 0,
        result,
    };
    run.result.resize(result_max, ITEM_NONE);
    let filled = match run.blocks(&rule.steps) {
        Some(()) if run.firstn => run.emitted,
        Some(()) => result_max,
        None => 0,
    };
    result.truncate(filled);
}

struct Run<'a> {
    search: Search<'a>,
    descents: u32,
    collision_tries: u32,
    firstn: bool,
    result_max: usize,
    emitted: usize,
    result: &'a mut Vec<i32>,
}

/// The choices of one block.
struct Block<'s> {
    steps: &'s [Step],
    /// Per step, the items chosen for each position of the result; each stride fills from its start.
    used: Vec<Vec<i32>>,
    descent: u32,
}

impl Run<'_> {
    fn blocks(&mut self, steps: &[Step]) -> Option<()> {
        let mut steps = self.configure(steps);
        let mut next = 0;
        while let [take, rest @ ..] = steps {
            let end = rest.iter().position(|step| step.op == Op::EMIT)?;
            let choices = &rest[..end];
            if take.op != Op::TAKE || choices.iter().any(|step| step.op != Op::CHOOSE_MSR) {
                return None;
            }
            next = if take.arg1 >= 0 {
                self.emit_device(take.arg1, choices, next)?
            } else {
                self.block(take.arg1, choices, next)?
            };
            steps = &rest[end + 1..];
        }
        Some(())
    }

    /// Applies the leading steps that set tries; returns the others.
    fn configure<'s>(&mut self, steps: &'s [Step]) -> &'s [Step] {
        for (index, step) in steps.iter().enumerate() {
            match step.op {
                Op::SET_MSR_DESCENTS => self.descents = step.arg1 as u32,
                Op::SET_MSR_COLLISION_TRIES => self.collision_tries = step.arg1 as u32,
                _ => return &steps[index..],
            }
        }
        &[]
    }

    fn emit_device(&mut self, device: i32, choices: &[Step], position: usize) -> Option<usize> {
        let fits = choices.is_empty() && position < self.result_max;
        fits.then(|| self.emit(position, device))?;
        Some(position + 1)
    }

    /// Fills positions from `first` on; returns where the next block begins.
    fn block(&mut self, root: i32, choices: &[Step], first: usize) -> Option<usize> {
        let root = self.search.map.bucket(root)?;
        let width = choices.iter().try_fold(1u32, |width, step| {
            width.checked_mul(self.strides(step)).filter(|&width| width > 0)
        })?;
        if choices.is_empty() {
            return None;
        }
        let positions = first..self.result_max.min(first.saturating_add(width as usize));
        let mut block = Block {
            steps: choices,
            used: vec![vec![ITEM_UNDEFINED; self.result_max]; choices.len()],
            descent: 0,
        };
        let target = self.emitted + positions.len();
        while block.descent < self.descents && self.emitted < target && self.search.charge(root) {
            self.choose(&mut block, root, width as usize, positions.clone(), 0);
            block.descent += 1;
        }
        Some(positions.end)
    }

    /// Number of strides into which a step cuts its positions. A negative argument overflows the block's
    /// width, as a huge one does.
    fn strides(&self, step: &Step) -> u32 {
        match step.arg1 {
            0 => u32::try_from(self.result_max).unwrap_or(u32::MAX),
            strides => strides as u32,
        }
    }

    /// Makes the choices from step `depth` on for `positions`; returns the number of devices emitted. `width`
    /// is the number of positions for a result of sufficient length.
    fn choose(
        &mut self,
        block: &mut Block<'_>,
        bucket: &Bucket,
        width: usize,
        positions: Range<usize>,
        depth: usize,
    ) -> usize {
        let stride_len = width / self.strides(&block.steps[depth]) as usize;
        // A bucket below which no device was found counts as used until this pass is over, so that one device
        // that is out disturbs no other choice.
        let mut fruitless = Vec::new();
        let mut emitted = 0;
        for (index, start) in positions.clone().step_by(stride_len).enumerate() {
            let stride = start..positions.end.min(start + stride_len);
            if block.is_complete(&stride) {
                continue;
            }
            let Some(item) = self.candidate(block, bucket, depth, index, &positions, &stride)
            else {
                continue;
            };
            if block.steps[depth].arg2 == 0 {
                emitted += self.choose_device(block, depth, stride, stride_len, item);
                continue;
            }
            let Some(child) = self.search.map.bucket(item) else { continue };
            if depth + 1 >= block.steps.len() {
                continue;
            }
            let below = self.choose(block, child, stride_len, stride.clone(), depth + 1);
            emitted += below;
            if block.push(depth, &stride, item) && below == 0 {
                fruitless.push(stride);
            }
        }
        fruitless.into_iter().for_each(|stride| block.pop(depth, stride));
        emitted
    }

    /// An item that no other stride has, within the allowed number of collisions.
    fn candidate(
        &mut self,
        block: &Block<'_>,
        bucket: &Bucket,
        depth: usize,
        index: usize,
        positions: &Range<usize>,
        stride: &Range<usize>,
    ) -> Option<i32> {
        let total = block.descent.wrapping_mul(self.result_max as u32).wrapping_add(index as u32);
        for collisions in 0..self.collision_tries {
            let r = (total << 16).wrapping_add(collisions);
            let item = self.descend(bucket, block.steps[depth].arg2, r, index)?;
            if block.is_free(depth, positions, stride, item) {
                return Some(item);
            }
        }
        None
    }

    /// A device, or a bucket of the wanted type, whichever comes first on the way down.
    fn descend(&mut self, bucket: &Bucket, type_id: i32, r: u32, index: usize) -> Option<i32> {
        let map = self.search.map;
        let mut bucket = bucket;
        loop {
            if bucket.items().is_empty() || !self.search.charge(bucket) {
                return None;
            }
            let item = select(&mut self.search, bucket, r, index);
            if item >= 0 {
                return Some(item);
            }
            bucket = map.bucket(item)?;
            if i32::from(bucket.type_id()) == type_id {
                return Some(item);
            }
        }
    }

    fn choose_device(
        &mut self,
        block: &mut Block<'_>,
        depth: usize,
        stride: Range<usize>,
        stride_len: usize,
        device: i32,
    ) -> usize {
        let is_last = depth + 1 == block.steps.len();
        if stride_len != 1 || !is_last || self.search.is_out(device) {
            return 0;
        }
        block.push(depth, &stride, device);
        self.emit(stride.start, device);
        1
    }

    fn emit(&mut self, position: usize, device: i32) {
        let at = if self.firstn { self.emitted } else { position };
        self.result[at] = device;
        self.emitted += 1;
    }
}

impl Block<'_> {
    fn is_complete(&self, stride: &Range<usize>) -> bool {
        let devices = self.used.last().expect("a block has choices");
        devices[stride.clone()].iter().all(|&device| device != ITEM_UNDEFINED)
    }

    /// True if `item` was chosen for none of `positions`, or for this stride already.
    fn is_free(
        &self,
        depth: usize,
        positions: &Range<usize>,
        stride: &Range<usize>,
        item: i32,
    ) -> bool {
        let used = &self.used[depth];
        let mut holders = positions.clone().filter(|&position| used[position] == item);
        holders.next().is_none_or(|position| stride.contains(&position))
    }

    /// Records `item` for `stride`; false if it was there already.
    fn push(&mut self, depth: usize, stride: &Range<usize>, item: i32) -> bool {
        for slot in &mut self.used[depth][stride.clone()] {
            if *slot == item {
                return false;
            }
            if *slot == ITEM_UNDEFINED {
                *slot = item;
                return true;
            }
        }
        false
    }

    /// Removes the item pushed last.
    fn pop(&mut self, depth: usize, stride: Range<usize>) {
        let slots = &mut self.used[depth][stride];
        if let Some(last) = slots.iter_mut().rev().find(|slot| **slot != ITEM_UNDEFINED) {
            *last = ITEM_UNDEFINED;
        }
    }
}
