//! Kinds of faults of a seed with their weights, and which OSDs they concern.

use crate::fault::Kind;
use stdx::Prng;
use types::OsdId;

/// One in so many seeds has a single kind of fault.
const ONE_KIND_ONE_IN: u64 = 4;
/// One in so many seeds with faults has splits and merges.
const DIVIDES_ONE_IN: u64 = 2;
const DIVIDES: u64 = 0x6469_7669_6465;
/// One in so many seeds with faults has a failing disk, and monitors that lose the control store alone.
const TROUBLES_ONE_IN: u64 = 3;
const TROUBLES: u64 = 0x7472_6f75_626c;
/// One in so many seeds with faults has scrubs during the load.
const SCRUBS_ONE_IN: u64 = 3;
/// One in so many seeds with faults that allow it removes an OSD during the load; another one has rotting
/// data.
const REMOVAL_ONE_IN: u64 = 3;
const ROTTING_ONE_IN: u64 = 2;
/// One in so many seeds with faults and spare OSDs starts these early.
const JOINING_ONE_IN: u64 = 2;
const UPKEEP: u64 = 0x7570_6b65_6570;

/// Weight of each kind of fault; most seeds leave some out.
#[derive(Debug, Clone, Default)]
pub struct FaultMix {
    /// Mean time between faults; zero: no faults.
    pub interval_ms: u64,
    /// Kinds with their weights; none: no faults are drawn.
    pub weights: Vec<(Kind, u64)>,
    /// Longest time for which a crashed process is away.
    pub away_ms_max: u64,
}

/// The OSDs that are removed, and whose data rots, while faults happen.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    /// The OSD that is removed.
    pub removed: Option<OsdId>,
    /// The OSD whose data rots.
    pub rotting: Option<OsdId>,
}

/// Kinds of faults with their weights.
const KINDS: [(Kind, u64); 18] = [
    (Kind::CrashOsd, 10),
    (Kind::CrashMonitor, 3),
    (Kind::CrashAll, 3),
    (Kind::CrashClient, 2),
    (Kind::CrashHost, 4),
    (Kind::Vanish, 2),
    (Kind::Cut, 10),
    (Kind::Partition, 4),
    (Kind::OneWay, 3),
    (Kind::Flap, 2),
    (Kind::Storm, 2),
    (Kind::WeakLink, 4),
    (Kind::Pause, 4),
    (Kind::ClockJump, 1),
    (Kind::StoreDown, 3),
    (Kind::CreatePool, 1),
    (Kind::Churn, 6),
    (Kind::AddOsd, 1),
];

/// Sets of faults that some seeds have alone.
const ALONE: [&[Kind]; 10] = [
    &[Kind::CrashOsd],
    &[Kind::CrashAll],
    &[Kind::CrashMonitor, Kind::StoreDown],
    &[Kind::Cut],
    &[Kind::CrashOsd, Kind::ClockJump],
    &[Kind::Partition],
    &[Kind::CrashHost, Kind::AddOsd],
    &[Kind::Pause, Kind::WeakLink],
    &[Kind::OneWay, Kind::Flap],
    &[Kind::Churn, Kind::AddOsd],
];

impl FaultMix {
    pub(crate) fn draw(p: &mut Prng) -> Self {
        let kinds = KINDS.iter().filter(|_| p.chance(1, 2)).copied();
        let mut weights: Vec<(Kind, u64)> = kinds.collect();
        if p.chance(1, ONE_KIND_ONE_IN) {
            weights = p.choose(&ALONE).iter().map(|kind| (*kind, 1)).collect();
        }
        FaultMix {
            interval_ms: *p.choose(&[0, 500, 2_000, 2_000, 8_000, 8_000, 20_000]),
            weights,
            away_ms_max: *p.choose(&[200, 3_000, 3_000, 40_000]),
        }
    }

