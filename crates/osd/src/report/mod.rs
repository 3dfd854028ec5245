//! Statistics for the monitor about this OSD and the groups whose primary it is.

pub(crate) mod cluster_log;
pub(crate) mod group_state;
pub(crate) mod image_traffic;
pub(crate) mod op_history;
pub(crate) mod repairs;
pub(crate) mod schedule;
pub(crate) mod usage;
pub(crate) mod waits;

use self::group_state::{Shortage, blocked_by, shortage, state_bits};
use self::image_traffic::ImageCounts;
use self::op_history::{Latency, OpHistory, PerfBase};
use self::repairs::Repairs;
use self::schedule::Schedule;
use crate::env::{Options, Stage};
use crate::groups::Group;
use crate::operations::Operations;
use crate::operations::replies::Answered;
use crate::tokens::Token;
use crate::{Osd, limits};
use engine::{Duration, Time};
use serde_json::Value;
use std::collections::BTreeMap;
use store::{Outcome, RequestKind, StoreError, Usage};
use types::features::SUPPORTED;
use types::{Epoch, PgId, UTime};
use wire::MessageBody;
use wire::internal::{OsdUsage, PgStat, StatsAck, StatsReport, pg_state};

/// Duration that the first report of image traffic covers.
const COUNTED_FOR: Duration = Duration::from_secs(2);

/// State behind the reports to the monitor and the answers to administrators.
#[derive(Debug, Default)]
pub(crate) struct Report {
    schedule: Schedule,
    images: ImageCounts,
    history: OpHistory,
    repairs: Repairs,
}

/// State of one group according to the last report.
#[derive(Debug, Default)]
pub(crate) struct GroupReport {
    /// Number of unfound objects.
    unfound: u64,
    /// The state bits, and since when.
    reported: (u64, UTime),
}

impl GroupReport {
    /// When the state of the group last changed, as far as reports showed it.
    pub fn since(&self) -> UTime {
        self.reported.1
    }
}

impl Report {
    /// When the next report is due; `None` while one is being prepared.
    pub fn due(&self) -> Option<Time> {
        self.schedule.due()
    }

    /// Requests a report soon, because of a change.
    pub fn request(&mut self, now: Time) {
        self.schedule.request(now);
    }

    /// Requests a report of a group's state that is only of interest to people.
    pub fn request_soon(&mut self, now: Time) {
        self.schedule.request_soon(now);
    }

    /// Counts a client's request that was answered for the traffic of images, if the monitor wants that, and
    /// keeps it.
    pub fn note_answered(&mut self, now: Time, answered: Answered, options: &Options) {
        let Answered { request, output_bytes } = answered;
        if self.images.is_counting() {
            self.images.count(now, &request, output_bytes);
        }
        self.history.note(now, request, options);
    }

    /// Latencies of reads and of writes since the OSD started.
    pub fn latencies(&self) -> (Latency, Latency) {
        (self.history.reads, self.history.writes)
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
}

impl Osd {
    /// Begins a report, if one is due: requests the usage of the store.
    pub(crate) fn report_if_due(&mut self, now: Time) {
        if self.report.schedule.due().is_some_and(|due| due <= now) {
            self.report.schedule.begin(now);
            self.usage.begin_query();
            self.outbox.ask(Token::Usage, RequestKind::Usage);
        }
    }

    /// Sends a report with the usage of the store.
    pub(crate) fn usage_known(&mut self, now: Time, outcome: Result<Outcome, StoreError>) {
        self.report.schedule.end_query();
        if let Ok(Outcome::Usage(usage)) = outcome {
            self.usage.take_usage(usage);
        }
        // Repeated, in case the monitor has not got it.
        self.take_leave();
        let is_serving = self.env.stage != Stage::Failed;
        if is_serving {
            self.check_room(now);
            self.retry_recovery();
        }
        let Some(monitor) = self.monitor.conn() else { return };
        let sequence = self.report.schedule.count();
        let (images, images_ms) = self.report.images.take(now);
        let report = StatsReport {
            fsid: self.env.config.fsid,
            osd: self.env.config.id,
            map_epoch: self.epoch(),
            usage: usage_report(&self.usage.usage()),
            pgs: if is_serving { self.stats(now) } else { BTreeMap::new() },
            is_complete: is_serving,
            health: self.heartbeat_health().into_iter().chain(self.failure_health()).collect(),
            images,
            images_ms,
            slow: self.slow_requests(now),
            repaired_copies: self.report.repairs.copies(self.maps.map()),
        };
        let tid = self.stat_sequence(sequence);
        self.send(monitor, report.encode(SUPPORTED).with_tid(tid));
        self.tell_cluster_log(now);
        self.usage.count_injected();
    }

