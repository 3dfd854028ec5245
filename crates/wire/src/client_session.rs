//! Sessions between clients and metadata servers.

use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use engine::Message;
use std::collections::BTreeMap;
use types::UTime;

/// The largest set of feature bits that is decoded, in bytes.
const FEATURES_MAX_BYTES: usize = 128;

/// `CEPH_SESSION_*`: what a session message asks for or answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionOp(pub u32);

impl SessionOp {
    /// Client: opens a session.
    pub const REQUEST_OPEN: Self = SessionOp(0);
    /// Server: the session is open.
    pub const OPEN: Self = SessionOp(1);
    /// Client: ends the session.
    pub const REQUEST_CLOSE: Self = SessionOp(2);
    /// Server: the session has ended.
    pub const CLOSE: Self = SessionOp(3);
    /// Client: is alive.
    pub const REQUEST_RENEWCAPS: Self = SessionOp(4);
    /// Server: the client may use its capabilities for a session timeout from when it asked.
    pub const RENEWCAPS: Self = SessionOp(5);
    /// Server: the client has been silent for too long.
    pub const STALE: Self = SessionOp(6);
    /// Server: the client should return capabilities.
    pub const RECALL_STATE: Self = SessionOp(7);
    /// Server: asks for an answer behind all messages that the client has sent.
    pub const FLUSHMSG: Self = SessionOp(8);
    /// Client: that answer.
    pub const FLUSHMSG_ACK: Self = SessionOp(9);
    /// Server: the client may read only.
    pub const FORCE_RO: Self = SessionOp(10);
    /// Server: refuses a session.
    pub const REJECT: Self = SessionOp(11);
    /// Client: wants all changes to be durable soon.
    pub const REQUEST_FLUSH_MDLOG: Self = SessionOp(12);
}

/// Features of CephFS clients and servers, as bits (`CEPHFS_FEATURE_*`).
pub mod session_features {
    /// Replies in their versioned encoding.
    pub const REPLY_ENCODING: u64 = 1 << 9;
    /// A new client may take over the session of an earlier one.
    pub const RECLAIM_CLIENT: u64 = 1 << 10;
    /// Capabilities may be wanted without a message.
    pub const LAZY_CAP_WANTED: u64 = 1 << 11;
    /// Reconnect messages in several parts.
    pub const MULTI_RECONNECT: u64 = 1 << 12;
    /// Inode numbers are delegated to clients.
    pub const DELEG_INO: u64 = 1 << 13;
    /// Clients send metrics.
    pub const METRIC_COLLECT: u64 = 1 << 14;
    /// Names have an alternative form.
    pub const ALTERNATE_NAME: u64 = 1 << 15;
    /// Session messages carry the state of a rejected client.
    pub const NOTIFY_SESSION_STATE: u64 = 1 << 16;
    /// `GETVXATTR`
    pub const OP_GETVXATTR: u64 = 1 << 17;
    /// Retries and forwards are counted with 32 bits.
    pub const RETRY_FWD_32BITS: u64 = 1 << 18;
    /// Snap realms in their versioned encoding.
    pub const NEW_SNAPREALM_INFO: u64 = 1 << 19;
    /// Requests carry the owner of what they create.
    pub const HAS_OWNER_UIDGID: u64 = 1 << 20;
    /// Sessions carry the capabilities of the client's entity.
    pub const MDS_AUTH_CAPS_CHECK: u64 = 1 << 21;
}

/// `feature_bitset_t`: bits behind their length in bytes. Bits beyond 63 are read and dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FeatureBits(pub u64);

impl Encode for FeatureBits {
    fn encode(&self, w: &mut Writer) {
        match self.0 {
            0 => w.u32(0),
            bits => {
                w.u32(8);
                w.u64(bits);
            }
        }
    }
}

