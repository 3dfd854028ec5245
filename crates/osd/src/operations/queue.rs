//! The queue of each object: when a request may run.
//!
//! Requests run in order of arrival. Writes are pipelined ahead of the store: each sees the state
//! that those before it will leave. A request that reads more than that state (data, omap), or that
//! is answered without a write, waits until the writes before it are durable.

use crate::operations::keys::ObjectKey;
use crate::operations::object::{Availability, Progress};
use crate::operations::service::Service;
use crate::operations::{listing, loads, run};
use crate::work::Work;
use types::{Errno, HObject};

/// Starts an admitted request: it runs, or waits in its queue.
pub(crate) fn start(s: &mut Service<'_>, key: u64) {
    let Some(request) = s.ops.requests.get_mut(key) else { return };
    request.times.queued.get_or_insert(s.cx.env.now);
    let object = HObject::head_of(request.object());
    let op_flags = request.op_flags;
    if s.group.pg.is_primary() {
        if !s.group.pg.is_active() || s.group.check_premerge() {
            s.group.queues.waiting.push_back(key);
            return;
        }
    } else if op_flags.is_pg_op || op_flags.is_to_watchers || !s.group.pg.can_serve_read(&object) {
        // The client resends to the primary.
        return s.reply_error(key, Errno::AGAIN);
    }
    if op_flags.is_pg_op {
        return listing::list(s, key);
    }
    let contexts = &mut s.ops.contexts;
    let object = s.group.queues.enter(contexts, s.group.id, object);
    contexts.get_mut(object).expect("it was just entered").queue.push_back(key);
    s.cx.work.push(Work::Object(object));
}

/// The next step of an object's queue.
enum Next {
    /// Its first request runs.
    First(u64),
    /// A read for a copy runs before it, which waits.
    Piece(u64),
    /// The queue waits, or is empty.
    Waits,
    Empty,
}

/// Runs the requests of an object's queue that may run, until one of them makes other work possible: that
/// precedes the rest.
pub(crate) fn advance(s: &mut Service<'_>, object: ObjectKey) {
    loop {
        let (key, is_piece) = match next(s, object) {
            Next::First(key) => (key, false),
            Next::Piece(key) => (key, true),
            Next::Waits => return,
            Next::Empty => break,
        };
        if run::run(s, object, key) == Progress::Blocked {
            let context = s.ops.contexts.get_mut(object);
            let queue = &mut context.expect("it has what the request waits for").queue;
            match is_piece {
                true => queue.push_back(key),
                false => queue.push_front(key),
            }
            return s.cx.work.push(Work::Group(s.group.id));
        }
        if s.cx.work.has_children() {
            return s.cx.work.push(Work::Object(object));
        }
    }
    forget_idle_objects(s, object);
}

/// Takes the next request out of the queue that may run.
fn next(s: &mut Service<'_>, object: ObjectKey) -> Next {
    loop {
        let Some(context) = s.ops.contexts.get_mut(object) else { return Next::Waits };
        assert_eq!(context.pg, s.group.id, "an object is of its group");
        let Some(key) = context.queue.front().copied() else { return Next::Empty };
        let availability = match s.ops.requests.get(key) {
            Some(request) => context.availability(s.group.pg, s.group.snapshots, request),
            None => Availability::Runs,
        };
        if availability == Availability::Waits {
            s.group.pg.want_object(&context.name);
            s.cx.work.push(Work::Group(s.group.id));
            return Next::Waits;
        }
        if context.state.is_none() && availability != Availability::Fails {
            if !context.is_loading {
                context.is_loading = true;
                context.valid_through = s.group.pg.log().head();
                loads::load_state(s, object);
            }
            return Next::Waits;
        }
        let Some(request) = s.ops.requests.get(key) else {
            context.queue.pop_front();
            continue;
        };
        let writes = request.may_write();
        let must_wait = context.has_writer
            || writes && !context.readers.is_empty()
            || !writes && context.writes_in_flight > 0;
        if must_wait {
            // The source of a copy must not wait for another copy, or both might wait for each other.
            return s.ops.take_piece(object).map_or(Next::Waits, Next::Piece);
        }
        context.queue.pop_front();
        return Next::First(key);
    }
}

/// Evicts idle objects beyond the group's share. Replicas keep none, because writes bypass
/// their contexts.
fn forget_idle_objects(s: &mut Service<'_>, object: ObjectKey) {
    let contexts = &mut s.ops.contexts;
    match s.group.pg.is_primary() {
        true => s.group.queues.evict(contexts, s.group.watches, s.objects_share),
        false => s.group.queues.forget_if_idle(contexts, object),
    }
}
