//! Handling of messages, except those of OSDs.

use super::asking::asked_job;
use super::{Monitor, osds, publish, relay};
use crate::commands::ping;
use crate::health::View;
use crate::job::{Effects, Job};
use crate::keys::Group;
use auth::{Rwx, ServerContext};
use codec::{DecodeError, Writer};
use engine::{ConnId, Message, Time};
use types::{Errno, PoolId};
use wire::internal::{RotatingSecretsRequest, StatsAck, StatsReport};
use wire::osd_map::MonGetOsdMap;
use wire::pool_stats::{ObjectStatCollection, ObjectStatSum, StoreStatfs};
use wire::{
    Auth, AuthReply, GetPoolStats, GetPoolStatsReply, Log, LogAck, LogEntry, MessageBody, MgrClose,
    MgrOpen, MgrReport, MonGetMap, MonGetVersion, MonGetVersionReply, MonSubscribe, Ping, PoolStat,
    Statfs, StatfsReply,
};

impl Monitor {
    /// Handles a message of a session, or forwards it to the leader. A malformed one closes the session.
    pub(super) fn handle(&mut self, now: Time, conn: ConnId, message: Message) {
        let taken = match self.relay.is_link(conn) {
            true => self.take_from_leader(now, &message),
            false if !self.sessions.contains(conn) => return,
            false if !self.leads() && relay::is_for_leader(message.kind) => {
                self.forward(now, conn, &message)
            }
            false => self.dispatch(now, conn, &message),
        };
        if let Err(error) = taken {
            tracing::warn!(%error, kind = message.kind, "a message cannot be read");
            self.close(now, conn);
        }
    }

    /// Handles a message locally, also if another monitor leads.
    pub(super) fn dispatch(
        &mut self,
        now: Time,
        conn: ConnId,
        message: &Message,
    ) -> Result<(), DecodeError> {
        if self.take_forwarded(now, conn, message)? {
            return Ok(());
        }
        if let Some(job) = asked_job(now, conn, message)? {
            self.take_job(now, job);
            return Ok(());
        }
        let tid = message.tid;
        match message.kind {
            MonSubscribe::KIND => self.subscribe(now, conn, MonSubscribe::decode(message)?),
            MonGetVersion::KIND => {
                self.tell_version(conn, tid, MonGetVersion::decode(message)?);
            }
            MonGetMap::KIND => {
                self.reply(conn, |monitor, features| publish::monmap(&monitor.state, features))
            }
            MonGetOsdMap::KIND => self.send_osdmaps(conn, MonGetOsdMap::decode(message)?),
            Statfs::KIND => self.tell_usage(conn, tid, Statfs::decode(message)?),
            GetPoolStats::KIND => self.tell_pool_stats(conn, tid, GetPoolStats::decode(message)?),
            Log::KIND => self.take_log(conn, Log::decode(message)?),
            Ping::KIND => self.reply(conn, |monitor, _| {
                let mut w = Writer::new();
                w.string(&ping(&View {
                    state: &monitor.state,
                    live: monitor.overview.live(
                        &monitor.stats,
                        monitor.sessions.peers(),
                        monitor.pipeline.troubles(),
                        monitor.pipeline.operations(),
                    ),
                    now,
                }));
                Message::new(Ping::KIND, 1, 1, w.into_bytes())
            }),
            Auth::KIND => self.renew(now, conn, Auth::decode(message)?),
            MgrOpen::KIND | MgrReport::KIND | MgrClose::KIND => {
                self.take_manager_message(now, conn, message)?;
            }
            RotatingSecretsRequest::KIND => {
                self.take_secrets_request(now, conn, RotatingSecretsRequest::decode(message)?);
            }
            StatsReport::KIND => self.take_stats(now, conn, tid, StatsReport::decode(message)?),
            kind if osds::KINDS.contains(&kind) => self.take_osd_message(now, conn, message)?,
            kind => tracing::debug!(kind, "a message of this kind is not for a monitor"),
        }
        Ok(())
    }

