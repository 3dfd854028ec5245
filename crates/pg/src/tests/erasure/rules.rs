//! The rules of peering as tables.

use crate::backend::{Backend, TookPart, may_have_unknown};
use crate::choice::Infos;
use crate::{
    ErasureCode, ErasureLayout, Interval, Layout, Member, Members, OsdStatus, Osds, PgInfo,
};
use std::collections::BTreeMap;
use types::{EVersion, Epoch, HObject, OsdId, ShardId};

fn layout(data: u8, parity: u8) -> ErasureLayout {
    ErasureLayout { data, parity, unit: 4096, code: ErasureCode::IsaVandermonde }
}

fn backend(data: u8, parity: u8) -> Backend {
    Backend::of(Layout::Erasure(layout(data, parity))).unwrap()
}

/// OSDs by position; `-` is a hole.
fn osds(text: &str) -> Vec<OsdId> {
    let osd = |word: &str| word.parse().map_or(OsdId::NONE, OsdId);
    text.split_whitespace().map(osd).collect()
}

fn members(up: &str, acting: &str, min_size: usize) -> Members {
    let (up, acting) = (osds(up), osds(acting));
    let size = up.len();
    let layout = Layout::Erasure(layout(2, 1));
    Members { up, acting, size, min_size, layout, ..Members::default() }
}

#[test]
fn service_needs_min_size_and_enough_shards_and_holes_do_not_count() {
    for (acting, min_size, expected) in
        [("0 1 2", 2, true), ("0 - 2", 2, true), ("0 - 2", 3, false), ("- - 2", 1, false)]
    {
        let members = members("0 1 2", acting, min_size);
        assert_eq!(backend(2, 1).can_serve(&members), expected, "{acting} {min_size}");
    }
}

#[test]
fn an_object_takes_shards_of_different_positions() {
    let holder = |osd, position| Member { osd: OsdId(osd), shard: ShardId::at(position).unwrap() };
    let backend = backend(2, 1);
    assert!(backend.can_restore([holder(0, 0), holder(1, 2)].into_iter()));
    assert!(!backend.can_restore([holder(0, 0), holder(1, 0)].into_iter()));
    assert!(!backend.can_restore([holder(0, 0)].into_iter()));
}

/// The state of each acting member: `h` its copy is here, `n` it was not activated, `d` down, `l` lost,
/// `e` up with an empty disk.
fn blockers(backend: Backend, acting: &str) -> String {
    let first = Epoch(10);
    let status = |word: &str| OsdStatus {
        exists: true,
        is_up: !matches!(word, "d" | "l"),
        down_at: Epoch(12),
        lost_at: Epoch(if word == "l" { 13 } else { 0 }),
        ..OsdStatus::default()
    };
    let words: Vec<&str> = acting.split_whitespace().collect();
    let osds: Osds = (0..).map(OsdId).zip(words.iter().map(|word| status(word))).collect();
    let acting = (0..).map(OsdId).zip(&words);
    let acting = acting.map(|(osd, word)| if *word == "-" { OsdId::NONE } else { osd }).collect();
    let interval =
        Interval { first, last: Epoch(11), acting, maybe_went_rw: true, ..Interval::default() };
    let took_part = |member: Member| match words[member.osd.0 as usize] {
        "h" => TookPart::MayHave,
        "n" => TookPart::No,
        _ => TookPart::IsGone,
    };
    let blocking = backend.blocked_by(&interval, &osds, took_part);
    blocking.iter().map(|osd| osd.0.to_string()).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_written_interval_needs_the_copies_of_enough_positions() {
    for (backend, acting, expected) in [
        (backend(2, 1), "h h d", ""),
        (backend(2, 1), "h d d", "1 2"),
        (backend(2, 1), "h - d", "2"),
        (backend(2, 1), "h e d", "2"), // an OSD without its copy does not help
        (backend(2, 1), "h l d", "2"),
        (backend(2, 1), "h l l", ""),
        (backend(2, 1), "n d d", ""), // it was not activated
        (backend(4, 2), "h h h h d d", ""),
        (backend(4, 2), "h h h d d l", "3 4"),
    ] {
        assert_eq!(blockers(backend, acting), expected, "{acting}");
    }
}

/// `min_size` may have been lower then: as many members as there are data shards may have served.
#[test]
fn after_a_gap_no_osd_that_went_down_since_can_be_spared() {
    let gap = Interval::gap(Epoch(10), Epoch(20));
    let status =
        |is_up| OsdStatus { exists: true, is_up, down_at: Epoch(12), ..OsdStatus::default() };
    for down in 0..3 {
        let osds: Osds = (0..8).map(|osd| (OsdId(osd), status(osd >= down))).collect();
        let blocking = backend(4, 2).blocked_by(&gap, &osds, |_| TookPart::IsGone);
        assert_eq!(blocking.len(), down as usize);
        assert_eq!(may_have_unknown(&osds), blocking);
    }
}

/// Copies as `osd(position) version`, with `partial` for an incomplete one, and `new` for one that took part
/// in no activation.
fn infos(text: &str) -> BTreeMap<Member, PgInfo> {
    let one = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (osd, position) = words[0].trim_end_matches(')').split_once('(').unwrap();
        let shard = ShardId::at(position.parse().unwrap()).unwrap();
        let mut info = PgInfo {
            last_epoch_started: Epoch(7),
            last_update: EVersion::new(7, words[1].parse().unwrap()),
            log_tail: EVersion::new(7, 3),
            ..PgInfo::default()
        };
        match words.get(2) {
            Some(&"partial") => info.last_backfill = HObject::default(),
            Some(&"new") => info.last_epoch_started = Epoch(0),
            _ => {}
        }
        (Member { osd: OsdId(osd.parse().unwrap()), shard }, info)
    };
    text.split(',').map(one).collect()
}

