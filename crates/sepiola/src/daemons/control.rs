//! The control store of a monitor: the one that its directory names.

use super::mark::MarkKeeper;
use access::DataDir;
use anyhow::Result;
use control::{Completion, Request};
use embedded::EmbeddedControl;
use engine::{Storage, Time};
use etcd::{EtcdControl, EtcdOptions};
use host::DiskStorage;
use rt::Waker;
use std::net::SocketAddr;

/// The control store of a monitor.
pub enum Control {
    /// One file, for a cluster on one machine.
    Embedded(EmbeddedControl),
    /// For any number of monitors.
    Etcd(EtcdControl),
}

impl Control {
    /// The store of a cluster's directory: the etcd that it names, or the file in it. `writer` names the
    /// monitor that listens at that address.
    pub fn open(dir: &DataDir, writer: &str, listen: SocketAddr, waker: Waker) -> Result<Self> {
        let mark = Box::new(MarkKeeper::new(dir)?);
        if dir.etcd().exists() {
            let mut options = EtcdOptions::load(&dir.etcd())?;
            options.prefer(listen.ip());
            let control = EtcdControl::open(&options, writer, Some(mark), move || waker.wake())?;
            return Ok(Control::Etcd(control));
        }
        let control = EmbeddedControl::open(&dir.control(), mark, move || waker.wake())?;
        Ok(Control::Embedded(control))
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
