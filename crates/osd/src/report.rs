//! Statistics for the monitor about this OSD and the groups whose primary it is.

pub(crate) mod group_state;
pub(crate) mod repairs;

use self::group_state::{Shortage, blocked_by, shortage, state_bits};
use crate::env::Stage;
use crate::groups::Group;
use crate::tokens::Token;
use crate::{Osd, limits};
use engine::{Duration, Time};
use std::collections::BTreeMap;
use store::{Outcome, RequestKind, StoreError, Usage};
use types::features::SUPPORTED;
use types::{Epoch, PgId, UTime};
use wire::MessageBody;
use wire::internal::{OsdUsage, PgStat, StatsAck, StatsReport, pg_state};

/// Changes are gathered for so long before a report.
const GATHER: Duration = Duration::from_millis(50);
/// Minimum distance of reports that are only about states of groups: while many recover, each
/// report covers several.
const SPACING: Duration = Duration::from_millis(500);

/// Duration that the first report of image traffic covers.
const COUNTED_FOR: Duration = Duration::from_secs(2);

/// When the next report is due, and the space on the disk.
#[derive(Debug, Default)]
pub(crate) struct Reporting {
    due: Option<Time>,
    last: Time,
    usage: Usage,
    is_asking: bool,
    sequence: u64,
    /// Bytes of commits in flight; of those completed since `usage` was requested; and of the
    /// latter when it was last requested.
    in_flight: u64,
    stored: u64,
    stored_before: u64,
    /// Whether the groups consider the disk full.
    was_full: bool,
    shortage: Shortfall,
    /// The usage set by `injectfull`.
    injected: Option<Injected>,
}

/// A simulated fill level, for so many reports; without limit if `None`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Injected {
    /// The used share, 0 to 1.
    pub used: f64,
    pub reports: Option<u64>,
}

/// Whether the store refused a write for lack of space, although its usage seemed to allow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Shortfall {
    #[default]
    None,
    /// The available space at that time is not known yet.
    Noted,
    /// Lasts until more bytes than this are available.
    Until(u64),
}

impl Reporting {
    /// When the next report is due; `None` while the store's usage is requested for one.
    pub fn due(&self) -> Option<Time> {
        self.due.filter(|_| !self.is_asking)
    }

    /// Requests a report soon, because of a change.
    pub fn request(&mut self, now: Time) {
        let soon = now + GATHER;
        self.due = Some(self.due.map_or(soon, |due| due.min(soon)));
    }

    /// Requests a report of a group's state that is only of interest to people.
    pub fn request_soon(&mut self, now: Time) {
        self.request(now.max(self.last + SPACING));
    }

    /// Whether so little is free that only deletions are safe.
    pub fn is_disk_full(&self) -> bool {
        self.shortage != Shortfall::None || self.is_less_free_than(limits::FAILSAFE_FREE_PERCENT)
    }

    /// Whether too little is free to be backfilled with more groups.
    pub fn is_backfill_full(&self) -> bool {
        self.is_less_free_than(limits::BACKFILL_FREE_PERCENT)
    }

    /// Sets or clears the simulated fill level.
    pub fn inject(&mut self, injected: Option<Injected>) {
        self.injected = injected;
    }

    /// The usage as the store reported it, or as injected.
    pub fn usage(&self) -> Usage {
        let mut usage = self.usage;
        if let Some(Injected { used, .. }) = self.injected {
            let free = (usage.bytes_total as f64 * (1.0 - used)).max(0.0) as u64;
            usage.bytes_available = usage.bytes_available.min(free);
            usage.bytes_used = usage.bytes_used.max(usage.bytes_total - usage.bytes_available);
        }
        usage
    }

    /// Ends an injected usage after its number of reports.
    fn count_injected(&mut self) {
        if let Some(Injected { reports: Some(left), .. }) = &mut self.injected {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.injected = None;
            }
        }
    }

    fn is_less_free_than(&self, percent: u64) -> bool {
        let Usage { bytes_total, bytes_available, .. } = self.usage();
        let taken = self.in_flight + self.stored;
        let free = bytes_available.saturating_sub(taken);
        bytes_total > 0 && free < bytes_total / 100 * percent
    }

    /// Counts a commit that adds `bytes`; [`Reporting::end_commit`] must follow.
    pub fn begin_commit(&mut self, bytes: u64) {
        self.in_flight += bytes;
    }

    /// Counts a commit as completed, whatever its outcome.
    pub fn end_commit(&mut self, bytes: u64) {
        self.in_flight -= bytes;
        self.stored += bytes;
    }

    /// Notes that the store refused a write. Its available space is an estimate.
    pub fn note_refusal(&mut self, now: Time) {
        self.shortage = Shortfall::Noted;
        self.request(now);
    }

    fn take_usage(&mut self, usage: Usage) {
        self.usage = usage;
        self.stored -= self.stored_before;
        self.shortage = match self.shortage {
            // Otherwise the kind of the write was the cause, and another one may succeed.
            Shortfall::Noted if self.is_backfill_full() => Shortfall::Until(usage.bytes_available),
            Shortfall::Noted => Shortfall::None,
            Shortfall::Until(floor) if usage.bytes_available > floor => Shortfall::None,
            same => same,
        };
    }

    /// Whether commits may have used so much space that the usage should be requested again. They
    /// may overwrite data, so the known usage may be far too pessimistic.
    fn is_outdated(&self) -> bool {
        let Usage { bytes_total, bytes_available, .. } = self.usage;
        bytes_total > 0 && self.stored > bytes_available / 2
    }
}

