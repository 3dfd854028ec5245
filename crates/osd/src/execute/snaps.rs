//! Snapshots in execution: preserving the object before it changes, listing its clones, and rollback.

use super::context::{AttrDelta, CloneChanges, Context, Stop};
use super::view::{Answer, Need, ObjectState};
use super::write;
use crate::limits;
use pg::snaps::{At, Extents, SNAPSET_ATTR, SnapSet};
use pg::{AlsoWritten, EntryKind, INFO_ATTR, ObjectInfo, user_attr};
use std::collections::BTreeMap;
use store::Change;
use types::{EVersion, Errno, SnapId};
use wire::OsdOp;
use wire::snapshots::{CloneInfo, SnapListing};

/// Bytes of a watcher in the object's info, with those of an IPv6 address.
const WATCHER_BYTES: usize = 96;

pub(super) fn list_snaps(context: &mut Context<'_>) -> Result<i32, Stop> {
    let nothing = SnapSet::default();
    let set = context.input.state.snaps.as_deref().unwrap_or(&nothing);
    let clones = set.clones.iter().map(|clone| CloneInfo {
        clone: clone.id,
        snaps: clone.snaps.iter().rev().copied().collect(),
        overlap: clone.overlap.to_vec(),
        size: clone.size,
    });
    let head = CloneInfo { clone: SnapId::HEAD, size: context.info.size, ..CloneInfo::default() };
    let clones = clones.chain(context.exists.then_some(head)).collect();
    context.output = codec::encode_to_bytes(&SnapListing { clones, seq: set.seq });
    Ok(0)
}

/// Before a write takes effect: makes a clone if a snapshot needs the present state, and
/// updates the overlap of the newest clone with the head. Most writes change neither.
pub(super) fn preserve(context: &mut Context<'_>) {
    let (state, snapshots) = (context.input.state, context.input.snapshots);
    let (nothing, known) = (SnapSet::default(), state.snaps.as_deref());
    let before = known.unwrap_or(&nothing);
    let wanted = before.to_preserve(snapshots.snaps);
    let makes_clone = state.exists && !wanted.is_empty();
    let is_newer = known.is_none() || snapshots.seq > before.seq;
    let modified =
        if makes_clone || !before.clones.is_empty() { modified(context) } else { Vec::new() };
    let is_modified = modified.iter().any(|(start, end)| before.shares(*start, *end));
    if !makes_clone && !is_newer && !is_modified && !is_replaced(context) {
        return;
    }
    let mut set = before.clone();
    if makes_clone {
        make_clone(context, &mut set, wanted);
    }
    modified.iter().for_each(|(start, end)| set.modified(*start, *end));
    set.seq = set.seq.max(snapshots.seq);
    context.snaps = Some(Box::new(set));
}

/// Refuses clones and watchers that are too many together for an object of an erasure-coded pool, or clones
/// in too many pieces, with `EFBIG`. What makes them fewer is taken.
pub(super) fn check_metadata(context: &Context<'_>) -> Result<(), Errno> {
    if !context.input.pool.is_erasure {
        return Ok(());
    }
    let state = context.input.state;
    let bytes = |info: &ObjectInfo, set: Option<&SnapSet>| {
        info.watchers.len() * WATCHER_BYTES + set.map_or(0, SnapSet::stored_bytes)
    };
    let known = state.snaps.as_deref();
    let after = bytes(&context.info, context.snaps.as_deref().or(known));
    let is_within = after <= limits::SHARD_METADATA_BYTES_MAX || after <= bytes(&state.info, known);
    if is_within { Ok(()) } else { Err(Errno::FBIG) }
}

/// Whether the head was replaced, and its attributes with it.
fn is_replaced(context: &Context<'_>) -> bool {
    let object = context.input.object;
    context.changes.iter().any(|change| match change {
        Change::Remove { object: removed } => removed == object,
        Change::Clone { target, .. } => target == object,
        _ => false,
    })
}

