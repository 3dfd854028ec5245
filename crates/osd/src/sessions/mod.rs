//! Sessions with clients, other OSDs and a monitor, and their authentication.

pub(crate) mod accepting;
pub(crate) mod clients;
pub(crate) mod connecting;
pub(crate) mod monitor;
pub(crate) mod peers;
pub(crate) mod throttle;
