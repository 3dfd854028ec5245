//! The session with the monitor: boot, maps, secrets.

use crate::env::Stage;
use crate::maps::current::Applied;
use crate::{Osd, VERSION, limits};
use auth::RotatingSecrets;
use engine::{ConnId, ConnectTarget, Output, Policy, Time};
use std::collections::BTreeMap;
use types::features::SUPPORTED;
use types::{EntityType, ParticipantName, PgId};
use wire::internal::{RotatingSecrets as RotatingSecretsMessage, RotatingSecretsRequest};
use wire::{
    MessageBody, MonSubscribe, OsdAlive, OsdBoot, OsdMapMessage, OsdPgTemp, OsdSuperblock,
    SubscribeItem,
};

/// The session with a monitor, or when to open the next one.
#[derive(Debug, Default)]
pub(crate) struct MonitorLink {
    /// The rank of the monitor that is connected or tried.
    rank: usize,
    /// Consecutive monitors that could not be reached.
    failures: usize,
    conn: Option<ConnId>,
    open: bool,
    /// When to connect, or to boot, again.
    next_attempt: Option<Time>,
    /// Retries of a boot in this session.
    ungranted: u32,
}

impl MonitorLink {
    /// Whether a session is that with the monitor.
    pub fn is(&self, conn: ConnId) -> bool {
        self.conn == Some(conn)
    }

    /// The session, if it is open.
    pub fn conn(&self) -> Option<ConnId> {
        self.conn.filter(|_| self.open)
    }

    /// When [`Osd::monitor_timeout`] must be called next.
    pub fn next_attempt(&self) -> Option<Time> {
        self.next_attempt
    }
}

impl Osd {
    /// Opens a session with the next monitor.
    pub(crate) fn connect_to_monitor(&mut self) {
        let conn = self.clients.new_conn();
        let rank = self.monitor.rank % self.env.config.monitors.len().max(1);
        let addrs = self.env.config.monitors.get(rank).cloned().unwrap_or_default();
        let failures = self.monitor.failures;
        self.monitor = MonitorLink { rank, failures, conn: Some(conn), ..MonitorLink::default() };
        let target = ConnectTarget {
            participant: ParticipantName::new(EntityType::MON, rank as i64),
            addrs,
            policy: Policy::Lossy,
        };
        self.outbox.push(Output::Connect { conn, target });
    }

    /// The session is established: subscribes to maps and configuration, and repeats all reports.
    pub(crate) fn monitor_opened(&mut self, now: Time) {
        self.monitor.open = true;
        self.monitor.failures = 0;
        let Some(conn) = self.monitor.conn() else { return };
        let what = [("osdmap", self.next_map()), ("config", 0)];
        let what = what.map(|(what, start)| (what.to_owned(), SubscribeItem { start, flags: 0 }));
        let hostname = self.env.config.hostname.clone();
        self.send(conn, MonSubscribe { what: what.into(), hostname }.encode(SUPPORTED));
        self.ask_for_secrets(conn);
        self.report_again(now);
    }

    fn ask_for_secrets(&mut self, conn: ConnId) {
        let secrets = RotatingSecretsRequest { service: EntityType::OSD.0.into() };
        self.send(conn, secrets.encode(SUPPORTED));
    }

    /// The epoch of the first map to request; zero for any.
    fn next_map(&self) -> u64 {
        if self.epoch().0 == 0 { 0 } else { u64::from(self.epoch().0) + 1 }
    }

    /// Requests maps from the present epoch on, after some were ignored.
    pub(crate) fn ask_for_maps(&mut self) {
        let Some(conn) = self.monitor.conn() else { return };
        let item = SubscribeItem { start: self.next_map(), flags: 0 };
        let what = BTreeMap::from([("osdmap".to_owned(), item)]);
        let hostname = self.env.config.hostname.clone();
        self.send(conn, MonSubscribe { what, hostname }.encode(SUPPORTED));
    }

    /// Repeats all reports to a monitor that may have none of them.
    pub(crate) fn report_again(&mut self, now: Time) {
        if self.env.stage == Stage::Booting {
            self.boot(now);
        }
        self.report_all_broken();
        self.ask_again();
        self.repeat_heartbeat_reports(now);
        self.take_leave();
        self.report.request(now);
    }

    /// Repeats the groups' requests to a monitor that may not have got them.
    fn ask_again(&mut self) {
        let asking = self.groups.by_id.iter().filter(|(_, group)| is_asking(&group.pg));
        self.groups.asking = asking.map(|(pg, _)| *pg).collect();
    }

