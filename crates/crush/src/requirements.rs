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

    /// True if a failed leaf search restarts at the top (`CRUSH_TUNABLES2`).
    pub fn needs_tunables2(&self) -> bool {
        self.chooseleaf_descend_once != 0
    }

    /// True if leaves are searched differently for each replica (`CRUSH_TUNABLES3`).
    pub fn needs_tunables3(&self) -> bool {
        self.chooseleaf_vary_r != 0
    }

    /// True if leaves are stable (`CRUSH_TUNABLES5`).
    pub fn needs_tunables5(&self) -> bool {
        self.chooseleaf_stable != 0
    }

    /// True if the tunables of multi-step retry rules differ from the defaults.
    pub fn needs_msr(&self) -> bool {
        let legacy = Tunables::legacy();
        self.msr_descents != legacy.msr_descents
            || self.msr_collision_tries != legacy.msr_collision_tries
    }
}

/// True if there are rules that keep positions or set tries.
fn has_v2_rules(crush: &CrushMap) -> bool {
    uses(
        crush,
        &[Op::CHOOSE_INDEP, Op::CHOOSELEAF_INDEP, Op::SET_CHOOSE_TRIES, Op::SET_CHOOSELEAF_TRIES],
    )
}

fn has_v3_rules(crush: &CrushMap) -> bool {
    uses(crush, &[Op::SET_CHOOSELEAF_VARY_R])
}

/// True if there are straw2 buckets.
fn has_v4_buckets(crush: &CrushMap) -> bool {
    crush.buckets().any(|bucket| bucket.algorithm() == Algorithm::Straw2)
}

fn has_v5_rules(crush: &CrushMap) -> bool {
    uses(crush, &[Op::SET_CHOOSELEAF_STABLE])
}

fn has_msr_rules(crush: &CrushMap) -> bool {
    crush.rules().any(|(_, rule)| rule.rule_type.is_msr())
}

/// Features without which a client would place objects wrongly.
pub fn required_features(crush: &CrushMap) -> u64 {
    let tunables = &crush.tunables;
    let needs = [
        (tunables.needs_tunables(), features::CRUSH_TUNABLES),
        (tunables.needs_tunables2(), features::CRUSH_TUNABLES2),
        (tunables.needs_tunables3(), features::CRUSH_TUNABLES3),
        (tunables.needs_tunables5(), features::CRUSH_TUNABLES5),
        (has_v2_rules(crush), features::CRUSH_V2),
        (has_v3_rules(crush), features::CRUSH_TUNABLES3),
        (has_v4_buckets(crush), features::CRUSH_V4),
        (has_v5_rules(crush), features::CRUSH_TUNABLES5),
        (!crush.choose_args.is_empty(), features::CRUSH_CHOOSE_ARGS),
        (has_msr_rules(crush) || tunables.needs_msr(), features::CRUSH_MSR),
    ];
    needs.into_iter().filter(|(needed, _)| *needed).fold(0, |all, (_, bits)| all | bits)
}

/// The first release whose clients can compute placement with the map.
pub fn minimum_required_version(crush: &CrushMap) -> &'static str {
    let tunables = &crush.tunables;
    if has_msr_rules(crush) || tunables.needs_msr() {
        "squid"
    } else if has_v5_rules(crush) || tunables.needs_tunables5() {
        "jewel"
    } else if has_v4_buckets(crush) {
        "hammer"
    } else if tunables.needs_tunables3() {
        "firefly"
    } else if tunables.needs_tunables2() || tunables.needs_tunables() {
        "bobtail"
    } else {
        "argonaut"
    }
}

fn uses(crush: &CrushMap, ops: &[Op]) -> bool {
    crush.rules().any(|(_, rule)| rule.steps.iter().any(|step| ops.contains(&step.op)))
}
