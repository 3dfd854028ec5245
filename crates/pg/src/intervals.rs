//! Intervals: times in which the members of a group stay the same (`PastIntervals`).
//!
//! Between two moments at which a group was clean, its members may change many times, and each of those
//! intervals may have accepted writes. A primary must hear from a survivor of each such interval before it
//! serves the group. An interval can have accepted writes only if it had at least `min_size` members, and if
//! the map has its primary alive in it (`up_thru`): a primary waits for that before it serves anything.
//!
//! Once the group is active, all its members have the log, and peering no longer needs earlier intervals;
//! but their participants may have objects that others still lack.
//!
//! Every copy keeps the intervals since the group was last known to be clean, so a copy's list reaches
//! at least as far back as that of any copy with a later `last_epoch_clean`.

use crate::Osds;
use crate::members::{MEMBERS_MAX, TooManyMembers};
use codec::{Decode, Encode, Reader, Result, Writer};
use std::collections::BTreeSet;
use types::{Epoch, OsdId};

const FORMAT: u8 = 1;

/// The members of a group in one interval, and the pool's settings that peering depends on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Members {
    pub up: Vec<OsdId>,
    pub acting: Vec<OsdId>,
    pub primary: Option<OsdId>,
    /// For each acting member the epoch since which it is up: a restart makes it another member.
    pub up_from: Vec<Epoch>,
    /// Copies that the pool wants.
    pub size: usize,
    /// Acting members that it takes to serve requests.
    pub min_size: usize,
    /// Number of the lowest hash bits that select the group's objects. A split or merge changes it, and so
    /// ends the interval.
    pub hash_bits: u8,
}

impl Members {
    /// Whether the OSD is in the up or the acting set.
    pub fn is_member(&self, osd: OsdId) -> bool {
        self.acting.contains(&osd) || self.up.contains(&osd)
    }

    /// Whether the acting members are enough to serve requests.
    pub fn is_enough(&self) -> bool {
        self.acting.len() >= self.min_size.max(1)
    }

    /// Whether the members are few enough to be served.
    pub(crate) fn check(&self) -> Result<(), TooManyMembers> {
        match self.all().count() {
            ..=MEMBERS_MAX => Ok(()),
            count => Err(TooManyMembers(count)),
        }
    }

    /// The acting set, then the rest of the up set.
    pub fn all(&self) -> impl Iterator<Item = OsdId> + '_ {
        let waiting = self.up.iter().filter(|osd| !self.acting.contains(osd));
        self.acting.iter().chain(waiting).copied()
    }
}

/// A past interval.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interval {
    pub first: Epoch,
    pub last: Epoch,
    pub up: Vec<OsdId>,
    pub acting: Vec<OsdId>,
    pub primary: Option<OsdId>,
    /// Set if it may have accepted writes.
    pub maybe_went_rw: bool,
    /// Set if its maps were not available, so that anything may have happened in it.
    pub is_gap: bool,
}

impl Interval {
    /// The interval of `members` from `first` to `last`; `osds` is its last map, if known.
    pub fn of(members: &Members, first: Epoch, last: Epoch, osds: Option<&Osds>) -> Self {
        let lived = |primary: OsdId| {
            osds.is_none_or(|osds| {
                let status = osds.status(primary);
                status.up_from <= first && status.up_thru >= first
            })
        };
        Interval {
            first,
            last,
            up: members.up.clone(),
            acting: members.acting.clone(),
            primary: members.primary,
            maybe_went_rw: members.is_enough() && members.primary.is_some_and(lived),
            is_gap: false,
        }
    }

    /// A time whose maps were not available.
    pub fn gap(first: Epoch, last: Epoch) -> Self {
        Interval { first, last, maybe_went_rw: true, is_gap: true, ..Interval::default() }
    }

    /// The down OSDs without which this interval's writes may be lost; none if an acting member survives.
    fn blocked_by(&self, osds: &Osds, min_size: usize) -> Vec<OsdId> {
        if !self.maybe_went_rw {
            return Vec::new();
        }
        if self.is_gap {
            return doubtful(osds, min_size, self.first);
        }
        if self.acting.iter().any(|osd| osds.is_up(*osd)) {
            return Vec::new();
        }
        let missed = self.acting.iter().copied();
        missed.filter(|osd| !osds.is_lost(*osd, self.first)).collect()
    }
}

/// The OSDs that went down in a time without known history, if they are enough to have served the group
/// alone.
fn doubtful(osds: &Osds, min_size: usize, since: Epoch) -> Vec<OsdId> {
    let down = osds.iter().filter(|(osd, status)| {
        let is_down = status.exists && !status.is_up && status.down_at >= since;
        is_down && !osds.is_lost(*osd, since)
    });
    let down: Vec<OsdId> = down.map(|(osd, _)| osd).collect();
    if down.len() >= min_size.max(1) { down } else { Vec::new() }
}

