//! Peering: agreement on the history of the group, and activation. One file per group of states.
//!
//! ```text
//! primary  GetInfo → GetLog → GetMissing → WaitUpThru → Activating → Active (or Inactive)
//!             ├→ Down, Incomplete       until OSDs come back
//!             └→ WaitActingChange       until the map has other members
//! replica  Replica → ReplicaActive
//! other    Stray
//! ```

mod follow;
mod interval;
mod replica;
