//! What goes wrong, and when it is over.

use crate::network::{NodeId, Way};
use crate::scaling;
use crate::scenario::FaultMix;
use engine::Duration;
use stdx::Prng;

const PARTITION_MS_MAX: u64 = 40_000;
const SHARER_PARTITION_MS_MAX: u64 = 70_000;
const STORM_MS_MAX: u64 = 5_000;
const STORM_FACTOR_MAX: u64 = 200;
/// Longer than leases, and than a transaction is tried.
const STORE_DOWN_MS_MAX: u64 = 30_000;
const DISK_FAILS_MS_MAX: u64 = 20_000;
const MISREADS_PER_MILLION: [u64; 4] = [1_000, 30_000, 300_000, 1_000_000];
const CLOCK_JUMP_S_MAX: u64 = 700;
const FLAPS_MAX: u64 = 8;
const FLAP_MS_MAX: u64 = 3_000;
const WEAK_LINK_MS_MAX: u64 = 20_000;
const SLOW_FACTOR_MAX: u64 = 60;
const LOSS_PER_MILLE_MAX: u64 = 300;
/// Longer than everybody's patience.
const PAUSE_MS_MAX: u64 = 60_000;
const READS_FAIL_MS_MAX: u64 = 3_000;
const READS_BEFORE_MAX: u64 = 4;
const FAILED_READS_MAX: u64 = 8;
const FAILED_READ_MS_MAX: u64 = 1_500;
const REPAIRS: u64 = 3;
const RESENDS_MAX: u64 = 12;
const RESEND_MS_MAX: u64 = 150;
/// How long data is elsewhere, and what goes on then.
const MOVED_MS_MAX: u64 = 8_000;
const DOWNS_MAX: u64 = 3;
const DOWN_MS_MAX: u64 = 2_500;
/// All that waits must come before much else: see `THINK_WITH_PARTITIONS_US` of scenarios.
const REQUESTS_PAUSE_MS_MAX: u64 = 5_000;
/// Weights that OSDs are given, in tenths.
const WEIGHTS: [u64; 5] = [0, 3, 5, 10, 10];
const CRUSH_WEIGHTS: [u64; 4] = [2, 10, 10, 30];
/// Numbers of groups that an administrator wants.
const PG_NUMS: [u64; 8] = [2, 4, 6, 8, 11, 16, 24, 32];

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Processes die, losing all that is not durable.
    Crash(Vec<NodeId>),
    /// The same, and their host with them: nobody is told that their connections are gone.
    Vanish(Vec<NodeId>),
    Start(Vec<NodeId>),
    /// About so many percent of a process's connections break.
    Cut {
        node: NodeId,
        share: u64,
    },
    /// Nothing gets through between these and all others.
    Partition(Vec<NodeId>),
    /// Others are not heard by these.
    Deafness(Vec<NodeId>),
    /// Others do not hear these.
    Muteness(Vec<NodeId>),
    Slow(Vec<Way>, u64),
    Lossy(Vec<Way>, u64),
    Storm {
        factor: u64,
    },
    /// Partitions, weak links and storms are over.
    Mend,
    /// Processes stand still.
    Pause(Vec<NodeId>),
    Resume(Vec<NodeId>),
    /// Clocks stand still and then jump, as on a machine that slept.
    ClockJump(Duration),
    CreatePool,
    /// No monitor reaches the control store.
    StoreDown(Duration),
    /// It answers, and takes no writes.
    ControlRefuses(Duration),
    /// A backup of it is made; all monitors being down, it is restored, with or without what they remember.
    BackUpControl,
    RestoreControl {
        with_marks: bool,
    },
    /// An administrator changes the map.
    Command(String),
    /// An administrator wants groups scrubbed or repaired.
    Order(String),
    /// An administrator takes the OSD out of the cluster for good, as soon as nothing is on it alone.
    Remove(NodeId),
    /// One monitor does not reach it, the others do.
    StoreCut(NodeId, Duration),
    /// The device of an OSD that does not run loses data.
    Rot(NodeId),
    /// The same as soon as all that it has is elsewhere, too.
    RotSoon(NodeId),
    /// Something else takes so many percent of it, and gives them back.
    Fill(NodeId, u64),
    Unfill(NodeId),
    /// It answers nothing at all until it goes on.
    DiskStops(NodeId),
    DiskGoesOn(NodeId),
    /// It answers nothing but errors from now on.
    DiskDies(NodeId),
    /// So many of a million reads fail.
    DiskMisreads(NodeId, u64),
    /// It is as good as before, and its OSD is started again.
    DiskHeals(NodeId),
    /// An administrator gives the OSD another one, as soon as that is safe.
    Replace(NodeId),
    /// Its disk fails to read once, after so many reads.
    FailRead(NodeId, u64),
    /// By now it would not fail any more; an OSD that gave up for it is started again.
    ReadsHeal(NodeId),
    /// A client sends again, over the same sessions, what it waits for.
    Resend(NodeId),
    /// Some OSD loses what its index has of clones.
    Unindex,
}

