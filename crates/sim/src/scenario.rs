//! Scenario drawn from a seed: the cluster, its load, and the faults.
//!
//! Every seed leaves out some kinds of faults and exaggerates others, because rare combinations do not
//! occur when everything happens all the time.

use crate::control_trials::ControlTrials;
use crate::faults::Kind;
use crate::stall::Stall;
use crate::stores::{self, StoreKind};
use crate::trials::{Circumstances, Trials};
use crate::workload::Reach;
use engine::Duration;
use stdx::Prng;
use types::OsdId;

/// One in so many seeds runs over `msgr` sessions, which is slower.
const WIRED_ONE_IN: u64 = 4;
/// One in so many seeds has objects of many blocks.
const FAR_ONE_IN: u64 = 4;
/// One in so many seeds has devices that fill up soon.
const TIGHT_ONE_IN: u64 = 16;
/// Think time in microseconds with large requests.
const THINK_WHEN_TIGHT_US: u64 = 100_000;
/// One in so many seeds that allow it ends with damaged data.
const ROT_ONE_IN: u64 = 3;
/// One in so many seeds has an image. No random number is drawn for it, so that other seeds are not
/// affected.
const IMAGE_ONE_IN: u64 = 4;
const IMAGE_REST: u64 = 2;
/// One in so many seeds has up to so many OSDs.
const LARGE_ONE_IN: u64 = 12;
const OSDS_MAX: u64 = 50;
/// One in so many seeds that allow it ends with the removal of an OSD.
const LEAVE_ONE_IN: u64 = 4;
/// One in so many seeds has snapshots.
const SNAPSHOTS_ONE_IN: u64 = 2;
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
/// A group remembers the request ids of its last four thousand writes. A request resent after more writes
/// than that is executed again, as in Ceph; so while clients may be cut off for long, all together must
/// write slowly enough.
const THINK_WITH_PARTITIONS_US: u64 = 60_000;

#[derive(Debug, Clone)]
pub struct Scenario {
    pub seed: u64,
    /// Monitors at the start.
    pub monitors: usize,
    pub osds: usize,
    /// OSDs that join later.
    pub spares: usize,
    /// Number of hosts over which OSDs are spread.
    pub hosts: usize,
    pub clients: usize,
    pub size: u8,
    pub min_size: u8,
    pub pg_num: u32,
    pub objects: usize,
    pub reach: Reach,
    /// Devices are so small that space runs out.
    pub is_tight: bool,
    /// Sessions of `msgr` over byte streams.
    pub is_wired: bool,
    pub uses_cephx: bool,
    pub prefers_secure: bool,
    /// Duration of load and faults.
    pub duration: Duration,
    /// Mean time between requests of one client, in microseconds.
    pub think_us: u64,
    pub in_flight_max: usize,
    pub delay_us: (u64, u64),
    /// Largest difference between clocks.
    pub skew_ms_max: u64,
    /// Store of each OSD.
    pub stores: Vec<StoreKind>,
    /// A client uses an image.
    pub has_image: bool,
    /// Number of clients that share the image; zero: one client uses it alone.
    pub image_sharers: u64,
    /// The OSD whose device is many times slower than the others.
    pub lame: Option<OsdId>,
    /// The OSD whose device loses data in the end.
    pub rotten: Option<OsdId>,
    /// The OSD whose device loses data while faults happen.
    pub rotting: Option<OsdId>,
    /// The OSD whose disk misreads while faults happen; all disks may die.
    pub troubled: Option<OsdId>,
    /// The OSD whose disk dies in the end, and is replaced.
    pub replaced: Option<OsdId>,
    /// The OSD that is removed in the end.
    pub leaver: Option<OsdId>,
    /// The OSD that is removed while faults happen.
    pub removed: Option<OsdId>,
    pub has_snapshots: bool,
    pub trials: Trials,
    pub control: ControlTrials,
    /// The stall at the end of the run.
    pub stall: Option<Stall>,
    pub faults: FaultMix,
}

/// Weight of each kind of fault; most seeds leave some out.
#[derive(Debug, Clone, Default)]
pub struct FaultMix {
    /// Mean time between faults; zero: no faults.
    pub interval_ms: u64,
    pub weights: Vec<(Kind, u64)>,
    /// Longest time for which a crashed process is away.
    pub away_ms_max: u64,
}

/// The OSDs that are removed, and whose data rots, while faults happen.
#[derive(Debug, Default)]
struct Upkeep {
    removed: Option<OsdId>,
    rotting: Option<OsdId>,
}

/// Pieces of the largest object of clients, also for a slow device; and the smallest piece of an image's
/// objects.
const PIECES_MAX: u64 = 100;
const PIECES_MAX_LAME: u64 = 10;
const IMAGE_PIECE_MIN: u64 = 4_096;

