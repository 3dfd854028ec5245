//! A monitor on a control store in memory, whose outputs are collected.

// Each test program uses its part of this.
#![allow(dead_code)]

use bytes::Bytes;
use engine::{ConnId, Daemon, Message, Output, Peer, Time};
use mon::control::{CommitError, Completion, MemControl, Request, Transaction};
use mon::{AuthMode, Monitor, Parameters, Settings, bootstrap};
use serde_json::{Value, json};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use types::{
    EntityAddr, EntityAddrVec, EntityName, EntityType, Epoch, OsdId, ParticipantName, PgId, UTime,
    Uuid,
};
use wire::internal::{OsdUsage, PgStat, StatsReport, pg_state};
use wire::{MessageBody, MonCommand, MonCommandAck, OsdBoot, OsdSuperblock};

pub const START: u64 = 1_800_000_000_000_000_000;
pub const ADMIN: ConnId = ConnId(ConnId::ACCEPTED);
const OSD_FIRST: u64 = ConnId::ACCEPTED + 1000;

pub struct Cluster {
    pub monitor: Monitor,
    pub control: MemControl,
    pub now: Time,
    pub sent: Vec<(ConnId, Message)>,
    pub verdicts: Vec<(ConnId, engine::AuthVerdict)>,
    pub closed: Vec<ConnId>,
    /// Sessions that the monitor has paused.
    pub paused: BTreeSet<ConnId>,
    /// Transactions of another monitor that are committed before the next one of this monitor.
    pub rivals: VecDeque<Transaction>,
    /// Metadata keys by which OSDs state their features when they boot.
    pub abilities: Vec<&'static str>,
    /// Further facts of OSDs that boot.
    pub facts: Vec<(&'static str, &'static str)>,
    /// If set, the store answers but refuses writes, for this reason.
    pub refuses_writes: Option<String>,
    /// If set, the store refuses for good all transactions that write keys with this in their name.
    pub never_takes: Option<&'static str>,
    /// Number of transactions sent to the store.
    pub commits: usize,
    /// Number of loads of the whole store.
    pub loads: usize,
    /// The most keys that one transaction wrote.
    pub largest: usize,
}

pub fn addrs(text: &str) -> EntityAddrVec {
    EntityAddrVec::one(text.parse().unwrap())
}

fn writes(transaction: &Transaction, name: &str) -> bool {
    transaction.writes.keys().any(|key| key.contains(name))
}

pub fn parameters(osd_count: u32) -> Parameters {
    Parameters {
        mon_name: "a".to_owned(),
        mon_addrs: addrs("v2:127.0.0.1:3300/0"),
        mgr_name: "x".to_owned(),
        mgr_addrs: addrs("v2:127.0.0.1:6800/1"),
        osd_count,
        host: "alpha".to_owned(),
        failure_domain: "osd".to_owned(),
        device_class: Some("hdd".to_owned()),
        pool_size: 3,
        key_type: auth::KeyType::Aes,
    }
}

pub fn settings() -> Settings {
    let parameters = parameters(0);
    Settings {
        mon_name: parameters.mon_name,
        mon_addrs: parameters.mon_addrs,
        mgr_name: parameters.mgr_name,
        mgr_addrs: parameters.mgr_addrs,
        auth: AuthMode::Cephx,
        connection_modes: vec![2, 1],
        cephx: auth::CephxPolicy::default(),
        services: Default::default(),
        hostname: "alpha".to_owned(),
        served: types::ServedVersions::OWN,
    }
}

impl Cluster {
    /// A new cluster of three OSDs, none of which has booted.
    pub fn new() -> Self {
        let mut entropy = auth::Entropy::from_seed([7; 32]);
        let new = bootstrap(&parameters(3), UTime::from_nanos(START), &mut entropy).unwrap();
        let mut control = MemControl::new();
        control.commit(&new.transaction).unwrap();
        Cluster::on(control)
    }

    /// A monitor that starts on an existing store, with the administrator connected.
    pub fn on(control: MemControl) -> Self {
        Cluster::at(control, Time(START))
    }

