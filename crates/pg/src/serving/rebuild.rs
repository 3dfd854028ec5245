//! Recovery of shards: the primary reads rows of as many shards as determine the others, decodes those that
//! members lack, its own among them, and gives each member its shard.
//!
//! The shards of an object are rebuilt together, piece by piece: the next piece is read when all members have
//! stored the one before it. A member stores pieces as it does in replicated groups: only the last one has
//! the object's info, so a part of a shard is never taken for the whole.

use super::recovery::{Operation, Rebuild, Sent};
use super::service::Service;
use super::sources::{
    committed_shards, has_other_shards, note_strays, settle_member, shard_sources,
};
use crate::Member;
use crate::backend::erasure::geometry::ROW;
use crate::message::{Body, Cursor, Push, PushRows, ROWS_RANGES_MAX};
use crate::missing::Item;
use crate::rows::{self, Content, Failed, Purpose, RowRequest, RowSet, Versions};
use crate::transfers::{self, Receiver};
use crate::{EntryKind, INFO_ATTR, ObjectInfo, Sizes};
use std::collections::BTreeMap;
use std::ops::Range;
use types::{EVersion, HObject};

/// Changed rows end before this byte; a change of everything behind some byte does not.
const CHANGED_END_MAX: u64 = 1 << 48;

/// Rebuilds the shards of these members; false if that is not possible now.
pub fn rebuild(service: &mut Service<'_>, object: &HObject, targets: Vec<Member>) -> bool {
    // In a group that does not serve, this includes changes that a member may hold.
    if service.is_being_written(object) {
        return false;
    }
    let need = needed_version(service, object, &targets);
    let sources = rebuild_sources(service, object, need, &targets);
    if !service.core.placement.backend.can_restore(sources.iter().copied()) {
        return false;
    }
    let pushing = targets.iter().map(|target| (*target, Sent::Nothing)).collect();
    let changed = targets.iter().filter_map(|target| {
        changed_rows(service, *target, object, need).map(|changed| (*target, changed))
    });
    let rebuild = Some(Rebuild { need, changed: changed.collect(), ..Rebuild::default() });
    service.serving.recovery.begin_one(object, Operation { pulling: None, pushing, rebuild });
    service.serving.recovery.wanted.remove(object);
    targets.into_iter().for_each(|target| service.report_damage(target, object));
    read_piece(service, object);
    true
}

/// The version in which members miss the object, or else the one that the log names; zero if the log does
/// not reach back to it.
fn needed_version(service: &Service<'_>, object: &HObject, targets: &[Member]) -> EVersion {
    let of_member = |target: &Member| match *target == service.core.own.whoami {
        true => service.core.copy.missing.need(object),
        false => service.known.peers.get(target)?.missing.need(object),
    };
    let need = targets.iter().filter_map(of_member).max().unwrap_or_default();
    need.max(service.core.copy.logged_version(object))
}

/// The rows of a member's shard that writes have changed since the version that it has, with that version;
/// `None` if it needs the whole shard.
fn changed_rows(
    service: &Service<'_>,
    target: Member,
    object: &HObject,
    need: EVersion,
) -> Option<(EVersion, RowSet)> {
    let missing = match target == service.core.own.whoami {
        true => &service.core.copy.missing,
        false => &service.known.peers.get(&target)?.missing,
    };
    let have = missing.get(object)?.have;
    if have == EVersion::ZERO || have < service.core.copy.log.tail() {
        return None;
    }
    let mut rows = RowSet::default();
    let entries = service.core.copy.log.above(have);
    let entries = entries.filter(|entry| entry.changes_object() && entry.object == *object);
    for entry in entries.take_while(|entry| entry.version <= need) {
        let is_overwritten =
            entry.kind == EntryKind::Modify && entry.prior_version > EVersion::ZERO;
        let change = entry.shards.as_ref().filter(|_| is_overwritten)?;
        let is_written = change.written.contains(target.shard);
        for (offset, length) in change.rows.iter().filter(|_| is_written) {
            offset.checked_add(*length).filter(|end| *end <= CHANGED_END_MAX)?;
            rows.extend(&RowSet::of_bytes(*offset, *length));
        }
    }
    let max = service.core.own.sizes.piece_data_max;
    (rows.len() * ROW <= max && rows.ranges().count() <= ROWS_RANGES_MAX).then_some((have, rows))
}

/// The members from which shards can be decoded: those that have the object, then those that may have it.
fn rebuild_sources(
    service: &Service<'_>,
    object: &HObject,
    need: EVersion,
    targets: &[Member],
) -> Vec<Member> {
    let mut sources = shard_sources(service, object, need);
    sources.extend(service.view().possible_sources(object, need));
    sources.retain(|source| !targets.contains(source));
    sources
}