#[test]
fn each_position_has_its_osd_of_the_up_set_or_another_one_with_that_shard_or_a_hole() {
    for (copies, up, acting, wanted, backfill) in [
        ("0(0) 9, 1(1) 9, 2(2) 9", "0 1 2", "0 1 2", "0 1 2", ""),
        ("0(0) 9, 1(1) 2, 2(2) 9", "0 1 2", "0 1 2", "0 - 2", "1"),
        ("0(0) 9, 1(1) 9 partial, 2(2) 9", "0 1 2", "0 1 2", "0 - 2", "1"),
        // The acting one serves until the OSD of the up set is backfilled, then a stray.
        ("0(0) 9, 2(2) 9, 3(1) 9, 4(1) 9", "0 1 2", "0 4 2", "0 4 2", "1"),
        ("0(0) 9, 2(2) 9, 3(1) 9", "0 1 2", "0 1 2", "0 3 2", "1"),
        ("0(0) 9, 2(2) 9, 3(1) 2, 4(1) 9 partial", "0 1 2", "0 1 2", "0 - 2", "1"),
        ("0(0) 9, 1(1) 3 new, 2(2) 9, 3(1) 9", "0 1 2", "0 1 2", "0 3 2", "1"),
        ("0(0) 9, 1(1) 3 new, 2(2) 9", "0 1 2", "0 1 2", "0 1 2", ""),
        ("0(0) 9, 2(2) 9, 3(1) 9", "0 - 2", "0 - 2", "0 3 2", ""),
        ("3(0) 9, 1(1) 9, 2(2) 9", "0 1 2", "0 1 2", "3 1 2", "0"),
        // An OSD takes part with one shard, unless the others are not enough.
        ("0(0) 9, 2(2) 9, 2(1) 9", "0 1 2", "0 1 2", "0 - 2", "1"),
        ("2(2) 9, 2(1) 9", "0 1 2", "0 1 2", "- 2 2", "0 1"),
        // A rule may find fewer OSDs than there are shards.
        ("0(0) 9, 1(1) 2, 3(2) 9", "0 1", "0 1", "0 - 3", "1"),
        ("0(0) 9, 1(1) 9", "0 1", "0 1", "0 1", ""),
        // The same OSDs at other positions serve at their old ones until they are backfilled.
        ("0(0) 9, 1(1) 9, 2(2) 9", "1 0 2", "0 1 2", "0 1 2", "1 0"),
        ("0(0) 9, 1(1) 9, 2(2) 9, 1(0) 9, 0(1) 9", "1 0 2", "0 1 2", "1 0 2", ""),
    ] {
        let infos = infos(copies);
        let infos: Infos<'_> = infos.iter().map(|(member, info)| (*member, info)).collect();
        let members = members(up, acting, 2);
        let best = *infos.keys().find(|member| infos[member].last_update.version == 9).unwrap();
        let choice = backend(2, 1).choose_acting(best, &infos, &members);
        assert_eq!(choice.acting, osds(wanted), "{copies}");
        let backfill_of = choice.backfill.iter().map(|member| member.osd).collect::<Vec<_>>();
        assert_eq!(backfill_of, osds(backfill), "{copies}");
    }
}
