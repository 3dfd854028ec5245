//! Rows of shards: the request of a primary, and the answer of a member.

use super::frame::{Header, PUSH_ROWS, READ_ROWS, ROWS};
use super::frame::{decode_option, encode_option, joined, message};
use crate::backend::erasure::geometry::ROW;
use bytes::Bytes;
use codec::{DecodeErrorKind, Reader, Result, Writer};
use engine::Message;
use std::collections::BTreeMap;
use types::{EVersion, HObject};

/// Bytes that one request may ask for; a member refuses more. A primary asks again for the rest.
pub const ROWS_BYTES_MAX: u64 = 4 << 20;

/// Ranges of one request; likewise.
pub const ROWS_RANGES_MAX: usize = 1024;

/// A primary asks a member for rows of its shard of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadRows {
    /// Number of the request in this interval. The answer has it, too.
    pub request: u64,
    /// The member settles its changes up to this version before it reads.
    pub committed: EVersion,
    /// The object.
    pub object: HObject,
    /// Whether the answer is to have the attributes.
    pub with_attrs: bool,
    /// Offsets and lengths in the shard, in bytes: whole rows, ascending, apart from each other. See
    /// [`ROWS_BYTES_MAX`] and [`ROWS_RANGES_MAX`].
    pub ranges: Vec<(u64, u64)>,
}

/// The answer of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    /// See [`ReadRows::request`].
    pub request: u64,
    /// The rows, or the reason why there are none.
    pub outcome: std::result::Result<ShardRows, NoRows>,
}

/// Rows of one shard, as they are settled.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShardRows {
    /// The version in the object info that is stored with them.
    pub version: EVersion,
    /// All attributes, if they were asked for.
    pub attrs: Option<BTreeMap<Bytes, Bytes>>,
    /// The content of each range, up to the end of the shard. Bytes behind the end are zeros.
    pub data: Vec<Bytes>,
}

/// The reason why a member has no rows of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRows {
    /// Its store does not have the object, or the object is in its missing set.
    Absent = 1,
    /// Its store cannot read the object, or the object info does not decode.
    Unreadable = 2,
}

/// Changed rows of a shard that a member has in an older version.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PushRows {
    /// The object.
    pub object: HObject,
    /// The version that the member must have stored. Otherwise it asks for the whole shard.
    pub base: EVersion,
    /// All attributes of the object; the member removes others.
    pub attrs: BTreeMap<Bytes, Bytes>,
    /// As in [`ReadRows::ranges`].
    pub ranges: Vec<(u64, u64)>,
    /// The content of each range.
    pub data: Vec<Bytes>,
}

impl ReadRows {
    pub(super) fn encode(&self, header: &Header) -> Message {
        message(header, READ_ROWS, |w| {
            w.u64(self.request);
            w.value(&self.committed);
            w.value(&self.object);
            w.bool(self.with_attrs);
            w.list(&self.ranges, |w, (offset, length)| {
                w.u64(*offset);
                w.u64(*length);
            });
        })
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let (request, committed, object) = (r.u64("request")?, r.value()?, r.value()?);
        let with_attrs = r.bool("with attributes")?;
        let at = *r;
        let ranges = r.list("ranges", |r| Ok((r.u64("offset")?, r.u64("length")?)))?;
        match are_rows(&ranges) {
            true => Ok(ReadRows { request, committed, object, with_attrs, ranges }),
            false => Err(at.invalid("ranges of rows", ranges.len() as u64)),
        }
    }
}

/// Whether ranges are within the bounds of a request, made of rows, in order, and apart.
fn are_rows(ranges: &[(u64, u64)]) -> bool {
    let (mut end, mut total) = (0, 0u64);
    ranges.len() <= ROWS_RANGES_MAX
        && ranges.iter().all(|(offset, length)| {
            let is_next = *offset >= end && *length > 0 && *length <= ROWS_BYTES_MAX;
            let is_whole = offset.is_multiple_of(ROW) && length.is_multiple_of(ROW);
            end = offset.saturating_add(*length);
            total = total.saturating_add(*length);
            is_next && is_whole && end < u64::MAX && total <= ROWS_BYTES_MAX
        })
}

impl Rows {
    pub(super) fn encode(&self, header: &Header) -> Message {
        let mut payloads = Vec::new();
        let message = message(header, ROWS, |w| {
            w.u64(self.request);
            match &self.outcome {
                Ok(rows) => {
                    w.u8(0);
                    rows.encode(w);
                    payloads.clone_from(&rows.data);
                }
                Err(reason) => w.u8(*reason as u8),
            }
        });
        message.with_data(joined(payloads))
    }

    pub(super) fn decode(r: &mut Reader<'_>, data: &Bytes) -> Result<Self> {
        let request = r.u64("request")?;
        let at = *r;
        let outcome = match r.u8("outcome of rows")? {
            0 => Ok(ShardRows::decode(r, data)?),
            1 => Err(NoRows::Absent),
            2 => Err(NoRows::Unreadable),
            other => return Err(at.invalid("outcome of rows", other.into())),
        };
        Ok(Rows { request, outcome })
    }
}

impl PushRows {
    pub(super) fn encode(&self, header: &Header) -> Message {
        let message = message(header, PUSH_ROWS, |w| {
            w.value(&self.object);
            w.value(&self.base);
            w.value(&self.attrs);
            w.list(&self.ranges, |w, (offset, length)| {
                w.u64(*offset);
                w.u64(*length);
            });
        });
        message.with_data(joined(self.data.clone()))
    }