/// The rows of one piece of a shard.
fn piece_rows(sizes: &Sizes, from: u64) -> Range<u64> {
    let first = from / ROW;
    first..first + (sizes.piece_data_max / ROW).max(1)
}

/// Reads the next piece of the shards that are rebuilt.
fn read_piece(service: &mut Service<'_>, object: &HObject) {
    let Some(operation) = service.serving.recovery.active.get_mut(object) else { return };
    let Some(rebuild) = &mut operation.rebuild else { return };
    rebuild.is_reading = true;
    let (need, from, with_attrs) = (rebuild.need, rebuild.next, rebuild.info.is_none());
    let targets: Vec<Member> = operation.pushing.keys().copied().collect();
    let changed = rebuild.changed.clone();
    let piece = RowSet::of(piece_rows(&service.core.own.sizes, from));
    let mut wanted: BTreeMap<usize, RowSet> = BTreeMap::new();
    for target in &targets {
        // A member that acts and one that is backfilled may have the same position.
        let position = target.shard.position().expect("a member has a shard");
        let rows = changed.get(target).map_or(&piece, |(_, rows)| rows);
        wanted.entry(position).or_default().extend(rows);
    }
    let request = RowRequest {
        purpose: Purpose::Recovery,
        object: object.clone(),
        wanted,
        sources: rebuild_sources(service, object, need, &targets),
        versions: Versions::Same(need),
        with_attrs,
    };
    note_strays(service);
    rows::begin(service.core, request);
}

/// Rows of shards that are rebuilt were read.
pub fn rebuilt_rows(
    service: &mut Service<'_>,
    object: &HObject,
    outcome: Result<Content, Failed>,
    bad: &[Member],
) {
    let Some(operation) = service.serving.recovery.active.get_mut(object) else { return };
    let Some(rebuild) = &mut operation.rebuild else { return };
    rebuild.is_reading = false;
    match outcome.map(|content| rebuild.take(content)) {
        Ok(Some(content)) => give_piece(service, object, &content),
        Ok(None) => rebuild_failed(service, object, Failed::TooFew, bad),
        Err(failed) => rebuild_failed(service, object, failed, bad),
    }
}

/// Gives each member the piece that was read.
fn give_piece(service: &mut Service<'_>, object: &HObject, content: &Content) {
    let geometry = service.core.placement.geometry().expect("the members keep shards");
    let operation = service.serving.recovery.active.get_mut(object).expect("the caller found it");
    let rebuild = operation.rebuild.as_mut().expect("the caller found it");
    let info = rebuild.info.clone().expect("it came with the first piece");
    let rows = piece_rows(&service.core.own.sizes, rebuild.next);
    let (start, end) = (rows.start * ROW, rows.end * ROW);
    let (mut pushes, mut changes) = (Vec::new(), Vec::new());
    for (target, sent) in &mut operation.pushing {
        let position = target.shard.position().expect("a member has a shard");
        let size = geometry.shard_len(info.size, position);
        if let Some((base, rows)) = rebuild.changed.remove(target) {
            *sent = Sent::Piece(None);
            // Rows behind the end of the object have not changed.
            let rows = rows.ranges().map(|rows| rows.start..rows.end.min(size / ROW));
            let rows: Vec<_> = rows.filter(|rows| rows.start < rows.end).collect();
            let data = rows.iter().map(|rows| content.rows(position, rows.clone())).collect();
            let ranges = rows.iter().map(|rows| (rows.start * ROW, (rows.end - rows.start) * ROW));
            let (object, attrs) = (object.clone(), rebuild.attrs.clone());
            let push = PushRows { object, base, attrs, ranges: ranges.collect(), data };
            changes.push((*target, push));
            continue;
        }
        let length = size.min(end).saturating_sub(start);
        let data = match length {
            0 => bytes::Bytes::new(),
            _ => content.rows(position, rows.clone()).slice(..length as usize),
        };
        let mut attrs = rebuild.attrs.clone();
        if start > 0 {
            attrs.retain(|name, _| *name == INFO_ATTR);
        }
        let next = (end < size).then_some(Cursor { data_offset: end, omap_after: None });
        let cursor = Cursor { data_offset: start, omap_after: None };
        *sent = Sent::Piece(next.clone());
        let object = object.clone();
        let push = Push { object, cursor, attrs: Some(attrs), size, data, next, ..Push::default() };
        pushes.push((*target, push));
    }
    rebuild.next = end;
    pushes.into_iter().for_each(|(target, push)| give(service, target, push));
    changes.into_iter().for_each(|(target, push)| give_rows(service, target, push));
}

/// Gives a member a piece of its shard, behind the changes that are committed.
fn give(service: &mut Service<'_>, target: Member, push: Push) {
    settle_member(service.core, target);
    match target == service.core.own.whoami {
        true => transfers::receive(service.core, target, push, Receiver::Primary),
        false => service.core.send(target, &Body::Push(Box::new(push))),
    }
}

