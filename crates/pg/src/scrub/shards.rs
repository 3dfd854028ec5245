//! Comparison of the shards of objects: which ones contradict the others.
//!
//! Attributes are the same on all shards, so versions and attributes are compared as in replicated groups.
//! Data is compared by linear digests: those of the parities follow from those of the data. With two parities
//! more than holes, one shard that contradicts the others is found; with one, it is known only that some
//! shard is wrong.

use super::compare::Expected;
use super::findings::{Authority, Finding, Shard, object, shard};
use super::map::{KnownInfo, ScrubMap, ScrubObject};
use crate::Member;
use crate::backend::erasure::geometry::Geometry;
use erasure::{Code, Digest, Shards};
use std::collections::{BTreeMap, BTreeSet};
use types::{EVersion, HObject};

type Copies<'a> = BTreeMap<Member, Option<&'a ScrubObject>>;

/// The objects whose shards are not intact, or contradict each other. `maps` has one map of each member.
pub(crate) fn compare_shards(
    (geometry, code): (Geometry, &Code),
    maps: &BTreeMap<Member, ScrubMap>,
    primary: Member,
    expected: impl Fn(&HObject) -> Expected,
) -> Vec<Finding> {
    let names: BTreeSet<&HObject> = maps.values().flat_map(|map| map.objects.keys()).collect();
    let copies = |name: &HObject| -> Copies<'_> {
        maps.iter().map(|(member, map)| (*member, map.objects.get(name))).collect()
    };
    let compare = |name: &HObject| {
        let copies = copies(name);
        let object = Object { geometry, code, copies: &copies, primary };
        object.compare(name, expected(name))
    };
    names.into_iter().filter_map(compare).collect()
}

/// One object, as all members have it.
struct Object<'a> {
    geometry: Geometry,
    code: &'a Code,
    copies: &'a Copies<'a>,
    primary: Member,
}

impl Object<'_> {
    fn compare(&self, name: &HObject, expected: Expected) -> Option<Finding> {
        let (sound, version) = self.sound(expected);
        let mut bad: BTreeMap<Member, u64> = BTreeMap::new();
        for (member, copy) in self.copies {
            let errors = match copy {
                None => shard::MISSING,
                Some(copy) => self.own_errors(*member, copy),
            };
            let is_right = match expected {
                Expected::Absent => copy.is_none(),
                _ => errors == 0 && sound.contains_key(member),
            };
            if !is_right {
                bad.insert(*member, errors);
            }
        }
        let mut errors = self.differences();
        let mut authority = match sound.keys().next() {
            _ if expected == Expected::Absent => Authority::Absence,
            Some(member) if sound.len() >= self.code.k() => Authority::Copy(*member),
            _ => Authority::Unknown,
        };
        match verify(self.code, &digests(&sound)) {
            _ if !matches!(authority, Authority::Copy(_)) => {}
            Agreement::Full => {}
            Agreement::Without(position) => {
                errors |= object::DATA_DIGEST_MISMATCH;
                let wrong = sound.keys().find(|member| at(**member) == position);
                bad.extend(wrong.map(|member| (*member, shard::EC_HASH_MISMATCH)));
                let right = sound.keys().find(|member| at(**member) != position);
                authority = right.map_or(Authority::Unknown, |member| Authority::Copy(*member));
            }
            Agreement::None => {
                errors |= object::DATA_DIGEST_MISMATCH;
                authority = self.presume(&sound, &mut bad);
            }
        }
        let is_intact = bad.is_empty() && errors == 0;
        (!is_intact).then(|| self.finding(name, errors, authority, (bad, version)))
    }

    /// The only parity of the code contradicts the data: presumably the parity is wrong. Of several, one that
    /// is left while others are lacking contradicts a wrong chunk of data just the same: nothing is known.
    fn presume(
        &self,
        sound: &BTreeMap<Member, &ScrubObject>,
        bad: &mut BTreeMap<Member, u64>,
    ) -> Authority {
        let (data, parities): (Vec<Member>, Vec<Member>) =
            sound.keys().partition(|member| at(**member) < self.code.k());
        match parities[..] {
            [parity] if self.code.m() == 1 && data.len() == self.code.k() => {
                bad.insert(parity, 0);
                Authority::Presumed(data[0])
            }
            _ => Authority::Unknown,
        }
    }

    /// The shards without errors of their own that have the expected version, or else the newest one, and of
    /// these the ones with the attributes that most have; with that version.
    fn sound(&self, expected: Expected) -> (BTreeMap<Member, &ScrubObject>, Option<EVersion>) {
        let present = self.copies.iter().filter_map(|(member, copy)| Some((*member, (*copy)?)));
        let mut sound: BTreeMap<Member, &ScrubObject> =
            present.filter(|(member, copy)| self.own_errors(*member, copy) == 0).collect();
        let version = match expected {
            Expected::Version(version) => Some(version),
            _ => sound.values().filter_map(|copy| copy.version()).max(),
        };
        sound.retain(|_, copy| copy.version() == version);
        let votes = |digest: u32| sound.values().filter(|copy| copy.attrs_digest == digest).count();
        let primary = sound.get(&self.primary).map(|copy| copy.attrs_digest);
        let digests = sound.values().map(|copy| copy.attrs_digest);
        let right = digests.max_by_key(|digest| (votes(*digest), Some(*digest) == primary));
        sound.retain(|_, copy| Some(copy.attrs_digest) == right);
        (sound, version)
    }

    /// Errors of a shard that do not depend on others.
    fn own_errors(&self, member: Member, copy: &ScrubObject) -> u64 {
        if copy.stat_error {
            return shard::STAT_ERROR;
        }
        let errors = if copy.read_error { shard::READ_ERROR } else { 0 };
        errors
            | match copy.info {
                KnownInfo::Missing => shard::INFO_MISSING,
                KnownInfo::Corrupted => shard::INFO_CORRUPTED,
                // A shard may be shorter: rows of zeros at its end need not be there.
                KnownInfo::Known { size, .. }
                    if copy.size > self.geometry.shard_len(size, at(member)) =>
                {
                    shard::EC_SIZE_MISMATCH
                }
                KnownInfo::Known { .. } => 0,
            }
    }

    /// The differences between any two shards whose metadata could be read.
    fn differences(&self) -> u64 {
        let mut all = self.copies.values().flatten().filter(|copy| !copy.stat_error);
        let Some(first) = all.next() else { return 0 };
        all.fold(0, |errors, other| {
            let versions = if first.info == other.info { 0 } else { object::INFO_INCONSISTENCY };
            let has_same = first.attrs_digest == other.attrs_digest;
            errors | versions | if has_same { 0 } else { object::ATTR_VALUE_MISMATCH }
        })
    }

    fn finding(
        &self,
        name: &HObject,
        errors: u64,
        authority: Authority,
        (bad, version): (BTreeMap<Member, u64>, Option<EVersion>),
    ) -> Finding {
        let right = match authority {
            Authority::Copy(member) | Authority::Presumed(member) => self.copies[&member],
            Authority::Absence | Authority::Unknown => None,
        };
        let user_version = match right.map(|copy| copy.info) {
            Some(KnownInfo::Known { user_version, .. }) => user_version,
            _ => 0,
        };
        assert!(right.is_none_or(|copy| copy.version() == version), "the version was chosen");
        let shard = |(member, copy): (&Member, &Option<&ScrubObject>)| {
            let errors = bad.get(member).copied().unwrap_or_default();
            (*member, Shard { object: copy.copied(), errors, is_primary: *member == self.primary })
        };
        let shards = self.copies.iter().map(shard).collect();
        let bad = match authority {
            Authority::Unknown => self.copies.keys().copied().collect(),
            _ => bad.into_keys().collect(),
        };
        Finding { name: name.clone(), errors, user_version, shards, authority, bad }
    }
}

