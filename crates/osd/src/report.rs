//! What the monitor is told about this OSD and the groups whose primary it is.

use crate::groups::Group;
use crate::storage::Pending;
use crate::{Osd, limits};
use engine::{Duration, Time};
use pg::{Pg, State};
use std::collections::BTreeMap;
use store::{Outcome, RequestKind, StoreError, Usage};
use types::features::SUPPORTED;
use types::{Epoch, PgId, UTime};
use wire::MessageBody;
use wire::internal::{OsdUsage, PgStat, StatsReport, pg_state};

/// Changes are gathered for so long.
const GATHER: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
pub(crate) struct Reporting {
    due: Option<Time>,
    usage: Usage,
    is_asking: bool,
    sequence: u64,
    /// Bytes of commits on their way, of those done since `usage` was asked for, and of the latter
    /// when it was asked for anew.
    in_flight: u64,
    stored: u64,
    stored_before: u64,
    /// As the groups were told.
    was_full: bool,
}

impl Reporting {
    pub fn due(&self) -> Option<Time> {
        self.due.filter(|_| !self.is_asking)
    }

    /// Something changed that the monitor should know soon.
    pub fn request(&mut self, now: Time) {
        let soon = now + GATHER;
        self.due = Some(self.due.map_or(soon, |due| due.min(soon)));
    }

    /// Whether so little is free that only deletions are safe.
    pub fn is_disk_full(&self) -> bool {
        let Usage { bytes_total, bytes_available, .. } = self.usage;
        let taken = self.in_flight + self.stored;
        let free = bytes_available.saturating_sub(taken);
        bytes_total > 0 && free < bytes_total / 100 * limits::FAILSAFE_FREE_PERCENT
    }

    pub fn begin_commit(&mut self, bytes: u64) {
        self.in_flight += bytes;
    }

    pub fn end_commit(&mut self, bytes: u64) {
        self.in_flight -= bytes;
        self.stored += bytes;
    }

    /// Commits may have taken so much that the usage should be asked for again. Not all that they
    /// bring is new, so that what is known may be far too low.
    fn is_outdated(&self) -> bool {
        let Usage { bytes_total, bytes_available, .. } = self.usage;
        bytes_total > 0 && self.stored > bytes_available / 2
    }
}

impl Osd {
    pub(crate) fn report_if_due(&mut self, now: Time) {
        if self.reporting.due().is_some_and(|due| due <= now) {
            self.reporting.is_asking = true;
            self.reporting.stored_before = self.reporting.stored;
            self.reporting.due = Some(now + limits::REPORT_INTERVAL);
            self.ask_store(Pending::Usage, RequestKind::Usage);
        }
    }

    pub(crate) fn usage_known(&mut self, now: Time, outcome: Result<Outcome, StoreError>) {
        self.reporting.is_asking = false;
        if let Ok(Outcome::Usage(usage)) = outcome {
            self.reporting.usage = usage;
            self.reporting.stored -= self.reporting.stored_before;
        }
        self.check_room(now);
        let Some(monitor) = self.monitor.conn() else { return };
        self.reporting.sequence += 1;
        let report = StatsReport {
            fsid: self.config.fsid,
            osd: self.config.id,
            map_epoch: self.epoch(),
            usage: usage_report(&self.reporting.usage),
            pgs: self.stats(now),
            is_complete: true,
            health: BTreeMap::new(),
        };
        let tid = self.reporting.sequence;
        self.send(monitor, report.encode(SUPPORTED).with_tid(tid));
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
        tracing::warn!(osd = %self.config.id, is_full, "the disk crosses the limit of fullness");
        let pgs: Vec<PgId> = self.groups.keys().copied().collect();
        for pg in pgs {
            self.groups.get_mut(&pg).expect("it was just there").pg.set_room(!is_full);
            self.pump_group(now, pg);
        }
    }

    fn stats(&mut self, now: Time) -> BTreeMap<PgId, PgStat> {
        let (epoch, sequence) = (self.epoch(), self.reporting.sequence);
        let primaries = self.groups.iter_mut().filter(|(_, group)| group.pg.is_primary());
        primaries.map(|(pg, group)| (*pg, stat(group, now.wall(), epoch, sequence))).collect()
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
    let state = state_bits(&group.pg);
    if group.reported.0 != state {
        group.reported = (state, now);
    }
    let (pg, info, members) = (&group.pg, group.pg.info(), group.pg.members());
    let when = |is: bool| if is { now } else { UTime::ZERO };
    let absent = members.size.saturating_sub(members.acting.len()) as u64;
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
        copies: info.objects * members.size as u64,
        degraded: info.objects * absent + pg.objects_missing() as u64,
        bytes: info.bytes,
        reads: group.counters.reads,
        read_bytes: group.counters.read_bytes,
        writes: group.counters.writes,
        write_bytes: group.counters.write_bytes,
        last_epoch_clean: if pg.is_clean() { epoch } else { Epoch(0) },
        ..PgStat::default()
    }
}

pub(crate) fn state_bits(pg: &Pg) -> u64 {
    use pg_state::*;
    let short = pg.members().acting.len() < pg.members().size;
    let shortage = if short { UNDERSIZED | DEGRADED } else { 0 };
    match pg.state() {
        State::Active if short => ACTIVE | shortage,
        State::Active => ACTIVE | CLEAN,
        State::Activating => ACTIVATING | shortage,
        State::Inactive => PEERED | shortage,
        State::Incomplete => INCOMPLETE | shortage,
        State::Refused | State::Stalled => PEERED | RECOVERY_TOOFULL | shortage,
        State::Failed => DOWN,
        _ => PEERING | shortage,
    }
}
