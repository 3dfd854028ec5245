//! Operations on whole images, each as a [`Task`].

mod children;
mod clone;
#[cfg(test)]
mod clone_tests;
mod create;
mod directory;
mod features;
mod migrate;
#[cfg(test)]
mod migrate_tests;
mod object_map;
mod open;
mod remove;
mod resize;
mod snapshots;
#[cfg(test)]
mod tests;
mod trash;
mod usage;

pub use children::{Child, children};
pub use clone::{CloneSpec, clone_image, flatten};
pub use create::{CreateSpec, create};
pub use directory::{list, names_of, rename};
pub use features::change_features;
pub use migrate::{Migration, migrate};
pub use object_map::{check_object_map, rebuild_object_map};
pub use open::{info, object_map, open, open_snapshot};
pub use remove::{remove, remove_from_trash};
pub use resize::resize;
pub use snapshots::{
    Purged, protect_snapshot, purge_snapshots, remove_snapshot, rename_snapshot, roll_back,
    snapshots, take_snapshot, unprotect_snapshot,
};
pub use trash::{expired, namespaces};
pub use usage::{Usage, usage};
