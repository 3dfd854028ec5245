//! Copies, and the outcome of their comparison. A copy is `-` if it is missing, else words: `v3` its
//! version, `s10` its size, `i10` the size in its info if that differs, `a`, `d`, `o` and a letter its
//! attributes, data and omap, `info!`, `noinfo`, `read!`, `stat!` its errors, `cut?` that it looks truncated.

use super::rounds::member;
use crate::Member;
use crate::scrub::*;
use std::collections::BTreeMap;
use types::{EVersion, HObject, PoolId};

fn version(text: &str) -> EVersion {
    EVersion::new(1, text.parse().unwrap())
}

fn copy(words: &str) -> Option<ScrubObject> {
    if words.trim() == "-" {
        return None;
    }
    let mut copy = ScrubObject { stat_error: false, ..ScrubObject::unreadable() };
    let (mut at, mut info_size, mut state) = (EVersion::new(1, 1), None, None);
    for word in words.split_whitespace() {
        let (first, rest) = word.split_at(1);
        match (word, first) {
            ("info!", _) => state = Some(KnownInfo::Corrupted),
            ("noinfo", _) => state = Some(KnownInfo::Missing),
            ("read!", _) => copy.read_error = true,
            ("stat!", _) => copy.stat_error = true,
            ("cut?", _) => copy.may_be_cut = true,
            (_, "v") => at = version(rest),
            (_, "s") => copy.size = rest.parse().unwrap(),
            (_, "i") => info_size = Some(rest.parse().unwrap()),
            (_, "a") => copy.attrs_digest = u32::from(rest.as_bytes()[0]),
            (_, "d") => copy.data_digest = Some(rest.as_bytes()[0].into()),
            (_, "o") => (copy.omap_digest, copy.has_omap) = (Some(rest.as_bytes()[0].into()), true),
            _ => panic!("what is {word}?"),
        }
    }
    let size = info_size.unwrap_or(copy.size);
    copy.info = state.unwrap_or(KnownInfo::Known { version: at, user_version: at.version, size });
    Some(copy)
}

fn findings(copies: &str, expected: Expected) -> Vec<Finding> {
    let name = HObject::head(PoolId(1), "".into(), "".into(), "x".into(), 7);
    let map = |words: &str| ScrubMap {
        objects: copy(words).map(|copy| (name.clone(), copy)).into_iter().collect(),
        ..ScrubMap::default()
    };
    let maps: BTreeMap<Member, ScrubMap> =
        (0..).map(member).zip(copies.split('|').map(map)).collect();
    compare(&maps, member(0), |_| expected)
}

/// Checks copies of OSD 0 (the primary) and on: the authoritative one, the bad ones, and the errors.
fn check(copies: &str, expected: Expected, right: &str, bad: &[i32], errors: u64) {
    let found = findings(copies, expected);
    let [finding] = &found[..] else { panic!("{copies}: {found:?}") };
    let authority = match finding.authority {
        Authority::Copy(osd) => format!("osd.{osd}"),
        Authority::Presumed(osd) => format!("perhaps osd.{osd}"),
        Authority::Absence => "nothing".into(),
        Authority::Unknown => "nobody".into(),
    };
    assert_eq!(authority, right, "{copies}");
    let bad: Vec<Member> = bad.iter().copied().map(member).collect();
    assert_eq!(finding.bad, bad, "{copies}");
    assert_eq!(finding.errors, errors, "{copies}");
}

const UNKNOWN: Expected = Expected::Unknown;

#[test]
fn equal_copies_are_no_finding() {
    assert!(findings("v3 s10 aA dA | v3 s10 aA dA", UNKNOWN).is_empty());
    assert!(findings("v3 s10", UNKNOWN).is_empty());
    assert!(findings("- | -", UNKNOWN).is_empty());
}

#[test]
fn a_copy_that_cannot_be_read_is_replaced_by_one_that_can() {
    check("v3 s9 read! | v3 s9 dA", UNKNOWN, "osd.1", &[0], 0);
    check("v3 s9 dA | v3 s9 dA | v3 s9 read!", UNKNOWN, "osd.0", &[2], 0);
    check("v3 s9 dA | stat!", UNKNOWN, "osd.0", &[1], 0);
    check("v3 s9 read! | v3 s9 read!", UNKNOWN, "nobody", &[0, 1], 0);
}

