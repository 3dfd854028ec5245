//! Peering, replication and recovery messages between the members of a placement group.
//!
//! Compact messages of our own, of kinds from [`KIND_FIRST`] up. Each carries the group, the sender's epoch
//! and the interval in which it was sent, so that messages of an earlier interval are recognised and
//! dropped. Data of objects travels in the data segment and is never copied.

mod bodies;
mod frame;
mod rows;

pub use bodies::{
    Activation, Cursor, Listing, LogPart, Notice, Push, Refusal, RefusedWrite, Replicate,
};

pub use rows::{NoRows, PushRows, ROWS_BYTES_MAX, ROWS_RANGES_MAX, ReadRows, Rows, ShardRows};

pub(crate) use bodies::ReadLease;
pub use frame::{Header, KIND_FIRST, KIND_LAST, check_compat, is_pg_message, sender_epoch};
pub(crate) use frame::{finish, message};

use crate::PgHistory;
use codec::{Reader, Result};
use engine::Message;
use frame::*;
use types::{EVersion, HObject};

/// The message after its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Primary to any OSD: asks for its info.
    Query,
    /// The answer, also sent unasked to a new primary; `None` if the OSD has no copy.
    Info(Option<Box<Notice>>),
    /// Primary to an OSD: asks for its log and missing set.
    LogRequest,
    /// The answer to a log request.
    Log(Box<LogPart>),
    /// Primary to a member: follow this log; writes will come.
    Activate(Box<Activation>),
    /// A member has stored the activation.
    Activated,
    /// Primary to its members: the group's history has changed.
    History(PgHistory),
    /// Primary to a member: one write.
    Replicate(Box<Replicate>),
    /// A member has stored all writes up to this one.
    Replicated(EVersion),
    /// Primary to a member: writes up to this one are committed, and none follows soon. Only in groups with
    /// shards.
    Settle(EVersion),
    /// Primary to an OSD: send the piece of an object that begins at the cursor.
    Pull(HObject, Cursor),
    /// A piece, to the primary that pulls it, or to a member that lacks the object.
    Push(Box<Push>),
    /// A member has stored a piece, and asks for the next one, if there is one; `false` if its disk has
    /// no space.
    Pushed(HObject, Option<Cursor>, bool),
    /// Primary to a backfill target: list objects and their versions from here on.
    List(HObject),
    /// The answer: one page.
    Listing(Listing),
    /// Primary to a backfill target: remove the listed objects, and store this `last_backfill`. The last
    /// ones, with the versions that are needed, become missing; only a group with shards has such.
    Backfill(HObject, Vec<HObject>, Vec<(HObject, EVersion)>),
    /// The target has stored that `last_backfill`.
    Backfilled(HObject),
    /// Primary to a backfill target: asks for a reservation.
    Reserve,
    /// The target grants the reservation, refuses it, or, once granted, cannot list its objects.
    Reserved(bool),
    /// Primary to a backfill target: gives the reservation back.
    Release,
    /// Primary to a member: its copy of an object is bad, and this version is missing.
    Damaged(HObject, EVersion),
    /// An OSD cannot read an object that was pulled.
    Unreadable(HObject),
    /// Primary to a stray: the group is clean, and its copy can be removed.
    Remove,
    /// Whether a member's disk has space (true), or is nearly full.
    HasSpace(bool),
    /// A member's store refused a transaction, or a write was lost on the way to it: the interval is
    /// aborted. Members with shards name the write that was refused.
    Stalled(Option<RefusedWrite>),
    /// Primary to a member: send rows of your shard of an object.
    ReadRows(Box<ReadRows>),
    /// The answer.
    Rows(Box<Rows>),
    /// Primary to a member that misses an object: changed rows of its shard. The answer is [`Body::Pushed`].
    PushRows(Box<PushRows>),
}

