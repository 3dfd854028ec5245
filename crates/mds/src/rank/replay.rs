//! Requests that a predecessor had answered early, and whose records are lost.

use super::Rank;
use fscaps::{Admission, RequestId};
use types::{Errno, features};
use wire::{ClientReply, ClientRequest, MessageBody};

/// Executes a request again that a predecessor had answered early, while clients are awaited. The client
/// is told only that it is durable. False if another client has something that the request contradicts.
pub(super) fn execute(rank: &mut Rank, id: RequestId, request: &ClientRequest) -> bool {
    let session = rank.sessions.get_mut(id.client).expect("the session was checked");
    session.forget_completed(request.oldest_client_tid);
    let is_executed = session.completed(id.tid).is_some();
    let failed = session.failed(id.tid);
    rank.log.set_author(Some(id.client));
    let result = match is_executed {
        true => failed.map_or(Ok(()), Err),
        false => match execute_plan(rank, id, request) {
            None => return false,
            Some(result) => result,
        },
    };
    let code = result.map_or_else(Errno::negative, |()| 0);
    let reply = ClientReply::plain(request.op, code, rank.map.epoch);
    rank.send(id.client, reply.encode(features::SUPPORTED).with_tid(id.tid));
    true
}

/// Executes a request on which its client has acted, although no predecessor may have answered it. It is
/// answered when it is handled as a completed one; one that fails is answered here, as it might not fail
/// again behind those that follow. Whether it was answered.
pub(super) fn execute_unanswered(rank: &mut Rank, id: RequestId, request: &ClientRequest) -> bool {
    let session = rank.sessions.get_mut(id.client).expect("the session was checked");
    let is_executed = session.completed(id.tid).is_some();
    if is_executed || rank.has_foreign_number(id.client, request) {
        return false;
    }
    rank.log.set_author(Some(id.client));
    let result = execute_plan(rank, id, request);
    rank.log.close();
    let Some(Err(error)) = result else { return false };
    rank.note_failed(id, request, error);
    let reply = ClientReply::plain(request.op, error.negative(), rank.map.epoch);
    rank.send(id.client, reply.encode(features::SUPPORTED).with_tid(id.tid));
    true
}

fn execute_plan(
    rank: &mut Rank,
    id: RequestId,
    request: &ClientRequest,
) -> Option<Result<(), Errno>> {
    let plan = rank.planner(id.client, request).plan(request);
    let mut plan = match plan.and_then(|plan| rank.check(id.client, request, plan)) {
        Ok(plan) => plan,
        Err(error) => return Some(Err(error)),
    };
    if !plan.may_be_early() {
        return None;
    }
    let demand = std::mem::take(&mut plan.demand);
    let admission = rank.caps.handle_request(rank.now, id, demand);
    let result = (admission == Admission::Ready).then(|| rank.perform(id, request, &plan));
    rank.caps.end_request(rank.now, id, &[]);
    result.map(|result| result.map(drop))
}
