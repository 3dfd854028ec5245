//! The longer bodies of messages.

use super::frame::{
    Header, LEN_USUAL, PUSH, REPLICATE, decode_option, encode_option, joined, message, message_in,
};
use crate::intervals::PastIntervals;
use crate::scrub::Order;
use crate::{Dups, LogEntry, Missing, PgInfo};
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use engine::Message;
use std::collections::BTreeMap;
use store::{StoreError, Transaction};
use types::{EVersion, Epoch, HObject, OsdId};

/// A lease in a message: its holder, the epoch since which that is not the primary, nanoseconds left.
pub type ReadLease = (OsdId, Epoch, u64);

/// An OSD's copy of a group, in answer to a query.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Notice {
    /// The copy's info.
    pub info: PgInfo,
    /// Size of its missing set.
    pub missing: u64,
    /// Past intervals that the copy knows.
    pub intervals: PastIntervals,
    /// Read leases of prior intervals.
    pub leases: Vec<ReadLease>,
    /// A scrub order that is not carried out yet.
    pub scrub_order: Option<Order>,
}

/// The log and the missing set of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogPart {
    /// The copy's info.
    pub info: PgInfo,
    /// `entries` has all entries above this.
    pub tail: EVersion,
    /// Oldest first.
    pub entries: Vec<LogEntry>,
    /// The copy's missing set.
    pub missing: Missing,
}

/// The log for a member to follow.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Activation {
    /// Whether the copy is reset: it follows this log, and is backfilled from the beginning.
    pub is_reset: bool,
    /// The primary's info.
    pub info: PgInfo,
    /// The past intervals that the primary knows.
    pub intervals: PastIntervals,
    /// `entries` has all entries of the primary's log above this.
    pub tail: EVersion,
    /// Oldest first.
    pub entries: Vec<LogEntry>,
    /// The dups below the log, for a copy that is reset; other copies have them.
    pub dups: Dups,
}

/// A write with its log entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replicate {
    /// Encoded [`LogEntry`] and [`PgInfo`], in the bytes that are stored.
    pub entry: Bytes,
    /// See `entry`.
    pub info: Bytes,
    /// Encoded entries of other objects that come before it: clones that the write makes or removes.
    pub also: Vec<Bytes>,
    /// Writes up to here are durable on all members.
    pub committed: EVersion,
    /// Trim the log up to this version, unless zero.
    pub trim: EVersion,
    /// The changes of objects. The replica adds entry and info to it.
    pub transaction: Transaction,
    /// Changes, by index, that are no writes: their data is to be added to that of the rows, in the sense of
    /// the code's field. Only a shard that is a parity gets such, in a message with shards in its header.
    pub deltas: Vec<u32>,
}

/// The reason why a member refused a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Its disk has no space.
    NoSpace = 1,
    /// Its part of the write is larger than its store takes at once.
    TooLarge = 2,
    /// The write depends on content that cannot be read.
    Damage = 3,
}

/// A write that a member refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedWrite {
    /// The version of the write.
    pub version: EVersion,
    /// The reason.
    pub reason: Refusal,
}

impl RefusedWrite {
    /// The refusal of a write for this reason; `None` if the write itself is not the reason.
    pub(crate) fn of(version: EVersion, error: &StoreError) -> Option<Self> {
        let reason = match error {
            StoreError::NoSpace { .. } => Refusal::NoSpace,
            StoreError::TooLarge { .. } => Refusal::TooLarge,
            StoreError::Corrupt { .. } | StoreError::Device(_) => Refusal::Damage,
            _ => return None,
        };
        Some(RefusedWrite { version, reason })
    }

    /// The error for the request, as if this OSD's store had refused the write of the object.
    pub(crate) fn error(&self, object: &HObject) -> StoreError {
        match self.reason {
            Refusal::NoSpace => StoreError::NoSpace { needed: 0, available: 0 },
            Refusal::TooLarge => {
                StoreError::TooLarge { what: "a member's part of a write", size: 0, limit: 0 }
            }
            Refusal::Damage => StoreError::Corrupt { object: object.clone(), offset: 0, length: 0 },
        }
    }
}

