//! The object store interface: what an OSD asks of one disk.
//!
//! Objects live in *collections*, one per placement group. An object has data (sparse), attributes
//! (few, small, loaded as a whole), an omap header and an ordered omap (maybe millions of keys).
//! A [`Transaction`] changes any number of objects of any number of collections and is atomic: after
//! a crash either all of it is there or nothing. Transactions take effect in the order in which they
//! were submitted, and become durable in that order. One that is refused changes nothing; whether those
//! behind it are to happen without it, the caller says ([`RequestKind::Append`]).
//!
//! A store is asked by [`Request`]s and answers by [`Completion`]s with the same token, reads in any
//! order, commits in order. A read that is submitted after a commit *completed* sees its effects;
//! the caller that needs more orders its requests itself (the OSD does, per object).
//!
//! An erasure-coded group does not apply a write when it arrives: it is *held* until the group has
//! committed it, and then *settled* ([`Change::Hold`], [`Change::Settle`]) or dropped. Held changes belong
//! to a collection.
//!
//! [`mem::MemStore`] is the executable definition: the reference that other stores are tested
//! against. [`crash::CrashStore`] wraps it with a crash model for the simulator.

// Errors name their object; they are rare and never on a hot path.
#![allow(clippy::result_large_err)]
#![warn(missing_docs)]

mod check;
mod collection;
pub mod crash;
mod fault;
mod fence;
mod hashes;
mod held;
mod held_changes;
mod interface;
pub mod key;
pub mod mem;
mod transaction;

pub use check::check_changes;
pub use collection::Collection;
pub use fault::{Cause, DeviceFault};
pub use fence::Fence;
pub use hashes::Hashes;
pub use held::{HELD_MAX, HELD_UNIT, HeldChange, HoldFault, SettledSizes, VERSION_MAX, check_held};
pub use held_changes::HeldChanges;
pub use interface::{
    Completion, Counters, ObjectMeta, ObjectStore, OmapPage, Outcome, ReadData, Request,
    RequestKind, StoreError, Usage,
};
pub use transaction::{
    BOOKKEEPING_BYTES_MAX, Change, Purpose, SETTLING_BYTES_MAX, Transaction, join_held, split_held,
};
