//! One attempt to run a request: checks, execution, and what follows from its outcome.

use crate::execute::{ExecuteOutcome, Execution, Need};
use crate::operations::execution::execute_request;
use crate::operations::keys::ObjectKey;
use crate::operations::lost_object::{is_given_up, needs_lost_head};
use crate::operations::object::{Availability, Progress};
use crate::operations::request::Refusal;
use crate::operations::service::Service;
use crate::operations::shards::has_shards;
use crate::operations::submit::{is_memorable, submit};
use crate::operations::{clones, healing, loads, outcomes};
use crate::work::Work;
use types::{Errno, SnapId};

/// Runs a request at the head of its object's order.
pub(super) fn run(s: &mut Service<'_>, object: ObjectKey, key: u64) -> Progress {
    loop {
        if let Some(progress) = check(s, object, key) {
            return progress;
        }
        if let Some(progress) = try_run(s, object, key) {
            return progress;
        }
    }
}

/// Checks what must hold before an execution. `Some` if the request is not executed.
fn check(s: &mut Service<'_>, object: ObjectKey, key: u64) -> Option<Progress> {
    let request = s.ops.requests.get(key).expect("the caller has it");
    if s.is_abandoned(request) {
        s.ops.forget(&mut s.cx, key);
        return Some(Progress::Ran);
    }
    if let Err(errno) = s.checks().check_blocklist(request) {
        return Some(s.reject(object, key, errno));
    }
    // Not earlier: a request and its resend may both have waited in the queue.
    if request.may_write() && outcomes::answer_repeated(s, key) {
        return Some(Progress::Ran);
    }
    let request = s.ops.requests.get(key).expect("it was just there");
    if s.group.queues.held_back.covers(request) {
        // A write before it in the queue was dropped.
        s.hold_back(key);
        return Some(Progress::Ran);
    }
    let looks_back = request.op_flags.rolls_back || request.object().snap < SnapId::HEAD;
    // Damage of shards is that of other members: they are replaced, and the write waits for that.
    let is_replaced =
        |refusal: &Refusal| refusal.is_damage && refusal.times == 1 && has_shards(s.group.pg);
    let refusal = request.refused.filter(Refusal::is_final).filter(|known| !is_replaced(known));
    if s.availability_of(object, key) == Availability::Fails {
        return Some(s.reject(object, key, Errno::IO));
    }
    if let Some(refusal) = refusal {
        return Some(refuse(s, object, key, refusal));
    }
    if looks_back { clones::find(s, object, key) } else { None }
}

/// Executes a request. `None` if it has more memory now and can be executed again.
fn try_run(s: &mut Service<'_>, object: ObjectKey, key: u64) -> Option<Progress> {
    let context = s.ops.contexts.get(object).expect("its request runs");
    let is_lost = is_given_up(&context.name, s.group.pg);
    let request = s.ops.requests.get(key).expect("the caller has it");
    if is_lost && needs_lost_head(request, s.group.pg) {
        return Some(s.reject(object, key, Errno::IO));
    }
    let executed = execute_request(s, object, key, is_lost);
    let request = s.ops.requests.get_mut(key).expect("the caller has it");
    request.times.started.get_or_insert(s.cx.env.now);
    let writes = request.may_write();
    // Reads do not begin while writes are in flight.
    let is_busy = writes && s.ops.contexts.get(object).is_some_and(|c| c.writes_in_flight > 0);
    match executed {
        ExecuteOutcome::Missing { .. } if is_busy => Some(Progress::Blocked),
        ExecuteOutcome::Missing { needs, cost } => provide(s, object, key, needs, cost),
        // A lost object cannot be preserved in a clone.
        ExecuteOutcome::Done(execution) if is_lost && execution.makes_clone() => {
            Some(s.reject(object, key, Errno::IO))
        }
        ExecuteOutcome::Done(execution) => {
            s.watches.reserve(&execution.effects);
            let is_logged = execution.modifies() || writes && is_memorable(&execution);
            if !is_logged && is_busy {
                // Its result is true only if the writes before it become durable.
                return Some(Progress::Blocked);
            }
            Some(match is_logged {
                true => submit(s, object, key, execution),
                false => finish_unmodified(s, object, key, &execution),
            })
        }
    }
}

