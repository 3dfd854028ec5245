//! The interface of the OSD to its host: each input sets the time, and all follows from it.

use crate::cx::cx;
use crate::hosted::{scrubbing, timers, trimming};
use crate::inbox::Input;
use crate::osd::Osd;
use engine::{
    AuthRequest, ConnId, ConnectingAnswer, ConnectingStep, CoreLoad, Daemon, Message, Output, Peer,
    Time,
};
use store::Completion;

impl Daemon for Osd {
    type Request = store::Request;
    type Completion = Completion;

    fn handle_auth(&mut self, now: Time, conn: ConnId, request: AuthRequest) {
        self.shared.env.now = now;
        let verdict = self.authentication.verify(now, conn, request);
        self.shared.outbox.push(Output::Auth { conn, verdict });
    }

    fn authenticate(&mut self, now: Time, conn: ConnId, step: ConnectingStep) -> ConnectingAnswer {
        self.shared.env.now = now;
        self.authentication.prove(now, conn, self.shared.monitor.is(conn), step)
    }

    fn handle_refused(&mut self, now: Time, conn: ConnId) {
        self.shared.env.now = now;
        self.refused(conn);
    }

    fn handle_opened(&mut self, now: Time, conn: ConnId, peer: Peer) {
        self.shared.env.now = now;
        self.hold_opened(conn, peer);
    }

    fn handle_message(&mut self, now: Time, conn: ConnId, message: Message) {
        self.shared.env.now = now;
        self.hold_message_input(conn, message);
    }

    fn handle_closed(&mut self, now: Time, conn: ConnId) {
        self.shared.env.now = now;
        self.hold(Input::Closed(conn));
    }

    fn handle_completion(&mut self, now: Time, completion: Completion) {
        self.shared.env.now = now;
        self.hold(Input::Completion(completion));
    }

    fn handle_timeout(&mut self, now: Time) {
        self.shared.env.now = now;
        if self.shared.maps.is_telling() {
            self.heartbeat_if_due();
        }
        if self.place_turn() {
            return;
        }
        self.shared.monitor.handle_timeout(cx!(self.shared), &self.authentication);
        if self.has_failed() {
            return self.report_if_due();
        }
        timers::retry_if_due(&mut self.hosted, &mut self.shared);
        timers::end_late_watches(&mut self.hosted, &mut self.shared);
        self.heartbeat_if_due();
        timers::renew_leases_if_due(&mut self.hosted, &mut self.shared);
        timers::retry_copies_if_due(&mut self.hosted, &mut self.shared);
        self.report_if_due();
        scrubbing::begin_if_due(&mut self.hosted, &mut self.shared);
        trimming::begin_if_due(&mut self.hosted, &mut self.shared);
        self.finish_input();
    }

    fn handle_load(&mut self, load: CoreLoad) {
        self.shared.env.load = load;
    }

    fn poll_output(&mut self) -> Option<Output<store::Request>> {
        let output = self.shared.outbox.poll();
        if let Some(Output::Close { conn }) = &output {
            self.authentication.closed(*conn);
        }
        output
    }

    fn poll_timeout(&self) -> Option<Time> {
        if self.is_behind() {
            return Some(self.shared.env.now);
        }
        let due = [self.shared.monitor.next_attempt(), self.shared.report.schedule.due()];
        let due = due.into_iter().flatten();
        if self.has_failed() {
            return due.min();
        }
        due.chain(self.hosted.due()).chain(self.heartbeats.due()).min()
    }
}
