//! What a seed decides at the start: the cluster, its load, and which faults it meets.
//!
//! Every seed leaves out some kinds of faults and exaggerates others, because rare combinations
//! drown when everything happens all the time.

use crate::stores::{self, StoreKind};
use crate::workload::Reach;
use engine::Duration;
use stdx::Prng;
use types::OsdId;

/// One seed of so many runs over `msgr` sessions, which is slower.
const WIRED_ONE_IN: u64 = 4;
/// One seed of so many has objects of many blocks.
const FAR_ONE_IN: u64 = 4;
/// One seed of so many has devices that are full soon.
const TIGHT_ONE_IN: u64 = 16;
/// Large requests follow each other slowly.
const THINK_WHEN_TIGHT_US: u64 = 100_000;
/// One seed of so many, of those in which it can, ends with damaged data.
const ROT_ONE_IN: u64 = 3;
/// One seed of so many has a single kind of fault.
const ONE_KIND_ONE_IN: u64 = 4;
/// A group remembers the requests of its last thousand writes. Who is cut off for longer than those
/// take, and sends a request again, is not recognised, in Ceph neither; so while clients may be
/// cut off for long, all together must not write faster.
const THINK_WITH_PARTITIONS_US: u64 = 60_000;

#[derive(Debug, Clone)]
pub struct Scenario {
    pub seed: u64,
    pub osds: usize,
    pub clients: usize,
    pub size: u8,
    pub min_size: u8,
    pub pg_num: u32,
    pub objects: usize,
    pub reach: Reach,
    /// Devices are so small that there is not always room.
    pub is_tight: bool,
    /// Sessions of `msgr` over streams of bytes.
    pub is_wired: bool,
    pub uses_cephx: bool,
    pub prefers_secure: bool,
    /// How long requests are made and faults happen.
    pub duration: Duration,
    /// Between requests of one client, on average.
    pub think_us: u64,
    pub in_flight_max: usize,
    pub delay_us: (u64, u64),
    /// One for each OSD.
    pub stores: Vec<StoreKind>,
    /// Whose device loses data in the end.
    pub rotten: Option<OsdId>,
    pub faults: FaultMix,
}

/// How often each kind of fault is drawn, relative to the others; most seeds leave some out.
#[derive(Debug, Clone, Default)]
pub struct FaultMix {
    /// Between faults, on average; zero: none at all.
    pub interval_ms: u64,
    pub crash_osd: u64,
    pub crash_monitor: u64,
    pub crash_all: u64,
    pub crash_client: u64,
    pub cut: u64,
    pub partition: u64,
    pub storm: u64,
    pub clock_jump: u64,
    pub create_pool: u64,
    /// A crashed process is away for up to this long.
    pub away_ms_max: u64,
}

impl Scenario {
    pub fn draw(seed: u64) -> Self {
        let mut prng = Prng::new(seed);
        let p = &mut prng;
        let osds = *p.choose(&[1, 2, 3, 3, 3, 3, 4, 5]);
        let size = (1 + p.below(3)).max(p.below(4)).min(osds as u64) as u8;
        let min_size = if size > 1 && p.chance(2, 3) { size / 2 + 1 } else { 1 };
        let uses_cephx = p.chance(1, 2);
        let delay_max = *p.choose(&[200, 1_000, 5_000, 30_000]);
        let commit_max = *p.choose(&[300, 5_000, 40_000]);
        let clients = 1 + p.below(4) as usize;
        let think_us = *p.choose(&[10_000, 40_000, 150_000]);
        let faults = FaultMix::draw(p);
        // A copy that is behind on a full device cannot catch up before something is deleted.
        let is_tight = p.chance(1, TIGHT_ONE_IN) && size == 1;
        let is_slow = faults.partition > 0 || faults.storm > 0;
        let think_min = if is_slow { clients as u64 * THINK_WITH_PARTITIONS_US } else { 0 };
        let think_min = if is_tight { think_min.max(THINK_WHEN_TIGHT_US) } else { think_min };
        let commit_us = (20 + p.below(200), commit_max);
        let stores = stores::draw(&mut p.fork(), osds, commit_us, is_tight);
        let rotten = draw_rotten(p, &stores);
        Scenario {
            seed,
            osds,
            clients,
            size,
            min_size,
            pg_num: 1 << p.below(4),
            objects: 2 + p.below(7) as usize,
            reach: draw_reach(p, is_tight),
            is_tight,
            is_wired: p.chance(1, WIRED_ONE_IN),
            uses_cephx,
            prefers_secure: p.chance(1, 3),
            duration: Duration::from_secs(20 + p.below(60)),
            think_us: think_us.max(think_min),
            in_flight_max: *p.choose(&[1, 2, 4, 8]),
            delay_us: (20 + p.below(100), delay_max),
            stores,
            rotten,
            faults,
        }
    }
}

fn draw_reach(p: &mut Prng, is_tight: bool) -> Reach {
    match p.chance(1, FAR_ONE_IN) {
        _ if is_tight => Reach::WIDE,
        true => Reach::FAR,
        false => Reach::NEAR,
    }
}

/// An OSD whose data lies apart from everything else.
fn draw_rotten(p: &mut Prng, stores: &[StoreKind]) -> Option<OsdId> {
    let ids = (0..).map(OsdId).zip(stores);
    let can_rot: Vec<OsdId> = ids.filter(|(_, kind)| kind.can_rot()).map(|(id, _)| id).collect();
    (!can_rot.is_empty() && p.chance(1, ROT_ONE_IN)).then(|| *p.choose(&can_rot))
}

impl FaultMix {
    fn draw(p: &mut Prng) -> Self {
        let mut weight = |weight: u64| if p.chance(1, 2) { weight } else { 0 };
        let mix = FaultMix {
            interval_ms: 0,
            crash_osd: weight(10),
            crash_monitor: weight(3),
            crash_all: weight(3),
            crash_client: weight(2),
            cut: weight(10),
            partition: weight(4),
            storm: weight(2),
            clock_jump: weight(1),
            create_pool: weight(1),
            away_ms_max: 0,
        };
        let mix = if p.chance(1, ONE_KIND_ONE_IN) { FaultMix::of_one_kind(p) } else { mix };
        FaultMix {
            interval_ms: *p.choose(&[0, 500, 2_000, 2_000, 8_000, 8_000, 20_000]),
            away_ms_max: *p.choose(&[200, 3_000, 3_000, 40_000]),
            ..mix
        }
    }

    fn of_one_kind(p: &mut Prng) -> Self {
        let none = FaultMix::default();
        match p.below(5) {
            0 => FaultMix { crash_osd: 1, ..none },
            1 => FaultMix { crash_all: 1, ..none },
            2 => FaultMix { cut: 1, ..none },
            3 => FaultMix { crash_osd: 1, clock_jump: 1, ..none },
            _ => FaultMix { partition: 1, ..none },
        }
    }

    pub fn weights(&self) -> [u64; 9] {
        [
            self.crash_osd,
            self.crash_monitor,
            self.crash_all,
            self.crash_client,
            self.cut,
            self.partition,
            self.storm,
            self.clock_jump,
            self.create_pool,
        ]
    }
}
