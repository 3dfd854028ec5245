//! The client: its parts, its calls, and its session.

mod commands;
mod daemon;
mod files;
mod leave;
mod names;
mod quotas;
mod snapshots;
mod versions;

use crate::call::{Answer, Call, CallId, Outcome};
use crate::cap_snap::CapSnap;
use crate::file_locks;
use crate::inode::Inode;
use crate::monitor::Monitor;
use crate::outputs::Outputs;
use crate::realms::Realms;
use crate::requests::{self, Requests};
use crate::session::{Arrival, Session};
use crate::transfers::Transfers;
use auth::Entropy;
use commands::Commands;
use engine::{ConnId, Message, Time};
use leave::Leaving;
use rados::{Client, Credentials};
use std::collections::{BTreeMap, VecDeque};
use types::features::SUPPORTED;
use types::{EntityAddrVec, EntityName, Errno};
use versions::SnapshotReads;
use wire::client_reconnect::ClaimedCap;
use wire::{CapBits, ClientReconnect, ClientSession, MessageBody, SessionOp};

/// The first number of sessions that the client of the OSDs opens; the others are below.
const FIRST_CONN: ConnId = ConnId(1 << 31);
/// Bit 0 of a rejection's flags.
const BLOCKLISTED: u32 = 1;

/// Configuration of a client.
#[derive(Debug, Clone)]
pub struct Config {
    /// Name of its entity.
    pub name: EntityName,
    /// Proof of the name.
    pub credentials: Credentials,
    /// Monitors.
    pub monitors: Vec<EntityAddrVec>,
    /// The file system; `None` for the default one.
    pub file_system: Option<i32>,
    /// Whether the client ends with its session: what was asked in one session is never asked in another
    /// one, so that no request comes behind locks that are lost.
    pub ends_with_session: bool,
}

/// A capability as the client holds it, for checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldCap {
    /// The inode.
    pub ino: u64,
    /// Bits that the client has not given back.
    pub bits: CapBits,
}

/// A client of a file system.
#[derive(Debug)]
pub struct FsClient {
    monitor: Monitor,
    session: Session,
    requests: Requests,
    inodes: BTreeMap<u64, Inode>,
    realms: Realms,
    /// Inodes of directories by their paths, as replies have told.
    directories: BTreeMap<String, u64>,
    snapshot_reads: SnapshotReads,
    commands: Commands,
    leaving: Leaving,
    transfers: Transfers,
    /// Calls that wait until all before them is durable, with the last request before each.
    syncs: Vec<(CallId, u64)>,
    now: Time,
    last_call: u64,
    completions: VecDeque<(CallId, Outcome)>,
    durable: VecDeque<CallId>,
    outputs: Outputs,
    is_started: bool,
    is_shut_out: bool,
    ends_with_session: bool,
}

impl FsClient {
    /// A client without a session; its first timeout opens one.
    pub fn new(config: Config, mut entropy: Entropy) -> Self {
        let own = Entropy::from_seed(entropy.array());
        let Config { name, credentials, monitors, file_system, ends_with_session } = config;
        let rados = rados::Config::new(name.clone(), credentials.clone(), monitors.clone());
        let rados = rados::Config { first_conn: FIRST_CONN, ..rados };
        FsClient {
            monitor: Monitor::new(name, credentials, monitors, file_system, entropy),
            session: Session::new(),
            requests: Requests::default(),
            inodes: BTreeMap::new(),
            realms: Realms::default(),
            directories: BTreeMap::new(),
            snapshot_reads: SnapshotReads::default(),
            commands: Commands::default(),
            leaving: Leaving::default(),
            transfers: Transfers::new(Client::new(rados, own)),
            syncs: Vec::new(),
            now: Time::ZERO,
            last_call: 0,
            completions: VecDeque::new(),
            durable: VecDeque::new(),
            outputs: Outputs::default(),
            is_started: false,
            is_shut_out: false,
            ends_with_session,
        }
    }

    /// Makes a call.
    pub fn call(&mut self, now: Time, call: Call) -> CallId {
        self.now = now;
        self.last_call += 1;
        let id = CallId(self.last_call);
        match (requests::of_call(&call), call) {
            _ if self.has_ended() => self.fail(id, Errno::IO),
            (_, call) if self.exceeds_quota(&call) => self.fail(id, Errno::DQUOT),
            (Some((message, purpose)), _) => self.ask(id, message, purpose),
            (None, Call::Sync) => self.begin_sync(id),
            (None, Call::Command(command)) => self.begin_command(id, command),
            (None, Call::ReadSnapshotRange { stat, offset, length }) => {
                let (transfers, range) = (&mut self.transfers, (offset, length));
                let over = self.snapshot_reads.begin(now, transfers, id, &stat, range);
                over.into_iter().for_each(|outcome| self.complete(id, outcome));
            }
            (None, call) => self.begin_on_file(id, call),
        }
        self.end_turn();
        id
    }