    /// Adds faults of metadata servers and of clients of the file system, if there are others.
    pub(crate) fn add_file_system(&mut self) {
        const SHARES: [(Kind, u64); 3] =
            [(Kind::CrashServer, 2), (Kind::CrashFileClient, 5), (Kind::HaltFiles, 3)];
        let total: u64 = self.weights.iter().map(|(_, weight)| weight).sum();
        if total > 0 {
            self.weights.extend(SHARES.map(|(kind, share)| (kind, 1 + total / share)));
        }
    }

    /// Drawn from a generator of its own, so that other draws are not affected.
    pub(crate) fn with_divisions(mut self, seed: u64) -> Self {
        let mut prng = Prng::new(seed ^ DIVIDES);
        if prng.chance(1, DIVIDES_ONE_IN) && !self.weights.is_empty() {
            let total: u64 = self.weights.iter().map(|(_, weight)| weight).sum();
            self.weights.push((Kind::DivideGroups, 1 + total / *prng.choose(&[1, 4, 10])));
        }
        self
    }

    /// Drawn from a generator of its own. Returns the OSD whose disk fails.
    pub(crate) fn add_troubles(&mut self, seed: u64, osds: usize) -> Option<OsdId> {
        let mut prng = Prng::new(seed ^ TROUBLES);
        if !prng.chance(1, TROUBLES_ONE_IN) || self.weights.is_empty() {
            return None;
        }
        let total: u64 = self.weights.iter().map(|(_, weight)| weight).sum();
        for kind in [Kind::CutStore, Kind::FailDisk] {
            self.weights.push((kind, 1 + total / *prng.choose(&[1, 4, 10])));
        }
        Some(OsdId(prng.below(osds as u64) as i32))
    }

    /// Drawn from a generator of its own. Scrubs run; an OSD that can be removed is; one whose data can rot
    /// does; spare OSDs join more often.
    pub(crate) fn add_upkeep(
        &mut self,
        seed: u64,
        can_go: Vec<OsdId>,
        can_rot: Vec<OsdId>,
        spares: usize,
    ) -> Upkeep {
        let mut prng = Prng::new(seed ^ UPKEEP);
        let p = &mut prng;
        let mut upkeep = Upkeep::default();
        if self.weights.is_empty() {
            return upkeep;
        }
        let total: u64 = self.weights.iter().map(|(_, weight)| weight).sum();
        let mut add = |p: &mut Prng, kind, one_in| {
            let is_drawn = p.chance(1, one_in);
            if is_drawn {
                self.weights.push((kind, 1 + total / *p.choose(&[1, 4, 10])));
            }
            is_drawn
        };
        add(p, Kind::OrderScrub, SCRUBS_ONE_IN);
        if !can_rot.is_empty() && add(p, Kind::Rot, ROTTING_ONE_IN) {
            upkeep.rotting = Some(*p.choose(&can_rot));
        }
        let can_go: Vec<OsdId> =
            can_go.into_iter().filter(|osd| Some(*osd) != upkeep.rotting).collect();
        if !can_go.is_empty() && add(p, Kind::RemoveOsd, REMOVAL_ONE_IN) {
            upkeep.removed = Some(*p.choose(&can_go));
        }
        if spares > 0 {
            add(p, Kind::AddOsd, JOINING_ONE_IN);
        }
        upkeep
    }

    /// Clients that share an image die more often.
    pub(crate) fn with_sharers(mut self, sharers: u64) -> Self {
        if sharers > 0 && !self.weights.is_empty() {
            let total: u64 = self.weights.iter().map(|(_, weight)| weight).sum();
            self.weights.push((Kind::CrashClient, 1 + total / 4));
            self.weights.push((Kind::Partition, 1 + total / 8));
        }
        self
    }

    pub(crate) fn is_slow(&self) -> bool {
        self.weights.iter().any(|(kind, _)| kind.is_slow())
    }

    /// Draws a kind by the weights.
    pub fn draw_kind(&self, p: &mut Prng) -> Option<Kind> {
        let total = self.weights.iter().map(|(_, weight)| weight).sum();
        let mut left = if total > 0 { p.below(total) } else { 0 };
        for (kind, weight) in &self.weights {
            if left < *weight {
                return Some(*kind);
            }
            left -= weight;
        }
        None
    }
}