/// Reserves memory for a request, then loads what it needs. `None` if it needed only memory.
fn provide(
    s: &mut Service<'_>,
    object: ObjectKey,
    key: u64,
    needs: Vec<Need>,
    cost: u64,
) -> Option<Progress> {
    let expected = s.ops.requests.get(key).map_or(0, |request| request.memory.expected);
    match s.ops.reserve(&s.cx.env.config.sizes.budgets, key, cost.max(expected)) {
        Err(errno) => Some(s.reject(object, key, errno)),
        Ok(false) => {
            s.ops.mark_begun(object, key);
            s.ops.unload_behind(object, key);
            Some(Progress::Begun)
        }
        // An output was not built for lack of memory.
        Ok(true) if needs.is_empty() => None,
        Ok(true) => {
            s.ops.mark_begun(object, key);
            loads::load_needs(s, object, key, needs);
            Some(Progress::Begun)
        }
    }
}

/// Logs the error of a write that the store refused, so that a resend gets the same error. If
/// the store has no room even for the log entry, the error is only sent. If it could not read what
/// the write changes in part, the object comes from another copy first.
fn refuse(s: &mut Service<'_>, object: ObjectKey, key: u64, refusal: Refusal) -> Progress {
    let errno = refusal.errno;
    if refusal.times > 1 {
        return s.reject(object, key, errno);
    }
    let context = s.ops.contexts.get(object).expect("the request was in its queue");
    let is_busy = context.writes_in_flight > 0;
    if refusal.is_damage && (is_busy || healing::heal_refused(s, object, key)) {
        return Progress::Blocked;
    }
    let context = s.ops.contexts.get(object).expect("the request was in its queue");
    let state = context.state.as_ref().expect("it is loaded before");
    let execution = Execution::failed(errno, state);
    submit(s, object, key, Box::new(execution))
}

/// Answers a request without a write of its own, when it may be answered.
fn finish_unmodified(
    s: &mut Service<'_>,
    object: ObjectKey,
    key: u64,
    execution: &Execution,
) -> Progress {
    if let Some(waits) = s.ops.wait_for_turn(object, key) {
        return waits;
    }
    let (now, own) = (s.cx.env.now, s.cx.env.whoami());
    if s.group.pg.is_active() {
        let is_known = s.group.lease.is_known(now);
        if !is_known && !s.leases.may_read(now, s.group.pg, own, s.group.lease) {
            wait_for_lease(s, object, key);
            return Progress::Begun;
        }
    } else if execution.has_failed_to_read() || !serves_as_replica(s, object) {
        // This copy is damaged, a write overtook the read, or a new primary may have taken over.
        s.reply_error(key, Errno::AGAIN);
        return Progress::Ran;
    }
    let bytes = execution.outputs.iter().map(|(_, output)| output.len() as u64);
    s.group.counters.note_read(bytes.sum());
    if execution.result >= 0 {
        outcomes::perform_effects(s, key, execution);
    }
    s.ops.reply_unmodified(&mut s.cx, s.group.pg, key, object, execution);
    Progress::Ran
}

/// Makes a request wait until all members have renewed their leases. It keeps its place in the order of
/// its object, or later writes of its client would overtake it; loaded data is loaded again.
fn wait_for_lease(s: &mut Service<'_>, object: ObjectKey, key: u64) {
    s.ops.mark_begun(object, key);
    s.ops.unload(key);
    s.ops.unload_behind(object, key);
    s.group.queues.waiting_for_readable.push(key);
    if s.leases.wait(s.group.id) {
        s.cx.work.push(Work::AskForLeases);
    }
}

/// Whether a replica may answer with the state in its object context: writes bypass the
/// context, and its reads, which may overlap without end, share the state that the first of
/// them has loaded.
fn serves_as_replica(s: &mut Service<'_>, object: ObjectKey) -> bool {
    let (pg, newest) = (&*s.group.pg, s.cx.map.epoch);
    let Some(context) = s.ops.contexts.get_mut(object) else { return false };
    if !s.leases.may_read_as_replica(s.cx.env.now, pg, newest) {
        return false;
    }
    let serves = pg.can_serve_read(&context.name)
        && pg.is_unchanged_since(&context.name, context.valid_through);
    if serves {
        context.valid_through = pg.log().head();
    }
    serves
}
