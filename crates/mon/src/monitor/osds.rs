//! Requests of OSDs: boots, `up_thru`, failure reports, `pg_temp`.
//!
//! An OSD is marked up when it boots. It is marked down on its own request, by failure detection
//! (`verdicts`), or when its session or its reports have been missing for too long (`liveness`).

use super::Monitor;
use super::pipeline::Rejection;
use crate::change::Change;
use crate::commands::{POOL_SIZE_MAX, crush_create_or_move};
use crate::failures::judge_past;
use crate::job::{Boot, Effects, OsdJob};
use crate::keys;
use crate::state::OSD_ID_MAX;
use auth::Rwx;
use codec::DecodeError;
use engine::{ConnId, Message, Time};
use maps::{Osd, OsdState, WEIGHT_IN};
use std::collections::{BTreeMap, BTreeSet};
use types::{EntityAddrVec, Epoch, OsdId, PgId, Uuid};
use wire::{MessageBody, OsdAlive, OsdBeacon, OsdBoot, OsdFailure, OsdMarkMeDown, OsdPgTemp};

/// Kinds of messages that only OSDs send.
pub(super) const KINDS: [u16; 6] = [
    OsdBoot::KIND,
    OsdAlive::KIND,
    OsdFailure::KIND,
    OsdMarkMeDown::KIND,
    OsdPgTemp::KIND,
    OsdBeacon::KIND,
];

impl Monitor {
    /// Handles a message of an OSD; ignores it if the session has no execute permission on `osd`.
    pub(super) fn take_osd_message(
        &mut self,
        now: Time,
        conn: ConnId,
        message: &Message,
    ) -> Result<(), DecodeError> {
        let Some(session) = self.sessions.get(conn) else { return Ok(()) };
        let Some(osd) = session.osd().filter(|_| session.may("osd", Rwx::EXECUTE)) else {
            tracing::warn!(peer = %session.peer().name, "only OSDs may speak as OSDs");
            return Ok(());
        };
        let addrs = session.peer().addrs.clone();
        self.liveness.heard(osd, now);
        let job = match message.kind {
            OsdBoot::KIND => {
                let boot = OsdBoot::decode(message)?;
                if boot.superblock.whoami != osd {
                    tracing::warn!(%osd, claimed = %boot.superblock.whoami, "an OSD boots as another");
                    return Ok(());
                }
                self.note_epoch_of_osd(now, osd, boot.superblock.newest_map);
                let boot = Boot { conn, addrs, message: Box::new(boot) };
                self.gather_boot(now, osd, boot);
                return Ok(());
            }
            OsdAlive::KIND => {
                let alive = OsdAlive::decode(message)?;
                let newest = Epoch(u32::try_from(alive.version).unwrap_or(u32::MAX));
                self.note_epoch_of_osd(now, osd, newest);
                OsdJob::Alive([(osd, (alive.want, newest))].into())
            }
            OsdFailure::KIND => OsdJob::Failures(vec![(osd, OsdFailure::decode(message)?)]),
            OsdMarkMeDown::KIND => {
                let message = OsdMarkMeDown::decode(message)?;
                if message.target != osd {
                    tracing::warn!(%osd, target = %message.target, "an OSD says goodbye as another");
                    return Ok(());
                }
                OsdJob::MarkMeDown { conn, message }
            }
            OsdPgTemp::KIND => {
                let wish = OsdPgTemp::decode(message)?;
                self.note_epoch_of_osd(now, osd, wish.map_epoch);
                OsdJob::PgTemp(wish.pg_temp)
            }
            _ => return Ok(()),
        };
        self.enqueue_osd_job(job);
        Ok(())
    }

    /// Queues or merges an operation of OSDs.
    pub(super) fn enqueue_osd_job(&mut self, job: OsdJob) {
        if let Err(job) = self.pipeline.push_osd(job) {
            self.reject(job, Rejection::Busy);
        }
    }

