//! The control stores that a monitor can have: the contract is `mon::control`.
//!
//! * [`embedded`]: one file, for a cluster on one machine.
//! * [`etcd`]: for any number of monitors.
//! * [`mark`]: how far a monitor has seen either go.

pub mod embedded;
pub mod etcd;
pub mod mark;
mod moving;
mod rebuild;
mod remains;

pub use embedded::initialise;
pub use moving::UNFINISHED;
pub use moving::{check_vacant, initialise_etcd};

use crate::cli::ControlCommand;
use access::DataDir;
use anyhow::Result;
use engine::Storage;
use engine::Time;
use host::DiskStorage;
use mon::control::{Completion, Request};
use rt::Waker;
use std::net::SocketAddr;

pub enum Control {
    Embedded(embedded::EmbeddedControl),
    Etcd(etcd::EtcdControl),
}

impl Control {
    /// The store of a cluster's directory: the etcd that it names, or the file in it. `writer` names the
    /// monitor that listens at that address.
    pub fn open(dir: &DataDir, writer: &str, listen: SocketAddr, waker: Waker) -> Result<Self> {
        let mark = mark::MarkKeeper::new(dir)?;
        if dir.etcd().exists() {
            let mut options = etcd::EtcdOptions::load(&dir.etcd())?;
            options.prefer(listen.ip());
            let control =
                etcd::EtcdControl::open(&options, writer, Some(mark), move || waker.wake())?;
            return Ok(Control::Etcd(control));
        }
        Ok(Control::Embedded(embedded::EmbeddedControl::open(&dir.control(), mark, waker)?))
    }
}

/// `sepiola control …`
pub fn run(command: &ControlCommand) -> Result<()> {
    match command {
        ControlCommand::Move(args) => moving::run(args),
        ControlCommand::Collect(args) => remains::collect(args),
        ControlCommand::Rebuild(args) => rebuild::rebuild(args),
    }
}

impl Storage for Control {
    type Request = Request;
    type Completion = Completion;

    fn submit(&mut self, now: Time, request: Request) {
        match self {
            Control::Embedded(control) => control.submit(now, request),
            Control::Etcd(control) => control.submit(now, request),
        }
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        match self {
            Control::Embedded(control) => control.poll_completion(),
            Control::Etcd(control) => control.poll_completion(),
        }
    }
}

impl DiskStorage for Control {}
