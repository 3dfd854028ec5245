//! Replies to clients, and the end of requests.

use crate::Osd;
use crate::execute::Execution;
use crate::request::{Origin, Request};
use engine::{ConnId, Message, Time};
use pg::LogDup;
use types::{EVersion, Errno, HObject, PgId};
use wire::{MessageBody, OpResult, OsdReply};

impl Osd {
    /// Ends a request without an answer: its client sends it again, or is gone.
    pub(crate) fn forget_request(&mut self, key: u64) {
        let Some(mut request) = self.requests.remove(key) else { return };
        self.budget.release(&mut request);
        match request.origin {
            Origin::Client { conn } => self.discharge(conn, request.bytes),
            Origin::Copy { copy } => self.copy_interrupted(copy),
            Origin::WatchTimeout => {}
            Origin::SnapTrim { .. } => self.trim_ended(request.pg, false),
            Origin::Lost { command, .. } => self.lost_ended(command, Errno::AGAIN.negative()),
        }
    }

    /// Ends a request with an answer.
    fn answer(&mut self, key: u64, reply: impl FnOnce(OsdReply) -> OsdReply) {
        let Some(mut request) = self.requests.remove(key) else { return };
        self.budget.release(&mut request);
        let reply = reply(OsdReply::to(&request.message, 0, self.epoch()));
        if self.images.is_counting() {
            self.images.count(self.now, &request, &reply);
        }
        match request.origin {
            Origin::Client { conn } => {
                let features = request.caller.features;
                let message = reply.encode(features).with_tid(request.tid);
                self.send(conn, message);
                self.discharge(conn, request.bytes);
                self.operations.note(self.now, request, &self.options);
            }
            Origin::Copy { copy } => self.copy_replied(copy, reply),
            Origin::WatchTimeout => {}
            Origin::SnapTrim { .. } => self.trim_ended(request.pg, reply.result == 0),
            Origin::Lost { command, .. } => self.lost_ended(command, reply.result),
        }
    }

    pub(crate) fn reply_error(&mut self, key: u64, errno: Errno) {
        self.answer(key, |reply| OsdReply { result: errno.negative(), ..reply });
    }

    /// Of a failure no version is told, as in Ceph; but of an object that was removed of late, the least that its next
    /// one can be.
    pub(crate) fn reply_unmodified(
        &mut self,
        key: u64,
        pg: PgId,
        object: &HObject,
        execution: &Execution,
    ) {
        let group = &self.groups[&pg];
        let is_removed = || group.objects.get(object).is_some_and(|context| context.is_removed);
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

    pub(crate) fn reply_written(&mut self, key: u64, execution: &Execution, version: EVersion) {
        self.answer(key, |mut reply| {
            reply.result = execution.result;
            fill(&mut reply.ops, execution);
            reply.set_versions(version, execution.info.user_version);
            reply
        });
    }

    /// The answer that an earlier execution of the same request had.
    pub(crate) fn reply_again(&mut self, key: u64, known: &LogDup) {
        self.repeat_watches(self.now, key);
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

    /// A reply to one of our own requests to another OSD.
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

    pub(crate) fn forget_session(&mut self, now: Time, conn: ConnId) {
        self.forget_early(conn);
        let Some(session) = self.sessions.remove(&conn) else { return };
        self.disconnect_watches(now, conn, session.watches);
        self.notifications.forget_notifier(conn);
        self.forget_unstarted(conn);
        self.end_vain_copies();
    }

    /// What a session that has ended asked for: what has begun ends by itself, and what was written stays. All
    /// else must not take the room of others while it waits.
    fn forget_unstarted(&mut self, conn: ConnId) {
        let is_unstarted = |request: &Request| {
            request.origin == Origin::Client { conn }
                && !request.is_marked
                && request.outcome.is_none()
        };
        let unstarted = self.requests.iter().filter(|(_, request)| is_unstarted(request));
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
