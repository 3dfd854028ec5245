//! Comparison of copies: which ones differ, and which one is authoritative.
//!
//! A copy with errors of its own (it cannot be read, fails its checksums, contradicts its own info) is never
//! authoritative. Of the others, those count that have the version that the log demands, or, if the log
//! does not reach back so far, the newest one: a copy can miss a write, but none can invent one. If these
//! still differ, the content with the most copies is right; if there is a tie, the choice is only presumed.
//! Copies that look truncated do not outvote others: interrupted transfers of earlier builds could leave
//! truncated objects on most members.

use super::findings::{Authority, Finding, Shard, object, own_errors, shard};
use super::map::{KnownInfo, ScrubMap, ScrubObject};
use crate::Member;
use std::collections::{BTreeMap, BTreeSet};
use types::{EVersion, HObject};

/// The state of an object according to the group's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// The log has no entry of it.
    Unknown,
    /// The newest entry removes it.
    Absent,
    /// The newest entry writes this version.
    Version(EVersion),
}

/// The objects that are not intact and the same in all maps. `maps` has one map of each member.
pub fn compare(
    maps: &BTreeMap<Member, ScrubMap>,
    primary: Member,
    expected: impl Fn(&HObject) -> Expected,
) -> Vec<Finding> {
    let names: BTreeSet<&HObject> = maps.values().flat_map(|map| map.objects.keys()).collect();
    let copies = |name: &HObject| -> Copies<'_> {
        maps.iter().map(|(osd, map)| (*osd, map.objects.get(name))).collect()
    };
    let compared = names.into_iter().map(|name| (name, copies(name)));
    compared
        .filter_map(|(name, copies)| compare_object(name, &copies, primary, || expected(name)))
        .collect()
}

type Copies<'a> = BTreeMap<Member, Option<&'a ScrubObject>>;

fn compare_object(
    name: &HObject,
    copies: &Copies<'_>,
    primary: Member,
    expected: impl FnOnce() -> Expected,
) -> Option<Finding> {
    if are_equal(copies) {
        return None;
    }
    let authority = choose(copies, primary, expected());
    let right = match authority {
        Authority::Copy(osd) | Authority::Presumed(osd) => copies[&osd],
        Authority::Absence | Authority::Unknown => None,
    };
    let differs = |copy: &Option<&ScrubObject>| match authority {
        Authority::Unknown => true,
        _ => own_errors(*copy) != 0 || !is_same(*copy, right),
    };
    let bad: Vec<Member> =
        copies.iter().filter(|(_, copy)| differs(copy)).map(|(osd, _)| *osd).collect();
    if bad.is_empty() {
        return None;
    }
    let mut finding = Finding {
        name: name.clone(),
        errors: differences(copies),
        user_version: right.map_or(0, user_version),
        shards: BTreeMap::new(),
        authority,
        bad,
    };
    for (osd, copy) in copies {
        let errors = shard_errors(*copy, right);
        let shard = Shard { object: copy.copied(), errors, is_primary: *osd == primary };
        finding.shards.insert(*osd, shard);
    }
    assert_eq!(finding.shards.len(), copies.len(), "each copy is in the report");
    Some(finding)
}

/// Whether all copies exist, are intact and the same: the usual case.
fn are_equal(copies: &Copies<'_>) -> bool {
    let mut copies = copies.values();
    let first = copies.next().copied().flatten();
    first.is_some() && own_errors(first) == 0 && copies.all(|copy| is_same(*copy, first))
}

fn user_version(object: &ScrubObject) -> u64 {
    match object.info {
        KnownInfo::Known { user_version, .. } => user_version,
        _ => 0,
    }
}

fn shard_errors(copy: Option<&ScrubObject>, right: Option<&ScrubObject>) -> u64 {
    match (copy, right) {
        (None, Some(_)) => shard::MISSING,
        (Some(copy), Some(right)) if !copy.stat_error && copy.size != right.size => {
            own_errors(Some(copy)) | shard::SIZE_MISMATCH_INFO
        }
        (copy, _) => own_errors(copy),
    }
}

/// Whether a copy has the same content as the authoritative one.
fn is_same(copy: Option<&ScrubObject>, right: Option<&ScrubObject>) -> bool {
    match (copy, right) {
        (None, None) => true,
        (Some(copy), Some(right)) => copy.is_same(right),
        _ => false,
    }
}

fn choose(copies: &Copies<'_>, primary: Member, expected: Expected) -> Authority {
    if expected == Expected::Absent {
        return Authority::Absence;
    }
    let sound = |copy: &&ScrubObject| own_errors(Some(copy)) == 0;
    let mut sound: Vec<(Member, &ScrubObject)> =
        copies.iter().filter_map(|(osd, copy)| Some((*osd, copy.filter(sound)?))).collect();
    let version = match expected {
        Expected::Version(version) => Some(version),
        _ => sound.iter().filter_map(|(_, copy)| copy.version()).max(),
    };
    sound.retain(|(_, copy)| copy.version() == version);
    let (cut, whole): (Vec<_>, Vec<_>) = sound.iter().partition(|(_, copy)| copy.may_be_cut);
    match cut.is_empty() || whole.is_empty() {
        true => vote(&sound, primary),
        // Copies that look truncated may outnumber the others, so the choice is only presumed.
        false => vote(&whole, primary).presumed(),
    }
}

/// The copy with which most agree; at a tie, presumably the primary's.
fn vote(sound: &[(Member, &ScrubObject)], primary: Member) -> Authority {
    let votes = |copy: &ScrubObject| sound.iter().filter(|(_, other)| other.is_same(copy)).count();
    let most = sound.iter().map(|(_, copy)| votes(copy)).max().unwrap_or(0);
    let mut best = sound.iter().filter(|(_, copy)| votes(copy) == most);
    let Some((first, copy)) = best.next() else { return Authority::Unknown };
    let mut others = best.filter(|(_, other)| !other.is_same(copy)).peekable();
    if others.peek().is_none() {
        return Authority::Copy(*first);
    }
    match others.any(|(osd, _)| *osd == primary) {
        true => Authority::Presumed(primary),
        false => Authority::Presumed(*first),
    }
}

/// The differences between any two copies whose metadata could be read.
fn differences(copies: &Copies<'_>) -> u64 {
    let all: Vec<&ScrubObject> =
        copies.values().flatten().copied().filter(|copy| !copy.stat_error).collect();
    let pairs = all
        .iter()
        .enumerate()
        .flat_map(|(index, one)| all[index + 1..].iter().map(move |other| (*one, *other)));
    pairs.fold(0, |errors, (one, other)| errors | difference(one, other))
}

fn difference(one: &ScrubObject, other: &ScrubObject) -> u64 {
    let both_differ = |a: Option<u32>, b: Option<u32>| a.zip(b).is_some_and(|(a, b)| a != b);
    let omaps_differ =
        both_differ(one.omap_digest, other.omap_digest) || one.has_omap != other.has_omap;
    [
        (one.size != other.size, object::SIZE_MISMATCH),
        (one.version() != other.version(), object::INFO_INCONSISTENCY),
        (one.attrs_digest != other.attrs_digest, object::ATTR_VALUE_MISMATCH),
        (both_differ(one.data_digest, other.data_digest), object::DATA_DIGEST_MISMATCH),
        (omaps_differ, object::OMAP_DIGEST_MISMATCH),
    ]
    .into_iter()
    .fold(0, |errors, (differs, bit)| if differs { errors | bit } else { errors })
}
