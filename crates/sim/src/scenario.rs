//! Scenario drawn from a seed: the cluster, its load, and the faults.
//!
//! Every seed leaves out some kinds of faults and exaggerates others, because rare combinations do not
//! occur when everything happens all the time.

use crate::control_trials::ControlTrials;
use crate::erasure::{self, ErasureShape};
use crate::fault::Kind;
use crate::fault_mix::{FaultMix, Upkeep};
use crate::files::{self, FileSystem};
use crate::names::{BESIDE, POOL, POOL_ID};
use crate::process::{ImagePlace, ORDER_DEFAULT};
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
/// A group remembers the request ids of its last four thousand writes. A request resent after more writes
/// than that is executed again, as in Ceph; so while clients may be cut off for long, all together must
/// write slowly enough.
const THINK_WITH_PARTITIONS_US: u64 = 60_000;

/// One in so many seeds with an erasure-coded pool has OSDs that are declared lost; others have shards whose
/// logs cannot be read.
const LOSSES_ONE_IN: u64 = 4;
const LOSSES: u64 = 0x6c6f_7373_6573;

/// Bytes of the stripes of which objects may have many.
const MANY_STRIPES_OF_MAX: u64 = 32 << 10;
/// Sizes of the objects of an image in an erasure-coded pool.
const IMAGE_ORDERS_MORE: u64 = 5;
const IMAGE_PLACES: u64 = 0x696d_6167_6573;

/// Everything that a seed decides before the run.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Decides all that follows, and the run.
    pub seed: u64,
    /// Daemons and clients.
    pub cluster: ClusterShape,
    /// Sessions, delays and clocks.
    pub network: NetworkShape,
    /// Requests of clients.
    pub load: LoadShape,
    /// Stores and devices of OSDs.
    pub disks: DiskShape,
    /// Special conditions.
    pub trials: Trials,
    /// The file system, if there is one.
    pub file_system: Option<FileSystem>,
    /// Faults of the control store.
    pub control: ControlTrials,
    /// The stall at the end of the run.
    pub stall: Option<Stall>,
    /// Faults during the load.
    pub faults: FaultMix,
}

/// Daemons, clients, and how data is spread.
#[derive(Debug, Clone, Default)]
pub struct ClusterShape {
    /// Monitors at the start.
    pub monitors: usize,
    /// OSDs at the start.
    pub osds: usize,
    /// OSDs that join later.
    pub spares: usize,
    /// Number of hosts over which OSDs are spread.
    pub hosts: usize,
    /// Clients that use single objects.
    pub clients: usize,
    /// Copies of an object.
    pub size: u8,
    /// Copies with which a group serves requests.
    pub min_size: u8,
    /// The pool that clients use is erasure-coded. `size` and `min_size` are then those of the replicated
    /// pool that tolerates as much.
    pub erasure: Option<ErasureShape>,
    /// Groups of the pool at the start.
    pub pg_num: u32,
    /// Clients authenticate with keys.
    pub uses_cephx: bool,
    /// Clients ask for encrypted sessions.
    pub prefers_secure: bool,
    /// The OSD that is removed in the end.
    pub leaver: Option<OsdId>,
    /// The OSD that is removed while faults happen.
    pub removed: Option<OsdId>,
}

/// Sessions, delays and clocks.
#[derive(Debug, Clone, Default)]
pub struct NetworkShape {
    /// Sessions of `msgr` over byte streams.
    pub is_wired: bool,
    /// Delays without faults, from and to.
    pub delay_us: (u64, u64),
    /// Largest difference between clocks.
    pub skew_ms_max: u64,
}

/// Requests of clients.
#[derive(Debug, Clone, Default)]
pub struct LoadShape {
    /// Objects that clients share.
    pub objects: usize,
    /// Sizes and places of writes.
    pub reach: Reach,
    /// Duration of load and faults.
    pub duration: Duration,
    /// Mean time between requests of one client, in microseconds.
    pub think_us: u64,
    /// Requests that one client has in flight at most.
    pub in_flight_max: usize,
    /// A client uses an image.
    pub has_image: bool,
    /// Number of clients that share the image; zero: one client uses it alone.
    pub image_sharers: u64,
    /// Clients take and remove snapshots.
    pub has_snapshots: bool,
}

