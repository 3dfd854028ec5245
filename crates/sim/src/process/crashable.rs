//! A daemon with its disk, which outlives the daemon.

use super::disk::Disk;
use crate::digest::Digest;
use engine::{
    AuthRequest, ConnId, ConnectingAnswer, ConnectingStep, Daemon, Message, Node, NodeOutput, Peer,
    Time,
};
use std::fmt::Debug;

/// A daemon, while it runs, with its disk.
pub struct Crashable<D, S> {
    daemon: Option<D>,
    disk: S,
    digest: Digest,
}

impl<D, S> Crashable<D, S>
where
    S: Disk,
{
    /// An empty or filled disk, over which no daemon runs yet.
    pub fn new(disk: S) -> Self {
        Crashable { daemon: None, disk, digest: Digest::default() }
    }

    /// Starts a daemon over the disk.
    pub fn start(&mut self, daemon: D) {
        assert!(self.daemon.is_none(), "a daemon starts once per life");
        self.daemon = Some(daemon);
    }

    /// Loses the daemon, and state of the disk that is not durable.
    pub fn crash(&mut self) {
        self.daemon = None;
        self.disk.crash();
    }

    /// The daemon, if it runs.
    pub fn daemon(&self) -> Option<&D> {
        self.daemon.as_ref()
    }

    /// The daemon, if it runs.
    pub fn daemon_mut(&mut self) -> Option<&mut D> {
        self.daemon.as_mut()
    }

    /// The disk, which outlives the daemon.
    pub fn disk(&self) -> &S {
        &self.disk
    }

    /// The disk, which outlives the daemon.
    pub fn disk_mut(&mut self) -> &mut S {
        &mut self.disk
    }

    /// Digest of all outputs of all lives so far.
    pub fn digest(&self) -> u64 {
        self.digest.value()
    }

    fn with(&mut self, act: impl FnOnce(&mut D)) {
        if let Some(daemon) = &mut self.daemon {
            act(daemon);
        }
    }
}

/// Without a daemon, inputs are lost, and there are no outputs.
impl<D, S> Node for Crashable<D, S>
where
    D: Daemon,
    D::Request: Debug,
    S: Disk<Request = D::Request, Completion = D::Completion>,
{
    fn handle_auth(&mut self, now: Time, conn: ConnId, request: AuthRequest) {
        self.with(|daemon| daemon.handle_auth(now, conn, request));
    }

    fn authenticate(&mut self, now: Time, conn: ConnId, step: ConnectingStep) -> ConnectingAnswer {
        let daemon = self.daemon.as_mut();
        daemon.map_or(ConnectingAnswer::Refuse, |daemon| daemon.authenticate(now, conn, step))
    }

    fn handle_refused(&mut self, now: Time, conn: ConnId) {
        self.with(|daemon| daemon.handle_refused(now, conn));
    }

    fn handle_opened(&mut self, now: Time, conn: ConnId, peer: Peer) {
        self.with(|daemon| daemon.handle_opened(now, conn, peer));
    }

    fn handle_message(&mut self, now: Time, conn: ConnId, message: Message) {
        self.with(|daemon| daemon.handle_message(now, conn, message));
    }

    fn handle_closed(&mut self, now: Time, conn: ConnId) {
        self.with(|daemon| daemon.handle_closed(now, conn));
    }

    fn handle_timeout(&mut self, now: Time) {
        self.disk.handle_timeout(now);
        let Some(daemon) = &mut self.daemon else { return };
        while let Some(completion) = self.disk.poll_completion() {
            daemon.handle_completion(now, completion);
        }
        if daemon.poll_timeout().is_some_and(|due| due <= now) {
            daemon.handle_timeout(now);
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        let timer = self.daemon.as_ref()?.poll_timeout();
        timer.into_iter().chain(self.disk.poll_timeout()).min()
    }

    fn poll_output(&mut self, now: Time) -> Option<NodeOutput> {
        let daemon = self.daemon.as_mut()?;
        loop {
            let Some(output) = daemon.poll_output() else {
                self.disk.end_turn(now);
                return None;
            };
            match output.for_sessions() {
                Ok(output) => {
                    self.digest.output(&output);
                    return Some(output);
                }
                Err(request) => {
                    self.digest.request(&request);
                    self.disk.submit(now, request);
                }
            }
        }
    }
}
