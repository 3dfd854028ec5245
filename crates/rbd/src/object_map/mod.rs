//! The object map of an image: two bits for each data object, in an object of its own, maintained by the
//! owner of the exclusive lock.
//!
//! An object that the map has as nonexistent is neither read nor removed. Therefore the map says that an
//! object exists before it is written, and that it does not exist only after it was removed; in between its
//! state is *pending*. A map that cannot be updated is marked invalid in the header, and is not used until it
//! is rebuilt.

pub(crate) mod calls;
mod examine;
mod owner;
mod snapshots;
mod states;

pub use examine::{MapFindings, Mismatch};
pub(crate) use examine::{check, rebuild};
pub(crate) use owner::{close, invalidate, load, open, resize, update, update_all};
pub(crate) use snapshots::{
    make_empty, mark_all_invalid, remove_all, rolled_back, rolling_back, snapshot_removed,
    snapshot_taken, update_snapshot,
};
pub use states::{ObjectMap, State};