    /// The same at another time.
    pub fn at(control: MemControl, now: Time) -> Self {
        Cluster::run(Monitor::new(settings(), [9; 32]), control, now)
    }

    pub fn run(monitor: Monitor, control: MemControl, now: Time) -> Self {
        let mut cluster = Cluster {
            monitor,
            control,
            now,
            sent: Vec::new(),
            verdicts: Vec::new(),
            closed: Vec::new(),
            paused: BTreeSet::new(),
            rivals: VecDeque::new(),
            abilities: Vec::new(),
            facts: Vec::new(),
            refuses_writes: None,
            never_takes: None,
            commits: 0,
            loads: 0,
            largest: 0,
        };
        cluster.drain();
        cluster.open(ADMIN, "client.admin", 5000, "allow *");
        cluster
    }

    /// A cluster without OSDs.
    pub fn empty() -> Self {
        let mut entropy = auth::Entropy::from_seed([7; 32]);
        let new = bootstrap(&parameters(0), UTime::from_nanos(START), &mut entropy).unwrap();
        let mut control = MemControl::new();
        control.commit(&new.transaction).unwrap();
        Cluster::on(control)
    }

    pub fn healthy() -> Self {
        let mut cluster = Cluster::new();
        (0..3).for_each(|osd| cluster.boot(osd));
        cluster
    }

    /// Executes the monitor's outputs until there are none.
    pub fn drain(&mut self) {
        while let Some(output) = self.monitor.poll_output() {
            match output {
                Output::Storage(request) => {
                    if let Request::Commit { transaction, .. } = &request {
                        self.commits += 1;
                        self.largest = self.largest.max(transaction.writes.len());
                    }
                    self.loads += usize::from(matches!(request, Request::Range { .. }));
                    let rival = match request {
                        Request::Commit { .. } => self.rivals.pop_front(),
                        _ => None,
                    };
                    let revision = rival.as_ref().map(|rival| self.control.commit(rival).unwrap());
                    let completion = match (&self.refuses_writes, &request) {
                        (Some(reason), Request::Commit { token, .. }) => {
                            let outcome = Err(CommitError::Failed { reason: reason.clone() });
                            Completion::Committed { token: *token, outcome }
                        }
                        (None, Request::Commit { token, transaction })
                            if self.never_takes.is_some_and(|name| writes(transaction, name)) =>
                        {
                            let reason = "request is too large".to_owned();
                            let outcome = Err(CommitError::Refused { reason });
                            Completion::Committed { token: *token, outcome }
                        }
                        _ => self.control.execute(self.now, &request),
                    };
                    self.monitor.handle_completion(self.now, completion);
                    if let (Some(rival), Some(revision)) = (rival, revision) {
                        let told = MemControl::events(&rival, revision);
                        self.monitor.handle_completion(self.now, told);
                    }
                }
                Output::Send { conn, message } => self.sent.push((conn, message)),
                Output::Auth { conn, verdict } => self.verdicts.push((conn, verdict)),
                Output::Close { conn } => self.closed.push(conn),
                Output::Pause { conn, paused: true } => drop(self.paused.insert(conn)),
                Output::Pause { conn, paused: false } => drop(self.paused.remove(&conn)),
                other => panic!("unexpected {other:?}"),
            }
        }
        self.monitor.check_invariants();
    }

    /// Opens a session with the given monitor capabilities; empty ones mean a link within the process.
    pub fn open(&mut self, conn: ConnId, name: &str, global_id: i64, caps: &str) {
        let caps = if caps.is_empty() { String::new() } else { format!("M{caps}") };
        self.open_with(conn, name, global_id, &caps);
    }