    /// Sends a message that depends on the peer's features.
    pub(super) fn reply(&mut self, conn: ConnId, message: impl FnOnce(&Monitor, u64) -> Message) {
        let features = self.sessions.features(conn);
        let message = message(self, features);
        self.send(conn, message);
    }

    fn tell_version(&mut self, conn: ConnId, tid: u64, asked: MonGetVersion) {
        let state = &self.state;
        let (version, oldest_version) = match asked.what.as_str() {
            "osdmap" => {
                let oldest = state.history.incrementals.keys().next().map_or(0, |epoch| epoch.0);
                (state.osdmap.epoch.0.into(), oldest.into())
            }
            "monmap" => (state.monmap.epoch.0.into(), 1),
            "mgrmap" => (state.mgrmap.epoch.0.into(), 1),
            "config" => (state.version(Group::CONFIG).0, 1),
            _ => (0, 0),
        };
        let reply = MonGetVersionReply { handle: asked.handle, version, oldest_version };
        self.reply(conn, |_, features| reply.encode(features).with_tid(tid));
    }

    fn send_osdmaps(&mut self, conn: ConnId, asked: MonGetOsdMap) {
        if !self.sessions.get(conn).is_some_and(|session| session.may("osd", Rwx::READ)) {
            return;
        }
        let range = asked.full_first..=asked.full_last;
        let epochs: Vec<_> =
            self.state.history.full.range(range).map(|(epoch, _)| *epoch).collect();
        for epoch in epochs {
            let features = self.sessions.features(conn);
            if let Some(message) = publish::full_map(&self.state, features, epoch) {
                self.send(conn, message);
            }
        }
    }

    fn tell_usage(&mut self, conn: ConnId, tid: u64, asked: Statfs) {
        if !self.sessions.get(conn).is_some_and(|session| session.may("pg", Rwx::READ)) {
            return;
        }
        let map = &self.state.osdmap;
        let pool = asked.data_pool.map(PoolId).filter(|id| map.pool(*id).is_some());
        let (total, available, used, objects) = match pool {
            None => {
                let usage = self.stats.usage(map);
                let objects = self.stats.totals().objects;
                (usage.bytes_total, usage.bytes_available, usage.bytes_used, objects)
            }
            Some(id) => {
                let totals = self.stats.pool_totals(id);
                let available = crate::usage::pool_available(map, &self.stats, id);
                (totals.bytes + available, available, totals.bytes, totals.objects)
            }
        };
        let reply = StatfsReply {
            fsid: self.state.monmap.fsid,
            version: self.stats.version,
            kib: total >> 10,
            kib_used: used >> 10,
            kib_available: available >> 10,
            objects,
        };
        self.reply(conn, |_, features| reply.encode(features).with_tid(tid));
    }

    fn tell_pool_stats(&mut self, conn: ConnId, tid: u64, asked: GetPoolStats) {
        if !self.sessions.get(conn).is_some_and(|session| session.may("pg", Rwx::READ)) {
            return;
        }
        let map = &self.state.osdmap;
        let known = asked.pools.iter().filter_map(|name| Some((name, map.pool_id(name)?)));
        let stats = known.map(|(name, id)| (name.clone(), self.pool_stat(id))).collect();
        let reply = GetPoolStatsReply {
            version: self.stats.version,
            fsid: self.state.monmap.fsid,
            stats,
            per_pool: true,
        };
        self.reply(conn, |_, features| reply.encode(features).with_tid(tid));
    }

