//! OSDs that come, live and go.
//!
//! An OSD is marked up when it boots, down when it says so, when another one found its port
//! closed, or when its session has been gone for [`DOWN_GRACE`].

use super::Monitor;
use super::job::{Effects, Job};
use crate::change::Change;
use crate::commands::crush_create_or_move;
use crate::keys;
use auth::Rwx;
use codec::DecodeError;
use engine::{ConnId, Message, Time};
use maps::{Incremental, OsdMapFlags, OsdState, WEIGHT_IN};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EntityAddrVec, Epoch, OsdId, Uuid};
use wire::{MessageBody, OsdAlive, OsdBeacon, OsdBoot, OsdFailure, OsdMarkMeDown, OsdPgTemp};

/// How long an OSD may be without a session before it is marked down.
const DOWN_GRACE: Duration = Duration::from_secs(20);
/// `mon_osd_down_out_interval`: when an OSD that is down loses its data to others.
const DOWN_OUT_INTERVAL: Duration = Duration::from_secs(600);
/// Numbers of OSDs are below; the map has a slot for each.
pub(crate) const OSD_ID_MAX: i32 = 10_000;

pub(super) const KINDS: [u16; 6] = [
    OsdBoot::KIND,
    OsdAlive::KIND,
    OsdFailure::KIND,
    OsdMarkMeDown::KIND,
    OsdPgTemp::KIND,
    OsdBeacon::KIND,
];

#[derive(Debug, Clone)]
pub(super) enum OsdJob {
    Boot { conn: ConnId, addrs: EntityAddrVec, boot: Box<OsdBoot> },
    Alive { osd: OsdId, want: Epoch, current: Epoch },
    Failure(OsdFailure),
    MarkMeDown { conn: ConnId, message: OsdMarkMeDown },
    PgTemp(OsdPgTemp),
}

/// Since when OSDs have no session.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    lost: BTreeMap<OsdId, Time>,
}

impl Liveness {
    pub fn heard(&mut self, osd: OsdId, _now: Time) {
        self.lost.remove(&osd);
    }

    pub fn lost(&mut self, osd: OsdId, now: Time) {
        self.lost.entry(osd).or_insert(now);
    }

    fn overdue(&self, now: Time) -> impl Iterator<Item = OsdId> {
        self.lost
            .iter()
            .filter(move |(_, since)| now.since(**since) >= DOWN_GRACE)
            .map(|(osd, _)| *osd)
    }
}

impl Monitor {
    pub(super) fn take_osd_message(
        &mut self,
        now: Time,
        conn: ConnId,
        message: &Message,
    ) -> Result<(), DecodeError> {
        let Some(session) = self.sessions.get(&conn) else { return Ok(()) };
        let Some(osd) = session.osd().filter(|_| session.may("osd", Rwx::EXECUTE)) else {
            tracing::warn!(peer = %session.peer.name, "only OSDs may speak as OSDs");
            return Ok(());
        };
        let addrs = session.peer.addrs.clone();
        self.liveness.heard(osd, now);
        let job = match message.kind {
            OsdBoot::KIND => {
                let boot = OsdBoot::decode(message)?;
                if boot.superblock.whoami != osd {
                    tracing::warn!(%osd, claimed = %boot.superblock.whoami, "an OSD boots as another");
                    return Ok(());
                }
                OsdJob::Boot { conn, addrs, boot: Box::new(boot) }
            }
            OsdAlive::KIND => {
                let alive = OsdAlive::decode(message)?;
                OsdJob::Alive { osd, want: alive.want, current: Epoch(alive.version as u32) }
            }
            OsdFailure::KIND => OsdJob::Failure(OsdFailure::decode(message)?),
            OsdMarkMeDown::KIND => {
                OsdJob::MarkMeDown { conn, message: OsdMarkMeDown::decode(message)? }
            }
            OsdPgTemp::KIND => OsdJob::PgTemp(OsdPgTemp::decode(message)?),
            _ => return Ok(()),
        };
        self.enqueue(Job::Osd(job));
        Ok(())
    }

