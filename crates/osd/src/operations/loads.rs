//! Loads from the store: the state of an object, and the further parts of it that requests need.

use crate::execute::{Answer, Need};
use crate::operations::keys::ObjectKey;
use crate::operations::lost_object::lost_state;
use crate::operations::request::Request;
use crate::operations::service::Service;
use crate::operations::shard_reads::NeedOf;
use crate::operations::shards::read_store;
use crate::operations::state::{answer, decode_state, load};
use crate::operations::{copying, healing, outcomes, own};
use crate::tokens::Token;
use crate::watches::Watched;
use crate::work::Work;
use bytes::Bytes;
use pg::ReadError;
use pg::snaps::At;
use store::{Outcome, ReadData, RequestKind, StoreError};
use types::Errno;

/// Loads what a request needs; it runs again when all has been loaded.
pub(super) fn load_needs(s: &mut Service<'_>, object: ObjectKey, key: u64, needs: Vec<Need>) {
    let context = s.ops.contexts.get(object).expect("its request runs");
    let mut target = context.name.clone();
    let request = s.ops.requests.get_mut(key).expect("the caller has it");
    assert_eq!(request.outstanding, 0, "a request that runs has all that it asked for");
    request.outstanding = needs.len();
    let attempt = request.attempt;
    if let Some(At::Clone(id)) = request.at {
        target = target.at(id);
    }
    for need in needs {
        let part = NeedOf { request: key, attempt, need };
        if let Err(Need::Copy(wanted)) = load(s, &target, part) {
            copying::begin(s.ops, &mut s.cx, s.peers, (key, attempt), *wanted);
        }
    }
}

/// Handles a part that an attempt of a request has loaded. The device may have failed in one place only:
/// then the object is recovered from another copy.
pub(crate) fn need_loaded(
    s: &mut Service<'_>,
    key: u64,
    attempt: u32,
    need: Need,
    outcome: Result<Outcome, StoreError>,
) {
    let has_failed = outcome.as_ref().is_err_and(StoreError::may_heal);
    if has_failed && (healing::read_again(s, key, attempt, &need) || healing::heal(s, key, attempt))
    {
        return;
    }
    let answer = answer(outcome, &need);
    if s.ops.need_loaded(key, attempt, need, answer) {
        s.cx.work.push(Work::Continue(key));
    }
}

/// Handles the end of a read of data. An object of which too few shards can be read waits for others, or its
/// request fails.
pub(crate) fn data_read(s: &mut Service<'_>, ticket: u64, outcome: Result<Bytes, ReadError>) {
    let Some(part) = s.group.queues.shard_reads.data.remove(ticket) else { return };
    let NeedOf { request, attempt, need } = part;
    let answer = match outcome {
        Ok(data) => Answer::Data(dense(&need, data)),
        Err(error) => {
            if healing::heal_shards(s, request, attempt) {
                return;
            }
            tracing::error!(pg = %s.group.id, %error, "an object cannot be read");
            Answer::Failed(Errno::IO.negative())
        }
    };
    if s.ops.need_loaded(request, attempt, need, answer) {
        s.cx.work.push(Work::Continue(request));
    }
}

/// Data without holes, as Ceph's erasure-coded pools report it.
fn dense(need: &Need, data: Bytes) -> ReadData {
    let Need::Data { offset, .. } = need else { unreachable!("only data is read from shards") };
    let extents = if data.is_empty() { Vec::new() } else { vec![(*offset, data.len() as u64)] };
    ReadData { data, extents }
}

pub(super) fn load_state(s: &mut Service<'_>, object: ObjectKey) {
    let context = s.ops.contexts.get(object).expect("the caller has it");
    let (collection, name) = (s.group.pg.collection(), context.name.clone());
    read_store(s, Token::State { object }, RequestKind::Meta { collection, object: name });
}

/// Handles the loaded metadata of an object: its queue runs, or the object is recovered if damaged.
pub(crate) fn state_loaded(
    s: &mut Service<'_>,
    object: ObjectKey,
    outcome: Result<Outcome, StoreError>,
) {
    let Some(context) = s.ops.contexts.get_mut(object) else { return };
    context.is_loading = false;
    let lost = s.group.pg.lost_version(&context.name);
    let lost = lost.map(|need| (need, s.may_have_clones()));
    let state = match lost {
        None => decode_state(outcome),
        Some((need, may_have_clones)) => lost_state(decode_state(outcome), need, may_have_clones),
    };
    let context = s.ops.contexts.get_mut(object).expect("it was just there");
    match state {
        Ok(state) => {
            context.state = Some(state);
            adopt_watchers(s, object);
            s.cx.work.push(Work::Object(object));
        }
        Err(errno) => {
            let (pg, name) = (s.group.id, &context.name);
            tracing::error!(%pg, object = %name, %errno, "the object's state cannot be read");
            if !healing::heal_state(s, object) {
                refuse_all(s, object, errno);
            }
        }
    }
}

/// Answers all requests of an object whose state cannot be read.
fn refuse_all(s: &mut Service<'_>, object: ObjectKey, errno: Errno) {
    let errno = s.unreadable_errno(errno);
    let Some(context) = s.ops.contexts.get_mut(object) else { return };
    for key in std::mem::take(&mut context.queue) {
        // A write that was executed before keeps its result, whatever became of the object since.
        let may_write = s.ops.requests.get(key).is_some_and(Request::may_write);
        if !may_write || !outcomes::answer_repeated(s, key) {
            s.reply_error(key, errno);
        }
    }
    // A replica keeps no context of an idle object.
    s.cx.work.push(Work::Object(object));
}

/// Registers the stored watches of an object that was just loaded.
fn adopt_watchers(s: &mut Service<'_>, key: ObjectKey) {
    let Some(context) = s.ops.contexts.get(key) else { return };
    if !s.group.pg.is_primary() {
        return;
    }
    let watchers = context.state.as_ref().map(|state| &state.info.watchers);
    let Some(watchers) =
        watchers.filter(|watchers| !watchers.is_empty() || s.group.watches.contains(&context.name))
    else {
        return;
    };
    let group = &mut Watched { pg: s.group.id, watches: s.group.watches };
    s.watches.adopt(&mut s.cx, group, &context.name, watchers);
    end_blocklisted_watches(s, key);
}

/// Queues the removal of watches of blocklisted clients before the requests that wait for the object.
fn end_blocklisted_watches(s: &mut Service<'_>, object: ObjectKey) {
    let context = s.ops.contexts.get(object).expect("the caller has it");
    let ended = s.group.watches.blocklisted_of(s.cx.map, &context.name);
    if ended.is_empty() {
        return;
    }
    let name = context.name.clone();
    for key in ended {
        let removal = own::unwatching(s.group.id, name.clone(), key, s.cx.map.epoch);
        let removal = s.ops.requests.insert(removal);
        s.ops.requests.assign(removal, s.group.id);
        let request = s.ops.requests.get_mut(removal).expect("it was just made");
        request.op_flags.may_write = true;
        let context = s.ops.contexts.get_mut(object).expect("it was just there");
        context.queue.push_front(removal);
    }
}
