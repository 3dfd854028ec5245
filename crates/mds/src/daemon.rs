//! The daemon: a monitor's session, beacons, sessions of clients, and the rank that it serves.

use crate::authentication::Authentication;
use crate::beacons::Beacons;
use crate::{ClientPeer, Config, Rank};
use engine::{
    AuthRequest, ConnId, ConnectTarget, ConnectingAnswer, ConnectingStep, Daemon, Duration,
    Message, Output, Peer, Policy, Time,
};
use maps::{MdsMap, MdsState};
use std::collections::{BTreeMap, VecDeque};
use types::features::SUPPORTED;
use types::{EntityType, ParticipantName, PoolId};
use wire::internal::{RotatingSecrets, RotatingSecretsRequest};
use wire::{
    Auth, AuthReply, MdsBeacon, MdsMapMessage, MessageBody, MonSubscribe, PeerFault, SubscribeItem,
    decode_from_peer,
};

/// Pause before the next monitor is tried.
const MONITOR_RETRY: Duration = Duration::from_millis(500);
/// Pause before a request for a ticket is repeated.
const RENEWAL_RETRY: Duration = Duration::from_secs(10);
/// Messages of clients that are held while the server may not answer. A client that sends more loses its
/// connection, and sends them again when it has a new one.
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
    /// When the ticket is renewed at the earliest, after a request without an answer.
    renewal_pause: Time,
    /// Messages of clients that came while the server may not answer.
    held: VecDeque<(ConnId, Message)>,
    was_replaced: bool,
    outputs: VecDeque<Output<()>>,
}

impl Mds {
    /// A server without a session; its first timeout opens one. `seed` makes challenges and keys.
    pub fn new(config: Config, seed: [u8; 32]) -> Self {
        Mds {
            authentication: Authentication::new(&config, seed),
            config,
            beacons: Beacons::new(),
            monitor: Monitor::Waiting(Time::ZERO),
            attempts: 0,
            last_conn: 0,
            clients: BTreeMap::new(),
            rank: None,
            renewal_pause: Time::ZERO,
            held: VecDeque::new(),
            was_replaced: false,
            outputs: VecDeque::new(),
        }
    }

    /// State that the map grants.
    pub fn state(&self) -> MdsState {
        self.beacons.state()
    }

    /// Whether the map has given its rank to another server: it must end, and be started again.
    pub fn was_replaced(&self) -> bool {
        self.was_replaced
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

    fn connect(&mut self) {
        let Some(count) = Some(self.config.monitors.len()).filter(|count| *count > 0) else {
            self.monitor = Monitor::Waiting(Time::FAR_FUTURE);
            return;
        };
        let rank = self.attempts % count;
        self.attempts += 1;
        self.last_conn += 1;
        let conn = ConnId(self.last_conn);
        let target = ConnectTarget {
            participant: ParticipantName::new(EntityType::MON, rank as i64),
            addrs: self.config.monitors[rank].clone(),
            policy: Policy::Lossy,
        };
        self.monitor = Monitor::Opening(conn);
        self.outputs.push_back(Output::Connect { conn, target });
    }

    fn is_monitor(&self, conn: ConnId) -> bool {
        matches!(self.monitor, Monitor::Opening(own) | Monitor::Open(own) if own == conn)
    }

    fn monitor_opened(&mut self, now: Time, conn: ConnId) {
        self.monitor = Monitor::Open(conn);
        let start = match self.beacons.epoch() {
            0 => 0,
            epoch => u64::from(epoch) + 1,
        };
        let what = [("mdsmap".to_owned(), SubscribeItem { start, flags: 0 })].into();
        let subscribe = MonSubscribe { what, hostname: self.config.hostname.clone() };
        self.send(conn, subscribe.encode(SUPPORTED));
        let secrets = RotatingSecretsRequest { service: EntityType::MDS.0.into() };
        self.send(conn, secrets.encode(SUPPORTED));
        self.beacons.begin(now);
        self.send_beacon(now);
    }

    fn send_beacon(&mut self, now: Time) {
        let Monitor::Open(conn) = self.monitor else { return };
        let gid = self.gid();
        if let Some(beacon) = self.beacons.beacon(now, gid, &self.config) {
            self.send(conn, beacon.encode(SUPPORTED));
        }
    }

    /// Asks for a new ticket if that is due, again after a while without an answer.
    fn renew_ticket(&mut self, now: Time) {
        let Monitor::Open(conn) = self.monitor else { return };
        if self.next_renewal().is_none_or(|due| now < due) {
            return;
        }
        self.renewal_pause = now + RENEWAL_RETRY;
        if let Some((protocol, payload)) = self.authentication.renewal(now) {
            let request = Auth { version: 0, protocol, payload, monmap_epoch: 0 };
            self.send(conn, request.encode(SUPPORTED));
        }
    }

    fn next_renewal(&self) -> Option<Time> {
        self.authentication.next_renewal().map(|due| due.max(self.renewal_pause))
    }

    fn handle_from_monitor(&mut self, now: Time, message: &Message) -> Result<(), PeerFault> {
        match message.kind {
            MdsBeacon::KIND => self.beacons.acknowledged(&decode_from_peer(message)?),
            MdsMapMessage::KIND => self.handle_map(now, &decode_from_peer(message)?),
            RotatingSecrets::KIND => {
                let secrets: RotatingSecrets = decode_from_peer(message)?;
                self.authentication.take_secrets(&secrets.secrets);
            }
            AuthReply::KIND => {
                let reply: AuthReply = decode_from_peer(message)?;
                self.authentication.take_sealed(now, &reply.payload);
            }
            // Monitors send configuration and monitor maps, too.
            _ => {}
        }
        self.serve(now);
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
            tracing::error!("the rank was given to another server; this one serves no longer");
            self.was_replaced = true;
            self.rank = None;
            self.beacons.pause();
        }
        if self.beacons.state() == MdsState::ACTIVE && self.rank.is_none() && !self.was_replaced {
            let pool = map.data_pools.first().copied().unwrap_or(PoolId(-1));
            self.rank = Some(Rank::new(now, pool));
        }
        if let Some(rank) = &mut self.rank {
            rank.set_map_epoch(self.beacons.epoch());
        }
        self.send_beacon(now);
    }

