//! State of scrubs: of the whole OSD, of one group, and of a running round.

use crate::env::{Env, Stage};
use crate::premerge::Premerge;
use crate::tokens::ScrubTag;
use engine::{Duration, Time};
use pg::scrub::{
    Count, Finding, Level, OmapTotals, Order, ReplicaScan, Round, SnapFinding, Stamps,
};
use pg::{Member, Pg};
use std::collections::{BTreeMap, BTreeSet};
use store::RequestKind;
use types::{EVersion, Epoch, HObject, PgShard, UTime};

/// How often the schedule is checked, if no event causes it earlier.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// The schedule is checked so long after groups became active.
const GATHER: Duration = Duration::from_secs(1);

/// Scrubs of the whole OSD.
#[derive(Debug, Default)]
pub(crate) struct Scrubs {
    /// When to look for a group that is due.
    pub(super) due: Option<Time>,
    /// Groups that are scrubbed here as primary.
    pub(super) own: BTreeSet<PgShard>,
    /// Groups with a reservation by their primary, and the interval of each.
    pub(super) helped: BTreeMap<PgShard, Epoch>,
    pub(super) rounds: u64,
    pub(super) findings: u64,
}

/// Scrubs of one group.
#[derive(Debug, Default)]
pub(crate) struct GroupScrub {
    /// `None` until read from the store.
    pub(super) stamps: Option<Stamps>,
    pub(super) is_loading: bool,
    /// When the group was first seen here.
    pub(super) since: Option<UTime>,
    /// An order of an administrator that waits for the stamps to be loaded; then the group keeps it.
    pub(super) order: Option<Order>,
    /// Earliest start, after a round that was aborted.
    pub(super) not_before: Option<Time>,
    pub(super) running: Option<Box<Running>>,
    /// Reads of this copy that wait until the store shows all changes up to a version.
    pub(super) unsettled: Vec<(EVersion, ScrubTag, RequestKind)>,
    pub(super) member: ReplicaScan,
    pub(super) member_of: Option<(Member, Epoch)>,
    /// Repaired objects that must be checked again.
    pub(super) repaired: BTreeMap<HObject, Level>,
    /// Objects that were repaired from good copies, after scrubs or failed reads.
    pub(super) repairs: u64,
    /// Inconsistencies that the last scrub in this interval found.
    pub(super) findings: BTreeMap<HObject, Finding>,
    pub(super) snap_findings: BTreeMap<HObject, SnapFinding>,
    /// The interval of the findings.
    pub(super) findings_of: Option<Epoch>,
}

/// A round whose primary this OSD is.
#[derive(Debug)]
pub(super) struct Running {
    pub round: Round,
    pub serial: u64,
    pub(super) interval: Epoch,
    pub(super) order: Option<Order>,
    /// Repaired objects to check again; if there are any, the round covers nothing else.
    pub recheck: BTreeMap<HObject, Level>,
    pub(super) count: Count,
    pub(super) omaps: OmapTotals,
    pub heard: Time,
}

impl Scrubs {
    /// When to look for a group that is due.
    pub fn due(&self) -> Option<Time> {
        self.due
    }

    /// Number of groups that are scrubbed here as primary.
    pub fn own_count(&self) -> usize {
        self.own.len()
    }

    /// Number of reservations by primaries.
    pub fn helped_count(&self) -> usize {
        self.helped.len()
    }

    /// Number of inconsistent objects that scrubs of this OSD as primary found since it started.
    pub fn findings(&self) -> u64 {
        self.findings
    }

    /// Checks the schedule soon, because a group became active.
    pub fn hurry(&mut self, now: Time) {
        let soon = now + GATHER;
        self.due = Some(self.due.map_or(soon, |due| due.min(soon)));
    }

    /// Ends the reservations of intervals that are over. `interval_of` says which one a group is in.
    pub fn end_old_help(&mut self, interval_of: impl Fn(PgShard) -> Option<Epoch>) {
        self.helped.retain(|pg, interval| interval_of(*pg) == Some(*interval));
    }

