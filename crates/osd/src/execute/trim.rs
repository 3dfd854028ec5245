//! Removal of trimmed snapshots from an object's clones, and of clones that have no snapshot left.

use super::context::{CloneChanges, Execution, StatDelta};
use super::view::ObjectState;
use maps::SnapIntervals;
use pg::snaps::{SNAPSET_ATTR, SnapSet};
use pg::{AlsoWritten, EntryKind, INFO_ATTR, ObjectInfo};
use std::collections::BTreeMap;
use store::Change;
use types::{EVersion, HObject, SnapId};

/// All inputs for trimming a clone that the index has under a removed snapshot.
#[derive(Debug)]
pub struct Trim<'a> {
    pub head: &'a HObject,
    pub state: &'a ObjectState,
    pub clone: SnapId,
    pub snap: SnapId,
    /// Snapshots whose removal has begun; all of them are removed from the clone at once.
    pub removed: &'a SnapIntervals,
    /// The version for the first change.
    pub version: EVersion,
}

/// Trims a clone. If it does not exist any more, or does not have the snapshot, only the index changes.
pub fn trim(input: &Trim<'_>) -> Execution {
    let Trim { head, state, snap, .. } = *input;
    let name = head.at(input.clone);
    let mut clones = CloneChanges::default();
    clones.unindexed.push((snap, name.clone()));
    let mut execution =
        Execution { exists: state.exists, info: state.info.clone(), ..Execution::default() };
    let shows =
        |set: &SnapSet| set.clone_of(input.clone).is_some_and(|clone| clone.snaps.contains(&snap));
    if let Some(set) = state.snaps.as_deref().filter(|set| shows(set)) {
        let is_gone = |other: SnapId| other == snap || input.removed.contains(other);
        let clone = set.clone_of(input.clone).expect("it shows the snapshot");
        let others = clone.snaps.iter().filter(|other| **other != snap && is_gone(**other));
        clones.unindexed.extend(others.map(|other| (*other, name.clone())));
        let mut after = set.clone();
        if let Some(gone) = after.forget(input.clone, is_gone) {
            execution.changes.push(Change::Remove { object: name.clone() });
            let (kind, prior_version) = (EntryKind::Delete, gone.version);
            clones.written.push(AlsoWritten { object: name, kind, prior_version });
        }
        let removed = clones.written.len() as i64;
        let bytes = after.clone_bytes() as i64 - set.clone_bytes() as i64;
        execution.delta = StatDelta { objects: -removed, clones: -removed, bytes };
        let version = EVersion { version: input.version.version + removed as u64, ..input.version };
        seal(&mut execution, head, after, version);
    }
    execution.clones = Some(Box::new(clones));
    execution
}

/// Stores the snapset in the head; a whiteout is removed with the last of its clones.
fn seal(execution: &mut Execution, head: &HObject, set: SnapSet, version: EVersion) {
    let object = head.clone();
    if !execution.exists && set.clones.is_empty() {
        let user_version = execution.info.user_version;
        execution.info = ObjectInfo { user_version, ..ObjectInfo::default() };
        return execution.changes.push(Change::Remove { object });
    }
    let info = &mut execution.info;
    info.prior_version = std::mem::replace(&mut info.version, version);
    let attrs = BTreeMap::from([
        (INFO_ATTR, codec::encode_to_bytes(info)),
        (SNAPSET_ATTR, codec::encode_to_bytes(&set)),
    ]);
    execution.changes.push(Change::SetAttrs { object, attrs });
    execution.snaps = Some(Box::new(set));
}
