//! Identity and timeouts of this end.

use engine::{Duration, Policy};
use types::{EntityAddr, EntityAddrVec, EntityType, features};

/// Time for the handshake, after which the connection is dropped (Ceph's `ms_connection_ready_timeout`).
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The connecting end sends a keepalive to a peer that is silent for this long …
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
/// … and drops the connection after this.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// The accepting end sends no keepalives, since kernel clients do not support them; it drops connections that
/// are idle for this long (Ceph's `ms_connection_idle_timeout`).
const IDLE_MAX: Duration = Duration::from_secs(900);
/// Time for which an accepted lossless session waits for its peer to reconnect.
const STANDBY_MAX: Duration = Duration::from_secs(900);
/// Bytes that may be queued for a peer that does not read.
const QUEUED_BYTES_MAX: usize = 1 << 30;

/// Configuration that all sessions of one daemon or client share.
#[derive(Debug, Clone)]
pub struct Config {
    /// Kind that this end tells its peers.
    pub kind: EntityType,
    /// The number in `osd.3`; clients use the global id instead.
    pub number: i64,
    /// Addresses of this daemon; a client learns its own from its first connection.
    pub addrs: EntityAddrVec,
    /// Distinguishes incarnations of a client at the same address.
    pub nonce: u32,
    /// Feature bits that this end offers; a session uses those that both ends have.
    pub supported_features: u64,
    /// Feature bits without which a peer is refused.
    pub required_features: u64,
    /// Kinds of accepted peers (an [`EntityType`] bit mask) whose sessions are lossless.
    pub lossless_peers: EntityType,
    /// Time from the start of a connection to the open session.
    pub handshake_timeout: Duration,
    /// Silence after which the connecting end sends a keepalive.
    pub keepalive_interval: Duration,
    /// Silence after which the connecting end drops the connection.
    pub silence_max: Duration,
    /// Silence after which the accepting end drops the connection.
    pub idle_max: Duration,
    /// Time that an accepted lossless session waits for its peer to reconnect.
    pub standby_max: Duration,
    /// Bound for a lossy peer; beyond it the session ends.
    pub queued_bytes_max: usize,
    /// Bound for a lossless peer, with unacknowledged messages. Senders must stay below it, since beyond it
    /// the session ends, which counts as a failure of the peer.
    pub retained_bytes_max: usize,
}

impl Config {
    /// A daemon that listens at `addrs`, with the policies and timeouts of Ceph.
    pub fn daemon(kind: EntityType, number: i64, addrs: EntityAddrVec) -> Self {
        Config { addrs, ..Config::new(kind, number, 0) }
    }

    /// A client, which has no address of its own.
    pub fn client(nonce: u32) -> Self {
        Config::new(EntityType::CLIENT, -1, nonce)
    }

    fn new(kind: EntityType, number: i64, nonce: u32) -> Self {
        Config {
            kind,
            number,
            addrs: EntityAddrVec::default(),
            nonce,
            supported_features: features::SUPPORTED,
            required_features: features::MSG_ADDR2,
            lossless_peers: lossless_peers(kind),
            handshake_timeout: HANDSHAKE_TIMEOUT,
            keepalive_interval: KEEPALIVE_INTERVAL,
            silence_max: SILENCE_MAX,
            idle_max: IDLE_MAX,
            standby_max: STANDBY_MAX,
            queued_bytes_max: QUEUED_BYTES_MAX,
            retained_bytes_max: QUEUED_BYTES_MAX,
        }
    }

    /// The policy towards a peer that connects.
    pub(crate) fn accepted_policy(&self, peer: EntityType) -> Policy {
        match self.lossless_peers.0 & peer.0 {
            0 => Policy::Lossy,
            _ => Policy::Lossless,
        }
    }

    /// True if a peer that connects to `target` means this daemon. The address type is ignored: in a
    /// configuration file it may be absent.
    pub(crate) fn is_at(&self, target: &EntityAddr) -> bool {
        contains(&self.addrs, target)
    }
}

/// Peers whose sessions outlive their connections. A client of a file system relies on its session with the
/// metadata server, and would not notice the end of a lossy one.
fn lossless_peers(kind: EntityType) -> EntityType {
    match kind {
        EntityType::OSD => EntityType::OSD,
        EntityType::MDS => EntityType::CLIENT,
        _ => EntityType(0),
    }
}

pub(crate) fn contains(addrs: &EntityAddrVec, wanted: &EntityAddr) -> bool {
    addrs.0.iter().any(|addr| (addr.socket, addr.nonce) == (wanted.socket, wanted.nonce))
}