    fn pool_stat(&self, id: PoolId) -> PoolStat {
        let totals = self.stats.pool_totals(id);
        let rate = crate::usage::raw_bytes_per_byte(&self.state.osdmap, id);
        let stored = (totals.bytes as f64 * rate) as i64;
        let sum = ObjectStatSum {
            bytes: totals.bytes as i64,
            objects: totals.objects as i64,
            clones: totals.clones as i64,
            copies: totals.copies as i64,
            degraded: totals.degraded as i64,
            misplaced: totals.misplaced as i64,
            unfound: totals.unfound as i64,
            dirty: totals.objects as i64,
            reads: totals.reads as i64,
            read_kib: (totals.read_bytes >> 10) as i64,
            writes: totals.writes as i64,
            write_kib: (totals.write_bytes >> 10) as i64,
            omap_bytes: totals.omap_bytes as i64,
            omap_keys: totals.omap_keys as i64,
            large_omap: totals.large_omaps as i64,
            ..ObjectStatSum::default()
        };
        PoolStat {
            stats: ObjectStatCollection { sum, categories: 0 },
            log_size: totals.log_size as i64,
            ondisk_log_size: totals.log_size as i64,
            up: totals.up as i32,
            acting: totals.acting as i32,
            store: StoreStatfs { allocated: stored, data_stored: stored, ..StoreStatfs::default() },
            store_count: self.state.osdmap.in_count() as i32,
        }
    }

    fn take_log(&mut self, conn: ConnId, log: Log) {
        let Some(session) = self.sessions.get(conn) else { return };
        if session.may("log", Rwx::WRITE) && !log.entries.is_empty() {
            self.enqueue(Job::Log { conn, entries: log.entries });
        }
    }

    /// Acknowledges log entries. Sent only once the entries are durable: until then the sender keeps them.
    pub(super) fn acknowledge_log(&self, conn: ConnId, entries: &[LogEntry]) -> Effects {
        let (Some(session), Some(last)) = (self.sessions.get(conn), entries.last()) else {
            return Effects::default();
        };
        let (fsid, channel) = (self.state.monmap.fsid, last.channel.clone());
        let ack = LogAck { fsid, last: last.sequence, channel };
        Effects::message(conn, ack.encode(session.peer().features))
    }

    /// Renews tickets.
    fn renew(&mut self, now: Time, conn: ConnId, request: Auth) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let mut reply = AuthReply {
            protocol: request.protocol,
            global_id: session.peer().participant.number as u64,
            ..AuthReply::default()
        };
        if let Some(server) = &mut session.cephx {
            let context = ServerContext {
                now: now.wall(),
                keys: &self.state.entities,
                secrets: &self.state.secrets,
                policy: &self.settings.cephx,
                entropy: &mut self.entropy,
            };
            match server.handle_request(context, &request.payload, None) {
                Ok(answer) => reply.payload = answer.payload.into(),
                Err(error) => {
                    tracing::debug!(%error, name = %server.name(), "renewal refused");
                    reply.result = error.errno().negative();
                }
            }
        } else if request.protocol != 1 {
            reply.result = Errno::NOTSUPP.negative();
        }
        self.reply(conn, |_, features| reply.encode(features));
    }

    fn take_secrets_request(&mut self, now: Time, conn: ConnId, request: RotatingSecretsRequest) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        // An entity with a service's secrets can impersonate any client towards it.
        let service = types::EntityType(u8::try_from(request.service).unwrap_or_default());
        let is_own =
            session.peer().participant.kind == service && session.peer().name.kind == service;
        if session.is_trusted() || is_own && session.may("osd", Rwx::EXECUTE) {
            session.secrets_for = Some(service);
            self.send_secrets(now, conn);
        }
    }

    fn take_stats(&mut self, now: Time, conn: ConnId, tid: u64, report: StatsReport) {
        let Some(session) = self.sessions.get(conn) else { return };
        if session.osd() != Some(report.osd) {
            return;
        }
        self.liveness.heard(report.osd, now);
        if let Some(newest) = report.pgs.values().map(|stat| stat.reported_epoch).max() {
            self.note_epoch_of_osd(now, report.osd, newest);
        }
        let osd = report.osd;
        self.stats.record(now, &self.state.osdmap, report);
        self.stats.note_sequence(osd, tid);
        let count_images = self.stats.images.wanted_for(now);
        self.reply(conn, |_, features| StatsAck { count_images }.encode(features).with_tid(tid));
    }
}