    /// The sequence number of a report; it continues to rise when the OSD restarts.
    fn stat_sequence(&self, sequence: u64) -> u64 {
        let up_from = self.maps.map().osd(self.id()).map_or(0, |osd| osd.info.up_from.0);
        u64::from(up_from) << 32 | sequence & u64::from(u32::MAX)
    }

    /// Reports now, and returns the sequence number of the report that includes the present state.
    pub(crate) fn flush_stats(&mut self) -> u64 {
        let sequence = self.report.schedule.flush(self.env.now);
        self.stat_sequence(sequence)
    }

    /// Counts the traffic of images if the monitor wants that. When this begins, the first report
    /// follows soon.
    pub(crate) fn take_stats_ack(&mut self, now: Time, ack: &StatsAck) {
        if ack.count_images > 0 && self.report.images.ask(now, ack.count_images) {
            self.report.schedule.request(now + COUNTED_FOR);
        }
    }

    /// Tells the groups when the disk becomes full, and when it no longer is.
    pub(crate) fn check_room(&mut self, now: Time) {
        if self.usage.is_outdated() {
            self.report.schedule.request(now);
        }
        let Some(is_full) = self.usage.take_change() else { return };
        tracing::warn!(osd = %self.env.config.id, is_full, "the disk crosses the limit of fullness");
        let pgs: Vec<PgId> = self.groups.by_id.keys().copied().collect();
        for pg in pgs {
            self.groups.by_id.get_mut(&pg).expect("it was just there").pg.set_room(!is_full);
            self.settle_group(pg);
        }
    }

    fn stats(&mut self, now: Time) -> BTreeMap<PgId, PgStat> {
        let (epoch, sequence) = (self.epoch(), self.report.schedule.sequence());
        let primaries = self.groups.by_id.iter_mut().filter(|(_, group)| group.pg.is_primary());
        let mut primaries: Vec<(PgId, &mut Box<Group>)> =
            primaries.map(|(pg, group)| (*pg, group)).collect();
        let lacking = primaries.iter().filter(|(_, group)| !group.pg.is_whole()).count();
        let looks = limits::UNFOUND_LOOKS_MAX / lacking.max(1);
        for (_, group) in &mut primaries {
            group.report.unfound = group.pg.count_unfound(looks);
        }
        let (stats, operations) = (primaries.into_iter(), &self.operations);
        stats
            .map(|(pg, group)| (pg, stat(group, operations, now.wall(), epoch, sequence)))
            .collect()
    }
}

fn usage_report(usage: &Usage) -> OsdUsage {
    OsdUsage {
        bytes_total: usage.bytes_total,
        bytes_available: usage.bytes_available,
        bytes_used: usage.bytes_used,
        bytes_omap: usage.bytes_omap,
        bytes_meta: usage.bytes_meta,
        objects: usage.objects,
        ..OsdUsage::default()
    }
}

fn stat(
    group: &mut Group,
    operations: &Operations,
    now: UTime,
    epoch: Epoch,
    sequence: u64,
) -> PgStat {
    let rests = if group.is_at_rest(operations) { pg_state::PREMERGE } else { 0 };
    let work = group.scrub.state_bits() | group.trim_state_bits();
    let state = state_bits(&group.pg) | work | rests;
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
        snaptrim_queue: group.left_to_trim(),
        purged_snaps: group.trim.purged().intervals().collect(),
        ..PgStat::default()
    }
}
