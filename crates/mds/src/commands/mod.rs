//! Commands to one metadata server (`ceph tell mds.X …`): which there are, and filters of sessions.

pub(crate) mod filter;
pub(crate) mod pending;
pub(crate) mod table;

/// Version of the server, as it tells it.
pub(crate) const VERSION: &str = concat!(
    "sepiola version ",
    env!("CARGO_PKG_VERSION"),
    ", like ceph version 18.2.0 reef (stable)"
);
