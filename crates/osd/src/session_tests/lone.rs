//! One OSD with one group, whose store and monitor answer immediately.

use crate::{Config, Osd};
use bytes::Bytes;
use engine::{AuthRequest, AuthVerdict, ConnId, Daemon, Message, Output, Peer, Policy, Time};
use maps::{Incremental, OsdMap, Pool, PoolType};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use store::mem::MemStore;
use store::{Completion, Request, RequestKind, StoreError};
use types::features::SUPPORTED;
use types::{
    EntityAddrVec, EntityName, EntityType, HObject, OsdId, ParticipantName, PgId, PgShard, PoolId,
    Uuid,
};
use wire::internal::{
    Heartbeat, ImageTraffic, OsdCounters, RotatingSecrets, SlowRequests, StatsAck, StatsReport,
};
use wire::op::request_flags;
use wire::{
    Command, CommandReply, MessageBody, OsdAlive, OsdBoot, OsdFailure, OsdMapMessage,
    OsdMarkMeDown, OsdOp, OsdReply, OsdRequest, WatchNotify,
};

pub const POOL: PoolId = PoolId(1);
pub const CLIENT_ADDR: &str = "v2:10.0.0.2:4000/77";
const FSID: Uuid = Uuid([7; 16]);
pub const OSD: OsdId = OsdId(0);
const PG: PgId = PgId { pool: POOL, seed: 0 };

pub struct Lone {
    pub osd: Osd,
    pub now: Time,
    pub map: OsdMap,
    pub store: MemStore,
    /// Commits of groups.
    pub commits: usize,
    /// Number of transactions besides those of groups.
    pub other_commits: usize,
    /// Number of next commits that are refused.
    pub refusals: usize,
    /// The disk has failed.
    pub is_broken: bool,
    /// Reads of omap values fail.
    pub fails_omap_reads: bool,
    /// Requests to be marked down, when the disk failed.
    pub leaves: Vec<OsdMarkMeDown>,
    /// Policies of sessions that it opened to other OSDs, and sessions over which it sent group messages.
    pub dialed: Vec<Policy>,
    pub spoken: Vec<ConnId>,
    /// Sessions to other OSDs, sessions over which requests were sent to these, and OSDs that were reported.
    pub links: Vec<ConnId>,
    pub asked: Vec<ConnId>,
    pub reported: Vec<OsdId>,
    pub health: BTreeMap<String, String>,
    pub slow: SlowRequests,
    /// Counters in the last report.
    pub counters: OsdCounters,
    /// Number of pings that it answered.
    pub beats: usize,
    /// Number of boot messages.
    pub boots: usize,
    /// Sequence numbers of the reports, and the available bytes in each.
    pub reports: Vec<(u64, u64)>,
    /// Entries that this OSD sent to the cluster log.
    pub logged: Vec<wire::LogEntry>,
    /// Reported traffic of images.
    pub images: Vec<ImageTraffic>,
    monitor: Option<ConnId>,
    opened: u64,
    tids: u64,
    pub replies: VecDeque<(u64, OsdReply)>,
    /// Notifications to watchers and notifiers.
    pub told: Vec<(ConnId, WatchNotify)>,
    pub pauses: Vec<bool>,
    /// Sessions that are paused.
    pub paused: BTreeSet<ConnId>,
    /// Reads of data that the store has not answered, if it delays them.
    pub held: Option<VecDeque<Request>>,
    /// Sessions that the OSD ended, if it may.
    pub closed: Option<Vec<ConnId>>,
    pub answers: Vec<CommandReply>,
    verdicts: Vec<AuthVerdict>,
}

impl Lone {
    pub fn new() -> Self {
        Lone::with(MemStore::new(), false)
    }

