//! The input of one execution, its numbers of tries, and the bound of its work.

use super::permutation::Permutations;
use crate::bucket::Bucket;
use crate::choose_args::ChooseArgMap;
use crate::hash;
use crate::map::CrushMap;
use crate::rule::{Op, Step};

/// A position that is not decided yet (`CRUSH_ITEM_UNDEF`).
pub(super) const ITEM_UNDEFINED: i32 = 0x7fff_fffe;

/// Items that one execution may examine. Sound maps stay below by orders of magnitude; a rule
/// with absurd tries stops here with what it has.
const EXAMINED_MAX: u64 = 1 << 23;

/// Common input of all choices of one execution.
pub(super) struct Search<'a> {
    pub(super) map: &'a CrushMap,
    pub(super) x: u32,
    pub(super) weights: &'a [u32],
    pub(super) choose_args: Option<&'a ChooseArgMap>,
    pub(super) permutations: &'a mut Permutations,
    pub(super) has_rejected: &'a mut bool,
    pub(super) examined: u64,
}

impl Search<'_> {
    /// Counts items that are about to be examined; false above the bound.
    pub(super) fn charge(&mut self, bucket: &Bucket) -> bool {
        self.examined += 1 + bucket.items().len() as u64;
        self.examined <= EXAMINED_MAX
    }

    /// True if the bound of work was reached.
    pub(super) fn is_exhausted(&self) -> bool {
        self.examined > EXAMINED_MAX
    }

    /// True if `device` is out, fully or, for this input, by its weight (`is_out`).
    pub(super) fn is_out(&mut self, device: i32) -> bool {
        let is_out = match usize::try_from(device).ok().and_then(|index| self.weights.get(index)) {
            None | Some(0) => true,
            Some(&weight) if weight >= crate::weight::WEIGHT_ONE => false,
            Some(&weight) => hash::hash2(self.x, device as u32) & 0xffff >= weight,
        };
        *self.has_rejected |= is_out;
        is_out
    }
}

/// Numbers of tries, and the way in which retries differ.
#[derive(Clone, Copy)]
pub(super) struct Tries {
    pub(super) choose: u32,
    /// For the search below a chosen bucket; zero if the rule does not set it.
    pub(super) leaf: u32,
    pub(super) local: u32,
    pub(super) local_fallback: u32,
    pub(super) descend_once: bool,
    pub(super) vary_r: u32,
    pub(super) stable: bool,
}

impl Tries {
    pub(super) fn of(map: &CrushMap) -> Self {
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
    pub(super) fn set(&mut self, step: &Step) {
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

    pub(super) fn leaf_firstn(&self) -> u32 {
        match self.leaf {
            0 if self.descend_once => 1,
            0 => self.choose,
            tries => tries,
        }
    }

    pub(super) fn leaf_indep(&self) -> u32 {
        self.leaf.max(1)
    }
}

/// Goal of a choose step.
#[derive(Clone, Copy)]
pub(super) struct Goal {
    pub(super) count: u32,
    pub(super) type_id: i32,
    /// Whether a device below each chosen bucket is wanted instead of the bucket.
    pub(super) leaf: bool,
}
