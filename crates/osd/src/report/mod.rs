//! Statistics for the monitor about this OSD and the groups whose primary it is.

pub(crate) mod cluster_log;
pub(crate) mod group_state;
pub(crate) mod histograms;
pub(crate) mod image_traffic;
pub(crate) mod op_history;
pub(crate) mod repairs;
pub(crate) mod schedule;
mod slow;
pub(crate) mod usage;

use self::group_state::{Shortage, blocked_by, shortage, state_bits};
use self::image_traffic::ImageCounts;
use self::op_history::{Latency, OpHistory, PerfBase, Sums};
use self::repairs::Repairs;
use self::schedule::Schedule;
use self::slow::Waits;
use self::usage::DiskUsage;
use crate::cx::Cx;
use crate::env::{Env, Options, Stage};
use crate::groups::{Group, Groups};
use crate::heartbeats::Heartbeats;
use crate::leases::Leases;
use crate::limits;
use crate::operations::Operations;
use crate::operations::answered::Answered;
use crate::outbox::Outbox;
use crate::sessions::monitor::MonitorLink;
use crate::tokens::Token;
use engine::{Duration, Time};
use maps::OsdMap;
use serde_json::Value;
use std::collections::BTreeMap;
use store::{RequestKind, Usage};
use types::features::SUPPORTED;
use types::{Epoch, PgId, UTime};
use wire::MessageBody;
use wire::internal::{
    OsdCounters, OsdUsage, PgStat, StatsAck, StatsReport, StoreCounters, pg_state,
};

/// Duration that the first report of image traffic covers.
const COUNTED_FOR: Duration = Duration::from_secs(2);

/// The code of the health check of a failed store.
const FAILURE_CHECK: &str = "OSD_STORE_FAILED";

/// State behind the reports to the monitor and the answers to administrators.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// When reports are sent.
    pub schedule: Schedule,
    images: ImageCounts,
    history: OpHistory,
    repairs: Repairs,
    /// Groups that became active with this OSD as primary, and objects that it recovered as such.
    activations: u64,
    recovered: u64,
    /// Counters of the store at the last report.
    store: store::Counters,
}

impl Report {
    /// Counts a client's request that was answered for the traffic of images, if the monitor wants that, and
    /// keeps it.
    pub fn note_answered(&mut self, now: Time, answered: Answered, options: &Options) {
        if self.images.is_counting() {
            self.images.count(now, &answered);
        }
        self.history.note(now, answered, options);
    }

    /// Latencies of reads and of writes since the OSD started.
    pub fn latencies(&self) -> (Latency, Latency) {
        (self.history.reads, self.history.writes)
    }

    /// Sums over answered requests since the OSD started.
    pub fn sums(&self) -> Sums {
        self.history.sums
    }

    /// Objects recovered as primary since the OSD started.
    pub fn recovered(&self) -> u64 {
        self.recovered
    }

    /// `perf histogram dump`, or `perf histogram schema`.
    pub fn histograms(&self, with_values: bool, wanted: Option<&str>) -> Value {
        let OpHistory { read_histogram, write_histogram, .. } = &self.history;
        histograms::json(read_histogram, write_histogram, with_values, wanted)
    }

    /// Counts that a group became active with this OSD as primary.
    pub fn count_activation(&mut self) {
        self.activations += 1;
    }

    /// Counts an object that was recovered by this OSD as primary.
    pub fn count_recovered(&mut self) {
        self.recovered += 1;
    }

    /// The counters at the last `perf reset`.
    pub fn perf_base(&self) -> PerfBase {
        self.history.base
    }

    /// `perf reset`
    pub fn reset_perf(&mut self, counted: PerfBase) {
        self.history.base = counted;
    }

    /// `dump_historic_ops`, in order of completion, or `dump_historic_ops_by_duration`.
    pub fn dump_history(&mut self, now: Time, options: &Options, by_duration: bool) -> Value {
        self.history.history(now, options, by_duration)
    }

    /// `dump_historic_slow_ops`
    pub fn dump_slow(&mut self, now: Time, options: &Options) -> Value {
        self.history.slow(now, options)
    }

    /// Number of requests that are kept: recent, slowest, and slow ones.
    #[cfg(test)]
    pub fn kept(&self) -> (usize, usize, usize) {
        self.history.kept()
    }