    pub(super) fn run_osd_job(&mut self, now: Time, job: &OsdJob, change: &mut Change) -> Effects {
        match job {
            OsdJob::Boot { conn, addrs, boot } => {
                return self.boot(now, *conn, addrs, boot, change);
            }
            OsdJob::Alive { osd, want, current } => self.extend_life(*osd, *want, *current, change),
            OsdJob::Failure(failure) => self.judge_failure(failure, change),
            OsdJob::MarkMeDown { conn, message } => {
                return self.mark_down_on_request(*conn, message, change);
            }
            OsdJob::PgTemp(request) => self.set_pg_temp(request, change),
        }
        Effects::default()
    }

    fn boot(
        &mut self,
        now: Time,
        conn: ConnId,
        addrs: &EntityAddrVec,
        boot: &OsdBoot,
        change: &mut Change,
    ) -> Effects {
        let osd = boot.superblock.whoami;
        if !(0..OSD_ID_MAX).contains(&osd.0) {
            tracing::warn!(%osd, "the number of an OSD is out of range");
            return Effects::default();
        }
        let map = &self.state.osdmap;
        let registered = map.osd(osd).map(|known| known.uuid).unwrap_or_default();
        let store = boot.superblock.osd_fsid;
        if ![registered, Uuid::default()].contains(&store) && registered != Uuid::default() {
            tracing::warn!(%osd, %store, "an OSD may not boot with a store that was replaced");
            return Effects::default();
        }
        let refused = map.flags.contains(OsdMapFlags::NOUP)
            || map.osd(osd).is_some_and(|known| known.state.contains(OsdState::NOUP))
            || boot.superblock.cluster_fsid != map.fsid
                && boot.superblock.cluster_fsid != types::Uuid::default();
        if refused {
            tracing::warn!(%osd, "an OSD may not boot (noup, or another cluster)");
            return Effects::default();
        }
        if map.is_up(osd) {
            if map.client_addrs(osd) == Some(addrs) {
                // The same incarnation says it again: it missed the answer.
                self.keep_informed(now, conn, boot.superblock.newest_map.next());
                return Effects::default();
            }
            // A restart that was not noticed: the old incarnation ends in an epoch of its own.
            mark_down(change.osdmap(&self.state), osd);
            return Effects { again: true, ..Effects::default() };
        }
        self.mark_up(addrs, boot, change);
        self.keep_informed(now, conn, boot.superblock.newest_map.next());
        Effects::default()
    }

    fn mark_up(&self, addrs: &EntityAddrVec, boot: &OsdBoot, change: &mut Change) {
        let osd = boot.superblock.whoami;
        let state = &self.state;
        if osd.0 >= state.osdmap.max_osd() {
            change.osdmap(state).new_max_osd = Some(osd.0 + 1);
        }
        let host = boot.metadata.get("hostname").unwrap_or(&self.settings.hostname);
        crush_create_or_move(state, change, osd, host);
        self.note(1, format!("osd.{osd} {addrs} boot"), change);
        let metadata = serde_json::to_vec(&boot.metadata).unwrap_or_default();
        if state.osd_metadata.get(&osd) != Some(&boot.metadata) {
            change.put(keys::osd_metadata(osd), metadata);
        }
        let known = state.osdmap.osd(osd).cloned().unwrap_or_default();
        let incremental = change.osdmap(state);
        incremental.mark_up(
            osd,
            addrs.clone(),
            boot.cluster_addrs.clone(),
            boot.heartbeat_back_addrs.clone(),
            boot.heartbeat_front_addrs.clone(),
        );
        let store = boot.superblock.osd_fsid;
        if store != known.uuid && store != Uuid::default() {
            incremental.new_uuid.insert(osd, boot.superblock.osd_fsid);
        }
        let (mounted, clean_thru) = (boot.superblock.mounted, boot.superblock.clean_thru);
        if (mounted, clean_thru) > (known.info.last_clean_begin, known.info.last_clean_end) {
            incremental.new_last_clean_interval.insert(osd, (mounted, clean_thru));
        }
        let mut xinfo = known.xinfo;
        xinfo.features = boot.features;
        incremental.new_xinfo.insert(osd, xinfo);
        let was_out_by_itself = known.state.intersects(OsdState::NEW | OsdState::AUTOOUT);
        let may_in = !state.osdmap.flags.contains(OsdMapFlags::NOIN);
        if (was_out_by_itself || !known.exists()) && may_in {
            let weight = if xinfo.old_weight == 0 { WEIGHT_IN } else { xinfo.old_weight };
            incremental.new_weight.insert(osd, weight);
        }
    }

