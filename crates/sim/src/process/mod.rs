//! Processes: a daemon, its durable state, and the state that outlives a crash.
//!
//! A crash loses the daemon and everything that its disk had not made durable. A start creates a new daemon
//! over the same disk.

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

pub use block_disk::DeviceBlock;
pub use client::{ClientEvent, ClientProcess, Submitted};
pub use contents::Contents;
pub use control_disk::{ControlDisk, Shared, SharedControl};
pub use image_owner::ImageOwner;
pub use image_sharer::ImageSharer;
pub use image_user::ImageUser;
pub use monitor::MonitorProcess;
pub use osd::OsdProcess;
pub use store_disk::StoreDisk;

use crate::digest::Digest;
use engine::{
    AuthRequest, ConnId, ConnectingAnswer, ConnectingStep, Daemon, Message, Node, NodeOutput, Peer,
    Storage, Time,
};
use std::fmt::Debug;

/// Simulated storage of a daemon: its timers are the completions of disk operations.
pub trait Disk: Storage {
    /// Called when the daemon has submitted all requests that its last input causes.
    fn end_turn(&mut self, _now: Time) {}
    /// Loses state that is not durable.
    fn crash(&mut self);
}

/// A node that can crash, as the world runs it.
pub trait Process: Node {
    fn is_up(&self) -> bool;
    fn crash(&mut self);
    fn check_invariants(&self);
    /// Digest of all its outputs since the run began, over all its lives.
    fn digest(&self) -> u64;
}

/// A daemon, while it runs, with its disk.
pub struct Hosted<D, S> {
    pub daemon: Option<D>,
    pub disk: S,
    digest: Digest,
}

impl<D, S> Hosted<D, S>
where
    S: Disk,
{
    pub fn new(disk: S) -> Self {
        Hosted { daemon: None, disk, digest: Digest::default() }
    }

    fn crash(&mut self) {
        self.daemon = None;
        self.disk.crash();
    }

    fn with(&mut self, act: impl FnOnce(&mut D)) {
        if let Some(daemon) = &mut self.daemon {
            act(daemon);
        }
    }
}

/// Without a daemon, inputs are lost, and there are no outputs.
impl<D, S> Node for Hosted<D, S>
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

/// The methods of [`Node`] that concern time, for a process without timers of its own.
macro_rules! delegate_time {
    () => {
        fn handle_timeout(&mut self, now: engine::Time) {
            self.hosted.handle_timeout(now);
        }

        fn poll_timeout(&self) -> Option<engine::Time> {
            self.hosted.poll_timeout()
        }
    };
}
pub(crate) use delegate_time;

/// The methods of [`Process`] that are the same for all processes.
macro_rules! delegate_life {
    () => {
        fn is_up(&self) -> bool {
            self.hosted.daemon.is_some()
        }

        fn crash(&mut self) {
            self.hosted.crash();
        }

        fn digest(&self) -> u64 {
            self.hosted.digest.value()
        }
    };
}
pub(crate) use delegate_life;