/// Stores of OSDs, and what happens to their devices.
#[derive(Debug, Clone, Default)]
pub struct DiskShape {
    /// Store of each OSD.
    pub stores: Vec<StoreKind>,
    /// Devices are so small that space runs out.
    pub is_tight: bool,
    /// The OSD whose device is many times slower than the others.
    pub slow: Option<OsdId>,
    /// The OSD whose device loses data in the end.
    pub rotten: Option<OsdId>,
    /// The OSD whose device loses data while faults happen.
    pub rotting: Option<OsdId>,
    /// The OSD whose disk misreads while faults happen; all disks may die.
    pub troubled: Option<OsdId>,
    /// The OSD whose disk dies in the end, and is replaced.
    pub replaced: Option<OsdId>,
}

impl Scenario {
    /// Draws everything, without erasure-coded pools.
    pub fn draw(seed: u64) -> Self {
        Scenario::draw_with(seed, 0)
    }

    /// Draws the file system, for so many percent of the seeds. They lose no data and have room.
    #[must_use]
    pub fn with_file_system(mut self, percent: u64) -> Self {
        let is_lossy = self.may_lose_data() || self.disks.is_tight || self.trials.fills;
        self.file_system = files::draw(self.seed, percent).filter(|_| !is_lossy);
        if self.file_system.is_some() {
            self.faults.add_file_system();
        }
        self
    }

    /// Draws everything; `erasure` percent of the seeds have an erasure-coded pool. The order of the draws
    /// decides what they draw.
    pub fn draw_with(seed: u64, erasure: u64) -> Self {
        let mut prng = Prng::new(seed);
        let p = &mut prng;
        let is_large = p.chance(1, LARGE_ONE_IN);
        let mut cluster = ClusterShape::draw(p, is_large);
        if let Some(drawn) = erasure::draw(seed, erasure) {
            cluster.make_erasure(drawn);
        }
        let mut scenario = Scenario::of(seed, cluster);
        let delay_max = *p.choose(&[200, 1_000, 5_000, 30_000]);
        let commit_max = *p.choose(&[300, 5_000, 40_000]);
        scenario.cluster.clients = 1 + p.below(4) as usize;
        scenario.load.think_us = *p.choose(&[10_000, 40_000, 150_000]);
        let sharers = image_sharers(seed);
        scenario.load.image_sharers = sharers;
        scenario.faults = FaultMix::draw(p).with_divisions(seed).with_sharers(sharers);
        scenario.draw_disks(p, commit_max);
        scenario.draw_departures(p);
        scenario.draw_load(p, is_large);
        scenario.network.delay_us = (20 + p.below(100), delay_max);
        scenario.network.skew_ms_max = *p.choose(&[0, 300, 60_000]);
        // A clone takes space that its removal frees too late.
        scenario.load.has_snapshots = p.chance(1, SNAPSHOTS_ONE_IN) && !scenario.disks.is_tight;
        scenario.draw_trials();
        scenario.adapt_to_shards();
        scenario
    }

    /// A scenario of which nothing but the cluster is drawn.
    fn of(seed: u64, cluster: ClusterShape) -> Self {
        Scenario {
            seed,
            cluster,
            network: NetworkShape::default(),
            load: LoadShape::default(),
            disks: DiskShape::default(),
            trials: Trials::default(),
            file_system: None,
            control: ControlTrials::default(),
            stall: None,
            faults: FaultMix::default(),
        }
    }