    /// Serves messages of clients that were held, if the server may answer.
    fn serve(&mut self, now: Time) {
        while self.beacons.may_answer(now)
            && self.rank.is_some()
            && let Some((conn, message)) = self.held.pop_front()
        {
            self.handle_from_client(now, conn, &message);
        }
    }

    fn handle_from_client(&mut self, now: Time, conn: ConnId, message: &Message) {
        let (Some(rank), Some(peer)) = (&mut self.rank, self.clients.get(&conn)) else { return };
        if let Err(fault) = rank.handle_message(now, peer, message) {
            tracing::warn!(client = peer.client, %fault, "a message is dropped");
        }
        while let Some((client, message)) = rank.poll_output() {
            // The newest connection of a client is the one that it uses.
            let conn = self.clients.iter().rev().find(|(_, peer)| peer.client == client);
            if let Some((conn, _)) = conn {
                self.outputs.push_back(Output::Send { conn: *conn, message });
            }
        }
    }
}

impl Daemon for Mds {
    type Request = ();
    type Completion = ();

    fn handle_auth(&mut self, now: Time, conn: ConnId, request: AuthRequest) {
        let verdict = self.authentication.verify(now, conn, request);
        self.outputs.push_back(Output::Auth { conn, verdict });
    }

    fn authenticate(&mut self, now: Time, conn: ConnId, step: ConnectingStep) -> ConnectingAnswer {
        self.authentication.prove(now, conn, step)
    }

    fn handle_opened(&mut self, now: Time, conn: ConnId, peer: Peer) {
        if self.is_monitor(conn) {
            return self.monitor_opened(now, conn);
        }
        let client = u64::try_from(peer.participant.number);
        match client.ok().filter(|_| peer.participant.kind == EntityType::CLIENT) {
            Some(client) => {
                self.clients.insert(conn, ClientPeer { client, name: peer.name });
            }
            None => self.outputs.push_back(Output::Close { conn }),
        }
    }

    fn handle_message(&mut self, now: Time, conn: ConnId, message: Message) {
        if self.is_monitor(conn) {
            if let Err(fault) = self.handle_from_monitor(now, &message) {
                tracing::warn!(%fault, "a message of the monitor is dropped");
            }
        } else if self.held.len() >= HELD_MAX {
            self.clients.remove(&conn);
            self.outputs.push_back(Output::Close { conn });
        } else {
            self.held.push_back((conn, message));
            self.serve(now);
        }
    }

    fn handle_closed(&mut self, now: Time, conn: ConnId) {
        self.authentication.closed(conn);
        if self.is_monitor(conn) {
            self.monitor = Monitor::Waiting(now + MONITOR_RETRY);
            self.beacons.pause();
        }
        self.clients.remove(&conn);
    }

    fn handle_completion(&mut self, _now: Time, (): ()) {}

    fn handle_timeout(&mut self, now: Time) {
        if matches!(self.monitor, Monitor::Waiting(until) if until <= now) {
            self.connect();
        }
        self.renew_ticket(now);
        self.send_beacon(now);
    }

