//! Snapshots as operations see them: preserving the object before it changes, listing its clones, going
//! back to one.

use super::context::{AttrDelta, CloneChanges, Context, Stop};
use super::{Answer, Need, ObjectState};
use maps::SnapIntervals;
use pg::snaps::{At, Extents, SNAPSET_ATTR, SnapSet};
use pg::{AlsoWritten, EntryKind, INFO_ATTR, ObjectInfo, user_attr};
use std::collections::BTreeMap;
use store::Change;
use types::{EVersion, Errno, SnapId};
use wire::OsdOp;
use wire::snapshots::{CloneInfo, SnapListing};

/// What a request knows of snapshots.
#[derive(Debug, Clone, Copy, Default)]
pub struct Snapshots<'a> {
    /// The newest that its writer knows of, and those that are to be preserved, newest first.
    pub seq: SnapId,
    pub snaps: &'a [SnapId],
    /// The write is to fail if the object knows of a newer one.
    pub is_ordered: bool,
    /// Those of the pool whose removal has begun.
    pub removed: Option<&'a SnapIntervals>,
}

impl Snapshots<'_> {
    /// Where the state of an object at a snapshot is.
    pub fn find(&self, set: Option<&SnapSet>, snap: SnapId) -> At {
        match set.map_or(At::Head, |set| set.at(snap)) {
            At::Clone(_) if self.removed.is_some_and(|removed| removed.contains(snap)) => {
                At::Nowhere
            }
            at => at,
        }
    }
}

impl Context<'_> {
    pub(super) fn list_snaps(&mut self) -> Result<i32, Stop> {
        let nothing = SnapSet::default();
        let set = self.input.state.snaps.as_deref().unwrap_or(&nothing);
        let clones = set.clones.iter().map(|clone| CloneInfo {
            clone: clone.id,
            snaps: clone.snaps.iter().rev().copied().collect(),
            overlap: clone.overlap.to_vec(),
            size: clone.size,
        });
        let head = CloneInfo { clone: SnapId::HEAD, size: self.info.size, ..CloneInfo::default() };
        let clones = clones.chain(self.exists.then_some(head)).collect();
        self.output = codec::encode_to_bytes(&SnapListing { clones, seq: set.seq });
        Ok(0)
    }

    /// Before a write takes effect: makes a clone if a snapshot wants the object as it was, and notes
    /// what the newest clone no longer has in common with the head.
    pub(super) fn preserve(&mut self) {
        let (state, snapshots) = (self.input.state, self.input.snapshots);
        let mut set = state.snaps.as_deref().cloned().unwrap_or_default();
        let wanted = set.to_preserve(snapshots.snaps).to_vec();
        if state.exists && !wanted.is_empty() {
            self.make_clone(&mut set, &wanted);
        }
        self.note_modified(&mut set);
        set.seq = set.seq.max(snapshots.seq);
        // Where the head was replaced, its attributes went as well.
        let object = self.input.object;
        let is_replaced = |change: &Change| match change {
            Change::Remove { object: removed } => removed == object,
            Change::Clone { target, .. } => target == object,
            _ => false,
        };
        if state.snaps.as_deref() != Some(&set) || self.changes.iter().any(is_replaced) {
            self.snaps = Some(Box::new(set));
        }
    }

    fn make_clone(&mut self, set: &mut SnapSet, snaps: &[SnapId]) {
        let (state, version) = (self.input.state, self.input.version);
        let (head, id) = (self.input.object, self.input.snapshots.seq);
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
        self.changes.splice(0..0, changes);
        let indexed = snaps.iter().map(|snap| (*snap, clone.clone())).collect();
        let prior_version = EVersion::ZERO;
        let written = AlsoWritten { object: clone, kind: EntryKind::Modify, prior_version };
        let clones = CloneChanges { written: vec![written], indexed, ..CloneChanges::default() };
        self.clones = Some(Box::new(clones));
    }

    fn note_modified(&self, set: &mut SnapSet) {
        if set.clones.is_empty() {
            return;
        }
        let head = self.input.object;
        for change in self.changes.iter().filter(|change| change.object() == Some(head)) {
            match change {
                Change::Write { offset, data, .. } => {
                    set.modified(*offset, offset.saturating_add(data.len() as u64));
                }
                Change::Zero { offset, length, .. } => {
                    set.modified(*offset, offset.saturating_add(*length));
                }
                Change::Truncate { size, .. } => {
                    set.modified(*size, u64::MAX);
                }
                Change::Remove { .. } => {
                    set.modified(0, u64::MAX);
                }
                Change::Clone { .. } => {
                    let kept = self.kept.clone().unwrap_or_default();
                    let gone = kept.gaps(u64::MAX);
                    for (at, length) in gone.iter() {
                        set.modified(at, at + length);
                    }
                }
                _ => {}
            }
        }
    }

    /// Makes the object what it was at a snapshot.
    pub(super) fn roll_back(&mut self, op: &OsdOp) -> Result<i32, Stop> {
        let set = self.input.state.snaps.as_deref();
        match self.input.snapshots.find(set, op.snap()) {
            // It has not changed since; if it does not exist, it did not then.
            At::Head if self.exists => self.touch(),
            At::Head => Ok(0),
            At::Clone(id) => match self.load(Need::Clone(id))? {
                Answer::Clone(clone) => {
                    let clone: &ObjectState = clone;
                    let kept = set.map_or(Extents::default(), |set| set.shared_with_head(id));
                    self.become_clone(id, clone, kept)
                }
                other => unreachable!("a clone was answered by {other:?}"),
            },
            At::Nowhere if !self.info.watchers.is_empty() => Err(Errno::BUSY.into()),
            At::Nowhere if self.exists => self.delete(),
            At::Nowhere => Ok(0),
        }
    }

    fn become_clone(
        &mut self,
        id: SnapId,
        clone: &ObjectState,
        kept: Extents,
    ) -> Result<i32, Stop> {
        let (head, object) = (self.input.object.clone(), self.input.object.at(id));
        self.changes.push(Change::Clone { object, target: head });
        // Data that is not there was not written over before this request.
        self.kept = self.input.state.exists.then_some(kept);
        self.exists = true;
        self.stored_attrs.clear();
        self.attrs.push(AttrDelta::Clear);
        for (name, value) in &clone.xattrs {
            self.stored_attrs.insert(user_attr(name), value.clone());
            self.attrs.push(AttrDelta::Set(name.clone(), value.clone()));
        }
        self.info.size = clone.info.size;
        self.info.has_omap = clone.info.has_omap;
        self.touched = true;
        Ok(0)
    }
}
