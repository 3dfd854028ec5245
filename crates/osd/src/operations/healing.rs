//! Reads of damaged objects: the object is recovered from another member, and its readers wait.

use crate::execute::Need;
use crate::operations::keys::ObjectKey;
use crate::operations::request::Request;
use crate::operations::service::Service;
use crate::operations::shard_reads::NeedOf;
use crate::operations::state::load;
use crate::work::Work;
use pg::snaps::At;
use types::{EVersion, HObject};

/// Repeats a failed read once per request, so that a transient error does not make this OSD
/// give up copy after copy. True if it does.
pub(super) fn read_again(s: &mut Service<'_>, key: u64, attempt: u32, need: &Need) -> bool {
    let is_first = |request: &&mut Request| request.attempt == attempt && !request.is_reread;
    let Some(request) = s.ops.requests.get_mut(key).filter(is_first) else {
        return false;
    };
    request.is_reread = true;
    let object = match request.at {
        Some(At::Clone(id)) => HObject::head_of(request.object()).at(id),
        _ => HObject::head_of(request.object()),
    };
    let part = NeedOf { request: key, attempt, need: need.clone() };
    load(s, &object, part).is_ok()
}

/// Handles a failed read of a request's object: true if the request restarts when the object is
/// recovered.
pub(super) fn heal(s: &mut Service<'_>, key: u64, attempt: u32) -> bool {
    let Some(request) = s.ops.requests.get(key) else { return true };
    if request.attempt != attempt {
        return true;
    }
    let whoami = s.group.pg.whoami();
    let Some((head, object, version)) = object_read(s, key) else { return false };
    let pg = s.group.id;
    if !s.group.pg.missing().contains(&object) {
        if s.group.pg.mark_corrupt(&object, version, &[whoami]) {
            s.cx.work.push(Work::Repaired(pg));
        } else if !s.group.pg.cannot_read(&object, version) {
            s.cx.work.push(Work::Group(pg));
            return false;
        }
    }
    tracing::error!(%pg, %object, "a read met damage; the object comes from another copy");
    s.ops.restart_readers(head);
    s.cx.work.push(Work::Group(pg));
    s.cx.work.push(Work::Object(head));
    true
}

/// Handles an object of which too few shards can be read: true if the request restarts when there are more.
pub(super) fn heal_shards(s: &mut Service<'_>, key: u64, attempt: u32) -> bool {
    if s.ops.requests.get(key).is_none_or(|request| request.attempt != attempt) {
        return true;
    }
    let Some((head, object, version)) = object_read(s, key) else { return false };
    if !s.group.pg.missing().contains(&object) && !s.group.pg.cannot_read(&object, version) {
        s.cx.work.push(Work::Group(s.group.id));
        return false;
    }
    s.ops.restart_readers(head);
    s.cx.work.push(Work::Group(s.group.id));
    s.cx.work.push(Work::Object(head));
    true
}

/// The object or clone that a request reads, with its version and the key of its head; `None` if this OSD is
/// not the primary.
fn object_read(s: &Service<'_>, key: u64) -> Option<(ObjectKey, HObject, EVersion)> {
    let at = s.ops.requests.get(key).filter(|_| s.group.pg.is_primary())?.at;
    let head = s.object_of(key)?;
    let context = s.ops.contexts.get(head)?;
    let state = context.state.as_ref()?;
    // The cached state of the clone may be of another one by now.
    let (object, version) = match at {
        Some(At::Clone(id)) => {
            let clone = state.snaps.as_deref().and_then(|set| set.clone_of(id));
            (context.name.at(id), clone.map(|clone| clone.version))
        }
        _ => (context.name.clone(), Some(state.info.version)),
    };
    Some((head, object, version?))
}

/// Replaces the own copy of an object that the store could not change for damage: true if there is
/// another copy, and the write waits for it.
pub(super) fn heal_refused(s: &mut Service<'_>, object: ObjectKey, key: u64) -> bool {
    let (pg, whoami) = (s.group.id, s.group.pg.whoami());
    let Some(context) = s.ops.contexts.get(object) else { return false };
    let Some(state) = context.state.as_ref() else { return false };
    let object = &context.name;
    if !s.group.pg.mark_corrupt(object, state.info.version, &[whoami]) {
        return false;
    }
    tracing::error!(%pg, %object, "a write met damage; the object comes from another copy");
    s.cx.work.push(Work::Repaired(pg));
    let request = s.ops.requests.get_mut(key).expect("the caller has it");
    request.refused.as_mut().expect("its store refused it").is_healed = true;
    true
}

/// Resumes the requests for an object that was recovered, or turned out to be lost.
pub(crate) fn recovered(s: &mut Service<'_>, object: &HObject) {
    let Some(key) = s.group.queues.find(&HObject::head_of(object)) else { return };
    // The assumed state of a lost object may be wrong.
    s.ops.contexts.get_mut(key).expect("it was just found").forget_state();
    s.cx.work.push(Work::Object(key));
}

/// Handles an object whose metadata cannot be read, so that even its version is unknown: true
/// if it is recovered from another copy, and its requests wait.
pub(super) fn heal_state(s: &mut Service<'_>, key: ObjectKey) -> bool {
    let whoami = s.group.pg.whoami();
    let Some(context) = s.ops.contexts.get(key) else { return false };
    let (pg, object) = (&mut *s.group.pg, &context.name);
    // A lost object has no other copy.
    if !pg.is_primary() || pg.is_lost(object) {
        return false;
    }
    // It is being recovered already, or waits for a member that is down: its requests continue
    // when it is there. Loading it earlier would fail again and again.
    if pg.missing().contains(object) {
        return true;
    }
    let version = pg.logged_version(object);
    if !pg.mark_corrupt(object, version, &[whoami]) && !pg.cannot_read(object, version) {
        return false;
    }
    s.cx.work.push(Work::Group(s.group.id));
    s.cx.work.push(Work::Object(key));
    true
}