    /// Draws stores, OSDs that join later, and which disks fail.
    fn draw_disks(&mut self, p: &mut Prng, commit_max: u64) {
        let is_tight = p.chance(1, TIGHT_ONE_IN);
        let spares = if p.chance(1, 4) && !is_tight { 1 + p.below(2) as usize } else { 0 };
        let osds = self.cluster.osds;
        let troubled = if is_tight { None } else { self.faults.add_troubles(self.seed, osds) };
        let commit_us = (20 + p.below(200), commit_max);
        let (stores, slow) = stores::draw(&mut p.fork(), osds + spares, commit_us, is_tight);
        let rotten = draw_rotten(p, &stores);
        self.cluster.spares = spares;
        // Groups must serve without the replaced disk.
        let is_redundant = self.cluster.size > self.cluster.min_size;
        let replaced = troubled.filter(|_| self.seed.is_multiple_of(2) && is_redundant);
        self.disks =
            DiskShape { stores, is_tight, slow, rotten, rotting: None, troubled, replaced };
    }

    /// Draws the OSDs that leave, and the one whose data rots while faults happen.
    fn draw_departures(&mut self, p: &mut Prng) {
        let ClusterShape { osds, hosts, min_size, spares, .. } = self.cluster;
        let needed = usize::from(self.cluster.places());
        let DiskShape { rotten, troubled, is_tight, .. } = self.disks;
        let can_leave = osds.min(hosts) > needed && rotten.is_none() && !is_tight;
        let leaver =
            (can_leave && p.chance(1, LEAVE_ONE_IN)).then(|| OsdId(p.below(osds as u64) as i32));
        // Data that only one OSD has must not rot, nor be on a disk that is replaced.
        let is_sound = min_size > 1 && troubled.is_none() && !is_tight;
        let can_rot = match rotten {
            _ if !is_sound => Vec::new(),
            Some(osd) => vec![osd],
            None => rottable(&self.disks.stores[..osds]),
        };
        let places = if hosts > needed { hosts } else { osds };
        let in_pairs = self.cluster.erasure.is_some_and(|shape| shape.in_pairs);
        let has_spare_place = places > needed + usize::from(leaver.is_some()) && !in_pairs;
        let stay: Vec<OsdId> = [leaver, rotten, troubled].into_iter().flatten().collect();
        let can_go = (0..osds as i32).map(OsdId).filter(|osd| !stay.contains(osd));
        let can_go = if has_spare_place && !is_tight { can_go.collect() } else { Vec::new() };
        let Upkeep { removed, rotting } =
            self.faults.add_upkeep(self.seed, can_go, can_rot, spares);
        (self.cluster.leaver, self.cluster.removed) = (leaver, removed);
        self.disks.rotting = rotting;
    }

    /// Draws how much clients do, and for how long.
    fn draw_load(&mut self, p: &mut Prng, is_large: bool) {
        let DiskShape { rotten, rotting, troubled, is_tight, .. } = self.disks;
        let think_min = match self.faults.is_slow() {
            true => self.cluster.clients as u64 * THINK_WITH_PARTITIONS_US,
            false => 0,
        };
        let think_min = if is_tight { think_min.max(THINK_WHEN_TIGHT_US) } else { think_min };
        self.load.think_us = self.load.think_us.max(think_min);
        // The user of an image tolerates no error. A dead disk causes none where it has no data alone; such
        // seeds have no misreads.
        self.load.has_image = self.seed % IMAGE_ONE_IN == IMAGE_REST
            && !is_tight
            && rotten.or(rotting).is_none()
            && (troubled.is_none() || self.cluster.min_size > 1);
        let seconds = if is_large { 15 + p.below(15) } else { 20 + p.below(60) };
        self.load.duration = Duration::from_secs(seconds);
        self.cluster.monitors = *p.choose(&[1, 1, 2, 3, 3]);
        self.cluster.pg_num = if is_large { 8 << p.below(4) } else { 1 << p.below(4) };
        self.load.objects = 2 + p.below(if is_large { 40 } else { 7 }) as usize;
        self.load.reach = draw_reach(p, is_tight);
        self.network.is_wired = p.chance(1, WIRED_ONE_IN);
        self.cluster.prefers_secure = p.chance(1, 3);
        self.load.in_flight_max = *p.choose(&[1, 2, 4, 8]);
    }