/// What is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    CrashOsd,
    CrashMonitor,
    CrashAll,
    CrashClient,
    CrashHost,
    Vanish,
    Cut,
    Partition,
    OneWay,
    Flap,
    Storm,
    WeakLink,
    Pause,
    ClockJump,
    StoreDown,
    CreatePool,
    Churn,
    AddOsd,
    DivideGroups,
    CutStore,
    FailDisk,
    OrderScrub,
    RemoveOsd,
    Rot,
    BreakBackfill,
    FailRead,
    Resend,
    PauseRequests,
    MergeRepaired,
    RefuseWrites,
    Scale,
    LateReports,
    FillDisk,
}

impl Kind {
    /// Whether requests may take very long while it lasts.
    pub fn is_slow(self) -> bool {
        use Kind::*;
        matches!(self, Partition | OneWay | Flap | Storm | WeakLink | Pause | Vanish)
    }
}

/// Who is who.
#[derive(Debug, Clone)]
pub struct Cast {
    pub monitors: Vec<NodeId>,
    pub osds: Vec<NodeId>,
    /// The OSDs on each host.
    pub hosts: Vec<Vec<NodeId>>,
    /// Those of `osds` that join later.
    pub spares: Vec<NodeId>,
    pub clients: Vec<NodeId>,
    /// The OSD whose disk misreads now and then, if there is one: of two, nobody may have anything.
    pub troubled: Option<NodeId>,
    /// The OSD that leaves for good meanwhile, and the one whose data rots.
    pub removed: Option<NodeId>,
    pub rotting: Option<NodeId>,
    /// Clients with an image.
    pub image_users: Vec<NodeId>,
    /// Those of them who may die.
    pub sharers: Vec<NodeId>,
}

impl Cast {
    fn daemons(&self) -> Vec<NodeId> {
        [self.monitors.clone(), self.osds.clone()].concat()
    }

    fn all(&self) -> Vec<NodeId> {
        [self.daemons(), self.clients.clone(), self.image_users.clone()].concat()
    }

    fn mortal_clients(&self) -> Vec<NodeId> {
        [&self.clients[..], &self.sharers[..]].concat()
    }
}

/// A fault now, and what follows after which time.
pub type Plan = (Fault, Vec<(Duration, Fault)>);

