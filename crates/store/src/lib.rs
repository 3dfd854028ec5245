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
//! [`mem::MemStore`] is the executable definition: the reference that other stores are tested
//! against. [`crash::CrashStore`] wraps it with a crash model for the simulator.

// Errors name their object; they are rare and never on a hot path.
#![allow(clippy::result_large_err)]
#![warn(missing_docs)]

mod collection;
pub mod crash;
mod fault;
mod fence;
mod hashes;
mod interface;
pub mod key;
pub mod mem;
mod transaction;

pub use collection::Collection;
pub use fault::{Cause, DeviceFault};
pub use fence::Fence;
pub use hashes::Hashes;
pub use interface::{
    Completion, ObjectMeta, ObjectStore, OmapPage, Outcome, ReadData, Request, RequestKind,
    StoreError, Usage,
};
pub use transaction::{BOOKKEEPING_BYTES_MAX, Change, Purpose, Transaction};
