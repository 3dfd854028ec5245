//! Replies to clients, and the end of requests.

use crate::cx::Cx;
use crate::execute::Execution;
use crate::operations::Operations;
use crate::operations::answered::Answered;
use crate::operations::keys::ObjectKey;
use crate::operations::request::{Origin, Request};
use crate::work::Work;
use engine::ConnId;
use pg::{LogDup, Pg};
use types::{EVersion, Errno};
use wire::{MessageBody, OpResult, OsdReply};

impl Operations {
    /// Ends a request without a reply: its client resends it, or is gone.
    pub fn forget(&mut self, cx: &mut Cx<'_>, key: u64) {
        let Some(mut request) = self.requests.remove(key) else { return };
        self.memory.release(&mut request);
        match request.origin {
            Origin::Client { conn } => cx.discharge(conn, request.bytes),
            Origin::Copy { copy } => self.copies.interrupt(copy, cx.env.now),
            Origin::WatchTimeout => {}
            Origin::SnapTrim { .. } => cx.work.push(Work::Trimmed(request.pg, false)),
            Origin::Lost { command, .. } => {
                cx.work.push(Work::GivenUp(command, Errno::AGAIN.negative()));
            }
        }
    }

    /// Ends a request with a reply.
    fn answer(&mut self, cx: &mut Cx<'_>, key: u64, reply: impl FnOnce(OsdReply) -> OsdReply) {
        let Some(mut request) = self.requests.remove(key) else { return };
        self.memory.release(&mut request);
        let reply = reply(OsdReply::to(&request.message, 0, cx.map.epoch));
        match request.origin {
            Origin::Client { conn } => {
                let output_bytes = reply.ops.iter().map(|op| op.output.len() as u64).sum();
                let message = reply.encode(request.caller.features).with_tid(request.tid);
                cx.out.send(conn, message);
                cx.discharge(conn, request.bytes);
                self.answered.push(Answered::new(request, output_bytes));
            }
            Origin::Copy { copy } => cx.work.push(Work::Piece(copy, Box::new(reply))),
            Origin::WatchTimeout => {}
            Origin::SnapTrim { .. } => cx.work.push(Work::Trimmed(request.pg, reply.result == 0)),
            Origin::Lost { command, .. } => cx.work.push(Work::GivenUp(command, reply.result)),
        }
    }

    /// Ends a request with an error for the whole request.
    pub fn reply_error(&mut self, cx: &mut Cx<'_>, key: u64, errno: Errno) {
        self.answer(cx, key, |reply| OsdReply { result: errno.negative(), ..reply });
    }

    /// Replies to a request that changed nothing. As in Ceph, failures carry no version, except
    /// that for an object that was removed recently it is a lower bound of the next version.
    pub fn reply_unmodified(
        &mut self,
        cx: &mut Cx<'_>,
        pg: &Pg,
        key: u64,
        object: ObjectKey,
        execution: &Execution,
    ) {
        let is_removed = || self.contexts.get(object).is_some_and(|context| context.is_removed);
        let (version, user_version) = match execution.result {
            0.. => (EVersion::ZERO, execution.info.user_version),
            code if code == Errno::NOENT.negative() && is_removed() => {
                (pg.info().last_update, pg.info().last_user_version)
            }
            _ => (EVersion::ZERO, 0),
        };
        self.answer(cx, key, |mut reply| {
            reply.result = execution.result;
            fill(&mut reply.ops, execution);
            reply.set_versions(version, user_version);
            reply
        });
    }

    /// Replies to a write that is durable.
    pub fn reply_written(
        &mut self,
        cx: &mut Cx<'_>,
        key: u64,
        execution: &Execution,
        version: EVersion,
    ) {
        self.answer(cx, key, |mut reply| {
            reply.result = execution.result;
            fill(&mut reply.ops, execution);
            reply.set_versions(version, execution.info.user_version);
            reply
        });
    }

    /// Repeats the reply of an earlier execution of the same request.
    pub fn reply_again(&mut self, cx: &mut Cx<'_>, key: u64, known: &LogDup) {
        self.answer(cx, key, |mut reply| {
            reply.result = known.result;
            for (op, (result, output)) in reply.ops.iter_mut().zip(&known.returns) {
                op.result = *result;
                op.output = output.clone();
            }
            reply.set_versions(known.version, known.user_version);
            reply
        });
    }

    /// Drops requests of an ended session that have not begun, so that they hold no resources while
    /// they wait. Those that have begun complete on their own; durable writes stay.
    pub fn forget_unstarted(&mut self, cx: &mut Cx<'_>, conn: ConnId) {
        let is_unstarted = |request: &Request| {
            request.origin == Origin::Client { conn }
                && !request.is_marked
                && request.outcome.is_none()
        };
        let unstarted = self.requests.iter().filter(|(_, request)| is_unstarted(request));
        let unstarted: Vec<u64> = unstarted.map(|(key, _)| key).collect();
        unstarted.into_iter().for_each(|key| self.forget(cx, key));
    }
}

fn fill(ops: &mut [OpResult], execution: &Execution) {
    for (op, (result, output)) in ops.iter_mut().zip(&execution.outputs) {
        op.result = *result;
        op.output = output.clone();
    }
}
