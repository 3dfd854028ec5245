//! What the members of a placement group say to each other.
//!
//! Compact messages of our own, of kinds from [`KIND_FIRST`] up. Each carries the group, the
//! sender's epoch and the interval in which it was sent, so that what belongs to an earlier interval
//! is recognised and dropped. Data of objects travels in the data segment and is never copied.

use crate::{LogEntry, PgInfo};
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use engine::Message;
use std::collections::BTreeMap;
use store::Transaction;
use types::{EVersion, Epoch, HObject, PgId};

pub const KIND_FIRST: u16 = 0x7000;
pub const KIND_LAST: u16 = 0x70ff;

const QUERY: u16 = KIND_FIRST;
const INFO: u16 = 0x7001;
const LOG_REQUEST: u16 = 0x7002;
const LOG: u16 = 0x7003;
const CATCH_UP: u16 = 0x7004;
const CAUGHT_UP: u16 = 0x7005;
const ACTIVATE: u16 = 0x7006;
const ACTIVATED: u16 = 0x7007;
const REPLICATE: u16 = 0x7008;
const REPLICATED: u16 = 0x7009;
const PULL: u16 = 0x700a;
const PUSH: u16 = 0x700b;
const LIST: u16 = 0x700c;
const LISTING: u16 = 0x700d;
const REMOVE: u16 = 0x700e;
const ROOM: u16 = 0x700f;
const STALLED: u16 = 0x7010;

/// Whether a message is of this module.
pub fn is_pg_message(kind: u16) -> bool {
    (KIND_FIRST..=KIND_LAST).contains(&kind)
}

/// What every message begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub pg: PgId,
    /// The newest map of the sender.
    pub epoch: Epoch,
    /// The epoch in which the present set of members came together.
    pub interval: Epoch,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Primary to anyone: what do you have? Begins an interval for the receiver.
    Query,
    /// The answer; `None` if the group is not known there.
    Info(Option<PgInfo>),
    /// Primary to the member with the best copy.
    LogRequest,
    Log(PgInfo, Vec<LogEntry>),
    /// Primary to a member: make your copy equal to this.
    CatchUp(PgInfo, Vec<LogEntry>),
    /// The member's copy is what the primary's log says.
    CaughtUp,
    /// Primary to a member: all are equal, writes will come.
    Activate(PgInfo),
    Activated,
    /// Primary to a member: one write.
    Replicate(Box<Replicate>),
    /// All writes up to this are durable.
    Replicated(EVersion),
    /// A member asks for (the next piece of) an object.
    Pull(HObject, Cursor),
    Push(Box<Push>),
    /// A member asks for object names and versions from here on.
    List(HObject),
    Listing(Listing),
    /// Primary to a former member: the group is whole without you.
    Remove,
    /// A member's disk is nearly full, or (true) no longer.
    Room(bool),
    /// A member's store refused something for want of room: this interval comes to nothing.
    Stalled,
}

/// A write with its log entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replicate {
    /// Encoded [`LogEntry`] and [`PgInfo`], as they are stored.
    pub entry: Bytes,
    pub info: Bytes,
    /// Writes up to here are durable everywhere.
    pub committed: EVersion,
    /// Trim the log to here, unless zero.
    pub trim: EVersion,
    pub transaction: Transaction,
}

/// How far the transfer of an object has come.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cursor {
    pub data_offset: u64,
    /// Omap keys up to here are transferred.
    pub omap_after: Option<Bytes>,
}

impl Cursor {
    pub fn is_start(&self) -> bool {
        *self == Cursor::default()
    }
}

/// A piece of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Push {
    pub object: HObject,
    pub cursor: Cursor,
    /// `None` if there is no such object; attributes come with the first piece.
    pub attrs: Option<BTreeMap<Bytes, Bytes>>,
    pub size: u64,
    /// At `cursor.data_offset`.
    pub data: Bytes,
    pub omap_header: Bytes,
    pub omap: BTreeMap<Bytes, Bytes>,
    /// Where the next piece begins.
    pub next: Option<Cursor>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    pub from: HObject,
    pub objects: Vec<(HObject, EVersion)>,
    /// Where the next page begins.
    pub next: Option<HObject>,
}

