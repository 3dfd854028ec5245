//! Block device images: the native client engine, on top of the room `rados`.
//!
//! An image is kept as librbd keeps it (format 2): an id object by its name, a header object whose
//! omap the class `rbd` looks after, and data objects, so that stock clients read what is written here
//! and the other way round.
//!
//! ```text
//! Task   what is done once: create, open, remove, resize, take_snapshot, …; poll_outcome, progress
//! Image  an open image: submit(Request) -> RequestId; poll_completion; handle_watch_event
//! both are Askers: poll_ask -> Ask, handle_answer
//! Errands  carries Asks of many Askers to one rados::Client and the answers back
//! ```
//!
//! Invariants:
//! * What is said to be written is durable: a write completes when the OSDs have acknowledged every
//!   object that it touches.
//! * Writes of the same object reach it in the order in which they were submitted, if none of them
//!   touches more than 64 objects, and reads see what was submitted before them. A read that is under
//!   way may see what was submitted after it.
//! * Everything that is asked of an engine completes, with an outcome or an error that says why.
//!
//! It deliberately does not know sockets, time, who shows an image to whom, or how many requests are
//! sensible: the caller bounds what it has in flight.

mod calls;
mod errands;
mod error;
mod features;
mod gather;
mod header;
mod image;
mod layout;
mod lock;
#[cfg(test)]
mod memory;
mod names;
mod notify;
mod object_map;
mod snapshot;
mod steps;
mod tasks;
mod transfer;
mod work;

pub use errands::{Asker, Errands};
pub use error::Error;
pub use features::{Features, InvalidFeature};
pub use header::{Header, Info, Parent, ParentInfo};
pub use image::{Image, ImageEvent, Outcome, Piece, Request, RequestId};
pub use layout::{Extent, Layout};
pub use names::{ImageSpec, Pool};
pub use object_map::{MapFindings, Mismatch, ObjectMap, State};
pub use snapshot::{Protection, Purpose, Snapshot};
pub use steps::{Answer, Ask, AskId, Progress, Task};
pub use tasks::{
    Child, CloneFormat, CloneSpec, CreateSpec, Migration, Purged, Usage, change_features,
    check_object_map, children, clone_image, create, expired, flatten, info, list, migrate,
    names_of, namespaces, object_map, open, open_snapshot, protect_snapshot, purge_snapshots,
    rebuild_object_map, remove, remove_from_trash, remove_snapshot, rename, rename_snapshot,
    resize, roll_back, snapshots, take_snapshot, unprotect_snapshot, usage,
};