    /// Whether to look for groups that are due; if so, the look begins.
    pub fn begin_look(&mut self, env: &Env) -> bool {
        if env.stage != Stage::Up {
            // Groups that become active cause the next check.
            self.due = None;
            return false;
        }
        let is_due = self.due.is_some_and(|due| due <= env.now);
        if is_due {
            self.due = Some(env.now + LOOK_INTERVAL);
        }
        is_due
    }

    /// Whether `osd_max_scrubs` allows one more scrub of this OSD as primary.
    pub fn has_place(&self, env: &Env) -> bool {
        self.own.len() < env.options.max_scrubs.max(1)
    }

    /// Panics unless the groups with a round, among these, are known, each round with its own number.
    pub fn check_invariants<'a>(&self, groups: impl Iterator<Item = (&'a Pg, &'a GroupScrub)>) {
        let mut serials = BTreeSet::new();
        for (pg, scrub) in groups {
            let Some(running) = &scrub.running else { continue };
            assert!(self.own.contains(&pg.pg_shard()), "{}: its round is known", pg.id());
            assert!(running.serial <= self.rounds && serials.insert(running.serial));
            assert!(
                running.interval <= pg.interval(),
                "a round begins in an interval of its group"
            );
        }
    }

    /// Ends a look: the next one is due when a pause of one of the groups is over, at the latest.
    pub fn end_look<'a>(
        &mut self,
        now: Time,
        groups: impl Iterator<Item = (&'a Pg, &'a GroupScrub)>,
    ) {
        let resting = groups.filter_map(|(_, scrub)| scrub.not_before);
        let first = resting.filter(|not_before| *not_before > now).min();
        self.due = self.due.into_iter().chain(first).min();
    }
}

/// The parts of a group that scrubs touch.
pub(crate) struct Scrubbed<'a> {
    /// The instance of the group, for completions of the store.
    pub serial: u64,
    pub pg: &'a mut Pg,
    pub scrub: &'a mut GroupScrub,
    pub premerge: &'a mut Premerge,
}

impl GroupScrub {
    /// The stamps of the last scrubs; `None` until read from the store.
    pub fn stamps(&self) -> Option<Stamps> {
        self.stamps
    }

    /// Objects that were repaired from good copies, after scrubs or failed reads.
    pub fn repairs(&self) -> u64 {
        self.repairs
    }

    /// Counts an object that is repaired after a failed read.
    pub fn count_repair(&mut self) {
        self.repairs += 1;
    }

    /// Forgets reads that wait: the interval is over.
    pub fn forget_reads(&mut self) {
        self.unsettled.clear();
    }

    /// Forgets the order of an administrator: this OSD is not the primary any more.
    pub fn forget_order(&mut self) {
        self.order = None;
    }

    /// Whether a round is running, or repaired objects wait to be checked again.
    pub fn is_busy(&self) -> bool {
        self.running.is_some() || !self.repaired.is_empty()
    }

    /// Whether an order has not been performed.
    pub fn is_ordered(&self, pg: &Pg) -> bool {
        self.order.is_some() || self.wanted(pg).is_some()
    }

    /// State bits of the group's scrubs.
    pub fn state_bits(&self) -> u64 {
        use wire::internal::pg_state::{DEEP_SCRUB, INCONSISTENT, REPAIR, SCRUBBING};
        let running = self.running.as_ref().map_or(0, |running| {
            let deep = if running.level() == Level::Deep { DEEP_SCRUB } else { 0 };
            SCRUBBING | deep | if running.may_repair() { REPAIR } else { 0 }
        });
        let errors = self.stamps.map_or(0, |stamps| stamps.errors.total());
        running | if errors > 0 { INCONSISTENT } else { 0 }
    }
}

impl Running {
    pub fn level(&self) -> Level {
        self.round.level()
    }

    /// The round only checks repaired objects again.
    pub fn is_recheck(&self) -> bool {
        !self.recheck.is_empty()
    }

    /// Whether an administrator ordered a repair.
    pub fn may_repair(&self) -> bool {
        self.order.is_some_and(|order| order.repair)
    }
}