impl Encode for RefusedWrite {
    fn encode(&self, w: &mut Writer) {
        w.value(&self.version);
        w.u8(self.reason as u8);
    }
}

impl Decode for RefusedWrite {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let version = r.value()?;
        let at = *r;
        let reason = match r.u8("reason of a refusal")? {
            1 => Refusal::NoSpace,
            2 => Refusal::TooLarge,
            3 => Refusal::Damage,
            other => return Err(at.invalid("reason of a refusal", other.into())),
        };
        Ok(RefusedWrite { version, reason })
    }
}

/// The position of a piece within an object: all data comes before the omap.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cursor {
    /// Bytes of data that precede the piece.
    pub data_offset: u64,
    /// Omap keys up to this one are transferred; `None` while data is.
    pub omap_after: Option<Bytes>,
}

impl Cursor {
    /// Whether the piece is the first one.
    pub fn is_start(&self) -> bool {
        *self == Cursor::default()
    }
}

/// A piece of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Push {
    /// The object.
    pub object: HObject,
    /// The position of the piece.
    pub cursor: Cursor,
    /// The first piece has all attributes, later ones only the object's info. `None` in a first piece if
    /// the object does not exist.
    pub attrs: Option<BTreeMap<Bytes, Bytes>>,
    /// Bytes of the whole object.
    pub size: u64,
    /// Data at `cursor.data_offset`; holes are zeros.
    pub data: Bytes,
    /// Empty unless the piece begins the omap.
    pub omap_header: Bytes,
    /// Pairs whose keys follow `cursor.omap_after`.
    pub omap: BTreeMap<Bytes, Bytes>,
    /// The position of the next piece; `None` in the last one.
    pub next: Option<Cursor>,
}

/// One page of a copy's objects and their versions, in object order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// The first object that the page may have.
    pub from: HObject,
    /// In order, from `from` on.
    pub objects: Vec<(HObject, EVersion)>,
    /// The first object of the next page; `None` in the last one.
    pub next: Option<HObject>,
}

impl Encode for Notice {
    fn encode(&self, w: &mut Writer) {
        w.value(&self.info);
        w.u64(self.missing);
        w.value(&self.intervals);
        w.list(&self.leases, |w, (osd, since, left)| {
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
        let lease = |r: &mut Reader<'_>| Ok((r.value()?, r.value()?, r.u64("time left")?));
        let leases = r.list("leases", lease)?;
        let scrub_order = decode_option(r)?;
        Ok(Notice { info, missing, intervals, leases, scrub_order })
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

impl Replicate {
    /// Encodes straight into a message: this is the hot path.
    pub fn encode(&self, header: &Header) -> Message {
        let mut payloads = Vec::new();
        let w = Writer::with_capacity(LEN_USUAL + self.entry.len() + self.info.len());
        let message = message_in(w, header, REPLICATE, |w| {
            w.blob(&self.entry);
            w.blob(&self.info);
            w.value(&self.also);
            w.value(&self.committed);
            w.value(&self.trim);
            payloads = self.transaction.split(w);
            if header.has_shards() {
                w.list(&self.deltas, |w, index| w.u32(*index));
            }
        });
        message.with_data(joined(payloads))
    }

    pub(super) fn decode(r: &mut Reader<'_>, message: &Message, header: &Header) -> Result<Self> {
        Ok(Replicate {
            entry: message.front.slice_ref(r.blob("entry")?),
            info: message.front.slice_ref(r.blob("info")?),
            also: r.value()?,
            committed: r.value()?,
            trim: r.value()?,
            transaction: Transaction::join(r, &message.data)?,
            deltas: match header.has_shards() {
                true => r.list("deltas", |r| r.u32("delta"))?,
                false => Vec::new(),
            },
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
