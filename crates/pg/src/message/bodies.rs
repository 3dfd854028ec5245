//! The longer bodies of messages.

use super::{Header, PUSH, REPLICATE, decode_option, encode_option, message};
use crate::intervals::PastIntervals;
use crate::leases::Promise;
use crate::scrub::Order;
use crate::{Dups, LogEntry, Missing, PgInfo};
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use engine::Message;
use std::collections::BTreeMap;
use store::Transaction;
use types::{EVersion, HObject};

/// What an OSD has of a group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Notice {
    pub info: PgInfo,
    /// How many objects its log knows and its store does not have.
    pub missing: u64,
    pub intervals: PastIntervals,
    pub promises: Vec<Promise>,
    pub scrub_order: Option<Order>,
}

/// A log, and what its owner lacks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogPart {
    pub info: PgInfo,
    /// All entries above this.
    pub tail: EVersion,
    pub entries: Vec<LogEntry>,
    pub missing: Missing,
}

/// What a member is to become.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Activation {
    /// Whether the copy begins anew, with nothing filled in.
    pub is_reset: bool,
    /// The primary's.
    pub info: PgInfo,
    pub intervals: PastIntervals,
    /// All entries above this.
    pub tail: EVersion,
    pub entries: Vec<LogEntry>,
    /// Requests before that, for a copy that begins anew; others know them.
    pub dups: Dups,
}

/// A write with its log entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replicate {
    /// Encoded [`LogEntry`] and [`PgInfo`], as they are stored.
    pub entry: Bytes,
    pub info: Bytes,
    /// Entries of other objects that come before it: clones that the write makes or removes.
    pub also: Vec<Bytes>,
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

impl Encode for Notice {
    fn encode(&self, w: &mut Writer) {
        w.value(&self.info);
        w.u64(self.missing);
        w.value(&self.intervals);
        w.list(&self.promises, |w, (osd, since, left)| {
            w.value(osd);
            w.value(since);
            w.u64(*left);
        });
        encode_option(w, self.scrub_order.as_ref());
    }
}

impl Decode for Notice {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let (info, missing, intervals) = (r.value()?, r.u64("missing")?, r.value()?);
        let promise = |r: &mut Reader<'_>| Ok((r.value()?, r.value()?, r.u64("time left")?));
        let promises = r.list("promises", promise)?;
        let scrub_order = decode_option(r)?;
        Ok(Notice { info, missing, intervals, promises, scrub_order })
    }
}

impl Encode for LogPart {
    fn encode(&self, w: &mut Writer) {
        w.value(&self.info);
        w.value(&self.tail);
        w.value(&self.entries);
        w.value(&self.missing);
    }
}

impl Decode for LogPart {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let (info, tail) = (r.value()?, r.value()?);
        Ok(LogPart { info, tail, entries: r.value()?, missing: r.value()? })
    }
}

impl Encode for Activation {
    fn encode(&self, w: &mut Writer) {
        w.bool(self.is_reset);
        w.value(&self.info);
        w.value(&self.intervals);
        w.value(&self.tail);
        w.value(&self.entries);
        w.value(&self.dups);
    }
}

impl Decode for Activation {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Activation {
            is_reset: r.bool("is a reset")?,
            info: r.value()?,
            intervals: r.value()?,
            tail: r.value()?,
            entries: r.value()?,
            dups: r.value()?,
        })
    }
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

impl Encode for Listing {
    fn encode(&self, w: &mut Writer) {
        w.value(&self.from);
        w.value(&self.objects);
        encode_option(w, self.next.as_ref());
    }
}

impl Decode for Listing {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let (from, objects) = (r.value()?, r.value()?);
        Ok(Listing { from, objects, next: decode_option(r)? })
    }
}

fn joined(mut payloads: Vec<Bytes>) -> Bytes {
    match payloads.len() {
        1 => payloads.pop().expect("there is one"),
        _ => payloads.concat().into(),
    }
}

impl Replicate {
    /// Written straight into a message: this is the hot path.
    pub fn encode(&self, header: &Header) -> Message {
        let mut payloads = Vec::new();
        let message = message(header, REPLICATE, |w| {
            w.blob(&self.entry);
            w.blob(&self.info);
            w.value(&self.also);
            w.value(&self.committed);
            w.value(&self.trim);
            payloads = self.transaction.split(w);
        });
        message.with_data(joined(payloads))
    }

    pub(super) fn decode(r: &mut Reader<'_>, message: &Message) -> Result<Self> {
        Ok(Replicate {
            entry: message.front.slice_ref(r.blob("entry")?),
            info: message.front.slice_ref(r.blob("info")?),
            also: r.value()?,
            committed: r.value()?,
            trim: r.value()?,
            transaction: Transaction::join(r, &message.data)?,
        })
    }
}

impl Push {
    pub(super) fn encode(&self, header: &Header) -> Message {
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

    pub(super) fn decode(r: &mut Reader<'_>, data: &Bytes) -> Result<Self> {
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