impl Decode for FeatureBits {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let at = *r;
        let bytes = r.blob("features")?;
        if bytes.len() > FEATURES_MAX_BYTES {
            let (length, limit) = (bytes.len() as u64, FEATURES_MAX_BYTES as u64);
            return Err(at.error("features", codec::DecodeErrorKind::TooLong { length, limit }));
        }
        let mut word = [0; 8];
        let known = bytes.len().min(8);
        word[..known].copy_from_slice(&bytes[..known]);
        Ok(FeatureBits(u64::from_le_bytes(word)))
    }
}

structure! {
    /// `metric_spec_t`: metrics that a client can send.
    MetricSpec, version 1, compat 1 {
        /// One bit for each kind.
        kinds: FeatureBits;
    }
}

structure! {
    /// `MDSCapMatch`: whom a capability of an entity concerns.
    CapMatch, version 1, compat 1 {
        /// User id; -1 for all.
        uid: i64;
        /// Group ids; empty for all.
        gids: Vec<u32>;
        /// Path below the root, without a slash in front.
        path: String;
        /// The file system; empty for all.
        fs_name: String;
        /// Whether root may only read.
        root_squash: bool;
    }
}

structure! {
    /// `MDSCapAuth`: a capability of the client's entity, as the client checks it, too.
    CapAuth, version 1, compat 1 {
        /// Its scope.
        scope: CapMatch;
        /// Whether it allows to read.
        readable: bool;
        /// Whether it allows to write.
        writeable: bool;
    }
}

/// `MClientSession`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSession {
    /// The request or the answer.
    pub op: SessionOp,
    /// Of renewals: number of the renewal. Of other messages: number of capability messages so far.
    pub sequence: u64,
    /// Time of the sender.
    pub stamp: UTime,
    /// Of a recall: the number of capabilities that the client should keep.
    pub max_caps: u32,
    /// Of a recall: the number of leases that it should keep.
    pub max_leases: u32,
    /// Facts about the client, or in answers of a server the reason of a rejection.
    pub metadata: BTreeMap<String, String>,
    /// Features of the sender; in an answer those of both.
    pub features: FeatureBits,
    /// Metrics that the sender knows.
    pub metrics: MetricSpec,
    /// Bit 0: the client is blocklisted.
    pub flags: u32,
    /// Capabilities of the client's entity.
    pub cap_auths: Vec<CapAuth>,
    /// The client's oldest request without a safe reply; `u64::MAX` for none.
    pub oldest_client_tid: u64,
}

impl Default for ClientSession {
    fn default() -> Self {
        ClientSession {
            op: SessionOp::default(),
            sequence: 0,
            stamp: UTime::ZERO,
            max_caps: 0,
            max_leases: 0,
            metadata: BTreeMap::new(),
            features: FeatureBits::default(),
            metrics: MetricSpec::default(),
            flags: 0,
            cap_auths: Vec::new(),
            oldest_client_tid: u64::MAX,
        }
    }
}

impl ClientSession {
    /// A message with an operation and a number alone.
    pub fn new(op: SessionOp, sequence: u64) -> Self {
        ClientSession { op, sequence, ..ClientSession::default() }
    }

    /// Whether only the first part is worth sending.
    fn is_short(&self) -> bool {
        self.metadata.is_empty() && self.features.0 == 0
    }
}

impl crate::MessageBody for ClientSession {
    const KIND: u16 = 22;

    fn encode(&self, _features: u64) -> Message {
        let mut w = Writer::new();
        w.u32(self.op.0);
        w.u64(self.sequence);
        w.value(&self.stamp);
        w.u32(self.max_caps);
        w.u32(self.max_leases);
        if self.is_short() {
            return Message::new(Self::KIND, 1, 1, w.into_bytes());
        }
        w.value(&self.metadata);
        w.value(&self.features);
        w.value(&self.metrics);
        w.u32(self.flags);
        w.value(&self.cap_auths);
        w.u64(self.oldest_client_tid);
        Message::new(Self::KIND, 7, 1, w.into_bytes())
    }