    pub fn with(store: MemStore, auth_none: bool) -> Self {
        let fsid = FSID;
        let config = config(auth_none);
        let addrs = config.addrs.clone();
        let mut lone = Lone {
            osd: Osd::new(config, [1; 32]),
            now: Time(1_700_000_000_000_000_000),
            map: OsdMap::new(fsid),
            store,
            commits: 0,
            other_commits: 0,
            refusals: 0,
            is_broken: false,
            fails_omap_reads: false,
            leaves: Vec::new(),
            dialed: Vec::new(),
            spoken: Vec::new(),
            links: Vec::new(),
            asked: Vec::new(),
            reported: Vec::new(),
            health: BTreeMap::new(),
            slow: SlowRequests::default(),
            counters: OsdCounters::default(),
            beats: 0,
            boots: 0,
            reports: Vec::new(),
            logged: Vec::new(),
            images: Vec::new(),
            monitor: None,
            opened: ConnId::ACCEPTED,
            tids: 0,
            replies: VecDeque::new(),
            told: Vec::new(),
            pauses: Vec::new(),
            paused: BTreeSet::new(),
            held: None,
            closed: None,
            answers: Vec::new(),
            verdicts: Vec::new(),
        };
        lone.drain();
        lone.publish(|increment| {
            increment.new_max_osd = Some(1);
            increment.new_pool_max = Some(POOL);
            increment.new_pools.insert(POOL, Pool::new(PoolType::Replicated, 1, 1, 0));
            increment.new_pool_names.insert(POOL, "pool".to_owned());
            increment.new_pg_upmap.insert(PG, vec![OSD]);
            increment.mark_up(OSD, addrs.clone(), addrs.clone(), addrs.clone(), addrs);
            increment.new_weight.insert(OSD, maps::WEIGHT_IN);
        });
        assert!(lone.osd.is_up() || lone.osd.has_failed());
        lone
    }

    /// Publishes the next map.
    pub fn publish(&mut self, change: impl FnOnce(&mut Incremental)) {
        let mut message = self.next_map(change);
        message.full.insert(self.map.epoch, self.map.to_bytes(SUPPORTED));
        self.tell_map(&message);
    }

    /// Publishes the map after the next, which the monitor has trimmed.
    pub fn skip_to(&mut self, change: impl FnOnce(&mut Incremental)) {
        self.next_map(|_| ());
        let mut message = self.next_map(change);
        message.incrementals.clear();
        message.full.insert(self.map.epoch, self.map.to_bytes(SUPPORTED));
        self.tell_map(&message);
    }

    /// Publishes the next two maps, in one message.
    pub fn publish_two(
        &mut self,
        first: impl FnOnce(&mut Incremental),
        second: impl FnOnce(&mut Incremental),
    ) {
        let first = self.next_map(first);
        let mut message = self.next_map(second);
        message.incrementals.extend(first.incrementals);
        self.tell_map(&message);
    }

    fn next_map(&mut self, change: impl FnOnce(&mut Incremental)) -> OsdMapMessage {
        let wall = self.now.wall();
        let mut increment = Incremental::new(self.map.fsid, self.map.epoch.next(), wall);
        change(&mut increment);
        self.map = increment.seal(&self.map).expect("the change fits the map");
        let mut message = OsdMapMessage { fsid: self.map.fsid, ..OsdMapMessage::default() };
        message.newest = self.map.epoch;
        message.incrementals.insert(self.map.epoch, increment.to_bytes(SUPPORTED));
        message
    }

    fn tell_map(&mut self, message: &OsdMapMessage) {
        let monitor = self.monitor.expect("the OSD connects at once");
        self.deliver(monitor, message.encode(SUPPORTED));
    }

    pub fn tell_secrets(&mut self, secrets: &auth::RotatingSecrets) {
        let secrets = codec::encode_to_bytes(secrets);
        let message = RotatingSecrets { service: EntityType::OSD.0.into(), secrets };
        let monitor = self.monitor.expect("the OSD connects at once");
        self.deliver(monitor, message.encode(SUPPORTED));
    }

