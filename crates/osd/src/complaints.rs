//! Reports of an OSD on its own initiative: slow requests, repaired copies, and large omaps.

use crate::request::{Origin, Request};
use crate::{Osd, limits};
use engine::Time;
use pg::Pg;
use pg::scrub::OmapSize;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use types::features::SUPPORTED;
use types::{EntityName, Epoch, HObject, OsdId, ParticipantName, PgId};
use wire::internal::SlowRequests;
use wire::{Log, LogEntry, MessageBody};

/// How a bad copy was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FoundBy {
    Scrub,
    Read,
}

/// Repairs and log lines that are to be reported.
#[derive(Debug, Default)]
pub(crate) struct Repairs {
    /// Repaired copies per OSD, since it came up in this epoch.
    copies: BTreeMap<OsdId, (Epoch, u64)>,
    /// Repairs that are not in the cluster log yet: number of objects, and OSDs with bad copies.
    untold: BTreeMap<(PgId, FoundBy), (u64, BTreeSet<OsdId>)>,
    /// Other lines for the cluster log.
    texts: VecDeque<String>,
    /// Sequence number of the latest entry in the cluster log.
    lines: u64,
}

impl Repairs {
    /// The next line for the cluster log. Each group has one line per report, however many of its
    /// objects were repaired.
    fn next_line(&mut self) -> Option<String> {
        let Some(((pg, found_by), (objects, osds))) = self.untold.pop_first() else {
            return self.texts.pop_front();
        };
        let osds: Vec<String> = osds.iter().map(|osd| format!("osd.{osd}")).collect();
        let found_by = if found_by == FoundBy::Scrub { "scrub" } else { "read" };
        let plural = if objects == 1 { "" } else { "s" };
        let osds = osds.join(",");
        Some(format!(
            "{pg} {found_by}: {objects} object{plural} repaired, bad copies were on {osds}"
        ))
    }
}

impl Osd {
    /// Notes that bad copies of one object are replaced from a good one.
    pub(crate) fn note_repair(&mut self, pg: PgId, found_by: FoundBy, bad: &[OsdId]) {
        let repairs = &mut self.repairs;
        for osd in bad {
            let life = self.map.osd(*osd).map_or(Epoch(0), |known| known.info.up_from);
            let known = repairs.copies.entry(*osd).or_insert((life, 0));
            let before = if known.0 == life { known.1 } else { 0 };
            *known = (life, before + 1);
        }
        let (objects, osds) = repairs.untold.entry((pg, found_by)).or_default();
        *objects += 1;
        osds.extend(bad);
    }

    /// Notes an object whose omap exceeds a threshold. The text is Ceph's, because scripts search for it.
    pub(crate) fn note_large_omap(&mut self, pg: PgId, object: &HObject, size: OmapSize) {
        let OmapSize { keys, bytes } = size;
        let (pool, hash) = (object.pool, object.hash);
        let text = format!(
            "Large omap object found. Object: {object} PG: {pool}.{hash:x} ({pg}) \
             Key count: {keys} Size (bytes): {bytes}"
        );
        if self.repairs.texts.len() < limits::LOG_LINES_WAITING_MAX {
            self.repairs.texts.push_back(text);
        }
    }

    /// Repaired copies per OSD. OSDs that have restarted since, maybe with another disk, begin at zero.
    pub(crate) fn repaired_copies(&mut self) -> BTreeMap<OsdId, u64> {
        let map = &self.map;
        self.repairs.copies.retain(|osd, (life, _)| {
            map.osd(*osd).is_some_and(|known| known.info.up_from == *life)
        });
        self.repairs.copies.iter().map(|(osd, (_, copies))| (*osd, *copies)).collect()
    }

    /// An entry for the cluster log with the next sequence number of this OSD.
    pub(crate) fn cluster_log_entry(&mut self, now: Time, severity: u16, text: String) -> LogEntry {
        let id = self.config.id.0;
        self.repairs.lines += 1;
        LogEntry {
            name: EntityName::osd(id),
            rank: ParticipantName::new(types::EntityType::OSD, id.into()),
            addrs: self.config.addrs.clone(),
            stamp: now.wall(),
            sequence: self.repairs.lines,
            severity,
            text,
            channel: "cluster".to_owned(),
        }
    }

    /// Sends waiting lines to the cluster log, a bounded number with each report.
    pub(crate) fn tell_cluster_log(&mut self, now: Time) {
        const WARNING: u16 = 3;
        let Some(monitor) = self.monitor.conn() else { return };
        let mut entries = Vec::new();
        while entries.len() < limits::LOG_LINES_MAX
            && let Some(text) = self.repairs.next_line()
        {
            entries.push(self.cluster_log_entry(now, WARNING, text));
        }
        if !entries.is_empty() {
            let log = Log { version: 0, fsid: self.config.fsid, entries };
            self.send(monitor, log.encode(SUPPORTED));
        }
    }

    /// Clients' requests that are older than `osd_op_complaint_time` and not answered, with the
    /// state of the oldest.
    pub(crate) fn slow_requests(&self, now: Time) -> SlowRequests {
        let limit = self.options.op_complaint_time;
        let mut slow = SlowRequests::default();
        let mut oldest = None;
        for (key, request) in self.requests.iter() {
            let age = now.since(request.arrived);
            if !matches!(request.origin, Origin::Client { .. }) || age < limit {
                continue;
            }
            slow.count += 1;
            let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
            if age >= slow.oldest_ms {
                (slow.oldest_ms, slow.oldest_in) = (age, request.pg);
                oldest = Some((key, request));
            }
        }
        if let Some((key, request)) = oldest {
            slow.state = self.state_of_wait(now, key, request);
        }
        slow
    }

    /// `active+clean; it waits for osd.1 to store it`
    fn state_of_wait(&self, now: Time, key: u64, request: &Request) -> String {
        let group = self.groups.get(&request.pg);
        let state = group.map_or_else(|| "not here".to_owned(), |group| state_text(&group.pg));
        match self.cause_of_wait(now, key, request) {
            None => state,
            Some(cause) => format!("{state}; it {cause}"),
        }
    }
}

fn state_text(pg: &Pg) -> String {
    wire::internal::pg_state::to_text(crate::report::state_bits(pg))
}
