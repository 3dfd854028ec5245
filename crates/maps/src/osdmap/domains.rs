//! OSDs that may replace each other in a placement group without violating its CRUSH rule.

use super::OsdMap;
use crate::Pool;
use crush::{Op, Rule};
use std::collections::{BTreeMap, BTreeSet};
use types::OsdId;

/// Constraints of rules on the members of a group, computed once per rule.
#[derive(Debug)]
pub struct Domains<'a> {
    map: &'a OsdMap,
    rules: BTreeMap<u8, Vec<Branch>>,
}

/// One `take` of a rule with the choices below it.
#[derive(Debug)]
struct Branch {
    devices: BTreeSet<OsdId>,
    /// For each choice, from the root down, the bucket that contains each device. Choices of devices are
    /// `None`: devices differ in any case.
    levels: Vec<Option<BTreeMap<OsdId, i32>>>,
}

impl OsdMap {
    pub fn domains(&self) -> Domains<'_> {
        Domains { map: self, rules: BTreeMap::new() }
    }
}

impl Domains<'_> {
    /// True if `to` may take the place of `from` in the set of a group of this pool.
    ///
    /// It must lie below the same root. Where the rule chooses among buckets, it must lie in the same
    /// bucket, or, at the last of these choices, in one that contains no other member. A rule with steps
    /// that this module does not support allows nothing.
    pub fn allow(&mut self, pool: &Pool, set: &[OsdId], from: OsdId, to: OsdId) -> bool {
        if from == to || !set.contains(&from) || set.contains(&to) {
            return false;
        }
        let branches = self.branches(pool);
        let both =
            |branch: &&Branch| branch.devices.contains(&from) && branch.devices.contains(&to);
        branches.iter().find(both).is_some_and(|branch| branch.allows(set, from, to))
    }

    /// OSDs that the pool's rule can choose.
    pub fn devices(&mut self, pool: &Pool) -> BTreeSet<OsdId> {
        self.branches(pool).iter().flat_map(|branch| branch.devices.iter().copied()).collect()
    }

    /// Number and type ("host", "osd") of the failure domains that have a device which `serves`; the
    /// members of a group must lie in different ones.
    pub fn available(&mut self, pool: &Pool, serves: impl Fn(OsdId) -> bool) -> (usize, &str) {
        let map = self.map;
        let mut kind = None;
        let mut count = 0;
        for branch in self.branches(pool) {
            let serving = || branch.devices.iter().filter(|osd| serves(**osd));
            match branch.levels.iter().rev().flatten().next() {
                None => count += serving().count(),
                Some(level) => {
                    let buckets: BTreeSet<i32> =
                        serving().filter_map(|osd| level.get(osd).copied()).collect();
                    count += buckets.len();
                    let first = level.values().next();
                    kind = kind.or(first.and_then(|bucket| map.crush.item_type(*bucket)));
                }
            }
        }
        (count, kind.and_then(|kind| map.crush.type_name(kind)).unwrap_or("osd"))
    }

    fn branches(&mut self, pool: &Pool) -> &[Branch] {
        let map = self.map;
        self.rules.entry(pool.crush_rule).or_insert_with(|| {
            let rule = map.crush.rule(pool.crush_rule.into());
            rule.filter(|rule| !rule.rule_type.is_msr())
                .map(|rule| branches(map, rule))
                .unwrap_or_default()
        })
    }
}

fn branches(map: &OsdMap, rule: &Rule) -> Vec<Branch> {
    let mut branches = Vec::new();
    for step in &rule.steps {
        match step.op {
            Op::TAKE => {
                let devices = map.crush.devices_below(step.arg1).into_iter().map(OsdId).collect();
                branches.push(Branch { devices, levels: Vec::new() });
            }
            Op::CHOOSE_FIRSTN | Op::CHOOSE_INDEP | Op::CHOOSELEAF_FIRSTN | Op::CHOOSELEAF_INDEP => {
                let Some(branch) = branches.last_mut() else { continue };
                let level = u16::try_from(step.arg2).ok().filter(|type_id| *type_id > 0);
                branch.levels.push(level.map(|type_id| buckets(map, type_id)));
            }
            _ => {}
        }
    }
    branches
}

/// The bucket of a type that contains each device.
fn buckets(map: &OsdMap, type_id: u16) -> BTreeMap<OsdId, i32> {
    let mut of_device = BTreeMap::new();
    for bucket in map.crush.buckets().filter(|bucket| bucket.type_id() == type_id) {
        if !map.crush.is_shadow(bucket.id()) {
            let devices = map.crush.devices_below(bucket.id());
            of_device.extend(devices.into_iter().map(|device| (OsdId(device), bucket.id())));
        }
    }
    of_device
}

impl Branch {
    fn allows(&self, set: &[OsdId], from: OsdId, to: OsdId) -> bool {
        let last = self.levels.len().saturating_sub(1);
        for (depth, level) in self.levels.iter().enumerate() {
            let Some(level) = level else { continue };
            let (Some(left), Some(entered)) = (level.get(&from), level.get(&to)) else {
                return false;
            };
            if left == entered {
                continue;
            }
            let is_taken = |osd: &OsdId| *osd != from && level.get(osd) == Some(entered);
            return depth == last && !set.iter().any(is_taken);
        }
        true
    }
}
