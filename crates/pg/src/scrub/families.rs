//! Check of an object and its clones: the clones that the head names exist as it describes them, and no
//! others do.
//!
//! Copies that are the same in everything may still be wrong together. Only the primary's copy is checked,
//! and only where all copies agree. An object and its clones, a *family*, are adjacent, but may be scanned
//! in several chunks, between which they are written; so a suspect family is scanned once more as a whole
//! before it becomes a [`SnapFinding`].

use super::findings::{Count, encode_name, own_errors};
use super::map::{KnownInfo, KnownSet, ScrubMap};
use crate::snaps::{SnapClone, SnapSet};
use codec::{Encode, Writer};
use std::collections::BTreeSet;
use types::{HObject, SnapId};

/// Families that are scanned again in one round at most.
const SUSPECTS_MAX: usize = 1000;
/// Objects of a family that is scanned again, at most.
const FAMILY_MAX: usize = 4096;

/// Errors of an object's clones (`inconsistent_snapset_t`).
pub mod snapset {
    /// The head has no set (`SNAPSET_MISSING`).
    pub const MISSING: u64 = 1;
    /// The set does not decode (`SNAPSET_CORRUPTED`).
    pub const CORRUPTED: u64 = 1 << 1;
    /// A clone that the set names does not exist (`CLONE_MISSING`).
    pub const CLONE_MISSING: u64 = 1 << 2;
    /// The set contradicts itself, or a clone's version differs from the set's.
    pub const ERROR: u64 = 1 << 3;
    /// A clone without a head (`HEADLESS_CLONE`).
    pub const HEADLESS: u64 = 1 << 5;
    /// A clone's size differs from the set's.
    pub const SIZE_MISMATCH: u64 = 1 << 6;
    /// Clones that the set does not name (`EXTRA_CLONES`).
    pub const EXTRA_CLONES: u64 = 1 << 9;
}

/// A head whose clones are not those that it names, or a clone that is not as its head says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapFinding {
    /// The head or the clone.
    pub name: HObject,
    /// Bits of [`snapset`].
    pub errors: u64,
    /// Clones that the head does not name, and named clones that do not exist.
    pub extra: Vec<SnapId>,
    /// See `extra`.
    pub missing: Vec<SnapId>,
    /// The head's set if it decodes; `None` for a clone.
    pub set: Option<SnapSet>,
}

impl SnapFinding {
    fn new(name: HObject) -> Self {
        SnapFinding { name, errors: 0, extra: Vec::new(), missing: Vec::new(), set: None }
    }

    /// Each finding is one shallow error.
    pub fn count(&self) -> Count {
        Count { shallow: 1, deep: 0 }
    }

    /// Clones that can be removed without loss: the head, whose set is intact, does not name them, so no
    /// client can see them.
    pub fn superfluous(&self) -> impl Iterator<Item = HObject> + '_ {
        let is_known =
            self.errors & (snapset::MISSING | snapset::CORRUPTED | snapset::HEADLESS) == 0;
        self.extra.iter().filter(move |_| is_known).map(|snap| self.name.at(*snap))
    }
}

/// Families that the round has not passed yet, and those that are suspect.
#[derive(Debug, Default)]
pub(super) struct Families {
    seen: ScrubMap,
    /// Heads of families that are not fully known: copies differ, or they were written.
    unsure: BTreeSet<HObject>,
    suspects: Vec<Vec<HObject>>,
}

impl Families {
    /// Adds objects on which all copies agree.
    pub fn see(&mut self, map: ScrubMap) {
        let is_seen = |(name, _): &(HObject, KnownSet)| map.objects.contains_key(name);
        self.seen.sets.extend(map.sets.into_iter().filter(is_seen));
        self.seen.objects.extend(map.objects);
    }

    /// The family of this object is not fully known.
    pub fn doubt(&mut self, name: &HObject) {
        self.unsure.insert(name.at(SnapId::HEAD));
    }

    /// All objects before `end` were scanned, or will not be: checks their families.
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
        let wrong =
            heads.difference(&unsure).filter(|head| !check_family(head, &passed).is_empty());
        let suspects = wrong.map(|head| members(head, &passed));
        let room = SUSPECTS_MAX.saturating_sub(self.suspects.len());
        self.suspects.extend(suspects.filter(|names| names.len() <= FAMILY_MAX).take(room));
        assert!(self.suspects.len() <= SUSPECTS_MAX, "suspects are bounded");
    }

    /// The objects of a suspect family, the head last.
    pub fn next_suspect(&mut self) -> Option<Vec<HObject>> {
        self.suspects.pop()
    }
}

/// The objects of a family, the head last.
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

/// The inconsistencies of a family of which the map has all objects.
pub(super) fn check_family(head: &HObject, map: &ScrubMap) -> Vec<SnapFinding> {
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
        (true, Some(KnownSet::Known(set))) => check_set(head, map, set, &clones),
    }
}

fn check_set(
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
    let clones = set.clones.iter().filter_map(|clone| check_clone(head, map, clone));
    clones.chain((found.errors != 0).then_some(found)).collect()
}

fn check_clone(head: &HObject, map: &ScrubMap, clone: &SnapClone) -> Option<SnapFinding> {
    let name = head.at(clone.id);
    let object = map.objects.get(&name)?;
    // Errors of the clone itself are findings of their own.
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

/// Ceph's `SnapSet`, as clients show it.
fn encode_set(set: &SnapSet) -> Vec<u8> {
    let mut w = Writer::new();
    w.versioned(3, 2, |w| {
        w.value(&set.seq);
        w.bool(true); // There is always a head.
        w.count(0); // The old list of snapshots; they are listed by clone below.
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