impl Osd {
    /// Begins a report, if one is due: requests the usage of the store.
    pub(crate) fn report_if_due(&mut self, now: Time) {
        if self.reporting.due().is_some_and(|due| due <= now) {
            self.reporting.is_asking = true;
            self.reporting.last = now;
            self.reporting.stored_before = self.reporting.stored;
            self.reporting.due = Some(now + limits::REPORT_INTERVAL);
            self.outbox.ask(Token::Usage, RequestKind::Usage);
        }
    }

    /// Sends a report with the usage of the store.
    pub(crate) fn usage_known(&mut self, now: Time, outcome: Result<Outcome, StoreError>) {
        self.reporting.is_asking = false;
        if let Ok(Outcome::Usage(usage)) = outcome {
            self.reporting.take_usage(usage);
        }
        // Repeated, in case the monitor has not got it.
        self.take_leave();
        let is_serving = self.env.stage != Stage::Failed;
        if is_serving {
            self.check_room(now);
            self.retry_recovery(now);
        }
        let Some(monitor) = self.monitor.conn() else { return };
        self.reporting.sequence += 1;
        let (images, images_ms) = self.images.take(now);
        let report = StatsReport {
            fsid: self.env.config.fsid,
            osd: self.env.config.id,
            map_epoch: self.epoch(),
            usage: usage_report(&self.reporting.usage()),
            pgs: if is_serving { self.stats(now) } else { BTreeMap::new() },
            is_complete: is_serving,
            health: self.heartbeat_health().into_iter().chain(self.failure_health()).collect(),
            images,
            images_ms,
            slow: self.slow_requests(now),
            repaired_copies: self.repairs.copies(&self.map),
        };
        let tid = self.stat_sequence(self.reporting.sequence);
        self.send(monitor, report.encode(SUPPORTED).with_tid(tid));
        self.tell_cluster_log(now);
        self.reporting.count_injected();
    }

    /// The sequence number of a report; it continues to rise when the OSD restarts.
    fn stat_sequence(&self, sequence: u64) -> u64 {
        let up_from = self.map.osd(self.id()).map_or(0, |osd| osd.info.up_from.0);
        u64::from(up_from) << 32 | sequence & u64::from(u32::MAX)
    }

    /// Reports now, and returns the sequence number of the report that includes the present state.
    /// A report that is being prepared may have older usage.
    pub(crate) fn flush_stats(&mut self) -> u64 {
        let next = if self.reporting.is_asking { 2 } else { 1 };
        self.reporting.due = Some(self.env.now);
        self.stat_sequence(self.reporting.sequence + next)
    }

    /// Counts the traffic of images if the monitor wants that. When this begins, the first report
    /// follows soon.
    pub(crate) fn take_stats_ack(&mut self, now: Time, ack: &StatsAck) {
        if ack.count_images > 0 && self.images.ask(now, ack.count_images) {
            self.reporting.request(now + COUNTED_FOR);
        }
    }

    /// Tells the groups when the disk becomes full, and when it no longer is.
    pub(crate) fn check_room(&mut self, now: Time) {
        if self.reporting.is_outdated() {
            self.reporting.request(now);
        }
        let is_full = self.reporting.is_disk_full();
        if is_full == self.reporting.was_full {
            return;
        }
        self.reporting.was_full = is_full;
        tracing::warn!(osd = %self.env.config.id, is_full, "the disk crosses the limit of fullness");
        let pgs: Vec<PgId> = self.groups.keys().copied().collect();
        for pg in pgs {
            self.groups.get_mut(&pg).expect("it was just there").pg.set_room(!is_full);
            self.pump_group(now, pg);
        }
    }

    fn stats(&mut self, now: Time) -> BTreeMap<PgId, PgStat> {
        let (epoch, sequence) = (self.epoch(), self.reporting.sequence);
        let primaries = self.groups.iter_mut().filter(|(_, group)| group.pg.is_primary());
        let mut primaries: Vec<(PgId, &mut Box<Group>)> =
            primaries.map(|(pg, group)| (*pg, group)).collect();
        let lacking = primaries.iter().filter(|(_, group)| !group.pg.is_whole()).count();
        let looks = limits::UNFOUND_LOOKS_MAX / lacking.max(1);
        for (_, group) in &mut primaries {
            group.unfound = group.pg.count_unfound(looks);
        }
        let stats = primaries.into_iter();
        stats.map(|(pg, group)| (pg, stat(group, now.wall(), epoch, sequence))).collect()
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

fn stat(group: &mut Group, now: UTime, epoch: Epoch, sequence: u64) -> PgStat {
    let rests = if group.is_at_rest() { pg_state::PREMERGE } else { 0 };
    let work = group.scrub.state_bits() | group.trim_state_bits();
    let state = state_bits(&group.pg) | work | rests;
    if group.reported.0 != state {
        group.reported = (state, now);
    }
    let (pg, info, members) = (&group.pg, group.pg.info(), group.pg.members());
    let stamps = group.scrub.stamps.unwrap_or_default();
    let when = |is: bool| if is { now } else { UTime::ZERO };
    let Shortage { degraded, misplaced } = shortage(pg);
    PgStat {
        state,
        version: info.last_update,
        reported_epoch: epoch,
        reported_sequence: sequence,
        last_change: group.reported.1,
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
        unfound: group.unfound,
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
        repaired: group.scrub.repairs,
        snaptrim_queue: group.left_to_trim(),
        purged_snaps: group.trim.purged.intervals().collect(),
        ..PgStat::default()
    }
}