impl Scenario {
    pub fn draw(seed: u64) -> Self {
        let mut prng = Prng::new(seed);
        let p = &mut prng;
        let is_large = p.chance(1, LARGE_ONE_IN);
        let osds = match is_large {
            true => 6 + p.below(OSDS_MAX - 5) as usize,
            false => *p.choose(&[1, 2, 3, 3, 3, 3, 4, 5]),
        };
        let hosts = 1 + p.below(osds as u64) as usize;
        let size = (1 + p.below(3)).max(p.below(4)).min(osds as u64) as u8;
        let min_size = if size > 1 && p.chance(2, 3) { size / 2 + 1 } else { 1 };
        let uses_cephx = p.chance(1, 2);
        let delay_max = *p.choose(&[200, 1_000, 5_000, 30_000]);
        let commit_max = *p.choose(&[300, 5_000, 40_000]);
        let clients = 1 + p.below(4) as usize;
        let think_us = *p.choose(&[10_000, 40_000, 150_000]);
        let sharers = image_sharers(seed);
        let mut faults = FaultMix::draw(p).with_divisions(seed).with_sharers(sharers);
        let is_tight = p.chance(1, TIGHT_ONE_IN);
        let spares = if p.chance(1, 4) && !is_tight { 1 + p.below(2) as usize } else { 0 };
        let troubled = if is_tight { None } else { faults.add_troubles(seed, osds) };
        let think_min =
            if faults.is_slow() { clients as u64 * THINK_WITH_PARTITIONS_US } else { 0 };
        let think_min = if is_tight { think_min.max(THINK_WHEN_TIGHT_US) } else { think_min };
        let commit_us = (20 + p.below(200), commit_max);
        let (stores, lame) = stores::draw(&mut p.fork(), osds + spares, commit_us, is_tight);
        let rotten = draw_rotten(p, &stores);
        let can_leave = osds.min(hosts) > size.into() && rotten.is_none() && !is_tight;
        let leaver =
            (can_leave && p.chance(1, LEAVE_ONE_IN)).then(|| OsdId(p.below(osds as u64) as i32));
        // Data that only one OSD has must not rot, nor be on a disk that is replaced.
        let is_sound = min_size > 1 && troubled.is_none() && !is_tight;
        let can_rot = match rotten {
            _ if !is_sound => Vec::new(),
            Some(osd) => vec![osd],
            None => rottable(&stores[..osds]),
        };
        let places = if hosts > size.into() { hosts } else { osds };
        let has_spare_place = places > usize::from(size) + usize::from(leaver.is_some());
        let stay = [leaver, rotten, troubled].into_iter().flatten();
        let stay: Vec<OsdId> = stay.collect();
        let can_go = (0..osds as i32).map(OsdId).filter(|osd| !stay.contains(osd));
        let can_go = if has_spare_place && !is_tight { can_go.collect() } else { Vec::new() };
        let Upkeep { removed, rotting } = faults.add_upkeep(seed, can_go, can_rot, spares);
        // The user of an image tolerates no error. A dead disk causes none where it has no data alone; such
        // seeds have no misreads.
        let has_image = seed % IMAGE_ONE_IN == IMAGE_REST
            && !is_tight
            && rotten.or(rotting).is_none()
            && (troubled.is_none() || min_size > 1);
        let seconds = if is_large { 15 + p.below(15) } else { 20 + p.below(60) };
        let mut scenario = Scenario {
            seed,
            monitors: *p.choose(&[1, 1, 2, 3, 3]),
            osds,
            spares,
            hosts,
            clients,
            size,
            min_size,
            pg_num: if is_large { 8 << p.below(4) } else { 1 << p.below(4) },
            objects: 2 + p.below(if is_large { 40 } else { 7 }) as usize,
            reach: draw_reach(p, is_tight),
            is_tight,
            is_wired: p.chance(1, WIRED_ONE_IN),
            uses_cephx,
            prefers_secure: p.chance(1, 3),
            duration: Duration::from_secs(seconds),
            think_us: think_us.max(think_min),
            in_flight_max: *p.choose(&[1, 2, 4, 8]),
            delay_us: (20 + p.below(100), delay_max),
            skew_ms_max: *p.choose(&[0, 300, 60_000]),
            stores,
            has_image,
            image_sharers: sharers,
            lame,
            rotten,
            rotting,
            troubled,
            // Groups must serve without the replaced disk.
            replaced: troubled.filter(|_| seed.is_multiple_of(2) && size > min_size),
            leaver,
            removed,
            // A clone takes space that its removal frees too late.
            has_snapshots: p.chance(1, SNAPSHOTS_ONE_IN) && !is_tight,
            trials: Trials::default(),
            control: ControlTrials::default(),
            stall: None,
            faults,
        };
        scenario.draw_trials();
        scenario
    }