impl Encode for Cursor {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.data_offset);
        w.bool(self.omap_after.is_some());
        w.blob(self.omap_after.as_deref().unwrap_or_default());
    }
}

impl Decode for Cursor {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let data_offset = r.u64("data offset")?;
        let in_omap = r.bool("in omap")?;
        let after = r.value()?;
        Ok(Cursor { data_offset, omap_after: in_omap.then_some(after) })
    }
}

/// A value that may be absent, behind a flag.
fn encode_option<T: Encode>(w: &mut Writer, value: Option<&T>) {
    w.bool(value.is_some());
    if let Some(value) = value {
        w.value(value);
    }
}

fn decode_option<T: Decode>(r: &mut Reader<'_>) -> Result<Option<T>> {
    r.bool("presence")?.then(|| r.value()).transpose()
}

fn message(header: &Header, kind: u16, body: impl FnOnce(&mut Writer)) -> Message {
    let mut w = Writer::with_capacity(512);
    w.i64(header.pg.pool.0);
    w.u32(header.pg.seed);
    w.value(&header.epoch);
    w.value(&header.interval);
    body(&mut w);
    Message::new(kind, 1, 1, w.into_bytes())
}

fn joined(mut payloads: Vec<Bytes>) -> Bytes {
    match payloads.len() {
        1 => payloads.pop().expect("there is one"),
        _ => payloads.concat().into(),
    }
}

impl Body {
    pub fn encode(&self, header: &Header) -> Message {
        let plain = |kind| message(header, kind, |_| {});
        let with_log = |kind, info: &PgInfo, entries: &Vec<LogEntry>| {
            message(header, kind, |w| {
                w.value(info);
                w.value(entries);
            })
        };
        match self {
            Body::Query => plain(QUERY),
            Body::Info(info) => message(header, INFO, |w| encode_option(w, info.as_ref())),
            Body::LogRequest => plain(LOG_REQUEST),
            Body::Log(info, entries) => with_log(LOG, info, entries),
            Body::CatchUp(info, entries) => with_log(CATCH_UP, info, entries),
            Body::CaughtUp => plain(CAUGHT_UP),
            Body::Activate(info) => message(header, ACTIVATE, |w| w.value(info)),
            Body::Activated => plain(ACTIVATED),
            Body::Replicate(write) => write.encode(header),
            Body::Replicated(version) => message(header, REPLICATED, |w| w.value(version)),
            Body::Pull(object, cursor) => message(header, PULL, |w| {
                w.value(object);
                w.value(cursor);
            }),
            Body::Push(push) => push.encode(header),
            Body::List(from) => message(header, LIST, |w| w.value(from)),
            Body::Listing(listing) => message(header, LISTING, |w| {
                w.value(&listing.from);
                w.value(&listing.objects);
                encode_option(w, listing.next.as_ref());
            }),
            Body::Remove => plain(REMOVE),
            Body::Room(has_room) => message(header, ROOM, |w| w.bool(*has_room)),
            Body::Stalled => plain(STALLED),
        }
    }

    pub fn decode(message: &Message) -> Result<(Header, Body)> {
        let mut reader = Reader::new(&message.front);
        let r = &mut reader;
        let pool = types::PoolId(r.i64("pool")?);
        let pg = PgId { pool, seed: r.u32("seed")? };
        let header = Header { pg, epoch: r.value()?, interval: r.value()? };
        let body = match message.kind {
            QUERY => Body::Query,
            INFO => Body::Info(decode_option(r)?),
            LOG_REQUEST => Body::LogRequest,
            LOG => Body::Log(r.value()?, r.value()?),
            CATCH_UP => Body::CatchUp(r.value()?, r.value()?),
            CAUGHT_UP => Body::CaughtUp,
            ACTIVATE => Body::Activate(r.value()?),
            ACTIVATED => Body::Activated,
            REPLICATE => Body::Replicate(Box::new(Replicate::decode(r, message)?)),
            REPLICATED => Body::Replicated(r.value()?),
            PULL => Body::Pull(r.value()?, r.value()?),
            PUSH => Body::Push(Box::new(Push::decode(r, &message.data)?)),
            LIST => Body::List(r.value()?),
            LISTING => {
                let (from, objects) = (r.value()?, r.value()?);
                Body::Listing(Listing { from, objects, next: decode_option(r)? })
            }
            REMOVE => Body::Remove,
            ROOM => Body::Room(r.bool("room")?),
            STALLED => Body::Stalled,
            other => return Err(r.invalid("kind", other.into())),
        };
        reader.finish("message")?;
        Ok((header, body))
    }
}

