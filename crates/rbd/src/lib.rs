//! Block device images: the native client engine, on top of crate `rados`.
//!
//! Images have librbd's format 2: an id object by the image's name, a header object whose omap the class
//! `rbd` maintains, and data objects. Stock clients and this one read what the other has written.
//!
//! ```text
//! Task   an operation on an image: create, open, remove, resize, take_snapshot, …; poll_outcome, progress
//! Image  an open image: submit(Request) -> RequestId; poll_completion; handle_watch_event
//! both are RequestSources: poll_request -> ClusterRequest, handle_response
//! ```
//!
//! Invariants:
//! * A completed write is durable: it completes when the OSDs have acknowledged every object that it touches.
//! * Writes of one object reach it in the order of their submission, if none of them touches more than 64
//!   objects, and reads see writes submitted before them. A read in flight may see writes submitted after it.
//! * Every request completes, with an outcome or an error that says why.
//!
//! It deliberately knows neither sockets nor time, nor the users of an image. The caller bounds the number
//! of requests in flight.

#![warn(missing_docs)]

mod calls;
mod error;
mod features;
mod header;
mod image;
mod layout;
mod lock;
mod maintenance;
#[cfg(test)]
mod memory;
mod names;
mod notify;
mod object_map;
mod part;
mod snapshot;
mod snapshot_list;
mod steps;
mod task;
mod tasks;
mod transfer;
mod watchers;
mod work;

pub use error::Error;
pub use features::{Features, InvalidFeature};
pub use header::{Header, Info, Parent, ParentInfo};
pub use image::{Image, ImageEvent, Outcome, Piece, Request, RequestId};
pub use layout::{Extent, Layout};
pub use maintenance::parents::CloneFormat;
pub use names::{ImageSpec, Pool};
pub use object_map::{MapFindings, Mismatch, ObjectMap, State};
pub use rados::{
    ClusterRequest, ClusterRequestId, ClusterResponse, Progress, RequestRouter, RequestSource,
};
pub use snapshot::{Protection, Purpose, Snapshot};
pub use task::Task;
pub use tasks::{
    Child, CloneSpec, CreateSpec, Migration, Purged, Usage, change_features, check_object_map,
    children, clone_image, create, expired, flatten, info, list, migrate, names_of, namespaces,
    object_map, open, open_snapshot, protect_snapshot, purge_snapshots, rebuild_object_map, remove,
    remove_from_trash, remove_snapshot, rename, rename_snapshot, resize, roll_back, snapshots,
    take_snapshot, unprotect_snapshot, usage,
};
