//! Outcomes of requests: effects on watches, replies to writes that are durable, and to repeated requests.

use crate::execute::Execution;
use crate::operations::request::Origin;
use crate::operations::service::Service;
use crate::watches::{Sender, Watched};
use crate::work::Work;
use pg::WatcherKey;
use types::HObject;
use wire::op::OpCode;

/// Performs the effects of an execution on watches and notifications, once it is durable.
pub(super) fn perform_effects(s: &mut Service<'_>, key: u64, execution: &Execution) {
    if execution.effects.is_empty() {
        return;
    }
    let request = s.ops.requests.get(key).expect("the caller has it");
    let conn = match request.origin {
        Origin::Client { conn } => Some(conn),
        _ => None,
    };
    let ends_watch = request.origin == Origin::WatchTimeout;
    let by = Sender { conn, client: request.caller.request.name, ends_watch };
    let object = &HObject::head_of(request.object());
    let group = &mut Watched { pg: s.group.id, watches: s.group.watches };
    s.watches.perform(&mut s.cx, group, object, by, execution);
}

/// Repeats the effects on watches of a request that was executed before.
fn repeat_watches(s: &mut Service<'_>, key: u64) {
    let Some(request) = s.ops.requests.get(key) else { return };
    let Origin::Client { conn } = request.origin else { return };
    let object = HObject::head_of(request.object());
    let name = request.caller.request.name;
    let context = s.group.queues.find(&object).and_then(|context| s.ops.contexts.get(context));
    let Some(state) = context.and_then(|context| context.state.as_ref()) else { return };
    let group = &mut Watched { pg: s.group.id, watches: s.group.watches };
    for op in request.message.ops.iter().filter(|op| op.code == OpCode::WATCH) {
        let asked = op.watch_arguments();
        let watcher = WatcherKey { cookie: asked.cookie, name };
        let stored = state.info.watchers.get(&watcher).copied();
        s.watches.repeat(&mut s.cx, group, &object, (watcher, stored), conn, &asked);
    }
}

/// Answers a request that was executed before with its first result; true if it was, even if
/// the reply follows only when that write is durable.
pub(super) fn answer_repeated(s: &mut Service<'_>, key: u64) -> bool {
    let request = s.ops.requests.get(key).expect("the caller has it");
    let Origin::Client { .. } = request.origin else { return false };
    let Some(known) = s.group.pg.log().find_request(&request.id) else { return false };
    if known.version > s.group.pg.committed() {
        s.group.queues.repeated.entry(known.version).or_default().push(key);
        return true;
    }
    repeat_watches(s, key);
    s.ops.reply_again(&mut s.cx, key, &known);
    true
}

/// Replies to a write that is durable on all members.
pub(crate) fn committed(s: &mut Service<'_>, key: u64) {
    let Some(request) = s.ops.requests.get_mut(key) else { return };
    assert_eq!(request.pg, s.group.id, "a write is of its group");
    let (execution, version) = request.outcome.take().expect("a write has its outcome");
    request.times.committed = Some(s.cx.env.now);
    let object = s.object_of(key);
    perform_effects(s, key, &execution);
    s.ops.reply_written(&mut s.cx, key, &execution, version);
    // Immediately, or later requests of that client would be answered before.
    for repeated in s.group.queues.repeated.remove(&version).unwrap_or_default() {
        repeat_watches(s, repeated);
        s.ops.reply_written(&mut s.cx, repeated, &execution, version);
    }
    let Some(object) = object else { return };
    if let Some(context) = s.ops.contexts.get_mut(object) {
        context.writes_in_flight -= 1;
    }
    s.cx.work.push(Work::Object(object));
}
