//! The daemon: a monitor's session, beacons, sessions of clients, and the rank that it serves.

mod cluster;
mod commands;
mod end;
mod monitor;
mod reports;
mod scrubs;
#[cfg(test)]
mod tests;

use crate::authentication::Authentication;
use crate::beacons::Beacons;
use crate::commands::pending::Commands;
use crate::layouts::DataPools;
use crate::rank::{reconnect, shown};
use crate::store::{Failure, Setup, Store};
use crate::{ClientPeer, Config, Rank};
use auth::Entropy;
use cluster::{Cluster, file_system_id, learn_pools};
pub use end::End;
use engine::{
    AuthRequest, ConnId, ConnectTarget, ConnectingAnswer, ConnectingStep, CoreLoad, Daemon,
    Duration, Message, Output, Peer, Policy, Time,
};
use fsjournal::Limits;
use maps::{MdsMap, MdsState};
use reports::Reports;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use types::features::SUPPORTED;
use types::{EntityType, ParticipantName, PoolId};
use wire::internal::{RotatingSecrets, RotatingSecretsRequest};
use wire::{
    Auth, AuthReply, Command, MdsBeacon, MdsMapMessage, MessageBody, MonSubscribe, PeerFault,
    SubscribeItem, decode_from_peer,
};

/// Pause before the next monitor is tried.
const MONITOR_RETRY: Duration = Duration::from_millis(500);
/// Pause before a request for a ticket is repeated.
const RENEWAL_RETRY: Duration = Duration::from_secs(10);
/// Messages of clients that are held while the server may not answer. Nothing more is received from a client
/// that sends more, until half of them are handled.
const HELD_MAX: usize = 10_000;

/// The session with a monitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Monitor {
    Waiting(Time),
    Opening(ConnId),
    Open(ConnId),
}

/// A metadata server.
#[derive(Debug)]
pub struct Mds {
    config: Config,
    authentication: Authentication,
    beacons: Beacons,
    monitor: Monitor,
    attempts: usize,
    last_conn: u64,
    clients: BTreeMap<ConnId, ClientPeer>,
    rank: Option<Rank>,
    /// Where the rank is stored; `None` if it is not.
    cluster: Option<Cluster>,
    /// Values of the map with which a rank is opened and served.
    map: MdsMap,
    /// Data pools of that map.
    pools: DataPools,
    /// Time of the last input.
    now: Time,
    /// When the ticket is renewed at the earliest, after a request without an answer.
    renewal_pause: Time,
    /// Messages of clients that came while the server may not answer.
    held: VecDeque<(ConnId, Message)>,
    /// Sessions from which nothing is received meanwhile.
    paused: BTreeSet<ConnId>,
    /// Options, and commands that are not answered yet.
    commands: Commands,
    /// Why it serves no longer.
    end: Option<End>,
    reports: Reports,
    /// Whether the process has nothing left to do.
    is_over: bool,
    outputs: VecDeque<Output<()>>,
}

impl Mds {
    /// A server without a session; its first timeout opens one. `seed` makes challenges and keys.
    pub fn new(config: Config, seed: [u8; 32]) -> Self {
        let mut entropy = Entropy::from_seed(seed);
        let authentication = Authentication::new(&config, entropy.array());
        let cluster = (!config.is_volatile).then(|| Cluster::new(&config, entropy));
        Mds {
            authentication,
            config,
            beacons: Beacons::new(),
            monitor: Monitor::Waiting(Time::ZERO),
            attempts: 0,
            last_conn: 0,
            clients: BTreeMap::new(),
            rank: None,
            cluster,
            map: MdsMap::default(),
            pools: DataPools::default(),
            now: Time::ZERO,
            renewal_pause: Time::ZERO,
            held: VecDeque::new(),
            paused: BTreeSet::new(),
            commands: Commands::default(),
            end: None,
            reports: Reports::default(),
            is_over: false,
            outputs: VecDeque::new(),
        }
    }

    /// State that the map grants.
    pub fn state(&self) -> MdsState {
        self.beacons.state()
    }

