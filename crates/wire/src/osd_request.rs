//! A request of a client to an OSD.

use crate::op::request_flags;
use crate::osd_op::{OP_LEN, join_payloads, take_payload};
use crate::{ObjectLocator, OsdOp, SnapContext};
use bytes::Bytes;
use codec::{DecodeErrorKind, Reader, Result, Writer};
use engine::Message;
use types::features::{self, SERVER_SQUID};
use types::{Epoch, HObject, PgShard, RequestId, SnapId, UTime};

/// The oldest and the newest version that supported clients send.
const VERSION_OLDEST: u16 = 7;
const VERSION_NO_TRACE: u16 = 8;
const VERSION_NEWEST: u16 = 9;
const COMPAT: u16 = 3;
/// `blkin_trace_info`: three ids.
const BLKIN_TRACE_LEN: usize = 24;

/// `MOSDOp`: operations on one object (or placement group), executed atomically.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OsdRequest {
    /// The placement group by the client's map.
    pub pg: PgShard,
    /// Map epoch of the client.
    pub map_epoch: Epoch,
    /// [`request_flags`]
    pub flags: u32,
    /// Zero unless the sender acts for another client: then the session's peer, its incarnation and the
    /// message's tid identify the request, see [`OsdRequest::id`].
    pub request_id: RequestId,
    /// Incarnation of the client if `request_id` is set.
    pub client_incarnation: u32,
    /// Time of the modification by the client's clock.
    pub mtime: UTime,
    /// Pool, namespace, key, name, hash and the snapshot to read.
    pub object: HObject,
    /// The operations, executed in order, all or none.
    pub ops: Vec<OsdOp>,
    /// Snapshots that the client knows of; only for writes.
    pub snap_context: SnapContext,
    /// 0 is the first attempt, -1 unknown.
    pub retry_attempt: i32,
    /// Feature bits of the client.
    pub features: u64,
}

impl OsdRequest {
    /// True if all bits of a flag are set.
    pub fn has_flag(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// True for operations on the placement group. Librados does not set [`request_flags::PGOP`] for
    /// listings, so the operations decide.
    pub fn is_pg_op(&self) -> bool {
        self.has_flag(request_flags::PGOP) || self.ops.iter().any(|op| op.code.is_pg())
    }

    /// The identity of the request, which resends keep.
    pub fn id(&self, peer: types::ParticipantName, tid: u64) -> RequestId {
        let named = self.request_id.name != types::ParticipantName::default();
        if named || self.request_id.tid != 0 {
            return self.request_id;
        }
        RequestId { name: peer, tid, incarnation: self.request_id.incarnation }
    }

    /// Pool, namespace and key, or hash of the object.
    pub fn locator(&self) -> ObjectLocator {
        let HObject { pool, key, namespace, name, hash, .. } = &self.object;
        // A request without an object has its position in the hash alone.
        let hash = if name.is_empty() { i64::from(*hash) } else { ObjectLocator::NO_HASH };
        let key = if name.is_empty() { Bytes::new() } else { key.clone() };
        ObjectLocator { pool: *pool, key, namespace: namespace.clone(), hash }
    }

    fn encode_front(&self, w: &mut Writer, version: u16, features: u64) {
        w.value(&self.pg);
        w.u32(self.object.hash);
        w.value(&self.map_epoch);
        w.u32(self.flags);
        w.value(&self.request_id);
        w.zeros(BLKIN_TRACE_LEN);
        if version >= VERSION_NEWEST {
            w.versioned(1, 1, |w| w.bool(false));
        }
        w.u32(self.client_incarnation);
        w.value(&self.mtime);
        w.value(&self.locator());
        w.blob(&self.object.name);
        w.u16(u16::try_from(self.ops.len()).expect("requests have few operations"));
        self.ops.iter().for_each(|op| op.encode_head(w, op.input.len()));
        w.value(&self.object.snap);
        w.value(&self.snap_context);
        w.i32(self.retry_attempt);
        w.u64(features);
    }
}

impl crate::MessageBody for OsdRequest {
    const KIND: u16 = 42;