    fn decode(message: &Message) -> Result<Self> {
        let mut r = Reader::new(&message.front);
        let mut session = ClientSession {
            op: SessionOp(r.u32("op")?),
            sequence: r.u64("sequence")?,
            stamp: r.value()?,
            max_caps: r.u32("max caps")?,
            max_leases: r.u32("max leases")?,
            ..ClientSession::default()
        };
        if message.version >= 2 {
            session.metadata = r.value()?;
        }
        if message.version >= 3 {
            session.features = r.value()?;
        }
        if message.version >= 4 {
            session.metrics = r.value()?;
        }
        if message.version >= 5 {
            session.flags = r.u32("flags")?;
        }
        if message.version >= 6 {
            session.cap_auths = r.value()?;
        }
        if message.version >= 7 {
            session.oldest_client_tid = r.u64("oldest client tid")?;
        }
        Ok(session)
    }
}

/// `SnapRealmInfo`: snapshots below an inode, as a client needs them for its writes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SnapRealmInfo {
    /// The inode at which the realm begins.
    pub ino: u64,
    /// The snapshot after which it was made a realm.
    pub created: u64,
    /// The realm above; 0 for none.
    pub parent: u64,
    /// The snapshot since which that one is above.
    pub parent_since: u64,
    /// The newest snapshot of the realm.
    pub seq: u64,
    /// Its snapshots, newest first.
    pub snaps: Vec<u64>,
    /// Snapshots of realms that were above, newest first.
    pub prior_parent_snaps: Vec<u64>,
    /// When its snapshots last changed: the time of `.snap`. Not told to clients without
    /// [`session_features::NEW_SNAPREALM_INFO`].
    pub last_modified: UTime,
    /// Counts changes of its snapshots. Not told to clients without that feature either.
    pub change_attr: u64,
}

impl SnapRealmInfo {
    /// The trace of a client's message: a realm and those above, in the encoding that its features ask for.
    pub fn trace(realms: &[SnapRealmInfo], features: u64) -> Bytes {
        let mut w = Writer::new();
        for realm in realms {
            if features & session_features::NEW_SNAPREALM_INFO == 0 {
                w.value(realm);
                continue;
            }
            w.versioned(1, 1, |w| {
                w.value(realm);
                w.value(&realm.last_modified);
                w.u64(realm.change_attr);
            });
        }
        w.into_bytes()
    }

    /// The realms of a trace, which was made for a client with these features.
    ///
    /// # Errors
    ///
    /// It does not decode.
    pub fn decode_trace(trace: &[u8], features: u64) -> Result<Vec<SnapRealmInfo>> {
        let mut r = Reader::new(trace);
        let mut realms = Vec::new();
        while !r.is_empty() {
            let is_new = features & session_features::NEW_SNAPREALM_INFO != 0;
            realms.push(if is_new { Self::decode_versioned(&mut r)? } else { r.value()? });
        }
        Ok(realms)
    }

    fn decode_versioned(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("snap realm", 1, |r, _| {
            let realm: SnapRealmInfo = r.value()?;
            Ok(SnapRealmInfo {
                last_modified: r.value()?,
                change_attr: r.u64("change attribute")?,
                ..realm
            })
        })
    }
}

impl Encode for SnapRealmInfo {
    fn encode(&self, w: &mut Writer) {
        for number in [self.ino, self.created, self.parent, self.parent_since, self.seq] {
            w.u64(number);
        }
        w.count(self.snaps.len());
        w.count(self.prior_parent_snaps.len());
        self.snaps.iter().chain(&self.prior_parent_snaps).for_each(|snap| w.u64(*snap));
    }
}

impl Decode for SnapRealmInfo {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut realm = SnapRealmInfo {
            ino: r.u64("realm")?,
            created: r.u64("created")?,
            parent: r.u64("parent")?,
            parent_since: r.u64("parent since")?,
            seq: r.u64("seq")?,
            ..SnapRealmInfo::default()
        };
        let counts = [r.count("snaps")?, r.count("prior parent snaps")?];
        for (list, count) in
            [&mut realm.snaps, &mut realm.prior_parent_snaps].into_iter().zip(counts)
        {
            for _ in 0..count {
                list.push(r.u64("snap")?);
            }
        }
        Ok(realm)
    }
}
