//! The state of a group in the terms of reports: bits, and copies that are short.

use pg::{BackfillState, Pg, State};
use types::UTime;
use wire::internal::pg_state;

/// State of one group according to the last report.
#[derive(Debug, Default)]
pub(crate) struct GroupReport {
    /// Number of unfound objects.
    pub(super) unfound: u64,
    /// The state bits, and since when.
    pub(super) reported: (u64, UTime),
}

impl GroupReport {
    /// When the state of the group last changed, as far as reports showed it.
    pub fn since(&self) -> UTime {
        self.reported.1
    }
}

/// Copies of objects that do not exist (degraded), and those that are on other OSDs than they
/// should be (misplaced).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Shortage {
    pub degraded: u64,
    pub misplaced: u64,
}

/// Degraded and misplaced copies of a group.
pub(crate) fn shortage(pg: &Pg) -> Shortage {
    let (members, objects) = (pg.members(), pg.info().objects);
    let missing = pg.objects_missing() as u64;
    let absent = members.size.saturating_sub(members.acting_members().count()) as u64;
    // A backfill target lacks about the share of objects that remains of the hash range.
    let to_come = pg.backfill_targets().map(|(_, done)| remaining(objects, done)).sum::<u64>();
    // Copies up to the number of lacking acting members do not exist anywhere.
    let new = to_come.min(absent * objects);
    let degraded = missing + if to_come > 0 { new } else { absent * objects };
    Shortage { degraded, misplaced: to_come - new }
}

fn remaining(objects: u64, done: &types::HObject) -> u64 {
    let left = u64::from(u32::MAX) - u64::from(done.reversed_hash());
    if done.max { 0 } else { ((u128::from(objects) * u128::from(left)) >> 32) as u64 }
}

/// The OSDs for which the group waits: those that must come up again, or else those that have not answered.
pub(crate) fn blocked_by(pg: &Pg) -> Vec<types::OsdId> {
    let down: Vec<types::OsdId> = pg.blocked_by().collect();
    match down.is_empty() && !pg.is_serving() {
        true => pg.waiting_for().collect(),
        false => down,
    }
}

/// The state of a group as bits of `pg_state`, without scrub and snapshot trimming.
pub(crate) fn state_bits(pg: &Pg) -> u64 {
    use pg_state::*;
    let members = pg.members();
    let short = members.acting_members().count() < members.size;
    let remapped = members.acting != members.up;
    let mut bits = if short { UNDERSIZED } else { 0 };
    bits |= if remapped { REMAPPED } else { 0 };
    bits |= if shortage(pg).degraded > 0 { DEGRADED } else { 0 };
    bits | match pg.state() {
        State::Active if pg.is_clean() => ACTIVE | CLEAN,
        State::Active => ACTIVE | work_bits(pg),
        State::Inactive => PEERED | work_bits(pg),
        State::Activating => ACTIVATING,
        State::WaitReadable => ACTIVATING | WAIT,
        State::Down => DOWN,
        State::Incomplete => INCOMPLETE,
        State::Refused | State::Stalled => PEERED | RECOVERY_TOOFULL,
        State::Failed => DOWN,
        State::SplitMerge if pg.is_split_merge_toofull() => PEERING | RECOVERY_TOOFULL,
        _ => PEERING,
    }
}

/// State bits of the recovery and backfill of an active group.
fn work_bits(pg: &Pg) -> u64 {
    use pg_state::*;
    let backfill = match pg.backfill_state() {
        None => 0,
        Some(BackfillState::Waiting) => BACKFILL_WAIT,
        Some(BackfillState::Running) => BACKFILLING,
        Some(BackfillState::TooFull) => BACKFILL_WAIT | BACKFILL_TOOFULL,
    };
    let unfound = if pg.has_unfound() { RECOVERY_UNFOUND } else { 0 };
    let recovery = match () {
        () if pg.objects_missing() == 0 => 0,
        () if pg.is_recovery_toofull() => RECOVERY_TOOFULL,
        () if pg.recovering() > 0 => RECOVERING,
        () => RECOVERY_WAIT,
    };
    backfill | unfound | recovery
}
