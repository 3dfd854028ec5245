//! Requests that go on: what they waited for is there, or it is their turn to be answered.

use crate::operations::keys::ObjectKey;
use crate::operations::object::{Availability, Progress};
use crate::operations::request::{Origin, Request};
use crate::operations::run;
use crate::operations::service::Service;
use crate::work::Work;

/// Runs a request again that has begun; the reads follow that waited only for its reply. One that is in
/// the queue of its object again, or loads, continues from there.
pub(crate) fn resume(s: &mut Service<'_>, key: u64) {
    let has_all = |request: &&Request| request.is_marked && request.outstanding == 0;
    let Some(request) = s.ops.requests.get(key).filter(has_all) else { return };
    let origin = request.origin;
    let Some(object) = s.object_of(key) else { return };
    if run_again(s, object, key) {
        s.cx.work.push(Work::Readers(object, origin));
    }
}

/// Runs the next read of a client again if it waited only for the reply to the one before it. Behind the
/// last of them follow the write that waited for readers, or the queue of the object.
pub(crate) fn resume_readers(s: &mut Service<'_>, object: ObjectKey, origin: Origin) {
    if s.ops.contexts.get(object).is_none() {
        return;
    }
    let work = match s.ops.next_ready(object, origin) {
        Some(key) => match run_again(s, object, key) {
            true => Work::Readers(object, origin),
            false => return,
        },
        None => s.ops.unpark(object).map_or(Work::Object(object), Work::Continue),
    };
    s.cx.work.push(work);
}

/// Runs a request again; true if it has ended or waits in the queue again.
fn run_again(s: &mut Service<'_>, object: ObjectKey, key: u64) -> bool {
    let request = s.ops.requests.get_mut(key).expect("the caller has it");
    assert!(request.is_marked, "a request that goes on has its place");
    request.is_ready = false;
    let writes = request.may_write();
    let context = s.ops.contexts.get_mut(object);
    if let Some(context) = context.filter(|context| writes && !context.readers.is_empty()) {
        context.is_parked = true;
        return false;
    }
    // Recovery of the object may have begun while a write was loading: other members are sent the present
    // version.
    let progress = match writes && s.availability_of(object, key) == Availability::Waits {
        true => Progress::Blocked,
        false => run::run(s, object, key),
    };
    if progress == Progress::Begun {
        return false; // still marked
    }
    if progress == Progress::Blocked {
        s.ops.queue_again(object, key);
    } else if let Some(context) = s.ops.contexts.get_mut(object) {
        match writes {
            true => (context.has_writer, context.copier) = (false, None),
            false => context.readers.retain(|reader| *reader != key),
        }
    }
    true
}