impl Body {
    /// Encodes the message; data goes to the data segment.
    pub fn encode(&self, header: &Header) -> Message {
        let plain = |kind| message(header, kind, |_| {});
        match self {
            Body::Query => plain(QUERY),
            Body::Info(notice) => message(header, INFO, |w| encode_option(w, notice.as_deref())),
            Body::LogRequest => plain(LOG_REQUEST),
            Body::Log(part) => message(header, LOG, |w| w.value(&**part)),
            Body::Activate(activation) => message(header, ACTIVATE, |w| w.value(&**activation)),
            Body::Activated => plain(ACTIVATED),
            Body::History(history) => message(header, HISTORY, |w| w.value(history)),
            Body::Replicate(write) => write.encode(header),
            Body::Replicated(version) => message(header, REPLICATED, |w| w.value(version)),
            Body::Settle(version) => message(header, SETTLE, |w| w.value(version)),
            Body::Pull(object, cursor) => message(header, PULL, |w| {
                w.value(object);
                w.value(cursor);
            }),
            Body::Push(push) => push.encode(header),
            Body::Pushed(object, next, has_space) => message(header, PUSHED, |w| {
                w.value(object);
                encode_option(w, next.as_ref());
                w.bool(*has_space);
            }),
            Body::List(from) => message(header, LIST, |w| w.value(from)),
            Body::Listing(listing) => message(header, LISTING, |w| w.value(listing)),
            Body::Backfill(through, removed, missed) => message(header, BACKFILL, |w| {
                w.value(through);
                w.value(removed);
                if header.has_shards() {
                    w.value(missed);
                }
            }),
            Body::Backfilled(through) => message(header, BACKFILLED, |w| w.value(through)),
            Body::Reserve => plain(RESERVE),
            Body::Reserved(granted) => message(header, RESERVED, |w| w.bool(*granted)),
            Body::Release => plain(RELEASE),
            Body::Damaged(object, version) => message(header, DAMAGED, |w| {
                w.value(object);
                w.value(version);
            }),
            Body::Unreadable(object) => message(header, UNREADABLE, |w| w.value(object)),
            Body::Remove => plain(REMOVE),
            Body::HasSpace(has_space) => message(header, HAS_SPACE, |w| w.bool(*has_space)),
            Body::Stalled(refused) => message(header, STALLED, |w| {
                if header.has_shards() {
                    encode_option(w, refused.as_ref());
                }
            }),
            Body::ReadRows(rows) => rows.encode(header),
            Body::Rows(rows) => rows.encode(header),
            Body::PushRows(rows) => rows.encode(header),
        }
    }

