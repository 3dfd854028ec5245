//! The interface of the OSD to its host: each input sets the time, and all follows from it.

use crate::cx::cx;
use crate::env::Stage;
use crate::inbox::Input;
use crate::operations::copying;
use crate::osd::Osd;
use engine::{
    AuthRequest, ConnId, ConnectingAnswer, ConnectingStep, Daemon, Message, Output, Peer, Time,
};
use store::Completion;

impl Daemon for Osd {
    type Request = store::Request;
    type Completion = Completion;

    fn handle_auth(&mut self, now: Time, conn: ConnId, request: AuthRequest) {
        self.env.now = now;
        let verdict = self.authentication.judge(now, conn, request);
        self.outbox.push(Output::Auth { conn, verdict });
    }

    fn authenticate(&mut self, now: Time, conn: ConnId, step: ConnectingStep) -> ConnectingAnswer {
        self.env.now = now;
        self.authentication.prove(now, conn, self.monitor.is(conn), step)
    }

    fn handle_refused(&mut self, now: Time, conn: ConnId) {
        self.env.now = now;
        self.refused(conn);
    }

    fn handle_opened(&mut self, now: Time, conn: ConnId, peer: Peer) {
        self.env.now = now;
        self.hold_opened(now, conn, peer);
    }

    fn handle_message(&mut self, now: Time, conn: ConnId, message: Message) {
        self.env.now = now;
        self.hold_message_input(now, conn, message);
    }

    fn handle_closed(&mut self, now: Time, conn: ConnId) {
        self.env.now = now;
        self.hold(now, Input::Closed(conn));
    }

    fn handle_completion(&mut self, now: Time, completion: Completion) {
        self.env.now = now;
        self.hold(now, Input::Completion(completion));
    }

    fn handle_timeout(&mut self, now: Time) {
        self.env.now = now;
        if self.maps.is_telling() {
            self.heartbeat_if_due();
        }
        if self.place_turn(now) {
            return;
        }
        self.monitor.handle_timeout(cx!(self), &self.authentication);
        if self.env.stage == Stage::Failed {
            return self.report_if_due();
        }
        self.retry_if_due(now);
        self.end_late_watches(now);
        self.settle();
        self.heartbeat_if_due();
        self.renew_leases_if_due(now);
        self.end_waits(now);
        copying::retry_if_due(&mut self.operations, cx!(self), &mut self.peers, now);
        self.settle();
        self.report_if_due();
        self.scrub_if_due(now);
        self.trim_if_due(now);
        self.finish_input(now);
    }

    fn poll_output(&mut self) -> Option<Output<store::Request>> {
        let output = self.outbox.poll();
        if let Some(Output::Close { conn }) = &output {
            self.authentication.closed(*conn);
        }
        output
    }

    fn poll_timeout(&self) -> Option<Time> {
        if self.is_behind() {
            return Some(self.env.now);
        }
        if self.env.stage == Stage::Failed {
            let due = [self.monitor.next_attempt(), self.report.schedule.due()];
            return due.into_iter().flatten().min();
        }
        let due = [
            self.monitor.next_attempt(),
            self.report.schedule.due(),
            self.groups.retry_due(),
            self.watches.due(),
        ];
        let due = due.into_iter().chain([
            self.recovery.scheduler.due(),
            self.leases.due(),
            self.scrub.due(),
            self.trim.due(),
            self.heartbeats.due(),
            self.operations.copies_due(),
            self.groups.next_wait(),
        ]);
        due.flatten().min()
    }
}