impl Replicate {
    /// Written straight into a message: this is the hot path.
    pub fn encode(&self, header: &Header) -> Message {
        let mut payloads = Vec::new();
        let message = message(header, REPLICATE, |w| {
            w.blob(&self.entry);
            w.blob(&self.info);
            w.value(&self.committed);
            w.value(&self.trim);
            payloads = self.transaction.split(w);
        });
        message.with_data(joined(payloads))
    }

    fn decode(r: &mut Reader<'_>, message: &Message) -> Result<Self> {
        Ok(Replicate {
            entry: message.front.slice_ref(r.blob("entry")?),
            info: message.front.slice_ref(r.blob("info")?),
            committed: r.value()?,
            trim: r.value()?,
            transaction: Transaction::join(r, &message.data)?,
        })
    }
}

impl Push {
    fn encode(&self, header: &Header) -> Message {
        let message = message(header, PUSH, |w| {
            w.value(&self.object);
            w.value(&self.cursor);
            encode_option(w, self.attrs.as_ref());
            w.u64(self.size);
            w.blob(&self.omap_header);
            w.value(&self.omap);
            encode_option(w, self.next.as_ref());
        });
        message.with_data(self.data.clone())
    }

    fn decode(r: &mut Reader<'_>, data: &Bytes) -> Result<Self> {
        Ok(Push {
            object: r.value()?,
            cursor: r.value()?,
            attrs: decode_option(r)?,
            size: r.u64("size")?,
            data: data.clone(),
            omap_header: r.value()?,
            omap: r.value()?,
            next: decode_option(r)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::{Change, Collection};

    #[test]
    fn messages_round_trip_and_every_truncation_is_an_error() {
        let pg = PgId { pool: types::PoolId(3), seed: 7 };
        let header = Header { pg, epoch: Epoch(9), interval: Epoch(8) };
        let object = HObject::hash_start(pg.pool, 5);
        let mut transaction = Transaction::new();
        let data = Bytes::from_static(b"payload");
        let write = Change::Write { object: object.clone(), offset: 1, data: data.clone() };
        transaction.push(Collection(pg), write);
        let write = Replicate {
            entry: Bytes::from_static(b"entry"),
            info: Bytes::from_static(b"info"),
            committed: EVersion::new(1, 2),
            trim: EVersion::ZERO,
            transaction,
        };
        let push = Push {
            object: object.clone(),
            attrs: Some(BTreeMap::from([(Bytes::from_static(b"_"), data.clone())])),
            data,
            next: Some(Cursor { data_offset: 7, omap_after: Some(Bytes::from_static(b"k")) }),
            ..Push::default()
        };
        let listing =
            Listing { objects: vec![(object.clone(), EVersion::ZERO)], ..Default::default() };
        for body in [
            Body::Query,
            Body::Info(Some(PgInfo::default())),
            Body::CatchUp(PgInfo::default(), vec![LogEntry::default()]),
            Body::Replicate(Box::new(write)),
            Body::Replicated(EVersion::new(1, 2)),
            Body::Pull(object, Cursor::default()),
            Body::Push(Box::new(push)),
            Body::Listing(listing),
            Body::Remove,
            Body::Room(true),
        ] {
            let message = body.encode(&header);
            assert_eq!(Body::decode(&message).unwrap(), (header, body));
            for end in 0..message.front.len() {
                let mut cut = message.clone();
                cut.front.truncate(end);
                assert!(Body::decode(&cut).is_err());
            }
        }
    }
}
