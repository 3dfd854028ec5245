//! The clones that a request reads: they are found, loaded, or recovered first.

use crate::execute::{Answer, Need};
use crate::operations::keys::ObjectKey;
use crate::operations::object::Progress;
use crate::operations::service::Service;
use crate::operations::shard_reads::NeedOf;
use crate::operations::state;
use pg::snaps::At;
use types::{Errno, HObject, SnapId};
use wire::op::OpCode;

/// Finds the clones that a request reads, and loads or recovers them. `Some` if the request cannot
/// run yet.
pub(super) fn find(s: &mut Service<'_>, object: ObjectKey, key: u64) -> Option<Progress> {
    let request = s.ops.requests.get(key).expect("the caller has it");
    let context = s.ops.contexts.get(object).expect("its request runs");
    let head = &context.name;
    let state = context.state.as_ref().expect("it is loaded before");
    let set = state.snaps.as_deref();
    let snapshots = s.group.snapshots.of_request(request, &[]);
    if request.op_flags.rolls_back {
        let ops = request.message.ops.iter().filter(|op| op.code == OpCode::ROLLBACK);
        let mut clones = ops.filter_map(|op| match snapshots.find(set, op.snap()) {
            At::Clone(id) => Some(head.at(id)),
            _ => None,
        });
        let lacking = clones.find(|clone| s.group.pg.is_blocked(clone, true, false))?;
        return Some(wait_for(s, object, key, &lacking));
    }
    let at = snapshots.find(set, request.object().snap);
    let cached = context.clone.as_ref().map(|(id, _)| *id);
    let request = s.ops.requests.get_mut(key).expect("it was just there");
    request.at = Some(at);
    let At::Clone(id) = at else { return None };
    let clone = head.at(id);
    let is_absent = s.group.pg.is_blocked(&clone, false, false);
    if is_absent && s.group.pg.is_primary() {
        return Some(wait_for(s, object, key, &clone));
    }
    if is_absent {
        return Some(s.reject(object, key, Errno::AGAIN));
    }
    if cached == Some(id) {
        return None;
    }
    load(s, object, key, id, &clone)
}

/// Makes a request wait for a clone that is not here; it fails if the clone is lost.
fn wait_for(s: &mut Service<'_>, object: ObjectKey, key: u64, clone: &HObject) -> Progress {
    if s.group.pg.is_lost(clone) {
        return s.reject(object, key, Errno::IO);
    }
    s.group.pg.want_object(clone);
    Progress::Blocked
}

/// Puts the state of a clone into its object's context, or loads it.
fn load(
    s: &mut Service<'_>,
    object: ObjectKey,
    key: u64,
    id: SnapId,
    clone: &HObject,
) -> Option<Progress> {
    assert_eq!(clone.snap, id, "the clone is the one to load");
    let need = Need::Clone(id);
    let request = s.ops.requests.get(key).expect("the caller has it");
    match request.loaded.find(&need) {
        Some(Answer::Clone(state)) => {
            let state = state.clone();
            let context = s.ops.contexts.get_mut(object).expect("its request runs");
            context.clone = Some((id, state));
            None
        }
        Some(_) => {
            let errno = s.unreadable_errno(Errno::IO);
            Some(s.reject(object, key, errno))
        }
        None => {
            s.ops.mark_begun(object, key);
            let request = s.ops.requests.get_mut(key).expect("it was just there");
            request.outstanding = 1;
            let part = NeedOf { request: key, attempt: request.attempt, need };
            state::load(s, clone, part).expect("a clone is no copy");
            Some(Progress::Begun)
        }
    }
}
