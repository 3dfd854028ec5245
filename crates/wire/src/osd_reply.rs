//! An OSD's reply to a request.

use crate::osd_op::{OP_LEN, join_payloads, take_payload};
use crate::{OsdOp, OsdRequest, Redirect};
use bytes::Bytes;
use codec::{DecodeErrorKind, Reader, Result, Writer};
use engine::Message;
use types::{EVersion, Epoch, PgId};

const VERSION: u16 = 8;
const COMPAT: u16 = 2;
/// Oldest supported version of the encoding.
const VERSION_OLDEST: u16 = 7;
/// `blkin_trace_info`: three ids.
const BLKIN_TRACE_LEN: usize = 24;

/// `MOSDOpReply`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OsdReply {
    /// Name of the object.
    pub object: Bytes,
    /// Placement group of the request.
    pub pg: PgId,
    /// Flags of the request, with `ACK` or `ONDISK` set ([`crate::op::request_flags`]).
    pub flags: i64,
    /// 0 or more, or a negative errno.
    pub result: i32,
    /// Version of the object for clients before Firefly.
    pub legacy_version: EVersion,
    /// Map epoch of the OSD.
    pub map_epoch: Epoch,
    /// Results in the order of the operations.
    pub ops: Vec<OpResult>,
    /// Attempt of the request that is answered.
    pub retry_attempt: i32,
    /// Position of the write in the placement group's log.
    pub version: EVersion,
    /// The version of the object as users see it.
    pub user_version: u64,
    /// Location to which the client sends the request instead.
    pub redirect: Option<Redirect>,
}

/// Result of one operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpResult {
    /// The operation, repeated without its input.
    pub op: OsdOp,
    /// 0 or more, or a negative errno.
    pub result: i32,
    /// Output of the operation.
    pub output: Bytes,
}

impl OpResult {
    /// The result of an operation.
    pub fn new(op: &OsdOp, result: i32, output: Bytes) -> Self {
        let op = OsdOp { input: Bytes::new(), ..op.clone() };
        OpResult { op, result, output }
    }
}

impl OsdReply {
    /// A reply to `request` with its operations and no outputs.
    pub fn to(request: &OsdRequest, result: i32, map_epoch: Epoch) -> Self {
        use crate::op::request_flags::{ACK, ONDISK, ONNVRAM};
        OsdReply {
            object: request.object.name.clone(),
            pg: request.pg.pg,
            flags: i64::from(request.flags & !(ACK | ONNVRAM) | ONDISK),
            result,
            map_epoch,
            ops: request.ops.iter().map(|op| OpResult::new(op, 0, Bytes::new())).collect(),
            retry_attempt: request.retry_attempt,
            ..OsdReply::default()
        }
    }

    /// Sets the versions of a write, or of a read whose object has `user_version`.
    pub fn set_versions(&mut self, version: EVersion, user_version: u64) {
        self.version = version;
        self.user_version = user_version;
        self.legacy_version = version;
        if user_version != 0 {
            self.legacy_version.version = user_version;
        }
    }
}

impl crate::MessageBody for OsdReply {
    const KIND: u16 = 43;

    fn encode(&self, _features: u64) -> Message {
        let mut w = Writer::with_capacity(192 + self.ops.len() * (OP_LEN + 4));
        w.blob(&self.object);
        w.value(&self.pg);
        w.i64(self.flags);
        w.i32(self.result);
        w.value(&self.legacy_version);
        w.value(&self.map_epoch);
        w.list(&self.ops, |w, op| op.op.encode_head(w, op.output.len()));
        w.i32(self.retry_attempt);
        self.ops.iter().for_each(|op| w.i32(op.result));
        w.value(&self.version);
        w.u64(self.user_version);
        w.value(&self.redirect);
        w.zeros(BLKIN_TRACE_LEN);
        let data = join_payloads(self.ops.iter().map(|op| &op.output));
        Message::new(Self::KIND, VERSION, COMPAT, w.into_bytes()).with_data(data)
    }

    fn decode(message: &Message) -> Result<Self> {
        let mut r = Reader::new(&message.front);
        if message.version < VERSION_OLDEST {
            let version = message.version as u8;
            let kind = DecodeErrorKind::TooOld { version, oldest: VERSION_OLDEST as u8 };
            return Err(r.error("reply", kind));
        }
        let object = r.value()?;
        let pg = r.value()?;
        let flags = r.i64("reply flags")?;
        let result = r.i32("result")?;
        let legacy_version = r.value()?;
        let map_epoch = r.value()?;
        let mut ops = decode_results(&mut r, &message.data)?;
        let retry_attempt = r.i32("retry attempt")?;
        for op in &mut ops {
            op.result = r.i32("operation result")?;
        }
        let version = r.value()?;
        let user_version = r.u64("user version")?;
        let redirect = r.value()?;
        if message.version >= VERSION {
            r.skip("trace", BLKIN_TRACE_LEN)?;
        }
        Ok(OsdReply {
            object,
            pg,
            flags,
            result,
            legacy_version,
            map_epoch,
            ops,
            retry_attempt,
            version,
            user_version,
            redirect,
        })
    }
}

fn decode_results(r: &mut Reader<'_>, data: &Bytes) -> Result<Vec<OpResult>> {
    let mut taken = 0;
    r.list("operations", |r| {
        let (op, payload_len) = OsdOp::decode_head(r)?;
        let output = take_payload(data, &mut taken, payload_len)?;
        Ok(OpResult { op, result: 0, output })
    })
}
