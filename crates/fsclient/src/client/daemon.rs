//! Inputs from the host, and outputs to it.

use super::{FIRST_CONN, FsClient};
use engine::{
    AuthRequest, ConnId, ConnectingAnswer, ConnectingStep, Daemon, Message, Output, Peer, Time,
};

fn is_of_osds(conn: ConnId) -> bool {
    conn >= FIRST_CONN
}

impl Daemon for FsClient {
    type Request = ();
    type Completion = ();

    /// A client accepts no sessions.
    fn handle_auth(&mut self, _now: Time, conn: ConnId, _request: AuthRequest) {
        self.outputs.close(conn);
    }

    fn authenticate(&mut self, now: Time, conn: ConnId, step: ConnectingStep) -> ConnectingAnswer {
        match is_of_osds(conn) {
            true => self.transfers.cluster.authenticate(now, conn, step),
            false => self.monitor.authenticate(now, conn, step),
        }
    }

    fn handle_opened(&mut self, now: Time, conn: ConnId, peer: Peer) {
        self.now = now;
        if is_of_osds(conn) {
            self.transfers.cluster.handle_opened(now, conn, peer);
        } else if self.monitor.owns(conn) {
            self.monitor.opened(conn, &mut self.outputs);
        } else if self.session.owns(conn) {
            self.server_opened(conn);
        }
        self.end_turn();
    }

    fn handle_message(&mut self, now: Time, conn: ConnId, message: Message) {
        self.now = now;
        let handled = if is_of_osds(conn) {
            self.transfers.cluster.handle_message(now, conn, message);
            Ok(())
        } else if self.monitor.owns(conn) {
            self.monitor.handle_message(now, &message)
        } else if self.session.owns(conn) {
            self.handle_from_server(&message)
        } else {
            Ok(())
        };
        if let Err(fault) = handled {
            tracing::warn!(%fault, "a message is dropped");
        }
        self.end_turn();
    }

    fn handle_closed(&mut self, now: Time, conn: ConnId) {
        self.now = now;
        if is_of_osds(conn) {
            self.transfers.cluster.handle_closed(now, conn);
        } else {
            self.monitor.closed(now, conn);
            self.session.closed(now, conn);
        }
        self.end_turn();
    }

    fn handle_completion(&mut self, _now: Time, (): ()) {}

    fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        match std::mem::replace(&mut self.is_started, true) {
            true => self.transfers.cluster.handle_timeout(now),
            false => self.transfers.cluster.start(now),
        }
        self.monitor.tend(now, &mut self.outputs);
        self.end_turn();
    }

    fn poll_output(&mut self) -> Option<Output<()>> {
        self.outputs.poll()
    }

    fn poll_timeout(&self) -> Option<Time> {
        if !self.is_started {
            return Some(Time::ZERO);
        }
        let cluster = self.transfers.cluster.poll_timeout();
        let parts = [self.monitor.poll_timeout(), self.session.poll_timeout(), cluster];
        parts.into_iter().flatten().min()
    }
}