    /// Opens a session with encoded capabilities, as the monitor puts them into [`Peer::caps`].
    pub fn open_with(&mut self, conn: ConnId, name: &str, global_id: i64, caps: &str) {
        let name: EntityName = name.parse().unwrap();
        let caps = caps.to_owned();
        let addr: EntityAddr = format!("v2:127.0.0.1:7000/{global_id}").parse().unwrap();
        let peer = Peer {
            participant: ParticipantName::new(name.kind, global_id),
            name,
            addrs: EntityAddrVec::one(addr),
            features: types::features::SUPPORTED,
            caps: Bytes::from(caps),
            seen_addr: addr,
        };
        self.monitor.handle_opened(self.now, conn, peer);
        self.drain();
    }

    pub fn osd_conn(osd: i32) -> ConnId {
        ConnId(OSD_FIRST + osd as u64)
    }

    pub fn send<M: MessageBody>(&mut self, conn: ConnId, tid: u64, message: &M) {
        let message = message.encode(types::features::SUPPORTED).with_tid(tid);
        self.monitor.handle_message(self.now, conn, message);
        self.drain();
    }

    /// Messages of one kind that were sent to a session since the last call.
    pub fn take<M: MessageBody>(&mut self, conn: ConnId) -> Vec<M> {
        let wanted = |(to, message): &(ConnId, Message)| *to == conn && message.kind == M::KIND;
        let (taken, rest) = std::mem::take(&mut self.sent).into_iter().partition(wanted);
        self.sent = rest;
        let taken: Vec<(ConnId, Message)> = taken;
        taken.iter().map(|(_, message)| M::decode(message).unwrap()).collect()
    }

    pub fn boot(&mut self, osd: i32) {
        self.boot_as(osd, 1);
    }

    /// Boots incarnation `nonce` of an OSD over a link within the process.
    pub fn boot_as(&mut self, osd: i32, nonce: u32) {
        self.boot_store(osd, nonce, Uuid::default());
    }

    /// The same with the id of its store.
    pub fn boot_store(&mut self, osd: i32, nonce: u32, store: Uuid) {
        self.boot_from(osd, nonce, store, "alpha");
    }

    /// The same on another host.
    pub fn boot_on(&mut self, osd: i32, nonce: u32, host: &str) {
        self.boot_from(osd, nonce, Uuid::default(), host);
    }

    fn boot_from(&mut self, osd: i32, nonce: u32, store: Uuid, host: &str) {
        let conn = Cluster::osd_conn(osd);
        let addr: EntityAddr = format!("v2:127.0.0.1:{}/{nonce}", 6900 + osd).parse().unwrap();
        let peer = Peer {
            participant: ParticipantName::new(EntityType::OSD, osd.into()),
            name: EntityName::osd(osd),
            addrs: EntityAddrVec::one(addr),
            features: types::features::SUPPORTED,
            caps: Bytes::new(),
            seen_addr: addr,
        };
        self.monitor.handle_opened(self.now, conn, peer);
        let superblock = OsdSuperblock {
            cluster_fsid: self.monitor.fsid(),
            osd_fsid: store,
            whoami: OsdId(osd),
            ..OsdSuperblock::default()
        };
        let metadata = [("hostname", host), ("ceph_version", "sepiola version 0.1.0")];
        let abilities = self.abilities.iter().map(|ability| (*ability, "1"));
        let metadata = metadata
            .into_iter()
            .chain(abilities)
            .chain(self.facts.iter().copied())
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let other = |port: i32| addrs(&format!("v2:127.0.0.1:{}/{nonce}", port + osd));
        let boot = OsdBoot {
            superblock,
            metadata: metadata.collect(),
            cluster_addrs: other(7900),
            heartbeat_back_addrs: other(8900),
            heartbeat_front_addrs: other(9900),
            ..OsdBoot::default()
        };
        self.send(conn, 0, &boot);
    }

    /// Reports that an OSD's groups are healthy and hold `objects` objects each.
    pub fn report(&mut self, osd: i32, objects: u64) {
        self.report_with(osd, objects, 3 << 30);
    }

    pub fn report_with(&mut self, osd: i32, objects: u64, bytes_available: u64) {
        let healthy = PgStat {
            state: pg_state::ACTIVE | pg_state::CLEAN,
            objects,
            bytes: objects * 100,
            last_epoch_clean: self.epoch(),
            ..PgStat::default()
        };
        self.report_groups(osd, bytes_available, |_| healthy.clone());
    }