    /// Gives an erasure-coded pool the load that meets its cases: many small writes to few stripes.
    fn adapt_to_shards(&mut self) {
        let Some(shape) = self.cluster.erasure else { return };
        let mut prng = Prng::new(!self.seed ^ u64::from(shape.unit));
        let p = &mut prng;
        self.trials.sizes.groups.settle_idle = Duration::from_millis(shape.settle_ms);
        let weights = &mut self.faults.weights;
        let total: u64 = weights.iter().map(|(_, weight)| weight).sum();
        if total > 0 && p.chance(1, 3) {
            let (least, most) = (shape.data, shape.data + self.cluster.size - 1);
            weights.push((Kind::ChangeMinSize { least, most }, 1 + total / 10));
        }
        self.add_losses();
        if self.disks.is_tight {
            return;
        }
        self.load.in_flight_max = *p.choose(&[1, 4, 8, 16, 32]);
        let (stripe, keys) = (shape.stripe(), self.load.reach.keys);
        if p.chance(2, 3) {
            self.load.reach = Reach::of_stripes(stripe, keys);
            if self.trials.has_pieces {
                self.bound_pieces();
            }
        } else if stripe <= MANY_STRIPES_OF_MAX && !self.trials.has_pieces && p.chance(1, 2) {
            self.load.reach = Reach::of_many_stripes(stripe, keys);
        }
    }

    /// Drawn from a generator of its own. OSDs are declared lost and return; logs of shards fail.
    fn add_losses(&mut self) {
        let mut prng = Prng::new(self.seed ^ LOSSES);
        let weights = &mut self.faults.weights;
        let total: u64 = weights.iter().map(|(_, weight)| weight).sum();
        let can_lose = self.cluster.size > self.cluster.min_size;
        for (kind, is_possible) in [(Kind::LoseOsd, can_lose), (Kind::FailCopy, true)] {
            let is_drawn = prng.chance(1, LOSSES_ONE_IN) && total > 0 && !self.disks.is_tight;
            if is_drawn && is_possible {
                weights.push((kind, 1 + total / *prng.choose(&[4, 10])));
            }
        }
    }

    fn draw_trials(&mut self) {
        let circumstances = Circumstances {
            has_image: self.load.has_image,
            is_tight: self.disks.is_tight,
            may_lose_data: self.may_lose_data(),
            has_snapshots: self.load.has_snapshots,
        };
        self.trials = Trials::draw(self.seed, &mut self.faults, circumstances);
        if self.trials.has_pieces {
            self.load.reach = self.load.reach.in_pieces();
            self.bound_pieces();
        }
        // A restored control store excludes later changes, and ends with checks of the history alone.
        let goes = self.cluster.leaver.or(self.cluster.removed).is_some();
        let fails_disks =
            self.disks.troubled.or(self.disks.rotting).is_some() || self.trials.fails_reads;
        let can_restore = !self.load.has_image && !self.disks.is_tight && !goes && !fails_disks;
        self.control = ControlTrials::draw(self.seed, &mut self.faults, can_restore);
        let can_stall = !self.disks.is_tight && self.control.restore.is_none();
        self.stall = Stall::draw(self.seed, can_stall);
    }

    fn bound_pieces(&mut self) {
        let longest = self.load.reach.offset_max + self.load.reach.long_max;
        self.trials.bound_pieces(longest, self.load.has_image, self.disks.slow.is_some());
    }