    /// The session has ended, or could not be opened: the next monitor follows.
    pub(crate) fn monitor_closed(&mut self, now: Time) {
        let MonitorLink { rank, failures, .. } = self.monitor;
        // Other monitors are tried immediately; after none was reachable, there is a pause.
        let all = self.env.config.monitors.len();
        let wait = match failures + 1 < all {
            true => engine::Duration::ZERO,
            false => limits::MONITOR_RETRY,
        };
        self.monitor = MonitorLink {
            rank: rank + 1,
            failures: (failures + 1) % all.max(1),
            next_attempt: Some(now + wait),
            ..MonitorLink::default()
        };
    }

    /// Connects to a monitor or boots again, if due.
    pub(crate) fn monitor_timeout(&mut self, now: Time) {
        if self.monitor.next_attempt.is_none_or(|due| now < due) {
            return;
        }
        self.monitor.next_attempt = None;
        match self.monitor.conn() {
            None => self.connect_to_monitor(),
            Some(conn) if self.env.stage == Stage::Booting => {
                self.monitor.ungranted += 1;
                if self.should_leave_monitor() {
                    tracing::warn!(
                        rank = self.monitor.rank,
                        "the monitor does not mark this OSD up; trying the next one"
                    );
                    self.outbox.push(Output::Close { conn });
                    return self.monitor_closed(now);
                }
                if self.authentication.lacks_secrets() {
                    self.ask_for_secrets(conn);
                }
                self.boot(now);
            }
            Some(_) => {}
        }
    }

    /// Whether boots in this session remain without effect, and there is another monitor. A monitor that
    /// cannot read its store serves sessions, but neither secrets nor maps.
    fn should_leave_monitor(&self) -> bool {
        self.env.config.monitors.len() > 1 && self.monitor.ungranted >= limits::BOOT_RETRIES_MAX
    }

    /// A group needs a new interval; requested from the monitor after a pause.
    pub(crate) fn want_interval(&mut self, now: Time) {
        self.retry_later(now);
    }

    fn retry_later(&mut self, now: Time) {
        self.groups.retry_due.get_or_insert(now + limits::STALL_RETRY);
    }

    /// Retries requests of groups that were not fulfilled in time.
    pub(crate) fn retry_if_due(&mut self, now: Time) {
        if self.groups.retry_due.is_none_or(|due| now < due) {
            return;
        }
        self.groups.retry_due = None;
        let pgs: Vec<PgId> = self.groups.by_id.keys().copied().collect();
        for pg in pgs {
            let group = self.groups.by_id.get_mut(&pg).expect("it was just there");
            if group.pg.state() == pg::State::Reshaping {
                group.pg.retry_reshaping();
                self.retry_later(now);
                self.settle_group(pg);
            } else if group.pg.wants_interval() || is_asking(&group.pg) {
                self.groups.asking.insert(pg);
            }
        }
        self.ask_monitor(now);
    }

    /// Sends the requests that groups wait for: an `up_thru`, a `pg_temp`, or just a new map
    /// although nothing has changed.
    pub(crate) fn ask_monitor(&mut self, now: Time) {
        let asking = std::mem::take(&mut self.groups.asking);
        let (mut up_thru, mut acting) = (None, BTreeMap::new());
        for pg in asking {
            let Some(group) = self.groups.by_id.get(&pg) else { continue };
            let wanted = group.pg.wanted_up_thru();
            let wanted = wanted.or(group.pg.wants_interval().then_some(self.epoch()));
            up_thru = up_thru.max(wanted);
            if let Some(osds) = group.pg.wanted_acting() {
                acting.insert(pg, osds.to_vec());
            }
        }
        if up_thru.is_none() && acting.is_empty() {
            return;
        }
        self.retry_later(now);
        let Some(conn) = self.monitor.conn() else { return };
        let epoch = self.epoch();
        if let Some(want) = up_thru {
            let alive = OsdAlive { version: epoch.0.into(), want };
            self.send(conn, alive.encode(SUPPORTED));
        }
        if !acting.is_empty() {
            let wish = OsdPgTemp {
                version: epoch.0.into(),
                map_epoch: epoch,
                pg_temp: acting,
                forced: false,
            };
            self.send(conn, wish.encode(SUPPORTED));
        }
    }

