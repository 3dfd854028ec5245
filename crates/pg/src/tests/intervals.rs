//! Past intervals, and the OSDs without which their writes may be lost.
//!
//! ```text
//! interval FIRST LAST thru E : ACTING...   an interval whose primary lived at least until E
//! gap FIRST LAST
//! down OSD E, lost OSD E
//! clean E
//! blocked                                  OSDs that are waited for
//! participants
//! ```

use crate::backend::{self, Backend, TookPart};
use crate::{Interval, Layout, Members, OsdStatus, Osds, PastIntervals};
use std::collections::{BTreeMap, BTreeSet};
use types::{Epoch, OsdId};

const MIN_SIZE: usize = 2;

fn osds(all: &BTreeMap<OsdId, OsdStatus>) -> Osds {
    all.iter().map(|(osd, status)| (*osd, *status)).collect()
}

fn list(osds: &BTreeSet<OsdId>) -> String {
    osds.iter().map(|osd| osd.0.to_string()).collect::<Vec<_>>().join(" ")
}

fn play(script: &str) {
    let mut past = PastIntervals::default();
    let up = OsdStatus { exists: true, is_up: true, ..OsdStatus::default() };
    let mut status: BTreeMap<OsdId, OsdStatus> = (0..6).map(|id| (OsdId(id), up)).collect();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (command, expected) = line.split_once("=>").unwrap_or((line, ""));
        let words: Vec<&str> = command.split_whitespace().collect();
        let number = |index: usize| words[index].parse::<u32>().unwrap();
        let output = match words[0] {
            "interval" => {
                let acting: Vec<OsdId> =
                    words[6..].iter().map(|word| OsdId(word.parse().unwrap())).collect();
                let members = Members {
                    up: acting.clone(),
                    primary: acting.first().copied(),
                    acting,
                    min_size: MIN_SIZE,
                    ..Members::default()
                };
                let mut then = status.clone();
                then.values_mut().for_each(|status| status.up_thru = Epoch(number(4)));
                let (first, last) = (Epoch(number(1)), Epoch(number(2)));
                let may_serve = Backend::Replicated.can_serve(&members);
                past.push(Interval::of(&members, first, last, Some(&osds(&then)), may_serve));
                String::new()
            }
            "gap" => {
                past.push(Interval::gap(Epoch(number(1)), Epoch(number(2))));
                String::new()
            }
            "down" | "lost" => {
                let status = status.get_mut(&OsdId(number(1) as i32)).unwrap();
                status.is_up = false;
                match words[0] {
                    "down" => status.down_at = Epoch(number(2)),
                    _ => status.lost_at = Epoch(number(2)),
                }
                String::new()
            }
            "clean" => {
                past.trim(Epoch(number(1)));
                String::new()
            }
            "blocked" => {
                let osds = osds(&status);
                let all = past.since(Epoch(0));
                let blocking =
                    |one| Backend::Replicated.blocked_by(one, &osds, |_| TookPart::IsGone);
                list(&all.flat_map(blocking).collect())
            }
            "participants" => {
                let all = past.participants(Layout::Replicated);
                list(&all.into_iter().map(|member| member.osd).collect())
            }
            other => panic!("no such command: {other}"),
        };
        assert_eq!(output, expected.trim(), "after `{command}`");
        let bytes = codec::encode_to_bytes(&past);
        assert_eq!(codec::decode_all::<PastIntervals>("intervals", &bytes).unwrap(), past);
    }
}

#[test]
fn one_survivor_of_each_interval_is_enough() {
    play(
        "interval 2 5 thru 3 : 0 1
         interval 6 9 thru 7 : 1 2
         down 1 10
         blocked =>
         down 2 11
         blocked => 1 2
         lost 2 12
         blocked => 1
         lost 1 12
         blocked =>",
    );
}

#[test]
fn an_interval_whose_primary_never_proved_to_live_was_not_written_to() {
    play(
        "interval 2 5 thru 1 : 0 1
         down 0 6
         down 1 6
         blocked =>
         participants => 0 1",
    );
}

#[test]
fn an_interval_with_too_few_members_was_not_written_to() {
    play(
        "interval 2 5 thru 3 : 0
         down 0 6
         blocked =>",
    );
}

#[test]
fn what_was_over_before_the_group_was_clean_does_not_matter() {
    play(
        "interval 2 5 thru 3 : 0 1
         interval 6 9 thru 7 : 2 3
         down 0 10
         down 1 10
         blocked => 0 1
         clean 6
         blocked =>
         participants => 2 3",
    );
}

#[test]
fn of_a_time_without_maps_anyone_may_have_been_active_who_went_down_since() {
    // One is enough: `min_size` may have been lower then.
    play(
        "gap 5 9
         down 3 4
         blocked =>
         down 4 6
         blocked => 4
         down 5 7
         blocked => 4 5
         lost 5 12
         blocked => 4
         lost 4 12
         blocked =>",
    );
}

#[test]
fn without_history_whoever_is_down_may_know_more_whatever_clocks_say() {
    let down = OsdStatus { exists: true, down_at: Epoch(3), ..OsdStatus::default() };
    let osds: Osds = [(OsdId(0), down)].into_iter().collect();
    assert_eq!(backend::may_have_unknown(&osds), [OsdId(0)]);
}

#[test]
fn an_osd_that_never_was_up_is_not_waited_for() {
    let unborn = OsdStatus { exists: true, ..OsdStatus::default() };
    let osds: Osds = [(OsdId(0), unborn)].into_iter().collect();
    assert_eq!(backend::may_have_unknown(&osds), []);
}

/// The monitor marks an OSD lost as of the epoch in which it went down, here the first one of the gap.
#[test]
fn an_osd_that_went_down_as_a_gap_began_can_be_declared_lost() {
    play(
        "gap 5 9
         down 3 5
         blocked => 3
         lost 3 5
         blocked =>",
    );
}

#[test]
fn intervals_that_say_the_same_are_kept_once() {
    play(
        "interval 2 3 thru 2 : 0 1
         interval 4 5 thru 4 : 0 2
         interval 6 7 thru 6 : 0 1
         interval 8 9 thru 8 : 0 2
         participants => 0 1 2",
    );
}