    fn gid(&self) -> u64 {
        match self.authentication.global_id() {
            0 => self.config.gid,
            given => given,
        }
    }

    fn send(&mut self, conn: ConnId, message: Message) {
        self.outputs.push_back(Output::Send { conn, message });
    }

    fn handle_from_monitor(&mut self, now: Time, message: &Message) -> Result<(), PeerFault> {
        match message.kind {
            MdsBeacon::KIND => self.beacons.acknowledged(&decode_from_peer(message)?),
            MdsMapMessage::KIND => self.handle_map(now, &decode_from_peer(message)?),
            RotatingSecrets::KIND => {
                let secrets: RotatingSecrets = decode_from_peer(message)?;
                self.authentication.take_secrets(&secrets.secrets);
            }
            wire::Config::KIND => {
                let wire::Config { options } = decode_from_peer(message)?;
                self.commands.options.take_database(options);
                self.apply_options();
            }
            AuthReply::KIND => {
                let reply: AuthReply = decode_from_peer(message)?;
                self.authentication.take_sealed(now, &reply.payload);
            }
            // Monitors send their own map, too.
            _ => {}
        }
        Ok(())
    }

    fn handle_map(&mut self, now: Time, message: &MdsMapMessage) {
        let map = match codec::decode_all::<MdsMap>("mdsmap", &message.map) {
            Ok(map) => map,
            Err(error) => {
                return tracing::warn!(%error, "the map of metadata servers does not decode");
            }
        };
        if !self.beacons.handle_map(now, self.gid(), &map) {
            self.stop(End::Replaced);
            self.finish();
        }
        if map.epoch >= self.map.epoch {
            self.map = map;
        }
    }

    /// The rank that the map gives this server; 0 without one.
    fn own_rank(&self) -> u32 {
        let info = self.map.mds_info.get(&self.gid());
        info.and_then(|info| u32::try_from(info.rank).ok()).unwrap_or(0)
    }

    fn data_pool(&self) -> PoolId {
        self.map.data_pools.first().copied().unwrap_or(PoolId(-1))
    }

    /// Does the work of the state that the map grants, as far as it can be done now.
    fn work(&mut self, now: Time) {
        let state = self.beacons.state();
        if self.end.is_some() || [MdsState::BOOT, MdsState::STANDBY].contains(&state) {
            return;
        }
        self.open_rank(now);
        let osd_map = self.cluster.as_ref().and_then(Cluster::osd_map);
        learn_pools(&mut self.pools, &self.map, osd_map);
        let Some(rank) = &mut self.rank else { return };
        rank.set_data_pools(&self.pools);
        rank.set_map(self.beacons.epoch(), &self.map);
        let seconds = |count: u32| Duration::from_secs(count.into());
        let (timeout, autoclose) = (self.map.session_timeout, self.map.session_autoclose);
        rank.set_session_times(seconds(timeout), seconds(autoclose));
        match state {
            MdsState::RECONNECT => {
                reconnect::begin(rank, now);
                if reconnect::is_reconnected(rank, now) {
                    self.beacons.set_ready(now);
                }
            }
            MdsState::ACTIVE => {
                reconnect::activate(rank, now);
                self.beacons.set_ready(now);
            }
            _ => self.beacons.set_ready(now),
        }
    }

    fn open_rank(&mut self, now: Time) {
        if self.rank.is_some() {
            return;
        }
        let own_rank = self.own_rank();
        if own_rank != 0 {
            return self.fail(now, Failure::Passing(one_rank_only(own_rank)));
        }
        let setup = Setup {
            pool: self.map.metadata_pool,
            rank: own_rank,
            id: file_system_id(&self.map),
            incarnation: self.gid(),
            data_pool: self.data_pool(),
            osd_epoch: self.map.last_failure_osd_epoch,
            is_new: self.beacons.state() == MdsState::CREATING,
            now: now.wall(),
            limits: Limits::default(),
        };
        match &mut self.cluster {
            Some(cluster) => cluster.open(now, setup),
            None => self.rank = Some(Rank::new(now, setup.data_pool)),
        }
        self.apply_options();
    }

