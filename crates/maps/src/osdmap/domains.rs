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

/// Where a rule can place the members of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room<'a> {
    /// Members that find a place, at most the pool's size.
    pub places: usize,
    /// Failure domains that have a serving OSD.
    pub domains: usize,
    /// The type of failure domains: `host`, or `osd` if the rule chooses among OSDs alone.
    pub kind: &'a str,
    /// Members of a group in one failure domain.
    pub per_domain: usize,
}

/// One `take` of a rule with the choices below it.
#[derive(Debug)]
struct Branch {
    devices: BTreeSet<OsdId>,
    /// Its choices, from the root down.
    levels: Vec<Level>,
}

/// One choice of a rule.
#[derive(Debug)]
struct Level {
    /// The bucket that contains each device; `None` for choices of devices, which differ in any case.
    buckets: Option<BTreeMap<OsdId, i32>>,
    /// How many are chosen; zero or less is relative to the size of the pool.
    count: i32,
    /// One device is chosen below each bucket.
    is_leaf: bool,
}

impl<'a> Domains<'a> {
    pub(super) fn new(map: &'a OsdMap) -> Self {
        Domains { map, rules: BTreeMap::new() }
    }

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

    /// Whether the pool's rule permits a group to have this set: its roots and its failure domains. A
    /// rule that is not understood permits any, as in Ceph's check of upmaps.
    pub fn fits(&mut self, pool: &Pool, set: &[OsdId]) -> bool {
        let branches = self.branches(pool);
        let mut left: BTreeSet<OsdId> =
            set.iter().copied().filter(|osd| *osd != OsdId::NONE).collect();
        for branch in branches {
            let (within, others) = left.into_iter().partition(|osd| branch.devices.contains(osd));
            left = others;
            if !branch.fits(pool.size, &within) {
                return false;
            }
        }
        branches.is_empty() || left.is_empty()
    }

    /// OSDs that the pool's rule can choose.
    pub fn devices(&mut self, pool: &Pool) -> BTreeSet<OsdId> {
        self.branches(pool).iter().flat_map(|branch| branch.devices.iter().copied()).collect()
    }

    /// The places that the pool's rule finds for the members of a group on OSDs that `serves` names.
    pub fn room(&mut self, pool: &Pool, serves: impl Fn(OsdId) -> bool) -> Room<'_> {
        let map = self.map;
        let mut room = Room { places: 0, domains: 0, kind: "osd", per_domain: 1 };
        // CRUSH chooses no device without weight.
        let weights = map.crush.device_weights();
        let is_weighted = |osd: OsdId| weights.get(&osd.0).is_some_and(|weight| *weight > 0);
        let branches = self.branches(pool);
        for branch in branches {
            let may = |osd: &OsdId| is_weighted(*osd) && serves(*osd);
            let serving: Vec<OsdId> = branch.devices.iter().copied().filter(may).collect();
            room.places += places(&branch.levels, pool.size, &serving);
            let domains = |level: &Level| level.buckets.is_some();
            let Some(depth) = branch.levels.iter().rposition(domains) else {
                room.domains += serving.len();
                continue;
            };
            let (level, below) = (&branch.levels[depth], &branch.levels[depth + 1..]);
            let buckets = level.buckets.iter().flatten();
            let found: BTreeSet<i32> = buckets
                .clone()
                .filter(|(osd, _)| serving.binary_search(osd).is_ok())
                .map(|(_, bucket)| *bucket)
                .collect();
            room.domains += found.len();
            if !level.is_leaf && !below.is_empty() {
                room.per_domain = chosen_below(below, pool.size);
            }
            let kind = buckets.clone().next().and_then(|(_, id)| map.crush.item_type(*id));
            room.kind = kind.and_then(|kind| map.crush.type_name(kind)).unwrap_or(room.kind);
        }
        // Nothing can be said of a rule without choices.
        let size = usize::from(pool.size);
        room.places = if branches.is_empty() { size } else { room.places.min(size) };
        room
    }

    fn branches(&mut self, pool: &Pool) -> &[Branch] {
        let map = self.map;
        self.rules.entry(pool.crush_rule).or_insert_with(|| {
            let rule = map.crush.rule(pool.crush_rule.into());
            rule.map(|rule| branches(map, rule)).unwrap_or_default()
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
            Op::CHOOSE_FIRSTN
            | Op::CHOOSE_INDEP
            | Op::CHOOSELEAF_FIRSTN
            | Op::CHOOSELEAF_INDEP
            | Op::CHOOSE_MSR => {
                let Some(branch) = branches.last_mut() else { continue };
                let type_id = u16::try_from(step.arg2).ok().filter(|type_id| *type_id > 0);
                let buckets = type_id.map(|type_id| buckets(map, type_id));
                let is_leaf = matches!(step.op, Op::CHOOSELEAF_FIRSTN | Op::CHOOSELEAF_INDEP);
                branch.levels.push(Level { buckets, count: step.arg1, is_leaf });
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

/// Members of a group that choices can place on these devices, in as many places as possible.
fn places(levels: &[Level], size: u8, devices: &[OsdId]) -> usize {
    let Some((level, below)) = levels.split_first() else { return devices.len().min(1) };
    let Some(buckets) = &level.buckets else { return devices.len().min(level.chosen(size)) };
    let mut held = BTreeMap::<i32, Vec<OsdId>>::new();
    for osd in devices {
        if let Some(bucket) = buckets.get(osd) {
            held.entry(*bucket).or_default().push(*osd);
        }
    }
    let of_bucket = |devices: &Vec<OsdId>| match level.is_leaf {
        true => 1,
        false => places(below, size, devices),
    };
    let mut each: Vec<usize> = held.values().map(of_bucket).collect();
    each.sort_unstable_by(|a, b| b.cmp(a));
    each.into_iter().take(level.chosen(size)).sum()
}

/// Members of a group below one choice.
fn chosen_below(levels: &[Level], size: u8) -> usize {
    levels.iter().fold(1, |all, level| all.saturating_mul(level.chosen(size)))
}

impl Level {
    /// How many are chosen for a pool of this size.
    fn chosen(&self, size: u8) -> usize {
        match self.count {
            count if count > 0 => count.unsigned_abs() as usize,
            less => usize::from(size).saturating_sub(less.unsigned_abs() as usize),
        }
    }
}

impl Branch {
    /// Whether a rule could choose these of its devices together.
    fn fits(&self, size: u8, set: &BTreeSet<OsdId>) -> bool {
        let chosen = |level: &Level| level.chosen(size);
        for (depth, level) in self.levels.iter().enumerate() {
            let Some(buckets) = &level.buckets else { continue };
            let mut members = BTreeMap::<i32, usize>::new();
            for osd in set {
                let Some(bucket) = buckets.get(osd) else { return false };
                *members.entry(*bucket).or_default() += 1;
            }
            let below: usize = match level.is_leaf {
                true => 1,
                false => chosen_below(&self.levels[depth + 1..], size),
            };
            if members.len() > chosen(level) || members.values().any(|count| *count > below) {
                return false;
            }
        }
        true
    }

    fn allows(&self, set: &[OsdId], from: OsdId, to: OsdId) -> bool {
        let last = self.levels.len().saturating_sub(1);
        for (depth, level) in self.levels.iter().enumerate() {
            let Some(level) = &level.buckets else { continue };
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