    /// Requests counting of image traffic for so many seconds.
    pub fn ask_for_images(&mut self, seconds: u32) {
        let conn = self.monitor.expect("there is a session");
        self.deliver(conn, StatsAck { count_images: seconds }.encode(SUPPORTED));
    }

    /// Sets all options of the configuration database.
    pub fn configure(&mut self, options: &[(&str, &str)]) {
        let options =
            options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let monitor = self.monitor.expect("the OSD connects at once");
        self.deliver(monitor, wire::Config { options }.encode(SUPPORTED));
    }

    pub fn authenticate(&mut self, request: AuthRequest) -> AuthVerdict {
        self.osd.handle_auth(self.now, ConnId(ConnId::ACCEPTED), request);
        self.drain();
        self.verdicts.pop().expect("every request is answered at once")
    }

    /// A session of a client with these capabilities.
    pub fn client(&mut self, caps: &str) -> ConnId {
        let caps = auth::AuthCaps { allow_all: false, text: caps.to_owned() };
        self.client_with(codec::encode_to_bytes(&caps))
    }

    /// A session of a client at another address.
    pub fn client_at(&mut self, addr: &str) -> ConnId {
        self.opened += 1;
        let conn = ConnId(self.opened);
        let participant = ParticipantName::new(EntityType::CLIENT, conn.0 as i64);
        let caps = auth::AuthCaps { allow_all: true, text: String::new() };
        let addrs = EntityAddrVec::one(addr.parse().unwrap());
        self.open_as(conn, Peer { addrs, ..peer(participant, codec::encode_to_bytes(&caps)) });
        conn
    }

    pub fn client_with(&mut self, caps: Bytes) -> ConnId {
        self.opened += 1;
        let conn = ConnId(self.opened);
        let number = conn.0 as i64;
        self.open(conn, ParticipantName::new(EntityType::CLIENT, number), caps);
        conn
    }

    /// A session that another OSD opens.
    pub fn peer(&mut self, osd: OsdId, addrs: &EntityAddrVec) -> ConnId {
        self.opened += 1;
        let conn = ConnId(self.opened);
        let participant = ParticipantName::new(EntityType::OSD, osd.0.into());
        let name = EntityName::osd(osd.0);
        self.open_as(conn, Peer { name, addrs: addrs.clone(), ..peer(participant, Bytes::new()) });
        conn
    }

    /// A session that this OSD opens is established.
    pub fn link_opened(&mut self, conn: ConnId, osd: OsdId, addrs: &EntityAddrVec) {
        let participant = ParticipantName::new(EntityType::OSD, osd.0.into());
        self.open_as(conn, Peer { addrs: addrs.clone(), ..peer(participant, Bytes::new()) });
    }

    fn open(&mut self, conn: ConnId, participant: ParticipantName, caps: Bytes) {
        self.open_as(conn, peer(participant, caps));
    }

    fn open_as(&mut self, conn: ConnId, peer: Peer) {
        self.osd.handle_opened(self.now, conn, peer);
        self.drain();
    }

    pub fn deliver(&mut self, conn: ConnId, message: Message) {
        self.osd.handle_message(self.now, conn, message);
        self.drain();
    }

    /// Sends a request and returns its tid.
    pub fn send(&mut self, conn: ConnId, name: &str, ops: Vec<OsdOp>, flags: u32) -> u64 {
        self.tids += 1;
        let message = self.request(name, ops, flags).with_tid(self.tids);
        self.deliver(conn, message);
        self.tids
    }

    pub fn request(&self, name: &str, ops: Vec<OsdOp>, flags: u32) -> Message {
        let (_, hash) = self.map.object_to_pg(POOL, b"", b"", name.as_bytes()).unwrap();
        let name = Bytes::copy_from_slice(name.as_bytes());
        let request = OsdRequest {
            pg: PgShard::replicated(PgId { pool: POOL, seed: hash }),
            map_epoch: self.map.epoch,
            flags: flags | request_flags::READ | request_flags::WRITE,
            request_id: Default::default(),
            client_incarnation: 0,
            mtime: self.now.wall(),
            object: HObject::head(POOL, Bytes::new(), Bytes::new(), name, hash),
            ops,
            snap_context: Default::default(),
            retry_attempt: 0,
            features: SUPPORTED,
        };
        request.encode(SUPPORTED)
    }