    /// Tells the rank the options that it serves by.
    pub(super) fn apply_options(&mut self) {
        if let Some(rank) = &mut self.rank {
            let options = self.commands.options.values();
            rank.set_asynchronous_unlinks(options.switch("mds_asynchronous_unlinks"));
        }
    }

    /// Ends a turn: what is stored, what was opened, what may be sent.
    fn run(&mut self, now: Time) {
        self.now = now;
        self.commands.started.get_or_insert(now);
        loop {
            self.work(now);
            self.serve(now);
            // Renewals and claims may be among the held messages.
            let may_answer = self.beacons.may_answer(now);
            let may_evict = self.held.is_empty() && may_answer;
            if let Some(rank) = &mut self.rank {
                reconnect::note_lease(rank, now, may_answer);
            }
            let Some(cluster) = &mut self.cluster else { break };
            if let Some(opened) = cluster.run(now, self.rank.as_mut(), may_evict) {
                let pool = self.data_pool();
                let rank = self.rank.insert(reconnect::opened(now, opened, pool));
                reconnect::set_timeout(rank, self.config.reconnect_timeout);
                self.apply_options();
                continue;
            }
            if let Some(failure) = cluster.failure().cloned() {
                self.fail(now, failure);
            }
            break;
        }
        self.answer(now);
        self.answer_commands();
        self.send_beacon(now);
        self.send_report(now);
        if let Some(cluster) = &mut self.cluster {
            self.outputs.extend(std::iter::from_fn(|| cluster.poll_output()));
        }
    }

    /// Sends messages to clients, as far as they may be sent.
    fn answer(&mut self, now: Time) {
        let Some(rank) = self.rank.as_mut().filter(|_| self.beacons.may_answer(now)) else {
            return;
        };
        rank.set_now(now);
        while let Some((client, message)) = rank.poll_output() {
            // The newest connection of a client is the one that it uses.
            let conn = self.clients.iter().rev().find(|(_, peer)| peer.client == client);
            if let Some((conn, _)) = conn {
                self.outputs.push_back(Output::Send { conn: *conn, message });
            }
        }
    }

    /// Serves messages of clients that were held, if the server may answer.
    fn serve(&mut self, now: Time) {
        while self.beacons.may_answer(now)
            && self.rank.as_mut().is_some_and(|rank| !Store::is_full(rank))
            && let Some((conn, message)) = self.held.pop_front()
        {
            self.handle_from_client(now, conn, &message);
        }
        if self.held.len() <= HELD_MAX / 2 {
            let paused = std::mem::take(&mut self.paused).into_iter();
            self.outputs.extend(paused.map(|conn| Output::Pause { conn, paused: false }));
        }
    }

    fn handle_from_client(&mut self, now: Time, conn: ConnId, message: &Message) {
        let (Some(rank), Some(peer)) = (&mut self.rank, self.clients.get(&conn)) else { return };
        if let Err(fault) = reconnect::handle_message(rank, now, peer, message) {
            tracing::warn!(client = peer.client, %fault, "a message is dropped");
        }
    }

    /// Lets the rank look for silent clients and leases that have ended, unless it may not answer.
    fn tend_rank(&mut self, now: Time) {
        let Some(rank) = &mut self.rank else { return };
        let is_heard = self.held.is_empty() && self.beacons.may_answer(now);
        if is_heard && rank.poll_timeout().is_some_and(|due| due <= now) {
            rank.handle_timeout(now);
        }
    }
}

/// Why a server does not serve another rank than 0: all would read and write the tree of rank 0.
fn one_rank_only(rank: u32) -> String {
    format!(
        "it has rank {rank}, and a file system has one rank only; run `ceph fs set FILE_SYSTEM max_mds 1`"
    )
}

impl Daemon for Mds {
    type Request = ();
    type Completion = ();

