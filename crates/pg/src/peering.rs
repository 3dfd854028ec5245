//! Peering: agreement on the history of the group, and activation. One file per group of states.
//!
//! ```text
//! primary  GetInfo → GetLog → GetMissing → WaitUpThru → Activating → Active (or Inactive)
//!             ├→ Down, Incomplete       until OSDs come back
//!             └→ WaitActingChange       until the map has other members
//! replica  Replica → ReplicaActive
//! other    Stray
//! ```

mod activating;
mod follow;
mod get_info;
mod get_log;
mod interval;
mod replica;
