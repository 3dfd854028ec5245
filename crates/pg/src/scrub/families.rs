//! Whether an object and its clones belong together: all clones are there that its head names, as it
//! names them, and no others.
//!
//! Copies that are the same in everything may still be wrong together. One copy is looked at, the
//! primary's, and only where all agree. An object and its clones, a *family*, lie side by side, but may
//! be looked at in several steps, between which they are written; so what seems wrong in passing is
//! looked at once more as a whole before it is a [`SnapFinding`].

use super::findings::{Count, encode_name, own_errors};
use super::map::{KnownInfo, KnownSet, ScrubMap};
use crate::snaps::{SnapClone, SnapSet};
use codec::{Encode, Writer};
use std::collections::BTreeSet;
use types::{HObject, SnapId};

/// Families that are looked at more closely in one round.
const SUSPECTS_MAX: usize = 1000;
/// Members of one that can be.
const FAMILY_MAX: usize = 4096;

/// What is wrong with an object's clones (`inconsistent_snapset_t`).
pub mod snapset {
    pub const MISSING: u64 = 1;
    pub const CORRUPTED: u64 = 1 << 1;
    pub const CLONE_MISSING: u64 = 1 << 2;
    /// The set contradicts itself, or a clone is of another version than it says.
    pub const ERROR: u64 = 1 << 3;
    pub const HEADLESS: u64 = 1 << 5;
    /// A clone has another size than the set says.
    pub const SIZE_MISMATCH: u64 = 1 << 6;
    pub const EXTRA_CLONES: u64 = 1 << 9;
}

/// A head whose clones are not those that it names, or a clone that is not as its head says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapFinding {
    pub name: HObject,
    pub errors: u64,
    /// Clones that nobody can see, and those that are not there.
    pub extra: Vec<SnapId>,
    pub missing: Vec<SnapId>,
    pub set: Option<SnapSet>,
}

impl SnapFinding {
    fn new(name: HObject) -> Self {
        SnapFinding { name, errors: 0, extra: Vec::new(), missing: Vec::new(), set: None }
    }

    pub fn count(&self) -> Count {
        Count { shallow: 1, deep: 0 }
    }

    /// Clones that nothing is lost with: the head, which is sound, does not name them, so that no
    /// client can see them.
    pub fn superfluous(&self) -> impl Iterator<Item = HObject> + '_ {
        let is_known =
            self.errors & (snapset::MISSING | snapset::CORRUPTED | snapset::HEADLESS) == 0;
        self.extra.iter().filter(move |_| is_known).map(|snap| self.name.at(*snap))
    }
}

/// What a round has seen of families that it has not passed, and which seem wrong.
#[derive(Debug, Default)]
pub(super) struct Families {
    seen: ScrubMap,
    /// Of these, by their heads, not all is known: copies differ, or they were written.
    unsure: BTreeSet<HObject>,
    suspects: Vec<Vec<HObject>>,
}

impl Families {
    /// What all copies have.
    pub fn see(&mut self, map: ScrubMap) {
        let is_seen = |(name, _): &(HObject, KnownSet)| map.objects.contains_key(name);
        self.seen.sets.extend(map.sets.into_iter().filter(is_seen));
        self.seen.objects.extend(map.objects);
    }

    pub fn doubt(&mut self, name: &HObject) {
        self.unsure.insert(name.at(SnapId::HEAD));
    }

    /// All objects before `end` were seen, or will not be.
    pub fn pass(&mut self, end: &HObject) {
        let cut = end.family_start();
        let later = ScrubMap {
            objects: self.seen.objects.split_off(&cut),
            sets: self.seen.sets.split_off(&cut),
            ..ScrubMap::default()
        };
        let passed = std::mem::replace(&mut self.seen, later);
        let later = self.unsure.split_off(&cut);
        let unsure = std::mem::replace(&mut self.unsure, later);
        let clones = passed.objects.keys().filter(|name| name.is_clone());
        let heads = clones.map(|name| name.at(SnapId::HEAD)).chain(passed.sets.keys().cloned());
        let heads: BTreeSet<HObject> = heads.collect();
        let wrong = heads.difference(&unsure).filter(|head| !judge(head, &passed).is_empty());
        let suspects = wrong.map(|head| members(head, &passed));
        let room = SUSPECTS_MAX.saturating_sub(self.suspects.len());
        self.suspects.extend(suspects.filter(|names| names.len() <= FAMILY_MAX).take(room));
    }

    /// The members of a family that is to be looked at as a whole, its head last.
    pub fn next_suspect(&mut self) -> Option<Vec<HObject>> {
        self.suspects.pop()
    }
}

