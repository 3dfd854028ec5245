//! The frame of every message: its kind and its header.

use bytes::Bytes;
use codec::{Decode, DecodeErrorKind, Encode, Reader, Result, Writer};
use engine::Message;
use types::{Epoch, PgId, PoolId, ShardId};

/// First and last of the reserved kinds.
pub const KIND_FIRST: u16 = 0x7000;
/// See [`KIND_FIRST`].
pub const KIND_LAST: u16 = 0x70ff;

pub(super) const QUERY: u16 = KIND_FIRST;
pub(super) const INFO: u16 = 0x7001;
pub(super) const LOG_REQUEST: u16 = 0x7002;
pub(super) const LOG: u16 = 0x7003;
pub(super) const ACTIVATE: u16 = 0x7006;
pub(super) const ACTIVATED: u16 = 0x7007;
pub(super) const REPLICATE: u16 = 0x7008;
pub(super) const REPLICATED: u16 = 0x7009;
pub(super) const PULL: u16 = 0x700a;
pub(super) const PUSH: u16 = 0x700b;
pub(super) const LIST: u16 = 0x700c;
pub(super) const LISTING: u16 = 0x700d;
pub(super) const REMOVE: u16 = 0x700e;
pub(super) const HAS_SPACE: u16 = 0x700f;
pub(super) const STALLED: u16 = 0x7010;
pub(super) const PUSHED: u16 = 0x7011;
pub(super) const HISTORY: u16 = 0x7012;
pub(super) const BACKFILL: u16 = 0x7013;
pub(super) const BACKFILLED: u16 = 0x7014;
pub(super) const RESERVE: u16 = 0x7015;
pub(super) const RESERVED: u16 = 0x7016;
pub(super) const RELEASE: u16 = 0x7017;
pub(super) const DAMAGED: u16 = 0x7018;
pub(super) const UNREADABLE: u16 = 0x7019;
pub(super) const SETTLE: u16 = 0x701c;
pub(super) const READ_ROWS: u16 = 0x701a;
pub(super) const ROWS: u16 = 0x701b;
pub(super) const PUSH_ROWS: u16 = 0x701d;

/// Whether a message has a kind of this module.
pub fn is_pg_message(kind: u16) -> bool {
    (KIND_FIRST..=KIND_LAST).contains(&kind)
}

/// The beginning of every message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The group.
    pub pg: PgId,
    /// The newest map of the sender.
    pub epoch: Epoch,
    /// The first epoch of the present interval.
    pub interval: Epoch,
    /// The shards of the receiver and of the sender; [`ShardId::NONE`] in replicated groups.
    pub to: ShardId,
    /// See `to`.
    pub from: ShardId,
}

/// Version of a message with shards in its header.
const VERSION_SHARDS: u16 = 2;

impl Header {
    /// The header of a message of a replicated group.
    pub fn replicated(pg: PgId, epoch: Epoch, interval: Epoch) -> Self {
        Header { pg, epoch, interval, to: ShardId::NONE, from: ShardId::NONE }
    }

    pub(super) fn has_shards(&self) -> bool {
        (self.to, self.from) != (ShardId::NONE, ShardId::NONE)
    }

    /// Writes the beginning of a message. Its version is the oldest that can say it.
    fn encode(&self, w: &mut Writer) {
        w.i64(self.pg.pool.0);
        w.u32(self.pg.seed);
        w.value(&self.epoch);
        w.value(&self.interval);
        if self.has_shards() {
            w.value(&self.to);
            w.value(&self.from);
        }
    }

    /// Reads the beginning of a message.
    pub(crate) fn decode(r: &mut Reader<'_>, message: &Message) -> Result<Self> {
        check_compat(message, VERSION_SHARDS)?;
        let pg = PgId { pool: PoolId(r.i64("pool")?), seed: r.u32("seed")? };
        let header = Header::replicated(pg, r.value()?, r.value()?);
        match message.version {
            ..VERSION_SHARDS => Ok(header),
            _ => Ok(Header { to: r.value()?, from: r.value()?, ..header }),
        }
    }
}

/// Most messages are not longer, in bytes.
pub(super) const LEN_USUAL: usize = 512;

/// Encodes a value that may be absent, after a flag.
pub(super) fn encode_option<T: Encode>(w: &mut Writer, value: Option<&T>) {
    w.bool(value.is_some());
    if let Some(value) = value {
        w.value(value);
    }
}

pub(super) fn decode_option<T: Decode>(r: &mut Reader<'_>) -> Result<Option<T>> {
    r.bool("presence")?.then(|| r.value()).transpose()
}

/// Refuses a message whose writer says that builds which know only versions up to `known` do not understand
/// it: its body may mean something else.
pub fn check_compat(message: &Message, known: u16) -> Result<()> {
    if message.compat_version <= known {
        return Ok(());
    }
    let [compat, known] =
        [message.compat_version, known].map(|v| u8::try_from(v).unwrap_or(u8::MAX));
    let kind = DecodeErrorKind::TooNew { compat, known };
    Err(Reader::new(&message.front).error("message", kind))
}

/// Ends the reading of a body. A later build may have written more than this one knows.
pub(crate) fn finish(r: Reader<'_>, message: &Message) -> Result<()> {
    if message.version > VERSION_SHARDS { Ok(()) } else { r.finish("message") }
}

/// The epoch of the newest map that the sender has. Works for every message with a [`Header`] that this build
/// understands.
pub fn sender_epoch(message: &Message) -> Result<Epoch> {
    check_compat(message, VERSION_SHARDS)?;
    let mut r = Reader::new(&message.front);
    r.i64("pool")?;
    r.u32("seed")?;
    r.value()
}

/// The data segment of a message with these payloads. A single one is not copied.
pub(super) fn joined(mut payloads: Vec<Bytes>) -> Bytes {
    match payloads.len() {
        1 => payloads.pop().expect("there is one"),
        _ => payloads.concat().into(),
    }
}

/// A message: the header, then what `body` writes.
pub(crate) fn message(header: &Header, kind: u16, body: impl FnOnce(&mut Writer)) -> Message {
    message_in(Writer::with_capacity(LEN_USUAL), header, kind, body)
}

/// The same in a buffer.
pub(super) fn message_in(
    mut w: Writer,
    header: &Header,
    kind: u16,
    body: impl FnOnce(&mut Writer),
) -> Message {
    header.encode(&mut w);
    body(&mut w);
    let version = if header.has_shards() { VERSION_SHARDS } else { 1 };
    Message::new(kind, version, version, w.into_bytes())
}