    /// Special traits of the seed besides its drawn faults.
    pub fn traits(&self) -> impl Iterator<Item = &'static str> {
        let all = [
            ("several monitors", self.cluster.monitors > 1),
            ("6 to 50 OSDs", self.cluster.osds > 5),
            ("sessions of msgr", self.network.is_wired),
            ("clocks differ", self.network.skew_ms_max > 0),
            ("an erasure-coded pool", self.cluster.erasure.is_some()),
            ("8 shards of data", self.cluster.erasure.is_some_and(|shape| shape.data == 8)),
            ("objects of many stripes", self.has_many_stripes()),
            ("shards in pairs", self.cluster.erasure.is_some_and(|shape| shape.in_pairs)),
            ("no overwrites", self.cluster.erasure.is_some_and(|shape| shape.has_appended)),
            ("a slow device", self.disks.slow.is_some()),
            ("full devices", self.disks.is_tight),
            ("an image", self.load.has_image && self.load.image_sharers == 0),
            ("a shared image", self.load.has_image && self.load.image_sharers > 0),
            ("an image with shards", self.load.has_image && self.image_place().data_pool.is_some()),
            ("snapshots", self.load.has_snapshots),
            ("a disk replaced in the end", self.disks.replaced.is_some()),
            ("an OSD leaves in the end", self.cluster.leaver.is_some()),
            ("rot in the end", self.disks.rotten.is_some()),
            ("something stands still in the end", self.stall.is_some()),
        ];
        let all = all.into_iter().chain(self.trials.traits()).chain(self.control.traits());
        let all = all.chain(files::traits(self.file_system));
        all.filter(|(_, is_so)| *is_so).map(|(name, _)| name)
    }

    /// True if objects of the erasure-coded pool may have more than a few stripes.
    fn has_many_stripes(&self) -> bool {
        let many =
            |shape: erasure::ErasureShape| Reach::of_many_stripes(shape.stripe(), 0).offset_max;
        self.cluster.erasure.is_some_and(|shape| self.load.reach.offset_max >= many(shape))
    }

    /// The OSD whose disk misreads.
    pub fn misreader(&self) -> Option<OsdId> {
        self.disks.troubled.filter(|_| !self.load.has_image)
    }

    /// True if any device may lose data, with or without an error.
    pub fn may_lose_data(&self) -> bool {
        self.disks.rotten.or(self.disks.rotting).or(self.disks.troubled).is_some()
            || self.trials.fails_reads
    }

    /// True if clients may receive ENOSPC.
    pub fn may_lack_room(&self) -> bool {
        self.disks.is_tight || self.trials.fills
    }

    /// Bucket type over which the copies of a group are spread.
    pub fn failure_domain(&self) -> &'static str {
        if self.cluster.hosts > self.cluster.places().into() { "host" } else { "osd" }
    }

    /// The pool in which images lie: their headers need an omap.
    pub fn image_pool(&self) -> &'static str {
        if self.cluster.erasure.is_some() { BESIDE } else { POOL }
    }

    /// Where images lie. Most data objects beside an erasure-coded pool are in it, and of several stripes.
    pub fn image_place(&self) -> ImagePlace {
        let mut prng = Prng::new(self.seed ^ IMAGE_PLACES);
        let is_coded = self.cluster.erasure.is_some() && prng.chance(4, 5);
        let more = if is_coded { prng.below(IMAGE_ORDERS_MORE) as u8 } else { 0 };
        ImagePlace {
            pool: self.image_pool().to_owned(),
            data_pool: is_coded.then_some(POOL_ID),
            order: ORDER_DEFAULT + more,
        }
    }
}

impl ClusterShape {
    /// Makes the pool that clients use erasure-coded, and adds the OSDs that it needs.
    fn make_erasure(&mut self, drawn: erasure::Drawn) {
        self.erasure = Some(drawn.shape);
        (self.size, self.min_size) = (drawn.size, drawn.min_size);
        (self.osds, self.hosts) = drawn.cluster(self.osds, self.places().into());
    }

    /// OSDs that a group of the pool that clients use needs.
    pub fn places(&self) -> u8 {
        self.size + self.erasure.map_or(0, |shape| shape.data - 1)
    }

    /// Draws OSDs and copies. The rest is drawn later.
    fn draw(p: &mut Prng, is_large: bool) -> Self {
        let osds = match is_large {
            true => 6 + p.below(OSDS_MAX - 5) as usize,
            false => *p.choose(&[1, 2, 3, 3, 3, 3, 4, 5]),
        };
        let hosts = 1 + p.below(osds as u64) as usize;
        let size = (1 + p.below(3)).max(p.below(4)).min(osds as u64) as u8;
        let min_size = if size > 1 && p.chance(2, 3) { size / 2 + 1 } else { 1 };
        let uses_cephx = p.chance(1, 2);
        ClusterShape { osds, hosts, size, min_size, uses_cephx, ..ClusterShape::default() }
    }
}

/// Number of clients that share an image. It is not drawn, so that other draws are not affected.
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