fn make_clone(context: &mut Context<'_>, set: &mut SnapSet, snaps: &[SnapId]) {
    let (state, version) = (context.input.state, context.input.version);
    let (head, id) = (context.input.object, context.input.snapshots.seq);
    let clone = head.at(id);
    set.add(id, snaps, state.info.size, version);
    let info = ObjectInfo {
        version,
        prior_version: state.info.version,
        watchers: BTreeMap::new(),
        ..state.info.clone()
    };
    let attrs = BTreeMap::from([(INFO_ATTR, codec::encode_to_bytes(&info))]);
    let mut changes = vec![
        Change::Clone { object: head.clone(), target: clone.clone() },
        Change::SetAttrs { object: clone.clone(), attrs },
    ];
    if state.snaps.is_some() {
        changes.push(Change::RemoveAttr { object: clone.clone(), name: SNAPSET_ATTR });
    }
    context.changes.splice(0..0, changes);
    let indexed = snaps.iter().map(|snap| (*snap, clone.clone())).collect();
    let prior_version = EVersion::ZERO;
    let written = AlsoWritten { object: clone, kind: EntryKind::Modify, prior_version };
    let clones = CloneChanges { written: vec![written], indexed, ..CloneChanges::default() };
    context.clones = Some(Box::new(clones));
}

/// The ranges of the head that change, as offsets of start and end.
fn modified(context: &Context<'_>) -> Vec<(u64, u64)> {
    let head = context.input.object;
    let mut modified = Vec::new();
    for change in context.changes.iter().filter(|change| change.object() == Some(head)) {
        match change {
            Change::Write { offset, data, .. } => {
                modified.push((*offset, offset.saturating_add(data.len() as u64)));
            }
            Change::Zero { offset, length, .. } => {
                modified.push((*offset, offset.saturating_add(*length)));
            }
            Change::Truncate { size, .. } => modified.push((*size, u64::MAX)),
            Change::Remove { .. } => modified.push((0, u64::MAX)),
            Change::Clone { .. } => {
                let gone = context.kept.clone().unwrap_or_default().gaps(u64::MAX);
                modified.extend(gone.iter().map(|(at, length)| (at, at + length)));
            }
            _ => {}
        }
    }
    modified
}

/// Restores the object's state at a snapshot.
pub(super) fn roll_back(context: &mut Context<'_>, op: &OsdOp) -> Result<i32, Stop> {
    let set = context.input.state.snaps.as_deref();
    match context.input.snapshots.find(set, op.snap()) {
        // Unchanged since the snapshot; if it does not exist, it did not exist then.
        At::Head if context.exists => context.touch(),
        At::Head => Ok(0),
        At::Clone(id) => match context.load(Need::Clone(id))? {
            Answer::Clone(clone) => {
                let clone: &ObjectState = clone;
                let kept = set.map_or(Extents::default(), |set| set.shared_with_head(id));
                become_clone(context, id, clone, kept)
            }
            other => unreachable!("a clone was answered by {other:?}"),
        },
        At::Nowhere if !context.info.watchers.is_empty() => Err(Errno::BUSY.into()),
        At::Nowhere if context.exists => write::delete(context),
        At::Nowhere => Ok(0),
    }
}

fn become_clone(
    context: &mut Context<'_>,
    id: SnapId,
    clone: &ObjectState,
    kept: Extents,
) -> Result<i32, Stop> {
    let (head, object) = (context.input.object.clone(), context.input.object.at(id));
    context.changes.push(Change::Clone { object, target: head });
    // Data of a head that does not exist was not shared before this request.
    context.kept = context.input.state.exists.then_some(kept);
    context.exists = true;
    context.stored_attrs.clear();
    context.attrs.push(AttrDelta::Clear);
    for (name, value) in &clone.xattrs {
        context.stored_attrs.insert(user_attr(name), value.clone());
        context.attrs.push(AttrDelta::Set(name.clone(), value.clone()));
    }
    context.info.size = clone.info.size;
    context.info.has_omap = clone.info.has_omap;
    context.touched = true;
    Ok(0)
}