    /// Asks to be marked up; repeated until the map shows it. Other OSDs connect once it does, and
    /// take a refusal as a failure of this one, so it needs the secrets to authenticate them first.
    fn boot(&mut self, now: Time) {
        let Some(conn) = self.monitor.conn() else { return };
        self.monitor.next_attempt = Some(now + limits::BOOT_RETRY);
        if self.authentication.lacks_secrets() {
            return;
        }
        let config = &self.env.config;
        let metadata = [
            ("ceph_version", VERSION.to_owned()),
            ("ceph_version_short", env!("CARGO_PKG_VERSION").to_owned()),
            ("hostname", config.hostname.clone()),
            ("front_addr", config.addrs.to_string()),
            ("back_addr", config.addrs.to_string()),
            ("osd_objectstore", "sepiola".to_owned()),
            ("arch", std::env::consts::ARCH.to_owned()),
            ("splits_groups", "1".to_owned()),
            ("merges_groups", "1".to_owned()),
            ("merges_clones", "1".to_owned()),
            ("ceph_release", "reef".to_owned()),
            ("hb_front_addr", config.addrs.to_string()),
            ("hb_back_addr", config.addrs.to_string()),
        ];
        let metadata = metadata.into_iter().map(|(name, value)| (name.to_owned(), value));
        let epoch = self.epoch();
        let boot = OsdBoot {
            version: epoch.0.into(),
            superblock: OsdSuperblock {
                cluster_fsid: config.fsid,
                osd_fsid: config.uuid,
                whoami: config.id,
                current_epoch: epoch,
                oldest_map: epoch,
                newest_map: epoch,
                ..OsdSuperblock::default()
            },
            heartbeat_back_addrs: config.addrs.clone(),
            cluster_addrs: config.addrs.clone(),
            boot_epoch: types::Epoch(0),
            heartbeat_front_addrs: config.addrs.clone(),
            metadata: self.env.host_facts.clone().into_iter().chain(metadata).collect(),
            features: SUPPORTED,
        };
        self.send(conn, boot.encode(SUPPORTED));
    }

    /// Takes the rotating secrets of the service, which the monitor sealed with this OSD's key.
    pub(crate) fn take_sealed_secrets(&mut self, now: Time, payload: &[u8]) {
        match self.authentication.open_secrets(payload) {
            Ok(Some(secrets)) => self.set_secrets(now, secrets),
            Ok(None) => {}
            Err(error) => tracing::error!(%error, "the monitor's secrets cannot be opened"),
        }
    }

    /// Takes rotating secrets that the monitor sent without encryption of their own.
    pub(crate) fn take_secrets(&mut self, now: Time, message: &RotatingSecretsMessage) {
        match codec::decode_all::<RotatingSecrets>("secrets", &message.secrets) {
            Ok(secrets) => self.set_secrets(now, secrets),
            Err(error) => tracing::error!(%error, "the monitor's secrets do not decode"),
        }
    }

    /// Replaces the rotating secrets. If they were missing, the OSD boots now.
    pub(crate) fn set_secrets(&mut self, now: Time, secrets: RotatingSecrets) {
        let lacked = self.authentication.lacks_secrets();
        self.authentication.set_secrets(secrets);
        if lacked && self.env.stage == Stage::Booting {
            self.boot(now);
        }
    }

    /// Applies the next map of a message; false if there is none, or maps must be ignored.
    pub(crate) fn apply_next(&mut self, message: &OsdMapMessage) -> bool {
        let first = message.full.keys().chain(message.incrementals.keys()).min().copied();
        let Some(first) = first.filter(|_| self.env.stage != Stage::Failed) else { return false };
        if self.groups.split_merge.holds_maps() {
            return false;
        }
        match self.maps.apply_next(message, first) {
            Applied::Newer => true,
            Applied::Nothing => false,
            Applied::Failed => {
                self.ask_for_full_map();
                false
            }
        }
    }

    /// An increment did not apply: requests a full map.
    fn ask_for_full_map(&mut self) {
        let Some(conn) = self.monitor.conn() else { return };
        let item = SubscribeItem { start: 0, flags: 0 };
        let what = BTreeMap::from([("osdmap".to_owned(), item)]);
        let subscribe = MonSubscribe { what, hostname: self.env.config.hostname.clone() };
        self.send(conn, subscribe.encode(SUPPORTED));
    }

    /// Compares the state of this OSD in the map with its real one.
    pub(crate) fn check_own_state(&mut self, now: Time) {
        let own = self.maps.map().osd(self.env.config.id).filter(|osd| osd.is_up());
        let is_up = own.is_some_and(|osd| osd.client_addrs == self.env.config.addrs);
        match (self.env.stage, is_up) {
            (Stage::Booting, true) => {
                self.env.stage = Stage::Up;
                self.forget_broken();
                self.heartbeat_if_due(now);
                (self.monitor.next_attempt, self.monitor.ungranted) = (None, 0);
                tracing::info!(osd = %self.env.config.id, epoch = %self.epoch(), "up");
            }
            (Stage::Up, false) => {
                tracing::warn!(osd = %self.env.config.id, "marked down although alive; booting again");
                self.leave_peers();
                self.env.stage = Stage::Booting;
                self.boot(now);
            }
            _ => {}
        }
    }
}

fn is_asking(pg: &pg::Pg) -> bool {
    pg.wanted_up_thru().is_some() || pg.wanted_acting().is_some()
}