#[test]
fn a_copy_that_contradicts_its_own_info_is_wrong() {
    check("v3 s9 i10 | v3 s10", UNKNOWN, "osd.1", &[0], object::SIZE_MISMATCH);
    check("v3 s9 info! | v3 s9", UNKNOWN, "osd.1", &[0], object::INFO_INCONSISTENCY);
    check("v3 s9 noinfo | v3 s9", UNKNOWN, "osd.1", &[0], object::INFO_INCONSISTENCY);
}

#[test]
fn the_log_tells_which_version_is_right_and_else_the_newest_is() {
    let different = object::INFO_INCONSISTENCY;
    check("v3 s9 | v4 s9", UNKNOWN, "osd.1", &[0], different);
    check("v3 s9 | v3 s9 | v4 s9", UNKNOWN, "osd.2", &[0, 1], different);
    check("v3 s9 | v4 s9", Expected::Version(version("3")), "osd.0", &[1], different);
    check("v3 s9 | v3 s9 | -", Expected::Absent, "nothing", &[0, 1], 0);
    check("v3 s9 | v3 s9 read!", Expected::Version(version("4")), "nobody", &[0, 1], 0);
}

#[test]
fn a_missing_copy_is_made_again() {
    check("- | v3 s9 | v3 s9", UNKNOWN, "osd.1", &[0], 0);
    check("- | v3 s9", UNKNOWN, "osd.1", &[0], 0);
}

#[test]
fn of_intact_copies_of_one_version_most_are_right_or_nobody_knows() {
    let data = object::DATA_DIGEST_MISMATCH;
    check("v3 s9 dA | v3 s9 dB | v3 s9 dB", UNKNOWN, "osd.1", &[0], data);
    check("v3 s9 dA | v3 s9 dB", UNKNOWN, "perhaps osd.0", &[1], data);
    check("v3 s9 dA | v3 s9 dB | v3 s9 dC", UNKNOWN, "perhaps osd.0", &[1, 2], data);
    check(
        "v3 read! | v3 s9 dA | v3 s9 dB",
        UNKNOWN,
        "perhaps osd.1",
        &[0, 2],
        object::SIZE_MISMATCH | data,
    );
    check("v3 oA | v3 oB | v3 oA", UNKNOWN, "osd.0", &[1], object::OMAP_DIGEST_MISMATCH);
    check("v3 oA | v3 | v3 oA", UNKNOWN, "osd.0", &[1], object::OMAP_DIGEST_MISMATCH);
    check("v3 aA | v3 aB | v3 aB", UNKNOWN, "osd.1", &[0], object::ATTR_VALUE_MISMATCH);
}

#[test]
fn what_may_be_a_part_does_not_outvote_what_may_be_the_whole() {
    let data = object::DATA_DIGEST_MISMATCH;
    check("v3 s9 dA cut? | v3 s9 dB", UNKNOWN, "perhaps osd.1", &[0], data);
    check("v3 s9 dA cut? | v3 s9 dA cut? | v3 s9 dB", UNKNOWN, "perhaps osd.2", &[0, 1], data);
    check("v3 s9 dB | v3 s9 dA cut? | v3 s9 dC cut?", UNKNOWN, "perhaps osd.0", &[1, 2], data);
    check("v3 s9 dA cut? | v3 s9 dB cut?", UNKNOWN, "perhaps osd.0", &[1], data);
    check("v3 cut? | v3 oA", UNKNOWN, "perhaps osd.1", &[0], object::OMAP_DIGEST_MISMATCH);
    // Another version, or damage, decides.
    check("v4 s9 dA cut? | v3 s9 dB", UNKNOWN, "osd.0", &[1], object::INFO_INCONSISTENCY | data);
    check("v3 s9 dA cut? | v3 s9 read!", UNKNOWN, "osd.0", &[1], 0);
    assert!(findings("v3 s10 dA cut? | v3 s10 dA", UNKNOWN).is_empty(), "the same content");
}

#[test]
fn errors_are_counted_as_clients_count_them() {
    let count = |copies| findings(copies, UNKNOWN)[0].count();
    assert_eq!(count("v3 s9 read! | v3 s9 dA"), Count { shallow: 0, deep: 1 });
    assert_eq!(count("v3 s9 dA | v3 s9 dB"), Count { shallow: 0, deep: 1 });
    assert_eq!(count("- | v3 s9 | -"), Count { shallow: 2, deep: 0 });
    assert_eq!(count("v3 aA | v3 aB | v3 aB"), Count { shallow: 1, deep: 0 });
}