/// A fault of that kind, and what follows from it.
pub fn draw(prng: &mut Prng, kind: Kind, mix: &FaultMix, cast: &Cast) -> Plan {
    match kind {
        Kind::CrashOsd => {
            let osd = *prng.choose(&cast.osds);
            crash(prng, mix, vec![osd])
        }
        Kind::CrashMonitor => {
            let monitor = *prng.choose(&cast.monitors);
            crash(prng, mix, vec![monitor])
        }
        Kind::CrashAll => crash(prng, mix, [&cast.osds[..], &cast.monitors[..]].concat()),
        Kind::CrashClient => {
            let client = *prng.choose(&cast.mortal_clients());
            crash(prng, mix, vec![client])
        }
        Kind::CrashHost => {
            let host = prng.choose(&cast.hosts).clone();
            crash(prng, mix, host)
        }
        Kind::Vanish => {
            let host = prng.choose(&cast.hosts).clone();
            let (_, back) = crash(prng, mix, host.clone());
            (Fault::Vanish(host), back)
        }
        Kind::Cut => {
            let node = *prng.choose(&cast.all());
            (Fault::Cut { node, share: 10 + prng.below(91) }, Vec::new())
        }
        // Long enough that others may take him for dead.
        Kind::Partition if !cast.sharers.is_empty() && prng.chance(1, 2) => {
            let apart = vec![*prng.choose(&cast.sharers)];
            until_mended(prng, Fault::Partition(apart), SHARER_PARTITION_MS_MAX)
        }
        Kind::Partition => {
            let apart = draw_island(prng, cast);
            until_mended(prng, Fault::Partition(apart), PARTITION_MS_MAX)
        }
        Kind::OneWay => {
            let apart = draw_island(prng, cast);
            let deaf = prng.chance(1, 2);
            let fault = if deaf { Fault::Deafness(apart) } else { Fault::Muteness(apart) };
            until_mended(prng, fault, PARTITION_MS_MAX)
        }
        Kind::Flap => flap(prng, cast),
        Kind::Storm => {
            let factor = 2 + prng.below(STORM_FACTOR_MAX);
            until_mended(prng, Fault::Storm { factor }, STORM_MS_MAX)
        }
        Kind::WeakLink => weak_link(prng, cast),
        Kind::Pause => {
            let nodes = if prng.chance(1, 3) { cast.osds.clone() } else { cast.all() };
            let nodes = vec![*prng.choose(&nodes)];
            let over = Duration::from_millis(1 + prng.below(PAUSE_MS_MAX));
            (Fault::Pause(nodes.clone()), vec![(over, Fault::Resume(nodes))])
        }
        Kind::ClockJump => {
            let by = Duration::from_secs(1 + prng.below(CLOCK_JUMP_S_MAX));
            (Fault::ClockJump(by), Vec::new())
        }
        Kind::StoreDown => {
            let down = Duration::from_millis(1 + prng.below(STORE_DOWN_MS_MAX));
            (Fault::StoreDown(down), Vec::new())
        }
        Kind::RefuseWrites => {
            let lasts = Duration::from_millis(1 + prng.below(STORE_DOWN_MS_MAX));
            (Fault::ControlRefuses(lasts), Vec::new())
        }
        Kind::CutStore => {
            let down = Duration::from_millis(1 + prng.below(STORE_DOWN_MS_MAX));
            (Fault::StoreCut(*prng.choose(&cast.monitors), down), Vec::new())
        }
        Kind::FailDisk => fail_disk(prng, cast),
        Kind::CreatePool => (Fault::CreatePool, Vec::new()),
        Kind::Churn => (Fault::Command(churn(prng, cast)), Vec::new()),
        Kind::DivideGroups => (Fault::Command(divide_groups(prng)), Vec::new()),
        Kind::AddOsd if cast.spares.is_empty() => (Fault::Start(Vec::new()), Vec::new()),
        Kind::AddOsd => (Fault::Start(vec![*prng.choose(&cast.spares)]), Vec::new()),
        Kind::OrderScrub => (Fault::Order(order_scrub(prng, cast)), Vec::new()),
        Kind::RemoveOsd => {
            (Fault::Remove(cast.removed.expect("only where one leaves")), Vec::new())
        }
        Kind::Rot => (Fault::RotSoon(cast.rotting.expect("only where one rots")), Vec::new()),
        Kind::BreakBackfill => break_backfill(prng, cast),
        Kind::FailRead => fail_reads(prng, cast),
        Kind::Resend => {
            let client = *prng.choose(&cast.clients);
            let follows = waits(prng, RESENDS_MAX, RESEND_MS_MAX);
            let follows = follows.map(|wait| (wait, Fault::Resend(client))).collect();
            (Fault::Resend(client), follows)
        }
        Kind::FillDisk => crate::world::draw_ballast(prng, mix, &cast.osds),
        Kind::Scale => (scaling::draw_command(prng), Vec::new()),
        Kind::LateReports => scaling::draw_late_reports(prng, cast),
        Kind::PauseRequests => pause_requests(prng),
        Kind::MergeRepaired => merge_repaired(prng),
    }
}

fn crash(prng: &mut Prng, mix: &FaultMix, nodes: Vec<NodeId>) -> Plan {
    let away = Duration::from_millis(1 + prng.below(mix.away_ms_max.max(1)));
    (Fault::Crash(nodes.clone()), vec![(away, Fault::Start(nodes))])
}

fn until_mended(prng: &mut Prng, fault: Fault, ms_max: u64) -> Plan {
    (fault, vec![(Duration::from_millis(1 + prng.below(ms_max)), Fault::Mend)])
}

/// A disk fails for good or now and then, and is repaired, or replaced by an empty one.
fn fail_disk(prng: &mut Prng, cast: &Cast) -> Plan {
    let any = *prng.choose(&cast.osds);
    let (osd, fault) = match cast.troubled {
        Some(osd) if prng.chance(1, 2) => {
            (osd, Fault::DiskMisreads(osd, *prng.choose(&MISREADS_PER_MILLION)))
        }
        _ => (any, Fault::DiskDies(any)),
    };
    let after = Duration::from_millis(1 + prng.below(DISK_FAILS_MS_MAX));
    let end = if prng.chance(1, 2) { Fault::Replace(osd) } else { Fault::DiskHeals(osd) };
    (fault, vec![(after, end)])
}

