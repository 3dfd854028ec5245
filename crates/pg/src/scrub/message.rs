//! Scrub messages between the members of a group.
//!
//! Compact messages of our own, beside those of [`crate::message`] and with the same header: messages of
//! an earlier interval are dropped.

use super::map::{Level, ScrubMap};
use super::scan::Extent;
use super::stamps::Stamps;
use crate::message::{Header, finish, message};
use codec::{Reader, Result};
use engine::Message;

const KIND_FIRST: u16 = 0x7140;
const KIND_LAST: u16 = 0x715f;

const RESERVE: u16 = KIND_FIRST;
const RESERVED: u16 = 0x7141;
const RELEASE: u16 = 0x7142;
const SCAN: u16 = 0x7143;
const MAP: u16 = 0x7144;
const KEEP: u16 = 0x7145;

/// Whether a message has a kind of this module.
pub fn is_scrub_message(kind: u16) -> bool {
    (KIND_FIRST..=KIND_LAST).contains(&kind)
}

/// The message after its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Primary to a replica: asks for a scrub reservation.
    Reserve,
    /// The answer.
    Reserved(bool),
    /// Primary to a replica: gives the reservation back.
    Release,
    /// Primary to a replica: scan these objects. The answer repeats the number.
    Scan(u64, Level, Extent),
    /// The answer; `None` if the store cannot list its objects.
    Map(u64, Option<ScrubMap>),
    /// Primary to a replica: store these stamps of the group.
    Keep(Stamps),
}

impl Body {
    /// Encodes the message.
    pub fn encode(&self, header: &Header) -> Message {
        let plain = |kind| message(header, kind, |_| {});
        match self {
            Body::Reserve => plain(RESERVE),
            Body::Reserved(granted) => message(header, RESERVED, |w| w.bool(*granted)),
            Body::Release => plain(RELEASE),
            Body::Scan(number, level, extent) => message(header, SCAN, |w| {
                w.u64(*number);
                w.bool(*level == Level::Deep);
                match extent {
                    Extent::Range(from, end) => {
                        w.bool(true);
                        w.value(from);
                        w.value(end);
                    }
                    Extent::Names(names) => {
                        w.bool(false);
                        w.value(names);
                    }
                }
            }),
            Body::Map(number, map) => message(header, MAP, |w| {
                w.u64(*number);
                w.value(map);
            }),
            Body::Keep(stamps) => message(header, KEEP, |w| w.value(stamps)),
        }
    }

    /// Decodes a message of a kind of this module.
    pub fn decode(message: &Message) -> Result<(Header, Body)> {
        let mut reader = Reader::new(&message.front);
        let r = &mut reader;
        let header = Header::decode(r, message)?;
        let body = match message.kind {
            RESERVE => Body::Reserve,
            RESERVED => Body::Reserved(r.bool("granted")?),
            RELEASE => Body::Release,
            SCAN => Body::Scan(r.u64("number")?, decode_level(r)?, decode_extent(r)?),
            MAP => Body::Map(r.u64("number")?, r.value()?),
            KEEP => Body::Keep(r.value()?),
            other => return Err(r.invalid("kind", other.into())),
        };
        finish(reader, message)?;
        Ok((header, body))
    }
}

fn decode_level(r: &mut Reader<'_>) -> Result<Level> {
    Ok(if r.bool("deep")? { Level::Deep } else { Level::Light })
}

fn decode_extent(r: &mut Reader<'_>) -> Result<Extent> {
    Ok(match r.bool("range")? {
        true => Extent::Range(r.value()?, r.value()?),
        false => Extent::Names(r.value()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scrub::map::ScrubObject;
    use types::{Epoch, HObject, PgId, PoolId};

    #[test]
    fn messages_round_trip_and_every_truncation_is_an_error() {
        let pg = PgId { pool: PoolId(3), seed: 7 };
        let header = Header::replicated(pg, Epoch(9), Epoch(8));
        let object = HObject::hash_start(pg.pool, 5);
        let mut map = ScrubMap { until: Some(object.clone()), ..ScrubMap::default() };
        map.objects.insert(object.clone(), ScrubObject::unreadable());
        for body in [
            Body::Reserve,
            Body::Reserved(true),
            Body::Release,
            Body::Scan(1, Level::Deep, Extent::Range(object.clone(), HObject::max())),
            Body::Scan(2, Level::Light, Extent::Names(vec![object])),
            Body::Map(1, None),
            Body::Map(2, Some(map)),
            Body::Keep(Stamps::default()),
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
