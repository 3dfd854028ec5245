//! Dispatch of OSD replies.

use super::Objecter;
use super::pending::{Pending, Purpose, REPLICA_READS, first_operation};
use crate::effects::Effects;
use crate::listing::{self, ListPage};
use crate::names::OpId;
use crate::operation::{OperationReply, Reply, check};
use bytes::Bytes;
use engine::{ConnId, Time};
use types::{Errno, features};
use wire::listing::PgListing;
use wire::op::request_flags;
use wire::watch::NotifyResult;
use wire::{BackoffOp, CommandReply, MessageBody, OsdBackoff, OsdReply, Redirect};

impl Objecter {
    /// Handles the reply to an operation. Only one to the last attempt, from the session on which that was
    /// sent, counts.
    pub fn handle_reply(
        &mut self,
        now: Time,
        conn: ConnId,
        tid: u64,
        reply: OsdReply,
        fx: &mut Effects,
    ) {
        let id = OpId(tid);
        if let Some(osd) = self.sessions.osd_of(conn) {
            self.sessions.handle_alive(osd);
        }
        let Some(pending) = self.ops.get_mut(&id) else { return };
        // Only the reply to the latest attempt counts.
        let is_stale = reply.retry_attempt >= 0 && reply.retry_attempt != pending.attempts - 1;
        if pending.sent_on != Some(conn) || is_stale {
            return;
        }
        if reply.result == Errno::AGAIN.negative() && pending.flags & REPLICA_READS != 0 {
            pending.flags &= !REPLICA_READS;
            pending.sent_on = None;
            return self.pump(id, fx);
        }
        match reply.redirect {
            Some(redirect) => self.redirect(id, redirect, fx),
            None => self.finish(now, id, conn, reply, fx),
        }
    }

    fn redirect(&mut self, id: OpId, redirect: Redirect, fx: &mut Effects) {
        let Some(pending) = self.ops.get_mut(&id) else { return };
        let place = &mut pending.operation.place;
        place.pool = redirect.locator.pool;
        place.namespace = redirect.locator.namespace;
        place.key = redirect.locator.key;
        if !redirect.object.is_empty() {
            place.object = redirect.object;
        }
        pending.flags |=
            request_flags::REDIRECTED | request_flags::IGNORE_CACHE | request_flags::IGNORE_OVERLAY;
        pending.target = None;
        pending.sent_on = None;
        self.pump(id, fx);
    }

    fn finish(&mut self, now: Time, id: OpId, conn: ConnId, reply: OsdReply, fx: &mut Effects) {
        let result = check(reply.result);
        let purpose = self.ops.get(&id).map(|pending| pending.purpose.clone());
        if purpose == Some(Purpose::Notify) && result.is_ok() {
            // The outcome arrives in a message of its own.
            return;
        }
        let Some(pending) = self.ops.remove(&id) else { return };
        match &pending.purpose {
            Purpose::Submitted => fx.complete(id, result.map(|_| operation_reply(reply))),
            Purpose::Notify => fx.complete(id, result.map(|_| operation_reply(reply))),
            Purpose::Listing(_) => {
                let page = result.and_then(|_| self.page(&pending, &reply));
                fx.complete(id, page.map(Reply::Page));
            }
            Purpose::Watch(watch) | Purpose::Rewatch(watch) => {
                let target = pending.target.map(|(_, target)| target);
                let is_first = matches!(pending.purpose, Purpose::Watch(_));
                let registered = target.map(|target| (target, conn));
                self.watches.registered(now, *watch, registered, result, fx);
                if is_first {
                    let reply = result.map(|_| Reply::Watching(*watch));
                    fx.complete(first_operation(*watch), reply);
                }
            }
            Purpose::Ping(watch) => self.watches.pinged(now, *watch, result, fx),
            Purpose::Acknowledgement => {}
        }
    }

    fn page(&self, pending: &Pending, reply: &OsdReply) -> Result<ListPage, Errno> {
        let output = reply.ops.first().map(|op| op.output.clone()).unwrap_or_default();
        let listing: PgListing =
            codec::decode_all("listing", &output).map_err(|_| Errno::BADMSG)?;
        let (pool, hash) = (pending.operation.place.pool, pending.hash().unwrap_or(0));
        let rules = self.map.as_ref().and_then(|map| map.pool(pool));
        Ok(listing::page(rules, pool, hash, listing))
    }

    /// A notification of this client is complete; its cookie is the operation's id.
    pub fn handle_notified(&mut self, id: OpId, result: i32, outcome: &Bytes, fx: &mut Effects) {
        let waits = self.ops.get(&id).is_some_and(|pending| pending.purpose == Purpose::Notify);
        if !waits {
            return;
        }
        self.ops.remove(&id);
        let outcome = match outcome.is_empty() {
            true => Ok(NotifyResult::default()),
            false => codec::decode_all("notify outcome", outcome).map_err(|_| Errno::BADMSG),
        };
        // If some watchers timed out, the replies of the others are still reported.
        let verdict = match check(result) {
            Err(Errno::TIMEDOUT) => Ok(0),
            verdict => verdict,
        };
        fx.complete(id, verdict.and(outcome).map(Reply::Notified));
    }

    /// An OSD blocks a range of objects, or ends that; a block is acknowledged.
    pub fn handle_backoff(&mut self, conn: ConnId, backoff: OsdBackoff, fx: &mut Effects) {
        let Some(osd) = self.sessions.osd_of(conn) else { return };
        match backoff.op {
            BackoffOp::Block => {
                let ack = OsdBackoff { op: BackoffOp::AckBlock, ..backoff.clone() };
                fx.send(conn, ack.encode(features::SUPPORTED));
                self.sessions.block(osd, backoff);
            }
            BackoffOp::Unblock => {
                self.sessions.unblock(osd, &backoff);
                self.send_blocked(osd, conn, fx);
            }
            BackoffOp::AckBlock => {}
        }
    }

    /// Sends everything that an ended backoff may have covered, including operations sent before it, since
    /// the OSD has dropped them.
    fn send_blocked(&mut self, osd: types::OsdId, conn: ConnId, fx: &mut Effects) {
        let is_there = |pending: &Pending| {
            pending.target.as_ref().is_some_and(|(target_osd, _)| *target_osd == osd)
        };
        let ids: Vec<OpId> =
            self.ops.iter().filter(|(_, p)| is_there(p)).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.send(id, conn, fx));
    }

    /// Handles the reply to a command of an OSD.
    pub fn handle_command_reply(&mut self, tid: u64, reply: CommandReply, fx: &mut Effects) {
        self.commands.handle_reply(tid, reply, fx);
    }
}

fn operation_reply(reply: OsdReply) -> Reply {
    Reply::Operation(OperationReply {
        result: reply.result,
        version: reply.version,
        user_version: reply.user_version,
        ops: reply.ops,
    })
}
