//! One placement group: its log, replication to its members, peering, recovery, backfill and scrub.
//!
//! A [`Pg`] is the copy of one group on one OSD. The OSD passes it maps, messages of other members,
//! completions of the store, and writes; the copy returns messages to send, requests to the store, and
//! the writes that are durable on all members.
//!
//! ```text
//!  primary   GetInfo → GetLog → GetMissing → WaitUpThru → Activating → Active
//!  replica   Replica → ReplicaActive
//!  other     Stray (may hold an old copy)
//!  any       SplitMerge, while the store splits or merges the copy
//! ```
//!
//! A copy is a core, which every role has, and a role with the state that only it needs:
//!
//! ```text
//!  pg  interval  view                  dispatch; the beginning and end of roles; queries
//!  primary  follower  split_merge      the roles (role), with a stage that carries its data
//!  serving                             the work of an activated primary: writes, recovery, backfill, repair
//!  holding                             writes of shards on their way to the store
//!  transfers  rows  peers              objects on their way; rows of shards; knowledge of the other copies
//!  core                                what is stored, the group's place in the map, leases, outputs
//!  backend                             the rules that depend on how objects are kept: pure functions
//!  choice  merge  split  message  scrub   pure functions, and what goes over the wire
//! ```
//!
//! Invariants:
//! * The log, the info and the data of a write are stored in one transaction.
//! * A write is acknowledged when all acting members have stored it, and a group becomes active when all
//!   of them have stored that they follow the primary's log (`last_epoch_started`). So each copy of the
//!   newest activation has all writes acknowledged before it, and the copy with the newest entry has all
//!   writes acknowledged since.
//! * A primary serves requests only after it has heard from a survivor of each interval that may have
//!   accepted writes.
//! * An object that a copy's log knows and its store does not have is durably in its missing set until
//!   the store has it, and the content under its name is never served. All other objects are served.
//! * Messages and completions of an earlier interval have no effect.
//!
//! Knows nothing of clients, operations, sessions and maps; the caller passes the members in.

#![warn(missing_docs)]

mod backend;
mod choice;
mod clients;
mod core;
mod dups;
mod follower;
mod holding;
mod info;
mod interval;
mod intervals;
mod invariants;
mod layout;
mod leases;
mod loading;
mod log;
mod log_entry;
mod members;
mod merge;
pub mod message;
mod missing;
mod object_info;
mod osds;
mod peers;
mod pg;
mod primary;
mod refusals;
mod role;
mod rows;
pub mod scrub;
mod serving;
mod shard_merge;
mod shards;
mod sizes;
pub mod snaps;
pub mod split;
mod split_merge;
mod state;
mod transfers;
mod view;

pub use backend::ROW;
pub use core::{Output, Tag};
pub use dups::{DupBatch, Dups, LogDup};
pub use info::{PgHistory, PgInfo, decode_dups_key, is_log_key};
pub use intervals::{Interval, Members, PastIntervals};
pub use layout::{ErasureCode, ErasureLayout, Layout};
pub use log::PgLog;
pub use log_entry::{EntryKind, LogEntry};
pub use members::Member;
pub use missing::{Item, Missing};
pub use object_info::{
    AllocHint, INFO_ATTR, ObjectInfo, WatcherInfo, WatcherKey, is_meta_object, meta_object,
    user_attr, user_attr_name,
};
pub use osds::{OsdStatus, Osds};
pub use pg::Pg;
pub use rows::{Read, ReadError};
pub use serving::{AlsoWritten, BackfillState, Probe, Write};
pub use shards::{ShardChange, ShardSet, ShardState, ShardVersions};
pub use sizes::{DUPS_KEPT, LOG_ENTRIES_KEPT, LOG_ENTRIES_MAX, SETTLE_IDLE, Sizes};
pub use split_merge::MergedVersions;
pub use state::{MapChange, State};

#[cfg(test)]
mod tests;
