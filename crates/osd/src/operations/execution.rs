//! The execution of a request on the state of its object.

use crate::execute::{ExecuteOutcome, Input, ObjectState, PoolRules, Trim, execute, trim};
use crate::operations::keys::ObjectKey;
use crate::operations::lost_object::{remove_clone, replaced};
use crate::operations::request::Origin;
use crate::operations::service::Service;
use pg::WatcherKey;
use pg::snaps::At;
use types::SnapId;

/// Executes a request; `is_lost` says that its object was given up.
pub(super) fn execute_request(
    s: &Service<'_>,
    object: ObjectKey,
    key: u64,
    is_lost: bool,
) -> ExecuteOutcome {
    let (group, now) = (&s.group, s.cx.env.now.wall());
    let request = s.ops.requests.get(key).expect("the caller has it");
    let context = s.ops.contexts.get(object).expect("the caller has it");
    let object = &context.name;
    let head = context.state.as_ref().expect("it is loaded before");
    let version = group.pg.next_version();
    if let Origin::SnapTrim { snap, clone } = request.origin {
        let removed = &*group.snapshots.removed;
        let input = Trim { head: object, state: head, clone, snap, removed, version };
        return ExecuteOutcome::Done(Box::new(trim(&input)));
    }
    if let Origin::Lost { clone, .. } = request.origin
        && clone != SnapId::HEAD
    {
        return ExecuteOutcome::Done(Box::new(remove_clone(object, head, clone, group.pg)));
    }
    let (absent, target);
    let (name, state) = match request.at {
        None => (request.object(), head),
        Some(At::Head) => (object, head),
        Some(At::Clone(id)) => {
            target = object.at(id);
            (&target, &*context.clone.as_ref().expect("it was loaded before").1)
        }
        Some(At::Nowhere) => {
            absent = ObjectState::default();
            (object, &absent)
        }
    };
    let snaps = group.snapshots.to_preserve(request);
    let watches = group.watches.of(object);
    let is_connected = |key: &WatcherKey| {
        watches.and_then(|watches| watches.get(key)).is_some_and(|watch| watch.is_connected())
    };
    let replacing = (is_lost && request.replaces_object()).then(|| request.as_replacement());
    let layout = group.pg.members().layout;
    let pool = PoolRules::of(layout, || s.cx.map.pool(group.id.pg.pool));
    let executed = execute(&Input {
        object: name,
        ops: replacing.as_ref().map_or(&request.message.ops, |(ops, _)| ops),
        pool,
        may_write: request.may_write(),
        state,
        loaded: &request.loaded,
        caller: &request.caller,
        now,
        mtime: request.message.mtime,
        version,
        last_user_version: group.pg.info().last_user_version,
        snapshots: group.snapshots.of_request(request, &snaps),
        notify_id: s.watches.next_id(s.cx.map.epoch),
        allowance: request.memory.reserved,
        is_connected: &is_connected,
    });
    match (executed, replacing) {
        (ExecuteOutcome::Done(execution), Some((_, is_removed_before))) => {
            ExecuteOutcome::Done(replaced(execution, name, is_removed_before))
        }
        (executed, _) => executed,
    }
}