    /// The next call that has ended.
    pub fn poll_completion(&mut self) -> Option<(CallId, Outcome)> {
        self.completions.pop_front()
    }

    /// The next call on names that has succeeded and of which all effects are durable now.
    pub fn poll_durable(&mut self) -> Option<CallId> {
        self.durable.pop_front()
    }

    fn begin_command(&mut self, id: CallId, command: String) {
        self.commands.add(self.requests.next_tid(), id, command);
        if let Some(conn) = self.session.ready() {
            self.commands.send(conn, &mut self.outputs);
        }
    }

    /// Ends the session. The client must have nothing to do: its calls have ended, and their effects are
    /// durable. It takes no calls any more.
    pub fn leave(&mut self, now: Time) {
        self.now = now;
        self.leaving.ask(self.session.ready(), &mut self.outputs);
        self.end_turn();
    }

    /// Whether the client has left, and its session has ended.
    pub fn has_left(&self) -> bool {
        self.leaving.is_over()
    }

    /// How often the session was lost, with everything that was not durable.
    pub fn sessions_lost(&self) -> u64 {
        self.session.lost()
    }

    /// Whether only a new client can go on: the cluster has shut this one out, or it has ended with its
    /// session.
    pub fn is_shut_out(&self) -> bool {
        self.is_shut_out || self.has_ended()
    }

    fn has_ended(&self) -> bool {
        self.ends_with_session && self.session.lost() > 0
    }

    /// The global id by which metadata servers know the client; 0 before a monitor has given it.
    pub fn global_id(&self) -> u64 {
        self.monitor.global_id()
    }

    /// The client of the OSDs.
    pub fn cluster(&self) -> &Client {
        &self.transfers.cluster
    }

