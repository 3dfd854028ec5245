//! Processes: a daemon, what it keeps its state on, and what outlives it.
//!
//! A crash takes the daemon and everything its disk had not made durable. A start makes a new
//! daemon over the same disk.

mod block_disk;
mod client;
mod contents;
mod control_disk;
mod image_owner;
mod image_sharer;
mod image_user;
mod monitor;
mod osd;
mod store_disk;

pub use client::{ClientProcess, Submitted, Told};
pub use contents::Contents;
pub use control_disk::{ControlDisk, Shared, SharedControl};
pub use image_owner::ImageOwner;
pub use image_sharer::ImageSharer;
pub use image_user::ImageUser;
pub use monitor::MonitorProcess;
pub use osd::OsdProcess;
pub use store_disk::StoreDisk;

use crate::network::{AuthAnswer, AuthStep};
use engine::{
    AuthRequest, AuthVerdict, ConnId, ConnectTarget, Daemon, Message, Output, Peer, Time,
};

/// What a daemon keeps its state on.
pub trait Disk {
    type Request;
    type Completion;

    fn submit(&mut self, now: Time, request: Self::Request);
    /// All that the daemon wants for now was submitted.
    fn end_turn(&mut self, _now: Time) {}
    fn poll_completion(&mut self) -> Option<Self::Completion>;
    /// When something becomes ready.
    fn next_event(&self) -> Option<Time>;
    fn advance(&mut self, now: Time);
    /// Loses what is not durable.
    fn crash(&mut self);
}

/// What is left of a daemon's outputs once its disk has taken its own.
#[derive(Debug)]
pub enum ProcessOutput {
    Send { conn: ConnId, message: Message },
    Connect { conn: ConnId, target: ConnectTarget },
    Close { conn: ConnId },
    Auth { conn: ConnId, verdict: AuthVerdict },
    Pause { conn: ConnId, paused: bool },
}

/// What the world does with every process alike.
pub trait Process {
    fn is_up(&self) -> bool;
    fn crash(&mut self);
    fn handle_auth(&mut self, now: Time, conn: ConnId, request: AuthRequest);
    fn handle_opened(&mut self, now: Time, conn: ConnId, peer: Peer);
    fn handle_message(&mut self, now: Time, conn: ConnId, message: Message);
    fn handle_refused(&mut self, now: Time, conn: ConnId);
    fn handle_closed(&mut self, now: Time, conn: ConnId);
    /// The next step of the authentication of a session that this process opens.
    fn authenticate(&mut self, now: Time, conn: ConnId, step: AuthStep) -> AuthAnswer;
    /// Timers and disk.
    fn handle_timeout(&mut self, now: Time);
    fn poll_timeout(&self) -> Option<Time>;
    fn poll_output(&mut self, now: Time) -> Option<ProcessOutput>;
    fn check_invariants(&self);
}

/// A daemon, while it runs, with its disk.
pub struct Hosted<D, S> {
    pub daemon: Option<D>,
    pub disk: S,
}

impl<D, S> Hosted<D, S> {
    pub fn new(disk: S) -> Self {
        Hosted { daemon: None, disk }
    }
}

impl<D, S> Hosted<D, S>
where
    D: Daemon,
    S: Disk<Request = D::Request, Completion = D::Completion>,
{
    fn with(&mut self, act: impl FnOnce(&mut D)) {
        if let Some(daemon) = &mut self.daemon {
            act(daemon);
        }
    }

    fn crash(&mut self) {
        self.daemon = None;
        self.disk.crash();
    }

    fn handle_timeout(&mut self, now: Time) {
        self.disk.advance(now);
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
        timer.into_iter().chain(self.disk.next_event()).min()
    }

    fn poll_output(&mut self, now: Time) -> Option<ProcessOutput> {
        let daemon = self.daemon.as_mut()?;
        loop {
            let Some(output) = daemon.poll_output() else {
                self.disk.end_turn(now);
                return None;
            };
            return Some(match output {
                Output::Storage(request) => {
                    self.disk.submit(now, request);
                    continue;
                }
                Output::Send { conn, message } => ProcessOutput::Send { conn, message },
                Output::Connect { conn, target } => ProcessOutput::Connect { conn, target },
                Output::Close { conn } => ProcessOutput::Close { conn },
                Output::Auth { conn, verdict } => ProcessOutput::Auth { conn, verdict },
                Output::Pause { conn, paused } => ProcessOutput::Pause { conn, paused },
            });
        }
    }
}

/// The part of [`Process`] that is the same for all.
macro_rules! delegate_process {
    () => {
        fn is_up(&self) -> bool {
            self.hosted.daemon.is_some()
        }

        fn crash(&mut self) {
            self.hosted.crash();
        }

        fn handle_auth(&mut self, now: Time, conn: ConnId, request: AuthRequest) {
            self.hosted.with(|daemon| daemon.handle_auth(now, conn, request));
        }

        fn handle_opened(&mut self, now: Time, conn: ConnId, peer: Peer) {
            self.hosted.with(|daemon| daemon.handle_opened(now, conn, peer));
        }

        fn handle_message(&mut self, now: Time, conn: ConnId, message: Message) {
            self.hosted.with(|daemon| daemon.handle_message(now, conn, message));
        }

        fn handle_refused(&mut self, now: Time, conn: ConnId) {
            self.hosted.with(|daemon| daemon.handle_refused(now, conn));
        }

        fn handle_closed(&mut self, now: Time, conn: ConnId) {
            self.hosted.with(|daemon| daemon.handle_closed(now, conn));
        }

        fn poll_output(&mut self, now: Time) -> Option<ProcessOutput> {
            self.hosted.poll_output(now)
        }
    };
}
pub(crate) use delegate_process;

macro_rules! delegate_time {
    () => {
        fn handle_timeout(&mut self, now: Time) {
            self.hosted.handle_timeout(now);
        }

        fn poll_timeout(&self) -> Option<Time> {
            self.hosted.poll_timeout()
        }
    };
}
pub(crate) use delegate_time;
