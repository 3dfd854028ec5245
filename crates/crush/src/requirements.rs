//! Features that a client needs to compute this map's placement.

use crate::map::CrushMap;
use crate::rule::Op;
use crate::{Algorithm, Tunables};
use types::features;

impl Tunables {
    /// True if the tunables differ from the first release's in retries (`require_feature_tunables`).
    pub fn needs_tunables(&self) -> bool {
        let legacy = Tunables::legacy();
        self.choose_local_tries != legacy.choose_local_tries
            || self.choose_local_fallback_tries != legacy.choose_local_fallback_tries
            || self.choose_total_tries != legacy.choose_total_tries
    }

    pub fn needs_tunables2(&self) -> bool {
        self.chooseleaf_descend_once != 0
    }

    pub fn needs_tunables3(&self) -> bool {
        self.chooseleaf_vary_r != 0
    }

    pub fn needs_tunables5(&self) -> bool {
        self.chooseleaf_stable != 0
    }

    pub fn needs_msr(&self) -> bool {
        let legacy = Tunables::legacy();
        self.msr_descents != legacy.msr_descents
            || self.msr_collision_tries != legacy.msr_collision_tries
    }
}

impl CrushMap {
    /// True if there are rules that keep positions or set tries.
    pub fn has_v2_rules(&self) -> bool {
        self.uses(&[
            Op::CHOOSE_INDEP,
            Op::CHOOSELEAF_INDEP,
            Op::SET_CHOOSE_TRIES,
            Op::SET_CHOOSELEAF_TRIES,
        ])
    }

    pub fn has_v3_rules(&self) -> bool {
        self.uses(&[Op::SET_CHOOSELEAF_VARY_R])
    }

    /// True if there are straw2 buckets.
    pub fn has_v4_buckets(&self) -> bool {
        self.buckets().any(|bucket| bucket.algorithm() == Algorithm::Straw2)
    }

    pub fn has_v5_rules(&self) -> bool {
        self.uses(&[Op::SET_CHOOSELEAF_STABLE])
    }

    pub fn has_msr_rules(&self) -> bool {
        self.rules().any(|(_, rule)| rule.rule_type.is_msr())
    }

    /// Features without which a client would place objects wrongly.
    pub fn required_features(&self) -> u64 {
        let tunables = &self.tunables;
        let needs = [
            (tunables.needs_tunables(), features::CRUSH_TUNABLES),
            (tunables.needs_tunables2(), features::CRUSH_TUNABLES2),
            (tunables.needs_tunables3(), features::CRUSH_TUNABLES3),
            (tunables.needs_tunables5(), features::CRUSH_TUNABLES5),
            (self.has_v2_rules(), features::CRUSH_V2),
            (self.has_v3_rules(), features::CRUSH_TUNABLES3),
            (self.has_v4_buckets(), features::CRUSH_V4),
            (self.has_v5_rules(), features::CRUSH_TUNABLES5),
            (!self.choose_args.is_empty(), features::CRUSH_CHOOSE_ARGS),
            (self.has_msr_rules() || tunables.needs_msr(), features::CRUSH_MSR),
        ];
        needs.into_iter().filter(|(needed, _)| *needed).fold(0, |all, (_, bits)| all | bits)
    }

    /// The first release whose clients can compute placement with the map.
    pub fn minimum_required_version(&self) -> &'static str {
        let tunables = &self.tunables;
        if self.has_msr_rules() || tunables.needs_msr() {
            "squid"
        } else if self.has_v5_rules() || tunables.needs_tunables5() {
            "jewel"
        } else if self.has_v4_buckets() {
            "hammer"
        } else if tunables.needs_tunables3() {
            "firefly"
        } else if tunables.needs_tunables2() || tunables.needs_tunables() {
            "bobtail"
        } else {
            "argonaut"
        }
    }

    fn uses(&self, ops: &[Op]) -> bool {
        self.rules().any(|(_, rule)| rule.steps.iter().any(|step| ops.contains(&step.op)))
    }
}
