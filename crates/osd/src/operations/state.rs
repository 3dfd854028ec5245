//! The state of an object as its store has it: how it is read, and what an answer means to execution.

use crate::execute::{Answer, Need, ObjectState};
use crate::outbox::Outbox;
use crate::tokens::Token;
use bytes::Bytes;
use pg::snaps::{SNAPSET_ATTR, SnapSet};
use pg::{INFO_ATTR, ObjectInfo, Pg, ReadPlan, user_attr_name};
use store::{ObjectMeta, Outcome, RequestKind, StoreError};
use types::{Errno, HObject};

/// A part of an object that an attempt of a request waits for.
pub(super) struct NeedOf {
    pub request: u64,
    pub attempt: u32,
    pub need: Need,
}

/// Loads a part of an object for a request. Fails with the part if no store has it: another OSD copies it.
pub(super) fn load(
    pg: &Pg,
    out: &mut Outbox,
    object: &HObject,
    NeedOf { request, attempt, need }: NeedOf,
) -> Result<(), Need> {
    let clone = match need {
        Need::Clone(id) if object.snap != id => Some(object.at(id)),
        _ => None,
    };
    let object = clone.as_ref().unwrap_or(object);
    let Some(kind) = store_request(pg, object.clone(), &need) else { return Err(need) };
    read(pg, out, object, (Token::Need { request, attempt, need }, kind));
    Ok(())
}

/// The request to a store with the whole object that loads what is needed; `None` for a copy.
fn store_request(pg: &Pg, object: HObject, need: &Need) -> Option<RequestKind> {
    let collection = pg.collection();
    Some(match need.clone() {
        Need::Data { offset, length } => RequestKind::Read { collection, object, offset, length },
        Need::OmapHeader => RequestKind::OmapHeader { collection, object },
        Need::OmapGet { keys } => RequestKind::OmapGet { collection, object, keys },
        Need::OmapList { after, prefix, entries_max, bytes_max } => {
            let after = Some(after);
            RequestKind::OmapList { collection, object, after, prefix, entries_max, bytes_max }
        }
        Need::Clone(_) => RequestKind::Meta { collection, object },
        Need::Copy(_) => return None,
    })
}

/// Reads an object for a client in the way of the group's backend. `kind` is the request to a store with the
/// whole object; `token` returns with its completion.
pub(super) fn read(
    pg: &Pg,
    out: &mut Outbox,
    object: &HObject,
    (token, kind): (Token, RequestKind),
) {
    match pg.read(object, kind) {
        ReadPlan::Local(kind) => out.ask(token, kind),
        // `tell_map` creates no groups of erasure-coded pools.
        ReadPlan::Gather(_) | ReadPlan::Lost => unreachable!("each member has whole objects"),
    }
}

/// The outcome of the store in the terms of execution.
pub(crate) fn answer(outcome: Result<Outcome, StoreError>, need: &Need) -> Answer {
    match outcome {
        Ok(Outcome::Read(read)) => Answer::Data(read),
        Ok(Outcome::OmapHeader(header)) => Answer::OmapHeader(header),
        Ok(Outcome::OmapPairs(pairs)) => Answer::OmapPairs(pairs),
        Ok(Outcome::OmapPage(page)) => Answer::OmapPage(page),
        Ok(Outcome::Meta(meta)) => match meta.as_ref().and_then(state_of) {
            Some(clone) => Answer::Clone(Box::new(clone)),
            None => Answer::Failed(Errno::IO.negative()),
        },
        Ok(other) => unreachable!("{need:?} was answered by {other:?}"),
        Err(StoreError::NoObject { .. }) => Answer::Failed(Errno::NOENT.negative()),
        Err(error) => {
            tracing::error!(%error, "an object cannot be read");
            Answer::Failed(Errno::IO.negative())
        }
    }
}

/// The state of an object from its metadata; an absent one has the default. `EIO` if it is damaged.
pub(super) fn decode_state(outcome: Result<Outcome, StoreError>) -> Result<ObjectState, Errno> {
    match outcome {
        Ok(Outcome::Meta(None)) | Err(StoreError::NoCollection(_)) => Ok(ObjectState::default()),
        Ok(Outcome::Meta(Some(meta))) => state_of(&meta).ok_or(Errno::IO),
        _ => Err(Errno::IO),
    }
}

/// Decodes the state of an object from its attributes; `None` if they are missing or damaged.
pub(crate) fn state_of(meta: &ObjectMeta) -> Option<ObjectState> {
    let info: ObjectInfo = codec::decode_all("object info", meta.attrs.get(&INFO_ATTR)?).ok()?;
    let snaps = match meta.attrs.get(&SNAPSET_ATTR) {
        Some(set) => Some(Box::new(codec::decode_all::<SnapSet>("snapset", set).ok()?)),
        None => None,
    };
    let users = |(name, value): (&Bytes, &Bytes)| Some((user_attr_name(name)?, value.clone()));
    let xattrs = meta.attrs.iter().filter_map(users).collect();
    Some(ObjectState { exists: !info.is_whiteout, info, xattrs, snaps, is_guess: false })
}
