//! The state of an object as its store has it: how it is read, and what an answer means to execution.

use crate::execute::{Answer, Need, ObjectState};
use crate::operations::service::Service;
use crate::operations::shard_reads::NeedOf;
use crate::operations::shards::{has_shards, read_data, read_store};
use crate::tokens::Token;
use bytes::Bytes;
use pg::snaps::{SNAPSET_ATTR, SnapSet};
use pg::{INFO_ATTR, ObjectInfo, Pg, user_attr_name};
use store::{ObjectMeta, Outcome, RequestKind, StoreError};
use types::{Errno, HObject};

/// Loads a part of an object for a request. Fails with the part if no store has it: another OSD copies it.
pub(super) fn load(s: &mut Service<'_>, object: &HObject, part: NeedOf) -> Result<(), Need> {
    if let Need::Data { offset, length } = part.need
        && has_shards(s.group.pg)
    {
        let info = info_of(s, object).expect("its state is loaded before");
        read_data(s, object.clone(), &info, (offset, length), part);
        return Ok(());
    }
    let NeedOf { request, attempt, need } = part;
    let clone = match need {
        Need::Clone(id) if object.snap != id => Some(object.at(id)),
        _ => None,
    };
    let object = clone.as_ref().unwrap_or(object);
    let Some(kind) = store_request(s.group.pg, object.clone(), &need) else { return Err(need) };
    read_store(s, Token::Need { request, attempt, need }, kind);
    Ok(())
}

/// The info of a head, or of the clone of it that was loaded last.
fn info_of(s: &Service<'_>, object: &HObject) -> Option<ObjectInfo> {
    let key = s.group.queues.find(&HObject::head_of(object))?;
    let context = s.ops.contexts.get(key)?;
    let clone = context.clone.as_ref().filter(|(id, _)| *id == object.snap);
    let state = clone.map(|(_, state)| &**state);
    let state = if object.is_clone() { state } else { context.state.as_ref() };
    state.map(|state| state.info.clone())
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