/// Gives a member changed rows of its shard, likewise.
fn give_rows(service: &mut Service<'_>, target: Member, push: PushRows) {
    settle_member(service.core, target);
    let committed = committed_shards(service.core);
    match target == service.core.own.whoami {
        true => transfers::receive_rows(service.core, target, push, committed),
        false => service.core.send(target, &Body::PushRows(Box::new(push))),
    }
}

/// A member has stored its piece, and there are more: reads the next one when all have.
pub fn piece_given(service: &mut Service<'_>, object: &HObject, from: Member, next: &Cursor) {
    let Some(operation) = service.serving.recovery.active.get_mut(object) else { return };
    let Some(rebuild) = &mut operation.rebuild else { return };
    if next.is_start() {
        // The member has another version than was thought. All begin again, with whole shards.
        *rebuild = Rebuild { need: rebuild.need, ..Rebuild::default() };
        operation.pushing.values_mut().for_each(|sent| *sent = Sent::Nothing);
        service.core.rows.stop(&Purpose::Recovery, object);
        return read_piece(service, object);
    }
    operation.pushing.insert(from, Sent::Nothing);
    read_piece_if_given(service, object);
}

/// Reads the next piece unless a member has not stored the present one.
pub fn read_piece_if_given(service: &mut Service<'_>, object: &HObject) {
    let Some(operation) = service.serving.recovery.active.get(object) else { return };
    let is_reading = operation.rebuild.as_ref().is_none_or(|rebuild| rebuild.is_reading);
    let mut sent = operation.pushing.values();
    if !is_reading && sent.all(|sent| *sent == Sent::Nothing) {
        read_piece(service, object);
    }
}

/// Too few shards could be read: leaves out those that are bad, and tries again.
fn rebuild_failed(service: &mut Service<'_>, object: &HObject, failed: Failed, bad: &[Member]) {
    let need = service.serving.recovery.active[object].rebuild.as_ref().map(|rebuild| rebuild.need);
    let targets = service.give_up_pushing(object);
    let is_owed = |target: &Member| {
        *target == service.core.own.whoami || service.known.is_missing_on(*target, object)
    };
    if failed == Failed::Absent && !targets.iter().any(is_owed) {
        return give_absence(service, object, targets.into_iter().collect());
    }
    let need = need.unwrap_or_default().max(service.core.copy.logged_version(object));
    let item = Item { need, have: EVersion::ZERO };
    for target in targets {
        // A backfill target gets it like an object that it misses.
        if target != service.core.own.whoami && !service.known.is_missing_on(target, object) {
            service.miss_on_member(target, object, item);
        }
    }
    if leave_out(service, object, need, bad) && service.start_recovery(object) {
        return;
    }
    match service.core.copy.missing.contains(object) {
        true => {
            service.serving.recovery.wanted.insert(object.clone());
            service.look_for_unfound_object(object);
        }
        false => service.give_up(object.clone(), need),
    }
}

/// These members' shards of an object are not used until they are rebuilt. False if our own is one of them,
/// and too few others are left to replace it: it stays as it is.
fn leave_out(service: &mut Service<'_>, object: &HObject, need: EVersion, bad: &[Member]) -> bool {
    let item = Item { need, have: EVersion::ZERO };
    let mut is_left = true;
    for member in bad.iter().copied() {
        if member == service.core.own.whoami {
            is_left = has_other_shards(service, object, need, bad);
            if is_left {
                service.serving.is_clean = false;
                service.miss_own(object, need);
            }
        } else if !service.known.is_missing_on(member, object) {
            // It may be one of the last shards, and readable later: its OSD marks it missing only when it
            // is replaced.
            service.serving.recovery.spared.insert((member, object.clone()));
            service.miss_on_member(member, object, item);
        }
    }
    is_left
}

/// The object does not exist any more: backfill targets remove theirs.
fn give_absence(service: &mut Service<'_>, object: &HObject, targets: Vec<Member>) {
    let pushing = targets.iter().map(|target| (*target, Sent::Piece(None))).collect();
    let operation = Operation { pulling: None, pushing, rebuild: Some(Rebuild::default()) };
    service.serving.recovery.begin_one(object, operation);
    for target in targets {
        give(service, target, Push { object: object.clone(), ..Push::default() });
    }
}

impl Rebuild {
    /// Notes the object's attributes, which come with the first piece; `None` if they do not decode.
    fn take(&mut self, mut content: Content) -> Option<Content> {
        if let Some(attrs) = content.attrs.take() {
            let info = codec::decode_all::<ObjectInfo>("info", attrs.get(&INFO_ATTR)?).ok()?;
            // Later pieces are of the same version.
            self.need = content.version;
            (self.info, self.attrs) = (Some(Box::new(info)), attrs);
        }
        self.info.is_some().then_some(content)
    }
}