    /// Begins a report, if one is due: requests the usage of the store.
    pub fn begin_if_due(&mut self, env: &Env, usage: &mut DiskUsage, out: &mut Outbox) {
        if self.schedule.due().is_some_and(|due| due <= env.now) {
            self.schedule.begin(env.now);
            usage.begin_query();
            out.ask(Token::Usage, RequestKind::Usage);
        }
    }

    /// Sends the report, if a monitor is reached. A failed OSD reports no groups.
    pub fn send(&mut self, cx: &mut Cx<'_>, monitor: &MonitorLink, mut of: Subject<'_>) {
        let Some(conn) = monitor.conn() else { return };
        let env = cx.env;
        let is_serving = env.stage != Stage::Failed;
        let sequence = self.schedule.count();
        let (images, images_ms) = self.images.take(env.now);
        let usage = of.usage.usage();
        let before = std::mem::replace(&mut self.store, usage.counters);
        let report = StatsReport {
            fsid: env.config.fsid,
            osd: env.whoami(),
            map_epoch: cx.map.epoch,
            usage: usage_report(&usage, &before),
            pgs: if is_serving { self.stats(cx, &mut of) } else { BTreeMap::new() },
            is_complete: is_serving,
            health: of.heartbeats.health(env.whoami()).into_iter().chain(failure(env)).collect(),
            images,
            images_ms,
            slow: of.waits(env).slow_requests(),
            repaired_copies: self.repairs.copies(cx.map),
            counters: self.counters(env, &of),
            store: store_counters(&usage.counters),
        };
        let tid = stat_sequence(cx.env, cx.map, sequence);
        cx.out.send(conn, report.encode(SUPPORTED).with_tid(tid));
        self.log_waiting(cx, monitor);
        of.usage.count_injected();
    }

    /// Reports now, and returns the sequence number of the report that includes the present state.
    pub fn flush(&mut self, env: &Env, map: &OsdMap) -> u64 {
        stat_sequence(env, map, self.schedule.flush(env.now))
    }

    /// Counts the traffic of images if the monitor wants that. When this begins, the first report
    /// follows soon.
    pub fn handle_ack(&mut self, now: Time, ack: &StatsAck) {
        if ack.count_images > 0 && self.images.ask(now, ack.count_images) {
            self.schedule.request(now + COUNTED_FOR);
        }
    }

    fn counters(&self, env: &Env, of: &Subject<'_>) -> OsdCounters {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let OpHistory { reads, writes, sums, .. } = &self.history;
        OsdCounters {
            reads: reads.count,
            read_bytes: sums.read_bytes,
            read_ns: nanoseconds(reads.sum),
            writes: writes.count,
            write_bytes: sums.write_bytes,
            write_ns: nanoseconds(writes.sum),
            write_queue_ns: nanoseconds(sums.queued.sum),
            write_commit_ns: nanoseconds(sums.committing.sum),
            in_flight: of.operations.len() as u64,
            groups: of.groups.len() as u64,
            activations: self.activations,
            recovered: self.recovered,
            fetches: of.operations.fetches(),
            cpu_ns: nanoseconds(env.load.cpu),
            turns: env.load.turns,
            stalls: env.load.stalls,
        }
    }

    fn stats(&self, cx: &Cx<'_>, of: &mut Subject<'_>) -> BTreeMap<PgId, PgStat> {
        let (epoch, sequence) = (cx.map.epoch, self.schedule.sequence());
        let primaries = of.groups.iter_mut().filter(|(_, group)| group.pg.is_primary());
        let mut primaries: Vec<(PgId, &mut Group)> =
            primaries.map(|(id, group)| (id.pg, group)).collect();
        let lacking = primaries.iter().filter(|(_, group)| !group.pg.is_whole()).count();
        let looks = limits::UNFOUND_LOOKS_MAX / lacking.max(1);
        for (_, group) in &mut primaries {
            group.report.unfound = group.pg.count_unfound(looks);
        }
        let (stats, operations) = (primaries.into_iter(), of.operations);
        let now = cx.env.now.wall();
        stats.map(|(pg, group)| (pg, stat(group, operations, now, epoch, sequence))).collect()
    }
}

/// The components that a report is about.
pub(crate) struct Subject<'a> {
    pub groups: &'a mut Groups,
    pub operations: &'a Operations,
    pub leases: &'a Leases,
    pub heartbeats: &'a Heartbeats,
    pub usage: &'a mut DiskUsage,
}

