//! Who this end is, and its patience.

use engine::{Duration, Policy};
use types::{EntityAddr, EntityAddrVec, EntityType, features};

/// A peer that does not get through the handshake by then is dropped (Ceph's
/// `ms_connection_ready_timeout`).
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The end that connected asks a silent peer whether it is there …
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
/// … and gives it up after this.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// The end that accepted never asks, for kernel clients do not know the question; it drops
/// connections that nobody used for so long (Ceph's `ms_connection_idle_timeout`).
const IDLE_MAX: Duration = Duration::from_secs(900);
/// How long an accepted lossless session waits for its peer to come back.
const STANDBY_MAX: Duration = Duration::from_secs(900);
/// What may wait to be sent to a peer that does not read.
const QUEUED_BYTES_MAX: usize = 1 << 30;

/// What all sessions of one daemon or client have in common.
#[derive(Debug, Clone)]
pub struct Config {
    pub kind: EntityType,
    /// The number in `osd.3`; for clients the global id takes its place.
    pub number: i64,
    /// Where this daemon can be reached; its first connection tells a client its own address.
    pub addrs: EntityAddrVec,
    /// Tells incarnations of a client at the same address apart.
    pub nonce: u32,
    pub supported_features: u64,
    pub required_features: u64,
    /// Kinds of accepted peers (an [`EntityType`] bit mask) whose sessions are lossless.
    pub lossless_peers: EntityType,
    pub handshake_timeout: Duration,
    pub keepalive_interval: Duration,
    pub silence_max: Duration,
    pub idle_max: Duration,
    pub standby_max: Duration,
    /// To a lossy peer: its session ends then.
    pub queued_bytes_max: usize,
    /// To a lossless one, with what it has not acknowledged. Those who send must stay below it: that such a session
    /// ends counts as the peer's failure.
    pub retained_bytes_max: usize,
}

impl Config {
    pub fn daemon(kind: EntityType, number: i64, addrs: EntityAddrVec) -> Self {
        Config { addrs, ..Config::new(kind, number, 0) }
    }

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
            lossless_peers: EntityType(0),
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

    /// Whether a peer that looks for `target` means this daemon. The address type is ignored: a
    /// peer may have it from a configuration file that does not tell.
    pub(crate) fn is_at(&self, target: &EntityAddr) -> bool {
        contains(&self.addrs, target)
    }
}

pub(crate) fn contains(addrs: &EntityAddrVec, wanted: &EntityAddr) -> bool {
    addrs.0.iter().any(|addr| (addr.socket, addr.nonce) == (wanted.socket, wanted.nonce))
}
