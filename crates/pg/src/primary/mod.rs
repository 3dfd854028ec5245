//! The primary of a group, from the first query of an interval to service.
//!
//! ```text
//! GetInfo → GetLog → GetMissing → WaitUpThru → Activating → WaitReadable → Active (or Inactive)
//!    ├→ Down, Incomplete       until OSDs come back
//!    └→ WaitActingChange       until the map has other members
//! ```
//!
//! Each stage carries what only it needs. What the members agreed on is handed from stage to stage, and is
//! gone when peering restarts.

mod activating;
mod get_info;
mod get_log;
mod prior_leases;
mod stage;

pub(crate) use get_log::log_of;
pub(crate) use stage::{Primary, Stage};