    pub(super) fn decode(r: &mut Reader<'_>, data: &Bytes) -> Result<Self> {
        let (object, base, attrs) = (r.value()?, r.value()?, r.value()?);
        let at = *r;
        let ranges = r.list("ranges", |r| Ok((r.u64("offset")?, r.u64("length")?)))?;
        let total: u64 = ranges.iter().map(|(_, length)| length.min(&ROWS_BYTES_MAX)).sum();
        if !are_rows(&ranges) || total != data.len() as u64 {
            return Err(at.invalid("ranges of rows", ranges.len() as u64));
        }
        let mut rest = data.clone();
        let data = ranges.iter().map(|(_, length)| rest.split_to(*length as usize)).collect();
        Ok(PushRows { object, base, attrs, ranges, data })
    }
}

impl ShardRows {
    fn encode(&self, w: &mut Writer) {
        w.value(&self.version);
        encode_option(w, self.attrs.as_ref());
        w.list(&self.data, |w, range| w.count(range.len()));
    }

    /// The ranges are slices of `data`.
    fn decode(r: &mut Reader<'_>, data: &Bytes) -> Result<Self> {
        let (version, attrs) = (r.value()?, decode_option(r)?);
        let mut taken = 0;
        let ranges = r.list("ranges", |r| {
            let needed = r.u32("length of a range")? as usize;
            let available = data.len() - taken;
            if needed > available {
                return Err(r.error("rows", DecodeErrorKind::Truncated { needed, available }));
            }
            taken += needed;
            Ok(data.slice(taken - needed..taken))
        })?;
        match taken == data.len() {
            true => Ok(ShardRows { version, attrs, data: ranges }),
            false => Err(r.invalid("bytes of rows", data.len() as u64)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Body, Header};
    use super::*;
    use types::{Epoch, PgId, PoolId, ShardId};

    fn header() -> Header {
        let [to, from] = [1, 0].map(|at| ShardId::at(at).unwrap());
        let pg = PgId { pool: PoolId(3), seed: 7 };
        Header { to, from, ..Header::replicated(pg, Epoch(9), Epoch(8)) }
    }

    fn request(ranges: &[(u64, u64)]) -> Body {
        let object = HObject::hash_start(PoolId(3), 5);
        let (request, committed) = (9, EVersion::new(3, 4));
        let ranges = ranges.to_vec();
        Body::ReadRows(Box::new(ReadRows { request, committed, object, with_attrs: true, ranges }))
    }

    fn answers() -> Vec<Body> {
        let attrs = Some(BTreeMap::from([(Bytes::from_static(b"_"), Bytes::from_static(b"x"))]));
        let data = vec![Bytes::from(vec![7; 4096]), Bytes::new(), Bytes::from_static(b"end")];
        let rows = ShardRows { version: EVersion::new(3, 4), attrs, data };
        let outcomes = [Ok(rows), Err(NoRows::Absent), Err(NoRows::Unreadable)];
        let rows = outcomes.map(|outcome| Body::Rows(Box::new(Rows { request: 9, outcome })));
        let pushed = PushRows {
            object: HObject::hash_start(PoolId(3), 5),
            base: EVersion::new(3, 4),
            attrs: BTreeMap::from([(Bytes::from_static(b"_"), Bytes::from_static(b"x"))]),
            ranges: vec![(0, 4096), (8192, 8192)],
            data: vec![vec![7; 4096].into(), vec![8; 8192].into()],
        };
        rows.into_iter().chain([Body::PushRows(Box::new(pushed))]).collect()
    }

    #[test]
    fn rows_round_trip_and_every_truncation_is_an_error() {
        for body in answers().into_iter().chain([request(&[(0, 4096), (8192, 8192)])]) {
            let message = body.encode(&header());
            assert_eq!(Body::decode(&message), Ok((header(), body)));
            for end in 0..message.front.len() {
                let cut = Message { front: message.front.slice(..end), ..message.clone() };
                assert!(Body::decode(&cut).is_err(), "{end}");
            }
            if !message.data.is_empty() {
                let less = message.data.slice(1..);
                let more = [&message.data[..], b"x"].concat().into();
                for data in [less, more] {
                    assert!(Body::decode(&Message { data, ..message.clone() }).is_err());
                }
            }
        }
    }

    #[test]
    fn a_request_beyond_its_bounds_is_refused() {
        let many: Vec<(u64, u64)> =
            (0..=ROWS_RANGES_MAX as u64).map(|at| (at * 2 * ROW, ROW)).collect();
        let wrong: [&[(u64, u64)]; 8] = [
            &[(1, ROW)],
            &[(0, ROW + 1)],
            &[(0, 0)],
            &[(ROW, ROW), (0, ROW)],
            &[(0, 2 * ROW), (ROW, ROW)],
            &[(0, ROWS_BYTES_MAX + ROW)],
            &[(u64::MAX / ROW * ROW, ROW)],
            &many,
        ];
        for ranges in wrong {
            let message = request(ranges).encode(&header());
            assert!(Body::decode(&message).is_err(), "{:?}", ranges.first());
        }
        let most = request(&many[..ROWS_RANGES_MAX]).encode(&header());
        assert!(Body::decode(&most).is_ok());
    }
}