    fn draw_trials(&mut self) {
        let circumstances = Circumstances {
            has_image: self.has_image,
            is_tight: self.is_tight,
            may_lose_data: self.may_lose_data(),
            has_snapshots: self.has_snapshots,
        };
        self.trials = Trials::draw(self.seed, &mut self.faults, circumstances);
        if self.trials.has_pieces {
            self.reach = self.reach.in_pieces();
            // A slow device takes two seconds per piece; the seed must not time out.
            let longest = self.reach.offset_max + self.reach.long_max;
            let pieces_max = if self.lame.is_some() { PIECES_MAX_LAME } else { PIECES_MAX };
            let least = if self.has_image { IMAGE_PIECE_MIN } else { longest / pieces_max };
            let sizes = &mut self.trials.sizes;
            sizes.groups.piece_data_max = sizes.groups.piece_data_max.max(least);
            sizes.copy_chunk_max = sizes.copy_chunk_max.max(least);
            if self.lame.is_some() {
                sizes.groups.piece_omap_entries_max = sizes.groups.piece_omap_entries_max.max(5);
            }
        }
        // A restored control store excludes later changes, and ends with checks of the history alone.
        let goes = self.leaver.or(self.removed).is_some();
        let fails_disks = self.troubled.or(self.rotting).is_some() || self.trials.fails_reads;
        let can_restore = !self.has_image && !self.is_tight && !goes && !fails_disks;
        self.control = ControlTrials::draw(self.seed, &mut self.faults, can_restore);
        let can_stall = !self.is_tight && self.control.restore.is_none();
        self.stall = Stall::draw(self.seed, can_stall);
    }

    /// Special traits of the seed besides its drawn faults.
    pub fn traits(&self) -> impl Iterator<Item = &'static str> {
        let all = [
            ("several monitors", self.monitors > 1),
            ("6 to 50 OSDs", self.osds > 5),
            ("sessions of msgr", self.is_wired),
            ("clocks differ", self.skew_ms_max > 0),
            ("a lame device", self.lame.is_some()),
            ("full devices", self.is_tight),
            ("an image", self.has_image && self.image_sharers == 0),
            ("a shared image", self.has_image && self.image_sharers > 0),
            ("snapshots", self.has_snapshots),
            ("a disk replaced in the end", self.replaced.is_some()),
            ("an OSD leaves in the end", self.leaver.is_some()),
            ("rot in the end", self.rotten.is_some()),
            ("something stands still in the end", self.stall.is_some()),
        ];
        let all = all.into_iter().chain(self.trials.traits()).chain(self.control.traits());
        all.filter(|(_, is_so)| *is_so).map(|(name, _)| name)
    }

    /// The OSD whose disk misreads.
    pub fn misreader(&self) -> Option<OsdId> {
        self.troubled.filter(|_| !self.has_image)
    }

    /// True if any device may lose data, with or without an error.
    pub fn may_lose_data(&self) -> bool {
        self.rotten.or(self.rotting).or(self.troubled).is_some() || self.trials.fails_reads
    }

    /// True if clients may receive ENOSPC.
    pub fn may_lack_room(&self) -> bool {
        self.is_tight || self.trials.fills
    }

    /// Bucket type over which the copies of a group are spread.
    pub fn failure_domain(&self) -> &'static str {
        if self.hosts > self.size.into() { "host" } else { "osd" }
    }
}

fn image_sharers(seed: u64) -> u64 {
    match seed % IMAGE_ONE_IN {
        IMAGE_REST => [0, 2, 0, 3][(seed / IMAGE_ONE_IN % 4) as usize],
        _ => 0,
    }
}

fn draw_reach(p: &mut Prng, is_tight: bool) -> Reach {
    match p.chance(1, FAR_ONE_IN) {
        _ if is_tight => Reach::WIDE,
        true => Reach::FAR,
        false => Reach::NEAR,
    }
}

/// Draws an OSD whose data lies on a device of its own.
fn draw_rotten(p: &mut Prng, stores: &[StoreKind]) -> Option<OsdId> {
    let can_rot = rottable(stores);
    (!can_rot.is_empty() && p.chance(1, ROT_ONE_IN)).then(|| *p.choose(&can_rot))
}

fn rottable(stores: &[StoreKind]) -> Vec<OsdId> {
    let ids = (0..).map(OsdId).zip(stores);
    ids.filter(|(_, kind)| kind.can_rot()).map(|(id, _)| id).collect()
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
    fn draw(p: &mut Prng) -> Self {
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

    /// Drawn from a generator of its own, so that other draws are not affected.
    fn with_divisions(mut self, seed: u64) -> Self {
        let mut prng = Prng::new(seed ^ DIVIDES);
        if prng.chance(1, DIVIDES_ONE_IN) && !self.weights.is_empty() {
            let total: u64 = self.weights.iter().map(|(_, weight)| weight).sum();
            self.weights.push((Kind::DivideGroups, 1 + total / *prng.choose(&[1, 4, 10])));
        }
        self
    }

    /// Drawn from a generator of its own. Returns the OSD whose disk fails.
    fn add_troubles(&mut self, seed: u64, osds: usize) -> Option<OsdId> {
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
    fn add_upkeep(
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
    fn with_sharers(mut self, sharers: u64) -> Self {
        if sharers > 0 && !self.weights.is_empty() {
            let total: u64 = self.weights.iter().map(|(_, weight)| weight).sum();
            self.weights.push((Kind::CrashClient, 1 + total / 4));
            self.weights.push((Kind::Partition, 1 + total / 8));
        }
        self
    }

    fn is_slow(&self) -> bool {
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