    fn encode(&self, features: u64) -> Message {
        let traced = features::has(features, SERVER_SQUID);
        let version = if traced { VERSION_NEWEST } else { VERSION_NO_TRACE };
        let mut w = Writer::with_capacity(256 + self.ops.len() * OP_LEN);
        self.encode_front(&mut w, version, self.features);
        let data = join_payloads(self.ops.iter().map(|op| &op.input));
        Message::new(Self::KIND, version, COMPAT, w.into_bytes()).with_data(data)
    }

    fn decode(message: &Message) -> Result<Self> {
        let mut r = Reader::new(&message.front);
        let version = message.version;
        if version < VERSION_OLDEST {
            let kind =
                DecodeErrorKind::TooOld { version: version as u8, oldest: VERSION_OLDEST as u8 };
            return Err(r.error("request", kind));
        }
        let place = Place::decode(&mut r, version)?;
        let client_incarnation = r.u32("client incarnation")?;
        let mtime = r.value()?;
        let locator: ObjectLocator = r.value()?;
        let name = r.value()?;
        let ops = decode_ops(&mut r, &message.data)?;
        let snap = r.value::<SnapId>()?;
        let snap_context = r.value()?;
        let retry_attempt = r.i32("retry attempt")?;
        let features = r.u64("features")?;
        Ok(OsdRequest {
            pg: place.pg,
            map_epoch: place.map_epoch,
            flags: place.flags,
            request_id: place.request_id,
            client_incarnation,
            mtime,
            object: HObject {
                snap,
                ..HObject::head(place.pg.pg.pool, locator.namespace, locator.key, name, place.hash)
            },
            ops,
            snap_context,
            retry_attempt,
            features,
        })
    }
}

/// The first part of a request, in which the versions differ.
struct Place {
    pg: PgShard,
    hash: u32,
    map_epoch: Epoch,
    flags: u32,
    request_id: RequestId,
}

impl Place {
    fn decode(r: &mut Reader<'_>, version: u16) -> Result<Self> {
        if version == VERSION_OLDEST {
            return Self::decode_oldest(r);
        }
        let pg = r.value()?;
        let hash = r.u32("hash")?;
        let map_epoch = r.value()?;
        let flags = r.u32("request flags")?;
        let request_id = r.value()?;
        r.skip("trace", BLKIN_TRACE_LEN)?;
        if version >= VERSION_NEWEST {
            r.versioned("trace context", u8::MAX, |_, _| Ok(()))?;
        }
        Ok(Place { pg, hash, map_epoch, flags, request_id })
    }

    /// The seed of the raw placement group serves as the hash.
    fn decode_oldest(r: &mut Reader<'_>) -> Result<Self> {
        let pg: types::PgId = r.value()?;
        let map_epoch = r.value()?;
        let flags = r.u32("request flags")?;
        r.value::<types::EVersion>()?; // once the version of a replayed request
        let request_id = r.value()?;
        Ok(Place { pg: PgShard::replicated(pg), hash: pg.seed, map_epoch, flags, request_id })
    }
}

fn decode_ops(r: &mut Reader<'_>, data: &Bytes) -> Result<Vec<OsdOp>> {
    let count = usize::from(r.u16("operation count")?);
    if count * OP_LEN > r.remaining() {
        let (count, available) = (count as u64, r.remaining());
        return Err(r.error("operations", DecodeErrorKind::CountTooLarge { count, available }));
    }
    let mut taken = 0;
    let mut ops = Vec::with_capacity(count);
    for _ in 0..count {
        let (mut op, payload_len) = OsdOp::decode_head(r)?;
        op.input = take_payload(data, &mut taken, payload_len)?;
        ops.push(op);
    }
    Ok(ops)
}
