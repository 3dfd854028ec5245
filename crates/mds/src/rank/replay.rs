//! Requests that a predecessor had answered early, and whose records are lost.

use super::Rank;
use fscaps::{Admission, RequestId};
use namespace::Ino;
use types::{Errno, features};
use wire::{ClientReply, ClientRequest, MessageBody};

impl Rank {
    /// Executes a request again that a predecessor had answered early, while clients are awaited. The client
    /// is told only that it is durable. False if another client has something that the request contradicts.
    pub(super) fn replay(&mut self, id: RequestId, request: &ClientRequest) -> bool {
        let session = self.sessions.get_mut(id.client).expect("the session was checked");
        session.forget_completed(request.oldest_client_tid);
        let is_executed = session.completed(id.tid).is_some();
        self.log.set_author(Some(id.client));
        let result = match is_executed {
            true => Ok(()),
            false => match self.replay_plan(id, request) {
                None => return false,
                Some(result) => result,
            },
        };
        let code = result.map_or_else(Errno::negative, |()| 0);
        let reply = ClientReply::plain(request.op, code, self.map.epoch);
        self.send(id.client, reply.encode(features::SUPPORTED).with_tid(id.tid));
        true
    }

    fn replay_plan(&mut self, id: RequestId, request: &ClientRequest) -> Option<Result<(), Errno>> {
        let plan = self.planner(id.client, request).plan(request);
        let mut plan = match plan.and_then(|plan| self.check(id.client, request, plan)) {
            Ok(plan) => plan,
            Err(error) => return Some(Err(error)),
        };
        if !plan.may_be_early() {
            return None;
        }
        let demand = std::mem::take(&mut plan.demand);
        let admission = self.caps.handle_request(self.now, id, demand);
        let result = (admission == Admission::Ready).then(|| self.perform(id, request, &plan));
        self.caps.end_request(self.now, id, &[]);
        result.map(|result| result.map(drop))
    }

    /// The number that a predecessor has told the client for the inode that a request creates, unless it
    /// cannot have: then it is, or was, that of another inode, or was not given to anyone.
    pub(super) fn told_ino(&self, client: u64, request: &ClientRequest) -> Option<Ino> {
        let told = Ino(request.ino);
        let awaited = self.awaited.as_ref().filter(|_| request.has_early_reply())?;
        let was_given = (Ino::FIRST..self.inherited).contains(&told);
        let is_used = self.tree.get(told).is_some() || self.purges.get(told.0).is_some();
        let is_free = !is_used && !awaited.is_claimed_by_another(client, told);
        (was_given && is_free).then_some(told)
    }
}