/// The head last.
fn members(head: &HObject, map: &ScrubMap) -> Vec<HObject> {
    let mut clones: BTreeSet<HObject> = clones_of(head, map).cloned().collect();
    if let Some(KnownSet::Known(set)) = map.sets.get(head) {
        clones.extend(set.clones.iter().map(|clone| head.at(clone.id)));
    }
    clones.into_iter().chain([head.clone()]).collect()
}

fn clones_of<'a>(head: &'a HObject, map: &'a ScrubMap) -> impl Iterator<Item = &'a HObject> {
    let before = map.objects.range(head.family_start()..head.clone()).map(|(name, _)| name);
    before.filter(|name| name.is_of_family(head))
}

/// What is wrong with a family of which the map has all that there is.
pub(super) fn judge(head: &HObject, map: &ScrubMap) -> Vec<SnapFinding> {
    let clones: BTreeSet<SnapId> = clones_of(head, map).map(|name| name.snap).collect();
    let of_head = |errors| SnapFinding { errors, ..SnapFinding::new(head.clone()) };
    let ids = || clones.iter().copied();
    match (map.objects.contains_key(head), map.sets.get(head)) {
        (false, _) => ids()
            .map(|id| SnapFinding { errors: snapset::HEADLESS, ..SnapFinding::new(head.at(id)) })
            .collect(),
        (true, None) if clones.is_empty() => Vec::new(),
        (true, None) => {
            let errors = snapset::MISSING | snapset::EXTRA_CLONES;
            vec![SnapFinding { extra: ids().collect(), ..of_head(errors) }]
        }
        (true, Some(KnownSet::Corrupted)) => vec![of_head(snapset::CORRUPTED)],
        (true, Some(KnownSet::Known(set))) => judge_set(head, map, set, &clones),
    }
}

fn judge_set(
    head: &HObject,
    map: &ScrubMap,
    set: &SnapSet,
    clones: &BTreeSet<SnapId>,
) -> Vec<SnapFinding> {
    let mut found = SnapFinding::new(head.clone());
    let named: BTreeSet<SnapId> = set.clones.iter().map(|clone| clone.id).collect();
    found.missing = named.difference(clones).copied().collect();
    found.extra = clones.difference(&named).copied().collect();
    for (is_wrong, bit) in [
        (!set.is_sound(), snapset::ERROR),
        (!found.missing.is_empty(), snapset::CLONE_MISSING),
        (!found.extra.is_empty(), snapset::EXTRA_CLONES),
    ] {
        found.errors |= if is_wrong { bit } else { 0 };
    }
    found.set = Some(set.clone());
    let clones = set.clones.iter().filter_map(|clone| judge_clone(head, map, clone));
    clones.chain((found.errors != 0).then_some(found)).collect()
}

fn judge_clone(head: &HObject, map: &ScrubMap, clone: &SnapClone) -> Option<SnapFinding> {
    let name = head.at(clone.id);
    let object = map.objects.get(&name)?;
    // What is wrong by itself is a finding of its own.
    let KnownInfo::Known { version, .. } = object.info else { return None };
    if own_errors(Some(object)) != 0 {
        return None;
    }
    let errors = if object.size != clone.size { snapset::SIZE_MISMATCH } else { 0 }
        | if version != clone.version { snapset::ERROR } else { 0 };
    (errors != 0).then(|| SnapFinding { errors, ..SnapFinding::new(name) })
}

/// `inconsistent_snapset_t`
impl Encode for SnapFinding {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.u64(self.errors);
            encode_name(w, &self.name);
            w.value(&self.extra);
            w.value(&self.missing);
            let set = self.set.as_ref().map(encode_set).unwrap_or_default();
            w.blob(&set);
        });
    }
}

/// Ceph's `SnapSet`, which clients show.
fn encode_set(set: &SnapSet) -> Vec<u8> {
    let mut w = Writer::new();
    w.versioned(3, 2, |w| {
        w.value(&set.seq);
        w.bool(true); // There is always a head.
        w.count(0); // Snapshots, which newer ones keep by clone.
        w.list(&set.clones, |w, clone| w.value(&clone.id));
        w.list(&set.clones, |w, clone| {
            w.value(&clone.id);
            w.value(&clone.overlap);
        });
        w.list(&set.clones, |w, clone| {
            w.value(&clone.id);
            w.u64(clone.size);
        });
        w.list(&set.clones, |w, clone| {
            w.value(&clone.id);
            w.value(&clone.snaps);
        });
    });
    w.into_bytes().to_vec()
}
