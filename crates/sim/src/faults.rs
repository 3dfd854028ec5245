//! Faults: what each draws, and when it ends.

mod autoscaler;
mod ballast;
mod file_system;
mod plans;
mod shards;
mod waits;

use crate::cast::Cast;
use crate::commands::{crush_reweight, reweight, set_pool_command};
use crate::fault::{Fault, Kind, Plan};
use crate::fault_mix::FaultMix;
use crate::names::POOL;
use crate::node::{NodeId, Way};
use engine::Duration;
use plans::{crash, until_mended};
use stdx::Prng;
use waits::waits;

const PARTITION_MS_MAX: u64 = 40_000;
const SHARER_PARTITION_MS_MAX: u64 = 70_000;
const STORM_MS_MAX: u64 = 5_000;
const STORM_FACTOR_MAX: u64 = 200;
/// Longer than leases, and than retries of a transaction.
const STORE_DOWN_MS_MAX: u64 = 30_000;
const DISK_FAILS_MS_MAX: u64 = 20_000;
const MISREADS_PER_MILLION: [u64; 4] = [1_000, 30_000, 300_000, 1_000_000];
const CLOCK_JUMP_S_MAX: u64 = 700;
const FLAPS_MAX: u64 = 8;
const FLAP_MS_MAX: u64 = 3_000;
const WEAK_LINK_MS_MAX: u64 = 20_000;
const SLOW_FACTOR_MAX: u64 = 60;
const LOSS_PER_MILLE_MAX: u64 = 300;
/// Longer than all timeouts of peers.
const PAUSE_MS_MAX: u64 = 60_000;
const READS_FAIL_MS_MAX: u64 = 3_000;
const READS_BEFORE_MAX: u64 = 4;
const FAILED_READS_MAX: u64 = 8;
const FAILED_READ_MS_MAX: u64 = 1_500;
const REPAIRS: u64 = 3;
const RESENDS_MAX: u64 = 12;
const RESEND_MS_MAX: u64 = 150;
/// Time for which data moves, during which other faults happen.
const MOVED_MS_MAX: u64 = 8_000;
const DOWNS_MAX: u64 = 3;
const DOWN_MS_MAX: u64 = 2_500;
/// Requests that wait must be executed before many others: see `THINK_WITH_PARTITIONS_US` of scenarios.
const REQUESTS_PAUSE_MS_MAX: u64 = 5_000;
/// Weights of OSDs, in tenths.
const WEIGHTS: [u64; 5] = [0, 3, 5, 10, 10];
const CRUSH_WEIGHTS: [u64; 4] = [2, 10, 10, 30];
/// Values of `pg_num` that an administrator sets.
const PG_NUMS: [u64; 8] = [2, 4, 6, 8, 11, 16, 24, 32];

/// Draws a fault of a kind, with the later ones that belong to it.
pub fn draw(prng: &mut Prng, kind: Kind, mix: &FaultMix, cast: &Cast) -> Plan {
    match kind {
        Kind::CrashOsd
        | Kind::CrashMonitor
        | Kind::CrashAll
        | Kind::CrashClient
        | Kind::CrashHost
        | Kind::Vanish
        | Kind::Pause => draw_of_processes(prng, kind, mix, cast),
        Kind::Cut
        | Kind::Partition
        | Kind::OneWay
        | Kind::Flap
        | Kind::Storm
        | Kind::WeakLink
        | Kind::LateReports => draw_of_links(prng, kind, cast),
        Kind::StoreDown
        | Kind::RefuseWrites
        | Kind::CutStore
        | Kind::FailDisk
        | Kind::Rot
        | Kind::FailRead
        | Kind::FailCopy
        | Kind::FillDisk => draw_of_stores(prng, kind, mix, cast),
        Kind::CrashServer | Kind::CrashFileClient | Kind::HaltFiles => {
            file_system::draw(prng, kind, mix, cast)
        }
        kind => draw_of_administrator(prng, kind, cast),
    }
}

/// Processes die, or are suspended.
fn draw_of_processes(prng: &mut Prng, kind: Kind, mix: &FaultMix, cast: &Cast) -> Plan {
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
        Kind::Pause => {
            let nodes = if prng.chance(1, 3) { cast.osds.clone() } else { cast.all() };
            let nodes = vec![*prng.choose(&nodes)];
            let over = Duration::from_millis(1 + prng.below(PAUSE_MS_MAX));
            (Fault::Pause(nodes.clone()), vec![(over, Fault::Resume(nodes))])
        }
        kind => unreachable!("{kind:?} concerns no process"),
    }
}

/// Connections break, or messages are late or lost.
fn draw_of_links(prng: &mut Prng, kind: Kind, cast: &Cast) -> Plan {
    match kind {
        Kind::Cut => {
            let node = *prng.choose(&cast.all());
            (Fault::Cut { node, share: 10 + prng.below(91) }, Vec::new())
        }
        // Long enough for others to take the client for dead.
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
        Kind::LateReports => autoscaler::draw_late_reports(prng, cast),
        kind => unreachable!("{kind:?} concerns no link"),
    }
}

