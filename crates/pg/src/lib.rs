//! One placement group: its log, replication to its members, and agreement after restarts.
//!
//! A [`Pg`] is the copy of one group on one OSD. The OSD tells it maps, messages of other members
//! and completions of the store, and hands it writes; it says what to send, what to store and
//! which writes are durable everywhere.
//!
//! ```text
//!  primary   GetInfo → GetLog → GetMissing → WaitUpThru → Activating → Active
//!  member    Replica → ReplicaActive
//!  others    Stray (may hold an old copy)
//!  anyone    Reshaping, while the store divides the copy into several groups
//! ```
//!
//! Invariants:
//! * The log, the info and the data of a write are stored in one transaction.
//! * A write is confirmed when all acting members have stored it, and a group becomes active when all
//!   of them have stored that they follow the primary's log (`last_epoch_started`). So among the copies
//!   of the newest activation each has all that was confirmed before it, and the one with the newest
//!   entry all that was confirmed since.
//! * A primary that serves has heard from a survivor of each interval that may have been written to.
//! * What a copy's log knows and its store does not have is listed, durably, until it has it; nobody
//!   sees what lies under such a name. While something is listed, all the rest is served.
//! * What belongs to an earlier interval (set of members) has no effect.
//!
//! Knows nothing of clients, operations, sessions and maps: who the members are is an argument.

mod backfill;
mod choice;
mod clients;
mod dups;
mod info;
mod intervals;
mod leases;
mod load;
mod log;
mod lost;
mod merge;
pub mod message;
mod missing;
mod object_info;
mod osds;
mod peering;
mod peers;
mod persist;
mod receive;
mod recovery;
mod replicate;
mod reshape;
pub mod scrub;
mod search;
mod sizes;
pub mod snaps;
mod source;
pub mod split;
mod stall;
mod state;
mod view;

pub use backfill::BackfillState;
pub use dups::{DUPS_KEPT, DupBatch, Dups, LogDup};
pub use info::{PgHistory, PgInfo, decode_dups_key, is_log_key};
pub use intervals::{Interval, Members, PastIntervals};
pub use log::{EntryKind, LOG_ENTRIES_KEPT, LOG_ENTRIES_MAX, LogEntry, PgLog};
pub use lost::Probe;
pub use missing::{Item, Missing};
pub use object_info::{
    AllocHint, INFO_ATTR, ObjectInfo, WatcherInfo, WatcherKey, is_meta_object, meta_object,
    user_attr, user_attr_name,
};
pub use osds::{OsdStatus, Osds};
pub use replicate::{AlsoWritten, Write};
pub use reshape::MergedVersions;
pub use sizes::Sizes;
pub use state::{MapChange, Output, Pg, State, Tag};

#[cfg(test)]
mod tests;