/// For a primary without a copy and without history: the down OSDs that may hold the group's data. Their
/// down stamps are ignored: clocks differ, so a stamp is no proof that the pool was created later.
pub fn may_have_unknown(osds: &Osds, members: &Members) -> Vec<OsdId> {
    doubtful(osds, members.min_size, Epoch(0))
}

/// The intervals since the group was last clean, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PastIntervals(Vec<Interval>);

impl PastIntervals {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Interval> {
        self.0.iter()
    }

    /// Adds an interval. It replaces earlier ones with the same members, because groups may flap for long.
    pub fn push(&mut self, interval: Interval) {
        self.0.retain(|known| {
            known.is_gap
                || (known.up != interval.up || known.acting != interval.acting)
                || known.maybe_went_rw != interval.maybe_went_rw
        });
        self.0.push(interval);
    }

    /// Drops intervals that ended before the group was clean.
    pub fn trim(&mut self, last_epoch_clean: Epoch) {
        self.0.retain(|interval| interval.last >= last_epoch_clean);
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The OSDs that may have a copy.
    pub fn participants(&self) -> BTreeSet<OsdId> {
        self.0
            .iter()
            .flat_map(|interval| interval.acting.iter().chain(&interval.up))
            .copied()
            .collect()
    }

    /// The OSDs that must come back, or be marked lost, before the history of writes is certain. Intervals
    /// before `last_epoch_started` are covered: each participant in that activation has their log.
    pub fn blocked_by(
        &self,
        osds: &Osds,
        min_size: usize,
        last_epoch_started: Epoch,
    ) -> BTreeSet<OsdId> {
        let matters = self.0.iter().filter(|interval| interval.last >= last_epoch_started);
        matters.flat_map(|interval| interval.blocked_by(osds, min_size)).collect()
    }
}

impl Encode for Interval {
    fn encode(&self, w: &mut Writer) {
        w.value(&self.first);
        w.value(&self.last);
        w.value(&self.up);
        w.value(&self.acting);
        w.value(&self.primary.unwrap_or(OsdId::NONE));
        w.bool(self.maybe_went_rw);
        w.bool(self.is_gap);
    }
}

impl Decode for Interval {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Interval {
            first: r.value()?,
            last: r.value()?,
            up: r.value()?,
            acting: r.value()?,
            primary: decode_primary(r)?,
            maybe_went_rw: r.bool("maybe went rw")?,
            is_gap: r.bool("is a gap")?,
        })
    }
}

fn decode_primary(r: &mut Reader<'_>) -> Result<Option<OsdId>> {
    Ok(Some(r.value()?).filter(|osd| *osd != OsdId::NONE))
}

impl Encode for PastIntervals {
    fn encode(&self, w: &mut Writer) {
        w.u8(FORMAT);
        w.value(&self.0);
    }
}

impl Decode for PastIntervals {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let at = *r;
        let format = r.u8("past intervals format")?;
        if format != FORMAT {
            return Err(at.invalid("past intervals format", format.into()));
        }
        r.value().map(PastIntervals)
    }
}

impl Encode for Members {
    fn encode(&self, w: &mut Writer) {
        w.value(&self.up);
        w.value(&self.acting);
        w.value(&self.primary.unwrap_or(OsdId::NONE));
        w.value(&self.up_from);
        w.u32(self.size as u32);
        w.u32(self.min_size as u32);
        w.u8(self.hash_bits);
    }
}

impl Decode for Members {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Members {
            up: r.value()?,
            acting: r.value()?,
            primary: decode_primary(r)?,
            up_from: r.value()?,
            size: r.u32("size")? as usize,
            min_size: r.u32("min size")? as usize,
            hash_bits: r.u8("hash bits")?,
        })
    }
}

#[cfg(test)]
mod tests {
    //! ```text
    //! interval FIRST LAST thru E : ACTING...   an interval whose primary lived at least until E
    //! gap FIRST LAST
    //! down OSD E, lost OSD E
    //! clean E
    //! blocked                                  OSDs that are waited for (min_size is 2)
    //! participants
    //! ```

    use super::*;
    use crate::OsdStatus;
    use std::collections::BTreeMap;

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
                    past.push(Interval::of(&members, first, last, Some(&osds(&then))));
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
                "blocked" => list(&past.blocked_by(&osds(&status), MIN_SIZE, Epoch(0))),
                "participants" => list(&past.participants()),
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
        play(
            "gap 5 9
             down 3 4
             down 4 6
             blocked =>
             down 5 7
             blocked => 4 5
             lost 5 12
             blocked =>",
        );
    }

    #[test]
    fn without_history_whoever_is_down_may_know_more_whatever_clocks_say() {
        let members = Members { min_size: 1, ..Members::default() };
        let down = OsdStatus { exists: true, down_at: Epoch(3), ..OsdStatus::default() };
        let osds: Osds = [(OsdId(0), down)].into_iter().collect();
        assert_eq!(may_have_unknown(&osds, &members), [OsdId(0)]);
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
}