    fn extend_life(&self, osd: OsdId, want: Epoch, current: Epoch, change: &mut Change) {
        let map = &self.state.osdmap;
        let Some(known) = map.osd(osd).filter(|known| known.is_up()) else { return };
        if known.info.up_thru < want && want <= map.epoch {
            let thru = current.clamp(want, map.epoch);
            change.osdmap(&self.state).new_up_thru.insert(osd, thru);
        }
    }

    fn judge_failure(&self, failure: &OsdFailure, change: &mut Change) {
        let certain = OsdFailure::FAILED | OsdFailure::IMMEDIATE;
        let is_current =
            self.state.osdmap.client_addrs(failure.target) == Some(&failure.target_addrs);
        if failure.flags & certain == certain && is_current && self.may_mark_down(failure.target) {
            mark_down(change.osdmap(&self.state), failure.target);
            let text = format!("osd.{} failed: its port is closed", failure.target);
            self.note(1, text, change);
        }
    }

    fn may_mark_down(&self, osd: OsdId) -> bool {
        let map = &self.state.osdmap;
        map.is_up(osd)
            && !map.flags.contains(OsdMapFlags::NODOWN)
            && !map.osd(osd).is_some_and(|known| known.state.contains(OsdState::NODOWN))
    }

    fn mark_down_on_request(
        &self,
        conn: ConnId,
        message: &OsdMarkMeDown,
        change: &mut Change,
    ) -> Effects {
        let osd = message.target;
        let is_current = self.state.osdmap.client_addrs(osd) == Some(&message.target_addrs);
        if is_current && self.may_mark_down(osd) {
            let incremental = change.osdmap(&self.state);
            mark_down(incremental, osd);
            if message.down_and_dead
                && let Some(known) = self.state.osdmap.osd(osd)
            {
                let mut xinfo = known.xinfo;
                xinfo.dead_epoch = self.state.osdmap.epoch;
                incremental.new_xinfo.insert(osd, xinfo);
            }
        }
        if !message.request_ack {
            return Effects::default();
        }
        let features = self.sessions.get(&conn).map_or(0, |session| session.peer.features);
        let ack = OsdMarkMeDown { request_ack: false, ..message.clone() };
        Effects::message(conn, ack.encode(features))
    }

    fn set_pg_temp(&self, request: &OsdPgTemp, change: &mut Change) {
        let map = &self.state.osdmap;
        for (pg, osds) in &request.pg_temp {
            let exists = map.pool(pg.pool).is_some_and(|pool| pg.seed < pool.pg_num);
            let known = map.pg_temp.get(pg).map_or(&[][..], Vec::as_slice);
            let valid = osds.iter().all(|osd| *osd == OsdId::NONE || map.exists(*osd));
            if exists && valid && known != osds {
                change.osdmap(&self.state).new_pg_temp.insert(*pg, osds.clone());
            }
        }
    }

    /// Marks down whoever has been gone too long, and out whoever has been down too long.
    pub(super) fn plan_liveness(&self, now: Time, change: &mut Change) {
        for osd in self.liveness.overdue(now).filter(|osd| self.may_mark_down(*osd)) {
            mark_down(change.osdmap(&self.state), osd);
        }
        let map = &self.state.osdmap;
        if map.flags.contains(OsdMapFlags::NOOUT) {
            return;
        }
        for (osd, known) in map.existing_osds() {
            let down_at = Time(known.xinfo.down_stamp.as_nanos());
            let is_overdue = down_at > Time::ZERO && now.since(down_at) >= DOWN_OUT_INTERVAL;
            let is_held = known.state.intersects(OsdState::UP | OsdState::NOOUT);
            if is_overdue && !is_held && known.is_in() {
                let incremental = change.osdmap(&self.state);
                let mut xinfo = known.xinfo;
                xinfo.old_weight = known.weight;
                incremental.new_xinfo.insert(osd, xinfo);
                incremental.new_weight.insert(osd, 0);
                incremental.new_state.insert(osd, OsdState::AUTOOUT);
            }
        }
    }
}

/// Ends an OSD's life in this epoch; the map itself notes when.
pub(crate) fn mark_down(incremental: &mut Incremental, osd: OsdId) {
    incremental.new_state.insert(osd, OsdState::UP);
}