/// The control store or a disk fails.
fn draw_of_stores(prng: &mut Prng, kind: Kind, mix: &FaultMix, cast: &Cast) -> Plan {
    match kind {
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
        Kind::Rot => (Fault::RotSoon(cast.rotting.expect("only where one rots")), Vec::new()),
        Kind::FailRead => fail_reads(prng, cast),
        Kind::FillDisk => ballast::draw(prng, mix, &cast.osds),
        Kind::FailCopy => shards::fail_copy(prng, cast),
        kind => unreachable!("{kind:?} concerns no store"),
    }
}

/// An administrator or a client does something, or a clock jumps.
fn draw_of_administrator(prng: &mut Prng, kind: Kind, cast: &Cast) -> Plan {
    match kind {
        Kind::ClockJump => {
            let by = Duration::from_secs(1 + prng.below(CLOCK_JUMP_S_MAX));
            (Fault::ClockJump(by), Vec::new())
        }
        Kind::CreatePool => (Fault::CreatePool, Vec::new()),
        Kind::Churn => (Fault::Command(churn(prng, cast)), Vec::new()),
        Kind::DivideGroups => (Fault::Command(divide_groups(prng)), Vec::new()),
        Kind::AddOsd if cast.spares.is_empty() => (Fault::Start(Vec::new()), Vec::new()),
        Kind::AddOsd => (Fault::Start(vec![*prng.choose(&cast.spares)]), Vec::new()),
        Kind::OrderScrub => (Fault::Order(order_scrub(prng, cast)), Vec::new()),
        Kind::RemoveOsd => {
            (Fault::Remove(cast.removed.expect("only where one leaves")), Vec::new())
        }
        Kind::BreakBackfill => break_backfill(prng, cast),
        Kind::Resend => {
            let client = *prng.choose(&cast.clients);
            let follows = waits(prng, RESENDS_MAX, RESEND_MS_MAX);
            let follows = follows.map(|wait| (wait, Fault::Resend(client))).collect();
            (Fault::Resend(client), follows)
        }
        Kind::Scale => (autoscaler::draw_command(prng), Vec::new()),
        Kind::PauseRequests => pause_requests(prng),
        Kind::ChangeMinSize { least, most } => {
            let min_size = u64::from(least) + prng.below(u64::from(most - least) + 1);
            let command = set_pool_command(POOL, "min_size", &min_size.to_string());
            (Fault::Command(command), Vec::new())
        }
        Kind::MergeRepaired => merge_repaired(prng),
        Kind::LoseOsd => shards::lose(prng, cast),
        kind => unreachable!("{kind:?} is drawn elsewhere"),
    }
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

/// Data of one OSD moves away and back, while OSDs are marked down.
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

/// Reads of several OSDs fail, one after the other; in half of the cases during a scrub.
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

/// An administrator pauses reads or writes for a while. Clients that send commands may die, so some are
/// repeated.
fn pause_requests(prng: &mut Prng) -> Plan {
    let what = *prng.choose(&["pauserd", "pausewr", "pause"]);
    let order = |verb: &str, what: &str| {
        Fault::Order(format!(r#"{{"prefix":"osd {verb}","key":"{what}"}}"#))
    };
    let over = Duration::from_millis(1 + prng.below(REQUESTS_PAUSE_MS_MAX));
    let ends = [over, over + Duration::from_secs(2), over + Duration::from_secs(6)];
    (order("set", what), ends.map(|end| (end, order("unset", "pause"))).into())
}

/// Groups are split, repaired, and merged during the repair.
fn merge_repaired(prng: &mut Prng) -> Plan {
    let pg_num = |number: u64| {
        let pool = POOL;
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

/// A flapping partition.
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

/// Messages from or to some of the processes are delayed.
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

/// A command of an administrator or balancer that concerns one OSD. See [`crate::commands::restore_weights`].
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

/// Changes `pg_num`: in steps once the cluster is healthy, or upwards at once, regardless of health.
fn divide_groups(prng: &mut Prng) -> String {
    let (pool, pg_num) = (POOL, *prng.choose(&PG_NUMS));
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

/// Some clients, some daemons, a whole host, or any processes: primaries hold read leases, so a client
/// within an island with a deposed primary reads no stale data.
fn draw_island(prng: &mut Prng, cast: &Cast) -> Vec<NodeId> {
    let (one_in, candidates) = match prng.below(5) {
        0 | 1 => (2, cast.mortal_clients()),
        2 => (3, cast.daemons()),
        3 => return prng.choose(&cast.hosts).clone(),
        _ => (2, cast.all()),
    };
    candidates.into_iter().filter(|_| prng.chance(1, one_in)).collect()
}
