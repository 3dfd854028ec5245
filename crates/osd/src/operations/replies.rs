//! Replies to clients, and the end of requests.

use crate::Osd;
use crate::execute::Execution;
use crate::operations::keys::ObjectKey;
use crate::operations::request::{Origin, Request};
use crate::work::Work;
use engine::{ConnId, Message, Time};
use pg::LogDup;
use types::{EVersion, Errno, PgId};
use wire::{MessageBody, OpResult, OsdReply};

impl Osd {
    /// Ends a request without a reply: its client resends it, or is gone.
    pub(crate) fn forget_request(&mut self, key: u64) {
        let Some(mut request) = self.operations.requests.remove(key) else { return };
        self.operations.memory.release(&mut request);
        match request.origin {
            Origin::Client { conn } => self.discharge(conn, request.bytes),
            Origin::Copy { copy } => self.copy_interrupted(copy),
            Origin::WatchTimeout => {}
            Origin::SnapTrim { .. } => self.trim_ended(request.pg, false),
            Origin::Lost { command, .. } => self.lost_ended(command, Errno::AGAIN.negative()),
        }
    }

    /// Ends a request with a reply.
    fn answer(&mut self, key: u64, reply: impl FnOnce(OsdReply) -> OsdReply) {
        let Some(mut request) = self.operations.requests.remove(key) else { return };
        self.operations.memory.release(&mut request);
        let reply = reply(OsdReply::to(&request.message, 0, self.epoch()));
        self.report.note_reply(self.env.now, &request, &reply);
        match request.origin {
            Origin::Client { conn } => {
                let features = request.caller.features;
                let message = reply.encode(features).with_tid(request.tid);
                self.send(conn, message);
                self.discharge(conn, request.bytes);
                self.report.note_end(self.env.now, request, &self.env.options);
            }
            Origin::Copy { copy } => self.work.push(Work::Piece(copy, Box::new(reply))),
            Origin::WatchTimeout => {}
            Origin::SnapTrim { .. } => self.trim_ended(request.pg, reply.result == 0),
            Origin::Lost { command, .. } => self.lost_ended(command, reply.result),
        }
    }

    /// Ends a request with an error for the whole request.
    pub(crate) fn reply_error(&mut self, key: u64, errno: Errno) {
        self.answer(key, |reply| OsdReply { result: errno.negative(), ..reply });
    }

    /// Replies to a request that changed nothing. As in Ceph, failures carry no version, except
    /// that for an object that was removed recently it is a lower bound of the next version.
    pub(crate) fn reply_unmodified(
        &mut self,
        key: u64,
        pg: PgId,
        object: ObjectKey,
        execution: &Execution,
    ) {
        let group = &self.groups.by_id[&pg];
        let is_removed =
            || self.operations.contexts.get(object).is_some_and(|context| context.is_removed);
        let (version, user_version) = match execution.result {
            0.. => (EVersion::ZERO, execution.info.user_version),
            code if code == Errno::NOENT.negative() && is_removed() => {
                (group.pg.info().last_update, group.pg.info().last_user_version)
            }
            _ => (EVersion::ZERO, 0),
        };
        self.answer(key, |mut reply| {
            reply.result = execution.result;
            fill(&mut reply.ops, execution);
            reply.set_versions(version, user_version);
            reply
        });
    }

    /// Replies to a write that is durable.
    pub(crate) fn reply_written(&mut self, key: u64, execution: &Execution, version: EVersion) {
        self.answer(key, |mut reply| {
            reply.result = execution.result;
            fill(&mut reply.ops, execution);
            reply.set_versions(version, execution.info.user_version);
            reply
        });
    }

    /// Repeats the reply of an earlier execution of the same request.
    pub(crate) fn reply_again(&mut self, key: u64, known: &LogDup) {
        self.repeat_watches(self.env.now, key);
        self.answer(key, |mut reply| {
            reply.result = known.result;
            for (op, (result, output)) in reply.ops.iter_mut().zip(&known.returns) {
                op.result = *result;
                op.output = output.clone();
            }
            reply.set_versions(known.version, known.user_version);
            reply
        });
    }

    /// A reply from another OSD to a request of ours.
    pub(crate) fn take_reply(
        &mut self,
        _now: Time,
        conn: ConnId,
        message: &Message,
    ) -> codec::Result<()> {
        if self.osd_of(conn).is_some() {
            let reply = OsdReply::decode(message)?;
            self.copy_replied(message.tid, reply);
        }
        Ok(())
    }

    /// Forgets a session that has ended: its watches, notifications and waiting requests.
    pub(crate) fn forget_session(&mut self, now: Time, conn: ConnId) {
        self.forget_early(conn);
        let Some(session) = self.clients.remove(conn) else { return };
        self.disconnect_watches(now, conn, session.into_watches());
        self.watches.forget_notifier(conn);
        self.forget_unstarted(conn);
        self.end_vain_copies();
        self.settle();
    }

    /// Drops requests of an ended session that have not begun, so that they hold no resources while
    /// they wait. Those that have begun complete on their own; durable writes stay.
    fn forget_unstarted(&mut self, conn: ConnId) {
        let is_unstarted = |request: &Request| {
            request.origin == Origin::Client { conn }
                && !request.is_marked
                && request.outcome.is_none()
        };
        let unstarted =
            self.operations.requests.iter().filter(|(_, request)| is_unstarted(request));
        let unstarted: Vec<u64> = unstarted.map(|(key, _)| key).collect();
        unstarted.into_iter().for_each(|key| self.forget_request(key));
    }
}

fn fill(ops: &mut [OpResult], execution: &Execution) {
    for (op, (result, output)) in ops.iter_mut().zip(&execution.outputs) {
        op.result = *result;
        op.output = output.clone();
    }
}