/// Up to so many moments, each up to so long after the one before.
fn waits(prng: &mut Prng, count_max: u64, ms_max: u64) -> impl Iterator<Item = Duration> + use<> {
    let count = 1 + prng.below(count_max);
    let waits: Vec<u64> = (0..count).map(|_| 1 + prng.below(ms_max)).collect();
    waits.into_iter().scan(Duration::ZERO, |at, wait| {
        *at += Duration::from_millis(wait);
        Some(*at)
    })
}

/// One OSD's data goes elsewhere and comes back, and nobody is left in peace meanwhile.
fn break_backfill(prng: &mut Prng, cast: &Cast) -> Plan {
    let osds = cast.osds.len() as u64;
    let mark =
        |how: &str, id: u64| Fault::Command(format!(r#"{{"prefix":"osd {how}","ids":["{id}"]}}"#));
    let moved = prng.below(osds);
    let back = Duration::from_millis(prng.below(MOVED_MS_MAX));
    let mut follows = vec![(back, mark("in", moved))];
    for begin in [Duration::ZERO, back] {
        for wait in waits(prng, DOWNS_MAX, DOWN_MS_MAX) {
            follows.push((begin + wait, mark("down", prng.below(osds))));
        }
    }
    (mark("out", moved), follows)
}

/// Reads of some OSDs fail, one after the other; in one of two cases while copies are compared.
fn fail_reads(prng: &mut Prng, cast: &Cast) -> Plan {
    let (first, mut follows) = match prng.chance(1, 2) {
        true => break_backfill(prng, cast),
        false => (Fault::Start(Vec::new()), Vec::new()),
    };
    for wait in waits(prng, FAILED_READS_MAX, FAILED_READ_MS_MAX) {
        let (osd, after) = (*prng.choose(&cast.osds), prng.below(READS_BEFORE_MAX));
        let over = wait + Duration::from_millis(1 + prng.below(READS_FAIL_MS_MAX));
        follows.push((wait, Fault::FailRead(osd, after)));
        follows.push((over, Fault::ReadsHeal(osd)));
    }
    (first, follows)
}

/// An administrator lets nobody read, or write, for a while. Those who give commands may die: some are said again.
fn pause_requests(prng: &mut Prng) -> Plan {
    let what = *prng.choose(&["pauserd", "pausewr", "pause"]);
    let order = |verb: &str, what: &str| {
        Fault::Order(format!(r#"{{"prefix":"osd {verb}","key":"{what}"}}"#))
    };
    let over = Duration::from_millis(1 + prng.below(REQUESTS_PAUSE_MS_MAX));
    let ends = [over, over + Duration::from_secs(2), over + Duration::from_secs(6)];
    (order("set", what), ends.map(|end| (end, order("unset", "pause"))).into())
}

/// Groups that were divided are repaired and, while that goes on, merged.
fn merge_repaired(prng: &mut Prng) -> Plan {
    let pg_num = |number: u64| {
        let pool = crate::cluster::POOL;
        Fault::Command(format!(
            r#"{{"prefix":"osd pool set","pool":"{pool}","var":"pg_num_actual","val":"{number}"}}"#
        ))
    };
    let mut at = Duration::ZERO;
    let mut after = |prng: &mut Prng, ms_max: u64| {
        at += Duration::from_millis(1 + prng.below(ms_max));
        at
    };
    let (many, few) = (*prng.choose(&[8, 16]), *prng.choose(&[1, 2, 4]));
    let repair = r#"{"prefix":"osd deep-scrub","who":"all"}"#;
    let mut follows = Vec::new();
    for _ in 0..REPAIRS {
        follows.push((after(prng, 2_000), Fault::Unindex));
        follows.push((after(prng, 100), Fault::Order(repair.to_owned())));
    }
    follows.push((after(prng, 1_000), pg_num(few)));
    (pg_num(many), follows)
}

/// A partition that comes and goes.
fn flap(prng: &mut Prng, cast: &Cast) -> Plan {
    let apart = draw_island(prng, cast);
    let mut at = Duration::ZERO;
    let mut wait = |prng: &mut Prng| {
        at += Duration::from_millis(1 + prng.below(FLAP_MS_MAX));
        at
    };
    let mut follows = vec![(wait(prng), Fault::Mend)];
    for _ in 0..prng.below(FLAPS_MAX) {
        follows.push((wait(prng), Fault::Partition(apart.clone())));
        follows.push((wait(prng), Fault::Mend));
    }
    (Fault::Partition(apart), follows)
}

/// What some of the processes say, or what is said to them, comes late.
fn weak_link(prng: &mut Prng, cast: &Cast) -> Plan {
    let (one, others) = (*prng.choose(&cast.all()), cast.all());
    let others = others.into_iter().filter(|other| *other != one);
    let others: Vec<NodeId> = others.filter(|_| prng.chance(1, 2)).collect();
    let (there, back) = (prng.chance(2, 3), prng.chance(2, 3));
    let out = others.iter().filter(|_| there).map(|other| (one, *other));
    let ways: Vec<Way> =
        out.chain(others.iter().filter(|_| back).map(|other| (*other, one))).collect();
    let fault = match prng.chance(1, 2) {
        true => Fault::Slow(ways, 2 + prng.below(SLOW_FACTOR_MAX)),
        false => Fault::Lossy(ways, 1 + prng.below(LOSS_PER_MILLE_MAX)),
    };
    until_mended(prng, fault, WEAK_LINK_MS_MAX)
}

/// What an administrator, or a balancer, does to an OSD. See [`restore`].
fn churn(prng: &mut Prng, cast: &Cast) -> String {
    let id = prng.below(cast.osds.len() as u64);
    match prng.below(8) {
        0 => format!(r#"{{"prefix":"osd out","ids":["{id}"]}}"#),
        1 => format!(r#"{{"prefix":"osd in","ids":["{id}"]}}"#),
        2 => reweight(id, *prng.choose(&WEIGHTS)),
        3 => crush_reweight(id, *prng.choose(&CRUSH_WEIGHTS)),
        4 => r#"{"prefix":"balancer optimize","plan":"any"}"#.to_owned(),
        5 => {
            let affinity = *prng.choose(&["0.0", "0.5", "1.0"]);
            format!(r#"{{"prefix":"osd primary-affinity","id":{id},"weight":{affinity}}}"#)
        }
        6 => {
            let (group, to) = (prng.below(8), prng.below(cast.osds.len() as u64));
            format!(r#"{{"prefix":"osd pg-upmap-items","pgid":"1.{group:x}","id":[{id},{to}]}}"#)
        }
        _ => format!(r#"{{"prefix":"osd down","ids":["{id}"]}}"#),
    }
}

/// More groups or less as soon as all is well, or more at once, whatever is going on.
fn divide_groups(prng: &mut Prng) -> String {
    let (pool, pg_num) = (crate::cluster::POOL, *prng.choose(&PG_NUMS));
    let variable = *prng.choose(&["pg_num", "pg_num_actual", "pg_num_actual"]);
    format!(r#"{{"prefix":"osd pool set","pool":"{pool}","var":"{variable}","val":"{pg_num}"}}"#)
}

fn order_scrub(prng: &mut Prng, cast: &Cast) -> String {
    let verb = *prng.choose(&["scrub", "deep-scrub", "repair"]);
    let id = prng.below(cast.osds.len() as u64);
    match prng.below(3) {
        0 => format!(r#"{{"prefix":"osd {verb}","who":"all"}}"#),
        1 => format!(r#"{{"prefix":"osd {verb}","who":"{id}"}}"#),
        _ => format!(r#"{{"prefix":"pg {verb}","pgid":"1.{:x}"}}"#, prng.below(8)),
    }
}

fn reweight(id: u64, tenths: u64) -> String {
    let weight = tenths as f64 / 10.0;
    format!(r#"{{"prefix":"osd reweight","id":{id},"weight":{weight:.1}}}"#)
}

fn crush_reweight(id: u64, tenths: u64) -> String {
    let weight = tenths as f64 / 10.0;
    format!(r#"{{"prefix":"osd crush reweight","name":"osd.{id}","weight":{weight:.1}}}"#)
}

/// The commands after which an OSD counts as much as any other.
pub fn restore(id: u64) -> [String; 2] {
    [reweight(id, 10), crush_reweight(id, 10)]
}

/// Some clients, or some daemons, or all of a host, or anybody: primaries hold leases for reads, so that a
/// client that shares an island with one that is deposed is answered nothing from the past.
fn draw_island(prng: &mut Prng, cast: &Cast) -> Vec<NodeId> {
    let (one_in, candidates) = match prng.below(5) {
        0 | 1 => (2, cast.mortal_clients()),
        2 => (3, cast.daemons()),
        3 => return prng.choose(&cast.hosts).clone(),
        _ => (2, cast.all()),
    };
    candidates.into_iter().filter(|_| prng.chance(1, one_in)).collect()
}