    fn handle_auth(&mut self, now: Time, conn: ConnId, request: AuthRequest) {
        let verdict = self.authentication.verify(now, conn, request);
        self.outputs.push_back(Output::Auth { conn, verdict });
    }

    fn authenticate(&mut self, now: Time, conn: ConnId, step: ConnectingStep) -> ConnectingAnswer {
        match self.cluster.as_mut().filter(|_| Cluster::owns(conn)) {
            Some(cluster) => cluster.authenticate(now, conn, step),
            None => self.authentication.prove(now, conn, step),
        }
    }

    fn handle_opened(&mut self, now: Time, conn: ConnId, peer: Peer) {
        if self.is_monitor(conn) {
            self.monitor_opened(now, conn);
            return self.run(now);
        }
        if let Some(cluster) = self.cluster.as_mut().filter(|_| Cluster::owns(conn)) {
            cluster.handle_opened(now, conn, peer);
            return self.run(now);
        }
        let client = u64::try_from(peer.participant.number);
        match client.ok().filter(|_| peer.participant.kind == EntityType::CLIENT) {
            Some(client) => {
                let peer = ClientPeer::new(client, peer);
                if let Some(rank) = &mut self.rank {
                    reconnect::connected_anew(rank, &peer);
                }
                self.clients.insert(conn, peer);
                self.run(now);
            }
            None => self.outputs.push_back(Output::Close { conn }),
        }
    }

    fn handle_message(&mut self, now: Time, conn: ConnId, message: Message) {
        if let Some(cluster) = self.cluster.as_mut().filter(|_| Cluster::owns(conn)) {
            cluster.handle_message(now, conn, message);
        } else if self.is_monitor(conn) {
            if let Err(fault) = self.handle_from_monitor(now, &message) {
                tracing::warn!(%fault, "a message of the monitor is dropped");
            }
        } else if message.kind == Command::KIND {
            self.handle_command(conn, &message);
        } else {
            self.held.push_back((conn, message));
            if self.held.len() >= HELD_MAX && self.paused.insert(conn) {
                self.outputs.push_back(Output::Pause { conn, paused: true });
            }
        }
        self.run(now);
    }

    fn handle_closed(&mut self, now: Time, conn: ConnId) {
        if let Some(cluster) = self.cluster.as_mut().filter(|_| Cluster::owns(conn)) {
            cluster.handle_closed(now, conn);
            return self.run(now);
        }
        self.paused.remove(&conn);
        self.authentication.closed(conn);
        if self.is_monitor(conn) {
            self.monitor = Monitor::Waiting(now + MONITOR_RETRY);
            self.beacons.pause();
        }
        self.clients.remove(&conn);
        self.commands.forget(conn);
    }

    fn handle_completion(&mut self, _now: Time, (): ()) {}

    fn handle_load(&mut self, load: CoreLoad) {
        self.reports.set_load(load);
    }

    fn handle_timeout(&mut self, now: Time) {
        if matches!(self.monitor, Monitor::Waiting(until) if until <= now) {
            self.connect();
        }
        if let Some(cluster) = &mut self.cluster {
            cluster.handle_timeout(now);
        }
        self.renew_ticket(now);
        self.tend_rank(now);
        self.run(now);
    }

    fn poll_output(&mut self) -> Option<Output<()>> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let monitor = match self.monitor {
            Monitor::Waiting(until) => Some(until),
            Monitor::Opening(_) => None,
            Monitor::Open(_) => {
                let own = [self.beacons.due(), self.next_renewal(), self.reports.due()];
                own.into_iter().flatten().min()
            }
        };
        let cluster = self.cluster.as_ref();
        let cluster = cluster.and_then(|cluster| cluster.poll_timeout(self.rank.is_some()));
        // A time that is past waits for something else.
        let clients = self
            .rank
            .as_ref()
            .and_then(|rank| reconnect::poll_timeout(rank).or(rank.poll_timeout()));
        let clients = clients.filter(|due| *due > self.now);
        [monitor, cluster, clients].into_iter().flatten().min()
    }
}
