//! The outcome of an execution as a write of the group's log.

use crate::execute::{AttrDelta, CloneChanges, Execution, ObjectState};
use crate::limits;
use crate::operations::checks::check_space;
use crate::operations::keys::ObjectKey;
use crate::operations::object::{ObjectContext, Progress};
use crate::operations::request::Request;
use crate::operations::service::Service;
use crate::operations::shards::has_shards;
use crate::work::Work;
use bytes::Bytes;
use pg::snaps::index_key;
use pg::{AlsoWritten, EntryKind, ObjectInfo, Pg, Write, meta_object};
use std::collections::BTreeMap;
use store::Change;
use types::{Errno, HObject, PgId, SnapId};

/// Submits a write to its group; the reply waits until it is durable. A write that changes
/// nothing is only logged, so that a resend gets the same reply.
pub(super) fn submit(
    s: &mut Service<'_>,
    object: ObjectKey,
    key: u64,
    mut execution: Box<Execution>,
) -> Progress {
    let request = s.ops.requests.get(key).expect("the caller has it");
    if execution.modifies()
        && let Err(errno) = check_outcome(s, request, &mut execution)
    {
        return s.reject(object, key, errno);
    }
    let adds = execution.delta.bytes > 0 || execution.delta.objects > 0;
    if adds || execution.makes_clone() {
        match s.checks().may_grow(request) {
            Ok(true) => {}
            Ok(false) => {
                s.hold_back(key);
                return Progress::Ran;
            }
            Err(errno) => return s.reject(object, key, errno),
        }
    }
    let request = s.ops.requests.get_mut(key).expect("the caller has it");
    let context = s.ops.contexts.get_mut(object).expect("the caller has it");
    assert_eq!((request.pg, context.pg), (s.group.id, s.group.id), "a write is of its group");
    assert!(request.outcome.is_none(), "a request writes once");
    if !request.origin.is_maintenance() {
        s.group.counters.note_write(request.bytes);
    }
    let write = prepare_write(context, key, request, &mut execution, s.group.pg);
    request.times.submitted = Some(s.cx.env.now);
    let version = s.group.pg.submit(write);
    request.outcome = Some((execution, version));
    s.cx.work.push(Work::Group(s.group.id));
    Progress::Ran
}

/// Checks the space of a write, and drops its results and outputs unless the client wants them.
/// `EOVERFLOW` if they are too long for a log entry.
fn check_outcome(
    s: &Service<'_>,
    request: &Request,
    execution: &mut Execution,
) -> Result<(), Errno> {
    let has_space = s.group.pg.has_space() && !s.usage.is_disk_full();
    check_space(request, execution.makes_clone(), has_space)?;
    if !request.wants_returns() {
        execution.result = 0;
        execution.outputs.iter_mut().for_each(|(_, output)| *output = Bytes::new());
        return Ok(());
    }
    match is_memorable(execution) {
        true => Ok(()),
        false => Err(Errno::OVERFLOW),
    }
}

