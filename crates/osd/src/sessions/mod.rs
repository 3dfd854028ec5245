//! Sessions with clients, other OSDs and a monitor, and their authentication.

pub(crate) mod authentication;
pub(crate) mod clients;
pub(crate) mod monitor;
pub(crate) mod peers;
pub(crate) mod throttle;