/// How digests of shards agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Agreement {
    /// They belong together, or are too few to contradict each other.
    Full,
    /// All but this one belong together.
    Without(usize),
    /// They contradict each other, and it is not known which are wrong.
    None,
}

fn at(member: Member) -> usize {
    member.shard.position().expect("a member has a shard")
}

/// Digests by position, of the shards whose data was read.
fn digests(sound: &BTreeMap<Member, &ScrubObject>) -> BTreeMap<usize, Digest> {
    let digest = |(member, copy): (&Member, &&ScrubObject)| Some((at(*member), copy.shard_digest?));
    sound.iter().filter_map(digest).collect()
}

/// Compares the digests of those shards that are there.
fn verify(code: &Code, digests: &BTreeMap<usize, Digest>) -> Agreement {
    let all: Shards = digests.keys().copied().collect();
    let is_consistent = |doubted: Shards| {
        let rest = all.without(doubted);
        let trusted: Shards = rest.iter().take(code.k()).collect();
        follow(code, digests, trusted, rest.without(trusted))
    };
    if all.len() <= code.k() || is_consistent(Shards::default()) {
        return Agreement::Full;
    }
    if all.len() < code.k() + 2 {
        return Agreement::None;
    }
    let doubted = all.iter().find(|shard| is_consistent([*shard].into_iter().collect()));
    doubted.map_or(Agreement::None, Agreement::Without)
}

/// Whether the digests of `compared` follow from those of k `trusted` shards.
fn follow(
    code: &Code,
    digests: &BTreeMap<usize, Digest>,
    trusted: Shards,
    compared: Shards,
) -> bool {
    let decoder = code.decoder(trusted, compared).expect("k shards are trusted");
    let sources: Vec<&[u8]> = trusted.iter().map(|shard| &digests[&shard].0[..]).collect();
    let mut computed = vec![Digest([0; 64]); compared.len()];
    let mut outputs: Vec<&mut [u8]> = computed.iter_mut().map(|out| &mut out.0[..]).collect();
    decoder.decode(&sources, &mut outputs);
    compared.iter().zip(computed).all(|(shard, computed)| digests[&shard] == computed)
}