    /// The result of a request, unless it waits or was dropped.
    pub fn call(&mut self, conn: ConnId, name: &str, ops: Vec<OsdOp>) -> Option<i32> {
        self.call_with(conn, name, ops, 0)
    }

    pub fn call_with(
        &mut self,
        conn: ConnId,
        name: &str,
        ops: Vec<OsdOp>,
        flags: u32,
    ) -> Option<i32> {
        let tid = self.send(conn, name, ops, flags);
        let at = self.replies.iter().position(|(known, _)| *known == tid)?;
        self.replies.remove(at).map(|(_, reply)| reply.result)
    }

    pub fn command(&mut self, conn: ConnId, text: &str) -> CommandReply {
        let command =
            Command { fsid: self.map.fsid, command: vec![text.to_owned()], input: Bytes::new() };
        self.deliver(conn, command.encode(SUPPORTED));
        self.answers.pop().expect("every command is answered at once")
    }

    /// Advances the time and runs timers.
    pub fn wait(&mut self, seconds: u64) {
        let end = self.now + Duration::from_secs(seconds);
        while let Some(due) = self.osd.poll_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.osd.handle_timeout(self.now);
            self.drain();
        }
        self.now = end;
    }

    /// Ends a session.
    pub fn close(&mut self, conn: ConnId) {
        self.osd.handle_closed(self.now, conn);
        self.paused.remove(&conn);
        self.drain();
    }

    /// The tids of requests for pieces of copies that are in flight.
    pub fn copy_questions(&self) -> Vec<u64> {
        self.osd.hosted().operations().copies_asked()
    }

    /// Evicts all object contexts, as happens to idle ones.
    pub fn forget_objects(&mut self) {
        let (hosted, shared) = self.osd.parts();
        hosted.forget_objects(shared, types::PgShard::replicated(PG));
    }

    /// Number of clients' requests in progress, and the bytes of their messages.
    pub fn in_flight(&mut self) -> (usize, usize) {
        self.osd.shared().clients.in_flight()
    }

    /// Bytes of reads that the store has not answered.
    pub fn held_bytes(&self) -> u64 {
        let length = |request: &Request| match request.kind {
            RequestKind::Read { length, .. } => length,
            _ => 0,
        };
        self.held.iter().flatten().map(length).sum()
    }

    /// Answers the oldest delayed read, as if the object had no data.
    pub fn answer_held(&mut self) -> bool {
        let Some(Request { token, .. }) = self.held.as_mut().and_then(VecDeque::pop_front) else {
            return false;
        };
        let outcome = Ok(store::Outcome::Read(store::ReadData::default()));
        self.osd.handle_completion(self.now, Completion { token, outcome });
        self.drain();
        true
    }

    pub fn is_active(&self) -> bool {
        self.osd.groups().all(|group| group.is_active())
    }

    fn drain(&mut self) {
        while let Some(output) = self.osd.poll_output() {
            match output {
                Output::Storage(request)
                    if matches!(request.kind, RequestKind::Read { .. }) && self.held.is_some() =>
                {
                    self.held.as_mut().expect("it was just there").push_back(request);
                }
                Output::Storage(Request { token, kind }) => {
                    let outcome = self.ask_store(kind);
                    self.osd.handle_completion(self.now, Completion { token, outcome });
                }
                Output::Connect { conn, target } if target.participant.kind == EntityType::OSD => {
                    self.links.push(conn);
                    self.dialed.push(target.policy);
                }
                Output::Connect { conn, .. } => {
                    self.monitor = Some(conn);
                    self.open(conn, ParticipantName::new(EntityType::MON, 0), Bytes::new());
                }
                Output::Send { conn, message } => self.take(conn, &message),
                Output::Pause { conn, paused } => {
                    self.pauses.push(paused);
                    match paused {
                        true => assert!(self.paused.insert(conn)),
                        false => assert!(self.paused.remove(&conn)),
                    }
                }
                Output::Auth { verdict, .. } => self.verdicts.push(verdict),
                Output::Close { conn } => match &mut self.closed {
                    Some(closed) => closed.push(conn),
                    None => {
                        let may_end = self.is_broken || self.links.contains(&conn);
                        assert!(may_end, "{conn:?} is closed");
                    }
                },
            }
            self.osd.check_invariants();
        }
    }

    fn ask_store(&mut self, kind: RequestKind) -> Result<store::Outcome, StoreError> {
        if self.is_broken || self.fails_omap_reads && matches!(kind, RequestKind::OmapGet { .. }) {
            return Err(StoreError::Device(std::io::Error::other("input/output error").into()));
        }
        self.commits += usize::from(matches!(kind, RequestKind::Append(_)));
        self.other_commits += usize::from(matches!(kind, RequestKind::Commit(_)));
        if let RequestKind::Append(refused) = &kind
            && self.refusals > 0
        {
            self.refusals -= 1;
            self.store.close_behind(refused);
            return Err(StoreError::NoSpace { needed: 1, available: 0 });
        }
        self.store.execute(kind)
    }

    fn take(&mut self, conn: ConnId, message: &Message) {
        match message.kind {
            OsdReply::KIND => {
                self.replies.push_back((message.tid, OsdReply::decode(message).unwrap()));
            }
            WatchNotify::KIND => self.told.push((conn, WatchNotify::decode(message).unwrap())),
            kind if pg::message::is_pg_message(kind) => self.spoken.push(conn),
            OsdRequest::KIND => self.asked.push(conn),
            OsdFailure::KIND => {
                let failure = OsdFailure::decode(message).unwrap();
                if failure.flags & OsdFailure::IMMEDIATE != 0 {
                    self.reported.push(failure.target);
                }
            }
            Heartbeat::KIND => {
                self.beats += usize::from(Heartbeat::decode(message).unwrap().is_answer);
            }
            OsdBoot::KIND => self.boots += 1,
            OsdMarkMeDown::KIND => self.leaves.push(OsdMarkMeDown::decode(message).unwrap()),
            StatsReport::KIND => {
                let report = StatsReport::decode(message).unwrap();
                self.health = report.health;
                self.slow = report.slow;
                self.counters = report.counters;
                self.reports.push((message.tid, report.usage.bytes_available));
                self.images.extend(report.images);
            }
            wire::Log::KIND => self.logged.extend(wire::Log::decode(message).unwrap().entries),
            CommandReply::KIND => self.answers.push(CommandReply::decode(message).unwrap()),
            OsdAlive::KIND if Some(conn) == self.monitor => {
                let want = OsdAlive::decode(message).unwrap().want;
                self.publish(|increment| {
                    increment.new_up_thru.insert(OSD, want);
                });
            }
            _ => {}
        }
    }
}

pub fn config(auth_none: bool) -> Config {
    Config {
        id: OSD,
        fsid: FSID,
        addrs: EntityAddrVec::one("v2:10.0.0.1:6800/1".parse().unwrap()),
        monitors: vec![EntityAddrVec::default()],
        key: None,
        uuid: types::Uuid::default(),
        auth_none,
        connection_modes: vec![1, 2],
        hostname: "host".to_owned(),
        holds_shards: false,
        sizes: crate::Sizes::default(),
    }
}

fn peer(participant: ParticipantName, caps: Bytes) -> Peer {
    let addr = CLIENT_ADDR.parse().unwrap();
    Peer {
        participant,
        name: EntityName::new(participant.kind, "x"),
        addrs: EntityAddrVec::one(addr),
        features: SUPPORTED,
        caps,
        seen_addr: addr,
    }
}