    /// Collects the changes of an operation of OSDs.
    pub(super) fn run_osd_job(&mut self, now: Time, job: &OsdJob, change: &mut Change) -> Effects {
        match job {
            OsdJob::Boots(boots) => {
                let mut effects = Effects::default();
                for boot in boots {
                    // An OSD whose session has ended since may be dead; otherwise it repeats the request.
                    if !self.sessions.contains(boot.conn) {
                        continue;
                    }
                    let one = self.boot(now, boot.conn, &boot.addrs, &boot.message, change);
                    effects.messages.extend(one.messages);
                    effects.again |= one.again;
                }
                return effects;
            }
            OsdJob::Alive(lives) => {
                for (osd, (want, current)) in lives {
                    self.extend_life(*osd, *want, *current, change);
                }
            }
            OsdJob::Failures(reports) => {
                for (from, failure) in reports {
                    self.take_failure(now, *from, failure, change);
                }
            }
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
        if let Some(reason) = self.refuses_boot(now, addrs, boot) {
            tracing::warn!(%osd, reason, "an OSD may not boot");
            return Effects::default();
        }
        let map = &self.state.osdmap;
        if map.is_up(osd) {
            if map.client_addrs(osd) == Some(addrs) {
                // The same incarnation boots again: it missed the answer.
                self.keep_informed(now, conn, boot.superblock.newest_map.next());
                return Effects::default();
            }
            // An unnoticed restart: the old incarnation is marked down in an epoch of its own.
            change.mark_down(&self.state, osd);
            return Effects { again: true, ..Effects::default() };
        }
        self.mark_up(now, addrs, boot, change);
        self.keep_informed(now, conn, boot.superblock.newest_map.next());
        Effects::default()
    }

    fn refuses_boot(
        &mut self,
        now: Time,
        addrs: &EntityAddrVec,
        boot: &OsdBoot,
    ) -> Option<&'static str> {
        let (map, osd) = (&self.state.osdmap, boot.superblock.whoami);
        let of_cluster = boot.superblock.cluster_fsid;
        if of_cluster != map.fsid && of_cluster != Uuid::default() {
            return Some("it belongs to another cluster");
        }
        if map.osd(osd).is_some_and(|known| known.state.contains(OsdState::DESTROYED)) {
            return Some("it was destroyed; `sepiola osd replace` makes it anew");
        }
        let registered = map.osd(osd).map(|known| known.uuid).unwrap_or_default();
        let store = boot.superblock.osd_fsid;
        if ![registered, Uuid::default()].contains(&store) && registered != Uuid::default() {
            return Some("its store was replaced by another");
        }
        if map.holds(osd, OsdState::NOUP) {
            return Some("the flag noup is set");
        }
        if boot.superblock.newest_map > map.epoch {
            return Some("it has a newer map than the control store; see CONTROL_STORE_WENT_BACK");
        }
        if map.is_up(osd) {
            return None;
        }
        let lived = map.osd(osd).is_some_and(|known| lived_on(known, addrs, boot));
        let waits = self.flapping.boots(&self.state, &self.overview.running, now, osd, lived);
        waits.then_some("it was marked down wrongly too often of late")
    }

    fn mark_up(&self, now: Time, addrs: &EntityAddrVec, boot: &OsdBoot, change: &mut Change) {
        let osd = boot.superblock.whoami;
        let state = &self.state;
        if osd.0 >= state.osdmap.max_osd() {
            let max_osd = &mut change.osdmap(state).new_max_osd;
            *max_osd = (*max_osd).max(Some(osd.0 + 1));
        }
        let host = boot.metadata.get("hostname").unwrap_or(&self.settings.hostname);
        crush_create_or_move(state, change, osd, host);
        change.note(1, format!("osd.{osd} {addrs} boot"));
        let metadata = serde_json::to_vec(&boot.metadata).unwrap_or_default();
        if state.osd_metadata.get(&osd) != Some(&boot.metadata) {
            change.put(keys::osd_metadata(osd), metadata);
        }
        let refusal = keys::osd_refusal(osd);
        if state.config_keys.contains_key(&refusal) {
            change.delete(keys::config_key(&refusal));
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
        if known.exists() && known.info.up_from.0 > 0 {
            judge_past(
                state,
                &self.overview.running,
                now,
                &mut xinfo,
                lived_on(&known, addrs, boot),
            );
        }
        if self.may_mark_in(osd, &known) {
            let weight = if xinfo.old_weight == 0 { WEIGHT_IN } else { xinfo.old_weight };
            incremental.new_weight.insert(osd, weight);
            xinfo.old_weight = 0;
        }
        incremental.new_xinfo.insert(osd, xinfo);
    }

    /// Whether a booting OSD is marked in: if it is new, or was marked out only for being down.
    fn may_mark_in(&self, osd: OsdId, known: &Osd) -> bool {
        let options = self.state.options(&self.overview.running);
        let is_new = !known.exists() || known.state.contains(OsdState::NEW);
        let is_auto_out = known.state.contains(OsdState::AUTOOUT);
        let wanted = is_new && options.switch("mon_osd_auto_mark_new_in")
            || is_auto_out && options.switch("mon_osd_auto_mark_auto_out_in")
            || !known.is_in() && options.switch("mon_osd_auto_mark_in");
        wanted && !self.state.osdmap.holds(osd, OsdState::NOIN)
    }

    fn extend_life(&self, osd: OsdId, want: Epoch, current: Epoch, change: &mut Change) {
        let map = &self.state.osdmap;
        let Some(known) = map.osd(osd).filter(|known| known.is_up()) else { return };
        if known.info.up_thru < want && want <= map.epoch {
            let thru = current.clamp(want, map.epoch);
            change.osdmap(&self.state).new_up_thru.insert(osd, thru);
        }
    }

    fn set_pg_temp(&self, asked: &BTreeMap<PgId, Vec<OsdId>>, change: &mut Change) {
        let map = &self.state.osdmap;
        for (pg, osds) in asked {
            let exists = map.pool(pg.pool).is_some_and(|pool| pg.seed < pool.pg_num);
            let known = map.pg_temp.get(pg).map_or(&[][..], Vec::as_slice);
            let is_member = |osd: &OsdId| *osd == OsdId::NONE || map.exists(*osd);
            let are_distinct = osds.iter().collect::<BTreeSet<_>>().len() == osds.len();
            let valid = osds.iter().all(is_member) && are_distinct;
            let valid = valid && osds.len() as u64 <= POOL_SIZE_MAX;
            if exists && valid && known != osds {
                change.osdmap(&self.state).new_pg_temp.insert(*pg, osds.clone());
            }
        }
    }
}

/// Whether the process that boots is the one that was marked down.
fn lived_on(known: &Osd, addrs: &EntityAddrVec, boot: &OsdBoot) -> bool {
    !known.is_up() && (boot.boot_epoch.0 > 0 || known.client_addrs == *addrs)
}
