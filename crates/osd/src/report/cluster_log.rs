//! Reports of an OSD on its own initiative: slow requests, repaired copies, and large omaps.

use crate::operations::request::{Origin, Request};
use crate::report::repairs::FoundBy;
use crate::{Osd, limits};
use engine::Time;
use pg::Pg;
use pg::scrub::OmapSize;
use types::features::SUPPORTED;
use types::{EntityName, Epoch, HObject, OsdId, ParticipantName, PgId};
use wire::internal::SlowRequests;
use wire::{Log, LogEntry, MessageBody};

impl Osd {
    /// Notes that bad copies of one object are replaced from a good one.
    pub(crate) fn note_repair(&mut self, pg: PgId, found_by: FoundBy, bad: &[OsdId]) {
        let map = self.maps.map();
        let life_of = |osd| map.osd(osd).map_or(Epoch(0), |known| known.info.up_from);
        self.report.repairs.note(pg, found_by, bad, life_of);
    }

    /// Notes an object whose omap exceeds a threshold. The text is Ceph's, because scripts search for it.
    pub(crate) fn note_large_omap(&mut self, pg: PgId, object: &HObject, size: OmapSize) {
        let OmapSize { keys, bytes } = size;
        let (pool, hash) = (object.pool, object.hash);
        let text = format!(
            "Large omap object found. Object: {object} PG: {pool}.{hash:x} ({pg}) \
             Key count: {keys} Size (bytes): {bytes}"
        );
        self.report.repairs.note_text(text);
    }

    /// An entry for the cluster log with the next sequence number of this OSD.
    pub(crate) fn cluster_log_entry(&mut self, now: Time, severity: u16, text: String) -> LogEntry {
        let id = self.env.config.id.0;
        LogEntry {
            name: EntityName::osd(id),
            rank: ParticipantName::new(types::EntityType::OSD, id.into()),
            addrs: self.env.config.addrs.clone(),
            stamp: now.wall(),
            sequence: self.report.repairs.next_number(),
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
            && let Some(text) = self.report.repairs.next_line()
        {
            entries.push(self.cluster_log_entry(now, WARNING, text));
        }
        if !entries.is_empty() {
            let log = Log { version: 0, fsid: self.env.config.fsid, entries };
            self.send(monitor, log.encode(SUPPORTED));
        }
    }

    /// Clients' requests that are older than `osd_op_complaint_time` and not answered, with the
    /// state of the oldest.
    pub(crate) fn slow_requests(&self, now: Time) -> SlowRequests {
        let limit = self.env.options.op_complaint_time;
        let mut slow = SlowRequests::default();
        let mut oldest = None;
        for (key, request) in self.operations.iter() {
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
        let group = self.groups.by_id.get(&request.pg);
        let state = group.map_or_else(|| "not here".to_owned(), |group| state_text(&group.pg));
        match self.cause_of_wait(now, key, request) {
            None => state,
            Some(cause) => format!("{state}; it {cause}"),
        }
    }
}

fn state_text(pg: &Pg) -> String {
    wire::internal::pg_state::to_text(crate::report::group_state::state_bits(pg))
}