    fn poll_output(&mut self) -> Option<Output<()>> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        match self.monitor {
            Monitor::Waiting(until) => Some(until),
            Monitor::Opening(_) => None,
            Monitor::Open(_) => {
                [self.beacons.due(), self.next_renewal()].into_iter().flatten().min()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use maps::MdsInfo;
    use types::{EntityAddr, EntityAddrVec, EntityName, Epoch};
    use wire::{ClientSession, FeatureBits, SessionOp};

    const CLIENT: ConnId = ConnId(ConnId::ACCEPTED);

    fn outputs(mds: &mut Mds) -> Vec<Output<()>> {
        std::iter::from_fn(|| mds.poll_output()).collect()
    }

    fn sent<T: MessageBody>(outputs: &[Output<()>]) -> Option<(ConnId, T)> {
        outputs.iter().find_map(|output| match output {
            Output::Send { conn, message } if message.kind == T::KIND => {
                Some((*conn, T::decode(message).expect("it was encoded")))
            }
            _ => None,
        })
    }

    fn peer(kind: EntityType, number: i64) -> Peer {
        Peer {
            participant: ParticipantName::new(kind, number),
            name: EntityName::new(kind, "x".to_owned()),
            addrs: EntityAddrVec::default(),
            features: SUPPORTED,
            caps: Bytes::new(),
            seen_addr: EntityAddr::default(),
        }
    }

    fn map(epoch: u32, state: MdsState) -> Message {
        let info = MdsInfo { gid: 4409, rank: 0, state, ..MdsInfo::default() };
        let map = MdsMap {
            epoch: Epoch(epoch),
            mds_info: [(4409, info)].into(),
            data_pools: vec![PoolId(3)],
            ..MdsMap::default()
        };
        let map = codec::encode_to_bytes(&map);
        MdsMapMessage { map, epoch: Epoch(epoch), ..MdsMapMessage::default() }.encode(SUPPORTED)
    }

    fn open_session() -> Message {
        let features = FeatureBits(u64::MAX);
        ClientSession { features, ..ClientSession::new(SessionOp::REQUEST_OPEN, 0) }.encode(0)
    }

    /// A server whose monitor's session is open.
    fn started(now: Time) -> (Mds, ConnId) {
        let mut mds = Mds::new(Config::for_tests(), [7; 32]);
        mds.handle_timeout(now);
        let first = outputs(&mut mds);
        let [Output::Connect { conn, .. }] = first[..] else { panic!("{first:?}") };
        mds.handle_opened(now, conn, peer(EntityType::MON, 0));
        (mds, conn)
    }

    #[test]
    fn clients_are_served_when_the_map_says_active_and_the_lease_lasts() {
        let now = Time(1_000_000_000);
        let (mut mds, monitor) = started(now);
        let first = outputs(&mut mds);
        assert!(sent::<MonSubscribe>(&first).is_some());
        let (_, boot) = sent::<MdsBeacon>(&first).unwrap();
        assert_eq!((boot.state, boot.gid), (MdsState::BOOT.0, 4409));
        mds.handle_opened(now, CLIENT, peer(EntityType::CLIENT, 4123));
        mds.handle_message(now, CLIENT, open_session());
        mds.handle_message(now, monitor, map(2, MdsState::CREATING));
        let (_, beacon) = sent::<MdsBeacon>(&outputs(&mut mds)).unwrap();
        assert_eq!(beacon.state, MdsState::ACTIVE.0);
        mds.handle_message(now, monitor, map(3, MdsState::ACTIVE));
        let waiting = outputs(&mut mds);
        assert!(sent::<ClientSession>(&waiting).is_none(), "there is no lease yet");
        let (_, beacon) = sent::<MdsBeacon>(&waiting).unwrap();
        mds.handle_message(now, monitor, beacon.encode(SUPPORTED));
        let (conn, open) = sent::<ClientSession>(&outputs(&mut mds)).unwrap();
        assert_eq!((conn, open.op), (CLIENT, SessionOp::OPEN));
    }

    #[test]
    fn a_server_that_was_replaced_answers_no_more() {
        let now = Time(1_000_000_000);
        let (mut mds, monitor) = started(now);
        mds.handle_message(now, monitor, map(3, MdsState::ACTIVE));
        let (_, beacon) = sent::<MdsBeacon>(&outputs(&mut mds)).unwrap();
        mds.handle_message(now, monitor, beacon.encode(SUPPORTED));
        let empty = MdsMap { epoch: Epoch(4), ..MdsMap::default() };
        let map = codec::encode_to_bytes(&empty);
        let map = MdsMapMessage { map, epoch: Epoch(4), ..MdsMapMessage::default() };
        mds.handle_message(now, monitor, map.encode(SUPPORTED));
        assert!(mds.was_replaced());
        mds.handle_opened(now, CLIENT, peer(EntityType::CLIENT, 4123));
        mds.handle_message(now, CLIENT, open_session());
        assert!(sent::<ClientSession>(&outputs(&mut mds)).is_none());
    }

    #[test]
    fn the_next_monitor_is_tried_when_a_session_ends() {
        let now = Time(1_000_000_000);
        let (mut mds, monitor) = started(now);
        outputs(&mut mds);
        mds.handle_closed(now, monitor);
        let due = mds.poll_timeout().unwrap();
        assert_eq!(due, now + MONITOR_RETRY);
        mds.handle_timeout(due);
        let again = outputs(&mut mds);
        let [Output::Connect { conn, target }] = &again[..] else { panic!("{again:?}") };
        assert_eq!((target.participant.number, *conn == monitor), (1, false));
    }
}
