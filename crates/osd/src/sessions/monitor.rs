//! The session with the monitor: boot, subscriptions, failure reports.

use crate::cx::Cx;
use crate::env::{Env, Stage};
use crate::sessions::authentication::Authentication;
use crate::{VERSION, limits};
use engine::{ConnId, ConnectTarget, Duration, Output, Policy, Time};
use maps::OsdMap;
use std::collections::BTreeMap;
use types::features::SUPPORTED;
use types::{EntityAddrVec, EntityType, Epoch, OsdId, ParticipantName, PgId, ServedVersions};
use wire::internal::RotatingSecretsRequest;
use wire::{
    MessageBody, MonSubscribe, OsdAlive, OsdBoot, OsdFailure, OsdMarkMeDown, OsdPgTemp,
    OsdSuperblock, SubscribeItem,
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

    /// When [`MonitorLink::handle_timeout`] must be called next.
    pub fn next_attempt(&self) -> Option<Time> {
        self.next_attempt
    }

    /// Opens a session with the next monitor.
    pub fn connect(&mut self, cx: &mut Cx<'_>) {
        let conn = cx.clients.new_conn();
        let monitors = &cx.env.config.monitors;
        let rank = self.rank % monitors.len().max(1);
        let addrs = monitors.get(rank).cloned().unwrap_or_default();
        let failures = self.failures;
        *self = MonitorLink { rank, failures, conn: Some(conn), ..MonitorLink::default() };
        let target = ConnectTarget {
            participant: ParticipantName::new(EntityType::MON, rank as i64),
            addrs,
            policy: Policy::Lossy,
        };
        cx.out.push(Output::Connect { conn, target });
    }

    /// The session is established: subscribes to maps and configuration, and asks for the secrets.
    pub fn opened(&mut self, cx: &mut Cx<'_>) {
        self.open = true;
        self.failures = 0;
        let Some(conn) = self.conn() else { return };
        subscribe(cx, conn, &[("osdmap", next_map(cx.map)), ("config", 0)]);
        ask_for_secrets(cx, conn);
    }

    /// Requests maps from the present epoch on, after some were ignored.
    pub fn ask_for_maps(&self, cx: &mut Cx<'_>) {
        let Some(conn) = self.conn() else { return };
        subscribe(cx, conn, &[("osdmap", next_map(cx.map))]);
    }

    /// Requests a full map: an increment did not apply.
    pub fn ask_for_full_map(&self, cx: &mut Cx<'_>) {
        let Some(conn) = self.conn() else { return };
        subscribe(cx, conn, &[("osdmap", 0)]);
    }

    /// The session has ended, or could not be opened: the next monitor follows.
    pub fn closed(&mut self, env: &Env) {
        let MonitorLink { rank, failures, .. } = *self;
        // Other monitors are tried immediately; after none was reachable, there is a pause.
        let all = env.config.monitors.len();
        let wait = match failures + 1 < all {
            true => Duration::ZERO,
            false => limits::MONITOR_RETRY,
        };
        *self = MonitorLink {
            rank: rank + 1,
            failures: (failures + 1) % all.max(1),
            next_attempt: Some(env.now + wait),
            ..MonitorLink::default()
        };
    }

    /// Connects to a monitor or boots again, if due.
    pub fn handle_timeout(&mut self, cx: &mut Cx<'_>, authentication: &Authentication) {
        if self.next_attempt.is_none_or(|due| cx.env.now < due) {
            return;
        }
        self.next_attempt = None;
        match self.conn() {
            None => self.connect(cx),
            Some(conn) if cx.env.stage == Stage::Booting => {
                self.ungranted += 1;
                if self.should_leave(cx) {
                    tracing::warn!(
                        rank = self.rank,
                        "the monitor does not mark this OSD up; trying the next one"
                    );
                    cx.out.push(Output::Close { conn });
                    return self.closed(cx.env);
                }
                if authentication.lacks_secrets() {
                    ask_for_secrets(cx, conn);
                }
                self.boot(cx, authentication);
            }
            Some(_) => {}
        }
    }

    /// Whether boots in this session remain without effect, and there is another monitor. A monitor that
    /// cannot read its store serves sessions, but neither secrets nor maps.
    fn should_leave(&self, cx: &Cx<'_>) -> bool {
        cx.env.config.monitors.len() > 1 && self.ungranted >= limits::BOOT_RETRIES_MAX
    }

    /// Asks to be marked up; repeated until the map shows it. Other OSDs connect once it does, and
    /// take a refusal as a failure of this one, so it needs the secrets to authenticate them first.
    pub fn boot(&mut self, cx: &mut Cx<'_>, authentication: &Authentication) {
        let Some(conn) = self.conn() else { return };
        self.next_attempt = Some(cx.env.now + limits::BOOT_RETRY);
        if authentication.lacks_secrets() {
            return;
        }
        let config = &cx.env.config;
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
            (ServedVersions::FACT, ServedVersions::OWN.to_string()),
        ];
        let shards = config.holds_shards.then(|| ("holds_shards", "1".to_owned()));
        let metadata = metadata.into_iter().chain(shards);
        let metadata = metadata.map(|(name, value)| (name.to_owned(), value));
        let epoch = cx.map.epoch;
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
            metadata: cx.env.host_facts.clone().into_iter().chain(metadata).collect(),
            features: SUPPORTED,
        };
        cx.out.send(conn, boot.encode(SUPPORTED));
    }

    /// The map shows this OSD up: the boot is complete.
    pub fn booted(&mut self) {
        (self.next_attempt, self.ungranted) = (None, 0);
    }

    /// Asks for an `up_thru` of this epoch, and for these acting sets.
    pub fn ask_for_intervals(
        &self,
        cx: &mut Cx<'_>,
        up_thru: Option<Epoch>,
        acting: BTreeMap<PgId, Vec<OsdId>>,
    ) {
        let Some(conn) = self.conn() else { return };
        let epoch = cx.map.epoch;
        if let Some(want) = up_thru {
            let alive = OsdAlive { version: epoch.0.into(), want };
            cx.out.send(conn, alive.encode(SUPPORTED));
        }
        if !acting.is_empty() {
            let wish = OsdPgTemp {
                version: epoch.0.into(),
                map_epoch: epoch,
                pg_temp: acting,
                forced: false,
            };
            cx.out.send(conn, wish.encode(SUPPORTED));
        }
    }

    /// Asks to be marked down, if this OSD has skipped maps, or has failed: then it is also dead, and its
    /// leases need not be waited for.
    pub fn leave(&self, cx: &mut Cx<'_>) {
        let has_failed = cx.env.stage == Stage::Failed;
        let leaves = has_failed || cx.env.has_skipped_maps;
        let Some(conn) = self.conn().filter(|_| leaves) else { return };
        let leave = OsdMarkMeDown {
            version: cx.map.epoch.0.into(),
            fsid: cx.env.config.fsid,
            target: cx.env.config.id,
            target_addrs: cx.env.config.addrs.clone(),
            epoch: cx.map.epoch,
            request_ack: false,
            down_and_dead: has_failed,
        };
        cx.out.send(conn, leave.encode(SUPPORTED));
    }

    /// Sends a failure report about `target`, or the withdrawal of one. `failed_for` is the time
    /// since the last sign of life.
    pub fn report_failure(
        &self,
        cx: &mut Cx<'_>,
        target: OsdId,
        target_addrs: EntityAddrVec,
        flags: u8,
        failed_for: Duration,
    ) {
        let Some(monitor) = self.conn() else { return };
        let failure = OsdFailure {
            version: cx.map.epoch.0.into(),
            fsid: cx.env.config.fsid,
            target,
            target_addrs,
            epoch: cx.map.epoch,
            flags,
            failed_for_seconds: i32::try_from(failed_for.as_secs()).unwrap_or(i32::MAX),
        };
        cx.out.send(monitor, failure.encode(SUPPORTED));
    }
}

/// Subscribes to items of the monitor, each from an epoch on; zero for any.
fn subscribe(cx: &mut Cx<'_>, conn: ConnId, items: &[(&str, u64)]) {
    let item =
        |(name, start): &(&str, u64)| (name.to_string(), SubscribeItem { start: *start, flags: 0 });
    let hostname = cx.env.config.hostname.clone();
    let subscription = MonSubscribe { what: items.iter().map(item).collect(), hostname };
    cx.out.send(conn, subscription.encode(SUPPORTED));
}

fn ask_for_secrets(cx: &mut Cx<'_>, conn: ConnId) {
    let secrets = RotatingSecretsRequest { service: EntityType::OSD.0.into() };
    cx.out.send(conn, secrets.encode(SUPPORTED));
}

/// The epoch of the first map to request; zero for any.
fn next_map(map: &OsdMap) -> u64 {
    if map.epoch.0 == 0 { 0 } else { u64::from(map.epoch.0) + 1 }
}