impl Subject<'_> {
    fn waits<'a>(&'a self, env: &'a Env) -> Waits<'a> {
        Waits { env, groups: self.groups, operations: self.operations, leases: self.leases }
    }
}

/// The sequence number of a report; it continues to rise when the OSD restarts.
fn stat_sequence(env: &Env, map: &OsdMap, sequence: u64) -> u64 {
    let up_from = map.osd(env.whoami()).map_or(0, |osd| osd.info.up_from.0);
    u64::from(up_from) << 32 | sequence & u64::from(u32::MAX)
}

/// Code and text of the health check of a failed OSD.
fn failure(env: &Env) -> Option<(String, String)> {
    Some((FAILURE_CHECK.to_owned(), env.failure.clone()?))
}

/// `before` are the counters of the store at the last report.
fn usage_report(usage: &Usage, before: &store::Counters) -> OsdUsage {
    let batches = usage.counters.batches.saturating_sub(before.batches);
    let time = usage.counters.batch_ns.saturating_sub(before.batch_ns);
    // A write is visible when it is durable.
    let latency_us = time / batches.max(1) / 1000;
    OsdUsage {
        bytes_total: usage.bytes_total,
        bytes_available: usage.bytes_available,
        bytes_used: usage.bytes_used,
        bytes_omap: usage.bytes_omap,
        bytes_meta: usage.bytes_meta,
        objects: usage.objects,
        commit_latency_us: latency_us,
        apply_latency_us: latency_us,
    }
}

fn store_counters(counted: &store::Counters) -> StoreCounters {
    StoreCounters {
        commits: counted.commits,
        batches: counted.batches,
        log_bytes: counted.log_bytes,
        batch_ns: counted.batch_ns,
        flushes: counted.flushes,
        device_reads: counted.device_reads,
        device_read_bytes: counted.device_read_bytes,
        repeated_reads: counted.repeated_reads,
        device_writes: counted.device_writes,
        device_write_bytes: counted.device_write_bytes,
        cache_hits: counted.cache_hits,
        cache_misses: counted.cache_misses,
        checkpoints: counted.checkpoints,
        log_used_bytes: counted.log_used_bytes,
        buffered_bytes: counted.buffered_bytes,
    }
}

fn stat(
    group: &mut Group,
    operations: &Operations,
    now: UTime,
    epoch: Epoch,
    sequence: u64,
) -> PgStat {
    let premerge = if group.is_ready_to_merge(operations) { pg_state::PREMERGE } else { 0 };
    let work = group.scrub.state_bits()
        | group.trim.state_bits(group.pg.is_clean(), &group.snapshots.removed);
    let state = state_bits(&group.pg) | work | premerge;
    if group.report.reported.0 != state {
        group.report.reported = (state, now);
    }
    let (pg, info, members) = (&group.pg, group.pg.info(), group.pg.members());
    let stamps = group.scrub.stamps().unwrap_or_default();
    let when = |is: bool| if is { now } else { UTime::ZERO };
    let Shortage { degraded, misplaced } = shortage(pg);
    PgStat {
        state,
        version: info.last_update,
        reported_epoch: epoch,
        reported_sequence: sequence,
        last_change: group.report.reported.1,
        last_active: when(pg.is_active()),
        last_clean: when(pg.is_clean()),
        up: members.up.clone(),
        acting: members.acting.clone(),
        log_size: pg.log().len() as u64,
        objects: info.objects,
        clones: info.clones,
        copies: info.objects * members.size as u64,
        degraded,
        misplaced,
        unfound: group.report.unfound,
        bytes: info.bytes,
        reads: group.counters.reads,
        read_bytes: group.counters.read_bytes,
        writes: group.counters.writes,
        write_bytes: group.counters.write_bytes,
        recovered_objects: group.counters.recovered,
        // A clean group needs no interval before the present one.
        last_epoch_clean: if pg.is_clean() { epoch } else { info.history.last_epoch_clean },
        blocked_by: blocked_by(pg),
        last_scrub: stamps.last,
        last_deep_scrub: stamps.last_deep,
        scrub_errors: stamps.errors.total(),
        omap_keys: stamps.omaps.size.keys,
        omap_bytes: stamps.omaps.size.bytes,
        large_omaps: stamps.omaps.large_objects,
        repaired: group.scrub.repairs(),
        snaptrim_queue: group.trim.left(&group.snapshots.removed),
        purged_snaps: group.trim.purged().intervals().collect(),
        ..PgStat::default()
    }
}