    /// Decodes a message of a kind of this module.
    pub fn decode(message: &Message) -> Result<(Header, Body)> {
        let mut reader = Reader::new(&message.front);
        let r = &mut reader;
        let header = Header::decode(r, message)?;
        let body = match message.kind {
            QUERY => Body::Query,
            INFO => Body::Info(decode_option(r)?.map(Box::new)),
            LOG_REQUEST => Body::LogRequest,
            LOG => Body::Log(Box::new(r.value()?)),
            ACTIVATE => Body::Activate(Box::new(r.value()?)),
            ACTIVATED => Body::Activated,
            HISTORY => Body::History(r.value()?),
            REPLICATE => Body::Replicate(Box::new(Replicate::decode(r, message, &header)?)),
            REPLICATED => Body::Replicated(r.value()?),
            SETTLE => Body::Settle(r.value()?),
            PULL => Body::Pull(r.value()?, r.value()?),
            PUSH => Body::Push(Box::new(Push::decode(r, &message.data)?)),
            PUSHED => Body::Pushed(r.value()?, decode_option(r)?, r.bool("has space")?),
            LIST => Body::List(r.value()?),
            LISTING => Body::Listing(r.value()?),
            BACKFILL if header.has_shards() => Body::Backfill(r.value()?, r.value()?, r.value()?),
            BACKFILL => Body::Backfill(r.value()?, r.value()?, Vec::new()),
            BACKFILLED => Body::Backfilled(r.value()?),
            RESERVE => Body::Reserve,
            RESERVED => Body::Reserved(r.bool("granted")?),
            RELEASE => Body::Release,
            DAMAGED => Body::Damaged(r.value()?, r.value()?),
            UNREADABLE => Body::Unreadable(r.value()?),
            REMOVE => Body::Remove,
            HAS_SPACE => Body::HasSpace(r.bool("has space")?),
            STALLED if header.has_shards() => Body::Stalled(decode_option(r)?),
            STALLED => Body::Stalled(None),
            READ_ROWS => Body::ReadRows(Box::new(ReadRows::decode(r)?)),
            PUSH_ROWS => Body::PushRows(Box::new(PushRows::decode(r, &message.data)?)),
            ROWS => Body::Rows(Box::new(Rows::decode(r, &message.data)?)),
            other => return Err(r.invalid("kind", other.into())),
        };
        finish(reader, message)?;
        Ok((header, body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LogEntry, Missing, PgInfo};
    use bytes::Bytes;
    use std::collections::BTreeMap;
    use store::{Change, Collection, Transaction};
    use types::{Epoch, PgId, ShardId};

    fn bodies(pg: PgId) -> Vec<Body> {
        let object = HObject::hash_start(pg.pool, 5);
        let name = object.clone();
        let mut transaction = Transaction::new();
        let data = Bytes::from_static(b"payload");
        let write = Change::Write { object: object.clone(), offset: 1, data: data.clone() };
        transaction.push(Collection::replicated(pg), write);
        let write = Replicate {
            entry: Bytes::from_static(b"entry"),
            info: Bytes::from_static(b"info"),
            also: vec![Bytes::from_static(b"clone")],
            committed: EVersion::new(1, 2),
            trim: EVersion::ZERO,
            transaction,
            deltas: Vec::new(),
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
        let mut missing = Missing::default();
        missing.add(object.clone(), Default::default());
        let entries = vec![LogEntry::default()];
        let (info, tail) = (PgInfo::default(), EVersion::ZERO);
        let part = LogPart { info: info.clone(), tail, entries: entries.clone(), missing };
        let activation = Activation { info, tail, entries, ..Activation::default() };
        vec![
            Body::Query,
            Body::Info(Some(Box::default())),
            Body::Log(Box::new(part)),
            Body::Activate(Box::new(activation)),
            Body::Replicate(Box::new(write)),
            Body::Replicated(EVersion::new(1, 2)),
            Body::Settle(EVersion::new(1, 2)),
            Body::Pull(object.clone(), Cursor::default()),
            Body::Push(Box::new(push)),
            Body::Pushed(object.clone(), None, true),
            Body::Listing(listing),
            Body::Backfill(object.clone(), vec![object], Vec::new()),
            Body::Reserved(true),
            Body::Damaged(name.clone(), EVersion::new(1, 2)),
            Body::Unreadable(name),
            Body::Remove,
            Body::HasSpace(true),
            Body::Stalled(None),
        ]
    }

    #[test]
    fn messages_round_trip_and_every_truncation_is_an_error() {
        let pg = PgId { pool: types::PoolId(3), seed: 7 };
        let header = Header::replicated(pg, Epoch(9), Epoch(8));
        let [to, from] = [0, 31].map(|position| ShardId::at(position).unwrap());
        let with_shards = Header { to, from, ..header };
        let all = [(header, 1), (with_shards, 2)];
        for (body, (header, version)) in
            bodies(pg).into_iter().flat_map(|b| all.map(|h| (b.clone(), h)))
        {
            let message = body.encode(&header);
            assert_eq!((message.version, message.compat_version), (version, version));
            assert_eq!(Body::decode(&message).unwrap(), (header, body));
            assert_eq!(sender_epoch(&message), Ok(header.epoch));
            for end in 0..message.front.len() {
                let mut cut = message.clone();
                cut.front.truncate(end);
                assert!(Body::decode(&cut).is_err());
            }
        }
    }

    #[test]
    fn messages_that_only_groups_with_shards_send_round_trip() {
        let pg = PgId { pool: types::PoolId(3), seed: 7 };
        let [to, from] = [0, 2].map(|position| ShardId::at(position).unwrap());
        let header = Header { to, from, ..Header::replicated(pg, Epoch(9), Epoch(8)) };
        let Some(Body::Replicate(mut write)) =
            bodies(pg).into_iter().find(|body| matches!(body, Body::Replicate(_)))
        else {
            panic!("there is a write")
        };
        write.deltas = vec![0];
        let object = HObject::hash_start(pg.pool, 5);
        let missed = vec![(object.clone(), EVersion::new(3, 4))];
        let backfill = Body::Backfill(object, Vec::new(), missed);
        let refused = RefusedWrite { version: EVersion::new(3, 4), reason: Refusal::Damage };
        for body in [Body::Replicate(write), Body::Stalled(Some(refused)), backfill] {
            let message = body.encode(&header);
            assert_eq!(Body::decode(&message), Ok((header, body)));
            for end in 0..message.front.len() {
                let cut = Message { front: message.front.slice(..end), ..message.clone() };
                assert!(Body::decode(&cut).is_err());
            }
        }
    }

    #[test]
    fn a_message_of_a_replicated_group_has_no_shards_in_its_bytes() {
        let pg = PgId { pool: types::PoolId(3), seed: 7 };
        let message = Body::Remove.encode(&Header::replicated(pg, Epoch(9), Epoch(8)));
        let front = [3, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 8, 0, 0, 0];
        assert_eq!(message.front[..], front);
    }

    #[test]
    fn a_message_is_refused_if_its_writer_says_that_this_build_does_not_understand_it() {
        let pg = PgId { pool: types::PoolId(3), seed: 7 };
        let header =
            Header { to: ShardId::at(1).unwrap(), ..Header::replicated(pg, Epoch(9), Epoch(8)) };
        let mut message = Body::Remove.encode(&header);
        message.front = [&message.front[..], b"more"].concat().into();
        assert!(Body::decode(&message).is_err(), "a body of this version has nothing more");
        message.version = 3;
        assert_eq!(
            Body::decode(&message),
            Ok((header, Body::Remove)),
            "it may have more in a later one"
        );
        for compat in [3, 1000] {
            message.compat_version = compat;
            let error = Body::decode(&message).unwrap_err();
            let compat = compat.min(255) as u8;
            assert_eq!(error.kind, codec::DecodeErrorKind::TooNew { compat, known: 2 });
            assert_eq!(sender_epoch(&message), Err(error));
        }
    }
}
