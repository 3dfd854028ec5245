//! Processes: a daemon, its durable state, and the state that outlives a crash.
//!
//! A crash loses the daemon and everything that its disk had not made durable. A start creates a new daemon
//! over the same disk.
//!
//! The world runs every kind of process through [`Process`]. A new kind is a file of this directory, its
//! `impl Process` below, and a row in [`crate::cluster`].

mod block_disk;
mod client;
mod contents;
mod control_disk;
mod crashable;
mod disk;
mod file_client;
mod image_owner;
mod image_sharer;
mod image_user;
mod metadata_server;
mod monitor;
mod osd;
mod store_disk;

pub use block_disk::DeviceBlock;
pub use client::{ClientEvent, ClientProcess};
pub use contents::Contents;
pub use control_disk::{ControlDisk, Shared, SharedControl};
pub use disk::Disk;
pub use file_client::FileClientProcess;
pub use image_owner::ImageOwner;
pub use image_sharer::ImageSharer;
pub use image_user::{ImagePlace, ImageUser, ORDER_DEFAULT};
pub use metadata_server::MdsProcess;
pub use monitor::MonitorProcess;
pub use osd::OsdProcess;
pub use store_disk::StoreDisk;

use crate::model::ActorId;
use engine::{Node, Time};
use types::EntityAddrVec;

/// Nonce stride between lives of a client, so that a blocklist entry matches exactly one.
const NONCES: u32 = 1 << 16;

/// Circumstances of a start.
pub struct Start<'a> {
    /// The clock of the process.
    pub now: Time,
    /// The number of the process's starts so far, with this one.
    pub number: u32,
    /// Seed of the daemon's randomness.
    pub seed: [u8; 32],
    /// The name of this life of a client in the history.
    pub actor: ActorId,
    /// Addresses of the life before; those of this one.
    pub addrs: &'a mut EntityAddrVec,
}

/// A node that can crash, as the world runs it.
pub trait Process: Node {
    /// True while its daemon runs.
    fn is_up(&self) -> bool;
    /// Loses the daemon, and state that is not durable.
    fn crash(&mut self);
    /// Starts a new daemon over the same disk. The process may not run.
    fn start(&mut self, start: Start<'_>);
    /// Called before outputs are taken.
    fn begin_turn(&mut self) {}
    /// Panics if the state of the daemon or its disk contradicts itself.
    fn check_invariants(&self);
    /// Digest of all its outputs since the run began, over all its lives.
    fn digest(&self) -> u64;

    /// The process, if it is a monitor.
    fn as_monitor(&self) -> Option<&MonitorProcess> {
        None
    }

    /// The process, if it is a monitor.
    fn as_monitor_mut(&mut self) -> Option<&mut MonitorProcess> {
        None
    }

    /// The process, if it is an OSD.
    fn as_osd(&self) -> Option<&OsdProcess> {
        None
    }

    /// The process, if it is an OSD.
    fn as_osd_mut(&mut self) -> Option<&mut OsdProcess> {
        None
    }

    /// The process, if it is a metadata server.
    fn as_mds(&self) -> Option<&MdsProcess> {
        None
    }

    /// The process, if it is a metadata server.
    fn as_mds_mut(&mut self) -> Option<&mut MdsProcess> {
        None
    }

    /// The process, if it is a client of the file system.
    fn as_file_client(&self) -> Option<&FileClientProcess> {
        None
    }

    /// The process, if it is a client of the file system.
    fn as_file_client_mut(&mut self) -> Option<&mut FileClientProcess> {
        None
    }

    /// The process, if it is a client.
    fn as_client(&self) -> Option<&ClientProcess> {
        None
    }

    /// The process, if it is a client.
    fn as_client_mut(&mut self) -> Option<&mut ClientProcess> {
        None
    }
}

/// The methods of [`Process`] that are the same for all processes by name.
macro_rules! delegate_life {
    () => {
        fn is_up(&self) -> bool {
            self.daemon().is_some()
        }

        fn crash(&mut self) {
            self.crash();
        }

        fn digest(&self) -> u64 {
            self.digest()
        }

        fn check_invariants(&self) {
            self.check_invariants();
        }
    };
}

impl Process for MonitorProcess {
    delegate_life!();

    fn start(&mut self, start: Start<'_>) {
        self.start(start.seed);
    }

    fn begin_turn(&mut self) {
        self.note_leadership();
    }

    fn as_monitor(&self) -> Option<&MonitorProcess> {
        Some(self)
    }

    fn as_monitor_mut(&mut self) -> Option<&mut MonitorProcess> {
        Some(self)
    }
}

impl Process for OsdProcess {
    delegate_life!();

    fn start(&mut self, start: Start<'_>) {
        *start.addrs = self.start(start.number, start.seed);
    }

    fn as_osd(&self) -> Option<&OsdProcess> {
        Some(self)
    }

    fn as_osd_mut(&mut self) -> Option<&mut OsdProcess> {
        Some(self)
    }
}

impl Process for ClientProcess {
    delegate_life!();

    fn start(&mut self, start: Start<'_>) {
        let nonces = NONCES * (start.number - 1).min(1);
        start.addrs.0.iter_mut().for_each(|addr| addr.nonce += nonces);
        self.start(start.now, start.actor, start.seed);
    }

    fn as_client(&self) -> Option<&ClientProcess> {
        Some(self)
    }

    fn as_client_mut(&mut self) -> Option<&mut ClientProcess> {
        Some(self)
    }
}

impl Process for MdsProcess {
    delegate_life!();

    fn start(&mut self, start: Start<'_>) {
        start.addrs.0.iter_mut().for_each(|addr| addr.nonce = start.number);
        self.start(start.addrs.clone(), start.seed);
    }

    fn as_mds(&self) -> Option<&MdsProcess> {
        Some(self)
    }

    fn as_mds_mut(&mut self) -> Option<&mut MdsProcess> {
        Some(self)
    }
}

impl Process for FileClientProcess {
    delegate_life!();

    fn start(&mut self, start: Start<'_>) {
        let nonces = NONCES * (start.number - 1).min(1);
        start.addrs.0.iter_mut().for_each(|addr| addr.nonce += nonces);
        self.start(start.actor, start.seed);
    }

    fn as_file_client(&self) -> Option<&FileClientProcess> {
        Some(self)
    }

    fn as_file_client_mut(&mut self) -> Option<&mut FileClientProcess> {
        Some(self)
    }
}