    /// Capabilities that it holds.
    pub fn held_caps(&self) -> impl Iterator<Item = HeldCap> + '_ {
        self.inodes.iter().map(|(ino, inode)| HeldCap { ino: *ino, bits: inode.held })
    }

    #[cfg(test)]
    pub(crate) fn inode_mut(&mut self, ino: u64) -> &mut Inode {
        self.inodes.get_mut(&ino).expect("the client has the inode")
    }

    /// Requests, transfers and waiting calls, for people.
    pub fn describe(&self) -> String {
        let waiting = self.inodes.iter().filter(|(_, inode)| !inode.waiting.is_empty());
        let waiting: Vec<String> =
            waiting.map(|(ino, inode)| format!("{ino:x}: {inode:?}")).collect();
        let FsClient { session, requests, transfers, syncs, .. } = self;
        format!("{session:?}, {requests:?}, {transfers:?}, syncs {syncs:?}, waiting {waiting:?}")
    }

    /// # Panics
    /// If the state of the client contradicts itself.
    pub fn check_invariants(&self) {
        self.transfers.cluster.check_invariants();
        for (ino, inode) in &self.inodes {
            assert_eq!(*ino, inode.stat.ino, "an inode is known by its number");
            let writes = inode.held.contains(CapBits::FILE_WRITE);
            assert!(writes || inode.is_written(), "{ino:x} is written without a capability");
        }
    }

    fn complete(&mut self, id: CallId, outcome: Outcome) {
        self.completions.push_back((id, outcome));
    }

    fn fail(&mut self, id: CallId, errno: Errno) {
        self.complete(id, Err(errno));
    }

    fn fail_all(&mut self, ids: impl IntoIterator<Item = CallId>) {
        ids.into_iter().for_each(|id| self.fail(id, Errno::IO));
    }

    fn begin_sync(&mut self, id: CallId) {
        self.syncs.push((id, self.requests.last_tid()));
        self.hasten_journal();
        let all: Vec<u64> = self.inodes.keys().copied().collect();
        all.into_iter().for_each(|ino| self.tend(ino));
        self.tend_syncs();
    }

    /// Asks the server to store without delay what it has answered early.
    fn hasten_journal(&mut self) {
        if let Some(conn) = self.session.ready() {
            let flush = ClientSession::new(SessionOp::REQUEST_FLUSH_MDLOG, 0);
            self.outputs.send(conn, flush.encode(SUPPORTED));
        }
    }

    /// Ends calls for which everything is durable.
    fn tend_syncs(&mut self) {
        if self.syncs.is_empty() || !self.inodes.values().all(Inode::is_clean) {
            return;
        }
        let requests = &self.requests;
        let (done, waiting) = std::mem::take(&mut self.syncs)
            .into_iter()
            .partition::<Vec<_>, _>(|(_, last)| requests.are_durable(*last));
        self.syncs = waiting;
        done.into_iter().for_each(|(id, _)| self.complete(id, Ok(Answer::Done)));
    }

    /// A connection to the server is there.
    fn server_opened(&mut self, conn: ConnId) {
        let unanswered = self.commands.lose_sent();
        self.fail_all(unanswered);
        match self.session.opened(conn, self.monitor.server()) {
            Arrival::Claims => self.claim(conn),
            Arrival::Loses => {
                self.lose_session();
                self.open_session();
            }
            Arrival::Opens => self.open_session(),
        }
    }

    /// Tells the next server what the client has. Before the claims go requests and changes that may have
    /// been lost: when all claims are there, it executes.
    fn claim(&mut self, conn: ConnId) {
        let sent = self.requests.numbers(true);
        sent.into_iter().for_each(|tid| self.transmit(conn, tid));
        let flushes = self.inodes.values().flat_map(|inode| &inode.flushes);
        let flushes: Vec<Message> =
            flushes.map(|(tid, caps)| caps.encode(SUPPORTED).with_tid(*tid)).collect();
        flushes.into_iter().for_each(|message| self.outputs.send(conn, message));
        let mut caps = Vec::new();
        for (ino, inode) in &mut self.inodes {
            inode.restart();
            let context = self.realms.context(inode.realm);
            let claimed = ClaimedCap {
                cap_id: inode.cap_id,
                wanted: inode.wanted(),
                issued: inode.held,
                realm: inode.realm,
                snap_follows: inode.cap_snaps.front().map_or(context.seq.0, CapSnap::follows),
                locks: file_locks::claims(&inode.locks),
                ..ClaimedCap::default()
            };
            caps.push((*ino, claimed));
        }
        let claims = ClientReconnect { caps, realms: self.realms.claims(), more: false };
        self.outputs.send(conn, claims.encode(SUPPORTED));
    }

    fn open_session(&mut self) {
        if !self.has_ended() {
            self.session.open(&mut self.outputs);
        }
    }

    /// The session is gone, and what was not durable with it.
    fn lose_session(&mut self) {
        self.session.lose();
        self.realms = Realms::default();
        self.directories.clear();
        self.leaving.begin();
        let inodes = std::mem::take(&mut self.inodes).into_values();
        inodes.for_each(|inode| self.fail_calls(inode));
        let lost =
            [self.requests.lose(self.ends_with_session), self.transfers.forget(None)].concat();
        let syncs = std::mem::take(&mut self.syncs).into_iter().map(|(id, _)| id);
        let commands = self.commands.lose();
        self.fail_all(lost.into_iter().chain(syncs).chain(commands));
    }

    fn handle_session(&mut self, message: &ClientSession) {
        let Some(conn) = self.session.connection() else { return };
        match message.op {
            SessionOp::OPEN => {
                self.session.is_granted(self.now, message.features);
                self.resume(conn);
                self.commands.send(conn, &mut self.outputs);
            }
            SessionOp::CLOSE if self.leaving.is_begun() => {
                self.session.reject();
                self.leaving.end();
            }
            SessionOp::CLOSE if self.session.may_end() => {
                self.lose_session();
                self.open_session();
            }
            // A session has ended of which the client never learned, or that it has lost. The request for the
            // next one may have been dropped with it; a second one does no harm.
            SessionOp::CLOSE => self.open_session(),
            SessionOp::REJECT => {
                self.session.reject();
                self.is_shut_out |= message.flags & BLOCKLISTED != 0;
            }
            SessionOp::STALE => self.session.hasten_renewal(self.now),
            SessionOp::RECALL_STATE => self.recall(message.max_caps as usize),
            SessionOp::FLUSHMSG => {
                let answer = ClientSession::new(SessionOp::FLUSHMSG_ACK, message.sequence);
                self.outputs.send(conn, answer.encode(SUPPORTED));
            }
            _ => {}
        }
    }

    /// Requests and calls on files go on with this server.
    fn resume(&mut self, conn: ConnId) {
        let waiting = self.requests.numbers(false);
        waiting.into_iter().for_each(|tid| self.transmit(conn, tid));
        if !self.syncs.is_empty() {
            self.hasten_journal();
        }
        let all: Vec<u64> = self.inodes.keys().copied().collect();
        for ino in all {
            let waiting =
                self.inodes.get_mut(&ino).into_iter().flat_map(|inode| &mut inode.waiting);
            waiting.for_each(|waiting| waiting.asked_range = false);
            self.tend(ino);
        }
    }
}
