//! Where a monitor serves what it serves besides its sessions: metrics, and the console.

use anyhow::{Context, Result};
use host::{AnyCore, PORT_TIME_MAX};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Time after which another port is taken. That of a killed predecessor is free again when the monitor's own
/// is, which was waited for.
const OTHER_PORT_AFTER: Duration = Duration::from_millis(500);

/// Where something is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceAddr {
    /// Not at all.
    Nowhere,
    /// There, or at another port if that is taken.
    Preferably(SocketAddr),
    /// There, or the monitor does not start.
    Exactly(SocketAddr),
}

impl ServiceAddr {
    /// Listens for the node of this number; returns the address. `what` is the name of the option.
    pub fn listen(
        self,
        core: &mut AnyCore,
        node: usize,
        what: &'static str,
    ) -> Result<Option<SocketAddr>> {
        let mut listen = |addr: SocketAddr, patience: Duration| {
            let listening = core.listen_for_streams(addr, node, patience);
            listening.with_context(|| format!("serving the {what} (--{what})"))
        };
        match self {
            ServiceAddr::Nowhere => Ok(None),
            ServiceAddr::Exactly(addr) => listen(addr, PORT_TIME_MAX).map(Some),
            ServiceAddr::Preferably(addr) => {
                let listening = listen(addr, OTHER_PORT_AFTER);
                if !listening.as_ref().is_err_and(is_taken) {
                    return listening.map(Some);
                }
                let local = listen(SocketAddr::new(addr.ip(), 0), Duration::ZERO)?;
                tracing::warn!(%addr, %local, "the port of the {what} is taken: another is used");
                Ok(Some(local))
            }
        }
    }
}

fn is_taken(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::AddrInUse)
}
