//! Objects of which no copy is left: operations that are still possible.
//!
//! A lost object ([`pg::Pg::is_lost`]) cannot be read. But a request that removes it, or defines all of it
//! anew, depends on no earlier state. (`write_full` does so only for an object that is known to have had
//! neither xattrs nor an omap.) Such a request runs as if the object had been removed just before, in the
//! same transaction, so that no remains of the damaged copies are left anywhere.
//!
//! This must not lose the list of clones that the head has. The list is known if this copy's
//! metadata have the right version, or if the group surely has no clones.

use crate::execute::{CloneChanges, Execution, ObjectState, StatDelta, Trim, trim};
use crate::operations::request::Request;
use maps::SnapIntervals;
use pg::snaps::At;
use pg::{AlsoWritten, EntryKind, INFO_ATTR, ObjectInfo, Pg};
use std::collections::BTreeMap;
use store::Change;
use types::{EVersion, Errno, HObject, SnapId};

/// The state that can be assumed for a lost object, from what our own store has under its name.
/// `EIO` if its clones are not known.
pub(crate) fn lost_state(
    stored: Result<ObjectState, Errno>,
    need: EVersion,
    may_have_clones: bool,
) -> Result<ObjectState, Errno> {
    match stored {
        Ok(state) if state.info.version == need && need != EVersion::ZERO => Ok(state),
        _ if may_have_clones => Err(Errno::IO),
        _ => {
            let info = ObjectInfo { version: need, ..ObjectInfo::default() };
            Ok(ObjectState { exists: true, info, is_guess: true, ..ObjectState::default() })
        }
    }
}

/// Makes a write remove the remains of a lost object first. `is_removed_before` says that a removal
/// was added in front of the client's operations.
pub(crate) fn replaced(
    mut execution: Box<Execution>,
    object: &HObject,
    is_removed_before: bool,
) -> Box<Execution> {
    if is_removed_before && !execution.outputs.is_empty() {
        // The client did not send the added removal.
        execution.outputs.remove(0);
    }
    let removal = Change::Remove { object: object.clone() };
    if execution.modifies() && execution.changes.first() != Some(&removal) {
        execution.changes.insert(0, removal);
    }
    execution
}

/// Removes a clone, and its entries in its head and the index.
pub(crate) fn remove_clone(
    object: &HObject,
    head: &ObjectState,
    clone: SnapId,
    pg: &Pg,
) -> Execution {
    let known = head.snaps.as_deref().and_then(|set| set.clone_of(clone));
    let version = pg.next_version();
    if let Some(known) = known
        && let Some(snap) = known.snaps.first().copied()
    {
        let mut removed = SnapIntervals::default();
        known.snaps.iter().for_each(|snap| removed.insert(*snap));
        return trim(&Trim { head: object, state: head, clone, snap, removed: &removed, version });
    }
    // The head does not list it. The entry of the write is the head's all the same, which must have its
    // version in the store, too.
    let name = object.at(clone);
    let prior_version = pg.unfound_item(&name).need;
    let written = AlsoWritten { object: name.clone(), kind: EntryKind::Delete, prior_version };
    let mut execution = Execution {
        exists: head.exists,
        info: head.info.clone(),
        changes: vec![Change::Remove { object: name }],
        delta: StatDelta { objects: -1, clones: -1, bytes: 0 },
        clones: Some(Box::new(CloneChanges { written: vec![written], ..CloneChanges::default() })),
        ..Execution::default()
    };
    if head.exists || head.info.is_whiteout {
        let info = &mut execution.info;
        let version = EVersion { version: version.version + 1, ..version };
        info.prior_version = std::mem::replace(&mut info.version, version);
        let attrs = BTreeMap::from([(INFO_ATTR, codec::encode_to_bytes(info))]);
        execution.changes.push(Change::SetAttrs { object: object.clone(), attrs });
    }
    execution
}

/// Whether an object is lost and not all members have a copy that could be written to.
pub(super) fn is_given_up(object: &HObject, pg: &Pg) -> bool {
    !pg.is_whole() && pg.is_primary() && pg.lost_version(object).is_some()
}

/// Whether a request needs the state of its lost head, not of one of its clones. Objects that
/// were not given up are read where they can be.
pub(super) fn needs_lost_head(request: &Request, pg: &Pg) -> bool {
    !pg.is_unreadable(&HObject::head_of(request.object()))
        && !request.replaces_object()
        && !matches!(request.at, Some(At::Clone(_) | At::Nowhere))
}