/// Makes a write of an outcome, and changes the state of the object to that which the write will leave.
/// `ticket` returns when it is durable. An outcome that changes nothing is only logged, so that a resend
/// gets the same reply.
fn prepare_write(
    context: &mut ObjectContext,
    ticket: u64,
    request: &Request,
    execution: &mut Execution,
    pg: &Pg,
) -> Write {
    let modifies = execution.modifies();
    let state = context.state.as_mut().expect("it is loaded before");
    let prior_version = state.info.version;
    let sizes = match has_shards(pg) {
        true => sizes_before(&context.name, state, &execution.changes),
        false => BTreeMap::new(),
    };
    if modifies {
        apply_to_state(state, execution);
        context.is_removed = !state.exists;
    } else {
        execution.info.user_version = seen_user_version(pg, execution);
    }
    context.writes_in_flight += 1;
    let returns = match request.wants_returns() || !modifies {
        true => execution.outputs.clone(),
        false => Vec::new(),
    };
    let mut changes = std::mem::take(&mut execution.changes);
    let also = match execution.clones.take() {
        Some(clones) => index_clones(context.pg.pg, *clones, &mut changes),
        None => Vec::new(),
    };
    if request.origin.is_maintenance() {
        context.clone = None;
    }
    Write {
        ticket,
        object: context.name.clone(),
        kind: match execution.exists {
            _ if !modifies => EntryKind::Unchanged,
            true => EntryKind::Modify,
            false if execution.is_whiteout() => EntryKind::Modify,
            false => EntryKind::Delete,
        },
        prior_version,
        user_version: execution.info.user_version,
        request: request.logged_id(),
        mtime: request.message.mtime,
        result: execution.result,
        returns,
        changes,
        sizes,
        also,
        objects: execution.delta.objects,
        clones: execution.delta.clones,
        bytes: execution.delta.bytes,
    }
}

/// The sizes before a write of the objects that exist and that it changes, or copies from.
fn sizes_before(head: &HObject, state: &ObjectState, changes: &[Change]) -> BTreeMap<HObject, u64> {
    let mut sizes = BTreeMap::new();
    if state.exists || state.info.is_whiteout {
        sizes.insert(head.clone(), state.info.size);
    }
    let Some(set) = state.snaps.as_deref() else { return sizes };
    for change in changes {
        let source = match change {
            Change::Clone { object, .. } => Some(object),
            _ => None,
        };
        for object in change.object().into_iter().chain(source) {
            if let Some(clone) = set.clone_of(object.snap) {
                sizes.insert(object.clone(), clone.size);
            }
        }
    }
    sizes
}

/// Whether its outputs are short enough for a log entry.
pub(super) fn is_memorable(execution: &Execution) -> bool {
    execution.outputs.iter().all(|(_, output)| output.len() <= limits::WRITE_REPLY_LEN_MAX)
}

/// The user version in a reply without a change: the object's, or, for an absent object, one that
/// its next version will exceed.
fn seen_user_version(pg: &Pg, execution: &Execution) -> u64 {
    match Errno(-execution.result) {
        Errno::NOENT => pg.info().last_user_version,
        _ => execution.info.user_version,
    }
}

/// Changes the state of an object to that which a write will leave.
fn apply_to_state(state: &mut ObjectState, execution: &mut Execution) {
    for delta in &execution.attrs {
        match delta {
            AttrDelta::Clear => state.xattrs.clear(),
            AttrDelta::Remove(name) => {
                state.xattrs.remove(name);
            }
            AttrDelta::Set(name, value) => {
                // Copied, because a slice would keep the whole message in memory.
                let value = Bytes::copy_from_slice(value);
                state.xattrs.insert(name.clone(), value);
            }
        }
    }
    state.exists = execution.exists;
    state.is_guess = false;
    let stays = execution.exists || execution.is_whiteout();
    state.info = if stays { execution.info.clone() } else { ObjectInfo::default() };
    match execution.snaps.take() {
        Some(snaps) => state.snaps = Some(snaps),
        None if !stays => state.snaps = None,
        None => {}
    }
}

/// Adds the changes of the group's index of clones to those of a write.
fn index_clones(pg: PgId, clones: CloneChanges, changes: &mut Vec<Change>) -> Vec<AlsoWritten> {
    let object = meta_object(pg);
    let key = |(snap, clone): &(SnapId, HObject)| index_key(*snap, clone);
    if !clones.indexed.is_empty() {
        let pairs = clones.indexed.iter().map(|pair| (key(pair), Default::default())).collect();
        changes.push(Change::OmapSet { object: object.clone(), pairs });
    }
    if !clones.unindexed.is_empty() {
        let keys = clones.unindexed.iter().map(key).collect();
        changes.push(Change::OmapRemove { object, keys });
    }
    clones.written
}
