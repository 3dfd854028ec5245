//! The control stores that a monitor can have: the contract is `mon::control`.
//!
//! * [`embedded`]: one file, for a cluster on one machine.
//! * [`etcd`]: for any number of monitors.

pub mod embedded;
pub mod etcd;
mod moving;

pub use embedded::initialise;
pub use moving::{UNFINISHED, move_to_etcd};

use crate::cli::ControlCommand;
use crate::datadir::DataDir;
use crate::host::Storage;
use anyhow::Result;
use engine::Time;
use mon::control::{Completion, Request};
use rt::Waker;

pub enum Control {
    Embedded(embedded::EmbeddedControl),
    Etcd(etcd::EtcdControl),
}

impl Control {
    /// The store of a cluster's directory: the etcd that it names, or the file in it.
    pub fn open(dir: &DataDir, writer: &str, waker: Waker) -> Result<Self> {
        if dir.etcd().exists() {
            let options = etcd::EtcdOptions::load(&dir.etcd())?;
            let control = etcd::EtcdControl::open(&options, writer, move || waker.wake())?;
            return Ok(Control::Etcd(control));
        }
        Ok(Control::Embedded(embedded::EmbeddedControl::open(&dir.control(), waker)?))
    }
}

/// `sepiola control …`
pub fn run(command: &ControlCommand) -> Result<()> {
    match command {
        ControlCommand::Move(args) => move_to_etcd(args),
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
