//! Entries of this OSD in the cluster log: repaired copies, large omaps, and those of administrators.

use super::Report;
use crate::cx::Cx;
use crate::env::Env;
use crate::limits;
use crate::report::repairs::FoundBy;
use crate::sessions::monitor::MonitorLink;
use maps::OsdMap;
use pg::scrub::OmapSize;
use types::features::SUPPORTED;
use types::{EntityName, EntityType, Epoch, HObject, OsdId, ParticipantName, PgId};
use wire::{Log, LogEntry, MessageBody};

/// `CLOG_WARN`
const WARNING: u16 = 3;

impl Report {
    /// Notes that bad copies of one object are replaced from a good one.
    pub fn note_repair(&mut self, map: &OsdMap, pg: PgId, found_by: FoundBy, bad: &[OsdId]) {
        let life_of = |osd| map.osd(osd).map_or(Epoch(0), |known| known.info.up_from);
        self.repairs.note(pg, found_by, bad, life_of);
    }

    /// Notes an object whose omap exceeds a threshold. The text is Ceph's, because scripts search for it.
    pub fn note_large_omap(&mut self, pg: PgId, object: &HObject, size: OmapSize) {
        let OmapSize { keys, bytes } = size;
        let (pool, hash) = (object.pool, object.hash);
        let text = format!(
            "Large omap object found. Object: {object} PG: {pool}.{hash:x} ({pg}) \
             Key count: {keys} Size (bytes): {bytes}"
        );
        self.repairs.note_text(text);
    }

    /// Sends an entry with this text immediately; false if no monitor is reached at the moment.
    pub fn log(
        &mut self,
        cx: &mut Cx<'_>,
        monitor: &MonitorLink,
        severity: u16,
        text: String,
    ) -> bool {
        let Some(conn) = monitor.conn() else { return false };
        let entry = self.log_entry(cx.env, severity, text);
        let log = Log { version: 0, fsid: cx.env.config.fsid, entries: vec![entry] };
        cx.out.send(conn, log.encode(SUPPORTED));
        true
    }

    /// Sends waiting lines, a bounded number with each report.
    pub(super) fn log_waiting(&mut self, cx: &mut Cx<'_>, monitor: &MonitorLink) {
        let Some(conn) = monitor.conn() else { return };
        let mut entries = Vec::new();
        while entries.len() < limits::LOG_LINES_MAX
            && let Some(text) = self.repairs.next_line()
        {
            entries.push(self.log_entry(cx.env, WARNING, text));
        }
        if !entries.is_empty() {
            let log = Log { version: 0, fsid: cx.env.config.fsid, entries };
            cx.out.send(conn, log.encode(SUPPORTED));
        }
    }

    /// An entry with the next sequence number of this OSD.
    fn log_entry(&mut self, env: &Env, severity: u16, text: String) -> LogEntry {
        let id = env.config.id.0;
        LogEntry {
            name: EntityName::osd(id),
            rank: ParticipantName::new(EntityType::OSD, id.into()),
            addrs: env.config.addrs.clone(),
            stamp: env.now.wall(),
            sequence: self.repairs.next_number(),
            severity,
            text,
            channel: "cluster".to_owned(),
        }
    }
}

/// The severity of a level, `CLOG_*`.
pub(crate) fn severity(level: &str) -> Option<u16> {
    match level {
        "debug" => Some(0),
        "info" => Some(1),
        "warning" => Some(WARNING),
        "error" => Some(4),
        _ => None,
    }
}
