//! One placement group: its log, replication to its members, and agreement after restarts.
//!
//! A [`Pg`] is the copy of one group on one OSD. The OSD tells it maps, messages of other members
//! and completions of the store, and hands it writes; it says what to send, what to store and
//! which writes are durable everywhere.
//!
//! ```text
//!  primary   GetInfo → GetLog → Recovering → Equalizing → Activating → Active
//!  member    Replica → CatchingUp → Replica → ReplicaActive
//!  others    Stray (may hold an old copy), Inactive (too few members), Incomplete (no whole copy)
//! ```
//!
//! Invariants:
//! * The log, the info and the data of a write are stored in one transaction.
//! * A write is confirmed when all acting members have stored it; a group becomes active when all
//!   acting members are equal and have stored that they are (`last_epoch_started`). So the copy with
//!   the newest `last_epoch_started` and then the longest log has all confirmed writes, unless OSDs
//!   that are down now were active by themselves later; then the group waits for them.
//! * A copy that is being changed into another's is marked as incomplete on disk until it is equal,
//!   and never serves as an authority meanwhile.
//! * What belongs to an earlier interval (set of members) has no effect.
//!
//! Knows nothing of clients, operations, sessions and maps: who the members are is an argument.

mod catch_up;
mod info;
mod load;
mod log;
pub mod message;
mod object_info;
mod peering;
mod replicate;
pub mod scrub;
mod source;
pub mod split;
mod stall;
mod state;

pub use info::{Completeness, PgInfo, is_log_key};
pub use log::{EntryKind, LOG_ENTRIES_KEPT, LOG_ENTRIES_MAX, LogEntry, PgLog};
pub use object_info::{
    AllocHint, INFO_ATTR, ObjectInfo, WatcherInfo, WatcherKey, is_meta_object, meta_object,
    user_attr, user_attr_name,
};
pub use replicate::Write;
pub use state::{Members, Others, Output, Pg, State, Tag};

#[cfg(test)]
mod tests;
