//! The frame of every message: its kind and its header.

use codec::{Decode, Encode, Reader, Result, Writer};
use engine::Message;
use types::{Epoch, PgId};

/// First and last of the reserved kinds.
pub const KIND_FIRST: u16 = 0x7000;
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
pub(super) const ROOM: u16 = 0x700f;
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

/// Whether a message has a kind of this module.
pub fn is_pg_message(kind: u16) -> bool {
    (KIND_FIRST..=KIND_LAST).contains(&kind)
}

/// The beginning of every message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub pg: PgId,
    /// The newest map of the sender.
    pub epoch: Epoch,
    /// The first epoch of the present interval.
    pub interval: Epoch,
}

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

/// The epoch of the newest map that the sender has. Works for every message with a [`Header`].
pub fn sender_epoch(message: &Message) -> Result<Epoch> {
    let mut r = Reader::new(&message.front);
    r.i64("pool")?;
    r.u32("seed")?;
    r.value()
}

/// A message: the header, then what `body` writes.
pub(super) fn message(header: &Header, kind: u16, body: impl FnOnce(&mut Writer)) -> Message {
    let mut w = Writer::with_capacity(512);
    w.i64(header.pg.pool.0);
    w.u32(header.pg.seed);
    w.value(&header.epoch);
    w.value(&header.interval);
    body(&mut w);
    Message::new(kind, 1, 1, w.into_bytes())
}