    /// Reports that an OSD's groups were last clean in this epoch.
    pub fn report_clean_since(&mut self, osd: i32, last_epoch_clean: Epoch) {
        let stat = PgStat { state: pg_state::ACTIVE, last_epoch_clean, ..PgStat::default() };
        self.report_groups(osd, 3 << 30, |_| stat.clone());
    }

    /// Reports groups whose primary the OSD is, with the statistics that `stat` returns.
    pub fn report_groups(&mut self, osd: i32, bytes_available: u64, stat: impl Fn(PgId) -> PgStat) {
        let map = &self.monitor.state().osdmap;
        let groups: Vec<PgId> = map.pools.keys().flat_map(|pool| map.pgs(*pool)).collect();
        let ours = groups.into_iter().filter_map(|pg| {
            let mapping = map.pg_to_osds(pg);
            (mapping.acting_primary == Some(OsdId(osd))).then_some((pg, mapping))
        });
        let pgs = ours.map(|(pg, mapping)| {
            let stat = PgStat {
                reported_epoch: map.epoch,
                reported_sequence: self.now.0,
                up: mapping.up,
                acting: mapping.acting,
                ..stat(pg)
            };
            (pg, stat)
        });
        let usage = OsdUsage {
            bytes_total: 4 << 30,
            bytes_available,
            bytes_used: (4 << 30) - bytes_available,
            ..OsdUsage::default()
        };
        let report = StatsReport {
            osd: OsdId(osd),
            pgs: pgs.collect(),
            is_complete: true,
            usage,
            ..StatsReport::default()
        };
        self.send(Cluster::osd_conn(osd), 1, &report);
    }

    pub fn advance(&mut self, duration: Duration) {
        let end = self.now + duration;
        while let Some(due) = self.monitor.poll_timeout().filter(|due| *due <= end) {
            self.now = due.max(self.now);
            self.monitor.handle_timeout(self.now);
            self.drain();
        }
        self.now = end;
    }

    /// Lets time pass in which the monitor does not run, as on a machine that is suspended.
    pub fn suspend(&mut self, duration: Duration) {
        self.now = self.now + duration;
        self.monitor.handle_timeout(self.now);
        self.drain();
    }

    pub fn command_on(&mut self, conn: ConnId, command: &Value, input: &[u8]) -> MonCommandAck {
        self.raw_command(conn, &command.to_string(), input)
    }

    pub fn raw_command(&mut self, conn: ConnId, command: &str, input: &[u8]) -> MonCommandAck {
        let command = vec![command.to_owned()];
        let fsid = self.monitor.fsid();
        let input = Bytes::copy_from_slice(input);
        self.send(conn, 42, &MonCommand { version: 0, fsid, command, input });
        let mut replies = self.take::<MonCommandAck>(conn);
        assert_eq!(replies.len(), 1, "every command is answered once");
        replies.remove(0)
    }

    pub fn command(&mut self, command: Value) -> MonCommandAck {
        self.command_on(ADMIN, &command, b"")
    }

    /// The JSON output of a command that must succeed.
    pub fn json(&mut self, mut command: Value) -> Value {
        command["format"] = json!("json");
        let reply = self.command(command.clone());
        assert_eq!(reply.result, 0, "{command}: {}", reply.text);
        serde_json::from_slice(&reply.output)
            .unwrap_or_else(|error| panic!("{command}: {error}: {:?}", reply.output))
    }

    /// The plain output of a command that must succeed.
    pub fn plain(&mut self, command: Value) -> String {
        let reply = self.command(command.clone());
        assert_eq!(reply.result, 0, "{command}: {}", reply.text);
        String::from_utf8(reply.output.to_vec()).unwrap()
    }

    pub fn epoch(&self) -> Epoch {
        self.monitor.state().osdmap.epoch
    }
}
